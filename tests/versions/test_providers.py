"""EKS and GKE as fleets: the real clients against small fakes of the services, and moto where it can.

Of moto's EKS there are DescribeCluster, ListNodegroups and DescribeNodegroup, and none of the calls for versions, updates and insights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerRestTransport
from moto import mock_aws

from functions.result_rollup.main import sweep
from functions.version_apply.main import handle as apply
from local.cli import main
from shared import wiring
from shared.adapters.eks_images import PATHS
from shared.adapters.eks_versions import EksVersions
from shared.adapters.gke_versions import GkeVersions
from shared.adapters.kept import Kept
from shared.domain.documents.kinds import ClusterSpec
from shared.domain.outcomes import Outcome
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.ends import Progress, State, end_of
from shared.ledger.begun import BegunPart, BegunUpdates
from shared.ledger.fleets import Fleets
from shared.messages import PartResult
from shared.ports import Refused, Stale, StoreError, Unavailable
from shared.work.control import control
from shared.work.versions import committed_versions
from shared.world import Settings
from tests.versions.providers import MODEL, NAME, PLACE, Answer, FakeEks, FakeGke, Service, insight
from tests.versions.test_functions import EVENING, Site, cloud_profile, shoot, site, the_update  # noqa: F401 - the fixture


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service()
    yield server
    server.close()


# --- EKS ------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def eks(service: Service) -> FakeEks:
    return FakeEks(service)


def eks_fleet(eks: FakeEks, catalogues: Kept | None = None, **spec: Any) -> EksVersions:
    config = Config(retries={"total_max_attempts": 1})
    credentials = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "eu-central-1"}
    declared = ClusterSpec.model_validate(spec)
    client = lambda service: boto3.client(service, endpoint_url=eks.service.url, config=config, **credentials)  # noqa: E731
    return EksVersions("prod", "prod", client, declared, catalogues)


def test_what_a_region_offers_is_asked_for_once_for_all_its_clusters(eks: FakeEks, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue, asked, kept = EksVersions._catalogue, list[str](), Kept()

    def counted(fleet: EksVersions) -> Any:
        asked.append(fleet.id)
        return catalogue(fleet)

    monkeypatch.setattr(EksVersions, "_catalogue", counted)
    access = [{"eks": {"region": region, "name": "prod"}} for region in ("eu-north-1", "eu-north-1", "eu-west-1")]
    offered = [eks_fleet(eks, kept, provider="eks", access=each).profiles()[0][0].kubernetes for each in access]
    assert offered[0] == offered[1] == offered[2] != ()
    assert len(asked) == 2


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
    eks.finish()
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
    eks.finish()
    assert {name: group["version"] for name, group in eks.groups.items()} == {"a": "1.32", "b": "1.32"}
    site.checks(EVENING.replace(minute=50))
    assert [list(action.values()) for action in site.actions()] == [["changed", "skipped", "skipped"], ["changed", "changed"]]


WINDOW = {"timeWindow": {"begin": "220000+0000", "end": "230000+0000"}}
OFF = {"autoUpdate": {"kubernetesVersion": False, "machineImageVersion": False}}


def eks_site(site: Site, eks: FakeEks, **maintenance: Any) -> None:  # noqa: F811
    """The cluster under a Cluster document with this maintenance."""
    site.world.open_fleet = lambda _name, spec: eks_fleet(eks, **spec.to_json())
    spec = {"provider": "eks", "access": {"eks": {"region": "eu-central-1", "name": "prod"}}, "maintenance": maintenance}
    site.commits({"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": spec})


def held(site: Site) -> dict[str, tuple[str | None, str]]:  # noqa: F811
    """By component: where each version would go, and what holds it."""
    entries = committed_versions(site.world, live=True).decisions(EVENING).decisions
    return {entry.component: (entry.to, entry.held.reason if entry.held else "") for entry in entries if entry.subject == "kubernetes"}


@pytest.mark.parametrize(("maintenance", "reason"), [({**WINDOW, **OFF}, "AutoUpdateOff"), ({}, "NoMaintenanceWindow")])
def test_eks_announces_what_is_due_and_updates_nothing_where_nobody_asked_for_it(
    eks: FakeEks,
    site: Site,  # noqa: F811
    maintenance: dict[str, Any],
    reason: str,
) -> None:
    eks_site(site, eks, **maintenance)
    assert held(site) == {"controlPlane": ("1.32", reason), "worker/a": ("1.32.0", reason), "worker/b": ("1.32.0", reason)}
    for now in (EVENING, EVENING.replace(hour=12)):
        site.checks(now, force_window=True)
    assert eks.service.asked == []
    assert {each["version"] for each in site.notices("version.expired")} == {"1.31"}
    assert {each["reason"] for each in site.notices("update.skipped")} == {reason}


def test_without_a_window_an_eks_cluster_is_never_open(eks: FakeEks) -> None:
    (cluster,) = eks_fleet(eks).clusters()
    assert (cluster.window.open(EVENING), cluster.window.next(EVENING), list(cluster.window.openings(EVENING))) == (False, None, [])


def test_extended_support_moves_the_expiration_to_its_own_end(eks: FakeEks) -> None:
    def ends() -> list[str]:
        ((profile,), _) = eks_fleet(eks).profiles()
        return [f"{each.version} {each.expiration:%Y-%m-%d}" for each in profile.kubernetes]

    assert ends() == ["1.33 2026-07-30", "1.32 2026-03-23", "1.31 2025-11-26"]
    eks.cluster["upgradePolicy"] = {"supportType": "EXTENDED"}
    assert ends() == ["1.33 2027-07-30", "1.32 2027-03-23", "1.31 2026-11-26"]


def test_an_insight_that_an_upgrade_would_break_something_holds_the_control_plane(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    eks.insights = [insight("1.32", "WARNING"), insight("1.33", "ERROR"), insight("1.32", "PASSING")]
    assert held(site)["controlPlane"] == ("1.32", "")
    eks.insights.append(insight("1.32", "ERROR"))
    assert held(site)["controlPlane"] == ("1.32", "NotReady")
    site.checks(EVENING)
    assert eks.service.asked == []
    assert any("Deprecated API usage detected" in each["message"] for each in site.notices("update.skipped"))


def test_insights_that_may_not_be_read_hold_too(eks: FakeEks) -> None:
    refused = {"type": "AccessDeniedException", "message": "no eks:ListInsights"}
    eks.service.routes.insert(0, ("POST /clusters/prod/insights", lambda body: (403, refused)))
    (cluster,) = eks_fleet(eks).clusters()
    assert "no eks:ListInsights" in cluster.not_ready


def test_what_eks_works_on_holds_everything_and_makes_no_notice(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    eks.groups["b"]["status"] = "UPDATING"
    for minute in (0, 10, 20, 30):
        site.checks(EVENING.replace(minute=minute))
    assert {reason for _, reason in held(site).values()} == {"UpdateRunning"}
    assert eks.service.asked == []
    assert not site.notices("update.skipped")


def test_busy_node_groups_raise_no_notice_at_any_attempt(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    for minute in (0, 10, 20, 30):
        site.checks(EVENING.replace(minute=minute))
    assert not site.notices("update.skipped")


def test_every_delivery_of_an_update_carries_the_same_token_and_every_update_its_own(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    update = the_update(site)
    apply(update, site.world, EVENING)
    eks.cluster["status"] = "ACTIVE"  # as if the first request had been lost on its way
    for key in site.world.store.keys("versions/begun/"):
        site.world.store.delete(key)
    apply(update, site.world, EVENING)
    (_, first), (_, second), *groups = eks.service.asked
    assert first == second
    assert len(eks.updates) == 1 + len(groups)
    tokens = {body["clientRequestToken"] for _, body in eks.service.asked}
    assert len(tokens) == len(eks.updates)
    assert all(len(token) == 32 for token in tokens)


def test_an_update_that_eks_gave_up_is_told_of_once_with_its_words(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    site.checks(EVENING.replace(minute=10))
    assert not site.notices("version.failed")
    eks.fail("InsufficientFreeAddresses", "the subnets have no free addresses")
    for minute in (20, 30, 50):
        site.checks(EVENING.replace(minute=minute))
    (failed,) = [each for each in site.notices("version.failed") if each["component"] == "controlPlane"]
    assert (failed["fleet"], failed["cluster"], failed["code"]) == ("prod", "eks/prod", "ProviderUpdateFailed")
    assert failed["message"] == "EKS update u1: Failed; InsufficientFreeAddresses: the subnets have no free addresses"
    asked = len([call for call, _ in eks.service.asked if call == "POST /clusters/prod/updates"])
    assert asked == 1
    site.checks(EVENING + timedelta(days=1))
    assert len([call for call, _ in eks.service.asked if call == "POST /clusters/prod/updates"]) == 2


def test_an_update_that_eks_carried_out_is_no_failure(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    eks.finish()
    site.checks(EVENING.replace(minute=20))
    eks.finish()
    site.checks(EVENING.replace(minute=40))
    assert not site.notices("version.failed")


def test_an_update_is_told_as_done_when_eks_is_through_and_only_once(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    site.checks(EVENING.replace(minute=10))
    (begun,) = site.notices("version.begun")
    assert (begun["component"], begun["code"]) == ("controlPlane", "UpdateBegun")
    assert not site.notices("version.updated")
    eks.finish()
    for minute in (20, 30):
        site.checks(EVENING.replace(minute=minute))
    (through,) = [each for each in site.notices("version.updated") if each["component"] == "controlPlane"]
    assert (through["fleet"], through["cluster"], through["to"], through["code"]) == ("prod", "eks/prod", begun["to"], "")
    works_on = {subject for part in site.world.begun.of(None)[0] for subject in part.about}
    assert works_on >= {"worker/a/kubernetes", "worker/b/kubernetes"}, "what EKS works on next"


def the_action(site: Site) -> tuple[str, dict[str, tuple[str, str]]]:  # noqa: F811
    """How the first action stands: its result, or its state while it runs; and what became of its steps."""
    action = site.world.actions.ids()[0]
    outcome = site.world.actions.outcome(action)
    if outcome is None:
        return site.world.actions.lifecycle(action), {}
    return outcome.result, {each.subject: (each.outcome, each.reason) for each in outcome.outcomes}


def test_an_action_runs_until_eks_is_through_and_ends_with_what_became_of_it(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    for minute in (0, 10):
        site.checks(EVENING.replace(minute=minute))
        assert the_action(site) == ("Processing", {})
    eks.finish()
    site.checks(EVENING.replace(minute=20))
    left = {f"worker/{each}/kubernetes": ("skipped", "UpdateRunning") for each in "ab"}
    assert the_action(site) == ("success", {"controlPlane/kubernetes": ("changed", "")} | left)
    assert len(site.world.actions.ids()) == 2, "the same check goes on with the node groups"
    site.checks(EVENING.replace(minute=30))
    assert len(site.notices("action.finished")) == 1
    eks.finish()
    for minute in (40, 44):
        site.checks(EVENING.replace(minute=minute))
    assert site.world.store.keys("versions/begun/") == []


def test_two_deliveries_at_once_begin_an_update_once_and_neither_says_that_eks_was_busy(
    eks: FakeEks,
    site: Site,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    eks_site(site, eks, **WINDOW)
    update = the_update(site)
    find = Fleets.find

    def found_before_the_other_goes(fleets: Fleets, name: str, fleet: str | None = None) -> Any:
        seen = find(fleets, name, fleet)
        monkeypatch.undo()
        monkeypatch.setattr(BegunUpdates, "add", lambda begun, part: None)
        apply(update, site.world, EVENING)
        monkeypatch.undo()
        return seen

    monkeypatch.setattr(Fleets, "find", found_before_the_other_goes)
    apply(update, site.world, EVENING)
    site.cloud.drain()
    assert the_action(site) == ("Processing", {})
    assert len([call for call, _ in eks.service.asked if call == "POST /clusters/prod/updates"]) == 1


def test_an_action_whose_update_eks_gave_up_ends_as_a_failure(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    eks.fail("InsufficientFreeAddresses", "the subnets have no free addresses")
    site.checks(EVENING.replace(minute=20))
    result, steps = the_action(site)
    assert (result, steps["controlPlane/kubernetes"]) == ("partial_success", ("failed", "ProviderUpdateFailed"))
    finished, *_ = site.notices("action.finished")
    assert "no free addresses" in finished["attention"][0]["message"]


def test_an_update_delivered_again_while_eks_works_on_it_begins_nothing_and_ends_nothing(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    update = the_update(site)
    apply(update, site.world, EVENING)
    asked = len(eks.service.asked)
    assert apply(update, site.world, EVENING) == "begun before"
    eks.finish()
    assert apply(update, site.world, EVENING) == "begun before"
    site.cloud.drain()
    assert len(eks.service.asked) == asked
    assert the_action(site) == ("Processing", {})
    site.checks(EVENING.replace(minute=20))
    assert the_action(site)[0] == "success"


def test_a_delivery_that_was_cut_off_when_eks_had_accepted_its_update_is_taken_up(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    update = the_update(site)

    def away(part: BegunPart) -> None:
        raise StoreError("the bucket is away")

    site.world.begun.add = away  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        apply(update, site.world, EVENING)
    del site.world.begun.add
    apply(update, site.world, EVENING)
    site.cloud.drain()
    assert len([call for call, _ in eks.service.asked if call == "POST /clusters/prod/updates"]) == 1
    assert the_action(site) == ("Processing", {})
    eks.finish()
    site.checks(EVENING.replace(minute=20))
    assert the_action(site)[1]["controlPlane/kubernetes"] == ("changed", "")


def test_a_result_that_the_bus_lost_is_said_again_until_the_action_has_ended(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    eks.finish()
    publish = site.world.bus.publish
    site.world.bus.publish = lambda topic, messages: None if topic == PartResult.TOPIC else publish(topic, messages)  # type: ignore[method-assign]
    site.checks(EVENING.replace(minute=20))
    assert the_action(site) == ("Processing", {})
    site.world.bus.publish = publish  # type: ignore[method-assign]
    eks.finish()
    site.checks(EVENING.replace(minute=30))
    assert the_action(site)[0] == "success"
    assert len([each for each in site.notices("version.updated") if each["component"] == "controlPlane"]) == 1


def test_an_action_that_is_stopped_ends_although_eks_goes_on_and_its_end_is_told(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    control(site.world.actions.ids()[0], "stop", "a person", site.world, EVENING)
    site.checks(EVENING.replace(minute=20))
    result, steps = the_action(site)
    assert (result, steps["controlPlane/kubernetes"]) == ("stopped", ("stopped", "Stopped"))
    eks.finish()
    site.checks(EVENING.replace(minute=30))
    assert [each["component"] for each in site.notices("version.updated")] == ["controlPlane"]


def test_what_nobody_says_the_end_of_expires_with_its_deadline_and_a_late_end_is_told(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    for hours in (2, 23):
        sweep(site.world, EVENING + timedelta(hours=hours))
        assert the_action(site) == ("Processing", {})
    sweep(site.world, EVENING + timedelta(hours=25))
    site.cloud.drain()
    result, steps = the_action(site)
    assert (result, steps["controlPlane/kubernetes"]) == ("expired", ("failed", "Expired"))
    assert "its provider may still work on it" in site.notices("action.finished")[0]["attention"][0]["message"]
    eks.finish()
    site.checks(EVENING + timedelta(days=1, hours=12))
    assert [each["component"] for each in site.notices("version.updated")] == ["controlPlane"]
    assert the_action(site)[0] == "expired"


def test_a_fleet_that_does_not_answer_ends_nothing_and_a_cluster_that_is_gone_does(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    eks.service.routes.insert(0, ("GET /clusters/prod", lambda: (503, {"type": "ServerException", "message": "soon"})))
    site.checks(EVENING.replace(minute=20))
    assert the_action(site) == ("Processing", {})
    site.commits(cloud_profile([{"version": "1.28.1"}]))
    site.checks(EVENING.replace(minute=30))
    assert the_action(site)[1]["controlPlane/kubernetes"] == ("missing", "ClusterNotFound")


STEP = VersionStep("controlPlane", "kubernetes", "1.31", "1.32")


@pytest.mark.parametrize(
    ("runs", "said", "minutes", "expected"),
    [
        ("1.32", "unknown", 0, "changed"),
        ("1.33.1", "failed", 0, "changed"),
        ("1.31", "running", 600, ""),
        ("1.31", "failed", 0, "failed"),
        ("1.31", "unknown", 29, ""),
        ("1.31", "unknown", 31, "failed"),
        ("1.31", "done", 29, ""),
        ("1.31", "done", 31, "failed"),
        ("newest", "unknown", 0, ""),
    ],
)
def test_how_an_update_ends_is_decided_by_what_runs_then_by_what_the_provider_says(
    runs: str, said: State, minutes: int, expected: str
) -> None:
    begun = Outcome(subject=STEP.key, outcome="changed", reason="UpdateBegun", message="1.31 → 1.32")
    found = end_of(STEP, begun, FleetCluster("eks/prod", runs), Progress(said, "words"), timedelta(minutes=minutes))
    assert (found.outcome if found else "") == expected
    assert found is None or found.reason == ("ProviderUpdateFailed" if expected == "failed" else "")


def test_what_is_kept_of_an_update_whose_end_nobody_sees_goes_in_time(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    site.checks(EVENING + timedelta(days=29))
    assert len(site.world.store.keys("versions/begun/")) == 1
    site.checks(EVENING + timedelta(days=31))
    assert site.world.store.keys("versions/begun/") == []


def test_a_record_of_an_update_that_cannot_be_read_ends_its_action_and_goes(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    site.checks(EVENING)
    (key,) = site.world.store.keys("versions/begun/")
    site.world.store.delete(key)
    site.world.store.create(key, b"{")
    site.world.store.create("versions/begun/00/nothing.json", b"{")
    site.checks(EVENING.replace(minute=20))
    assert the_action(site)[1]["controlPlane/kubernetes"] == ("failed", "RecordUnreadable")
    site.checks(EVENING.replace(minute=30))
    assert site.world.store.keys("versions/begun/") == []


def test_a_node_group_that_is_not_well_is_refused_with_its_words(eks: FakeEks) -> None:
    eks.cluster["version"] = "1.32"
    issue = {"code": "AccessDenied", "message": "the node role is gone", "resourceIds": []}
    eks.groups["a"] |= {"status": "DEGRADED", "health": {"issues": [issue]}}
    with pytest.raises(Refused, match="AccessDenied: the node role is gone"):
        eks_fleet(eks).apply("eks/prod", GROUP_UP)


def test_eks_says_how_a_cluster_is_after_its_update(eks: FakeEks) -> None:
    def health() -> tuple[bool | None, str]:
        (cluster,) = eks_fleet(eks).clusters()
        return cluster.health.healthy, cluster.health.message

    assert health() == (True, "")
    eks.groups["a"]["status"] = "UPDATING"
    assert health() == (None, "EKS works on node group a")
    eks.groups["a"] |= {"status": "DEGRADED", "health": {"issues": [{"code": "AccessDenied", "message": "no role", "resourceIds": []}]}}
    assert health() == (False, "a is DEGRADED (AccessDenied: no role)")


def test_a_profile_that_the_cluster_document_names_goes_before_what_eks_offers(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks_site(site, eks, **WINDOW)
    access = {"eks": {"region": "eu-central-1", "name": "prod"}}
    assert eks_fleet(eks, provider="eks", cloudProfile="eks", access=access).profiles() == ([], [])


# --- the releases of EKS' images

AMI = "AL2023_x86_64_STANDARD-1.31"
RELEASE_UP = VersionStep("worker/a", "machineImage", "1.31.3-20250103", "1.31.9-20250801", AMI, token="t" * 32)


def images(site: Site) -> dict[str, tuple[str | None, str, str]]:  # noqa: F811
    """By pool: where its image would go, why, and what holds it."""
    entries = committed_versions(site.world, live=True).decisions(EVENING).decisions
    about = [entry for entry in entries if entry.subject == "machineImage"]
    return {entry.component: (entry.to, entry.code, entry.held.reason if entry.held else "") for entry in about}


def with_new_release(eks: FakeEks, site: Site, **maintenance: Any) -> None:  # noqa: F811
    """A cluster whose Kubernetes version stays, and a release of its node groups' image that is newer than theirs."""
    eks.cluster["upgradePolicy"] = {"supportType": "EXTENDED"}
    eks.versions[-1]["endOfExtendedSupportDate"] = 1900000000
    for release in ("1.31.7-20250601", "1.31.9-20250801"):
        eks.publishes(release)
    eks.publishes("1.31.9-20250901", recommended=False)
    eks_site(site, eks, **maintenance)


