"""Ten thousand clusters in five hundred fleets, some of which fail: what a check takes where only calls take time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.version_apply.main import handle as apply
from functions.version_check.main import handle as check
from shared.domain.documents.reading import Document
from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.profiles import Gardener, gardener
from shared.domain.versions.shards import SHARDS, TOGETHER
from shared.messages import PartResult, VersionCheck, VersionUpdate
from shared.ports import ClusterError, Refused, Unavailable
from shared.world import World
from tests.stories.fleet import Fleet
from tests.versions.test_functions import cloud_profile, shoot
from tests.versions.virtual import PROVIDER_SECONDS, PricedBus, PricedStore, VirtualTime

NOON = datetime.fromisoformat("2026-11-21T12:00:00Z")
EVENING = datetime.fromisoformat("2026-11-21T22:10:00Z")
LIMIT = 300.0
"""Seconds that one delivery of version_check has."""


def garden_of(fleet: str, clusters: int) -> Gardener:
    """A garden of its own versions: Shoots that run three of them, with a window at one of the day's hours."""
    documents = [cloud_profile()]
    for number in range(clusters):
        made = shoot(f"{fleet}-{number}", ["1.27.3", "1.28.1", "1.29.0"][number % 3], ("a", "b"), auto=number % 2 == 0)
        hour = (number * 7) % 24
        made["spec"]["maintenance"]["timeWindow"] = {"begin": f"{hour:02}0000+0000", "end": f"{(hour + 1) % 24:02}0000+0000"}
        documents.append(made)
    return gardener(Document("garden", 0, 0, each["kind"], each["metadata"]["name"], each) for each in documents)


@dataclass
class PricedGarden:
    """A garden each of whose calls takes its time, within what it is given."""

    there: Gardener
    time: VirtualTime
    failing: Callable[[PricedGarden], None] = lambda garden: None
    left: Callable[[], float] = lambda: 1e9

    def within(self, left: Callable[[], float], tries: int = 1) -> PricedGarden:
        return replace(self, left=left)

    def call(self, name: str) -> None:
        self.time.spend(PROVIDER_SECONDS, name)
        self.failing(self)

    def clusters(self) -> Iterator[FleetCluster]:
        self.call("list shoots")
        yield from self.there.clusters.values()

    def cluster(self, name: str) -> FleetCluster | None:
        self.call("get shoot")
        return self.there.clusters.get(name)

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        self.call("list profiles")
        self.call("list profiles")
        return [*self.there.profiles.values()], [*self.there.namespaced.values()]

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        self.call("patch shoot")
        if not dry_run:
            self.there.clusters[name] = self.there.clusters[name].with_versions({(step.component, step.subject): step.to})
        return True


def down(_garden: PricedGarden) -> None:
    raise Unavailable("no route to host")


def forbidden(_garden: PricedGarden) -> None:
    raise Refused("Forbidden", "shoots is forbidden")


def odd(_garden: PricedGarden) -> None:
    raise KeyError("version")


def silent(garden: PricedGarden) -> None:
    garden.time.spend(max(0.0, garden.left()), "wait")
    raise Unavailable("it did not answer in time")


FAILING = [down, forbidden, odd, silent]


