"""What is held is not published, and what began to be held on its way is not applied: freezes, the pause, the provider's word."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.version_apply.main import handle as apply
from shared.domain.versions.answers import DecisionEntry
from shared.domain.versions.held import BEFORE_DEFERRAL_ENDS, BEFORE_STAGE, DESPITE_FREEZE, Held
from shared.domain.versions.plans import Planner, moment_text
from shared.messages import VersionUpdate
from shared.work.holds import pause, resume
from shared.work.version_holds import VersionHolds
from shared.work.versions import FleetVersions, committed_versions
from tests.versions.test_fleets import LiveGarden, garden_document, opens
from tests.versions.test_functions import EVENING, VERSIONS, Site, cloud_profile, shoot, site, the_update  # noqa: F401 - the fixture


def a_freeze(name: str = "quiet", days: float = 3, **spec: Any) -> dict[str, Any]:
    times = {"from": "2026-11-20T00:00:00Z", "until": moment_text(EVENING + timedelta(days=days)), "reason": "year-end closing"}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Freeze", "metadata": {"name": name}, "spec": times | spec}


def planned(site: Site, now: datetime = EVENING, *, live: bool = False) -> DecisionEntry:  # noqa: F811
    """What is decided for the control plane."""
    decisions = committed_versions(site.world, live=live).decisions(now).decisions
    return next(each for each in decisions if each.component == "controlPlane")


def test_a_freeze_holds_updates_with_its_reason_and_end_and_they_go_after_it(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot(), a_freeze())
    site.checks(EVENING)
    assert (site.versions()[0], site.actions()) == ("1.27.3", [])
    held = planned(site).held
    assert held
    assert (held.reason, held.until) == ("Frozen", "2026-11-24T22:10:00Z")
    assert held.message.endswith("year-end closing")
    assert planned(site).to == "1.28.1"
    site.checks(EVENING + timedelta(days=3, minutes=10))
    assert site.versions()[0] == "1.28.1"


@pytest.mark.parametrize("asked", [{"force_window": True}, {}])
def test_neither_a_forced_window_nor_a_wish_to_be_maintained_passes_a_freeze(site: Site, asked: dict[str, bool]) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot(annotations={"gardener.cloud/operation": "maintain"}), a_freeze())
    site.checks(EVENING, **asked)
    assert site.versions()[0] == "1.27.3"


@pytest.mark.parametrize("change", ["labels", "versions", "all"])
def test_a_freeze_of_labels_alone_holds_no_version(site: Site, change: str) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot(), a_freeze(change=change))
    site.checks(EVENING)
    assert site.versions()[0] == ("1.28.1" if change == "labels" else "1.27.3")


@pytest.mark.parametrize(
    ("clusters", "frozen"),
    [
        ({"matchLabels": {"env": "prod"}}, True),
        ({"matchLabels": {"env": "dev"}}, False),
        ({"names": ["garden/s"]}, True),
        ({"names": ["garden/other"]}, False),
        ({"names": ["garden/s"], "matchLabels": {"env": "dev"}}, False),
    ],
)
def test_a_freeze_chooses_shoots_by_name_and_labels(site: Site, clusters: dict[str, Any], frozen: bool) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot(labels={"env": "prod"}), a_freeze(clusters=clusters))
    site.checks(EVENING)
    assert site.versions()[0] == ("1.27.3" if frozen else "1.28.1")


@pytest.mark.parametrize(
    ("clusters", "frozen"),
    [
        ({"names": ["east"]}, True),
        ({"names": ["east:garden/s"]}, True),
        ({"names": ["west"]}, False),
        ({"matchLabels": {"region": "north"}}, True),
        ({"matchLabels": {"env": "prod"}}, False),
    ],
)
def test_a_freeze_chooses_a_gardens_clusters_by_the_gardens_name_and_labels_unless_their_own_say_otherwise(
    site: Site,  # noqa: F811
    clusters: dict[str, Any],
    frozen: bool,
) -> None:
    garden = LiveGarden(cloud_profile(), shoot(pools=(), labels={"env": "dev"}))
    opens(site, {"east": garden})
    east = garden_document("east")
    east["metadata"]["labels"] = {"region": "north", "env": "prod"}
    site.commits(east, a_freeze(clusters=clusters))
    site.checks(EVENING)
    assert (garden.asked == []) == frozen


def test_a_freeze_that_allows_forced_updates_holds_the_others(site: Site) -> None:  # noqa: F811
    site.commits(
        cloud_profile([*VERSIONS, {"version": "1.29.4"}]),
        shoot("s"),
        shoot("fine", "1.29.0", pools=(), auto=True),
        a_freeze(allowForced=True),
    )
    site.checks(EVENING)
    assert (site.versions("garden/s")[0], site.versions("garden/fine")[0]) == ("1.28.1", "1.29.0")
    (message,) = {each["message"] for each in site.notices("version.updated") if each["component"] == "controlPlane"}
    assert "ForcedDespiteFreeze" in message


def test_a_commit_cannot_take_its_own_guard_away(site: Site) -> None:  # noqa: F811
    garden = LiveGarden(cloud_profile(), shoot(pools=()))
    opens(site, {"east": garden})
    site.commits(garden_document("east"), a_freeze())
    chain = site.world.releases
    chain.to_all("east", "", 1, since=0, by="ada", at=EVENING)
    site.commits(garden_document("east"))
    site.checks(EVENING)
    assert garden.asked == []
    chain.to_all("east", "", 2, since=chain.head("east").k, by="ada", at=EVENING)
    site.checks(EVENING)
    assert garden.asked


def test_a_fleet_whose_nodes_nobody_labels_goes_by_the_newest_freezes_alone(site: Site) -> None:  # noqa: F811
    garden = LiveGarden(cloud_profile(), shoot(pools=()))
    opens(site, {"east": garden})
    site.commits(garden_document("east"), a_freeze(), adopted=False)
    site.commits(garden_document("east"), adopted=False)
    site.checks(EVENING)
    assert garden.asked


def test_a_pause_holds_updates_until_somebody_resumes(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    pause("the network is being moved", "ada", site.world, EVENING)
    site.checks(EVENING)
    assert list(site.world.actions.ids()) == []
    held = planned(site).held
    assert held
    assert (held.reason, held.until, "the network is being moved" in held.message) == ("Paused", None, True)
    resume("ada", site.world, EVENING)
    site.checks(EVENING)
    assert site.versions()[0] == "1.28.1"


def test_a_freeze_that_began_on_the_way_stops_an_update_and_the_next_check_after_it_takes_it_up(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    update = the_update(site)
    del site.world.bus.publish
    site.commits(cloud_profile(), shoot(), a_freeze(days=0.01))
    apply(update, site.world, EVENING)
    site.cloud.drain()
    assert site.versions()[0] == "1.27.3"
    (outcome,) = site.actions()
    assert set(outcome.values()) == {"skipped"}
    assert {each["code"] for each in site.notices("update.skipped")} == {"Frozen"}
    site.checks(EVENING + timedelta(minutes=20))
    assert site.versions()[0] == "1.28.1"


def test_an_update_that_a_freeze_lets_go_is_let_go_when_it_is_applied_too(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot(), a_freeze(allowForced=True))
    update = the_update(site)
    del site.world.bus.publish
    apply(VersionUpdate.parse(update.outgoing().data), site.world, EVENING)
    assert site.versions()[0] == "1.28.1"


def test_a_pool_that_fell_behind_on_the_way_stops_its_control_plane(site: Site) -> None:  # noqa: F811
    versions = [*VERSIONS, {"version": "1.24.0"}]
    site.commits(cloud_profile(versions), shoot())
    update = the_update(site)
    del site.world.bus.publish
    behind = shoot()
    behind["spec"]["provider"]["workers"].append(
        {"name": "old", "kubernetes": {"version": "1.24.0"}, "machine": {"type": "m", "image": {"name": "linux", "version": "1.0.0"}}}
    )
    site.commits(cloud_profile(versions), behind)
    apply(update, site.world, EVENING)
    site.cloud.drain()
    assert site.versions()[:2] == ["1.27.3", "1.27.3"]
    assert {each["code"] for each in site.notices("update.skipped")} == {"SkewTooWide", "ControlPlaneBehind"}


@pytest.mark.parametrize(
    ("says", "reason"), [({"running": "Reconcile 40 %"}, "UpdateRunning"), ({"not_ready": "an API is gone"}, "NotReady")]
)
def test_what_the_provider_says_holds_a_cluster_back(site: Site, says: dict[str, str], reason: str) -> None:  # noqa: F811
    garden = LiveGarden(cloud_profile(), shoot(pools=()))
    garden.there.clusters["garden/s"] = replace(garden.there.clusters["garden/s"], **says)  # type: ignore[arg-type]
    opens(site, {"east": garden})
    site.commits(garden_document("east"))
    site.checks(EVENING)
    assert garden.asked == []
    held = planned(site, live=True).held
    assert held
    assert held.reason == reason
    assert next(iter(says.values())) in held.message


def test_a_cluster_that_is_not_ready_for_a_new_control_plane_gets_its_images(site: Site) -> None:  # noqa: F811
    garden = LiveGarden(cloud_profile(), shoot(auto=True))
    garden.there.clusters["garden/s"] = replace(garden.there.clusters["garden/s"], not_ready="an API is gone")
    opens(site, {"east": garden})
    site.commits(garden_document("east"))
    site.checks(EVENING)
    assert [key for _, key, _ in garden.asked] == ["worker/a/machineImage"]


def test_an_expired_version_that_is_held_is_announced_once(site: Site) -> None:  # noqa: F811
    versions = [{"version": "1.29.1"}, {"version": "1.28.3", "expirationDate": "2026-11-01T00:00:00Z"}, {"version": "1.25.0"}]
    stalled = shoot(kubernetes="1.28.3")
    stalled["spec"]["provider"]["workers"][0]["kubernetes"]["version"] = "1.25.0"
    site.commits(cloud_profile(versions), stalled)
    site.checks(EVENING)
    site.checks(EVENING + timedelta(minutes=20))
    (told,) = site.notices("update.skipped")
    assert (told["component"], told["reason"], "pool 'a' is on 1.25.0" in told["message"]) == ("controlPlane", "SkewTooWide", True)


def test_a_freeze_shuts_the_window_so_that_next_and_calendar_know(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot(), a_freeze(days=3))
    assert (planned(site).window.open, planned(site).window.next) == (False, "2026-11-24T22:10:00Z")
    events = committed_versions(site.world, live=False).calendar(EVENING, None).events
    assert min(event.at for event in events) == "2026-11-24T22:10:00Z"


def test_the_calendar_of_a_paused_hullmark_says_so_and_foretells_nothing(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    pause("the network is being moved", "ada", site.world, EVENING)
    events = committed_versions(site.world, live=False).calendar(EVENING, None).events
    assert events
    assert {event.held.reason if event.held else event.to for event in events} == {"Paused"}


def test_whatever_a_freeze_says_a_fleet_that_nobody_holds_goes(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    assert planned(site).held is None
    assert FleetVersions.of(site.world.fleets(site.world.releases.look().committed)).decisions(EVENING).decisions[0].held is None


REASONS = ("SkewTooWide", "WaitingForStage", "Soaking", "StageFailed", "AwaitingApproval", "Frozen", "Paused", "UpdateRunning", "Deferred")


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_is_held_is_published_whatever_holds_it(site: Site, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Every decision of every cluster is held or not by chance; what is published is what is not held, and never anything else."""
    names = [f"s{number}" for number in range(12)]
    site.commits(cloud_profile(), *(shoot(name, pools=("a", "b"), auto=True) for name in names))
    chance = random.Random(seed)
    ways = (None, BEFORE_STAGE, BEFORE_DEFERRAL_ENDS, DESPITE_FREEZE)
    said = {
        (f"garden/{name}", place): [Held(chance.choice(REASONS), "so", None, chance.choice(ways)) for _ in range(chance.randint(0, 2))]
        for name in names
        for place in ("controlPlane", "worker/a", "worker/b")
    }
    monkeypatch.setattr(VersionHolds, "__call__", lambda _self, cluster, decision, _now: said[cluster.id, decision.component])
    in_force = site.world.releases.look()
    planner = Planner(site.world.fleets(in_force.committed).view(), VersionHolds())
    held = {
        (plan.cluster.id, each.component, each.subject)
        for plan in planner.plan(EVENING)
        for each in plan.decisions
        if each.changes and each.held
    }
    free = {
        (plan.cluster.id, each.component, each.subject)
        for plan in planner.plan(EVENING)
        for each in plan.decisions
        if each.changes and not each.held
    }
    published: list[VersionUpdate] = []
    publish = site.world.bus.publish

    def catch(topic: str, messages: Any) -> None:
        if topic == VersionUpdate.TOPIC:
            published.extend(VersionUpdate.parse(each.data) for each in messages)
        else:
            publish(topic, messages)

    site.world.bus.publish = catch  # type: ignore[method-assign]
    site.checks(EVENING)
    sent = {(update.cluster, each.component, each.subject) for update in published for each in update.updates}
    assert held
    assert sent == free
