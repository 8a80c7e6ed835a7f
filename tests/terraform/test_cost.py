"""docs/cost.md: its counts are those of the embedded cloud, and its dollars follow from them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from local.steps import ROOT
from shared.adapters import store as stores
from shared.messages import DeadlineCheck, NodeChanged, Outgoing, RelabelRequest, RolloutStep
from shared.work.rollouts import start
from tests.counting import Counting
from tests.rollouts.rolling import a_rollout
from tests.stories.fleet import Fleet, a_policy

PAGE = (ROOT / "docs" / "cost.md").read_text()
WRITES_AND_LISTINGS = ("create", "keys", "folders")
Costs = dict[str, int]


class Counted:
    """A fleet whose functions' calls are counted; the simulated cluster's own are not. With `clusters`, as many are declared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clusters: int = 0) -> None:
        made: list[Counting] = []
        open_store = stores.open_store

        def counting(url: str) -> Any:
            made.append(Counting(open_store(url)))
            return made[-1]

        monkeypatch.setattr(stores, "open_store", counting)
        self.fleet = Fleet()
        monkeypatch.setattr(stores, "open_store", open_store)
        (self.store,) = made
        self.fleet.cluster._store = self.store.inner
        self.fleet.world.releases._monotonic = self._seconds  # nothing read an hour ago is trusted
        self.names = [f"c{number}" for number in range(clusters)]
        if clusters:
            self.fleet.world.settings = self.fleet.world.settings.model_copy(update={"cluster": ""})
        self.fleet.commits(a_policy("all", {"matchLabels": {"zone": "a"}}, {"rack": "r1"}), *map(a_cluster, self.names))

    def _seconds(self) -> float:
        return self.fleet.now.timestamp()

    def has_nodes(self, *names: str) -> None:
        self.fleet.has_nodes(**{name: {"zone": "a"} for name in names})

    def relabels(self) -> None:
        for name in self.names or [""]:
            self.fleet.relabels(**({"cluster": name} if name else {}))

    def publishes(self, topic: str, *messages: Outgoing) -> Callable[[], None]:
        return lambda: self.fleet.cloud.publish(topic, list(messages))

    def of(self, work: Callable[[], object]) -> Costs:
        """Messages, requests, class A and class B operations of some work, an hour after the last."""
        fleet, sent = self.fleet, Counter[str]()
        publish = fleet.cloud.publish

        def counting(topic: str, messages: Sequence[Outgoing]) -> None:
            sent[topic] += len(messages)
            publish(topic, messages)

        fleet.cloud.publish = counting  # type: ignore[method-assign]
        fleet.now += timedelta(hours=1)
        delivered = fleet.cloud.delivered
        self.store.clear()
        work()
        fleet.cloud.drain()
        fleet.cloud.publish = publish  # type: ignore[method-assign]
        return {
            "messages": sum(sent.values()),
            "requests": fleet.cloud.delivered - delivered,
            "A": sum(self.store.calls[name] for name in WRITES_AND_LISTINGS),
            "B": self.store.calls["get"],
        }


def a_cluster(name: str) -> dict[str, Any]:
    access = {"simulated": {"name": "seed"}}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"access": access}}


SWEEP = (RelabelRequest.TOPIC, Outgoing(b'{"name": "drift_sweep"}'))


def page(row: str, **of: int) -> Costs:
    """A row of the page's table of unit costs, for so many parts or clusters."""
    found = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", PAGE, re.MULTILINE)
    assert found, f"the page has no row {row!r}"
    return dict(zip(("messages", "requests", "A", "B"), (evaluated(cell, of) for cell in found[1].split("|")), strict=True))


def evaluated(formula: str, of: dict[str, int]) -> int:
    """`3P + 10` for a P."""
    total = 0
    for term in formula.split("+"):
        number, name = re.fullmatch(r"\s*(\d*)([PCKR]?)\s*", term).groups()  # type: ignore[union-attr]
        total += int(number or 1) * (of[name] if name else 1)
    return total


@pytest.mark.parametrize(("nodes", "parts"), [(100, 1), (1000, 5)])
def test_a_relabel_costs_what_its_parts_cost(monkeypatch: pytest.MonkeyPatch, nodes: int, parts: int) -> None:
    counted = Counted(monkeypatch)
    counted.has_nodes(*(f"n{number}" for number in range(nodes)))
    assert counted.of(counted.relabels) == page("a relabel with P parts", P=parts)


