"""What the command reads: documents from files, folders and standard input; times; the embedded cloud."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from local.cli.output import Failure
from shared.domain.documents.reading import Source

F = TypeVar("F", bound=Callable[..., Any])
SUFFIXES = (".yaml", ".yml", ".json")


def documents_option(command: F) -> F:
    """`-f FILE|DIR|-`, repeatable."""
    return click.option(
        "-f", "--filename", "files", multiple=True, metavar="FILE|DIR|-", help="Documents to read; a folder means its YAML and JSON files."
    )(command)


def now_option(command: F) -> F:
    """`--now TIME`."""
    return click.option("--now", "now", callback=_time, metavar="TIME", help="Decide as if it were this time (RFC 3339).")(command)


def _time(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime:
    if value is None:
        from shared.wiring import clock_from
        from shared.world import Settings

        return clock_from(Settings.from_environment())()
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no RFC 3339 time such as 2026-01-31T22:00:00Z") from error
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)


def read_files(names: Sequence[str]) -> list[Source]:
    """Every file that `-f` names, folders walked in sorted order. Raises Failure for what is not there or can't be read."""
    return [Source(name, read_bytes(name)) for given in names for name in _expand(given)]


def _expand(name: str) -> list[str]:
    path = Path(name)
    if name != "-" and path.is_dir():
        found = sorted(str(file) for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not found:
            raise Failure("NotFound", f"{name}: no {', '.join(SUFFIXES)} file in this folder")
        return found
    return [name]


def read_bytes(name: str) -> bytes:
    """A file's bytes, standard input's for `-`. Raises Failure."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Failure("NotFound", f"{name}: {error.strerror or error}") from error


def read_value(name: str) -> Any:
    """The one value of a YAML or JSON file, read as documents are (`yes` is text); None for an empty one. Raises Failure, and
    DocumentsRefused with every flaw.
    """
    from shared.domain.documents.parsing import values
    from shared.domain.documents.reading import DocumentsRefused, Problem, path_text

    found = list(values(read_bytes(name)))
    flaws = [Problem(name, flaw.line, "", path_text(flaw.path), flaw.type, flaw.message) for _, _, each in found for flaw in each]
    if flaws:
        raise DocumentsRefused(flaws)
    if len(found) > 1:
        raise Failure("Invalid", f"{name}: one document is expected, here are {len(found)}")
    return found[0][1] if found else None


def who() -> str:
    """The person at the keyboard, as the system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
