"""Which nodes a filter means: Drydock's node filter (docs/labels.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, model_validator


class FilterEntry(BaseModel):
    """One entry of a filter set. Values inside a criterion are alternatives; criteria combine by `filter_type`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
    filter_type: Literal["union", "intersection"]
    node_names: list[str] | None = None
    node_tags: list[str] | None = None
    node_labels: dict[str, str] | None = None
    rack_names: list[str] | None = None
    rack_labels: dict[str, str] | None = None


class NodeFilter(BaseModel):
    """A set of entries, combined by `filter_set_type`. No entry with a criterion: all nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
    filter_set_type: Literal["union", "intersection"]
    filter_set: list[FilterEntry] | None = None

    @model_validator(mode="before")
    @classmethod
    def _empty_restricts_nothing(cls, value: Any) -> Any:
        """`{}` is a filter without any criterion: there is nothing to combine, so nothing has to say how."""
        return {"filter_set_type": "intersection"} if value == {} else value


def names_listed(value: Any) -> Any:
    """Names as people and clients write them, a list or a comma string: trimmed and deduplicated, order kept. What names none is None."""
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(dict.fromkeys(item.strip() for item in value if item.strip())) or None
    return value


class Selection(BaseModel):
    """Which nodes are meant: those named, or those that a filter selects; where neither is given, all of the design and of the cluster."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    target_nodes: list[str] | None = None
    node_filter: NodeFilter | None = None

    @property
    def meant(self) -> str:
        """Which nodes, in words: every node, a filter, or names."""
        if names := self.target_nodes:
            return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return "nodes selected by a filter" if self.node_filter and self.node_filter.filter_set else "every node"


class Candidate(Protocol):
    """A node as a filter sees it. `labels` are the effective declared ones, `rack_labels` the Rack document's."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def rack(self) -> str: ...
    @property
    def rack_labels(self) -> Mapping[str, str]: ...


Test = Callable[[Candidate], bool]
_COMBINE: Mapping[str, Callable[[Iterable[bool]], bool]] = {"union": any, "intersection": all}


def select(node_filter: NodeFilter | None, nodes: Iterable[Candidate]) -> list[str]:
    """The names of the nodes that the filter selects, sorted."""
    return sorted(node.name for node in filter(matcher(node_filter), nodes))


def matcher(node_filter: NodeFilter | None) -> Test:
    """The filter as a test of one node. None, or a filter without any criterion: all nodes.

    An entry without criteria restricts nothing: it means every node.
    """
    entries = [] if node_filter is None else [list(_criteria(entry)) for entry in node_filter.filter_set or ()]
    if node_filter is None or not any(entries):
        return lambda _: True
    over_entries = _COMBINE[node_filter.filter_set_type]
    tests = [
        (_COMBINE[entry.filter_type] if criteria else all, criteria)
        for entry, criteria in zip(node_filter.filter_set or (), entries, strict=True)
    ]
    return lambda node: over_entries(combine(test(node) for test in criteria) for combine, criteria in tests)


def _criteria(entry: FilterEntry) -> Iterator[Test]:
    """A test per criterion given. Labels are alternatives too under `union`; under `intersection` all of them must match."""
    combine = _COMBINE[entry.filter_type]
    if entry.node_names:
        names = frozenset(entry.node_names)
        yield lambda node: node.name in names
    if entry.node_tags:
        tags = frozenset(entry.node_tags)
        yield lambda node: not tags.isdisjoint(node.tags)
    if labels := entry.node_labels:
        yield lambda node: combine(node.labels.get(key) == value for key, value in labels.items())
    if entry.rack_names:
        racks = frozenset(entry.rack_names)
        yield lambda node: node.rack in racks
    if rack_labels := entry.rack_labels:
        yield lambda node: combine(node.rack_labels.get(key) == value for key, value in rack_labels.items())