def test_the_releases_of_a_node_groups_image_are_a_machine_image(eks: FakeEks) -> None:
    for release in ("1.31.7-20250601", "1.31.9-20250801"):
        eks.publishes(release)
    eks.publishes("1.31.9-20250901", recommended=False)
    fleet = eks_fleet(eks)
    ((profile,), _), (cluster,) = fleet.profiles(), fleet.clusters()
    assert [(pool.image, pool.image_version) for pool in cluster.pools] == [(AMI, "1.31.3-20250103")] * 2
    (image,) = profile.images
    assert [(each.version, each.classification) for each in image.versions] == [
        ("1.31.9-20250901", "preview"),
        ("1.31.9-20250801", None),
        ("1.31.7-20250601", None),
        ("1.31.3-20250103", None),
    ]


def test_the_releases_of_an_image_are_listed_once_for_all_clusters_of_a_region(eks: FakeEks) -> None:
    kept, access = Kept(), {"eks": {"region": "eu-north-1", "name": "prod"}}
    for _ in range(3):
        eks_fleet(eks, kept, provider="eks", access=access).profiles()
    assert eks.listings == ["/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/x86_64/standard"]


def test_of_many_releases_every_page_is_read(eks: FakeEks) -> None:
    for day in range(10, 28):
        eks.publishes(f"1.31.7-202506{day}")
    ((profile,), _) = eks_fleet(eks).profiles()
    assert len(profile.images[0].versions) == 19
    assert len(eks.listings) == 4


