"""Old keys in one YAML document, judged by its structure: anchors, merges, flow and block style, JSON patches (docs/migrate.md)."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from shared.domain.manifests.places import (
    IN_PROSE,
    JSONPATH,
    UNKNOWN_PLACE,
    Hit,
    Judged,
    Place,
    Verdict,
    judge,
    judge_pointer,
    pointer_names,
)

Reader = Callable[[str], list[Judged]]
"""How to read a text that stands inside this one (an inline patch)."""

_LOADER = getattr(yaml, "CLoader", yaml.Loader)
_KINDS = {yaml.ScalarEvent: "scalar", yaml.MappingStartEvent: "mapping", yaml.SequenceStartEvent: "sequence", yaml.AliasEvent: "alias"}
_PLACES = 500  # aliases of aliases multiply; a key with more places than this is for a person to read
_DEPTH = 200
EMBEDDED = frozenset({"patch", "patches", "patchesStrategicMerge", "patchesJson6902", "values", "valuesContent"})
"""Names whose block scalars are manifests or values themselves (Kustomize, Argo CD, k3s). Other texts belong to some application."""
TEXTS = frozenset({"description"})
"""Names whose texts are for people."""
PROSE = frozenset({*TEXTS, "kubectl.kubernetes.io/last-applied-configuration"})
"""Names whose texts are for people, or a copy that the next apply replaces."""
_OWN_KINDS = frozenset({"LabelAliases"})  # names old keys on purpose


class _Node:
    """A scalar, mapping or sequence where it was written. `uses`: all who hold it, an alias being one more use.

    Made for every value of a document, so it is plain and without ceremony.
    """

    __slots__ = ("end", "entries", "items", "kind", "start", "style", "uses", "value", "waiting")

    def __init__(self, kind: str, start: int = 0, end: int = 0, value: str = "", style: str | None = None) -> None:
        self.kind, self.start, self.end, self.value, self.style = kind, start, end, value, style
        self.uses: list[_Use] = []
        self.entries: list[tuple[_Node, _Node]] = [] if kind == "mapping" else _NOTHING
        self.items: list[_Node] = [] if kind == "sequence" else _NOTHING
        self.waiting: _Node | None = None

    def get(self, name: str) -> str:
        return next((value.value for key, value in self.entries if key.value == name), "")

    def take(self, child: _Node) -> None:
        """Hold a child: the next key, the value of the key that waits, or an item."""
        if self.kind == "sequence":
            child.uses.append(_Use(self, None, False))
            self.items.append(child)
        elif self.waiting is None:
            child.uses.append(_Use(self, None, True))
            self.waiting = child
        else:
            child.uses.append(_Use(self, self.waiting, False))
            self.entries.append((self.waiting, child))
            self.waiting = None


_NOTHING: list[Any] = []


class _Use(NamedTuple):
    """One holder of a node; `key` is the key that it stands under, for a value of a mapping."""

    holder: _Node
    key: _Node | None
    is_key: bool

    @property
    def merges(self) -> bool:
        return self.key is not None and self.key.value == "<<"

    def outward(self, names: tuple[str, ...]) -> tuple[_Node | None, tuple[str, ...]]:
        """One step towards the document: who holds the holder next, and the names so far. A JSON patch's path ends the way."""
        if self.key is None or self.merges:
            return self.holder, names
        path = self.holder.get("path") if self.key.value == "value" and self.holder.get("op") else ""
        return (None, pointer_names(path) + names) if path.startswith("/") else (self.holder, (self.key.value, *names))


def read_document(text: str, hits: Sequence[Hit], reader: Reader, *, new: Mapping[str, str], beta: frozenset[str]) -> list[Judged] | None:
    """Judge the hits of one YAML document, given in the text's order; those in comments and prose are left out. None: not YAML.

    `reader` reads embedded texts, `new` maps old keys to new ones, `beta` are Kubernetes' own old keys.
    """
    try:
        scalars = _compose(text, hits)
    except yaml.YAMLError:
        return None
    judged: dict[Hit, Verdict] = {}
    key_of: dict[Hit, list[_Node]] = {}
    for hit, node in scalars:
        verdict = _judge_in_text(text, node, hit, reader) if _embeds(node) else _judge(hit, node, beta)
        if verdict is not None:
            judged[hit] = verdict
            if node.value == hit.old:
                key_of[hit] = [use.holder for use in node.uses if use.is_key]
    _spare_duplicates(judged, key_of, new)
    return list(judged.items())


