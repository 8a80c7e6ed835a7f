"""Typed reading of other people's documents: unknown fields are fine, a field of the wrong type is a problem with its path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.domain.documents.reading import Document, Path, Problem, type_name

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def read_time(text: str) -> datetime:
    """A Kubernetes timestamp (RFC 3339) in UTC. Raises ValueError."""
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a time such as 2026-11-21T10:00:00Z")
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # the offset leads out of the calendar, whose ends mean "never" and "long ago" anyway
        return moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Fields:
    """One mapping inside a document. An absent (or null) field reads as None or empty; a wrong type adds to `problems`."""

    document: Document
    data: Mapping[str, Any]
    path: Path
    problems: list[Problem]

    def _get(self, key: str, wanted: type, what: str) -> Any:
        value = self.data.get(key)
        if value is None or (isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))):
            return value
        self._problem((*self.path, key), value, what)
        return None

    def _problem(self, path: Path, value: object, what: str) -> None:
        quotes = ": put it in quotes" if what == "text" and isinstance(value, int | float) else ""
        self.problems.append(self.document.problem(path, "Invalid", f"must be {what}, is {type_name(value)}{quotes}"))

    def text(self, key: str) -> str | None:
        """A text field."""
        value = self._get(key, str, "text")
        return value if isinstance(value, str) else None

    def flag(self, key: str) -> bool | None:
        """A true-or-false field."""
        value = self._get(key, bool, "true or false")
        return value if isinstance(value, bool) else None

    def number(self, key: str) -> int | None:
        """A whole number."""
        value = self._get(key, int, "a whole number")
        return value if isinstance(value, int) else None

    def time(self, key: str) -> datetime | None:
        """A timestamp field, in UTC."""
        text = self.text(key)
        if text is None:
            return None
        try:
            return read_time(text)
        except ValueError as error:
            self.problems.append(self.document.problem((*self.path, key), "Invalid", str(error)))
            return None

    def inner(self, key: str) -> Fields:
        """A mapping field; empty where it is absent."""
        return Fields(self.document, self._get(key, dict, "a mapping") or {}, (*self.path, key), self.problems)

    def each(self, key: str) -> Iterator[Fields]:
        """The mappings of a list field."""
        for number, item in enumerate(self._get(key, list, "a list") or []):
            path = (*self.path, key, number)
            if isinstance(item, dict):
                yield Fields(self.document, item, path, self.problems)
            else:
                self._problem(path, item, "a mapping")

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts of a list field."""
        texts = []
        for number, item in enumerate(self._get(key, list, "a list") or []):
            if isinstance(item, str):
                texts.append(item)
            else:
                self._problem((*self.path, key, number), item, "text")
        return tuple(texts)
