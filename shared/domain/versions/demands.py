"""What the versions of a machine image demand of a pool that runs them: Gardener's five filters (docs/versions.md §5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.domain.versions.catalogue import AMD64, ARCHITECTURE, CONTAINERD, Capabilities, CloudProfile, ImageVersion, MachineType, Runtime
from shared.domain.versions.semver import Constraint, InvalidVersion, Version, compare, constrain

Definitions = Mapping[str, tuple[str, ...]]
"""The capabilities that a profile defines, with all their values."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pool brings along. `in_place_from` is the current version of a pool that is updated in place."""

    architecture: str
    machine: MachineType
    cri: str
    runtimes: tuple[str, ...]
    kubelet: Version
    in_place_from: str | None


@dataclass(frozen=True, slots=True)
class Demands:
    """What one or many versions of an image demand, compiled. `accepts` None: any kubelet, or none where it cannot be read."""

    architectures: tuple[str, ...]
    flavors: tuple[Capabilities, ...]
    runtimes: Mapping[str, frozenset[str]]
    kubelet: str | None
    accepts: Constraint | None

    def refusal(self, needs: Needs, definitions: Definitions) -> str | None:
        """Why a pool may not run such a version: the first of the filters that it does not pass; None where it may."""
        if needs.architecture not in self.architectures:
            return f"does not run on {needs.architecture}"
        if definitions and self.flavors and not _has_capabilities(self.flavors, needs.machine, definitions):
            return f"lacks a capability of machine type {needs.machine.name}"
        extras = self.runtimes.get(needs.cri)
        if extras is None or not extras.issuperset(needs.runtimes):
            return f"lacks {' with '.join([needs.cri, *needs.runtimes])}"
        if self.kubelet is not None and not (self.accepts and self.accepts.accepts(needs.kubelet)):
            return f"takes Kubernetes {self.kubelet}, not {needs.kubelet}"
        return None


def demands_of(version: ImageVersion, profile: CloudProfile) -> Demands:
    """What one version demands."""
    runtimes: dict[str, frozenset[str]] = {}
    for runtime in version.cri or (Runtime(CONTAINERD),):
        runtimes.setdefault(runtime.name, frozenset(runtime.types))
    return Demands(architectures_of(version, profile), version.flavors, runtimes, version.kubelet, _constraint(version.kubelet))


def numbered(versions: Iterable[ImageVersion], profile: CloudProfile) -> tuple[list[Demands], list[int]]:
    """What these versions demand, once for all that demand the same, and for each version its place therein."""
    places: dict[tuple[object, ...], int] = {}
    found: list[Demands] = []
    numbers = []
    for version in versions:
        flavors = tuple(tuple(sorted(flavor.items())) for flavor in version.flavors)
        place = places.setdefault((version.cri, version.architectures, flavors, version.kubelet), len(found))
        if place == len(found):
            found.append(demands_of(version, profile))
        numbers.append(place)
    return found, numbers


def architecture_of(machine: MachineType, profile: CloudProfile) -> str:
    """A machine type's architecture: its one capability value, else its field, else amd64."""
    values = machine.capabilities.get(ARCHITECTURE, profile.capabilities.get(ARCHITECTURE, ()))
    if ARCHITECTURE in profile.capabilities and len(values) == 1:
        return values[0]
    return machine.architecture or AMD64


def architectures_of(version: ImageVersion, profile: CloudProfile) -> tuple[str, ...]:
    """The architectures an image version runs on."""
    if not version.flavors and profile.capabilities.get(ARCHITECTURE):
        return profile.capabilities[ARCHITECTURE]
    union = tuple(value for flavor in version.flavors for value in flavor.get(ARCHITECTURE, ()))
    return union or version.architectures or (() if profile.capabilities else (AMD64,))


def reached_in_place(version: ImageVersion, current: str) -> bool:
    """Whether machines may be updated in place from a version to this one."""
    if not version.in_place:
        return False
    if version.version == current:
        return True
    if version.in_place_from is None:
        return False
    try:
        return compare(version.in_place_from, "<=", current)
    except InvalidVersion:
        return False


def _constraint(text: str | None) -> Constraint | None:
    try:
        return None if text is None else constrain(text)
    except InvalidVersion:
        return None


def _has_capabilities(flavors: Iterable[Capabilities], machine: MachineType, definitions: Definitions) -> bool:
    return any(
        all(set(flavor.get(name, every)) & set(machine.capabilities.get(name, every)) for name, every in definitions.items())
        for flavor in flavors
    )
