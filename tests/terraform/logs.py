"""Cloud Logging's query language, as far as the filters of this deployment use it, and log lines as Cloud Logging keeps them.

https://cloud.google.com/logging/docs/view/logging-query-language: comparisons joined by AND (or nothing), OR and NOT; a comparison with
a list is one with any of it; a field that is missing compares with nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Entry = Mapping[str, Any]
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\(|\)|=~|!~|!=|>=|<=|=|<|>|:|[^\s()=<>!:"]+)')
OPERATORS = frozenset({"=", "!=", "=~", "!~", ":", ">=", "<=", "<", ">"})


def matches(filter_: str, entry: Entry) -> bool:
    """Whether a filter lets an entry through. Raises ValueError for a filter that is no such thing."""
    reading = _Reading(TOKEN.findall(filter_))
    found = reading.alternatives(entry)
    if reading.rest:
        raise ValueError(f"not understood: {' '.join(reading.rest)}")
    return found


def said(line: Mapping[str, Any], service: str) -> Entry:
    """A line that a function wrote to stdout, as Cloud Logging keeps it: special fields are taken out of the payload."""
    payload = {key: value for key, value in line.items() if key != "severity" and not key.startswith("logging.googleapis.com/")}
    resource = {"type": "cloud_run_revision", "labels": {"service_name": service}}
    return {"resource": resource, "severity": line.get("severity", "DEFAULT"), "jsonPayload": payload}


@dataclass
class _Reading:
    rest: list[str]

    def alternatives(self, entry: Entry) -> bool:
        found = self.all(entry)
        while self.rest and self.rest[0] == "OR":
            self.rest.pop(0)
            found = self.all(entry) or found
        return found

    def all(self, entry: Entry) -> bool:
        found = self.one(entry)
        while self.rest and self.rest[0] not in ("OR", ")"):
            if self.rest[0] == "AND":
                self.rest.pop(0)
            found = self.one(entry) and found
        return found

    def one(self, entry: Entry) -> bool:
        word = self.rest.pop(0)
        if word == "NOT":
            return not self.one(entry)
        if word == "(":
            found = self.alternatives(entry)
            self._expect(")")
            return found
        if word == "log_id":
            self._expect("(")
            wanted = _text(self.rest.pop(0))
            self._expect(")")
            return bool(entry.get("logName", "").partition("/logs/")[2].replace("%2F", "/") == wanted)
        operator = self.rest.pop(0)
        if operator not in OPERATORS:
            raise ValueError(f"{word} {operator}: no comparison")
        return any(_holds(field(entry, word), operator, value, word) for value in self.values())

    def values(self) -> list[str]:
        word = self.rest.pop(0)
        if word != "(":
            return [_text(word)]
        found = [_text(self.rest.pop(0))]
        while self.rest[0] == "OR":
            self.rest.pop(0)
            found.append(_text(self.rest.pop(0)))
        self._expect(")")
        return found

    def _expect(self, word: str) -> None:
        if not self.rest or self.rest.pop(0) != word:
            raise ValueError(f"{word} is missing")


def field(entry: Entry, path: str) -> Any:
    """The value of `jsonPayload.step`; None where it is missing."""
    found: Any = entry
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _text(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word


def _holds(found: Any, operator: str, value: str, name: str) -> bool:
    if found is None:
        return False
    if name == "severity":
        place, wanted = SEVERITIES.index(found), SEVERITIES.index(value)
        return {"=": place == wanted, ">=": place >= wanted, "<": place < wanted, "<=": place <= wanted, ">": place > wanted}[operator]
    given = str(found).lower() if isinstance(found, bool) else str(found)
    match operator:
        case "=":
            return given.lower() == value.lower()
        case "!=":
            return given.lower() != value.lower()
        case "=~":
            return re.search(value, given) is not None
        case "!~":
            return re.search(value, given) is None
        case ":":
            return value == "*" or value.lower() in given.lower()
    raise ValueError(f"{name} {operator} {value}: only severities have an order here")


def counted(filter_: str, entries: Sequence[Entry]) -> Iterator[Entry]:
    """The entries that a filter lets through."""
    return (entry for entry in entries if matches(filter_, entry))
