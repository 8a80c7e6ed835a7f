"""Chains in the store: objects numbered from 1 without gaps, each created once. The newest is found without listing the others.

Who changes something reads k, decides, and creates k+1; who loses that reads and decides anew. Hints say that some number exists, so that
a new process begins near the newest; one that is lost costs a longer look.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import NamedTuple

from shared.ledger.records import missing, numbered
from shared.ports import ObjectStore, StoreError

HINTS = 3
"""Hints that stay, so that one that is lost costs nothing."""


class Link(NamedTuple):
    """One object of a chain as it was read; 0 and no body before the first."""

    k: int = 0
    body: bytes = b""


class Chain:
    """One chain: its objects are `<folder><k>.json`, its hints `<hints><k>`."""

    def __init__(self, store: ObjectStore, folder: str, hints: str) -> None:
        self._store = store
        self._folder = folder
        self._hints = hints

    def key(self, k: int) -> str:
        """Where an object is."""
        return f"{self._folder}{k:06}.json"

    def newer(self, known: int = 0) -> Link:
        """The newest object, if its number is above `known`: one read where nothing is new. Raises RecordUnreadable."""
        start = k = known or self._hinted()
        body = None
        for number in itertools.count(k + 1):
            further = self._store.get(self.key(number))
            if further is None:
                break
            k, body = number, further
        if k == known:
            return Link()
        return Link(k, body if body is not None else self.read(start))

    def read(self, k: int) -> bytes:
        """One object that is known to exist. Raises RecordUnreadable."""
        body = self._store.get(self.key(k))
        if body is None:
            raise missing(self.key(k))
        return body

    def append(self, k: int, body: bytes) -> bool:
        """Create object k. False where somebody else did."""
        made = self._store.create(self.key(k), body)
        if made:
            with contextlib.suppress(StoreError):  # it happened, whether this succeeds or not
                self._store.create(f"{self._hints}{k:06}", b"")
                if k > HINTS:
                    self._store.delete(f"{self._hints}{k - HINTS:06}")
        return made

    def _hinted(self) -> int:
        """The number of an object that exists, at or before the newest."""
        hinted = max(numbered(self._store.keys(self._hints)), default=0)
        if hinted or self._store.get(self.key(1)) is None:
            return hinted
        depth = self._folder.count("/")
        return max(numbered(key for key in self._store.keys(self._folder) if key.count("/") == depth), default=0)
