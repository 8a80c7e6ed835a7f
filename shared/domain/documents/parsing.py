"""From bytes to plain values, and from paths to lines.

YAML (and JSON, which is YAML) is read natively where it is plain, else from the parser's events, straight into plain values: only what
JSON would read as another type is another type, so `no`, `on`, `012`, `0x1f` and timestamps stay text. Lines are found again only when a
problem needs one.
"""

from __future__ import annotations

import io
import json
import math
import re
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count, islice
from typing import Any, NamedTuple, Protocol, cast

import yaml
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent

from shared.domain.documents import plain
from shared.domain.documents.paths import Path

MAX_DEPTH = 64
"""How deep a document may nest. Kubernetes' own objects stay below 20."""
MAX_ALIASED = 1_000_000
"""How much a file's aliases may add when they are written out, in values and characters: a YAML bomb passes it at once."""
MAX_PROBLEMS = 1_000
"""How many syntax problems one file may show; a file with more is not a document but something else."""


class Flaw(NamedTuple):
    """One thing wrong with what was read, before the document has a name. `line` counts from 1."""

    line: int
    path: Path
    type: str
    message: str


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
        self.flaw = Flaw(line, (), "Syntax", message)
        super().__init__(message)


def values(data: bytes) -> Iterator[tuple[int, Any, list[Flaw]]]:
    """Each document's first line, value and flaws. Where the file breaks off, the last value is None and its flaws say why."""
    flaws: list[Flaw] = []
    try:
        text = _text(data)
        whole = _json(data)
        if whole is not None:
            yield 1 + data[: len(data) - len(data.lstrip())].count(b"\n"), whole, []
            return
        taken = 0
        try:
            for line, value in plain.documents(text, _alone):
                yield line, value, []
                taken += 1
        except plain.NotPlain:
            yield from islice(_Builder(data, flaws).documents(), taken, None)
    except _Broken as broken:
        yield broken.flaw.line, None, [*flaws, broken.flaw]
    except yaml.YAMLError as error:
        line = _line_in(data, error)
        yield line, None, [*flaws, Flaw(line, (), "Syntax", syntax_message(error))]


def _alone(part: str) -> list[tuple[int, Any]]:
    """The documents of a part of a file, read without the rest. Raises NotPlain where the rest may matter, or something is wrong."""
    if _NOT_ALONE.search(part):
        raise plain.NotPlain
    flaws: list[Flaw] = []
    try:
        found = list(_Builder(part.encode(), flaws).documents())
    except (_Broken, yaml.YAMLError) as error:
        raise plain.NotPlain from error
    if any(wrong for *_, wrong in found):
        raise plain.NotPlain
    return [(line, value) for line, value, _ in found]


def _text(data: bytes) -> str:
    zero = data.find(b"\0")
    if zero >= 0:
        raise _Broken(1 + data.count(b"\n", 0, zero), "a binary file (or UTF-16): documents are YAML in UTF-8")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _Broken(
            1 + data.count(b"\n", 0, error.start), f"not UTF-8 (byte 0x{data[error.start]:02x}): save the file as UTF-8"
        ) from error


def _json(data: bytes) -> Any:
    """The one value of a JSON file; None where it is not JSON, or not plainly so: YAML's way then says what is wrong and where."""
    if data.lstrip()[:1] != b"{":
        return None

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) != len(pairs):
            raise ValueError
        return mapping

    def refuse(_: str) -> None:
        raise ValueError

    def number(text: str) -> Any:
        return _number(text)

    try:
        value = json.loads(data, object_pairs_hook=unique, parse_constant=refuse, parse_float=number, parse_int=number)
        if _SURROGATE.search(data):  # half of a pair is no text that anybody could write again
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if _depth(value) <= MAX_DEPTH else None


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [child for node in level if isinstance(node, dict | list) for child in (node.values() if isinstance(node, dict) else node)]
    return depth


