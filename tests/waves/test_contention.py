"""Every delivery of a check of many fleets keeps what it has seen in the same eight shares: what that costs where all come at once."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest

from shared.adapters.store import open_store
from shared.domain.versions.clusters import FleetCluster, Health
from shared.domain.versions.shards import SHARDS
from shared.domain.waves.sightings import look_at
from shared.ledger.sightings import SHARES, Sightings
from shared.ports import ObjectStore
from shared.work.waves import _Update
from tests.versions.virtual import STORE_SECONDS

NOW = datetime.fromisoformat("2026-11-21T22:10:00Z")
EACH = 40
"""Clusters of one delivery."""


class InTurns:
    """A store for several processes whose calls all take as long: in each round every one of them makes one call, in a fixed order."""

    def __init__(self, inner: ObjectStore, processes: int) -> None:
        self.inner, self.waiting = inner, list(range(processes))
        self.turn, self.rounds, self.conflicts = 0, 0, 0
        self.moved = threading.Condition()

    def take(self, process: int, call: Any, *args: Any) -> Any:
        with self.moved:
            self.moved.wait_for(lambda: self.waiting[self.turn] == process)
            answer = call(*args)
            if call == self.inner.create and not answer and args[0].startswith("sightings/"):
                self.conflicts += 1
            self._next(self.turn + 1)
            return answer

    def leave(self, process: int) -> None:
        with self.moved:
            self.moved.wait_for(lambda: self.waiting[self.turn] == process)
            del self.waiting[self.turn]
            self._next(self.turn)

    def _next(self, turn: int) -> None:
        self.rounds += turn >= len(self.waiting)
        self.turn = turn % len(self.waiting) if self.waiting else 0
        self.moved.notify_all()


class Mine:
    """The store as one of the processes has it."""

    def __init__(self, shared: InTurns, process: int) -> None:
        self._shared, self._process = shared, process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._shared.inner, name)
        return lambda *args: self._shared.take(self._process, method, *args)


def update_of(process: int) -> _Update:
    """What one delivery has seen: a fleet of its own."""
    fleet = f"fleet-{process}"
    seen = [FleetCluster(f"garden/c{number}", "1.30.1", "p", fleet=fleet, health=Health(True)) for number in range(EACH)]
    looks = {cluster.full_name: look_at(cluster, {}) for cluster in seen}
    return _Update(looks, {fleet}, {f"fleet-{each}" for each in range(SHARDS)}, {}, NOW)


@pytest.mark.parametrize("processes", [8, SHARDS])
def test_deliveries_that_come_at_once_lose_nothing_and_wait_for_each_other_seconds_only(processes: int) -> None:
    store = open_store("memory:")
    turns = InTurns(store, processes)

    def deliver(process: int) -> None:
        mine: Any = Mine(turns, process)
        Sightings(mine).change(update_of(process), NOW)
        turns.leave(process)

    threads = [threading.Thread(target=deliver, args=(process,)) for process in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Sightings(store).read(NOW).clusters) == processes * EACH
    assert turns.conflicts <= SHARES * processes * 3
    assert turns.rounds * STORE_SECONDS < 10


def test_a_reader_that_is_overtaken_while_it_reads_reads_again_and_forgets_nobody() -> None:
    store = open_store("memory:")
    others = Sightings(store)
    for process in range(10):
        others.change_one(0, update_of(process), NOW)
    known = {*others.read(NOW).clusters}

    class Overtaken:
        """Between its finding the newest state and reading it, ten others go on, and the state goes."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def get(self, key: str) -> bytes | None:
            found = store.get(key)
            if key == "sightings/0/000011.json" and found is None:
                for process in range(10, 20):
                    others.change_one(0, update_of(process), NOW)
            return found

    slow: Any = Overtaken()
    Sightings(slow).change_one(0, update_of(30), NOW)
    assert known
    assert known <= {*others.read(NOW).clusters}