@pytest.mark.parametrize(
    ("ami_type", "parameters", "running", "expected"),
    [
        (
            "BOTTLEROCKET_ARM_64_NVIDIA",
            {"aws-k8s-1.31-nvidia/arm64/latest/image_version": "1.48.0-abcdef12", "aws-k8s-1.31-nvidia/arm64/1.47.0/image_id": "ami-1"},
            "1.47.0-12345678",
            ["1.48.0-abcdef12", "1.47.0-12345678"],
        ),
        ("BOTTLEROCKET_x86_64", {"aws-k8s-1.31/x86_64/latest/image_version": "not one"}, "1.47.0-12345678", ["1.47.0-12345678"]),
        ("BOTTLEROCKET_x86_64_FIPS", {}, "1.47.0-12345678", ["1.47.0-12345678"]),
    ],
)
def test_bottlerocket_has_its_own_place(eks: FakeEks, ami_type: str, parameters: dict[str, str], running: str, expected: list[str]) -> None:
    eks.parameters = {f"/aws/service/bottlerocket/{name}": value for name, value in parameters.items()}
    for group in eks.groups.values():
        group |= {"amiType": ami_type, "releaseVersion": running}
    ((profile,), _) = eks_fleet(eks).profiles()
    assert [(image.name, [each.version for each in image.versions]) for image in profile.images] == [(f"{ami_type}-1.31", expected)]


