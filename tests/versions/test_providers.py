"""EKS and GKE as fleets: the real clients against small fakes of the services, and moto where it can."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerRestTransport
from moto import mock_aws

from local.cli import main
from shared import wiring
from shared.adapters.eks_versions import EksVersions
from shared.adapters.gke_versions import GkeVersions
from shared.domain.documents.kinds import ClusterSpec
from shared.domain.versions.clusters import VersionStep
from shared.ports import Refused, Stale, Unavailable
from shared.world import Settings
from tests.versions.test_functions import EVENING, Site, cloud_profile, shoot, site  # noqa: F401 - the fixture

Answer = tuple[int, dict[str, Any]]


class Service(ThreadingHTTPServer):
    """Answers by `METHOD path`; what it was asked with a body is kept in order."""

    def __init__(self) -> None:
        self.routes: list[tuple[str, Callable[..., Answer]]] = []
        self.asked: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=lambda: self.serve_forever(poll_interval=0.02), daemon=True)
        self.thread.start()

    def route(self, pattern: str, answer: Callable[..., Answer]) -> None:
        self.routes.append((pattern, answer))

    def close(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Service

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        call = f"{self.command} {self.path.partition('?')[0]}"
        for pattern, answer in self.server.routes:
            match = re.fullmatch(pattern, call)
            if match:
                if self.command != "GET":
                    self.server.asked.append((call, body))
                self.send(*answer(*match.groups(), **({"body": body} if self.command != "GET" else {})))
                return
        self.send(404, {"message": f"no {call}", "error": {"message": f"no {call}", "code": 404, "status": "NOT_FOUND"}})

    do_GET = do_POST = do_PUT = answer  # noqa: N815 - http.server's names

    def send(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if code >= 400 and "type" in body:
            self.send_header("x-amzn-ErrorType", body["type"])
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service()
    yield server
    server.close()


# --- EKS ------------------------------------------------------------------------------------------------------------------------------


class FakeEks:
    """One cluster with node groups. A control plane that is updated stays UPDATING until `finish`."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cluster = {"name": "prod", "version": "1.31", "status": "ACTIVE"}
        self.groups = {
            name: {"nodegroupName": name, "clusterName": "prod", "version": "1.31", "status": "ACTIVE", "amiType": "AL2023_x86_64_STANDARD"}
            for name in ("a", "b")
        }
        self.versions = [
            {"clusterVersion": "1.33", "versionStatus": "STANDARD_SUPPORT", "endOfStandardSupportDate": 1785369600},
            {"clusterVersion": "1.32", "versionStatus": "STANDARD_SUPPORT", "endOfStandardSupportDate": 1774224000},
            {"clusterVersion": "1.31", "versionStatus": "EXTENDED_SUPPORT", "endOfStandardSupportDate": 1764115200},
        ]
        service.route("GET /clusters/prod", lambda: (200, {"cluster": self.cluster}))
        service.route("GET /clusters/prod/node-groups", lambda: (200, {"nodegroups": list(self.groups)}))
        service.route("GET /clusters/prod/node-groups/(.*)", self.group)
        service.route("GET /cluster-versions", lambda: (200, {"clusterVersions": self.versions}))
        service.route("POST /clusters/prod/updates", self.update)
        service.route("POST /clusters/prod/node-groups/(.*)/update-version", self.update_group)

    def group(self, name: str) -> Answer:
        return (
            (200, {"nodegroup": self.groups[name]})
            if name in self.groups
            else (404, {"type": "ResourceNotFoundException", "message": name})
        )

    def update(self, body: dict[str, Any]) -> Answer:
        self.cluster |= {"status": "UPDATING", "wanted": body["version"]}
        return 200, {"update": {"id": "u1", "status": "InProgress"}}

    def update_group(self, name: str, body: dict[str, Any]) -> Answer:
        if self.cluster["status"] != "ACTIVE":
            return 409, {"type": "ResourceInUseException", "message": "the cluster is being updated"}
        self.groups[name]["version"] = body["version"]
        return 200, {"update": {"id": "u2", "status": "InProgress"}}

    def finish(self) -> None:
        self.cluster = {"name": "prod", "version": self.cluster["wanted"], "status": "ACTIVE"}


@pytest.fixture
def eks(service: Service) -> FakeEks:
    return FakeEks(service)


