"""SARIF 2.1.0, the form in which code scanning takes findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote


def log(tool: str, rules: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One run of a tool. Columns count Unicode characters."""
    driver = {"name": tool, "rules": list(rules)}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": list(results)}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def result(rule: str, level: str, message: str, file: str, region: Mapping[str, int]) -> dict[str, Any]:
    """One finding at one place of a file."""
    place = {"artifactLocation": location(file), "region": dict(region)}
    return {"ruleId": rule, "level": level, "message": {"text": message}, "locations": [{"physicalLocation": place}]}


def location(file: str) -> dict[str, str]:
    """A file, as its path is given: relative to where the command ran."""
    return {"uri": quote(file)}
