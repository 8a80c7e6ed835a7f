"""Work side by side in threads, for what waits on the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """`shared.ports.Workers`. A function of one CPU that waits 20 to 50 ms for each answer is busy with sixteen of them."""

    def each(self, work: Callable[[T], R], items: Iterable[T], most: int = 16) -> list[R]:
        """So many at a time. An error of one is raised when the others have ended."""
        waiting = list(items)
        if len(waiting) < 2:
            return [work(item) for item in waiting]
        from concurrent.futures import ThreadPoolExecutor  # a cold start whose work is one item does without

        with ThreadPoolExecutor(min(most, len(waiting))) as threads:
            return list(threads.map(work, waiting))