class Scale(Fleet):
    """Gardens behind Cluster documents, and functions that start anew with each message."""

    def __init__(self, fleets: int, clusters: int, failing: int = 0, *beside: dict[str, Any]) -> None:
        super().__init__()
        self.now = NOON
        names = [f"garden-{number:03}" for number in range(fleets)]
        spec = {"provider": "gardener", "access": {"kubeconfig": {"name": "gardens"}}}
        documents = [{"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec} for name in names]
        self.commits(*documents, *beside, adopted=False)
        self.gardens = {name: garden_of(name, clusters) for name in names}
        self.failing = (
            {name: FAILING[number % len(FAILING)] for number, name in enumerate(names[:: max(1, fleets // failing)][:failing])}
            if failing
            else {}
        )
        self.calls: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    def costs(self, work: Callable[[World], object]) -> tuple[float, PricedBus]:
        """The seconds of one delivery in a process that knows nothing yet, and what it published."""
        time = VirtualTime()
        bus: Any = PricedBus(time)
        store: Any = PricedStore(self.world.store, time)

        def opened(name: str, _spec: object) -> PricedGarden:
            return PricedGarden(self.gardens[name], time, self.failing.get(name, lambda garden: None))

        workers: Any = time
        world = World(store, bus, self.world.open_cluster, self.world.settings, lambda: self.now, opened, workers, lambda: time.now)
        work(world)
        self.calls += time.calls
        return time.now, bus

    def checks(self, **fields: Any) -> tuple[list[float], list[VersionUpdate]]:
        """A check from the clock's message on: the seconds of each delivery, and the updates."""
        waiting, seconds, updates = [VersionCheck(**fields)], [], []
        while waiting:
            message = waiting.pop()
            said: list[str] = []
            spent, bus = self.costs(lambda world, message=message, said=said: said.append(check(message, world, self.now)))  # type: ignore[misc]
            seconds.append(spent)
            for part in said[0].split(", "):
                number, _, outcome = part.partition(" ")
                self.outcomes[outcome] += int(number) if number.isdigit() else 0
            waiting += [VersionCheck.parse(sent.data) for sent in bus.take(VersionCheck.TOPIC)]
            updates += [VersionUpdate.parse(sent.data) for sent in bus.take(VersionUpdate.TOPIC)]
        return seconds, updates

    def applies(self, updates: list[VersionUpdate]) -> list[float]:
        """Each update by a delivery of its own, its result recorded; their seconds."""
        seconds = []
        for update in updates:
            spent, bus = self.costs(lambda world, update=update: apply(update, world, self.now, last=True))  # type: ignore[misc]
            seconds.append(spent)
            for sent in bus.take(PartResult.TOPIC):
                self.cloud.publish(PartResult.TOPIC, [sent])
        self.cloud.drain()
        return seconds


def test_ten_thousand_clusters_in_five_hundred_fleets_of_which_twenty_fail() -> None:
    site = Scale(500, 20, failing=20)
    first, _ = site.checks()
    assert len(first) == 1 + SHARDS
    assert max(first) < 60, "whoever never answers takes half of it"
    assert site.outcomes["unreachable"] == 20
    decided = sum(site.outcomes[each] for each in ("up to date", "outside their window", "to update", "held"))
    assert decided == (500 - 20) * 20

    site.calls.clear()
    site.now += timedelta(minutes=10)
    again, _ = site.checks()
    assert sum(again) < LIMIT, "all deliveries together"
    assert site.calls["get"] + site.calls["list"] < 12 * 500


def test_one_delivery_asks_its_fleets_side_by_side() -> None:
    site = Scale(TOGETHER - 1, 2)
    site.checks()
    site.now += timedelta(minutes=10)
    (seconds,), _ = site.checks()
    assert seconds < 1.5, "fifteen gardens, three calls each"


def test_clusters_that_are_all_due_in_one_window_are_updated_in_its_first_check() -> None:
    site = Scale(60, 20)
    for garden in site.gardens.values():
        for name, cluster in garden.clusters.items():
            garden.clusters[name] = replace(cluster, window=next(iter(garden.clusters.values())).window)
    site.now = datetime.fromisoformat("2026-11-21T00:10:00Z")
    seconds, updates = site.checks()
    assert len(updates) == site.outcomes["to update"] > 600
    assert max(seconds) < 60
    assert max(site.applies(updates[:5])) < 3


def test_what_a_check_reads_does_not_grow_with_its_history() -> None:
    site = Scale(TOGETHER + 4, 4)
    calls = []
    for day in range(12):
        for hour in (0, 4, 7, 14, 21):
            site.now = NOON.replace(hour=hour, minute=10) + timedelta(days=day)
            site.calls.clear()
            _, updates = site.checks()
            reads = site.calls["get"] + site.calls["list"]
            site.applies(updates)
        calls.append(reads)
    assert max(calls[6:]) <= calls[1]


def test_a_delivery_for_some_fleets_forgets_no_cluster_of_the_others() -> None:
    stages = [{"name": "first", "clusters": {"names": ["garden-000", "garden-001"]}}]
    waves = {
        "apiVersion": "hullmark.dev/v1",
        "kind": "Rollout",
        "metadata": {"name": "waves"},
        "spec": {"change": "versions", "stages": stages},
    }
    site = Scale(TOGETHER + 4, 2, 0, waves, cloud_profile([{"version": "1.28.1"}]), shoot("s", "1.28.1"))
    site.checks()
    known = site.world.sightings.read(site.now).clusters
    assert len(known) == (TOGETHER + 4) * 2 + 1
    site.now += timedelta(hours=2)
    site.checks()
    assert site.world.sightings.read(site.now).clusters == known, "what each runs, and since when"


def test_a_fleet_that_fails_is_one_line_and_the_others_go_on() -> None:
    site = Scale(TOGETHER + 4, 2, failing=4)
    site.checks(dry_run=True)
    assert site.outcomes["unreachable"] == 4
    assert sum(site.outcomes[each] for each in ("up to date", "outside their window", "would be updated", "held")) == TOGETHER * 2


@pytest.mark.parametrize("error", [Unavailable("away"), Refused("Forbidden", "no")])
def test_an_update_opens_its_own_fleet_alone(error: ClusterError) -> None:
    site = Scale(3, 1)
    site.now = datetime.fromisoformat("2026-11-21T00:10:00Z")
    _, updates = site.checks()
    mine = next(update for update in updates if update.fleet == "garden-001")

    def fails(_garden: PricedGarden) -> None:
        raise error

    site.failing = {"garden-000": fails, "garden-002": fails}
    site.calls.clear()
    site.applies([mine])
    assert site.calls["list shoots"] == 0
    assert site.gardens["garden-001"].clusters["garden/garden-001-0"].kubernetes != "1.27.3"