def _compose(text: str, hits: Sequence[Hit]) -> list[tuple[Hit, _Node]]:
    """Build the tree and return the scalars that hold a hit. Raises YAMLError."""
    scalars: list[tuple[Hit, _Node]] = []
    anchors: dict[str, _Node] = {}
    around: list[_Node] = []
    rest = list(reversed(hits))
    events: Callable[[], Any] = _LOADER(text).get_event
    while (event := events()) is not None:
        kind = _KINDS.get(type(event))
        if kind is None:
            if isinstance(event, yaml.CollectionEndEvent):
                around.pop()
            continue
        if kind == "alias":
            node = anchors.get(event.anchor)
            if node is None:
                raise yaml.YAMLError(f"undefined alias {event.anchor}")
        elif kind == "scalar":
            node = _Node(kind, event.start_mark.index, event.end_mark.index, event.value, event.style)
        else:
            node = _Node(kind)
        if around:
            around[-1].take(node)
        if kind == "alias":
            continue
        if event.anchor:
            anchors[event.anchor] = node
        if kind == "scalar":
            scalars += _covered(rest, node) if rest and rest[-1].start < node.end else ()
        else:
            _enter(around, node)
    return scalars


def _enter(around: list[_Node], node: _Node) -> None:
    """Go one deeper. Nothing of Kubernetes' is nested like this, and the parser slows down with depth. Raises YAMLError."""
    around.append(node)
    if len(around) > _DEPTH:
        raise yaml.YAMLError(f"nested deeper than {_DEPTH}")


def _covered(rest: list[Hit], node: _Node) -> Iterator[tuple[Hit, _Node]]:
    """Take the hits up to the scalar's end off the list; those before its start stand in comments."""
    while rest and rest[-1].start < node.end:
        hit = rest.pop()
        if hit.start >= node.start:
            yield hit, node


def _places(scalar: _Node) -> Iterator[tuple[Place, bool]]:
    """Yield every place that a scalar stands at, and whether an alias or a merge key brought it there."""
    for use in scalar.uses:
        aliased = use is not scalar.uses[0]
        ways = [(*((use.holder, ()) if use.is_key else use.outward(())), "", 0, aliased)]
        while ways:
            node, names, kind, depth, aliased = ways.pop()
            if node is not None and not kind and node.get("apiVersion"):
                kind = node.get("kind")
            if node is None or not node.uses or depth > _DEPTH:
                yield Place(use.is_key, names, kind), aliased
            else:
                first = node.uses[0]
                ways += [(*further.outward(names), kind, depth + 1, aliased or further is not first) for further in node.uses]


def _judge(hit: Hit, node: _Node, beta: frozenset[str]) -> Verdict | None:
    """One verdict for a scalar over all its places: where it must stay at one, it stays. None: nothing worth telling.

    An anchor is often written where it means nothing (`x-linux: &linux`); what counts is where its aliases stand.
    """
    ways = list(itertools.islice(_places(node), _PLACES + 1))
    if len(ways) > _PLACES:
        return Verdict("report", "aliases bring it to too many places to be sure of all: change it by hand")
    places = [place for place, _ in ways]
    if any(not TEXTS.isdisjoint(place.names) for place in places):
        return IN_PROSE
    if any(place.kind in _OWN_KINDS or not PROSE.isdisjoint(place.names) for place in places):
        return None
    if hit.dot != ".":
        return JSONPATH
    if any(use.holder.get("op") in ("move", "copy") for use in node.uses if not use.is_key):
        return Verdict("report", "a JSON patch that moves the old key: look whether it is still needed")
    if node.value == hit.old:
        verdicts = [judge(place, beta=hit.old in beta) for place in places]
    elif node.value.startswith("/") and any(place.names[-1:] in (("path",), ("from",)) for place in places):
        verdicts = [judge_pointer(node.value, hit.old, place.kind) for place in places]
    elif "/" not in hit.old:
        return None  # without a prefix it is an ordinary word in any longer text
    else:
        return Verdict("report", "part of a longer text: look, and change it by hand if nodes are selected by it")
    for verdict, (_, aliased) in zip(verdicts, ways, strict=True):
        if verdict.action == "unknown" and aliased:
            return Verdict("report", "an alias brings it to a place that is not known to select nodes: look, and change it by hand")
    by_action = {verdict.action: verdict for verdict in reversed(verdicts)}
    return by_action.get("report") or by_action.get("rewrite") or UNKNOWN_PLACE


