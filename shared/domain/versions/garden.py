"""What a garden refuses about a profile or a Shoot besides its versions: names, machine types, capabilities, regions, bastion, limits
(docs/versions.md §8).

A profile may be an excerpt that leaves out what decides no version (regions, a machine type's size); what it does say has to be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from shared.domain.documents.reading import Document, Path, Problem
from shared.domain.keys import is_subdomain, key_error, value_error
from shared.domain.versions.catalogue import ARCHITECTURE, Capabilities, CloudProfile, ImageVersion, MachineType
from shared.domain.versions.classification import SUPPORTED
from shared.domain.versions.demands import architecture_of, architectures_of
from shared.domain.versions.fields import Fields

ARCHITECTURES = ("amd64", "arm64")
_QUANTITY = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
NAME_BYTES = 63
POOL_NAME_BYTES = 15
"""Longer names would make the names of a pool's machines too long."""


def profile_problems(document: Document, profile: CloudProfile, old: Document | None, now: datetime) -> Iterator[Problem]:
    """Everything that a garden refuses about a CloudProfile besides its versions."""
    unreadable: list[Problem] = []
    spec = Fields(document, document.data, (), unreadable).inner("spec")
    yield from _subdomain(document)
    yield from _empty(spec)
    yield from _definitions(spec)
    yield from _machine_types(spec, profile)
    yield from _flavors(spec, profile)
    yield from _regions(spec)
    yield from _bastion(spec, profile, now)
    before = Fields(old, old.data, (), []).inner("spec").inner("limits").number("maxNodesTotal") if old else None
    yield from _limits(spec.inner("limits"), before)
    yield from dict.fromkeys(unreadable)


def shoot_problems(document: Document) -> Iterator[Problem]:
    """Names that a garden refuses."""
    fields = Fields(document, document.data, (), [])
    if document.name and (not _is_label(document.name, NAME_BYTES) or "--" in document.name):
        message = f"{document.name!r}: a Shoot's name has lower-case letters, digits and single -, at most {NAME_BYTES}"
        yield document.problem(("metadata", "name"), "Invalid", message)
    for pool in fields.inner("spec").inner("provider").each("workers"):
        name = pool.text("name")
        if not name:
            yield document.problem((*pool.path, "name"), "Required", "a worker pool has a name")
        elif not _is_label(name, POOL_NAME_BYTES):
            message = f"{name!r}: a worker pool's name has lower-case letters, digits and -, at most {POOL_NAME_BYTES}"
            yield document.problem((*pool.path, "name"), "Invalid", message)


def namespaced_problems(document: Document) -> Iterator[Problem]:
    """What a garden refuses about a NamespacedCloudProfile besides its versions."""
    unreadable: list[Problem] = []
    spec = Fields(document, document.data, (), unreadable).inner("spec")
    yield from _subdomain(document)
    yield from _sizes(spec)
    yield from _limits(spec.inner("limits"), None)
    yield from dict.fromkeys(unreadable)


def _subdomain(document: Document) -> Iterator[Problem]:
    if document.name and not is_subdomain(document.name):
        message = f"{document.name!r}: a {document.kind}'s name is a DNS name: lower-case letters, digits, - and ., at most 253 bytes"
        yield document.problem(("metadata", "name"), "Invalid", message)


def _is_label(name: str, longest: int) -> bool:
    return len(name) <= longest and _LABEL.fullmatch(name) is not None


def _empty(spec: Fields) -> Iterator[Problem]:
    for name, what in (("type", "the provider"), ("machineTypes", "a machine type"), ("regions", "a region")):
        if spec.data.get(name) in ("", []):
            yield spec.document.problem((*spec.path, name), "Required", f"{name} is there and empty: name {what}, or leave it out")


def _names(each: Iterable[Fields], what: str) -> Iterator[Problem]:
    """Each has a name, and no two the same."""
    seen: set[str] = set()
    for fields in each:
        name = fields.text("name") or ""
        path = (*fields.path, "name")
        if not name:
            yield fields.document.problem(path, "Required", f"a {what} has a name")
        elif name in seen:
            yield fields.document.problem(path, "Duplicate", f"the {what} {name} is listed twice")
        seen.add(name)