def test_every_type_of_image_that_eks_has_is_known_or_left_alone_on_purpose() -> None:
    known = {each for each in MODEL.shape_for("AMITypes").enum if each in PATHS}
    left = {each for each in MODEL.shape_for("AMITypes").enum if each not in PATHS}
    assert known == PATHS.keys()
    assert {each for each in left if not each.startswith("WINDOWS_")} == {
        "CUSTOM",
        "BOTTLEROCKET_ARM_64_NVIDIA_FIPS",
        "BOTTLEROCKET_x86_64_NVIDIA_FIPS",
    }


def test_a_node_group_goes_to_the_recommended_release_in_its_window(eks: FakeEks, site: Site) -> None:  # noqa: F811
    with_new_release(eks, site, **WINDOW)
    assert images(site) == {f"worker/{each}": ("1.31.9-20250801", "AutoUpdateConfigured", "") for each in "ab"}
    site.checks(EVENING)
    asked = [(call, body["releaseVersion"], len(body["clientRequestToken"])) for call, body in eks.service.asked]
    assert asked == [(f"POST /clusters/prod/node-groups/{each}/update-version", "1.31.9-20250801", 32) for each in "ab"]
    eks.finish()
    assert {group["releaseVersion"] for group in eks.groups.values()} == {"1.31.9-20250801"}
    site.checks(EVENING.replace(minute=30))
    assert {(each["component"], each["image"], each["to"]) for each in site.notices("version.updated")} == {
        (f"worker/{each}", AMI, "1.31.9-20250801") for each in "ab"
    }