def eks_fleet(eks: FakeEks, **spec: Any) -> EksVersions:
    config = Config(retries={"total_max_attempts": 1})
    credentials = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "eu-central-1"}
    declared = ClusterSpec.model_validate(spec)
    return EksVersions("prod", "prod", lambda: boto3.client("eks", endpoint_url=eks.service.url, config=config, **credentials), declared)


UP = VersionStep("controlPlane", "kubernetes", "1.31", "1.32")
GROUP_UP = VersionStep("worker/a", "kubernetes", "1.31", "1.32.0")


def test_an_eks_cluster_is_read_with_its_node_groups_and_its_documents_window(eks: FakeEks) -> None:
    window = {"timeWindow": {"begin": "220000", "end": "230000"}, "timeZone": "Europe/Berlin", "autoUpdate": {"kubernetesVersion": False}}
    (cluster,) = eks_fleet(eks, maintenance=window).clusters()
    assert (cluster.id, cluster.kubernetes, cluster.auto_kubernetes) == ("eks/prod", "1.31", False)
    assert [(pool.name, pool.kubernetes) for pool in cluster.pools] == [("a", "1.31"), ("b", "1.31")]
    assert cluster.window.open(datetime(2026, 7, 1, 20, 30, tzinfo=UTC))


def test_eks_says_itself_what_it_offers_and_when_support_ends(eks: FakeEks) -> None:
    (profile,), _ = eks_fleet(eks).profiles()
    assert [(each.version, each.classification, each.expiration and each.expiration.date().isoformat()) for each in profile.kubernetes] == [
        ("1.33", "supported", "2026-07-30"),
        ("1.32", "supported", "2026-03-23"),
        ("1.31", "deprecated", "2025-11-26"),
    ]


def test_a_rehearsed_step_asks_for_nothing_and_a_real_one_for_a_minor(eks: FakeEks) -> None:
    fleet = eks_fleet(eks)
    assert fleet.apply("eks/prod", UP, dry_run=True)
    assert eks.service.asked == []
    assert fleet.apply("eks/prod", UP)
    assert [(call, body["version"]) for call, body in eks.service.asked] == [("POST /clusters/prod/updates", "1.32")]


def test_a_node_group_waits_for_its_control_plane(eks: FakeEks) -> None:
    fleet = eks_fleet(eks)
    fleet.apply("eks/prod", UP)
    with pytest.raises(Unavailable) as busy:
        fleet.apply("eks/prod", GROUP_UP)
    assert busy.value.reason == "UpdateRunning"
    eks.finish()
    assert fleet.apply("eks/prod", GROUP_UP)
    assert not fleet.apply("eks/prod", GROUP_UP)
    assert eks.groups["a"]["version"] == "1.32"


def test_a_node_group_never_goes_above_a_control_plane_that_rests(eks: FakeEks) -> None:
    with pytest.raises(Unavailable):
        eks_fleet(eks).apply("eks/prod", GROUP_UP)
    assert eks.groups["a"]["version"] == "1.31"


def test_what_eks_will_not_do_is_refused_with_its_words(eks: FakeEks) -> None:
    fleet = eks_fleet(eks)
    with pytest.raises(Stale):
        fleet.apply("eks/prod", VersionStep("controlPlane", "kubernetes", "1.30", "1.32"))
    with pytest.raises(Refused) as unknown:
        fleet.apply("eks/prod", VersionStep("worker/z", "kubernetes", "1.31", "1.32"))
    assert unknown.value.reason == "NotFound"
    eks.cluster["version"] = "1.32"
    eks.groups["a"]["amiType"] = "CUSTOM"
    with pytest.raises(Refused, match="image of its own"):
        fleet.apply("eks/prod", GROUP_UP)


@pytest.mark.parametrize("group", ["..", ".", "a/update-version", "a?x=y", "a#b", "a b", "ä", "a" * 101])
def test_a_node_group_of_a_message_that_would_change_the_url_is_not_asked_for(eks: FakeEks, group: str) -> None:
    calls: list[str] = []

    def unexpected(call: str, **_: Any) -> Answer:
        calls.append(call)
        return 404, {}

    eks.service.routes.insert(0, (r"(?s)(.*)", unexpected))
    eks.service.routes.insert(0, (r"GET /clusters/prod", lambda: (200, {"cluster": eks.cluster})))
    with pytest.raises(Refused, match="no name of a node group"):
        eks_fleet(eks).apply("eks/prod", VersionStep(f"worker/{group}", "kubernetes", "1.31", "1.32"))
    assert calls == []


