"""What is said of a reason code, and who says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Reason(NamedTuple):
    """What a code means, and what to do about it; empty where there is nothing to do."""

    meaning: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """Both in one, for a notice or a log."""
        return f"{self.meaning}: {self.remedy}" if self.remedy else self.meaning


@dataclass(frozen=True, slots=True)
class Group:
    """Codes that the same parts of Hullmark say. `said_by` is for people; `modules` are the beginnings of the paths that say them."""

    title: str
    said_by: str
    modules: tuple[str, ...]
    reasons: Mapping[str, Reason]
