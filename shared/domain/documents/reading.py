"""Documents as they were written: where each stands, what it holds, and what is wrong with it.

Who only needs the shapes does not pay for YAML: the parser is imported by the first `read`.
"""

from __future__ import annotations

import functools
import json
import posixpath
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.domain.documents.paths import Path as Path
from shared.domain.documents.paths import path_text as path_text
from shared.domain.nodes import Node, NodeListing, NodeObject


@dataclass(frozen=True, slots=True)
class Source:
    """One file's bytes under the name that errors show (a path, or `-` for standard input)."""

    file: str
    data: bytes
    _lines: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What finding lines has found so far (see `_lines_of`)."""


def kept_name(path: str) -> str:
    """The name under which a collection keeps a file that came with this path: below the collection, however the path was written."""
    steps = posixpath.normpath("/" + path.replace("\\", "/")).strip("/")
    return steps or "-"


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document. `index` counts from 0 within its file; `line` is its first line, counted from the file's start, from 1."""

    file: str
    index: int
    line: int
    kind: str
    """`NodeLabelPolicy`, `drydock/BaremetalNode/v1` (a Deckhand schema), `CloudProfile`; empty where the document has none."""
    name: str
    content: Mapping[str, Any] | bytes = field(repr=False)
    """What it holds; as JSON where there may be very many of its kind (see `packed`)."""
    source: Source | None = field(default=None, repr=False, compare=False)
    """Where lines are found again; None for a document that no file holds (its line then serves for every path)."""
    within: Path = ()
    """Where it stands in its YAML document: `("items", 3)` in a List, else empty."""
    root: int = 0
    """The first line of that List; 0 outside of one."""

    @property
    def data(self) -> Mapping[str, Any]:
        """What it holds. Don't change it."""
        return _unpacked(self.content) if isinstance(self.content, bytes) else self.content

    @property
    def is_packed(self) -> bool:
        """Whether its data is kept packed; of what was read from files, only documents with a `schema` are."""
        return isinstance(self.content, bytes)

    def packed(self) -> Document:
        """The same as JSON, in a tenth of the memory. Each look at its data reads it, where the last look was at another document."""
        content = msgspec.json.encode(self.content)
        return Document(self.file, self.index, self.line, self.kind, self.name, content, self.source, self.within, self.root)

    @property
    def title(self) -> str:
        """How people name it: `NodeLabelPolicy/racks`, `BaremetalNode/n1`."""
        kind = self.kind.split("/")[1] if self.kind.count("/") == 2 else self.kind
        return "/".join(part for part in (kind, self.name) if part)

    def line_of(self, path: Path) -> int:
        """The line of a path in this document, or of the nearest thing around it that is written there."""
        if self.source is None:
            return self.line
        lines = _lines_of(self.source, self.root or self.line)
        for length in range(len(path), 0, -1):
            if (line := lines.get(self.within + path[:length])) is not None:
                return line
        return self.line

    def problem(self, path: Path, type_: str, message: str) -> Problem:
        """A problem of this document at this path, with its line."""
        return Problem(self.file, self.line_of(path), self.title, path_text(path), type_, message)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the documents, for `validate`'s `errors` (docs/command-line.md) and `messageList` (docs/http.md)."""

    file: str
    line: int
    document: str
    path: str
    """`spec.kubernetes.versions[0].version`; empty for the document as a whole."""
    type: str
    """`Invalid`, `Required`, `Duplicate`, `Forbidden`, `NotSupported`, `NotFound`, `Unknown`, `Syntax` (Kubernetes' field error words),
    or a rule's own name: `SelectsWhatItWrites`, `Reconciled`."""
    message: str
    """What is wrong, and what to do about it."""


