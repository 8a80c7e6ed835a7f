"""Drydock's site designs: what refuses one, and the labels of its nodes (docs/airship.md §2.5, §2.6).

A node's labels are its `metadata.owner_data` with what its host profiles bring: node → `host_profile` → its `host_profile` → …
"""

from __future__ import annotations

import functools
import ipaddress
import itertools
import operator
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from shared.domain.documents.deckhand import Rendered, render
from shared.domain.documents.design import DesignNode, over
from shared.domain.documents.kinds import GeneratedLabelsSpec, did_you_mean, problems_of
from shared.domain.documents.reading import Document, Path, Problem, type_name
from shared.domain.keys import PROTECTED, key_error, reconciled, value_error

NODE, PROFILE, RACK, REGION = (f"drydock/{kind}/v1" for kind in ("BaremetalNode", "HostProfile", "Rack", "Region"))
HARDWARE = "drydock/HardwareProfile/v1"
RESOLVED = (NODE, PROFILE, RACK, REGION)
OTHERS = tuple(f"drydock/{kind}/v1" for kind in ("HardwareProfile", "Network", "NetworkLink", "BootAction"))
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Generated:
    """A request for a generated label: what of the node, under which key, and which document asks."""

    from_: str
    key: str
    source: str


@dataclass(slots=True)
class Design:
    """What the Airship documents come to."""

    nodes: dict[str, DesignNode] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def resolve(
    documents: Iterable[Document],
    generated: Sequence[Generated],
    allowed: frozenset[str],
    previous: Callable[[], Sequence[Document]] = tuple,
) -> Design:
    """Resolve a site. `generated`: what Hullmark's documents ask for (the Region may ask for more); `allowed`: protected keys that
    the rules let a site declare; `previous`: the documents before the change.
    """
    design = Design()
    by_kind: dict[str, list[Document]] = {}
    for document in documents:
        by_kind.setdefault(document.kind, []).append(document)
    layered: dict[str, list[Rendered]] = {}
    policies = [document for kind in by_kind if kind.startswith("deckhand/LayeringPolicy/") for document in by_kind[kind]]
    everything = render([document for kind in RESOLVED for document in by_kind.get(kind, ())], policies, design.problems, design.warnings)
    for rendered in everything:
        layered.setdefault(rendered.document.kind, []).append(rendered)
    hardware = {document.name for document in by_kind.get(HARDWARE, ())}
    _Resolver(design, layered, hardware, list(generated), allowed, previous).run()
    return design


@dataclass(slots=True)
class _Effective:
    """What a profile or node has after inheritance, as far as labels and selection need it."""

    labels: Mapping[str, str]
    sources: Mapping[str, str]
    tags: list[str]
    rack: str | None
    hardware_profile: str | None
    hardware_from: Rendered | None
    """The document that names the hardware profile."""


_NOTHING = _Effective({}, {}, [], None, None, None)


