"""What a fleet may run: CloudProfiles as values, read from documents, with a NamespacedCloudProfile's overrides merged in.

Defaults are the API server's (an absent updateStrategy is `major`, absent architectures are `amd64`, an absent cri is `containerd`).
EKS and GKE catalogues become the same values, so that all fleets are decided alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.domain.documents.reading import Document, Problem
from shared.domain.versions.classification import Offered, Stage, transitions
from shared.domain.versions.fields import Fields

ARCHITECTURE = "architecture"
AMD64 = "amd64"
CONTAINERD = "containerd"
Capabilities = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Runtime:
    """A container runtime interface that an image version has, with the extra runtimes under it."""

    name: str
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageVersion(Offered):
    """A machine image version and what it demands."""

    cri: tuple[Runtime, ...] = ()
    architectures: tuple[str, ...] = ()
    flavors: tuple[Capabilities, ...] = ()
    kubelet: str | None = None
    in_place: bool = False
    in_place_from: str | None = None
    """The lowest version from which a machine may be updated in place."""


@dataclass(frozen=True, slots=True)
class Image:
    """A machine image. `strategy` as written; None means major."""

    name: str
    versions: tuple[ImageVersion, ...] = ()
    strategy: str | None = None


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type."""

    name: str
    architecture: str | None = None
    capabilities: Capabilities = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CloudProfile:
    """Kubernetes versions, machine images and machine types that clusters may choose from."""

    name: str
    kubernetes: tuple[Offered, ...] = ()
    images: tuple[Image, ...] = ()
    machine_types: tuple[MachineType, ...] = ()
    capabilities: Capabilities = field(default_factory=dict)
    """Capability definitions: every name with all its values."""

    def transitions(self) -> list[datetime]:
        """Every moment after which a version of this profile may count as something else, ascending."""
        return transitions([*self.kubernetes, *(version for image in self.images for version in image.versions)])


@dataclass(frozen=True, slots=True)
class NamespacedCloudProfile:
    """Overrides of a parent CloudProfile for the clusters of one namespace."""

    name: str
    namespace: str
    parent: str
    parent_kind: str
    kubernetes: tuple[Offered, ...] = ()
    images: tuple[Image, ...] = ()
    machine_types: tuple[MachineType, ...] = ()

    def over(self, parent: CloudProfile) -> CloudProfile:
        """The profile that clusters see: expiration dates overridden, images and machine types added."""
        dates = {version.version: version.expiration for version in self.kubernetes}
        images = {image.name: image for image in parent.images}
        for image in self.images:
            formed = replace(image, versions=tuple(_formed_like(parent, version) for version in image.versions))
            images[image.name] = _merged_image(images[image.name], formed) if image.name in images else formed
        machines = {machine.name: machine for machine in (*parent.machine_types, *self.machine_types)}
        return CloudProfile(
            name=self.name,
            kubernetes=tuple(
                replace(version, expiration=dates[version.version]) if version.version in dates else version
                for version in parent.kubernetes
            ),
            images=tuple(images.values()),
            machine_types=tuple(machines.values()),
            capabilities=parent.capabilities,
        )


def _formed_like(parent: CloudProfile, version: ImageVersion) -> ImageVersion:
    """Architectures said the parent's way: as capability flavors where the parent defines capabilities, else as a list."""
    if parent.capabilities and version.architectures and not version.flavors:
        return replace(version, flavors=tuple({ARCHITECTURE: (name,)} for name in version.architectures))
    if not parent.capabilities and version.flavors:
        names = dict.fromkeys(name for flavor in version.flavors for name in flavor.get(ARCHITECTURE, ()))
        return replace(version, architectures=tuple(names) or version.architectures, flavors=())
    return version


def _merged_image(base: Image, override: Image) -> Image:
    versions = {version.version: version for version in base.versions}
    for version in override.versions:
        own = version.architectures or version.flavors or version.cri or version.kubelet or version.classification
        known = versions.get(version.version)
        versions[version.version] = version if own or known is None else replace(known, expiration=version.expiration)
    return Image(base.name, tuple(versions.values()), override.strategy or base.strategy)


# --- from documents -------------------------------------------------------------------------------------------------------------------


def read_profile(document: Document, problems: list[Problem]) -> CloudProfile:
    """A CloudProfile document; fields of a wrong type are added to `problems`."""
    spec = Fields(document, document.data, (), problems).inner("spec")
    return CloudProfile(
        name=document.name,
        kubernetes=tuple(_offered(fields) for fields in spec.inner("kubernetes").each("versions")),
        images=tuple(_image(fields) for fields in spec.each("machineImages")),
        machine_types=tuple(_machine_type(fields) for fields in spec.each("machineTypes")),
        capabilities={fields.text("name") or "": fields.texts("values") for fields in spec.each("machineCapabilities")},
    )


def read_namespaced_profile(document: Document, problems: list[Problem]) -> NamespacedCloudProfile:
    """A NamespacedCloudProfile document; fields of a wrong type are added to `problems`."""
    root = Fields(document, document.data, (), problems)
    spec = root.inner("spec")
    return NamespacedCloudProfile(
        name=document.name,
        namespace=root.inner("metadata").text("namespace") or "default",
        parent=spec.inner("parent").text("name") or "",
        parent_kind=spec.inner("parent").text("kind") or "",
        kubernetes=tuple(_offered(fields) for fields in spec.inner("kubernetes").each("versions")),
        images=tuple(_image(fields) for fields in spec.each("machineImages")),
        machine_types=tuple(_machine_type(fields) for fields in spec.each("machineTypes")),
    )


def _offered(fields: Fields) -> Offered:
    return Offered(fields.text("version") or "", fields.text("classification"), fields.time("expirationDate"), _lifecycle(fields))


def _lifecycle(fields: Fields) -> tuple[Stage, ...]:
    return tuple(Stage(stage.text("classification") or "", stage.time("startTime")) for stage in fields.each("lifecycle"))


def _image(fields: Fields) -> Image:
    return Image(
        fields.text("name") or "", tuple(_image_version(version) for version in fields.each("versions")), fields.text("updateStrategy")
    )


def _image_version(fields: Fields) -> ImageVersion:
    in_place = fields.inner("inPlaceUpdates")
    return ImageVersion(
        version=fields.text("version") or "",
        classification=fields.text("classification"),
        expiration=fields.time("expirationDate"),
        lifecycle=_lifecycle(fields),
        cri=tuple(
            Runtime(cri.text("name") or "", tuple(runtime.text("type") or "" for runtime in cri.each("containerRuntimes")))
            for cri in fields.each("cri")
        ),
        architectures=fields.texts("architectures"),
        flavors=tuple(_capabilities(flavor) for flavor in fields.each("capabilityFlavors")),
        kubelet=fields.text("kubeletVersionConstraint"),
        in_place=in_place.flag("supported") or False,
        in_place_from=in_place.text("minVersionForUpdate"),
    )


def _machine_type(fields: Fields) -> MachineType:
    return MachineType(fields.text("name") or "", fields.text("architecture"), _capabilities(fields.inner("capabilities")))


def _capabilities(fields: Fields) -> Capabilities:
    return {name: fields.texts(name) for name in fields.data}