def test_without_automatic_updates_of_images_a_node_group_stays_on_its_release(eks: FakeEks, site: Site) -> None:  # noqa: F811
    with_new_release(eks, site, **WINDOW, autoUpdate={"kubernetesVersion": True, "machineImageVersion": False})
    assert images(site) == {f"worker/{each}": (None, "AutoUpdateDisabled", "") for each in "ab"}
    site.checks(EVENING)
    assert eks.service.asked == []


def test_a_release_is_not_taken_where_the_kubernetes_update_brings_one(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks.publishes("1.31.9-20250801")
    eks_site(site, eks, **WINDOW)
    assert images(site) == {f"worker/{each}": ("1.31.9-20250801", "AutoUpdateConfigured", "ComesWithKubernetes") for each in "ab"}
    site.checks(EVENING)
    assert [call for call, _ in eks.service.asked] == ["POST /clusters/prod/updates"]


def test_a_node_group_with_an_image_of_its_own_is_its_owners(eks: FakeEks, site: Site) -> None:  # noqa: F811
    eks.groups["a"] |= {"amiType": "CUSTOM", "releaseVersion": "ami-0123"}
    eks_site(site, eks, **WINDOW)
    assert images(site)["worker/a"] == (None, "CustomImage", "")
    assert held(site)["worker/a"] == ("1.32.0", "CustomImage")
    for minute in (0, 10, 20, 30):
        site.checks(EVENING.replace(minute=minute))
        eks.finish()
    assert not [call for call, _ in eks.service.asked if "/a/" in call]
    (told,) = [each for each in site.notices("update.skipped") if each["reason"] == "CustomImage"]
    assert "launch template of worker/a" in told["message"]


def test_releases_that_may_not_be_read_keep_no_kubernetes_update_back_and_are_told_of(eks: FakeEks, site: Site) -> None:  # noqa: F811
    refused = {"__type": "AccessDeniedException", "message": "no ssm:GetParametersByPath", "type": "AccessDeniedException"}
    eks.service.routes.insert(0, ("POST /", lambda body: (400, refused)))
    eks_site(site, eks, **WINDOW)
    assert images(site) == {f"worker/{each}": (None, "ImagesUnreadable", "") for each in "ab"}
    site.checks(EVENING)
    assert [call for call, _ in eks.service.asked] == ["POST /clusters/prod/updates"]
    (told,) = site.notices("fleet.unreadable")
    assert (told["fleet"], told["part"]) == ("prod", f"machine image {AMI}")
    assert "no ssm:GetParametersByPath" in told["message"]


def test_a_release_is_moved_from_the_one_it_was_decided_for_only(eks: FakeEks) -> None:
    eks.publishes("1.31.9-20250801")
    fleet = eks_fleet(eks)
    eks.groups["a"]["releaseVersion"] = "1.31.7-20250601"
    with pytest.raises(Stale, match=r"is 1\.31\.7-20250601 now"):
        fleet.apply("eks/prod", RELEASE_UP)
    eks.groups["a"]["releaseVersion"] = "1.31.9-20250801"
    assert not fleet.apply("eks/prod", RELEASE_UP)
    eks.groups["a"] |= {"releaseVersion": "1.31.3-20250103", "status": "UPDATING"}
    with pytest.raises(Unavailable) as busy:
        fleet.apply("eks/prod", RELEASE_UP)
    assert busy.value.reason == "UpdateRunning"
    eks.groups["a"]["status"] = "ACTIVE"
    assert fleet.apply("eks/prod", RELEASE_UP, dry_run=True)
    assert eks.service.asked == []


# --- GKE ------------------------------------------------------------------------------------------------------------------------------


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
    gke.finish()
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


def gke_site(site: Site, gke: FakeGke, **maintenance: Any) -> None:  # noqa: F811
    """The cluster under a Cluster document with this maintenance."""
    site.world.open_fleet = lambda _name, spec: gke_fleet(gke, **spec.to_json())
    spec = {"provider": "gke", "access": {"gke": {"project": "p", "location": "europe-west4", "name": "c"}}, "maintenance": maintenance}
    site.commits({"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": spec})


@pytest.mark.parametrize(("maintenance", "reason"), [({**WINDOW, **OFF}, "AutoUpdateOff"), ({}, "NoMaintenanceWindow")])
def test_gke_announces_what_is_due_and_updates_nothing_where_nobody_asked_for_it(
    gke: FakeGke,
    site: Site,  # noqa: F811
    maintenance: dict[str, Any],
    reason: str,
) -> None:
    gke.valid.pop()
    gke_site(site, gke, **maintenance)
    site.checks(EVENING, force_window=True)
    assert held(site) == {"controlPlane": ("1.31.7-gke.100", reason), "worker/a": ("1.31.7-gke.100", reason)}
    assert gke.service.asked == []


def excluded(gke: FakeGke, scope: str, begin: str = "2026-11-20T00:00:00Z", end: str = "2026-11-25T00:00:00Z") -> None:
    """The cluster has a maintenance exclusion."""
    exclusion = {"startTime": begin, "endTime": end, "maintenanceExclusionOptions": {"scope": scope} if scope else {}}
    gke.cluster["maintenancePolicy"] = {"window": {"maintenanceExclusions": {"freeze": exclusion}}}


@pytest.mark.parametrize(
    ("scope", "offered", "expected"),
    [
        ("", "1.31.7-gke.100", {"controlPlane", "worker/a"}),
        ("NO_UPGRADES", "1.31.7-gke.100", {"controlPlane", "worker/a"}),
        ("NO_MINOR_OR_NODE_UPGRADES", "1.31.7-gke.100", {"worker/a"}),
        ("NO_MINOR_UPGRADES", "1.31.7-gke.100", set()),
        ("NO_MINOR_UPGRADES", "1.32.1-gke.200", {"controlPlane", "worker/a"}),
    ],
)
def test_a_maintenance_exclusion_of_gke_holds_what_it_is_about(
    gke: FakeGke,
    site: Site,  # noqa: F811
    scope: str,
    offered: str,
    expected: set[str],
) -> None:
    gke.valid[:] = [offered]
    gke_site(site, gke, **WINDOW)
    excluded(gke, scope)
    assert {place for place, (_, reason) in held(site).items() if reason == "MaintenanceExclusion"} == expected
    excluded(gke, scope, end="2026-11-21T22:10:00Z")
    assert {reason for _, reason in held(site).values()} == {""}


def test_what_gke_works_on_holds_everything_and_what_is_broken_the_control_plane(gke: FakeGke, site: Site) -> None:  # noqa: F811
    gke_site(site, gke, **WINDOW)
    gke.cluster["nodePools"][0]["status"] = "RECONCILING"
    assert {reason for _, reason in held(site).values()} == {"UpdateRunning"}
    gke.cluster["nodePools"][0]["status"] = "RUNNING"
    gke.cluster |= {"status": "DEGRADED", "conditions": [{"message": "the key is disabled"}]}
    (cluster,) = gke_fleet(gke).clusters()
    assert cluster.not_ready == "the cluster is DEGRADED (the key is disabled)"
    assert (cluster.health.healthy, cluster.health.message) == (False, cluster.not_ready)
    gke.cluster |= {"status": "RUNNING"}
    (cluster,) = gke_fleet(gke).clusters()
    assert cluster.health.healthy is True


def test_an_operation_that_gke_gave_up_is_told_of_with_its_words(gke: FakeGke, site: Site) -> None:  # noqa: F811
    gke_site(site, gke, **WINDOW)
    site.checks(EVENING)
    gke.fail("the zone has no capacity")
    site.checks(EVENING.replace(minute=20))
    (failed,) = [each for each in site.notices("version.failed") if each["component"] == "controlPlane"]
    assert failed["message"] == "GKE operation-1: the zone has no capacity"


def test_a_node_pool_without_a_version_is_an_odd_answer(gke: FakeGke) -> None:
    del gke.cluster["nodePools"][0]["version"]
    with pytest.raises(Unavailable, match="no version of a of") as odd:
        list(gke_fleet(gke).clusters())
    assert odd.value.reason == "UnexpectedAnswer"


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