class _Resolver:
    def __init__(
        self,
        design: Design,
        layered: dict[str, list[Rendered]],
        hardware: set[str],
        generated: list[Generated],
        allowed: frozenset[str],
        previous: Callable[[], Sequence[Document]],
    ) -> None:
        self.design = design
        self.layered = layered
        self.hardware = hardware
        self.generated = generated
        self.allowed = allowed
        self.previous = previous
        self.profiles: dict[str, Rendered] = {}
        self.compiled: dict[str, _Effective | None] = {}
        self.racks: dict[str, dict[str, str]] = {}
        self.addresses = array("q")
        """A hash of each address: two that are alike are looked at closely, and a hundred thousand nodes need no map of their addresses."""
        self.alike: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Lists of tags, so that nodes with the same tags share one."""
        self.hints: dict[str, str] = {}
        """What a missing profile may have meant: looked up once, however many nodes name it."""
        self.told: set[int] = set()
        """Documents whose missing hardware profile is told already."""

    def run(self) -> None:
        for region in self.unique(REGION):
            if self.is_sound(region, _REGION):
                self.ask(region)
        self.racks = {rack.name: dict((rack.data or {}).get("labels") or {}) for rack in self.unique(RACK) if self.is_sound(rack, _RACK)}
        self.profiles = {profile.name: profile for profile in self.unique(PROFILE)}
        sound = {name: self.is_sound(profile, _HOST) for name, profile in self.profiles.items()}
        for name in self.profiles:
            self.compiled.setdefault(name, None) if not sound[name] else self.profile(name)
        sound_nodes = []
        for node in self.unique(NODE):
            opened = node.opened()
            if self.is_sound(opened, _HOST):
                self.node(opened)
                sound_nodes.append(node)
        self.check_addresses(sound_nodes)

    def unique(self, kind: str) -> Iterator[Rendered]:
        """The documents of a kind, one of each name."""
        first: dict[str, Document] = {}
        for rendered in self.layered.get(kind, ()):
            document = rendered.document
            known = first.setdefault(document.name, document)
            if known is document:
                yield rendered
            else:
                message = f"{document.title} is there twice: the first is at {known.file}:{known.line}"
                self.problem(document.problem(("metadata", "name"), "Duplicate", message))

    def problem(self, problem: Problem) -> None:
        self.design.problems.append(problem)

    # types

    def is_sound(self, rendered: Rendered, fields: Mapping[str, _Field]) -> bool:
        """Whether every type is right; what is not is told. Unknown fields are a warning here."""
        if not rendered.name:
            self.problem(rendered.document.problem(("metadata", "name"), "Required", "a document needs `metadata.name`, as text"))
            return False
        data = rendered.data if rendered.data is not None else {}
        if not isinstance(data, dict):
            self.problem(rendered.document.problem(("data",), "Invalid", f"must be a mapping, not {type_name(data)}"))
            return False
        before = len(self.design.problems)
        for name, value in data.items():
            check = fields.get(name)
            if check is None:
                message = f"unknown field `{name}`{did_you_mean(name, fields)}"
                self.design.warnings.append(rendered.problem(("data", name), "Unknown", message))
            else:
                for path, type_, message in check(value):
                    self.problem(rendered.problem(("data", name, *path), type_, message))
        owner_data = (data.get("metadata") or {}).get("owner_data") if isinstance(data.get("metadata"), dict) else None
        if fields is _HOST and isinstance(owner_data, dict):
            self.check_labels(rendered, owner_data)
        return len(self.design.problems) == before

    def check_labels(self, rendered: Rendered, labels: Mapping[Any, Any]) -> None:
        for key, value in labels.items():
            if key.startswith("!"):
                continue
            reason = key_error(key) or (value_error(value) if isinstance(value, str) else None)
            if reason is not None:
                self.problem(rendered.problem(("data", "metadata", "owner_data", key), "Invalid", reason))
            if key in PROTECTED and key not in self.allowed:
                message = f"{key} is protected: the kubelet and the cloud set it (LabelRules' allowProtected can allow it)"
                self.problem(rendered.problem(("data", "metadata", "owner_data", key), "Forbidden", message))
            if why := reconciled(key):
                self.design.warnings.append(rendered.problem(("data", "metadata", "owner_data", key), "Reconciled", why))

    def ask(self, region: Rendered) -> None:
        """Add the generated labels that a Region asks for."""
        for number, request in enumerate((region.data or {}).get("generated_labels") or ()):
            path: Path = ("data", "generated_labels", number)
            try:
                spec = _GENERATED.validate_python(request)
            except ValidationError as error:
                self.design.problems += problems_of(error, GeneratedLabelsSpec, region.document, path)
                continue
            self.design.problems += check_generated_key(region.document, (*path, "key"), spec.key, self.allowed)
            if first := next((known for known in self.generated if known.key == spec.key), None):
                self.problem(region.problem((*path, "key"), "Duplicate", f"{first.source} generates {spec.key} already"))
            self.generated.append(Generated(spec.from_, spec.key, region.document.title))

    # inheritance

    def profile(self, name: str) -> _Effective | None:
        """A profile with what it inherits; None where that cannot be said (the problem is told)."""
        if name not in self.compiled:
            chain, at = dict.fromkeys([name]), name  # walked without recursion: a chain may be long
            while (parent := self.parent_of(self.profiles[at])) is not None and parent not in self.compiled:
                if parent not in self.profiles:
                    break
                if parent in chain:
                    loop = [*itertools.dropwhile(lambda profile: profile != parent, chain), parent]
                    message = f"the profiles inherit from one another: {' → '.join(loop)}"
                    self.problem(self.profiles[at].problem(("data", "host_profile"), "Invalid", message))
                    self.compiled.update(dict.fromkeys(chain))
                    return None
                chain[parent], at = None, parent
            for ancestor in reversed(chain):
                self.compiled[ancestor] = self.effective(self.profiles[ancestor])
        return self.compiled[name]

    def parent_of(self, rendered: Rendered) -> str | None:
        parent = _set((rendered.data or {}).get("host_profile")) if isinstance(rendered.data, dict) else None
        return parent or None if isinstance(parent, str) else None

    def effective(self, rendered: Rendered) -> _Effective | None:
        """The document's own values over its profile's."""
        data = rendered.data or {}
        parent = self.parent_of(rendered)
        if parent is None:
            below = _NOTHING
        elif parent not in self.profiles:
            if parent not in self.hints:
                self.hints[parent] = did_you_mean(parent, self.profiles)
            message = f"there is no HostProfile {parent}{self.hints[parent]}"
            self.problem(rendered.problem(("data", "host_profile"), "NotFound", message))
            return None
        else:
            inherited = self.compiled[parent]
            if inherited is None:
                return None
            below = inherited
        metadata = data.get("metadata") or {}
        owner_data, tags = metadata.get("owner_data") or {}, metadata.get("tags") or []
        if parent is None:
            self.warn_of_strikes(rendered, owner_data, tags)
        labels, sources = below.labels, below.sources
        if owner_data:
            own = {key: value for key, value in owner_data.items() if not key.startswith("!")}
            if len(own) < len(owner_data):
                labels = {key: value for key, value in labels.items() if f"!{key}" not in owner_data}
                sources = {key: sources[key] for key in labels}
            labels, sources = over(own, labels), over(dict.fromkeys(own, rendered.document.title), sources)
        kept = [tag for tag in tags if not tag.startswith("!")]
        every = below.tags if not tags else [*kept, *(tag for tag in below.tags if f"!{tag}" not in tags and tag not in kept)]
        named = data.get("hardware_profile")
        return _Effective(
            labels,
            sources,
            every,
            _inherited(metadata.get("rack"), below.rack),
            _inherited(named, below.hardware_profile),
            below.hardware_from if named is None else rendered,
        )

    def warn_of_strikes(self, rendered: Rendered, owner_data: Mapping[str, Any], tags: Sequence[str]) -> None:
        struck: list[tuple[Path, str]] = [(("owner_data", key), key) for key in owner_data if key.startswith("!")]
        struck += [(("tags", number), tag) for number, tag in enumerate(tags) if tag.startswith("!")]
        for path, what in struck:
            message = f"{what} removes nothing: there is no profile below that could bring {what[1:]}"
            self.design.warnings.append(rendered.problem(("data", "metadata", *path), "Invalid", message))

    # nodes

    def node(self, rendered: Rendered) -> None:
        name = rendered.name
        if not _HOST_NAME.fullmatch(name):
            message = f"{name!r} is no host name: 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends"
            self.problem(rendered.document.problem(("metadata", "name"), "Invalid", message))
        self.note_addresses(rendered)
        effective = self.effective(rendered)
        if effective is None:
            return
        self.check_hardware(rendered, effective)
        rack, profile = effective.rack or "", self.parent_of(rendered) or ""
        labels, sources = effective.labels, effective.sources
        if self.generated:
            labels, sources = self.with_generated(rendered, effective, profile)
        tags = tuple(effective.tags)
        tags, rack, profile = self.alike.setdefault(tags, tags), sys.intern(rack), sys.intern(profile)
        hardware = sys.intern(effective.hardware_profile or "")
        self.design.nodes[name] = DesignNode(name, labels, sources, tags, rack, self.racks.get(rack, _NO_LABELS), profile, hardware)

    def check_hardware(self, rendered: Rendered, node: _Effective) -> None:
        """A node needs a hardware profile, from any profile of its chain. Only what a node has must be there: sites keep profiles
        for hardware that they no longer describe. Earlier versions accepted nodes without one: as long as nothing changes that such a node
        is made of, it is only a warning.
        """
        name, source = node.hardware_profile, node.hardware_from
        if not name:
            message = f"{rendered.name} has no hardware profile: name one here, or in a host profile that it builds on"
            if self.held_before(rendered):
                message += "; it was accepted before, and will be refused once these documents change"
                self.design.warnings.append(rendered.problem(("data", "hardware_profile"), "Required", message))
            else:
                self.problem(rendered.problem(("data", "hardware_profile"), "Required", message))
        elif source is not None and name not in self.hardware and id(source) not in self.told:
            self.told.add(id(source))
            message = f"there is no HardwareProfile {name}{did_you_mean(name, self.hardware)}"
            self.problem(source.problem(("data", "hardware_profile"), "NotFound", message))

    def held_before(self, rendered: Rendered) -> bool:
        """Whether the documents before the change held all that a node is made of, as it is now."""
        made_of, above = [rendered.document, *rendered.ancestors], self.parent_of(rendered)
        while above is not None:
            profile = self.profiles[above]
            made_of += profile.document, *profile.ancestors
            above = self.parent_of(profile)
        return all(document.data in self.earlier.get((document.kind, document.name), ()) for document in made_of)

    @functools.cached_property
    def earlier(self) -> Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]:
        """The contents of the documents before the change, by kind and name."""
        found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for document in self.previous():
            found.setdefault((document.kind, document.name), []).append(document.data)
        return found

    def note_addresses(self, rendered: Rendered) -> None:
        """A node needs an address. Whether they are its own is judged when all are known."""
        addresses = (rendered.data or {}).get("addressing")
        if not addresses:
            self.problem(rendered.problem(("data", "addressing"), "Required", f"{rendered.name} has no address: give at least one"))
            return
        self.addresses.extend([hash(_ip(address)) for entry in addresses if (address := entry["address"]).lower() != "dhcp"])

    def check_addresses(self, nodes: Iterable[Rendered]) -> None:
        """An address has one owner."""
        hashes = sorted(self.addresses)
        if not any(map(operator.eq, hashes, itertools.islice(hashes, 1, None))):
            return
        owners: dict[str, str] = {}
        for rendered in nodes:
            addresses = (rendered.data or {}).get("addressing") or ()
            for number, entry in enumerate(addresses):
                address = entry["address"]
                if address.lower() == "dhcp":
                    continue
                first = owners.setdefault(_ip(address), rendered.name)
                if first != rendered.name or any(_ip(other["address"]) == _ip(address) for other in addresses[:number]):
                    where = "itself" if first == rendered.name else first
                    message = f"{address} belongs to {where} already: an address has one owner"
                    self.problem(rendered.problem(("data", "addressing", number, "address"), "Duplicate", message))

    def with_generated(self, rendered: Rendered, node: _Effective, profile: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The labels and sources with the generated ones over them."""
        labels: dict[str, str] = {}
        sources: dict[str, str] = {}
        for generated in self.generated:
            value, path = _VALUES[generated.from_](rendered, node, profile)
            if isinstance(value, list):
                if len(value) > 1:
                    message = (
                        f"{generated.source} puts the tag under {generated.key}, and {rendered.name} has {len(value)}: {', '.join(value)}"
                    )
                    self.problem(rendered.problem(path, "Invalid", message))
                    continue
                value = value[0] if value else None
            if not value:
                continue
            if reason := value_error(value):
                message = f"{generated.source} makes {value!r} the value of {generated.key}: {reason}"
                self.problem(rendered.problem(path, "Invalid", message))
                continue
            labels[generated.key], sources[generated.key] = value, generated.source
        return over(labels, node.labels), over(sources, node.sources)


