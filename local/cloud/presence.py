"""Who works on a store in a folder of this machine: so that what a process left open is taken up, and what one works on is not.

Each process that delivers holds a shared lock on `.working` in the store's folder until it ends, however it ends. Stores elsewhere have
functions of their own that work on them: nothing is taken up there.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

PREFIX = "file:"


class Presence:
    """This process's presence at one store."""

    def __init__(self, store: str) -> None:
        self._folder = Path(store.removeprefix(PREFIX).removeprefix("//") or ".").expanduser() if store.startswith(PREFIX) else None
        self._held: int | None = None

    def arrive(self) -> bool:
        """Be present from now on. Whether nobody was: then whatever is open was left so. False for a store that is no folder here,
        and for a folder that nobody may write.
        """
        if self._folder is None or self._held is not None:
            return False
        try:
            self._held = os.open(self._folder / ".working", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return False
        weakref.finalize(self, os.close, self._held)
        alone = self._locked(fcntl.LOCK_EX)
        self._locked(fcntl.LOCK_SH)
        return alone

    def _locked(self, kind: int) -> bool:
        assert self._held is not None  # noqa: S101 - only called while it is
        try:
            fcntl.flock(self._held, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
