"""What the command prints: one JSON or YAML document, or tables for people; and how errors look."""

from __future__ import annotations

import io
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shared.domain.documents.reading import DocumentsRefused
from shared.domain.rollouts.progress import WrongPhase
from shared.domain.versions.answers import UnknownFleetCluster
from shared.ledger.actions import UnknownAction, WrongState
from shared.ledger.revisions import EmptyStage, NothingStaged, TagStays, UnknownCollection, UnknownRevision, UnknownTag
from shared.ledger.rollouts import UnknownRollout
from shared.ports import BusError, ClusterError, StoreError
from shared.work.intake import Rejected
from shared.world import SettingsError

F = TypeVar("F", bound=Callable[..., Any])
OK, ERROR, PENDING, PARTIAL, BLOCKED, STALE = 0, 1, 2, 3, 4, 5
"""Exit codes, docs/command-line.md."""


class Exit(Exception):
    """End the command with this code; what there is to say has been said."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


class Failure(Exception):
    """An error of the command line itself: a CamelCase reason and what to do."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


def talk() -> Console:
    """For people: stderr, colours only on a terminal without NO_COLOR."""
    return Console(stderr=True, highlight=False)


_SHOWN_AT: ContextVar[int | None] = ContextVar("shown_at", default=None)


def tables() -> Console:
    """For data as tables: stdout. On a terminal as wide as it, else as wide as the contents, so that a pipe gets every word."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _SHOWN_AT.get() or 10_000)


@contextmanager
def captured_for(width: int) -> Iterator[io.StringIO]:
    """Hold back what is printed on stdout meanwhile, its tables fitted to a terminal of this width, where it will be shown."""
    token = _SHOWN_AT.set(width)
    try:
        with redirect_stdout(io.StringIO()) as text:
            yield text
    finally:
        _SHOWN_AT.reset(token)


def output_option(command: F) -> F:
    """`-o table|json|yaml`."""
    choice = click.Choice(["table", "json", "yaml"])
    return click.option("-o", "--output", "form", type=choice, default="table", show_default=True, help="Output format.")(command)


def emit(form: str, data: Any, table: Callable[[], Iterable[Any]]) -> None:
    """Print the answer as asked: exactly one document for json and yaml, else what `table` yields."""
    if form == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
    elif form == "yaml":
        import yaml

        click.echo(yaml.safe_dump(json.loads(json.dumps(data, default=str)), sort_keys=False, allow_unicode=True), nl=False)
    else:
        console = tables()
        for part in table():
            if isinstance(part, str):
                click.echo(part)  # a line as it is: neither wrapped nor read as markup
            else:
                console.print(part)


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """A plain table in kubectl's manner: upper-case heads, no frames."""
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):  # what a row is about is copied whole into the next command; the rest wraps, nothing is cut
        table.add_column(column.upper(), no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


_PLAIN = (
    StoreError,
    SettingsError,
    BusError,
    WrongState,
    WrongPhase,
    UnknownRollout,
    UnknownRevision,
    UnknownCollection,
    UnknownTag,
    TagStays,
    EmptyStage,
    NothingStaged,
)
"""Errors whose name is the reason, and whose text says it all."""


def fail(error: BaseException, arguments: Sequence[str]) -> int:
    """Word an error on stderr (and as the one JSON document where json was asked for); the exit code. Unexpected ones are raised again."""
    wants_json = asked_for_json(arguments)
    if isinstance(error, DocumentsRefused):
        listed = refused(error)
        if wants_json:
            click.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        else:
            for line in problem_lines(listed["errors"]):
                click.echo(line, err=True)
        return ERROR
    reasons = _reasons(error)
    if wants_json:
        click.echo(json.dumps({"errors": [{"reason": reason, "message": message} for reason, message in reasons]}, indent=2))
    for _, message in reasons:
        click.echo(f"error: {message}", err=True)
    return ERROR


def _reasons(error: BaseException) -> list[tuple[str, str]]:
    """Reason and message of each thing that an error says. Raises it again where nobody foresaw it."""
    if isinstance(error, Rejected):
        return [(problem.reason, problem.message) for problem in error.problems]
    if isinstance(error, (ClusterError, Failure)):
        return [(error.reason, str(error))]
    if isinstance(error, UnknownAction):
        return [("UnknownAction", f"{error}; `hullmark actions list` shows the existing ones")]
    if isinstance(error, UnknownFleetCluster):
        return [("ClusterUnknown", str(error))]
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name or "")):
        return [("MissingExtra", f"{error.name} is not installed: `pipx install 'hullmark[{extra}]'`, or pip, brings it")]
    if isinstance(error, _PLAIN):
        return [(type(error).__name__, str(error))]
    if isinstance(error, OSError) and error.filename:
        return [("File", f"{error.filename}: {error.strerror}")]
    raise error


def extra_of(module: str) -> str:
    """The extra of the package that brings a module; empty for what every installation has."""
    extras = {"boto3": "aws", "botocore": "aws", "google": "gcp"}
    return extras.get(module.partition(".")[0], "")


def refused(error: DocumentsRefused) -> dict[str, Any]:
    """`validate`'s answer for documents that are refused (docs/command-line.md)."""
    return {"valid": False, "errors": [problem_json(problem) for problem in error.problems]}


def problem_json(problem: Any) -> dict[str, Any]:
    """One entry of `errors`."""
    return {name: getattr(problem, name) for name in ("file", "line", "document", "path", "type", "message")}


def problem_lines(problems: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """`FILE:LINE: DOCUMENT: PATH: MESSAGE`, as compilers print it, so that editors can jump there."""
    for problem in problems:
        where = ": ".join(str(problem[name]) for name in ("document", "path") if problem[name])
        yield f"{problem['file']}:{problem['line']}: {where + ': ' if where else ''}{problem['message']}"


def asked_for_json(arguments: Sequence[str]) -> bool:
    """Whether `-o json` is among the arguments, in any of its spellings (needed before they are parsed)."""
    joined = [f"{first}={second}" for first, second in itertools.pairwise(arguments)]
    return any(word in ("-o=json", "--output=json", "-ojson") for word in (*arguments, *joined))