def check_generated_key(document: Document, path: Path, key: str, allowed: frozenset[str]) -> Iterator[Problem]:
    """What is wrong with a key that a generated label asks for."""
    if reason := key_error(key):
        yield document.problem(path, "Invalid", reason)
    if key in PROTECTED and key not in allowed:
        message = f"{key} is protected: the kubelet and the cloud set it (LabelRules' allowProtected can allow it)"
        yield document.problem(path, "Forbidden", message)


def _set(value: Any) -> Any:
    return None if value in ("!", -1) else value


def _inherited(own: Any, below: str | None) -> str | None:
    """A scalar: the child's unless null; `!` and -1 unset it. The empty string is a value."""
    return below if own is None else _set(own)


def _ip(address: str) -> str:
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


_NO_LABELS: dict[str, str] = {}
_Value = str | list[str] | None
_METADATA: Path = ("data", "metadata")
_VALUES: Mapping[str, Callable[[Rendered, _Effective, str], tuple[_Value, Path]]] = {
    "rack": lambda rendered, node, profile: (node.rack, (*_METADATA, "rack")),
    "tag": lambda rendered, node, profile: (node.tags, (*_METADATA, "tags")),
    "hardwareProfile": lambda rendered, node, profile: (node.hardware_profile, ("data", "hardware_profile")),
    "hostProfile": lambda rendered, node, profile: (profile, ("data", "host_profile")),
    "hostname": lambda rendered, node, profile: (rendered.name, ("metadata", "name")),
}
_GENERATED = TypeAdapter(GeneratedLabelsSpec)