def _line_in(data: bytes, error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    return 1 + data.count(b"\n", 0, int(getattr(error, "position", None) or 0))


def syntax_message(error: yaml.YAMLError) -> str:
    """What is wrong with a text that is not YAML, in a person's words."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if "'\\t'" in problem or "tab" in problem:
        return "a tab character where YAML wants spaces: indent with spaces"
    begun = getattr(error, "context_mark", None)
    where = f", begun in line {begun.line + 1}," if begun is not None else ""
    said = f"{getattr(error, 'context', '')} {problem}"
    words = next((words for marks, words in _SYNTAX if all(mark in said for mark in marks)), problem)
    return f"not YAML: {words.replace('{begun}', where)}"


_INDENT = "check the indentation, and that a text with a colon stands in quotes"
_SYNTAX: tuple[tuple[tuple[str, ...], str], ...] = (
    (("cannot start any token",), "a value can't begin with this character (@, `, %): put the text in quotes"),
    (("flow sequence",), "a list in [ ]{begun} lacks a comma or its ]"),
    (("flow mapping",), "a mapping in { }{begun} lacks a comma or its }"),
    (("quoted scalar", "end of stream"), "a quote{begun} is never closed"),
    (("quoted scalar", "document indicator"), "a quote{begun} is not closed before the next document"),
    (("escape",), "an escape that YAML does not know: in double quotes write \\\\ for a backslash, or use single quotes"),
    (("mapping values are not allowed",), f"a colon where no key can stand: {_INDENT}"),
    (("sequence entries are not allowed",), f"a list's dash where no list can stand: {_INDENT}"),
    (("block mapping", "expected key"), f"this line fits neither into the mapping{{begun}} nor below it: {_INDENT}"),
    (("block collection", "'-' indicator"), f"this line fits neither into the list{{begun}} nor below it: {_INDENT}"),
    (("could not find expected ':'",), f"a key{{begun}} without its colon: {_INDENT}"),
    (("<document start>",), "something stands behind the end of the document: put --- between two documents"),
    (("tag",), "a tag (!) that is not known here: put the text in quotes"),
    (("anchor",), "an anchor (&) without a name: put the text in quotes"),
    (("alias",), "an alias (*) without a name: put the text in quotes"),
    (("control characters",), "control characters: the file is no text"),
    (("special characters",), "control characters: the file is no text"),
)
"""What the parser says, in words: the first whose marks are all in it. `{begun}` says where the thing that is broken begins."""


_NOT_ALONE = re.compile(r"[&*%\ufeff]|^(?:---|\.\.\.)", re.MULTILINE)
"""What may belong to another document of the file, or count towards what the file may hold."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
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

    def __init__(self, data: bytes, flaws: list[Flaw]) -> None:
        self.flaws = flaws
        """Of the document that is being read."""
        self.problem_count = 0
        self.next = _parser(data).get_event
        self.anchors: dict[str, Any] = {}
        self.sizes: dict[int, int] = {}
        self.kept: list[Any] = []
        self.aliased = 0
        self.path: list[str | int] = []
        """The container that is being read."""

    def documents(self) -> Iterator[tuple[int, Any, list[Flaw]]]:
        self.next()  # the stream's start
        while not isinstance(self.next(), yaml.StreamEndEvent):
            self.anchors, self.sizes, self.kept = {}, {}, []
            event = self.next()
            value = self.value(event, 1)
            yield event.start_mark.line + 1, value, list(self.flaws)
            self.flaws.clear()
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
        members: dict[str, Any] = {}
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
            elif name in members:
                self.path.append(name)
                self.problem(key, f"the key {name!r} is here twice: keep one", "Duplicate")
                self.path.pop()
            else:
                members[name] = value
        return {**merged, **members} if merged else members

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
        items: list[Any] = []
        while type(event := self.next()) is not SequenceEndEvent:
            self.path.append(len(items))
            items.append(self.value(event, depth + 1))
            self.path.pop()
        return items

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
        self.problem_count += 1
        if self.problem_count > MAX_PROBLEMS:
            raise _Broken(line, f"more than {MAX_PROBLEMS} problems: this file is not read on")
        self.flaws.append(Flaw(line, tuple(self.path), type_, message))


# --- lines, when a problem needs one ---------------------------------------------------------------------------------------------------

_BREAK = re.compile(rb"\r\n|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""What the parser counts as the end of a line."""


def offsets(data: bytes) -> array[int]:
    """Where each line begins, in bytes."""
    return array("Q", [0, *(match.end() for match in _BREAK.finditer(data))])


def lines(data: bytes, offset: int, first: int) -> dict[Path, int]:
    """The line of every path of the document whose value begins at `offset`, on line `first`: mappings by key, lists by item."""
    stream = io.BytesIO(data)
    stream.seek(offset)
    following = _parser(stream).get_event
    known: dict[Path, int] = {}
    with suppress(yaml.YAMLError):  # JSON that YAML would not read has the lines up to there
        following(), following()  # the stream's and the document's start
        _note(following, following(), (), first, known)
    return known


def _note(following: Any, event: Any, path: Path, first: int, known: dict[Path, int]) -> None:
    known.setdefault(path, event.start_mark.line + first)
    if type(event) is SequenceStartEvent:
        for number in count():
            if type(event := following()) is SequenceEndEvent:
                return
            _note(following, event, (*path, number), first, known)
    elif type(event) is MappingStartEvent:
        while type(key := following()) is not MappingEndEvent:
            name = (*path, str(getattr(key, "value", "")))
            known.setdefault(name, key.start_mark.line + first)
            _note(following, following(), name, first, known)
