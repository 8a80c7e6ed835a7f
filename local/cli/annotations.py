"""What `validate` finds, beside the lines of a pull request: SARIF for code scanning, and GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from local.cli.sarif import log, result
from shared.domain.documents.reading import Problem, Source
from shared.domain.reasons.documents import DOCUMENTS

Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """A problem, and whether it stops anything."""

    level: Level
    problem: Problem


def sarif(findings: Sequence[Finding], sources: Iterable[Source]) -> dict[str, Any]:
    """SARIF 2.1.0, one rule for each type of problem that occurs."""
    lines = _lines(sources)
    rules = [_rule(type_) for type_ in sorted({problem.type for _, problem in findings})]
    return log("hullmark validate", rules, [_result(level, problem, lines) for level, problem in findings])


def _rule(type_: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": type_}
    if reason := DOCUMENTS.reasons.get(type_):
        rule |= {"shortDescription": {"text": reason.meaning}, "help": {"text": reason.remedy}}
    return rule


def _result(level: Level, problem: Problem, lines: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    first, end = _columns(problem, lines)
    region = {"startLine": max(problem.line, 1), "startColumn": first, "endColumn": end}
    return result(problem.type, level, _words(problem), problem.file, region)


def github(findings: Iterable[Finding], sources: Iterable[Source]) -> Iterator[str]:
    """`::error file=…,line=…::MESSAGE`. A text can neither end its command nor begin another: line ends and separators are escaped."""
    lines = _lines(sources)
    for level, problem in findings:
        first, end = _columns(problem, lines)
        where = {"file": problem.file, "line": max(problem.line, 1), "col": first, "endColumn": end, "title": problem.type}
        told = ",".join(f"{name}={_property(str(value))}" for name, value in where.items())
        yield f"::{level} {told}::{_data(_words(problem))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _words(problem: Problem) -> str:
    return ": ".join(filter(None, (problem.document, problem.path, problem.message)))


def _lines(sources: Iterable[Source]) -> dict[str, Sequence[str]]:
    """The files' lines; a problem knows its line, and the whole of it is what an editor should mark."""
    return {source.file: source.data.decode(errors="replace").split("\n") for source in sources}


def _columns(problem: Problem, lines: Mapping[str, Sequence[str]]) -> tuple[int, int]:
    """Where the text of the problem's line begins, and where it has ended. Both count from 1."""
    there = lines.get(problem.file, ())
    line = there[problem.line - 1].rstrip() if 0 < problem.line <= len(there) else ""
    first = len(line) - len(line.lstrip()) + 1
    return first, max(len(line) + 1, first)
