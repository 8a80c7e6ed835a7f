"""Updates of single clusters that people put off: 'not this week'.

deferrals/<cluster>/<n>.json   the n-th word about one cluster, to put its updates off or to take that back; the newest counts

The KEPT last words of a cluster stay, and go MONTH after they ended. A word that can't be read counts as one whose end nobody knows:
what somebody put off must not go because a record is torn. A new word heals that.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from shared.domain.actions import Record
from shared.ledger.actions import WrongState
from shared.ledger.records import RecordUnreadable, missing, numbered, read_as
from shared.ports import ObjectStore

KEPT = 8
MONTH = timedelta(days=30)
FOLDER = "deferrals/"


class Deferral(Record):
    """What somebody said about the updates of one cluster. `until` None: that cannot be read. Taken back: it ended when that was said."""

    until: datetime | None = None
    by: str
    at: datetime
    reason: str = ""

    def holds(self, now: datetime) -> bool:
        """Whether updates are put off at this moment."""
        return self.until is None or now < self.until


class Deferrals:
    """The words in one store, by the full name of the cluster."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, Deferral] = {}

    def newest(self) -> dict[str, Deferral]:
        """The last word about every cluster that somebody spoke of. One listing, and a read of each word that is new."""
        last: dict[str, str] = {}
        for key in sorted(self._store.keys(FOLDER)):
            last[unquote(key.split("/")[1])] = key
        return {cluster: self._word(key) for cluster, key in last.items()}

    def standing(self, now: datetime) -> dict[str, Deferral]:
        """Those that put updates off now."""
        return {cluster: word for cluster, word in self.newest().items() if word.holds(now)}

    def say(self, cluster: str, word: Deferral) -> None:
        """Put a cluster's updates off, or take that back. Raises WrongState where somebody else spoke of it at this moment."""
        mine = max(numbered(self._store.keys(_folder(cluster))), default=0) + 1
        clash = WrongState(f"somebody else spoke of {cluster} at this moment: look again")
        if not self._store.create(_key(cluster, mine), word.to_bytes()):
            raise clash
        there = numbered(self._store.keys(_folder(cluster)))
        if max(there, default=0) > mine:
            self._store.delete(_key(cluster, mine))
            raise clash
        for number, key in there.items():
            if number <= mine - KEPT:
                self._store.delete(key)

    def forget(self, now: datetime) -> None:
        """Let go of what ended long ago."""
        for cluster, word in self.newest().items():
            if word.until is not None and word.until < now - MONTH:
                for key in self._store.keys(_folder(cluster)):
                    self._store.delete(key)

    def _word(self, key: str) -> Deferral:
        if key not in self._known:
            body = self._store.get(key)
            try:
                if body is None:
                    raise missing(key)
                self._known[key] = read_as(key, body, Deferral.model_validate_json)
            except RecordUnreadable as torn:
                return Deferral(by="unknown", at=datetime.fromtimestamp(0, UTC), reason=str(torn))
        return self._known[key]


def _folder(cluster: str) -> str:
    return f"{FOLDER}{quote(cluster, safe='')}/"


def _key(cluster: str, number: int) -> str:
    return f"{_folder(cluster)}{number:06}.json"
