"""How often events may repair one node: labels that others keep changing must not become an endless exchange of writes.

drift/<cluster>/<node>/<window>/<what>/<k>.json   the k-th such repair in this window; it names the event that it was for
told/<cluster>/<node>/<revision or window>.json   a conflict of which a notice is out
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime

from shared.domain.labels.planning import Write
from shared.ports import ObjectStore

REPAIRS = 3
"""Repairs of one kind on one node in one window. After them the node waits for the next window or for the sweep."""
WINDOW_SECONDS = 600
FIRST_WINDOW = 1_000_000
"""Windows have higher numbers (they count from 1970), revisions have six digits."""


class Repairs:
    """The repairs of one kind on one node, counted by create-only objects: of many processes at once no more get through than may.

    A label that another manager holds with another value tells of a fight itself: all such repairs count together. A label that is taken
    away leaves no trace of who did it, and looks like one that is not there yet: of these the same change, asked again, counts.
    """

    rule = f"Hullmark repairs such a node at most {REPAIRS} times in {WINDOW_SECONDS // 60} minutes."

    def __init__(self, store: ObjectStore, cluster: str, node: str, write: Write) -> None:
        self._store = store
        self._folder = f"drift/{cluster}/{node}"
        self._what = "contested" if write.contested else hashlib.sha256(write.changes.model_dump_json().encode()).hexdigest()[:16]

    def window(self, now: datetime) -> int:
        """The number of the window that `now` is in."""
        return int(now.timestamp()) // WINDOW_SECONDS

    def may(self, event: str, now: datetime) -> bool:
        """Take one of the window's repairs for this event. An event that has one (it was delivered before) keeps it."""
        note = json.dumps({"event": event}).encode()
        for number in range(1, REPAIRS + 1):
            key = f"{self._folder}/{self.window(now)}/{self._what}/{number}.json"
            if self._store.create(key, note):
                if number == 1:
                    self._forget_before(self.window(now) - 1)
                return True
            if self._store.get(key) == note:
                return True
        return False

    def _forget_before(self, window: int) -> None:
        """Windows that are over count no more: a node keeps the records of two."""
        for key in self._store.keys(f"{self._folder}/"):
            name = key.removeprefix(f"{self._folder}/").partition("/")[0]
            if name.isdigit() and int(name) < window:
                self._store.delete(key)


def forget(store: ObjectStore, newest: int, now: datetime) -> None:
    """Remove the repairs of windows that are over, and the marks of notices of such windows and of revisions before the newest."""
    window = int(now.timestamp()) // WINDOW_SECONDS - 1
    for key in store.keys("drift/"):
        if _number(key.split("/")[3:4], window) < window:
            store.delete(key)
    for key in store.keys("told/"):
        number = _number(key.removesuffix(".json").split("/")[3:4], window)
        if number < (window if number > FIRST_WINDOW else newest):
            store.delete(key)


def _number(parts: Sequence[str], otherwise: int) -> int:
    """The number that stands here; what is none is not ours."""
    return int(parts[0]) if parts and parts[0].isascii() and parts[0].isdigit() else otherwise
