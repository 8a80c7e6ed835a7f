"""Whether the whole fleet is paused: what people said about it, in order; the newest counts.

pauses/<n>.json      the n-th word, `pause` or `resume`; n has no gaps
pause-heads/<n>      a hint that it was said

A word that can't be read counts as a pause: what somebody stopped must not go on because a record is torn. `resume` is a new word, and
heals that.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from shared.domain.actions import Record
from shared.ledger.actions import WrongState
from shared.ledger.chains import Chain, Link
from shared.ledger.records import RecordUnreadable, read_as
from shared.ports import ObjectStore

Verb = Literal["pause", "resume"]


class Word(Record):
    """What somebody said about the fleet."""

    verb: Verb
    by: str
    at: datetime
    reason: str = ""


class Pauses:
    """The words in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._chain = Chain(store, "pauses/", "pause-heads/")
        self._known: tuple[int, Word | None] = (0, None)

    def newest(self) -> Word | None:
        """The last word; None before the first. One read of an object that is not there."""
        try:
            return self._newest()[1]
        except RecordUnreadable as gone:
            return _unreadable(gone)

    def paused(self) -> Word | None:
        """The word that paused the fleet, where nobody resumed it since."""
        word = self.newest()
        return word if word and word.verb == "pause" else None

    def say(self, verb: Verb, by: str, now: datetime, reason: str = "") -> Word:
        """Pause or resume the fleet. Raises WrongState where it is so already, or somebody else said so at this moment, and
        RecordUnreadable where the last word is gone.
        """
        k, last = self._newest()
        if (last.verb if last else "resume") == verb:
            since = f" by {last.by} since {last.at:%Y-%m-%d %H:%M} UTC: {last.reason}" if last and verb == "pause" else ""
            raise WrongState(f"the fleet is paused already{since}" if verb == "pause" else "the fleet is not paused")
        word = Word(verb=verb, by=by, at=now, reason=reason)
        if not self._chain.append(k + 1, word.to_bytes()):
            raise WrongState(f"the fleet was {verb}d by somebody else at this moment")
        return word

    def _newest(self) -> tuple[int, Word | None]:
        if not self._known[0] and self._store.get(self._chain.key(1)) is None:
            return self._known  # most fleets were never paused: one read, and no listing
        link = self._chain.newer(self._known[0])
        if link.k:
            self._known = link.k, self._word(link)
        return self._known

    def _word(self, link: Link) -> Word:
        try:
            return read_as(self._chain.key(link.k), link.body, Word.model_validate_json)
        except RecordUnreadable as torn:
            return _unreadable(torn)


def _unreadable(torn: RecordUnreadable) -> Word:
    return Word(verb="pause", by="unknown", at=datetime.fromtimestamp(0, UTC), reason=str(torn))
