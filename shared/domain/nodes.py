"""A cluster's nodes as one listing shows them, and who owns which label of theirs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

OWNER = "hullmark"
"""Field manager under which declared labels are applied, where settings name no other."""
ALIASES = "-aliases"
LONGEST_MANAGER = 128
"""Bytes. What the API server takes as a field manager's name."""
LONGEST_OWNER = LONGEST_MANAGER - len(ALIASES)
"""Bytes. The field manager for aliases is longer by its ending."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One Hullmark's field managers. Two that work on one cluster under different names leave each other's labels alone."""

    name: str = OWNER
    """Under which declared labels are applied."""

    @property
    def aliases(self) -> str:
        """Under which the secondary keys of alias pairs are applied."""
        return self.name + ALIASES

    @property
    def reverts(self) -> str:
        """Under which values are given back that a rollout took from other managers; not one of ours: they are others' values."""
        return self.name + "-revert"

    @property
    def pods(self) -> str:
        """Under which topology is put on pods that were bound already."""
        return self.name + "-pods"

    def __contains__(self, manager: object) -> bool:
        return manager in (self.name, self.aliases)


def manager_error(name: str) -> str | None:
    """Why the API server takes no field manager of this name, or None."""
    if not 1 <= len(name.encode(errors="replace")) <= LONGEST_MANAGER:
        return f"a field manager's name has 1 to {LONGEST_MANAGER} bytes"
    return None if name.isprintable() else "a field manager's name has printable characters only"


def owner_error(name: str) -> str | None:
    """Why this can't be an Owner's name, or None."""
    if not 1 <= len(name.encode(errors="replace")) <= LONGEST_OWNER:
        return f"a field manager's name has 1 to {LONGEST_OWNER} bytes (the API server's 128, less `{ALIASES}`)"
    if not name.isprintable() or name != name.strip() or "," in name:
        return "a field manager's name has printable characters only, no comma, and no space at its ends"
    if name.endswith(ALIASES):
        return f"`{ALIASES}` at the end is for the manager that holds aliases: another Hullmark's may be called so"
    return None


HULLMARK = Owner()
ALIAS_OWNER = HULLMARK.aliases


class Taint(NamedTuple):
    """A taint of a node, or one that a document names: the three together are what it is."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        """As `kubectl taint` writes it: `key=value:Effect`."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node's metadata, as one listing shows it.

    `owners` maps each label key to the field managers that hold it, sorted; it is empty for a listing without managedFields.
    `applied` maps a field manager to the keys that it holds by Server-Side Apply: what an Apply of it that leaves one out gives up.
    """

    name: str
    uid: str
    labels: Mapping[str, str]
    resource_version: str = ""
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    applied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kubelet_version: str = ""
    created: str = ""
    """`metadata.creationTimestamp`, RFC 3339; empty where the listing has none."""
    taints: tuple[Taint, ...] | None = None
    """Its taints; None where nobody asked for them."""
    may_have_taints: bool = True
    """False where managedFields show that nobody has set any, so that they need not be asked for."""
    taints_applied_by: tuple[str, ...] = ()
    """The field managers that hold the list of taints by Server-Side Apply: they put back what somebody else takes off."""


class _FieldsMetadata(msgspec.Struct):
    labels: dict[str, Any] = msgspec.field(name="f:labels", default_factory=dict)


class _FieldsSpec(msgspec.Struct):
    taints: Any = msgspec.field(name="f:taints", default=None)


class _Fields(msgspec.Struct):
    metadata: _FieldsMetadata = msgspec.field(name="f:metadata", default_factory=_FieldsMetadata)
    spec: _FieldsSpec | None = msgspec.field(name="f:spec", default=None)

    @property
    def holds_taints(self) -> bool:
        return self.spec is not None and self.spec.taints is not None


class ManagedFields(msgspec.Struct):
    """One entry of `metadata.managedFields`; everything but the labels and taints is skipped while decoding."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: _Fields = msgspec.field(name="fieldsV1", default_factory=_Fields)


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    labels: dict[str, str] | None = None
    created: str | None = msgspec.field(name="creationTimestamp", default=None)
    managed_fields: list[ManagedFields] | None = msgspec.field(name="managedFields", default=None)


