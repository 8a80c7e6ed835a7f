"""What the command prints: one JSON or YAML document, or tables for people.

Every command imports this, `--help` too: what draws tables is imported by the first one.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., Any])
JSONPATH = "jsonpath="
MOST_ROWS = 50
"""Of a table about nodes; more of them are grouped."""
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
    from rich.console import Console

    return Console(stderr=True, highlight=False)


_SHOWN_AT: ContextVar[int | None] = ContextVar("shown_at", default=None)


def tables() -> Console:
    """For data as tables: stdout. On a terminal as wide as it, else as wide as the contents, so that a pipe gets every word."""
    from rich.console import Console

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


class _Form(click.Choice[str]):
    """One of some words, or `jsonpath=TEMPLATE`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).startswith(JSONPATH):
            from local.cli.jsonpath import BadTemplate, check

            try:
                return JSONPATH + check(str(value).removeprefix(JSONPATH))
            except BadTemplate as error:
                self.fail(f"{JSONPATH}{error}", param, ctx)
        return super().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(map(str, self.choices))}|{JSONPATH}TEMPLATE]"


def output_option(command: F) -> F:
    """`-o table|json|yaml|jsonpath=TEMPLATE`."""
    return output_option_and()(command)


def output_option_and(*more: str) -> Callable[[F], F]:
    """The same with forms that only some commands have."""
    choice = _Form(["table", "json", "yaml", *more])
    return click.option("-o", "--output", "form", type=choice, default="table", show_default=True, help="Output format.")


def emit(form: str, data: Any, table: Callable[[], Iterable[Any]], names: Iterable[str] = ()) -> None:
    """Print the answer as asked: exactly one document for json and yaml, `names` line by line for name, else what `table` yields."""
    if form.startswith(JSONPATH):
        from local.cli.jsonpath import render

        click.echo(render(form.removeprefix(JSONPATH), data), nl=False)
    elif form == "name":
        for name in names:
            click.echo(name)
    elif form == "json":
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


def grouped(columns: Sequence[str], rows: Sequence[Sequence[str]], about: Sequence[int]) -> Iterator[Any]:
    """Rows as they are where they are few; else how many say the same in the columns `about`, with one of them as an example.

    What a table of thousands of nodes comes to. `-o wide` shows every row, and nothing that is read by programs is ever shortened.
    """
    if len(rows) <= MOST_ROWS:
        yield grid(columns, rows)
        return
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        alike.setdefault(tuple(row[column] for column in about), []).append(row[0])
    several = sorted(alike.items(), key=lambda each: -len(each[1]))
    told = [(str(len(names)), *said, names[0]) for said, names in several[:MOST_ROWS]]
    yield grid(("rows", *(columns[column] for column in about), "for example"), told)
    more = f"; {len(several) - MOST_ROWS} more groups" if len(several) > MOST_ROWS else ""
    yield f"{len(rows)} rows, those alike as one{more}: -o wide shows every row"


def counted(number: int, what: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {what}" + ("" if number == 1 else "es" if what.endswith("s") else "s")


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """A plain table in kubectl's manner: upper-case heads, no frames."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):  # what a row is about is copied whole into the next command; the rest wraps, nothing is cut
        table.add_column(column.upper(), no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def problem_json(problem: Any) -> dict[str, Any]:
    """One entry of `errors`."""
    return {name: getattr(problem, name) for name in ("file", "line", "document", "path", "type", "message")}


def problem_lines(problems: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """`FILE:LINE: DOCUMENT: PATH: MESSAGE`, as compilers print it, so that editors can jump there."""
    for problem in problems:
        where = ": ".join(str(problem[name]) for name in ("document", "path") if problem[name])
        yield f"{problem['file']}:{problem['line']}: {where + ': ' if where else ''}{problem['message']}"
