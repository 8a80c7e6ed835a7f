"""Documents as they were written: where each stands, what it holds, and what is wrong with it.

YAML (and JSON, which is YAML) is read from the parser's events, straight into plain values: only what JSON would read as another
type is another type, so `no`, `on`, `012`, `0x1f` and timestamps stay text. Lines are found again only when a problem needs one.
"""

from __future__ import annotations

import io
import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol, cast

import msgspec
import yaml
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent

from shared.domain.nodes import Node, NodeListing, NodeObject

Path = tuple[str | int, ...]
"""Where in a document: `("spec", "labels", "rack")`; the empty path is the document itself."""

MAX_DEPTH = 64
"""How deep a document may nest. Kubernetes' own objects stay below 20."""
MAX_ALIASED = 1_000_000
"""How much a file's aliases may add when they are written out, in values and characters: a YAML bomb passes it at once."""
MAX_PROBLEMS = 1_000
"""How many syntax problems one file may show; a file with more is not a document but something else."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file's bytes under the name that errors show (a path, or `-` for standard input)."""

    file: str
    data: bytes
    _found: dict[int, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Lines found so far: the offset of every line under -1, and the paths of the document looked at last under its first line."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document. `index` counts from 0 within its file; `line` is its first line, counted from the file's start, from 1."""

    file: str
    index: int
    line: int
    kind: str
    """`NodeLabelPolicy`, `drydock/BaremetalNode/v1` (a Deckhand schema), `CloudProfile`; empty where the document has none."""
    name: str
    data: Mapping[str, Any]
    source: Source | None = field(default=None, repr=False, compare=False)
    """Where lines are found again; None for a document that no file holds (its line then serves for every path)."""
    within: Path = ()
    """Where it stands in its YAML document: `("items", 3)` in a List, else empty."""
    root: int = 0
    """The first line of that List; 0 outside of one."""

    @property
    def title(self) -> str:
        """How people name it: `NodeLabelPolicy/racks`, `BaremetalNode/n1`."""
        kind = self.kind.split("/")[1] if self.kind.count("/") == 2 else self.kind
        return "/".join(part for part in (kind, self.name) if part)

    def line_of(self, path: Path) -> int:
        """The line of a path in this document, or of the nearest thing around it that is written there."""
        if self.source is None:
            return self.line
        lines = _lines(self.source, self.root or self.line)
        for length in range(len(path), 0, -1):
            if (line := lines.get(self.within + path[:length])) is not None:
                return line
        return self.line

    def problem(self, path: Path, type_: str, message: str) -> Problem:
        """A problem of this document at this path, with its line."""
        return Problem(self.file, self.line_of(path), self.title, path_text(path), type_, message)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the documents, for `validate`'s `errors` (DESIGN §11) and `messageList` (§7)."""

    file: str
    line: int
    document: str
    path: str
    """`spec.kubernetes.versions[0].version`; empty for the document as a whole."""
    type: str
    """`Invalid`, `Required`, `Duplicate`, `Forbidden`, `NotSupported`, `NotFound`, `Unknown`, `Syntax` (Kubernetes' field error words)."""
    message: str
    """What is wrong, and what to do about it."""


class DocumentsRefused(Exception):
    """Every problem of the documents, in one answer."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{p.file}:{p.line}: {p.document}: {p.path}: {p.message}" for p in problems))


def path_text(path: Path) -> str:
    """A path as people read it: `spec.labels[example.com/rack]`, `spec.pairs[0].primary`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def read(sources: Iterable[Source]) -> tuple[list[Document], list[Problem]]:
    """Every document of these files in order, and everything that cannot be read. A file that breaks off keeps what stood before.

    Lists (`kind: List`, `ShootList`) are unfolded; empty documents and empty files are nothing.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    for source in sources:
        for index, line, value in _values(source, problems):
            if isinstance(value, dict):
                document = Document(source.file, index, line, _kind(value), _name(value), value, source)
                documents.extend(_unfold(document, problems))
            elif value is not None:
                message = f"a document is a mapping with `kind` or `schema`; this one is {type_name(value)}"
                problems.append(Problem(source.file, line, "", "", "Invalid", message))
    return documents, problems


def read_nodes(source: Source) -> list[Node]:
    """The nodes that `kubectl get nodes -o json` or `-o yaml` wrote: a List, a NodeList or one Node. Raises DocumentsRefused."""
    try:
        listing = msgspec.json.decode(source.data, type=NodeListing)
        if listing.items is not None:
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


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]+")
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
    return kind if isinstance(kind, str) else ""


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
        line = _lines(document.source, root).get(within, document.line) if document.source else document.line
        if not isinstance(item, dict):
            message = f"an item of a {document.kind} is a mapping, not {type_name(item)}"
            problems.append(Problem(document.file, line, document.title, path_text(within), "Invalid", message))
            continue
        data = implied | item if implied["kind"] and "kind" not in item else item
        yield from _unfold(
            Document(document.file, document.index, line, _kind(data), _name(data), data, document.source, within, root), problems
        )


# --- from bytes to values -------------------------------------------------------------------------------------------------------------


class _Parser(Protocol):
    def get_event(self) -> Any: ...


def _parser(stream: bytes | io.BytesIO) -> _Parser:
    """libyaml's parser where PyYAML was built with it, else the one in Python: the same events."""
    if yaml.__with_libyaml__:
        from yaml.cyaml import CParser  # type: ignore[attr-defined, unused-ignore]

        return cast("_Parser", CParser(stream))
    from yaml.composer import Composer
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class Pure(Reader, Scanner, Parser, Composer):
        def __init__(self, stream: Any) -> None:
            Reader.__init__(self, stream)
            Scanner.__init__(self)
            Parser.__init__(self)

    return cast("_Parser", Pure(stream))


class _Broken(Exception):
    """The file cannot be read on from here. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(message)


def _values(source: Source, problems: list[Problem]) -> Iterator[tuple[int, int, Any]]:
    """Each document's index, first line and value. What is wrong goes to `problems`; the file ends where it breaks."""
    try:
        _must_be_text(source.data)
        whole = _json(source.data)
        if whole is not None:
            yield 0, 1 + source.data[: len(source.data) - len(source.data.lstrip())].count(b"\n"), whole
            return
        builder = _Builder(source, problems)
        yield from builder.documents()
    except _Broken as broken:
        problems.append(Problem(source.file, broken.line, "", "", "Syntax", broken.message))
    except yaml.YAMLError as error:
        problems.append(Problem(source.file, _line_in(source.data, error), "", "", "Syntax", _told(error)))


def _must_be_text(data: bytes) -> None:
    zero = data.find(b"\0")
    if zero >= 0:
        raise _Broken(1 + data.count(b"\n", 0, zero), "a binary file (or UTF-16): documents are YAML in UTF-8")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _Broken(
            1 + data.count(b"\n", 0, error.start), f"not UTF-8 (byte 0x{data[error.start]:02x}): save the file as UTF-8"
        ) from error


def _json(data: bytes) -> Any:
    """The one value of a JSON file; None where it is not JSON, or not plainly so: YAML's way then says what is wrong and where."""
    if data.lstrip()[:1] != b"{":
        return None

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError
        return found

    def refuse(_: str) -> None:
        raise ValueError

    def number(text: str) -> Any:
        return _number(text)

    try:
        value = json.loads(data, object_pairs_hook=unique, parse_constant=refuse, parse_float=number, parse_int=number)
    except (ValueError, RecursionError):
        return None
    return value if _depth(value) <= MAX_DEPTH else None


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [child for each in level if isinstance(each, dict | list) for child in (each.values() if isinstance(each, dict) else each)]
    return depth


def _line_in(data: bytes, error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    return 1 + data.count(b"\n", 0, int(getattr(error, "position", None) or 0))


def _told(error: yaml.YAMLError) -> str:
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if "'\\t'" in problem or "tab" in problem:
        return "a tab character where YAML wants spaces: indent with spaces"
    context = getattr(error, "context", None)
    return f"not YAML: {f'{context}, ' if context else ''}{problem}"


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANTS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}
_MAYBE_MORE = frozenset(["", *"~ntf-0123456789"])
"""First characters of plain text that JSON may read as another type."""


def _number(text: str) -> Any:
    """A JSON number's value; the text itself where no finite number stands for it."""
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > 400:
        return text
    if match[2] is None and match[3] is None:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else text


def _plain(text: str) -> Any:
    """What JSON would read in plain (unquoted) text."""
    return _CONSTANTS[text] if text in _CONSTANTS else _number(text)


_TAGS: Mapping[str, type[Any] | tuple[type[Any], ...]] = {
    "!": str,
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": (int, float),
    "tag:yaml.org,2002:bool": bool,
    "tag:yaml.org,2002:null": type(None),
}


class _Builder:
    """Builds the values of one file from its events."""

    def __init__(self, source: Source, problems: list[Problem]) -> None:
        self.source = source
        self.problems = problems
        self.next = _parser(source.data).get_event
        self.anchors: dict[str, Any] = {}
        self.sizes: dict[int, int] = {}
        self.kept: list[Any] = []
        self.aliased = 0
        self.found = 0
        self.path: list[str | int] = []
        """The container that is being read; for problems."""

    def documents(self) -> Iterator[tuple[int, int, Any]]:
        self.next()  # the stream's start
        for index in count():
            if isinstance(self.next(), yaml.StreamEndEvent):
                return
            self.anchors, self.sizes, self.kept = {}, {}, []
            event = self.next()
            first = len(self.problems)
            value = self.value(event, 1)
            if isinstance(value, dict) and len(self.problems) > first:  # only now its name is known
                title = Document("", 0, 0, _kind(value), _name(value), value).title
                self.problems[first:] = [replace(problem, document=title) for problem in self.problems[first:]]
            yield index, event.start_mark.line + 1, value
            self.next()  # the document's end

    def value(self, event: Any, depth: int) -> Any:
        kind = type(event)
        if kind is ScalarEvent:
            value = self.scalar(event)
        elif kind is AliasEvent:
            return self.alias(event)
        else:
            if depth > MAX_DEPTH:
                raise _Broken(event.start_mark.line + 1, f"nested deeper than {MAX_DEPTH} levels")
            if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
                self.problem(event, f"the tag {event.tag} means nothing here: write the value without it")
            value = self.mapping(depth) if kind is MappingStartEvent else self.sequence(depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = value
            self.kept.append(value)  # so that its id stays its own
        return value

    def scalar(self, event: Any) -> Any:
        text = event.value
        if event.tag is None:
            return _plain(text) if event.implicit[0] and text[:1] in _MAYBE_MORE else text
        wanted = _TAGS.get(event.tag)
        if wanted is None:
            self.problem(event, f"the tag {event.tag} means nothing here: write the value without it")
            return text
        value = text if wanted is str else _plain(text)
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            self.problem(event, f"{text!r} is not what its tag {event.tag} says")
        return value

    def mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: Any = None
        following = self.next
        while True:
            key = following()
            if type(key) is not ScalarEvent:
                if type(key) is MappingEndEvent:
                    break
                name = self.key(key)
            else:
                name = key.value
                if key.anchor is not None:
                    self.anchors[key.anchor] = name
            event = following()
            if type(event) is ScalarEvent and event.anchor is None and event.tag is None:
                text = event.value
                value = _plain(text) if event.implicit[0] and text[:1] in _MAYBE_MORE else text
            else:
                self.path.append(name)
                value = self.value(event, depth + 1)
                self.path.pop()
            if name == "<<" and merged is None and type(key) is ScalarEvent and key.implicit[0]:
                merged = self.merged(key, value)
            elif name in found:
                self.path.append(name)
                self.problem(key, f"the key {name!r} is here twice: keep one", "Duplicate")
                self.path.pop()
            else:
                found[name] = value
        return {**merged, **found} if merged else found

    def key(self, event: Any) -> str:
        if type(event) is AliasEvent:
            name = self.alias(event)
            if isinstance(name, str):
                return name
        message = "a mapping's key must be plain text (a template such as {{ … }} must be rendered first)"
        raise _Broken(event.start_mark.line + 1, message)

    def merged(self, event: Any, value: Any) -> dict[str, Any]:
        """What `<<` brings: one mapping or a list of them, the first one winning."""
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            self.problem(event, "`<<` merges a mapping or a list of mappings")
            return {}
        return {name: part[name] for part in reversed(parts) for name in part}

    def sequence(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while type(event := self.next()) is not SequenceEndEvent:
            self.path.append(len(found))
            found.append(self.value(event, depth + 1))
            self.path.pop()
        return found

    def alias(self, event: Any) -> Any:
        if event.anchor not in self.anchors:
            message = f"*{event.anchor} names no anchor that is complete above it in this document"
            raise _Broken(event.start_mark.line + 1, message)
        value = self.anchors[event.anchor]
        self.aliased += self.size(value)
        if self.aliased > MAX_ALIASED:
            message = f"aliases add more than {MAX_ALIASED} values and characters when written out: a YAML bomb, or a file to split"
            raise _Broken(event.start_mark.line + 1, message)
        return value

    def size(self, value: Any) -> int:
        """How much a value is when every alias in it is written out. Each container is counted once."""
        if isinstance(value, str):
            return 1 + len(value)
        if not isinstance(value, dict | list):
            return 1
        if id(value) not in self.sizes:
            inside = value.items() if isinstance(value, dict) else ((None, item) for item in value)
            self.sizes[id(value)] = 1 + sum(len(key or "") + self.size(item) for key, item in inside)
        return self.sizes[id(value)]

    def problem(self, event: Any, message: str, type_: str = "Syntax") -> None:
        line = event.start_mark.line + 1
        self.found += 1
        if self.found > MAX_PROBLEMS:
            raise _Broken(line, f"more than {MAX_PROBLEMS} problems: this file is not read on")
        self.problems.append(Problem(self.source.file, line, "", path_text(tuple(self.path)), type_, message))


# --- lines, when a problem needs one ---------------------------------------------------------------------------------------------------

_BREAK = re.compile(rb"\r\n|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""What the parser counts as the end of a line."""
_OFFSETS = -1


def _lines(source: Source, first: int) -> dict[Path, int]:
    """The line of every path of the YAML document whose value begins on line `first`."""
    found = source._found
    if first not in found:
        if _OFFSETS not in found:
            found[_OFFSETS] = array("Q", [0, *(match.end() for match in _BREAK.finditer(source.data))])
        stream = io.BytesIO(source.data)
        stream.seek(found[_OFFSETS][first - 1])
        following = _parser(stream).get_event
        lines: dict[Path, int] = {}
        with suppress(yaml.YAMLError):  # JSON that YAML would not read has the lines up to there
            following(), following()  # the stream's and the document's start
            _note(following, following(), (), first, lines)
        for line in [line for line in found if line != _OFFSETS]:
            del found[line]
        found[first] = lines
    return cast("dict[Path, int]", found[first])


def _note(following: Any, event: Any, path: Path, first: int, lines: dict[Path, int]) -> None:
    lines.setdefault(path, event.start_mark.line + first)
    if type(event) is SequenceStartEvent:
        for number in count():
            if type(event := following()) is SequenceEndEvent:
                return
            _note(following, event, (*path, number), first, lines)
    elif type(event) is MappingStartEvent:
        while type(key := following()) is not MappingEndEvent:
            name = (*path, str(getattr(key, "value", "")))
            lines.setdefault(name, key.start_mark.line + first)
            _note(following, following(), name, first, lines)
