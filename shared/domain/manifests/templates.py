"""Old keys in text that is not YAML: Helm templates first of all. Judged by lines and indentation (docs/migrate.md).

A template's structure exists only once it is rendered. What its author sees is what decides here: a key below `nodeSelector:` by
indentation, control lines (`{{- if … }}`) being no part of it. Where that is not enough, the key is reported and left alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.domain.manifests.places import (
    COMMENT,
    IN_PROSE,
    JSONPATH,
    LINE_END,
    UNKNOWN_PLACE,
    Hit,
    Judged,
    Place,
    Verdict,
    judge,
    judge_pointer,
)
from shared.domain.manifests.trees import EMBEDDED, PROSE, TEXTS, both_keys

_ACTION = re.compile(r"\{\{(?P<body>.*?)\}\}", re.DOTALL)
_WORD = re.compile(r"-?\s*(\w+)")
_OPENS = frozenset({"if", "with", "range", "define", "block"})
_VERSIONED = re.compile(r"semverCompare|KubeVersion")
_DEFINED = re.compile(r"""(?:define|block)\s+["`](?P<name>[^"`]*)["`]""")
_ENTRY = re.compile(
    r"""(?P<lead>[ \t]*(?:-[ \t]+)*)"""
    r"""(?:"(?P<dq>[^"]*)"|'(?P<sq>[^']*)'|(?P<plain>[^\s"'#{}\[\],&*!|>%@`-][^\s"'#{}:]*))[ \t]*:(?=\s|\Z)"""
)
_DASH = re.compile(r"[ \t]*-(?=\s|\Z)")
_BLOCK_SCALAR = re.compile(r":[ \t]*[|>][-+0-9]*[ \t]*(?:#.*)?\Z")
_OPENED_BY = re.compile(r"""["']?(?P<name>[\w./-]+)["']?[ \t]*:[ \t]*\Z""")
_KIND = re.compile(r"^kind:[ \t]*[\"']?(\w+)", re.MULTILINE)

_AS_KEY = (re.compile(r"""[ \t]*(?:-[ \t]+)*(?:\?[ \t]+)?(?P<q>["']?)\Z"""), re.compile(r"""(?P<q>["']?)[ \t]*:(?=\s|\Z)"""))
_AS_FLOW_KEY = (re.compile(r"""[{,][ \t]*(?P<q>["']?)\Z"""), re.compile(r"""(?P<q>["']?)[ \t]*:"""))
_AS_VALUE = (
    re.compile(r"""(?P<name>[\w./-]+)["']?[ \t]*:[ \t]+(?P<q>["']?)\Z"""),
    re.compile(r"""(?P<q>["']?)[ \t]*(?:[,}]|#|\{\{-?[ \t]*end\b|\Z)"""),
)
_AS_ITEM = (re.compile(r"""[ \t]*(?:-[ \t]+)+(?P<q>["']?)\Z"""), re.compile(r"""(?P<q>["']?)[ \t]*(?:#.*)?\Z"""))
_DEFAULT = re.compile(r"""(?P<name>[\w-]+)["']?:[ \t]+["']?\{\{[^{}]*\bdefault[ \t]+["`]\Z""")
_POINTER = re.compile(r"""(?:path|from)["']?:[ \t]*["']?(?P<pointer>/[^\s"',}]*)\Z""")
_REST_OF_POINTER = re.compile(r"""[^\s"',}]*""")

_MOST_BLOCKS = 50
_MOST_SIBLINGS = 500
_DOCUMENT_START = re.compile(r"---(?=\s|\Z)")
_ANCHOR = re.compile(r"(?:\A|[\s:,\[{-])&([^\s,\[\]{}]+)")
_ALIAS = re.compile(r"(?:^|[\s:,\[{-])\*([^\s,\[\]{}]+)", re.MULTILINE)

_IN_ACTION = Verdict("report", "inside a template's expression: look, and change it by hand if nodes are selected by it")
_VERSIONED_BRANCH = Verdict("report", "in a branch that asks for the cluster's version: it may be meant for old clusters")
_ALIASED = Verdict("report", "an anchor of a template, and its aliases can't be followed: change it by hand")
_IN_TEXT = Verdict("report", "in a text inside the manifest: it belongs to whatever reads that text")