def test_an_eks_service_that_fails_may_answer_later(eks: FakeEks) -> None:
    eks.service.routes.insert(0, ("GET /clusters/prod", lambda: (503, {"type": "ServiceUnavailableException", "message": "soon"})))
    with pytest.raises(Unavailable, match="soon"):
        list(eks_fleet(eks).clusters())
    eks.service.routes[0] = ("GET /clusters/prod", lambda: (403, {"type": "AccessDeniedException", "message": "not you"}))
    with pytest.raises(Refused, match="not you"):
        list(eks_fleet(eks).clusters())


@mock_aws
def test_motos_clusters_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    client = boto3.client("eks", region_name="eu-central-1")
    client.create_cluster(name="prod", version="1.31", roleArn="arn:aws:iam::123456789012:role/r", resourcesVpcConfig={})
    client.create_nodegroup(clusterName="prod", nodegroupName="a", subnets=["s"], nodeRole="arn:aws:iam::123456789012:role/n")
    spec = ClusterSpec.model_validate({"provider": "eks", "access": {"eks": {"region": "eu-central-1", "name": "prod"}}})
    (cluster,) = wiring.open_fleet(Settings(), "prod", spec).clusters()
    assert (cluster.id, cluster.kubernetes, [pool.name for pool in cluster.pools]) == ("eks/prod", "1.31", ["a"])


def test_an_eks_cluster_goes_through_the_functions_like_any_other(eks: FakeEks, site: Site) -> None:  # noqa: F811
    site.world.open_fleet = lambda _name, spec: eks_fleet(eks, **spec.to_json())
    spec = {
        "provider": "eks",
        "access": {"eks": {"region": "eu-central-1", "name": "prod"}},
        "maintenance": {"timeWindow": {"begin": "220000+0000", "end": "230000+0000"}},
    }
    site.commits({"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": spec})
    site.checks(EVENING)
    assert eks.cluster["status"] == "UPDATING"
    eks.finish()
    site.checks(EVENING.replace(minute=30))
    assert {name: group["version"] for name, group in eks.groups.items()} == {"a": "1.32", "b": "1.32"}
    assert [list(action.values()) for action in site.actions()] == [["changed", "skipped", "skipped"], ["changed", "changed"]]


# --- GKE ------------------------------------------------------------------------------------------------------------------------------

PLACE = "projects/p/locations/l"
NAME = f"/v1/{PLACE}/clusters/c"


