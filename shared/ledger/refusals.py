"""Messages that were refused, so that there is no action that could say why: the newest of them, for whoever asks where theirs went.

refusals/<ulid>-<reason>.json   who says that they asked, for what, and why it was refused; the ulid is the message's

Anybody who may publish can make one, so everything in it is short, and only so many are kept. What was sent is not: it may hold secrets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from shared.domain.actions import Record
from shared.ledger.records import RecordUnreadable, read_record
from shared.ports import ObjectStore

FOLDER = "refusals/"
KEPT = 200
"""The newest so many."""
FORGOTTEN = 20
"""Older ones that one refusal removes."""
LONGEST = 300
"""Characters of a text."""
_NAME = re.compile(r"refusals/([0-9A-HJKMNP-TV-Z]{26})-([A-Za-z]{1,40})\.json")


class RefusedRequest(Record):
    """One message that was refused."""

    message_id: str
    at: datetime
    by: str
    """Who asked, as the message says: `unverified: …`, because nothing verifies it."""
    asked: str
    """What for: the action's name and target; empty where the message can't be read."""
    reason: str
    message: str


class Refusals(NamedTuple):
    """Some of them, newest first, and the keys of those that can't be read."""

    found: Sequence[RefusedRequest]
    unreadable: Sequence[str]


class RefusedRequests:
    """Those of one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def add(self, name: str, refused: RefusedRequest) -> None:
        """Keep one. `name`: the ULID of its message, so that a second delivery changes nothing."""
        texts = {key: _short(getattr(refused, key)) for key in ("message_id", "by", "asked", "reason", "message")}
        code = re.sub(r"[^A-Za-z]", "", refused.reason)[:40] or "Refused"
        self._store.create(f"{FOLDER}{name}-{code}.json", refused.model_copy(update=texts).to_bytes())
        for key in self._store.keys(FOLDER)[:-KEPT][:FORGOTTEN]:
            self._store.delete(key)

    def newest(self, most: int) -> Refusals:
        """The newest so many."""
        found, unreadable = [], []
        for key in self._keys()[-most:][::-1]:
            try:
                refused = read_record(self._store, key, RefusedRequest)
            except RecordUnreadable:
                unreadable.append(key)
                continue
            if refused:
                found.append(refused)
        return Refusals(found, unreadable)

    def counts(self) -> dict[str, int]:
        """How many are kept, by reason."""
        return dict(sorted(Counter(name[2] for key in self._keys() if (name := _NAME.fullmatch(key))).items()))

    def _keys(self) -> list[str]:
        return [key for key in self._store.keys(FOLDER) if _NAME.fullmatch(key)]


def _short(text: str) -> str:
    """A text that a stranger chose, on one line, and not all of it."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 1]}…"
