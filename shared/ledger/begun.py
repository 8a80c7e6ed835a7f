"""Updates that a provider has accepted and works on: kept until it is through, so that their end is told.

versions/begun/<shard>/<hash>.json   one step of one action; the shard is its fleet's
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from shared.domain.actions import Record
from shared.domain.versions.shards import shard_of
from shared.ledger.records import RecordUnreadable, read_as
from shared.ports import ONE_BY_ONE, ObjectStore, Workers

BEGUN = "versions/begun/"


class BegunUpdate(Record):
    """One step that a provider has accepted."""

    fleet: str
    cluster: str
    """Its full name."""
    at: datetime
    about: dict[str, Any]
    """What the notice of its end says."""

    @property
    def key(self) -> str:
        """Where it is kept: by its action and its place."""
        place = "/".join(str(self.about[name]) for name in ("action", "component", "subject"))
        return f"{BEGUN}{shard_of(self.fleet):02}/{hashlib.sha256(place.encode()).hexdigest()[:40]}.json"


class BegunUpdates:
    """Those of one store."""

    def __init__(self, store: ObjectStore, workers: Workers = ONE_BY_ONE) -> None:
        self._store = store
        self._workers = workers

    def add(self, update: BegunUpdate) -> None:
        """A provider has accepted it. Said again, nothing changes."""
        self._store.create(update.key, update.to_bytes())

    def of(self, shard: int | None) -> list[BegunUpdate]:
        """Those of a shard's fleets; of no shard, all. One that can't be read is removed: only a notice hangs on it."""
        found: list[BegunUpdate] = []
        keys = self._store.keys(BEGUN if shard is None else f"{BEGUN}{shard:02}/")
        for key, body in zip(keys, self._workers.each(self._store.get, keys), strict=True):
            try:
                if body is not None:
                    found.append(read_as(key, body, BegunUpdate.model_validate_json))
            except RecordUnreadable:
                self._store.delete(key)
        return found

    def forget(self, update: BegunUpdate) -> None:
        """Its end is told, or nobody will ever see it."""
        self._store.delete(update.key)