class FakeGke:
    """One cluster on the regular channel."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cluster = {
            "name": "c",
            "status": "RUNNING",
            "currentMasterVersion": "1.31.5-gke.1000",
            "releaseChannel": {"channel": "REGULAR"},
            "nodePools": [{"name": "a", "version": "1.31.5-gke.1000", "config": {"imageType": "COS_CONTAINERD"}}],
        }
        self.valid = ["1.32.1-gke.200", "1.31.7-gke.100", "1.31.5-gke.1000"]
        channels = [{"channel": "RAPID", "validVersions": ["1.34.0-gke.1"]}, {"channel": "REGULAR", "validVersions": self.valid}]
        service.route(f"GET {NAME}", lambda: (200, self.cluster))
        service.route(f"GET /v1/{PLACE}/serverConfig", lambda: (200, {"channels": channels, "validMasterVersions": ["1.30.0-gke.1"]}))
        service.route(f"POST {NAME}:updateMaster", self.update)
        service.route(f"PUT {NAME}/nodePools/a", self.update_pool)

    def update(self, body: dict[str, Any]) -> Answer:
        self.cluster["currentMasterVersion"] = body["masterVersion"]
        return 200, {"name": "operation-1", "status": "RUNNING"}

    def update_pool(self, body: dict[str, Any]) -> Answer:
        self.cluster["nodePools"] = [{"name": "a", "version": body["nodeVersion"], "config": {"imageType": body["imageType"]}}]
        return 200, {"name": "operation-2", "status": "RUNNING"}


@pytest.fixture
def gke(service: Service) -> FakeGke:
    return FakeGke(service)


def gke_fleet(gke: FakeGke, **spec: Any) -> GkeVersions:
    def client() -> Any:
        host = gke.service.url.removeprefix("http://")
        transport = ClusterManagerRestTransport(host=host, url_scheme="http", credentials=AnonymousCredentials())  # type: ignore[no-untyped-call, unused-ignore]
        return container_v1.ClusterManagerClient(transport=transport)

    return GkeVersions("prod", PLACE, "c", client, ClusterSpec.model_validate(spec))


def test_a_gke_cluster_is_read_with_its_channels_versions(gke: FakeGke) -> None:
    fleet = gke_fleet(gke)
    (cluster,) = fleet.clusters()
    assert (cluster.id, cluster.kubernetes, [(p.name, p.kubernetes) for p in cluster.pools]) == (
        "gke/prod",
        "1.31.5-gke.1000",
        [("a", "1.31.5-gke.1000")],
    )
    (profile,), _ = fleet.profiles()
    assert (profile.name, [each.version for each in profile.kubernetes]) == (cluster.profile, gke.valid)


def test_gke_moves_its_control_plane_and_its_pools_and_keeps_their_image_type(gke: FakeGke) -> None:
    fleet = gke_fleet(gke)
    pool = VersionStep("worker/a", "kubernetes", "1.31.5-gke.1000", "1.31.7-gke.100")
    with pytest.raises(Unavailable) as early:
        fleet.apply("gke/prod", pool)
    assert early.value.reason == "UpdateRunning"
    master = VersionStep("controlPlane", "kubernetes", "1.31.5-gke.1000", "1.31.7-gke.100")
    assert fleet.apply("gke/prod", master, dry_run=True)
    assert gke.service.asked == []
    assert fleet.apply("gke/prod", master)
    assert not fleet.apply("gke/prod", master)
    assert fleet.apply("gke/prod", pool)
    assert [body for _, body in gke.service.asked] == [
        {"masterVersion": "1.31.7-gke.100"},
        {"nodeVersion": "1.31.7-gke.100", "imageType": "COS_CONTAINERD"},
    ]


def test_a_step_from_a_version_that_gke_left_is_stale(gke: FakeGke) -> None:
    with pytest.raises(Stale, match=r"1\.31\.5-gke\.1000 now, not 1\.30"):
        gke_fleet(gke).apply("gke/prod", VersionStep("controlPlane", "kubernetes", "1.30.1-gke.1", "1.31.7-gke.100"))
    assert gke.service.asked == []


def test_a_gke_operation_in_progress_means_later_and_a_refusal_means_no(gke: FakeGke) -> None:
    fleet = gke_fleet(gke)
    step = VersionStep("controlPlane", "kubernetes", "1.31.5-gke.1000", "1.31.7-gke.100")
    answers = {"code": 400, "status": "FAILED_PRECONDITION", "message": "operation-7 is running"}
    gke.service.routes.insert(0, (f"POST {NAME}:updateMaster", lambda body: (400, {"error": answers})))
    with pytest.raises(Unavailable, match="operation-7") as busy:
        fleet.apply("gke/prod", step)
    assert busy.value.reason == "UpdateRunning"
    gke.service.routes[0] = (f"POST {NAME}:updateMaster", lambda body: (403, {"error": {"code": 403, "message": "not you"}}))
    with pytest.raises(Refused, match="not you"):
        fleet.apply("gke/prod", step)
    with pytest.raises(Refused, match="no node pool"):
        fleet.apply("gke/prod", VersionStep("worker/z", "kubernetes", "1", "2"))
    gke.service.routes[0] = (f"POST {NAME}:updateMaster", lambda body: (503, {"error": {"code": 503, "message": "soon"}}))
    with pytest.raises(Unavailable, match="soon"):
        fleet.apply("gke/prod", step)


def test_the_command_line_sees_documents_and_live_fleets_as_one(
    eks: FakeEks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shared.wiring.open_fleet", lambda _settings, _name, spec: eks_fleet(eks, **spec.to_json()))
    spec = {"provider": "eks", "access": {"eks": {"region": "eu-central-1", "name": "prod"}}}
    written = [cloud_profile(), shoot(), {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": spec}]
    (tmp_path / "fleet.yaml").write_text("\n---\n".join(map(json.dumps, written)))
    with pytest.raises(SystemExit) as ending:
        main(["versions", "plan", "--live", "-f", str(tmp_path / "fleet.yaml"), "--now", EVENING.isoformat(), "-o", "json"])
    assert ending.value.code == 2
    found = {(each["cluster"], each["component"]): each["to"] for each in json.loads(capsys.readouterr().out)["decisions"] if each["to"]}
    assert found == {
        ("garden/s", "controlPlane"): "1.28.1",
        ("garden/s", "worker/a"): "1.28.1",
        ("eks/prod", "controlPlane"): "1.32",
        ("eks/prod", "worker/a"): "1.32.0",
        ("eks/prod", "worker/b"): "1.32.0",
    }