# --- machine types and what they can ------------------------------------------------------------------------------------------------


def _machine_types(spec: Fields, profile: CloudProfile) -> Iterator[Problem]:
    yield from _sizes(spec)
    for fields, machine in zip(spec.each("machineTypes"), profile.machine_types, strict=False):
        if profile.capabilities:
            yield from _subset(fields, (*fields.path, "capabilities"), machine.capabilities, profile.capabilities)
            yield from _one_architecture(fields, machine, profile.capabilities.get(ARCHITECTURE, ()))
        elif machine.capabilities:
            yield _undefined(fields, "capabilities")
        if not profile.capabilities and machine.architecture is not None and machine.architecture not in ARCHITECTURES:
            message = f"{machine.architecture!r}: supported are {', '.join(ARCHITECTURES)}"
            yield fields.document.problem((*fields.path, "architecture"), "NotSupported", message)


def _sizes(spec: Fields) -> Iterator[Problem]:
    """Names and quantities of machine types."""
    yield from _names(spec.each("machineTypes"), "machine type")
    for fields in spec.each("machineTypes"):
        yield from _quantities(fields, ("cpu", "gpu", "memory"))
        storage = fields.inner("storage")
        if "storage" in fields.data and ("size" in storage.data) == ("minSize" in storage.data):
            message = "a machine type's storage has either a `size` or a `minSize`"
            yield fields.document.problem(storage.path, "Invalid", message)
        yield from _quantities(storage, ("size", "minSize"))


def _quantities(fields: Fields, names: Iterable[str]) -> Iterator[Problem]:
    for name in names:
        value = fields.data.get(name)
        if value is not None and (isinstance(value, bool) or not _QUANTITY.fullmatch(str(value))):
            message = f"{value!r} is no quantity such as 4, 500m or 16Gi"
            yield fields.document.problem((*fields.path, name), "Invalid", message)


def _definitions(spec: Fields) -> Iterator[Problem]:
    """The capabilities that images and machine types may have: each with a name and values, the architecture among them."""
    yield from _names(spec.each("machineCapabilities"), "capability")
    names = set()
    for fields in spec.each("machineCapabilities"):
        name, values = fields.text("name") or "", fields.texts("values")
        names.add(name)
        path = (*fields.path, "values")
        if not values:
            yield fields.document.problem(path, "Required", f"the capability {name} has no values")
        for number, value in enumerate(values if name == ARCHITECTURE else ()):
            if value not in ARCHITECTURES:
                message = f"{value!r}: supported are {', '.join(ARCHITECTURES)}"
                yield fields.document.problem((*path, number), "NotSupported", message)
    if names and ARCHITECTURE not in names:
        message = f"the capabilities do not define {ARCHITECTURE}: {', '.join(ARCHITECTURES)}"
        yield spec.document.problem((*spec.path, "machineCapabilities"), "Required", message)


def _flavors(spec: Fields, profile: CloudProfile) -> Iterator[Problem]:
    """What an image version can is among what the profile defines."""
    for image, known in zip(spec.each("machineImages"), profile.images, strict=False):
        for fields, version in zip(image.each("versions"), known.versions, strict=False):
            if version.flavors and not profile.capabilities:
                yield _undefined(fields, "capabilityFlavors")
                continue
            for number, flavor in enumerate(version.flavors):
                yield from _subset(fields, (*fields.path, "capabilityFlavors", number), flavor, profile.capabilities)


def _undefined(fields: Fields, name: str) -> Problem:
    message = "the profile defines no capabilities: list them in spec.machineCapabilities, or leave these out"
    return fields.document.problem((*fields.path, name), "Forbidden", message)