def _embeds(node: _Node) -> bool:
    ways = itertools.islice(_places(node), _PLACES) if node.style == "|" else ()
    return any(place.names[-1:] and place.names[-1] in EMBEDDED for place, _ in ways)


def _judge_in_text(text: str, node: _Node, hit: Hit, reader: Reader) -> Verdict | None:
    """Judge a hit in a literal block scalar by reading the scalar's text as a manifest of its own."""
    header, *raw = re.split(r"(?<=\n)", text[node.start : node.end])
    starts = list(itertools.accumulate(map(len, raw), initial=node.start + len(header)))
    lines = node.value.split("\n")
    row = bisect_right(starts, hit.start) - 1
    written = raw[row].rstrip("\r\n") if 0 <= row < len(lines) else ""
    if not (written and written.endswith(lines[row])):
        return UNKNOWN_PLACE
    indent = len(written) - len(lines[row])
    inside = sum(len(line) + 1 for line in lines[:row]) + hit.start - starts[row] - indent
    return next((verdict for nested, verdict in reader(node.value) if nested.start == inside), None)


def _family(mapping: _Node) -> list[_Node]:
    """Return the mappings that merge keys tie to this one, itself first: their keys meet in one mapping when it is read."""
    family = [mapping]
    for here in family:
        family += [other for other in (*_merged_into(here), *_merging(here)) if not any(other is known for known in family)]
    return family


def _merged_into(mapping: _Node) -> Iterator[_Node]:
    """Yield the mappings whose keys a mapping takes in by `<<`."""
    for key, value in mapping.entries:
        if key.value == "<<":
            yield from value.items if value.kind == "sequence" else (value,)


def _merging(mapping: _Node) -> Iterator[_Node]:
    """Yield the mappings that take this one's keys in by `<<`."""
    for use in mapping.uses:
        if use.merges:
            yield use.holder
        elif use.holder.kind == "sequence":
            yield from (outer.holder for outer in use.holder.uses if outer.merges)


def _spare_duplicates(judged: dict[Hit, Verdict], key_of: Mapping[Hit, list[_Node]], new: Mapping[str, str]) -> None:
    """Turn a rewrite into a report where it would make one key stand twice, or change only one of two merged mappings."""
    for hit, holders in key_of.items():
        if judged[hit].action == "rewrite":
            clash = next(filter(None, (_clash(hit.old, holder, new) for holder in holders)), None)
            judged[hit] = Verdict("report", clash) if clash else judged[hit]
    staying = {id(mapping): hit for hit, holders in key_of.items() if judged[hit].action != "rewrite" for mapping in holders}
    for hit, holders in key_of.items():
        relatives = [other for holder in holders for other in _family(holder)[1:]] if judged[hit].action == "rewrite" else []
        if any(id(other) in staying and staying[id(other)].old == hit.old for other in relatives):
            judged[hit] = Verdict("report", "the mapping that it is merged with keeps the old key: change both together, by hand")


def _clash(old: str, holder: _Node, new: Mapping[str, str]) -> str:
    """Say why renaming a key in a mapping would make a duplicate; empty if it would not."""
    mine = [value for key, value in holder.entries if key.value == old]
    if len(mine) > 1:
        return f"{old} stands twice in this mapping: take one out"
    for mapping in _family(holder):
        for key, value in mapping.entries:
            if key.value == new[old]:
                same = mine and value.kind == "scalar" and mine[0].value == value.value
                return both_keys(new[old], same=bool(same), merged=mapping is not holder)
            if mapping is holder and key.value != old and new.get(key.value) == new[old]:
                return f"{key.value} beside it would become {new[old]} too: take one out"
    return ""


def both_keys(new: str, *, same: bool, merged: bool = False) -> str:
    """Say what to do where the new key already stands beside the old one."""
    where = "in a mapping merged with this one" if merged else "beside it"
    if same:
        return f"{new} already stands {where} with the same value: delete the old line"
    return f"{new} already stands {where} with another value: decide which one is meant, and delete the old line"