# --- types, by plain checks: a design may have a hundred thousand nodes ------------------------------------------------------------------

_Finding = tuple[Path, str, str]
_Field = Callable[[Any], Iterable[_Finding]]


def _is(*types: type) -> _Field:
    wanted = type_name(types[0]())
    return lambda value: () if type(value) in types else [((), "Invalid", f"must be {wanted}, not {type_name(value)}")]


_text, _mapping, _list = _is(str), _is(dict), _is(list)


def _scalar(value: Any) -> Iterable[_Finding]:
    """Text; null inherits, and -1 (like `!`) unsets."""
    return () if value is None or value == -1 else _text(value)


def _texts(value: Any) -> Iterator[_Finding]:
    yield from _list(value)
    for number, item in enumerate(value if isinstance(value, list) else ()):
        for _, type_, message in _text(item):
            yield (number,), type_, message


def _labels(value: Any) -> Iterator[_Finding]:
    """Text to text. What a key with `!` in front holds does not matter: it strikes the key."""
    yield from _mapping(value)
    for key, item in value.items() if isinstance(value, dict) else ():
        if type(item) is not str and not key.startswith("!"):
            yield (key,), "Invalid", f"a label's value is text, not {type_name(item)}" + (": put it in quotes" if item is not None else "")


_NODE_METADATA: Mapping[str, _Field] = {"tags": _texts, "owner_data": _labels, "rack": _scalar, "boot_mac": _scalar}