class DocumentsRefused(Exception):
    """Every problem of the documents, in one answer."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{p.file}:{p.line}: {p.document}: {p.path}: {p.message}" for p in problems))


@functools.lru_cache(maxsize=1)
def _unpacked(content: bytes) -> Mapping[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(content)
    return data


def read(sources: Iterable[Source], packing: Collection[str] = ()) -> tuple[list[Document], list[Problem]]:
    """Every document of these files in order, and everything that cannot be read. A file that breaks off keeps what stood before.

    Lists (`kind: List`, `ShootList`) are unfolded; empty documents and empty files are nothing. `packing`: schemas of which there may be
    very many, whose documents are kept packed.
    """
    from shared.domain.documents.parsing import values

    documents: list[Document] = []
    problems: list[Problem] = []
    for source in sources:
        for index, (line, value, flaws) in enumerate(values(source.data)):
            document = Document(source.file, index, line, "", "", {}, source)
            if isinstance(value, dict):
                document = Document(source.file, index, line, _kind(value), _name(value), value, source)
            problems += [Problem(source.file, flaw.line, document.title, path_text(flaw.path), flaw.type, flaw.message) for flaw in flaws]
            if document.kind in packing and "kind" not in document.data:
                documents.append(document.packed())
            elif isinstance(value, dict):
                documents.extend(_unfold(document, problems))
            elif value is not None:
                message = f"a document is a mapping with `kind` or `schema`; this one is {type_name(value)}"
                problems.append(Problem(source.file, line, "", "", "Invalid", message))
    return documents, problems


def holds_document(source: Source) -> bool:
    """Whether there is a document in a file, or something that was meant as one. It is read only up to there."""
    from shared.domain.documents.parsing import values

    for index, (line, value, flaws) in enumerate(values(source.data)):
        if flaws or not (value is None or isinstance(value, dict)):
            return True
        unfolded: list[Problem] = []
        if isinstance(value, dict):
            document = Document(source.file, index, line, _kind(value), _name(value), value, source)
            if next(_unfold(document, unfolded), None) or unfolded:
                return True
    return False


def as_stream(sources: Iterable[Source]) -> str:
    """Files as one that holds the same documents, each file under its name: what is shown this way can be staged again."""
    return "".join(_part(source) for source in sources)


def _part(source: Source) -> str:
    """A file as a part of a stream. Text that would mean something else between other files (JSON that is no YAML, a last line without its
    end, directives) is written as its values in JSON; a file that can't be read stays as it is.
    """
    text = source.data.decode("utf-8-sig")
    name = " ".join(source.file.splitlines())
    part = f"---\n# {name}\n{text}" + ("" if text.endswith("\n") else "\n")
    if not (_RISKY.search(text) or text.lstrip()[:1] == "{" or not text.endswith("\n")):
        return part
    from shared.domain.documents.parsing import values

    parsed = [(value, flaws) for _, value, flaws in values(source.data)]
    framed = [value for _, value, flaws in values(f"a: 1\n{part}---\na: 1\n".encode())]
    wanted = [value for value, _ in parsed if value is not None]
    if any(flaws for _, flaws in parsed) or [value for value in framed if value is not None] == [_FRAME, *wanted, _FRAME]:
        return part
    return "".join(f"---\n# {name}\n{_json_line(value)}\n" for value in wanted)


def _json_line(value: Any) -> str:
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


_FRAME = {"a": 1}
_RISKY = re.compile(r"^(%|\.\.\.)", re.MULTILINE)
_UNPRINTABLE = re.compile("[\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff\u2028\u2029\x85]")


def read_nodes(source: Source) -> list[Node]:
    """The nodes that `kubectl get nodes -o json` or `-o yaml` wrote: a List, a NodeList or one Node. Raises DocumentsRefused."""
    try:
        listing = msgspec.json.decode(source.data, type=NodeListing)
        if listing.items is not None and listing.kind in _LISTS and all(item.kind in ("", "Node") for item in listing.items):
            return [item.node() for item in listing.items]
    except (msgspec.MsgspecError, RecursionError):
        pass  # not JSON, or not quite: the slow way says what is wrong and where
    documents, problems = read([source])
    nodes = []
    for document in documents:
        if document.kind != "Node":
            message = f"{document.title or 'this'} is no Node: give what `kubectl get nodes -o json` writes"
            problems.append(document.problem(("kind",), "NotSupported", message))
            continue
        try:
            nodes.append(msgspec.convert(document.data, NodeObject).node())
        except msgspec.ValidationError as error:
            reason, _, where = str(error).partition(" - at `$")
            problems.append(document.problem(_path_of(where.rstrip("`")), "Invalid", reason))
    if problems:
        raise DocumentsRefused(problems)
    return nodes


def type_name(value: Any) -> str:
    """What a value is, in the words of YAML: `text`, `a number`, `a list`."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


_LISTS = ("", "List", "NodeList")
_TYPE_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
    type(None): "null",
}


def _path_of(text: str) -> Path:
    """The path in one of msgspec's messages: `.metadata.labels[...]`."""
    steps = [step for step in re.split(r"[.\[\]]+", text) if step]
    return tuple(int(step) if step.isdigit() else step for step in steps)


def _kind(data: Mapping[str, Any]) -> str:
    kind = data.get("kind") if "kind" in data else data.get("schema")
    return sys.intern(kind) if isinstance(kind, str) else ""


def _name(data: Mapping[str, Any]) -> str:
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _unfold(document: Document, problems: list[Problem]) -> Iterator[Document]:
    items = document.data.get("items")
    if not document.kind.endswith("List") or not isinstance(items, list):
        if document.kind:
            yield document
        else:
            message = "a document says what it is by `kind` (with `apiVersion`) or by `schema`"
            problems.append(document.problem((), "Required", message))
        return
    implied = {"apiVersion": document.data.get("apiVersion"), "kind": document.kind.removesuffix("List")}
    root = document.root or document.line
    for number, item in enumerate(items):
        within = (*document.within, "items", number)
        line = _lines_of(document.source, root).get(within, document.line) if document.source else document.line
        if not isinstance(item, dict):
            message = f"an item of a {document.kind} is a mapping, not {type_name(item)}"
            problems.append(Problem(document.file, line, document.title, path_text(within), "Invalid", message))
            continue
        data = implied | item if implied["kind"] and "kind" not in item else item
        yield from _unfold(
            Document(document.file, document.index, line, _kind(data), _name(data), data, document.source, within, root), problems
        )


def _lines_of(source: Source, first: int) -> dict[Path, int]:
    """The line of every path of the YAML document whose value begins on line `first`. The last one looked at is kept."""
    from shared.domain.documents.parsing import lines, offsets

    cache = source._lines
    if "offsets" not in cache:
        cache["offsets"] = offsets(source.data)
    if cache.get("first") != first:
        cache["first"], cache["lines"] = first, lines(source.data, cache["offsets"][first - 1], first)
    paths: dict[Path, int] = cache["lines"]
    return paths
