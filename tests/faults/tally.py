"""How many schedules run, and how many did."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

EVERYTHING = os.environ.get("HULLMARK_FAULTS") == "all"
"""`make faults` runs every schedule; any other run one of so many, always the same ones."""


class Tally:
    """The schedules that ran, by name: one that runs twice counts once."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def count(self, kind: str, name: str, steps: Sequence[str] = ()) -> None:
        """One schedule has run."""
        if f"{kind}/{name}" not in self.names:
            self.names.add(f"{kind}/{name}")
            self.kinds[kind] += 1
            self.steps.update(steps)


TALLY = Tally()


def thinned(schedules: Sequence[T], one_in: int) -> Sequence[T]:
    """All of them, or one of so many."""
    return schedules if EVERYTHING else schedules[len(schedules) // 2 % one_in :: one_in]
