"""What the command reads: documents, filters and node listings, from files, folders and standard input; times.

Commands that need only the options import this too, so models and parsers are imported by what reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from local.cli.output import Failure

if TYPE_CHECKING:
    from shared.domain.documents.reading import Source
    from shared.domain.labels.selection import NodeFilter
    from shared.domain.nodes import Node, Owner

R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
SUFFIXES = (".yaml", ".yml", ".json")
EMACS_LOCK = ".#"
"""How the dangling link begins that Emacs keeps beside a file that is being edited."""
DOCUMENT_BYTES = 256 << 20
"""The most that one file of documents may have; room for 100,000 nodes of 2 kB."""
LISTING_BYTES = 4 << 30
"""The most that a listing of nodes may have: with managed fields, up to 20 kB a node."""


def documents_option(command: F) -> F:
    """`-f FILE|DIR|-`, repeatable."""
    return click.option(
        "-f", "--filename", "files", multiple=True, metavar="FILE|DIR|-", help="Documents to read; of a folder, its YAML and JSON files."
    )(command)


def accept_options(command: F) -> F:
    """`--accept-removals N` and its like: a person's word for what goes beyond the limits."""
    for name, what in (("changes", "change at all"), ("takeovers", "have others' values replaced"), ("removals", "lose labels")):
        said = f"Let up to N nodes {what}, whatever the limits say; more of them, and nothing is written."
        command = click.option(f"--accept-{name}", metavar="N", type=click.IntRange(0, 1_000_000), help=said)(command)
    return command


def now_option(command: F) -> F:
    """`--now TIME`."""
    return click.option("--now", "now", callback=_time, metavar="TIME", help="Decide as if it were this time (RFC 3339).")(command)


def until_option(command: F) -> F:
    """`--until TIME`."""
    how = "When it ends (RFC 3339)."
    return click.option("--until", callback=lambda *given: _time(*given) if given[2] else None, metavar="TIME", help=how)(command)


def record_now_option(command: F) -> F:
    """`--now TIME`, for what is recorded: a server goes by its own clock."""
    return click.option("--now", "now", callback=_own_time, metavar="TIME", help="Record as if it were this time (RFC 3339).")(command)


