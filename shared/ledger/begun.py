"""Updates that a provider has accepted and works on: kept until it is through, so that their action runs as long.

versions/begun/<shard>/<action>-<part>.json   a part of an action, with what became of each of its steps so far; the shard is its fleet's
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from shared.domain.actions import Record
from shared.domain.outcomes import Outcome
from shared.domain.versions.clusters import VersionStep
from shared.domain.versions.shards import shard_of
from shared.ledger.records import RecordUnreadable, read_as
from shared.ports import ONE_BY_ONE, ObjectStore, Workers

BEGUN = "versions/begun/"


class BegunPart(Record):
    """A part of an action some of whose steps a provider has accepted."""

    action: str
    part: int
    fleet: str
    cluster: str
    """Its full name."""
    revision: int = 0
    at: datetime
    outcomes: list[Outcome]
    """Of every step, as it stood then."""
    about: dict[str, dict[str, Any]]
    """By step that the provider has accepted, what the notice of its end says."""

    @property
    def key(self) -> str:
        """Where it is kept."""
        return _key(self.fleet, self.action, self.part)

    @property
    def begun(self) -> list[Outcome]:
        """The outcomes of the steps that the provider has accepted."""
        return [outcome for outcome in self.outcomes if outcome.subject in self.about]

    def step(self, subject: str) -> VersionStep:
        """A step that the provider has accepted."""
        about = self.about[subject]
        return VersionStep(about["component"], about["subject"], about["from"], about["to"], about["image"])


class TornPart(NamedTuple):
    """A record of a part that can't be read."""

    key: str
    action: str
    part: int
    cause: str


class BegunUpdates:
    """Those of one store."""

    def __init__(self, store: ObjectStore, workers: Workers = ONE_BY_ONE) -> None:
        self._store = store
        self._workers = workers

    def add(self, part: BegunPart) -> None:
        """A provider has accepted steps of it. What was kept first stands."""
        self._store.create(part.key, part.to_bytes())

    def there(self, fleet: str, action: str, part: int) -> bool:
        """Whether a provider works on this part, or was through with it a moment ago."""
        return self._store.get(_key(fleet, action, part)) is not None

    def of(self, shard: int | None) -> tuple[list[BegunPart], list[TornPart]]:
        """Those of a shard's fleets (of no shard, all), and those that can't be read."""
        keys = self._store.keys(BEGUN if shard is None else f"{BEGUN}{shard:02}/")
        found, torn = list[BegunPart](), list[TornPart]()
        for key, body in zip(keys, self._workers.each(self._store.get, keys), strict=True):
            try:
                if body is not None:
                    found.append(read_as(key, body, BegunPart.model_validate_json))
            except RecordUnreadable as unreadable:
                action, _, number = key.rpartition("/")[2].removesuffix(".json").rpartition("-")
                torn.append(TornPart(key, action, int(number) if number.isdecimal() else 0, str(unreadable)))
        return found, torn

    def forget(self, key: str) -> None:
        """Its end is told, or nobody will ever see it."""
        self._store.delete(key)


def _key(fleet: str, action: str, part: int) -> str:
    return f"{BEGUN}{shard_of(fleet):02}/{action}-{part:04}.json"
