"""A reason code's explanation, and who reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Reason(NamedTuple):
    """What a code means, and what to do about it; no remedy if there is nothing to do. `causes`: likely ones."""

    meaning: str
    remedy: str = ""
    causes: str = ""

    @property
    def sentence(self) -> str:
        """Meaning and remedy in one sentence, for a notice or a log."""
        return f"{self.meaning}: {self.remedy}" if self.remedy else self.meaning


@dataclass(frozen=True, slots=True)
class Group:
    """Codes reported by the same parts of Hullmark. `said_by` is for people; `modules` are path prefixes of that code."""

    title: str
    said_by: str
    modules: tuple[str, ...]
    reasons: Mapping[str, Reason]