def test_a_relabel_in_which_nothing_changes_costs_the_same_for_any_number_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    for more in (10, 500):
        counted.has_nodes(*(f"n{more}-{number}" for number in range(more)))
        counted.relabels()
        assert counted.of(counted.relabels) == page("a relabel in which nothing changes")


@pytest.mark.parametrize("clusters", [2, 7])
def test_sweeps_that_find_nothing_cost_what_their_clusters_cost(monkeypatch: pytest.MonkeyPatch, clusters: int) -> None:
    counted = Counted(monkeypatch, clusters)
    counted.has_nodes("n1", "n2")
    counted.relabels()
    for _ in range(2):  # the second leaves a sweep behind that the third clears away
        counted.of(counted.publishes(*SWEEP))
    assert counted.of(counted.publishes(*SWEEP)) == page("a sweep of C clusters, nothing to do", C=clusters)


def test_a_clock_that_rings_when_no_cluster_has_its_turn_costs_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.fleet.world.settings = counted.fleet.world.settings.model_copy(update={"cluster": ""})
    body = b'{"name": "drift_sweep", "spread": 5}'
    found = [counted.of(counted.publishes(RelabelRequest.TOPIC, Outgoing(body, {}))) for _ in range(2)]
    assert page("a sweep that is no cluster's turn") in found


def test_a_deadline_check_costs_a_few_listings_and_once_an_hour_a_few_more(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)

    def check() -> None:
        counted.fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])

    counted.of(check)
    assert counted.of(check) == page("the first deadline check of an hour")
    counted.fleet.now -= timedelta(hours=1)
    assert counted.of(check) == page("a deadline check, nothing to do")


def test_a_node_event_costs_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.has_nodes("n1")
    counted.relabels()

    def event(name: str) -> Callable[[], None]:
        return counted.publishes(NodeChanged.TOPIC, NodeChanged(name=name, cluster="default").outgoing())

    assert counted.of(event("n1")) == page("a node event, nothing to do")
    counted.has_nodes("n2")
    assert counted.of(event("n2")) == page("a node event that leads to a write")


def rolling(counted: Counted, *stages: Mapping[str, object]) -> Callable[[], object]:
    """The start of a rollout that changes every node."""
    fleet = counted.fleet
    policy, clusters = a_policy("all", {"matchLabels": {"zone": "a"}}, {"rack": "r2"}), map(a_cluster, counted.names)
    fleet.commits(policy, a_rollout(*stages), *clusters, adopted=False)
    return lambda: start("careful", "an operator", fleet.world, fleet.now)


@pytest.mark.parametrize(("nodes", "stages", "batches", "parts"), [(100, 1, 1, 1), (1000, 1, 1, 5), (100, 2, 2, 2), (1000, 2, 2, 6)])
def test_a_rollout_costs_what_its_batches_and_their_parts_cost(
    monkeypatch: pytest.MonkeyPatch, nodes: int, stages: int, batches: int, parts: int
) -> None:
    counted = Counted(monkeypatch)
    counted.has_nodes(*(f"n{number}" for number in range(nodes)))
    counted.relabels()
    work = rolling(counted, *[{"name": "half", "percent": 50}][: stages - 1])
    assert counted.of(work) == page("a rollout in K batches with P parts together", K=batches, P=parts)


def test_the_clock_of_rollouts_costs_a_listing_and_a_few_reads_for_each_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.has_nodes("n1", "n2")
    counted.relabels()

    def rings() -> None:
        counted.fleet.cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])

    assert counted.of(rings) == page("the rollouts' clock, with R that wait", R=0)
    counted.of(rolling(counted, {"name": "half", "percent": 50, "soak": "12h"}))
    assert counted.of(rings) == page("the rollouts' clock, with R that wait", R=1)


