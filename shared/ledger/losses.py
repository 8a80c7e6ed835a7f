"""Labels that nodes lose although no release took them: how many nodes, by cluster and hour. Sweeps and events share one count.

budget/<cluster>/<hour>/<n>.json   the nodes that were let through in this hour, and whether more asked; n has no gaps, the newest counts

What is over is removed by the hour. A count that can't be read lets nothing through, until its hour is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pydantic import Field

from shared.domain.actions import Record
from shared.ledger.records import RecordUnreadable, read_record
from shared.ports import ObjectStore

KEPT_HOURS = 2
"""Hours that are kept beside the one that runs: the last one says whether single events wait for the sweep."""
MOST_KNOWN = 1000
"""Clusters' hours that a process remembers."""
MOST_SINGLE = 1000
"""Nodes in an hour that events may let through one by one: each rewrites the hour's names."""

Within = Callable[[int], bool]
"""Whether the limits let so many nodes pass."""
Tell = Callable[[], None]


class Hour(Record):
    """One hour of one cluster."""

    nodes: list[str] = Field(default_factory=list)
    """What was let through."""
    beyond: bool = False
    """Whether more nodes asked than the limits let pass."""


SPENT = Hour(beyond=True)


class _Asked(NamedTuple):
    """What nodes that ask come to."""

    granted: bool
    before: bool
    """Whether the limit was reached before, in this hour or the last."""
    key: str
    after: Hour | None = None
    """What to record under `key`; None: nothing."""


class Losses:
    """The counts of one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[tuple[str, datetime], int] = {}
        """By cluster and hour, the last number that was there: where to begin to look for the newest."""
        self.reached: dict[str, frozenset[str]] = {}
        """By action that has ended, the nodes that it brought its release to: asked by one event after the other."""

    def claim(
        self, cluster: str, names: Collection[str], within: Within, now: datetime, *, single: bool, tell: Tell = lambda: None
    ) -> bool:
        """Let these nodes through, all or none. A node that was let through in this hour counts once.

        `single`: an event's node, which knows nothing of the others; in the hour after one that went beyond the limit it waits for a
        sweep, which sees them all. `tell` is called before it is recorded that the limit is reached, once in a row of hours where it is.
        """
        while True:
            asked = self._asked(cluster, names, within, now, single)
            if asked.after is None:
                return asked.granted
            if not asked.granted and not asked.before:
                tell()
            if self._store.create(asked.key, asked.after.to_bytes()):
                return asked.granted

    def would(self, cluster: str, names: Collection[str], within: Within, now: datetime) -> bool:
        """Whether a sweep's nodes would be let through; nothing is recorded."""
        return self._asked(cluster, names, within, now, False).granted

    def _asked(self, cluster: str, names: Collection[str], within: Within, now: datetime, single: bool) -> _Asked:
        hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        number, state = self._newest(cluster, hour)
        there, key = {*state.nodes}, _key(cluster, hour, number + 1)
        if there.issuperset(names):
            return _Asked(True, state.beyond, key)
        before = state.beyond or self._newest(cluster, hour - timedelta(hours=1))[1].beyond
        every = there.union(names)
        granted = state is not SPENT and within(len(every)) and not (single and (before or len(every) > MOST_SINGLE))
        after = Hour(nodes=sorted(every) if granted else state.nodes, beyond=state.beyond if granted and single else not granted)
        return _Asked(granted, before, key, None if state is SPENT or after == state else after)

    def forget(self, now: datetime) -> None:
        """Remove the hours that are over."""
        oldest = _named(now - timedelta(hours=KEPT_HOURS))
        for key in self._store.keys("budget/"):
            if key.split("/")[2:3] < [oldest]:
                self._store.delete(key)

    def _newest(self, cluster: str, hour: datetime) -> tuple[int, Hour]:
        """The newest count of an hour and its number: found by asking for few numbers, because they have no gaps."""
        there, step = self._known.get((cluster, hour), 0), 1
        while self._store.get(_key(cluster, hour, there + step)) is not None:
            there, step = there + step, step * 2
        while step > 1:
            step //= 2
            if self._store.get(_key(cluster, hour, there + step)) is not None:
                there += step
        if not there:
            return 0, Hour()
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known[cluster, hour] = there
        try:
            return there, read_record(self._store, _key(cluster, hour, there), Hour) or SPENT
        except RecordUnreadable:
            return there, SPENT


def _named(hour: datetime) -> str:
    return f"{hour.astimezone(UTC):%Y-%m-%dT%H}"


def _key(cluster: str, hour: datetime, number: int) -> str:
    return f"budget/{cluster}/{_named(hour)}/{number:06}.json"
