"""version_check and version_apply behind the bus: from the clock to the notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.version_apply.main import handle as apply
from functions.version_check.main import handle as check
from shared import telemetry, wiring
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.forecast import forecast
from shared.domain.versions.plans import Planner
from shared.ledger.fleets import DocumentFleet
from shared.messages import Outgoing, TryAgain, VersionCheck, VersionUpdate
from shared.ports import BusError, ClusterError, Refused, Unavailable
from shared.work.control import control
from tests.stories.fleet import Fleet

EVENING = datetime.fromisoformat("2026-11-21T22:10:00Z")
VERSIONS = [
    {"version": "1.29.0"},
    {"version": "1.28.1", "expirationDate": "2026-12-20T00:00:00Z"},
    {"version": "1.27.3", "expirationDate": "2026-11-01T00:00:00Z"},
]
IMAGES = [
    {
        "name": "linux",
        "updateStrategy": "minor",
        "versions": [{"version": "1.0.0", "expirationDate": "2026-12-05T00:00:00Z"}, {"version": "1.2.0"}],
    }
]


def cloud_profile(versions: Any = VERSIONS, images: Any = IMAGES) -> dict[str, Any]:
    spec = {"kubernetes": {"versions": versions}, "machineImages": images, "machineTypes": [{"name": "m"}]}
    return {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "p"}, "spec": spec}


def shoot(
    name: str = "s", kubernetes: str = "1.27.3", pools: tuple[str, ...] = ("a",), auto: bool = False, **metadata: Any
) -> dict[str, Any]:
    workers = [
        {"name": each, "kubernetes": {"version": kubernetes}, "machine": {"type": "m", "image": {"name": "linux", "version": "1.0.0"}}}
        for each in pools
    ]
    return {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": {"name": name, "namespace": "garden", **metadata},
        "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "p"},
            "kubernetes": {"version": kubernetes},
            "maintenance": {
                "timeWindow": {"begin": "220000+0000", "end": "230000+0000"},
                "autoUpdate": {"kubernetesVersion": auto, "machineImageVersion": auto},
            },
            "provider": {"workers": workers},
        },
    }


class Site(Fleet):
    """A fleet of Shoots whose clock is moved by hand."""

    def live(self, name: str = "garden/s") -> FleetCluster:
        found = self.world.fleets(self.world.revisions.get(self.world.revisions.newest())).find(name)
        assert found is not None
        return found[1]

    def versions(self, name: str = "garden/s") -> list[str | None]:
        cluster = self.live(name)
        return [cluster.kubernetes, *(version for pool in cluster.pools for version in (pool.kubernetes, pool.image_version))]

    def checks(self, now: datetime, **fields: Any) -> None:
        self.now = now
        self.cloud.publish(VersionCheck.TOPIC, [VersionCheck(**fields).outgoing()])
        self.cloud.drain()

    def actions(self) -> list[dict[str, str]]:
        ended = (self.world.actions.outcome(action) for action in self.world.actions.ids())
        return [{told.subject: told.outcome for told in outcome.outcomes} for outcome in ended if outcome]


@pytest.fixture
def site() -> Iterator[Site]:
    telemetry.write_to(None)
    fleet = Site()
    fleet.now = datetime.fromisoformat("2026-10-01T00:00:00Z")
    yield fleet
    wiring.install(None)


def test_in_its_window_a_cluster_gets_off_what_expired_and_the_action_says_so(site: Site) -> None:
    site.commits(cloud_profile(), shoot())
    site.checks(EVENING)
    assert site.versions() == ["1.28.1", "1.28.1", "1.0.0"]
    assert site.actions() == [{"controlPlane/kubernetes": "changed", "worker/a/kubernetes": "changed"}]
    (finished,) = site.notices("action.finished")
    assert (finished["name"], finished["cluster"], finished["result"]) == ("update_versions", "garden/s", "success")
    assert [(each["subject"], each["to"]) for each in site.notices("version.updated")] == [("kubernetes", "1.28.1")] * 2


def test_outside_its_window_it_is_left_alone(site: Site) -> None:
    site.commits(cloud_profile(), shoot())
    site.checks(EVENING.replace(hour=12))
    assert site.versions() == ["1.27.3", "1.27.3", "1.0.0"]
    assert site.actions() == []


def test_a_check_may_be_forced_and_may_be_a_rehearsal(site: Site) -> None:
    site.commits(cloud_profile(), shoot())
    noon = EVENING.replace(hour=12)
    site.checks(noon, force_window=True, dry_run=True)
    assert site.versions()[0] == "1.27.3"
    assert not site.cloud.notices
    site.checks(noon, force_window=True, clusters=["garden/other"])
    assert site.versions()[0] == "1.27.3"
    site.checks(noon, force_window=True, clusters=["garden/s"])
    assert site.versions()[0] == "1.28.1"


def test_being_asked_to_maintain_opens_the_window(site: Site) -> None:
    site.commits(cloud_profile(), shoot(annotations={"gardener.cloud/operation": "retry;maintain"}))
    site.checks(EVENING.replace(hour=12))
    assert site.versions()[0] == "1.28.1"


def test_a_cluster_that_is_being_deleted_is_left_alone(site: Site) -> None:
    site.commits(cloud_profile(), shoot(deletionTimestamp="2026-11-20T00:00:00Z"))
    site.checks(EVENING)
    assert site.versions()[0] == "1.27.3"


def test_one_opening_of_the_window_brings_one_round_of_updates(site: Site) -> None:
    ended = [*VERSIONS[:1], {"version": "1.28.1", "expirationDate": "2026-11-02T00:00:00Z"}, VERSIONS[2]]
    site.commits(cloud_profile(ended), shoot(pools=()))
    for minute in (0, 10, 20, 30, 40):
        site.checks(EVENING.replace(minute=minute))
    assert site.versions() == ["1.28.1"]
    site.checks(EVENING + timedelta(days=1))
    assert site.versions() == ["1.29.0"]


def the_update(site: Site, **fields: Any) -> VersionUpdate:
    """The message that a check publishes, caught before it is delivered."""
    caught: list[bytes] = []
    publish = site.world.bus.publish

    def catch(topic: str, messages: Any) -> None:
        if topic == VersionUpdate.TOPIC:
            caught.extend(each.data for each in messages)
        else:
            publish(topic, messages)

    site.world.bus.publish = catch  # type: ignore[method-assign]
    check(VersionCheck(**fields), site.world, EVENING)
    site.world.bus.publish = publish  # type: ignore[method-assign]
    return VersionUpdate.parse(caught[0])


def test_an_update_delivered_again_changes_nothing_twice(site: Site) -> None:
    site.commits(cloud_profile(), shoot())
    update = the_update(site)
    first = apply(update, site.world, EVENING)
    again = apply(update, site.world, EVENING)
    assert first == again
    site.cloud.drain()
    assert apply(update, site.world, EVENING) == "done before"
    assert len(site.world.store.keys("fleet/")) == 2
    assert len(site.actions()) == 1


def test_an_update_whose_message_was_lost_is_sent_again_by_the_next_check(site: Site) -> None:
    site.commits(cloud_profile(), shoot())
    the_update(site)
    assert site.actions() == []
    site.checks(EVENING)
    assert site.versions()[0] == "1.28.1"
    assert len(site.actions()) == 1


def test_a_notice_that_the_bus_did_not_take_is_sent_by_the_next_check(site: Site) -> None:
    site.commits(cloud_profile(), shoot(pools=()))
    noon, publish = EVENING.replace(hour=12), site.world.bus.publish

    def closed(topic: str, messages: Sequence[Outgoing]) -> None:
        raise BusError(f"{topic} is away")

    site.world.bus.publish = closed  # type: ignore[method-assign]
    with pytest.raises(BusError):
        check(VersionCheck(), site.world, noon)
    site.world.bus.publish = publish  # type: ignore[method-assign]
    site.checks(noon)
    assert len(site.notices("version.expired")) == 1


def test_an_update_of_a_cluster_that_is_being_deleted_meanwhile_is_skipped(site: Site) -> None:
    site.commits(cloud_profile(), shoot(pools=()))
    update = the_update(site)
    site.commits(cloud_profile(), shoot(pools=(), deletionTimestamp="2026-11-20T00:00:00Z"))
    apply(update, site.world, EVENING)
    site.cloud.drain()
    assert site.versions() == ["1.27.3"]
    assert [each["code"] for each in site.notices("update.skipped")] == ["ClusterDeleting"]


def test_an_update_whose_window_has_shut_meanwhile_is_skipped_with_its_reason(site: Site) -> None:
    site.commits(cloud_profile(), shoot(pools=()))
    apply(the_update(site), site.world, EVENING.replace(minute=46))
    site.cloud.drain()
    assert site.versions() == ["1.27.3"]
    (skipped,) = site.notices("update.skipped")
    assert (skipped["code"], skipped["message"]) == (
        "OutsideWindow",
        "the maintenance window is closed; the update happens when it opens (2026-11-22 22:00 UTC)",
    )


def test_an_update_from_a_version_that_the_cluster_left_meanwhile_is_skipped(site: Site) -> None:
    site.commits(cloud_profile(), shoot(pools=()))
    update = the_update(site)
    site.commits(cloud_profile(), shoot(pools=(), kubernetes="1.28.0"))
    apply(update, site.world, EVENING)
    site.cloud.drain()
    assert site.versions() == ["1.28.0"]
    assert site.actions() == [{"controlPlane/kubernetes": "skipped"}]


class Rehearsing(DocumentFleet):
    """A fleet that refuses in rehearsals only, as a webhook of the provider may."""

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        if dry_run:
            raise Refused("Invalid", "a webhook says no")
        return super().apply(name, step)


def test_what_the_provider_refuses_in_a_rehearsal_is_not_tried(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.ledger.fleets.DocumentFleet", Rehearsing)
    site.commits(cloud_profile(), shoot(pools=()))
    site.checks(EVENING)
    assert site.versions() == ["1.27.3"]
    assert site.actions() == [{"controlPlane/kubernetes": "failed"}]


class Moody(DocumentFleet):
    """A fleet that refuses some steps, and keeps the order in which it was asked."""

    refusals: dict[str, ClusterError]
    asked: list[str]

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        if step.key in self.refusals:
            raise self.refusals[step.key]
        if not dry_run:
            self.asked.append(step.key)
        return super().apply(name, step, dry_run=dry_run)


def moody(site: Site, monkeypatch: pytest.MonkeyPatch, **refusals: ClusterError) -> type[Moody]:
    monkeypatch.setattr(Moody, "refusals", {key.replace("__", "/"): error for key, error in refusals.items()}, raising=False)
    monkeypatch.setattr(Moody, "asked", [], raising=False)
    monkeypatch.setattr("shared.ledger.fleets.DocumentFleet", Moody)
    return Moody


def test_images_go_before_the_control_plane_and_pools_after_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = moody(site, monkeypatch)
    site.commits(cloud_profile(), shoot(pools=("b", "a"), auto=True))
    site.checks(EVENING)
    assert fleet.asked == [
        "worker/b/machineImage",
        "worker/a/machineImage",
        "controlPlane/kubernetes",
        "worker/b/kubernetes",
        "worker/a/kubernetes",
    ]


def test_one_pools_failure_stops_no_other_and_the_action_is_a_partial_success(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    moody(site, monkeypatch, worker__a__kubernetes=Refused("Invalid", "no machines left"))
    site.commits(cloud_profile(), shoot(pools=("a", "b")))
    site.checks(EVENING)
    assert site.versions() == ["1.28.1", "1.27.3", "1.0.0", "1.28.1", "1.0.0"]
    assert site.actions() == [{"controlPlane/kubernetes": "changed", "worker/a/kubernetes": "failed", "worker/b/kubernetes": "changed"}]
    (finished,) = site.notices("action.finished")
    assert finished["result"] == "partial_success"
    assert [each["message"] for each in site.notices("version.failed")] == ["no machines left"]


def test_no_pool_goes_above_a_control_plane_that_could_not_move(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    moody(site, monkeypatch, controlPlane__kubernetes=Refused("Invalid", "a webhook says no"))
    site.commits(cloud_profile(), shoot())
    site.checks(EVENING)
    assert site.versions() == ["1.27.3", "1.27.3", "1.0.0"]
    assert site.actions() == [{"controlPlane/kubernetes": "failed", "worker/a/kubernetes": "skipped"}]


def test_what_the_provider_is_too_busy_for_is_taken_up_by_the_next_check_of_the_window(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Unavailable("the control plane is being updated")
    busy.reason = "UpdateRunning"
    fleet = moody(site, monkeypatch, worker__a__kubernetes=busy)
    site.commits(cloud_profile(), shoot())
    site.checks(EVENING)
    assert site.versions() == ["1.28.1", "1.27.3", "1.0.0"]
    assert site.actions() == [{"controlPlane/kubernetes": "changed", "worker/a/kubernetes": "skipped"}]
    fleet.refusals.clear()
    site.checks(EVENING.replace(minute=20))
    assert site.versions() == ["1.28.1", "1.28.1", "1.0.0"]
    assert len(site.actions()) == 2


def test_a_provider_that_does_not_answer_is_asked_again_and_given_up_at_last(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    moody(site, monkeypatch, controlPlane__kubernetes=Unavailable("no route"))
    site.commits(cloud_profile(), shoot(pools=()))
    update = the_update(site)
    with pytest.raises(TryAgain, match="no route"):
        apply(update, site.world, EVENING)
    assert apply(update, site.world, EVENING, last=True) == "controlPlane/kubernetes failed"


def test_a_fleet_that_cannot_be_listed_does_not_hold_up_the_others(site: Site) -> None:
    def closed(name: str, spec: Any) -> Any:
        class Closed(DocumentFleet):
            def clusters(self) -> Iterator[FleetCluster]:
                raise Unavailable("the garden does not answer")

        return Closed(site.world.store, {})

    site.world.open_fleet = closed
    garden = {
        "apiVersion": "hullmark.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "garden"},
        "spec": {"provider": "gardener", "access": {"inCluster": {}}},
    }
    site.commits(cloud_profile(), shoot(), garden)
    assert check(VersionCheck(), site.world, EVENING) == "4 notices, 1 to update, 1 unreachable"


def test_an_expiring_version_is_told_of_once_at_each_threshold_and_when_it_has_expired(site: Site) -> None:
    versions = [{"version": "1.28.0"}, {"version": "1.26.1", "expirationDate": "2026-12-20T00:00:00Z"}]
    site.commits(cloud_profile(versions), shoot(kubernetes="1.26.1", pools=()))
    told = []
    for day in range(-110, 3):
        before = len(site.cloud.notices)
        site.checks(datetime.fromisoformat("2026-12-20T12:00:00Z") + timedelta(days=day))
        told += [(day, notice.type.split(".")[3], notice.data.get("daysLeft")) for notice in list(site.cloud.notices)[before:]]
    assert told == [
        (-90, "expiring", 89),
        (-60, "expiring", 59),
        (-30, "expiring", 29),
        (-14, "expiring", 13),
        (-7, "expiring", 6),
        (-1, "expiring", 0),
        (0, "expired", -1),
        (0, "skipped", None),
    ]


def test_the_metrics_say_what_runs_and_how_long_it_may(site: Site) -> None:
    site.commits(cloud_profile(), shoot(pools=("a", "b")))
    site.now = EVENING
    from functions.api.health import _versions
    from shared.domain.exposition import exposition

    assert [line for line in exposition(_versions(site.world.revisions.get(1), site.world)).splitlines() if not line.startswith("#")] == [
        'hullmark_version_in_use{profile="p",subject="kubernetes",version="1.27.3"} 3',
        'hullmark_version_in_use{profile="p",subject="linux",version="1.0.0"} 2',
        'hullmark_version_days_to_expiry{profile="p",subject="kubernetes",version="1.27.3"} -21',
        'hullmark_version_days_to_expiry{profile="p",subject="linux",version="1.0.0"} 13',
    ]


def test_an_update_that_nobody_could_deliver_is_recorded_as_failed_step_by_step(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    moody(site, monkeypatch, controlPlane__kubernetes=RuntimeError("a bug"))  # type: ignore[arg-type]
    site.commits(cloud_profile(), shoot(pools=()))
    site.checks(EVENING)
    assert site.actions() == [{"controlPlane/kubernetes": "failed"}]
    (finished,) = site.notices("action.finished")
    assert [each["reason"] for each in finished["attention"]] == ["DeadLettered"]


def test_the_functions_do_what_the_forecast_said(site: Site) -> None:
    images = [
        {
            "name": "linux",
            "updateStrategy": "patch",
            "versions": [
                {"version": "1.0.0", "expirationDate": "2026-11-30T22:15:00Z"},
                {"version": "1.1.0", "expirationDate": "2026-12-08T00:00:00Z"},
                {"version": "1.3.0"},
            ],
        }
    ]
    site.commits(cloud_profile(images=images), shoot("s"), shoot("t", "1.28.1", ("a", "b")), shoot("u", "1.27.3", (), auto=True))
    start = EVENING.replace(hour=12)
    planner = Planner(site.world.fleets(site.world.revisions.get(1)).view())
    foreseen = [
        (e.at.date(), e.cluster.full_name, e.decision.component, e.decision.current) for e in forecast(planner, start) if not e.stuck
    ]
    seen = []
    for day in range(35):
        for minute in (0, 20, 40):
            now = (start + timedelta(days=day)).replace(hour=22, minute=minute)
            before = len(site.cloud.notices)
            site.checks(now)
            updated = [each for each in list(site.cloud.notices)[before:] if each.type == "dev.hullmark.version.updated.v1"]
            seen += [(now.date(), each.subject, each.data["component"], each.data["from"]) for each in updated]
    assert sorted(seen, key=str) == sorted(foreseen, key=str)
    assert len(seen) == 15


def test_a_paused_update_waits_and_goes_on_when_it_is_unpaused(site: Site) -> None:
    site.commits(cloud_profile(), shoot())
    update = the_update(site)
    del site.world.bus.publish
    control(update.action, "pause", "an operator", site.world, EVENING)
    site.now = EVENING
    site.cloud.publish(VersionUpdate.TOPIC, [update.outgoing()])
    site.cloud.drain()
    assert site.versions()[0] == "1.27.3"
    assert site.world.actions.lifecycle(update.action) == "Paused"

    control(update.action, "unpause", "an operator", site.world, EVENING)
    site.cloud.drain()
    assert site.versions()[0] == "1.28.1"
    assert site.world.actions.lifecycle(update.action) == "Complete"


def test_an_update_whose_check_died_before_its_plan_was_kept_is_taken_up_by_the_next_check(site: Site) -> None:
    site.commits(cloud_profile(), shoot())
    lost = the_update(site)
    site.world.store.delete(f"actions/{lost.action}/plan.json")
    del site.world.bus.publish
    site.checks(EVENING)
    assert site.versions() == ["1.28.1", "1.28.1", "1.0.0"]
    assert site.actions() == [{"controlPlane/kubernetes": "changed", "worker/a/kubernetes": "changed"}]


def test_two_deliveries_at_one_moment_apply_a_step_once(site: Site) -> None:
    site.commits(cloud_profile(), shoot(pools=()))
    documented = {"garden/s": site.live()}
    step = VersionStep("controlPlane", "kubernetes", "1.27.3", "1.28.1")
    store = site.world.store

    class Overtaken:
        """A store in which somebody else applies the step between the reading and the writing of it."""

        def create(self, key: str, body: bytes) -> bool:
            DocumentFleet(store, documented).apply("garden/s", step)
            return store.create(key, body)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    assert DocumentFleet(Overtaken(), documented).apply("garden/s", step) is False
    assert len(store.keys("fleet/")) == 1