@dataclass(frozen=True, slots=True)
class _Line:
    """One line as indentation sees it: the columns of its key and of the dashes before it; `key` is None where it has none."""

    key: str | None
    column: int
    dashes: tuple[int, ...]
    opens_text: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """A condition or definition that is open: where it begins, whether it asks for a version, and the name that it defines."""

    start: int
    versioned: bool
    defines: str | None


class Template:
    """A text to be judged line by line. Built once for a text, asked for each hit."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in LINE_END.finditer(text))]
        self.lines = [text[a:b].rstrip("\r\n") for a, b in zip(self.starts, [*self.starts[1:], len(text)], strict=True)]
        self.actions = [(match.start(), match.end(), match["body"]) for match in _ACTION.finditer(text)]
        self.aliases = frozenset(_ALIAS.findall(text))
        self.action_starts = [start for start, _, _ in self.actions]
        self.blocks = list(self._open_blocks())
        self.documents = [start for start, line in zip(self.starts, self.lines, strict=True) if _DOCUMENT_START.match(line)]
        self._kinds: dict[int, str] = {}
        self._known: dict[int, _Line | None] = {}

    def judge(self, hit: Hit, *, new: Mapping[str, str], beta: frozenset[str]) -> Verdict | None:
        """Judge one hit; None for a comment or prose."""
        row = bisect_right(self.starts, hit.start) - 1
        before = self.lines[row][: hit.start - self.starts[row]]
        after = self.lines[row][hit.end - self.starts[row] :]
        action = self._action_around(hit.start)
        if (action or "").lstrip("- \t\r\n").startswith("/*") or (action is None and _in_comment(before)):
            return COMMENT
        verdict = self._judge(hit, row, before, after, in_action=action is not None, new=new, beta=beta)
        if verdict is not None and verdict.action == "rewrite" and any(block.versioned for block in self._blocks_around(hit.start)):
            return _VERSIONED_BRANCH
        return verdict

    def _judge(
        self, hit: Hit, row: int, before: str, after: str, *, in_action: bool, new: Mapping[str, str], beta: frozenset[str]
    ) -> Verdict | None:
        if in_action:
            given = _DEFAULT.search(before)
            verdict = judge(Place(False, (given["name"],)), beta=hit.old in beta) if given and after[:1] in '"`' else UNKNOWN_PLACE
            return verdict if verdict.action == "rewrite" else _IN_ACTION
        pointer = _POINTER.search(before)
        names, in_text, rows = self._above(row, len(before) - len(before.lstrip(" \t-")))
        around = {*names, *((_name(own),) if pointer is None and (own := _ENTRY.match(self.lines[row])) else ())}
        if not PROSE.isdisjoint(around):
            return None if TEXTS.isdisjoint(around) else IN_PROSE
        if hit.dot != ".":
            return JSONPATH
        if in_text:
            return _IN_TEXT
        if pointer is not None:
            rest = _REST_OF_POINTER.match(after)
            return judge_pointer(pointer["pointer"] + self.text[hit.start : hit.end] + (rest[0] if rest else ""), hit.old)
        place = self._place(row, before, after, names)
        if place is None:
            return None if "/" not in hit.old else UNKNOWN_PLACE
        verdict = judge(place, beta=hit.old in beta)
        if verdict.action == "rewrite" and any(anchor in self.aliases for at in rows for anchor in _ANCHOR.findall(self.lines[at])):
            return _ALIASED
        if verdict.action == "rewrite" and place.is_key and (clash := self._clash(row, hit, before, new)):
            return Verdict("report", clash)
        return verdict

    def _place(self, row: int, before: str, after: str, names: tuple[str, ...]) -> Place | None:
        """Say where a whole key stands; None where it is part of something longer."""
        kind = self._kind(row)
        if _quoted(_AS_KEY, before, after) is not None:
            return Place(True, names or self._defined(row), kind)
        inline = _opened_on_line(before)
        above = names + self._own_names(row, before)
        if _quoted(_AS_FLOW_KEY, before, after) is not None:
            return Place(True, (above + inline[1:]) if inline else above, kind)
        value = _quoted(_AS_VALUE, before, after)
        if value is not None:
            return Place(False, ((above + inline[1:]) if inline else names) + (value,), kind)
        if _quoted(_AS_ITEM, before, after) is not None:
            return Place(False, names, kind)
        return None

    def _own_names(self, row: int, before: str) -> tuple[str, ...]:
        own = _ENTRY.match(self.lines[row])
        return (_name(own),) if own and own.end() <= len(before) else ()

    def _above(self, row: int, column: int) -> tuple[tuple[str, ...], bool, list[int]]:
        """Climb to the names that a line stands below, outermost first; say whether a foreign block scalar is one of them, and in which
        rows they and the line itself stand.
        """
        dash = _DASH.match(self.lines[row])
        limit, in_sequence = (dash.end() - 1, True) if dash else (column, False)
        names: list[str] = []
        rows = [row]
        while row > 0 and (limit > 0 or in_sequence):
            row -= 1
            if _DOCUMENT_START.match(self.lines[row]):
                break
            line = self._read(row)
            if line is None:
                continue
            if line.dashes and (limit in line.dashes if in_sequence else line.column == limit):
                limit, in_sequence = line.dashes[0], True  # where it is not the first dash, the sequence is itself an item
                rows.append(row)
            elif line.key is not None and (line.column < limit or (in_sequence and line.column == limit)):
                if line.opens_text:
                    return tuple(reversed(names)), line.key not in EMBEDDED, rows
                names.append(line.key)
                rows.append(row)
                limit, in_sequence = (line.dashes[0], True) if line.dashes else (line.column, False)
        return tuple(reversed(names)), False, rows

    def _read(self, row: int) -> _Line | None:
        """One line by its columns; None for what has no part in indentation: blanks, comments, control lines."""
        if row not in self._known:
            self._known[row] = self._read_anew(row)
        return self._known[row]

    def _read_anew(self, row: int) -> _Line | None:
        line = self.lines[row]
        bare = _ACTION.sub("", line).strip()
        if not bare or bare.startswith("#"):
            return None
        entry = _ENTRY.match(line)
        lead = entry["lead"] if entry else line[: len(line) - len(line.lstrip(" \t-"))]
        dashes = tuple(at for at, char in enumerate(lead) if char == "-")
        return _Line(_name(entry) if entry else None, len(lead), dashes, bool(entry and _BLOCK_SCALAR.search(line)))

    def _clash(self, row: int, hit: Hit, before: str, new: Mapping[str, str]) -> str:
        """Say why renaming would put one key twice into a mapping, branches of a template included; empty if it would not."""
        wanted = new[hit.old]
        line = self.lines[row]
        if _AS_FLOW_KEY[0].search(before):
            rivals = [name for name in new if name != hit.old and new[name] == wanted]
            return next((f"{name} stands in the same braces" for name in (wanted, *rivals) if name in line), "")
        mine = re.sub(r".*?:", "", line[len(before) + hit.end - hit.start :], count=1).strip()
        for count, other in enumerate(self._siblings(row, len(before.rstrip("\"'")))):
            if count > _MOST_SIBLINGS:
                return "a block too long to be sure that the new key is not in it: change it by hand"
            entry = _ENTRY.match(self.lines[other])
            name = _name(entry) if entry else ""
            if name == "<<":
                return "a mapping is merged in here, and in a template it can't be followed: change it by hand"
            if name == wanted and self._blocks_around(self.starts[other]) != self._blocks_around(self.starts[row]):
                return f"{wanted} stands in another branch of this block: keep the branch that your clusters need"
            if name == wanted and entry:
                return both_keys(wanted, same=self.lines[other][entry.end() :].strip().strip("\"'") == mine.strip("\"'"))
            if new.get(name) == wanted:
                return f"{name} stands in this block too, and would become {wanted}: take one out"
        return ""

    def _siblings(self, row: int, column: int) -> Iterator[int]:
        """Yield the rows of the other keys of the mapping that a line stands in."""
        definition = self._definition(row)
        for step in (-1, 1):
            at = row
            while 0 <= (at := at + step) < len(self.lines) and not _DOCUMENT_START.match(self.lines[at]):
                line = self._read(at)
                if line is None or line.column > column:
                    continue
                if line.column < column or (step > 0 and line.dashes) or self._definition(at) != definition:
                    break
                yield at
                if line.dashes:
                    break

    def _kind(self, row: int) -> str:
        """The kind of the object that a line belongs to, where the template says it at the start of a line."""
        document = bisect_right(self.documents, self.starts[row])
        if document not in self._kinds:
            begin = self.documents[document - 1] if document else 0
            end = self.documents[document] if document < len(self.documents) else len(self.text)
            said = _KIND.search(self.text, begin, end)
            self._kinds[document] = said[1] if said else ""
        return self._kinds[document]

    def _action_around(self, at: int) -> str | None:
        """The template expression that a position stands in."""
        index = bisect_right(self.action_starts, at) - 1
        return self.actions[index][2] if index >= 0 and at < self.actions[index][1] else None

    def _open_blocks(self) -> Iterator[tuple[_Block, ...]]:
        """Yield the blocks that are open after each action, the outermost first; an `else` begins a block of its own."""
        blocks: tuple[_Block, ...] = ()
        for start, _, body in self.actions:
            word = _WORD.match(body)
            versioned = bool(_VERSIONED.search(body))
            match word[1] if word else "":
                case "end":
                    blocks = blocks[:-1]
                case "else" if blocks:
                    blocks = (*blocks[:-1], _Block(start, versioned or blocks[-1].versioned, blocks[-1].defines))
                case name if name in _OPENS:
                    defined = _DEFINED.search(body)
                    blocks = (*blocks[-_MOST_BLOCKS:], _Block(start, versioned, defined["name"] if defined else None))
            yield blocks

    def _blocks_around(self, at: int) -> tuple[_Block, ...]:
        """The conditions and definitions open at a position."""
        index = bisect_right(self.action_starts, at) - 1
        return self.blocks[index] if index >= 0 else ()

    def _defined(self, row: int) -> tuple[str, ...]:
        """The name of the partial that a top-level line stands in: `chart.nodeSelector` says what it is for."""
        names = [block.defines for block in self._blocks_around(self.starts[row]) if block.defines]
        return (names[-1].rpartition(".")[2],) if names else ()

    def _definition(self, row: int) -> int:
        """Where the partial that a line stands in begins; -1 outside of one."""
        return max((block.start for block in self._blocks_around(self.starts[row]) if block.defines), default=-1)


def read_template(text: str, hits: Sequence[Hit], *, new: Mapping[str, str], beta: frozenset[str]) -> list[Judged]:
    """Judge hits in a text that is not YAML; those in comments and prose are left out."""
    template = Template(text)
    judged = ((hit, template.judge(hit, new=new, beta=beta)) for hit in hits)
    return [(hit, verdict) for hit, verdict in judged if verdict is not None]


def _name(entry: re.Match[str]) -> str:
    return next(name for name in (entry["dq"], entry["sq"], entry["plain"]) if name is not None)


def _quoted(shape: tuple[re.Pattern[str], re.Pattern[str]], before: str, after: str) -> str | None:
    """Match what stands before and after a key; equal quotes or none. Returns the name before it, or an empty text."""
    left = shape[0].search(before) if shape[0].pattern.startswith(("[{,]", "(?P<name>")) else shape[0].fullmatch(before)
    right = shape[1].match(after)
    if left is None or right is None or left["q"] != right["q"]:
        return None
    return left.groupdict().get("name") or ""


def _opened_on_line(before: str) -> tuple[str, ...]:
    """Name the braces of flow style still open on a line, outermost first: `affinity: {nodeAffinity: {` is both."""
    opened: list[int] = []
    for at, char in enumerate(before):
        if char in "{[":
            opened.append(at)
        elif char in "}]" and opened:
            opened.pop()
    matches = (_OPENED_BY.search(before, max(0, at - 300), at) for at in opened[-_MOST_BLOCKS:])
    return tuple(name["name"] for name in matches if name)


def in_comment(text: str, at: int) -> bool:
    """Whether a place is in a YAML comment, as its line says."""
    return _in_comment(text[max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1 : at])


def _in_comment(before: str) -> bool:
    """Whether a `#` outside quotes starts a comment before the hit."""
    quote = ""
    for at, char in enumerate(before):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or before[at - 1] in " \t:{[,-"):
            quote = char
        elif char == "#" and (at == 0 or before[at - 1] in " \t"):
            return True
    return False
