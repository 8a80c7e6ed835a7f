"""What people accepted beyond the limits, as they said it.

acceptances/<revision>/<cluster>/<ulid>.json   how many nodes of the cluster may lose labels, or be taken over, by this revision

An acceptance holds while what the cluster's nodes have by default (its base) is still the revision that it was given on top of. One that
can't be read accepts nothing.
"""

from __future__ import annotations

from datetime import datetime

from ulid import ULID

from shared.domain.actions import Record
from shared.domain.labels.impact import Acceptance
from shared.ledger.records import RecordUnreadable, read_record
from shared.ports import ObjectStore


class Accepted(Record):
    """One person's word for one revision on one cluster."""

    revision: int
    cluster: str
    base: int
    """The revision that held in the cluster when it was given; 0: none."""
    removals: int | None = None
    takeovers: int | None = None
    changes: int | None = None
    by: str
    at: datetime
    reason: str = ""
    """Why, in their words."""

    @property
    def acceptance(self) -> Acceptance:
        """The bounds alone."""
        return Acceptance(removals=self.removals, takeovers=self.takeovers, changes=self.changes)


class Acceptances:
    """All of them, in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def add(self, accepted: Accepted, name: str = "") -> None:
        """Record it; a second one of the same `name` (an action's id, say) changes nothing."""
        self._store.create(f"{_folder(accepted.revision, accepted.cluster)}{name or ULID()}.json", accepted.to_bytes())

    def of(self, revision: int, cluster: str) -> list[Accepted]:
        """Everything that was accepted for this revision on this cluster, whatever its base, oldest first."""
        found = (self._read(key) for key in self._store.keys(_folder(revision, cluster)))
        return [accepted for accepted in found if accepted]

    def holding(self, revision: int, cluster: str, base: int) -> list[Acceptance]:
        """What of that still holds."""
        return [accepted.acceptance for accepted in self.of(revision, cluster) if accepted.base == base]

    def _read(self, key: str) -> Accepted | None:
        try:
            return read_record(self._store, key, Accepted)
        except RecordUnreadable:
            return None


def _folder(revision: int, cluster: str) -> str:
    return f"acceptances/{revision:06}/{cluster}/"
