"""Which notices about versions are out, so that each is sent once.

notices/versions/<shard>/<month>/<hash>   sent, or still due, in this month; the shard is its fleet's

A mark is carried into the next month while its notice is due, and goes when it was not due for a whole month: of a cluster that cannot be
reached for longer, a notice may come again.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta

from shared.domain.versions.shards import shard_of
from shared.ports import ObjectStore

SENT = "notices/versions/"
AT_A_TIME = 500
"""Marks that one look carries over, and removes: the first check of a month must not last until its timeout."""


class Sent:
    """The marks in one store, read once: those of a shard, or all."""

    def __init__(self, store: ObjectStore, now: datetime, shard: int | None = None) -> None:
        self._store = store
        first = now.astimezone(UTC).replace(day=1)
        self._month, self._previous = f"{first:%Y-%m}", f"{first - timedelta(days=1):%Y-%m}"
        self._keys = store.keys(SENT if shard is None else f"{SENT}{shard:02}/")
        self._known = {_name(key) for key in self._keys}
        self._here = {_name(key) for key in self._keys if _month(key) == self._month}
        self._carried = 0

    def knows(self, notice: str, fleet: str) -> bool:
        """Whether the notice of this id is out. Its mark is carried into this month."""
        known = mark(notice) in self._known
        if known and mark(notice) not in self._here and self._carried < AT_A_TIME:
            self._carried += 1
            self.add(notice, fleet)
        return known

    def add(self, notice: str, fleet: str) -> None:
        """The notice of this id, about this fleet, is out."""
        self._store.create(f"{SENT}{shard_of(fleet):02}/{self._month}/{mark(notice)}", notice.encode())

    def forget(self) -> None:
        """Remove the marks of the months before the last one. An earlier release wrote them without a month: they are put into this one."""
        for key in self._keys[:AT_A_TIME]:
            month = _month(key)
            if not month:
                self._store.create(f"{SENT}{self._month}/{_name(key)}", self._store.get(key) or b"")
            if month < self._previous:
                self._store.delete(key)


def _month(key: str) -> str:
    """Earlier releases wrote `<month>/<hash>`, and before that the hash alone."""
    found = re.search(r"/(\d{4}-\d\d)/", key)
    return found[1] if found else ""


def mark(notice: str) -> str:
    """The name under which the store remembers a notice; short, whatever the clusters are called."""
    return hashlib.sha256(notice.encode()).hexdigest()[:40]


def _name(key: str) -> str:
    return key.rpartition("/")[2]
