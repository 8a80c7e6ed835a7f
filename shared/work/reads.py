"""Reads that hold no answer up: what is not there in time is late, and goes on in the background.

For a function that has to answer within a deadline whatever the outside world does (`pod_binding`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Clock = Callable[[], float]


class Late(Exception):
    """The read did not end in time. The text says which, and for how long it has been under way."""


class Reads:
    """Runs reads in daemon threads: one at a time for one key, `most` at a time in all.

    A client's own timeout frees the thread at last; until then the place stays taken, so a hanging server costs `most` threads and no more.
    """

    def __init__(self, most: int = 8, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._most = most
        self._changed = threading.Condition()
        self._running: dict[str, tuple[Future[Any], float]] = {}

    def get(self, key: str, read: Callable[[], T], seconds: float) -> T:
        """What `read` answers (or raises), started now or by somebody before. Raises Late.

        Waits `seconds` at most; less for a read that is under way already, not at all for one that is late already.
        """
        asked = self._clock()
        future, started = self._start(key, read, seconds)
        try:
            return future.result(max(0.0, min(asked, started) + seconds - self._clock()))
        except TimeoutError:
            if future.done():  # the read's own
                raise
            raise Late(f"{key} has taken {self._clock() - started:.1f} s so far") from None

    def start(self, key: str, read: Callable[[], object]) -> None:
        """Start `read` in the background unless it runs already or no place is free."""
        with self._changed:
            if key not in self._running and len(self._running) < self._most:
                self._launch(key, read)

    def _start(self, key: str, read: Callable[[], T], seconds: float) -> tuple[Future[T], float]:
        """The read that runs under this key. Waits for a place while the reads that take them are young."""
        until = self._clock() + seconds
        with self._changed:
            while key not in self._running and len(self._running) >= self._most:
                oldest = min(started for _, started in self._running.values())
                wait = min(until, oldest + seconds / 2) - self._clock()
                if wait <= 0:
                    raise Late(
                        f"{key} was not tried: {len(self._running)} reads are under way, the oldest for {self._clock() - oldest:.1f} s"
                    )
                self._changed.wait(wait)
            return self._running.get(key) or self._launch(key, read)

    def _launch(self, key: str, read: Callable[[], T]) -> tuple[Future[T], float]:
        future: Future[T] = Future()
        threading.Thread(target=self._run, args=(key, read, future), name=f"read {key}", daemon=True).start()
        self._running[key] = future, self._clock()  # the thread can't end before: the lock is held
        return self._running[key]

    def _run(self, key: str, read: Callable[[], T], future: Future[T]) -> None:
        try:
            result = read()
        except BaseException as error:  # whatever it is, it belongs to those who wait
            self._end(key)
            future.set_exception(error)
        else:
            self._end(key)
            future.set_result(result)

    def _end(self, key: str) -> None:
        with self._changed:
            del self._running[key]
            self._changed.notify_all()


class Refreshed(Generic[T]):
    """A value that is read again in the background when it is older than `age` seconds; the old one serves until then.

    A read that failed is tried again after `retry` seconds, not by every caller.
    """

    def __init__(
        self, key: str, read: Callable[[], T], reads: Reads, *, age: float, retry: float = 1.0, clock: Clock = time.monotonic
    ) -> None:
        self._key, self._read, self._reads = key, read, reads
        self._age, self._retry, self._clock = age, retry, clock
        self._value: tuple[T, float] | None = None
        self._failed: tuple[Exception, float] | None = None

    def get(self, seconds: float) -> T:
        """The value; the first one is waited for, `seconds` at most. Raises Late, or what the read raised."""
        known = self._value
        if known is None:
            if self._failed and self._clock() - self._failed[1] < self._retry:
                raise self._failed[0].with_traceback(None)
            return self._reads.get(self._key, self._load, seconds)
        if self._clock() - known[1] >= self._age:
            self.refresh()
        return known[0]

    def peek(self) -> T | None:
        """The value as far as it is known; starts its refresh where it is due and waits for nothing."""
        known = self._value
        if known is None or self._clock() - known[1] >= self._age:
            self.refresh()
        return known[0] if known else None

    def refresh(self) -> None:
        """Read it again in the background, unless that is under way or failed just now."""
        if not self._failed or self._clock() - self._failed[1] >= self._retry:
            self._reads.start(self._key, self._load)

    @property
    def trouble(self) -> str:
        """Why the newest read failed; empty when it did not."""
        return str(self._failed[0]) if self._failed else ""

    def seconds_old(self) -> float:
        """The age of the value; infinite while there is none."""
        return self._clock() - self._value[1] if self._value else float("inf")

    def _load(self) -> T:
        started = self._clock()
        try:
            value = self._read()
        except Exception as error:
            self._failed = error, self._clock()
            raise
        self._value, self._failed = (value, started), None
        return value