def _node_metadata(value: Any) -> Iterator[_Finding]:
    yield from _mapping(value)
    for name, item in value.items() if isinstance(value, dict) else ():
        check = _NODE_METADATA.get(name)
        if check is None:
            message = f"a node's metadata is {', '.join(_NODE_METADATA)}, nothing else{did_you_mean(name, _NODE_METADATA)}"
            yield (name,), "Unknown", message
        else:
            for path, type_, message in check(item):
                yield (name, *path), type_, message


def _addressing(value: Any) -> Iterator[_Finding]:
    yield from _list(value)
    for number, item in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(item, dict):
            yield (number,), "Invalid", f"an address is {{network, address}}, not {type_name(item)}"
            continue
        for name in ("network", "address"):
            if name not in item:
                yield (number,), "Required", f"`{name}` is required"
            elif type(item[name]) is not str:
                yield (number, name), "Invalid", f"must be text, not {type_name(item[name])}"


_HOST: Mapping[str, _Field] = {
    "host_profile": _scalar,
    "hardware_profile": _scalar,
    "primary_network": _scalar,
    "metadata": _node_metadata,
    "addressing": _addressing,
    "interfaces": _mapping,
    "oob": _mapping,
    "storage": _mapping,
    "platform": _mapping,
}
_RACK: Mapping[str, _Field] = {"tor_switches": _mapping, "location": _mapping, "local_networks": _texts, "labels": _labels}
_REGION: Mapping[str, _Field] = {
    "tag_definitions": _list,
    "authorized_keys": _texts,
    "repositories": _mapping,
    "generated_labels": _list,
}
