"""Time that only calls spend: what a function would take where each call of a store, a bus or a provider has its price.

Calls are counted, and what is done side by side is put on lanes as a pool of threads would, the next item on the lane that is free first.
The processor's own time is not in it: `python -m bench.versions` measures that.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from shared.messages import Outgoing
from shared.ports import ObjectStore

T = TypeVar("T")
R = TypeVar("R")
STORE_SECONDS, PROVIDER_SECONDS, BUS_SECONDS = 0.02, 0.05, 0.02
LISTED_AT_A_TIME = 1000
"""Keys that a bucket answers in one call."""


class VirtualTime:
    """The seconds so far, and what they went on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: Counter[str] = Counter()

    def spend(self, seconds: float, call: str, times: int = 1) -> None:
        """So many calls, one after the other."""
        self.now += seconds * times
        self.calls[call] += times

    def each(self, work: Callable[[T], R], items: Iterable[T], most: int = 16) -> list[R]:
        """`shared.ports.Workers`: so many lanes, and the time of the one that is done last."""
        lanes = [self.now] * most
        results: list[R] = []
        errors: list[Exception] = []
        for item in items:
            self.now = heapq.heappop(lanes)
            try:
                results.append(work(item))
            except Exception as error:
                errors.append(error)
            heapq.heappush(lanes, self.now)
        self.now = max(lanes)
        if errors:
            raise errors[0]
        return results


class PricedStore:
    """A store each of whose calls takes its time."""

    def __init__(self, inner: ObjectStore, time: VirtualTime) -> None:
        self._inner = inner
        self._time = time

    def create(self, key: str, body: bytes) -> bool:
        self._time.spend(STORE_SECONDS, "create")
        return self._inner.create(key, body)

    def get(self, key: str) -> bytes | None:
        self._time.spend(STORE_SECONDS, "get")
        return self._inner.get(key)

    def keys(self, prefix: str, after: str = "", limit: int = 0) -> list[str]:
        found = self._inner.keys(prefix, after, limit)
        self._time.spend(STORE_SECONDS, "list", 1 + len(found) // LISTED_AT_A_TIME)
        return found

    def folders(self, prefix: str) -> list[str]:
        found = self._inner.folders(prefix)
        self._time.spend(STORE_SECONDS, "list", 1 + len(found) // LISTED_AT_A_TIME)
        return found

    def delete(self, key: str) -> None:
        self._time.spend(STORE_SECONDS, "delete")
        self._inner.delete(key)


class PricedBus:
    """A bus that keeps what is published, by topic."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self.sent: dict[str, list[Outgoing]] = {}

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        self._time.spend(BUS_SECONDS, "publish")
        self.sent.setdefault(topic, []).extend(messages)

    def take(self, topic: str) -> list[Outgoing]:
        """What was published to a topic since it was taken last."""
        return self.sent.pop(topic, [])