class _NodeInfo(msgspec.Struct):
    kubelet_version: str = msgspec.field(name="kubeletVersion", default="")


class _Status(msgspec.Struct):
    node_info: _NodeInfo = msgspec.field(name="nodeInfo", default_factory=_NodeInfo)


class TaintObject(msgspec.Struct):
    """A taint as a node's `spec` has it."""

    key: str = ""
    effect: str = ""
    value: str = ""

    @property
    def taint(self) -> Taint:
        """The same as a value."""
        return Taint(self.key, self.effect, self.value)


class _Spec(msgspec.Struct):
    taints: list[TaintObject] | None = None


class NodeObject(msgspec.Struct):
    """A Node (or its PartialObjectMetadata) as the API server and kubectl write it. `node()` is what the product works with."""

    metadata: _Metadata
    status: _Status | None = None
    spec: _Spec | None = None
    kind: str = ""

    def node(self) -> Node:
        """The node's data, with owners and applied keys from managedFields where the listing has them."""
        managed = self.metadata.managed_fields or ()
        owners, applied = ownership(managed)
        return Node(
            name=self.metadata.name,
            uid=self.metadata.uid,
            labels=self.metadata.labels or {},
            resource_version=self.metadata.resource_version,
            owners=owners,
            applied=applied,
            kubelet_version=self.status.node_info.kubelet_version if self.status else "",
            created=self.metadata.created or "",
            taints=tuple(each.taint for each in self.spec.taints or ()) if self.spec else None,
            may_have_taints=not managed or any(entry.fields.holds_taints for entry in managed),
            taints_applied_by=tuple(entry.manager for entry in managed if entry.operation == "Apply" and entry.fields.holds_taints),
        )


class NodeListing(msgspec.Struct):
    """`kubectl get nodes -o json`: a List or NodeList. `items` is None in what is not a list."""

    kind: str = ""
    items: list[NodeObject] | None = None


class _Entry(msgspec.Struct):
    manager: str = ""
    time: datetime | None = None


class _Entries(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="managedFields", default=None)


class WrittenObject(msgspec.Struct):
    """Of an object, only when its field managers last changed it."""

    metadata: _Entries

    def last_writes(self) -> dict[str, datetime]:
        """By field manager, the time of its newest entry."""
        last: dict[str, datetime] = {}
        for entry in self.metadata.entries or ():
            if entry.time:
                last[entry.manager] = max(last.get(entry.manager, entry.time), entry.time)
        return last


def ownership(entries: Iterable[ManagedFields]) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, frozenset[str]]]:
    """Who holds which label: key to managers (sorted), and manager to the keys that it holds by Apply of the object itself.

    An entry for a subresource (the kubelet's `status`) holds its keys too, but no Apply of the object gives them up.
    Nodes of one cluster are nearly all held alike, so they share their answers, which nobody may change: that halves a large listing.
    """
    return _ownership(tuple((entry.manager, entry.operation, entry.subresource, tuple(entry.fields.metadata.labels)) for entry in entries))


@functools.lru_cache(maxsize=1024)
def _ownership(
    entries: tuple[tuple[str, str, str, tuple[str, ...]], ...],
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, frozenset[str]]]:
    owners: dict[str, set[str]] = {}
    applied: dict[str, frozenset[str]] = {}
    for manager, operation, subresource, fields in entries:
        keys = [key[2:] for key in fields if key.startswith("f:")]
        for key in keys:
            owners.setdefault(key, set()).add(manager)
        if keys and operation == "Apply" and not subresource:
            applied[manager] = applied.get(manager, frozenset()).union(keys)
    return {key: tuple(sorted(managers)) for key, managers in owners.items()}, applied