def _subset(fields: Fields, path: Path, own: Capabilities, defined: Capabilities) -> Iterator[Problem]:
    for name, values in own.items():
        unknown = [value for value in values if value not in defined.get(name, ())]
        if unknown or not values:
            what = f"{', '.join(unknown)} is not defined" if unknown else "it has no values"
            message = f"{what}: values of {name} are {', '.join(defined.get(name, ())) or 'not defined'} in spec.machineCapabilities"
            yield fields.document.problem((*path, name), "Invalid", message)


def _one_architecture(fields: Fields, machine: MachineType, defined: Sequence[str]) -> Iterator[Problem]:
    given = machine.capabilities.get(ARCHITECTURE, ()) or ((machine.architecture,) if machine.architecture else ())
    if len(defined) > 1 and len(given) != 1:
        message = f"the profile has several architectures: {machine.name} says which one of {', '.join(defined)} it has"
        yield fields.document.problem((*fields.path, "capabilities", ARCHITECTURE), "Required", message)


# --- regions, bastion, limits -------------------------------------------------------------------------------------------------------


def _regions(spec: Fields) -> Iterator[Problem]:
    yield from _names(spec.each("regions"), "region")
    for region in spec.each("regions"):
        yield from _names(region.each("zones"), "zone")
        for key, value in region.inner("labels").data.items():
            if wrong := key_error(str(key)) or (
                value_error(value) if isinstance(value, str) else "a label's value is text: put it in quotes"
            ):
                yield region.document.problem((*region.path, "labels", key), "Invalid", wrong)


def _bastion(spec: Fields, profile: CloudProfile, now: datetime) -> Iterator[Problem]:
    """A bastion is made from a machine type and an image of this profile, which fit together."""
    bastion = spec.inner("bastion")
    if not isinstance(spec.data.get("bastion"), Mapping):
        return
    if bastion.data.get("machineType") is None and bastion.data.get("machineImage") is None:
        yield bastion.document.problem(bastion.path, "Invalid", "a bastion names a machineType or a machineImage")
    architecture = None
    if bastion.data.get("machineType") is not None:
        name = bastion.inner("machineType").text("name")
        machine = next((candidate for candidate in profile.machine_types if candidate.name == name), None)
        if machine is None:
            path = (*bastion.path, "machineType", "name")
            yield bastion.document.problem(path, "Invalid", f"the profile has no machine type {name!r}")
        else:
            architecture = architecture_of(machine, profile)
    if bastion.data.get("machineImage") is not None:
        yield from _bastion_image(bastion.inner("machineImage"), profile, architecture, now)


def _bastion_image(fields: Fields, profile: CloudProfile, architecture: str | None, now: datetime) -> Iterator[Problem]:
    name, version = fields.text("name"), fields.text("version")
    image = next((candidate for candidate in profile.images if candidate.name == name), None)
    if image is None:
        yield fields.document.problem((*fields.path, "name"), "Invalid", f"the profile has no machine image {name!r}")
        return
    path = (*fields.path, "name" if version is None else "version")
    offered = [candidate for candidate in image.versions if version in (None, candidate.version)]
    if not offered:
        yield fields.document.problem(path, "Invalid", f"{name} has no version {version}")
    elif not any(_fits(candidate, architecture, profile, now) for candidate in offered):
        what = f" for {architecture}" if architecture else ""
        yield fields.document.problem(path, "Invalid", f"{name} has no {f'{version} that is ' if version else ''}supported{what}")


def _fits(version: ImageVersion, architecture: str | None, profile: CloudProfile, now: datetime) -> bool:
    return version.at(now) == SUPPORTED and (architecture is None or architecture in architectures_of(version, profile))


def _limits(limits: Fields, before: int | None) -> Iterator[Problem]:
    nodes = limits.number("maxNodesTotal")
    path = (*limits.path, "maxNodesTotal")
    if nodes is not None and nodes <= 0:
        yield limits.document.problem(path, "Invalid", "maxNodesTotal is above 0; without a limit, leave it out")
    elif nodes is not None and before is not None and nodes < before:
        yield limits.document.problem(path, "Invalid", f"maxNodesTotal is never lowered (from {before} to {nodes})")
