"""What has been costs nothing: the same calls and listed keys for 100 past actions as for 2,000, and they are forgotten in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from ulid import ULID

from functions.api.fleet import look
from functions.result_rollup.main import FORGOTTEN_AT_A_TIME, sweep
from shared.domain.actions import ActionOutcome, ActionRequest
from shared.ledger.actions import BY_DAY, Actions
from shared.messages import RelabelRequest
from shared.ports import ObjectStore
from shared.work.intake import accept
from shared.world import World
from tests.stories.fleet import Fleet, a_policy


class Counting:
    """A store that counts its calls, and the keys that listings answer."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            found = method(*args, **kwargs)
            if name == "keys":
                self.calls["listed"] += len(found)
            return found

        return call


def past(store: ObjectStore, which: range, now: datetime) -> None:
    """Actions on the whole site so many hours ago, all ended."""
    ledger = Actions(store)
    for hours in which:
        at = now - timedelta(hours=hours)
        action = str(ULID.from_datetime(at))
        named = {"id": action, "name": "update_site", "cluster": "default", "revision": 1, "requested_by": "a clock"}
        ledger.accept(ActionRequest.model_validate({**named, "requested_at": at, "deadline": at}))
        ledger.end(action, ActionOutcome(result="success", finished_at=at, revision=1, counts={"changed": 1}))
        ledger.mark_announced(action)


def costs(fleet: Fleet, work: Callable[[World], object]) -> Counter[str]:
    """The calls of some work in a process that knows the newest revision already, and nothing else."""
    counting: Any = Counting(fleet.world.store)
    world = World(counting, fleet.world.bus, fleet.world.open_cluster, fleet.world.settings, fleet.world.clock, fleet.world.open_fleet)
    world.revisions.newest()
    counting.calls.clear()
    work(world)
    found: Counter[str] = counting.calls
    return found


WORK: dict[str, Callable[[World], object]] = {
    "list": lambda world: world.actions.ids(limit=20),
    "page": look,
    "sweep": lambda world: sweep(world, world.clock()),
    "accept": lambda world: accept(RelabelRequest(target_nodes=["n1"]), str(ULID.from_datetime(world.clock())), world, world.clock()),
}


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    fleet.commits(a_policy("p", {"names": ["n1"]}, {"rack": "r1"}))
    fleet.has_nodes(n1={})
    return fleet


@pytest.mark.parametrize("work", WORK)
def test_a_long_past_costs_nothing(fleet: Fleet, work: str) -> None:
    past(fleet.world.store, range(1, 101), fleet.now)
    few = costs(fleet, WORK[work])
    past(fleet.world.store, range(101, 2001), fleet.now)
    assert costs(fleet, WORK[work]) == few
    assert sum(few.values()) < 200


def test_what_ended_long_ago_is_forgotten_a_little_at_each_sweep_and_what_is_open_stays(fleet: Fleet) -> None:
    past(fleet.world.store, range(1, 61), fleet.now - timedelta(days=200))
    past(fleet.world.store, range(1, 4), fleet.now)
    still_open = fleet.world.actions.ids()[0]
    fleet.world.store.create(f"open-actions/{still_open}", b"2099-01-01T00:00:00+00:00")
    fleet.world.store.delete(f"actions/{still_open}/outcome.json")
    before = fleet.world.actions.ids()

    forgotten = fleet.world.actions.forget(fleet.now - timedelta(days=90), FORGOTTEN_AT_A_TIME)

    assert forgotten == FORGOTTEN_AT_A_TIME
    assert fleet.world.actions.ids() == [still_open, *before[1 + FORGOTTEN_AT_A_TIME :]]
    sweep(fleet.world, fleet.now)  # which ends it, its deadline being long past, and forgets it too
    assert fleet.world.actions.ids() == before[-3:]
    assert len(fleet.world.store.keys(BY_DAY)) == 3
    assert fleet.world.revisions.newest() == 1
