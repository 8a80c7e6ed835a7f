"""Documents are data: they name what the operator configured, open no file and run no program of their own choosing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import functions_framework
import pytest
import yaml
from flask.testing import FlaskClient

from local import steps
from local.cli import main
from local.cli.inputs import read_files
from shared import telemetry, wiring
from shared.adapters.apiserver import Access as Login
from shared.adapters.gardener import Garden
from shared.adapters.kubernetes import Kubernetes
from shared.adapters.store import open_store
from shared.domain.documents.access import Access, Outdated
from shared.domain.documents.reading import Source
from shared.domain.site import check
from shared.messages import Outgoing
from shared.ports import ClusterError, NodeGone, Refused, StoreError
from shared.world import Settings, SettingsError, World
from tests.adapters.test_apiserver import Scripted, says

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class Bus:
    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        return


def a_cluster(name: str, access: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"access": access, **spec}}


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """Where the plugin of `bait` leaves a trace when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def bait(tmp_path: Path, ran: Path) -> Path:
    """A kubeconfig whose exec plugin leaves a trace; to open it is to run it."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"import sys; open({str(ran)!r}, 'w').close(); sys.exit(1)"],
        "interactiveMode": "Never",
    }
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }
    file = tmp_path / "bait" / "kubeconfig"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """The real wiring on a folder, with nothing configured."""
    telemetry.write_to(None)
    built = wiring.build(Settings(store=f"file:{tmp_path}/store"), Bus())
    wiring.install(built)
    yield built
    wiring.install(None)


@pytest.fixture
def client(world: World) -> FlaskClient:
    """The api as functions-framework hosts it."""
    hosted: FlaskClient = functions_framework.create_app("api", str(steps.load().steps["api"].source)).test_client()
    return hosted


def commits(world: World, *documents: dict[str, Any]) -> None:
    world.revisions.stage("default", [Source("site.yaml", yaml.safe_dump_all(documents).encode())], "me", NOW)
    world.revisions.commit("me", NOW)


# --- the attack


def test_a_document_that_names_the_servers_own_file_descriptors_is_not_committed(client: FlaskClient, bait: Path, ran: Path) -> None:
    """An upload over 500 kB is spooled to a file, which /proc/self/fd names while the request lasts; here the server holds it open."""
    with bait.open() as spooled:
        clusters = [a_cluster(f"fd{number}", {"kubeconfig": {"path": f"/proc/self/fd/{number}"}}) for number in (3, spooled.fileno())]
        client.post("/v1.0/configdocs/site", data=yaml.safe_dump_all(clusters), content_type="application/x-yaml")
        answer = client.post("/v1.0/commitconfigdocs")
        asked = client.get(f"/v1.0/node-labels/n1?cluster=fd{spooled.fileno()}")
    assert answer.status_code == 400
    said = answer.get_json()["details"]["messageList"]
    assert [(each["line"], each["path"], each["type"]) for each in said] == [
        (line, "spec.access.kubeconfig.path", "Forbidden") for line in (8, 17)
    ]
    assert "HULLMARK_KUBECONFIGS" in said[0]["message"]
    assert asked.status_code == 400
    assert "no cluster" in asked.get_json()["reason"]
    assert not ran.exists()


@pytest.mark.parametrize("name", ["../bait", "..", "/proc/self/fd/9", "bait/kubeconfig", "Bait", "a" * 64, "", "-a", "a\n"])
def test_a_name_that_could_be_a_path_is_not_committed(client: FlaskClient, name: str) -> None:
    for access in ({"kubeconfig": {"name": name}}, {"simulated": {"name": name}}):
        client.post("/v1.0/configdocs/site", data=json.dumps(a_cluster("c", access)), content_type="application/x-yaml")
        answer = client.post("/v1.0/commitconfigdocs")
        assert answer.status_code == 400
        assert answer.get_json()["details"]["messageList"][0]["path"].endswith(".name")


def test_a_revision_from_before_that_names_a_file_is_refused_where_it_is_opened(
    client: FlaskClient, world: World, tmp_path: Path, bait: Path, ran: Path
) -> None:
    commits(world, a_cluster("old", {"inCluster": {}}), a_cluster("seeded", {"inCluster": {}}), a_cluster("sound", {"inCluster": {}}))
    with bait.open() as opened:
        old = {
            "old": {"kubeconfig": {"path": f"/proc/self/fd/{opened.fileno()}"}},
            "seeded": {"simulated": {"nodes": "/dev/zero"}},
            "../../up": {"inCluster": {}},
        }
        (folder,) = (tmp_path / "store" / "revisions" / "000001").glob("*/")
        stored = json.loads((folder / "clusters.json").read_text()) | old
        (folder / "clusters.json").write_text(json.dumps(stored))
        policies = json.loads((folder / "policies.json").read_text())
        policies["clusters"] |= {name: {"access": access, "provider": "gardener"} for name, access in old.items()}
        (folder / "policies.json").write_text(json.dumps(policies))
        world = wiring.build(world.settings, Bus())
        wiring.install(world)
        for name in old:
            answer = client.get("/v1.0/node-labels/n1", query_string={"cluster": name})
            assert answer.status_code == 400
            assert "commit" in answer.get_json()["reason"]
        fleets = world.fleets(world.revisions.get(1))
        fleets.view()
    assert "kubeconfig.path, which is no longer accepted" in str(world.revisions.get(1).clusters["old"])
    assert isinstance(world.revisions.get(1).clusters["sound"], Access)
    assert [said.partition(": ")[2].partition(" ")[0] for said in fleets.unreachable] == ["Cluster/old", "Cluster/seeded", "Cluster"]
    assert [trouble.fleet for trouble in fleets.troubles] == list(old)
    assert not ran.exists()


def test_an_exec_plugin_runs_out_of_a_kubeconfig_that_the_settings_name(tmp_path: Path, bait: Path, ran: Path) -> None:
    settings = Settings(store="memory:", kubeconfigs=str(tmp_path))
    opened = wiring.build(settings, Bus()).open_cluster(Access.model_validate({"kubeconfig": {"name": "bait"}}), "c")
    assert not ran.exists()
    with pytest.raises(Refused, match="exec"):
        opened.server_version()
    assert ran.exists()


# --- what settings resolve


def kubeconfig(settings: Settings, **how: str) -> str:
    return settings.kubeconfig(how.get("name"), how.get("context")).path


def test_names_are_looked_up_in_a_folder_or_a_list() -> None:
    folder, listed = (
        Settings(kubeconfigs="/etc/hullmark/"),
        Settings(kubeconfigs="prod=/p/config, eu-1=~/eu,default=d", simulated="a=n.json"),
    )
    assert (kubeconfig(folder, name="prod"), kubeconfig(folder)) == ("/etc/hullmark/prod/kubeconfig", "/etc/hullmark/default/kubeconfig")
    assert [kubeconfig(listed, name=name) for name in ("prod", "eu-1")] == ["/p/config", "~/eu"]
    assert kubeconfig(listed) == "d"
    assert listed.seed("a").path == "n.json"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(), r"HULLMARK_KUBECONFIGS has no entry 'prod' \(there: none\)"),
        (Settings(kubeconfigs="a=b,c=d"), r"no entry 'prod' \(there: a, c\)"),
        (Settings(kubeconfigs="kubectl:"), "no entry 'prod'"),
    ],
)
def test_a_name_that_nobody_configured_is_refused_with_what_there_is(settings: Settings, said: str) -> None:
    with pytest.raises(Refused, match=said):
        kubeconfig(settings, name="prod")


@pytest.mark.parametrize("value", ["a=b,a=c", "../x=y", "A=b", "=b", "a=", "a=b,c", "a/b=c"])
@pytest.mark.parametrize("variable", ["HULLMARK_KUBECONFIGS", "HULLMARK_SIMULATED"])
def test_a_list_that_cannot_be_read_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        Settings.from_environment({variable: value})


def test_functions_have_no_kubeconfig_of_their_own_and_the_command_line_has_kubectls(
    monkeypatch: pytest.MonkeyPatch, bait: Path, ran: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(bait))
    documented = Access.model_validate({"kubeconfig": {"context": "c"}})
    with pytest.raises(Refused, match="HULLMARK_KUBECONFIGS"):
        wiring.build(Settings.from_environment({"HULLMARK_STORE": "memory:"}), Bus()).open_cluster(documented, "c")
    monkeypatch.setenv("HULLMARK_STORE", "memory:")
    opened = wiring.build(Settings.of_the_command_line(), Bus()).open_cluster(documented, "c")
    assert not ran.exists()
    with pytest.raises(Refused, match="exec"):
        opened.server_version()
    monkeypatch.setenv("HULLMARK_KUBECONFIGS", "prod=x")
    with pytest.raises(Refused, match=r"no entry 'default' \(there: prod\)"):
        wiring.build(Settings.of_the_command_line(), Bus()).open_cluster(documented, "c")


def test_the_operators_own_setting_keeps_taking_paths(tmp_path: Path, bait: Path, ran: Path) -> None:
    world = wiring.build(Settings(store="memory:", cluster=f"kubeconfig:{bait}?context=c"), Bus())
    with pytest.raises(Refused, match="exec"):
        world.cluster("default", None).server_version()
    assert ran.exists()


# --- the command line


def test_versions_live_opens_nothing_out_of_documents_that_a_commit_would_refuse(
    tmp_path: Path, bait: Path, ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site.yaml").write_text(json.dumps(a_cluster("garden", {"kubeconfig": {"path": str(bait)}}, provider="gardener")))
    with pytest.raises(SystemExit) as ended:
        main(["versions", "list", "--live", "-f", str(tmp_path / "site.yaml"), "-o", "json"])
    assert ended.value.code == 1
    assert [each["path"] for each in json.loads(capsys.readouterr().out)["errors"]] == ["spec.access.kubeconfig.path"]
    assert not ran.exists()


def test_a_fleet_that_is_not_configured_hides_no_other(world: World) -> None:
    commits(world, a_cluster("garden", {"kubeconfig": {"name": "garden"}}, provider="gardener"))
    fleets = world.fleets(world.revisions.get(1))
    fleets.view()
    assert ["HULLMARK_KUBECONFIGS has no entry 'garden'" in said for said in fleets.unreachable] == [True]


def test_what_a_revision_keeps_of_a_cluster_is_read_as_it_was_written(world: World) -> None:
    accesses: dict[str, dict[str, Any]] = {
        "a": {"kubeconfig": {"name": "x", "context": "arn:aws:eks:eu-central-1:1:cluster/c"}},
        "b": {"gke": {"project": "example.com:p-1", "location": "europe-west4-a", "name": "c"}},
        "c": {"eks": {"region": "us-gov-west-1", "name": "C_1"}},
        "d": {"simulated": {"name": "one"}},
    }
    commits(world, *(a_cluster(name, access) for name, access in accesses.items()))
    kept = wiring.build(world.settings, Bus()).revisions.get(1)
    assert {name: access if isinstance(access, Outdated) else access.to_json() for name, access in kept.clusters.items()} == accesses
    assert kept.policies.reached() == kept.clusters


# --- what else documents, messages and requests choose


def test_a_link_out_of_a_folder_of_documents_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check prints what it reads; who writes to the repository may not choose what stands beside it."""
    (tmp_path / "secret.yaml").write_text("password: hunter2\n")
    site = tmp_path / "site"
    (site / "real").mkdir(parents=True)
    (site / "real" / "a.yaml").write_text(json.dumps(a_cluster("a", {"inCluster": {}})))
    (site / "inside.yaml").symlink_to(site / "real" / "a.yaml")
    read_files([str(site)])
    (site / "b.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(SystemExit) as ended:
        main(["validate", "-f", str(site)])
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "leads out of" in printed.err
    assert "hunter2" not in printed.out + printed.err


@pytest.mark.parametrize("name", ["..", "../pods", "a/b", "a?b", "a#b", "", "%2e%2e", "A", "a\n"])
def test_a_name_that_would_change_a_url_reaches_no_api_server(name: str) -> None:
    with Scripted(says(200, {})).running() as server:
        cluster = Kubernetes(lambda: Login(server.url))
        garden = Garden(lambda: Login(server.url))
        assert cluster.node(name) is None
        assert cluster.pod("default", name) is None
        assert cluster.pod(name, "p") is None
        with pytest.raises(NodeGone):
            cluster.apply_labels(name, "uid", {"a": "b"})
        with pytest.raises(NodeGone):
            cluster.remove_labels(name, ["a"], resource_version="1")
        for shoot in (f"{name}/s", f"n/{name}"):
            with pytest.raises(Refused, match="no namespace/name"):
                garden.cluster(shoot)
    assert server.requests == []


def test_a_redirect_of_an_api_server_is_not_followed() -> None:
    with Scripted(says(200, {})).running() as elsewhere:
        for code in (301, 302, 303, 307, 308):
            with Scripted(says(code, {}, Location=f"{elsewhere.url}/api/v1/nodes/n1")).running() as server:
                cluster = Kubernetes(lambda url=server.url: Login(url, authorization=lambda: "Bearer secret"))
                with pytest.raises(ClusterError):
                    cluster.node("n1")
    assert elsewhere.requests == []


@pytest.mark.parametrize("key", ["../up", "a/../../up", "a/./b", "a//b", "a/../b"])
@pytest.mark.parametrize("kind", ["memory:", "file:"])
def test_the_store_has_no_way_out_of_its_folder(tmp_path: Path, kind: str, key: str) -> None:
    store = open_store(kind if kind == "memory:" else f"file:{tmp_path}/in")
    with pytest.raises(StoreError):
        store.create(key, b"x")
    with pytest.raises(StoreError):
        store.get(key)
    assert not (tmp_path / "up").exists()


@pytest.mark.parametrize("value", ["!!python/object/apply:os.system ['true']", "!!python/name:os.system ''", "!include /etc/passwd"])
def test_a_yaml_tag_makes_no_object(value: str) -> None:
    document = f"apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {{name: a}}\nspec: {{labels: {{a: {value}}}}}\n"
    problems, _ = check([Source("site.yaml", document.encode())])
    assert [problem.line for problem in problems][:1] == [4]