def _own_time(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime:
    if value is not None and os.environ.get("HULLMARK_SERVER"):
        raise click.BadParameter("a server goes by its own clock: leave it out")
    return _time(ctx, param, value)


def right_now() -> datetime:
    """The time, or what HULLMARK_NOW says in its place."""
    from shared.wiring import clock_from
    from shared.world import Settings

    return clock_from(Settings.from_environment())()


def age(moment: datetime, now: datetime) -> str:
    """How long ago, in two or three characters as kubectl has it: `45s`, `7m`, `3h`, `12d`, `2y`."""
    seconds = max(int((now - moment).total_seconds()), 0)
    sizes = ((2 * 365 * 86400, 365 * 86400, "y"), (2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (120, 60, "m"))
    return next((f"{seconds // size}{unit}" for least, size, unit in sizes if seconds >= least), f"{seconds}s")


def _time(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime:
    if value is None:
        return right_now()
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{value!r} is no RFC 3339 time such as 2026-01-31T22:00:00Z") from error


def read_files(names: Sequence[str]) -> list[Source]:
    """Every file that `-f` names, folders walked in sorted order. Raises Failure for what is not there or can't be read."""
    from shared.domain.documents.reading import Source

    return [Source(name, read_bytes(name)) for given in names for name in _expand(given)]


def read_collection(names: Sequence[str]) -> list[Source]:
    """Every file that `-f` names, under the name that a collection keeps it by: a file of a folder by its path below that folder, single
    files by their paths below the folder that they share. So `./site`, `site/`, its absolute path and all its files one by one are the
    same. Raises Failure.
    """
    from shared.domain.documents.reading import Source

    single = [os.path.abspath(name) for name in names if name != "-" and not os.path.isdir(name)]
    shared = os.path.commonpath([os.path.dirname(name) for name in single]) if single else ""

    def kept(given: str, file: str) -> str:
        if given == "-":
            return given
        below = given if os.path.isdir(given) else shared
        return os.path.relpath(os.path.abspath(file), os.path.abspath(below)).replace(os.sep, "/")

    return [Source(kept(given, name), read_bytes(name)) for given in names for name in _expand(given)]


def _expand(name: str) -> list[str]:
    if name == "-" or not os.path.isdir(name):
        return [name]
    files = sorted(file for file in _walked(name) if file.endswith(SUFFIXES))
    # Who may write to a repository may not choose what is read beside it: a check prints what it reads.
    root = Path(os.path.realpath(name))
    if outside := [file for file in files if not Path(os.path.realpath(file)).is_relative_to(root)]:
        raise Failure("OutsideFolder", f"{outside[0]}: a symbolic link that leads out of {name}; name its target with -f to include it")
    if not files:
        raise Failure("NotFound", f"{name}: no {', '.join(SUFFIXES)} file in this folder")
    return files


def _walked(folder: str) -> Iterator[str]:
    """Every file below a folder; links to folders are not followed. Raises Failure for a folder that can't be listed: what is passed over
    in silence would count as removed.
    """

    def unlisted(error: OSError) -> None:
        raise Failure("NotFound", f"{error.filename}: {error.strerror}")

    for parent, _, files in os.walk(folder, onerror=unlisted):
        yield from (os.path.join(parent, file) for file in files if not file.startswith(EMACS_LOCK))


def read_bytes(name: str, limit: int = DOCUMENT_BYTES) -> bytes:
    """A file's bytes, standard input's for `-`. Raises Failure for what is no file, and for more bytes than the limit."""
    from shared.adapters.files import NotReadable, read_named, too_large

    try:
        if name != "-":
            return read_named(name, limit)
        if len(data := sys.stdin.buffer.read(limit + 1)) > limit:
            raise too_large(limit)
        return data
    except (NotReadable, OSError) as error:
        raise Failure("NotFound", f"{name}: {error}") from error


def read_value(name: str) -> Any:
    """The one value of a YAML or JSON file, read as documents are (`yes` is text); None for an empty one. Raises Failure, and
    DocumentsRefused with every flaw.
    """
    from shared.domain.documents.parsing import values
    from shared.domain.documents.reading import DocumentsRefused, Problem, path_text

    documents = list(values(read_bytes(name)))
    flaws = [Problem(name, flaw.line, "", path_text(flaw.path), flaw.type, flaw.message) for _, _, value in documents for flaw in value]
    if flaws:
        raise DocumentsRefused(flaws)
    if len(documents) > 1:
        raise Failure("Invalid", f"{name}: expected one document, found {len(documents)}")
    return documents[0][1] if documents else None


def read_filter(file: str) -> NodeFilter | None:
    """A node filter from a YAML or JSON file, `-` for standard input; null means every node. Raises Failure, and DocumentsRefused for
    what is no YAML.
    """
    from pydantic import ValidationError

    from shared.domain.labels.selection import NodeFilter

    value = read_value(file)
    try:
        return NodeFilter.model_validate(value) if value is not None else None
    except ValidationError as error:
        listed = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'filter'}: {e['msg']}" for e in error.errors(include_url=False))
        raise Failure("Invalid", f"{file}: not a node filter: {listed}") from error


class ListedNodes:
    """The nodes in a file that `kubectl get nodes -o json` wrote, in place of a cluster."""

    def __init__(self, nodes: Sequence[Node], owner: Owner) -> None:
        self.owner = owner
        self._nodes = {node.name: node for node in nodes}

    @property
    def ownerless(self) -> bool:
        """Whether the listing hides who holds which label (it was made without --show-managed-fields)."""
        return bool(self._nodes) and not any(node.owners for node in self._nodes.values())

    def server_version(self) -> str:
        """The oldest kubelet's: a listing has no server to ask."""
        from shared.domain.labels.aliases import oldest

        return oldest(node.kubelet_version for node in self._nodes.values())

    def nodes(self) -> list[Node]:
        """All of them."""
        return list(self._nodes.values())

    def node(self, name: str) -> Node | None:
        """One of them."""
        return self._nodes.get(name)

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """One after the other."""
        return [work(item) for item in items]


def who() -> str:
    """The person at the keyboard, as the system knows them."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
