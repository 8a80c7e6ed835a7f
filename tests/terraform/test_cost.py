"""The counts that docs/cost.md multiplies by prices, taken from the embedded cloud."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from shared.ledger.history import DONE
from shared.messages import DeadlineCheck, NodeChanged, Outgoing
from tests.stories.fleet import Fleet, a_policy

WRITES_AND_LISTINGS = ("create", "keys", "folders")


class Counting:
    """The store of a fleet, with every call of the functions counted; the simulated cluster keeps its own."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._inner, name)


@pytest.fixture
def counted() -> tuple[Fleet, Counting]:
    fleet = Fleet()
    store = Counting(fleet.world.store)
    for holder in (fleet.world, fleet.world.actions, fleet.world.actions._history, fleet.world.revisions):
        for name, value in list(vars(holder).items()):
            if value is store._inner:
                setattr(holder, name, store)
    fleet.commits(a_policy("all", {"matchLabels": {"zone": "a"}}, {"rack": "r1"}))
    return fleet, store


def costs(fleet: Fleet, store: Counting, work: Any) -> dict[str, int]:
    """Messages, requests, class A and class B operations of some work."""
    sent = Counter[str]()
    publish = fleet.cloud.publish

    def counting(topic: str, messages: Sequence[Outgoing]) -> None:
        sent[topic] += len(messages)
        publish(topic, messages)

    fleet.cloud.publish = counting  # type: ignore[method-assign]
    delivered = fleet.cloud.delivered
    store.calls.clear()
    work()
    fleet.cloud.drain()
    fleet.cloud.publish = publish  # type: ignore[method-assign]
    return {
        "messages": sum(sent.values()),
        "requests": fleet.cloud.delivered - delivered,
        "A": sum(store.calls[name] for name in WRITES_AND_LISTINGS),
        "B": store.calls["get"],
    }


@pytest.mark.parametrize(("nodes", "parts"), [(100, 1), (1000, 5)])
def test_a_relabel_costs_what_its_parts_cost(counted: tuple[Fleet, Counting], nodes: int, parts: int) -> None:
    fleet, store = counted
    fleet.has_nodes(**{f"n{number}": {"zone": "a"} for number in range(nodes)})
    found = costs(fleet, store, fleet.relabels)
    assert found == {"messages": 2 * parts + 2, "requests": 2 * parts + 1, "A": 3 * parts + 10, "B": 6 * parts + 10}


def test_a_relabel_in_which_nothing_changes_costs_the_same_for_any_number_of_nodes(counted: tuple[Fleet, Counting]) -> None:
    fleet, store = counted
    for more in (10, 500):
        fleet.has_nodes(**{f"n{more}-{number}": {"zone": "a"} for number in range(more)})
        fleet.relabels()
        assert costs(fleet, store, fleet.relabels) == {"messages": 3, "requests": 2, "A": 10, "B": 9}


def test_a_deadline_check_that_finds_nothing_costs_two_listings_and_once_an_hour_a_few_more(
    counted: tuple[Fleet, Counting],
) -> None:
    fleet, store = counted
    store.create(DONE, b"")

    def check() -> None:
        fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])

    costs(fleet, store, check)
    assert costs(fleet, store, check) == {"messages": 1, "requests": 1, "A": 2, "B": 1}
    fleet.now += timedelta(hours=1)
    assert costs(fleet, store, check) == {"messages": 1, "requests": 1, "A": 8, "B": 5}


def test_a_node_event_costs_one_read(counted: tuple[Fleet, Counting]) -> None:
    fleet, store = counted
    fleet.has_nodes(n1={"zone": "a"})
    fleet.relabels()

    def event(name: str) -> Any:
        return lambda: fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged(name=name, cluster="default").outgoing()])

    assert costs(fleet, store, event("n1")) == {"messages": 1, "requests": 1, "A": 0, "B": 1}
    fleet.has_nodes(n2={"zone": "a"})
    assert costs(fleet, store, event("n2")) == {"messages": 3, "requests": 3, "A": 2, "B": 3}
