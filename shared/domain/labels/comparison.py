"""What differs between two revisions: labels, node by node and key by key, and the text of their files. Pure."""

from __future__ import annotations

import difflib
import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from pydantic import BaseModel

from shared.domain.documents.reading import Source

EXAMPLES = 3
"""Nodes that are named for each key."""
LISTED = 10_000
"""Nodes that are listed with all their labels, about 1 kB each; the keys count every one."""
COMPARED_LINES = 15_000
"""Lines of a file, from the first that differs to the last, that are compared one by one: 3 s; the time may grow with their square."""
CONTEXT = 3
"""Lines that a diff shows around a change."""


class NodeLabels(BaseModel):
    """What each revision declares for a node; null where it does not know the node."""

    before: dict[str, str] | None
    after: dict[str, str] | None


class KeyValues(BaseModel):
    """A key's declared values on one node; null where none is declared."""

    before: str | None
    after: str | None


class KeyDifference(BaseModel):
    """On how many nodes the newer revision declares a key that the older does not (`set`), with another value, or no longer."""

    set: int = 0
    changed: int = 0
    removed: int = 0
    examples: dict[str, KeyValues]

    @property
    def nodes(self) -> int:
        """On how many nodes it differs at all."""
        return self.set + self.changed + self.removed


class RevisionDiff(BaseModel):
    """What differs. A node is `CLUSTER/NAME` where there are several clusters."""

    labels: dict[str, KeyDifference]
    nodes: dict[str, NodeLabels]
    more_nodes: int
    """Nodes that differ too and are not listed."""
    unseen: dict[str, str]
    """Clusters whose own nodes could not be looked at, and why: there the documents alone were compared."""
    diff: list[str]


class Compared(NamedTuple):
    """One node: the labels that the older and the newer revision declare for it."""

    name: str
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None


class Differences:
    """Adds up nodes that differ."""

    def __init__(self) -> None:
        self.labels: dict[str, KeyDifference] = {}
        self.nodes: dict[str, NodeLabels] = {}
        self.more_nodes = 0

    def add(self, node: Compared) -> None:
        """Count one node, where it differs."""
        if node.before == node.after:
            return
        before, after = node.before or {}, node.after or {}
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                self._count(key, node.name, KeyValues(before=before.get(key), after=after.get(key)))
        if len(self.nodes) < LISTED:
            self.nodes[node.name] = NodeLabels(
                before=None if node.before is None else dict(node.before), after=None if node.after is None else dict(node.after)
            )
        else:
            self.more_nodes += 1

    def _count(self, key: str, name: str, values: KeyValues) -> None:
        counted = self.labels.setdefault(key, KeyDifference(examples={}))
        if values.before is None:
            counted.set += 1
        elif values.after is None:
            counted.removed += 1
        else:
            counted.changed += 1
        if len(counted.examples) < EXAMPLES:
            counted.examples[name] = values


Files = Mapping[str, Sequence[Source]]
"""A revision's files by collection."""


def text_difference(older: Files, newer: Files, numbers: tuple[int, int]) -> Iterator[str]:
    """The unified diff of two revisions. A file is compared with the one of its name in the same collection; one whose name the other
    revision does not have, with the one of the same text or of the same last name.
    """
    several = len({*older, *newer}) > 1
    for collection in sorted({*older, *newer}):
        folder = f"{collection}/" if several else ""
        for before, after in _pairs(older.get(collection, ()), newer.get(collection, ())):
            known = before or after
            names = [folder + (side or known).file for side in (before, after)] if known else ["", ""]
            yield from _unified(before, after, f"{names[0]} (revision {numbers[0]})", f"{names[1]} (revision {numbers[1]})")


def _unified(before: Source | None, after: Source | None, older: str, newer: str) -> Iterator[str]:
    first, second = (source.data.decode().splitlines() if source else [] for source in (before, after))
    if first == second:
        return
    start = max(0, _alike(first, second) - CONTEXT)
    end = max(0, min(_alike(first[start:][::-1], second[start:][::-1]) - CONTEXT, len(first) - start, len(second) - start))
    first, second = first[start : len(first) - end], second[start : len(second) - end]
    if min(len(first), len(second)) > COMPARED_LINES:
        told = f"too long to be compared line by line: {len(first)} and {len(second)} lines from line {start + 1} on"
        yield from (f"--- {older}", f"+++ {newer}", told)
        return
    for line in difflib.unified_diff(first, second, older, newer, n=CONTEXT, lineterm=""):
        yield _HUNK.sub(lambda at: f"{at[1]}{int(at[2]) + start}", line, count=2) if line.startswith("@@ ") else line


_HUNK = re.compile(r"([-+])(\d+)")


def _alike(first: Sequence[str], second: Sequence[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


Pair = tuple[Source | None, Source | None]


def _pairs(older: Iterable[Source], newer: Iterable[Source]) -> Iterator[Pair]:
    """Which file is to be compared with which, in order of names; revisions of earlier releases name files as they were typed."""
    before, after = ({source.file: source for source in files} for files in (older, newer))
    pairs: dict[str, Pair] = {name: (before[name], after[name]) for name in before.keys() & after.keys()}
    left = [before[name] for name in sorted(before.keys() - after.keys())]
    for name in sorted(after.keys() - before.keys()):
        likely = _counterpart(after[name], left)
        if likely:
            left.remove(likely)
        pairs[name] = (likely, after[name])
    gone: dict[str, Pair] = {source.file: (source, None) for source in left}
    yield from (pair for _, pair in sorted((pairs | gone).items(), key=itemgetter(0)))


def _counterpart(source: Source, among: Sequence[Source]) -> Source | None:
    """The file that this one was before it was renamed."""
    alike = (other for other in among if other.data == source.data)
    namesakes = (other for other in among if posixpath.basename(other.file) == posixpath.basename(source.file))
    return next(itertools.chain(alike, namesakes), None)
