"""Answers that are the same for many clusters, such as what a region offers: asked for once, and kept for some minutes."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

MINUTES = 10.0


class Kept:
    """Answers by key. Whoever asks while the same is being asked for waits for that answer; an error is kept for nobody."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._answers: dict[Hashable, tuple[float, Any]] = {}
        self._asking: defaultdict[Hashable, threading.Lock] = defaultdict(threading.Lock)

    def get(self, key: Hashable, ask: Callable[[], T], minutes: float = MINUTES) -> T:
        """The answer to a question, at most so old."""
        with self._asking[key]:
            at, answer = self._answers.get(key, (0.0, None))
            if key not in self._answers or self._monotonic() - at > minutes * 60:
                answer = ask()
                self._answers[key] = self._monotonic(), answer
            found: T = answer
            return found