def test_events_and_sweeps_cost_while_a_rollout_is_under_way_what_they_cost_without(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch, clusters=1)
    counted.has_nodes("n1", "n2", "n3", "n4")
    counted.relabels()
    event = counted.publishes(NodeChanged.TOPIC, NodeChanged(name="n1", cluster="c0").outgoing())
    work: list[Callable[[], object]] = [event, counted.publishes(*SWEEP)]
    starts = rolling(counted, {"name": "half", "percent": 50, "soak": "96h"})
    for _ in range(2):
        before = [counted.of(each) for each in work]
    counted.of(starts)
    for _ in range(2):
        during = [counted.of(each) for each in work]
    assert during == before


# Dollars

CPU, GIB, REQUEST, A, B, TIB = 0.000024, 0.0000025, 0.0000004, 0.000005, 0.0000004, 40
SWEEPS, MONTH = 720, 30


def runs(seconds: float, gib: float, cpu: float = 1.0) -> float:
    return seconds * (cpu * CPU + gib * GIB)


def kept(costs: Costs) -> float:
    return costs["A"] * A + costs["B"] * B


def planning(nodes: int) -> float:
    return runs(1 + nodes / 10_000, 1)


def month(nodes: int) -> dict[str, float]:
    """What the page says of so many nodes in one cluster, row by row."""
    parts, events, new = min(256, math.ceil(nodes / 200)), 30 * nodes, 3 * nodes
    quiet, relabel = page("a relabel in which nothing changes"), page("a relabel with P parts", P=parts)
    event, write = page("a node event, nothing to do"), page("a node event that leads to a write")
    check, hourly = page("a deadline check, nothing to do"), page("the first deadline check of an hour")
    turn = page("a sweep that is no cluster's turn")
    return {
        "sweeps": SWEEPS * (planning(nodes) + runs(0.2, 0.5) + 2 * REQUEST + kept(quiet)) + 8640 * (runs(0.05, 1) + REQUEST + kept(turn)),
        "relabels of all": 4 * (planning(nodes) + runs(4 * nodes / 700, 0.5) + relabel["requests"] * REQUEST + kept(relabel)),
        "node events": events * (runs(0.1, 0.5) + REQUEST + kept(event)),
        "new nodes": new * (2 * (runs(0.2, 0.5) + REQUEST) + kept(write)),
        "version checks": 4320 * (runs(2, 1, 0.58) + REQUEST + 5 * A + 10 * B),
        "deadline checks": 8640 * (runs(0.1, 0.5) + REQUEST + kept(check)) + SWEEPS * (kept(hourly) - kept(check)),
        "rollouts' clock": 43_200 * (runs(0.05, 1) + REQUEST + kept(page("the rollouts' clock, with R that wait", R=0))),
        "Pub/Sub": events * 10 / 2**30 * TIB,
    }


def many(clusters: int) -> dict[str, float]:
    """What the page says of so many clusters of 100 nodes each: what one cluster adds, and what there is once."""
    nodes, one = 100 * clusters, page("a sweep of C clusters, nothing to do", C=1)
    each = runs(0.3, 1) + runs(0.1, 0.5) + one["requests"] * REQUEST + kept(one) + one["messages"] * 2 / 2**30 * TIB
    of_nodes = month(nodes)
    return {
        "sweeps": SWEEPS * clusters * each,
        "node events and new nodes": of_nodes["node events"] + of_nodes["new nodes"] + of_nodes["Pub/Sub"],
    }


def dollars(row: str, table: str) -> list[float]:
    found = re.search(rf"^\| {re.escape(row)} \| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) \|", PAGE.partition(table)[2], re.MULTILINE)
    assert found, f"no row {row!r} below {table!r}"
    return [float(cell.replace(",", "")) for cell in found.groups()]


@pytest.mark.parametrize(
    "row", ["sweeps", "relabels of all", "node events", "new nodes", "version checks", "deadline checks", "rollouts' clock", "Pub/Sub"]
)
def test_the_dollars_of_a_month_follow_from_the_counts(row: str) -> None:
    assert dollars(row, "| dollars a month |") == [round(month(nodes)[row], 2) for nodes in (100, 10_000, 100_000)]


@pytest.mark.parametrize("row", ["sweeps", "node events and new nodes"])
def test_the_dollars_of_many_clusters_follow_from_the_counts(row: str) -> None:
    assert dollars(row, "| clusters of 100 nodes |") == [round(many(clusters)[row], 2) for clusters in (10, 1_000, 10_000)]
