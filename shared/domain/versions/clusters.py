"""What a fleet runs: clusters with their versions, pools, switches and windows; read from Shoot documents, or made by a fleet's adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shared.domain.documents.reading import Document, Problem
from shared.domain.versions.catalogue import CONTAINERD
from shared.domain.versions.fields import Fields
from shared.domain.versions.identity import DOCUMENTS, full_name
from shared.domain.versions.windows import ALWAYS, NEVER_OPEN, InvalidWindow, Window, check_duration, parse_freezes, parse_window, read_zone

if TYPE_CHECKING:
    from shared.domain.documents.kinds import ClusterSpec, Maintenance

MAINTENANCE = ("spec", "maintenance")
"""Where a Shoot and a Cluster document hold it."""

OWN_IMAGE = "CustomImage"
"""The reason of an EKS node group whose launch template names its image."""
IN_PLACE = frozenset(["AutoInPlaceUpdate", "ManualInPlaceUpdate"])
OPERATION = "gardener.cloud/operation"
TIME_ZONE = "hullmark.dev/time-zone"
FREEZE = "hullmark.dev/freeze"
"""Annotations on a Shoot, which has no room of its own for either: an IANA zone, and `2026-12-20/2027-01-02, …`."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A worker pool. `kubernetes` None: it follows the control plane. `architecture` None: its machine type's."""

    name: str
    machine_type: str = ""
    image: str | None = None
    image_version: str | None = None
    kubernetes: str | None = None
    architecture: str | None = None
    cri: str = CONTAINERD
    runtimes: tuple[str, ...] = ()
    in_place: bool = False
    no_image: str = ""
    """Why nothing is decided about its image, where its provider says so: a reason's code."""

    @property
    def own_image(self) -> bool:
        """Whether its owner chooses its image, so that its versions are not ours to move."""
        return self.no_image == OWN_IMAGE


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a cluster is in order; None: nobody can say, or an update is under way. `message`: what is wrong with it."""

    healthy: bool | None = None
    message: str = ""


UNKNOWN = Health(None, "its fleet does not say how it is")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A time in which a provider's cluster is not to be updated. `scope`: GKE's word for which updates that means."""

    name: str
    begin: datetime
    end: datetime
    scope: str = "NO_UPGRADES"


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """One cluster of a fleet. `id` is `namespace/name`; `profile` the CloudProfile's name, `own` whether a NamespacedCloudProfile's.

    Its identity is (fleet, id): two gardens may both have a `garden-dev/api`.
    """

    id: str
    kubernetes: str | None
    profile: str = ""
    own: bool = False
    pools: tuple[Pool, ...] = ()
    auto_kubernetes: bool = True
    auto_image: bool = True
    window: Window = ALWAYS
    maintain: bool = False
    """Asked to be maintained now, whatever the window."""
    deleting: bool = False
    fleet: str = DOCUMENTS
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Its own; those of the Cluster document that leads to its fleet count besides."""
    running: str = ""
    """What its provider is still working on; empty: nothing."""
    not_ready: str = ""
    """Why its provider takes no new version of its control plane now (EKS' upgrade insights); empty: it does."""
    health: Health = UNKNOWN
    asked_for: bool = False
    """Updated only as its Cluster document asks for: nothing is forced, and nothing is done without a window. True of EKS and GKE."""
    exclusions: tuple[Exclusion, ...] = ()

    @property
    def full_name(self) -> str:
        """`FLEET:NAMESPACE/NAME`; `NAMESPACE/NAME` alone for a Shoot document."""
        return full_name(self.fleet, self.id)

    @property
    def namespace(self) -> str:
        """The namespace part of the id."""
        return self.id.partition("/")[0]

    def with_versions(self, versions: Mapping[tuple[str, str], str]) -> FleetCluster:
        """This cluster after updates: `(component, subject)` to the new version."""
        return replace(
            self,
            kubernetes=versions.get(("controlPlane", "kubernetes"), self.kubernetes),
            pools=tuple(
                replace(
                    pool,
                    kubernetes=versions.get((f"worker/{pool.name}", "kubernetes"), pool.kubernetes),
                    image_version=versions.get((f"worker/{pool.name}", "machineImage"), pool.image_version),
                )
                for pool in self.pools
            ),
        )


@dataclass(frozen=True, slots=True)
class VersionStep:
    """One version move. `component` is `controlPlane` or `worker/POOL`, `subject` is `kubernetes` or `machineImage`."""

    component: str
    subject: str
    current: str
    to: str
    image: str = ""
    token: str = field(default="", compare=False)
    """The same at every delivery of one action, for providers that recognise a repeated request by it."""

    @property
    def pool(self) -> str:
        """The pool's name; empty for the control plane."""
        return self.component.partition("/")[2]

    @property
    def key(self) -> str:
        """What tells the moves of one cluster apart: `worker/a/machineImage`."""
        return f"{self.component}/{self.subject}"

    @property
    def rank(self) -> int:
        """Images come first, then the control plane, then the pools (docs/versions.md §4)."""
        return 0 if self.subject == "machineImage" else 2 if self.pool else 1

    def version_in(self, cluster: FleetCluster) -> str | None:
        """The version that a cluster has where this step moves it; None where there is no such place."""
        if not self.pool:
            return cluster.kubernetes
        pool = next((candidate for candidate in cluster.pools if candidate.name == self.pool), None)
        return None if pool is None else pool.image_version if self.subject == "machineImage" else pool.kubernetes


def read_shoot(document: Document, problems: list[Problem]) -> FleetCluster:
    """A Shoot document with the API server's defaults. Fields of a wrong type are added to `problems`; odd windows are not.

    See docs/versions.md §7.
    """
    root = Fields(document, document.data, (), problems)
    metadata, spec = root.inner("metadata"), root.inner("spec")
    reference, maintenance = spec.inner("cloudProfile"), spec.inner("maintenance")
    auto = maintenance.inner("autoUpdate")
    declared = maintenance.data.get("autoUpdate") is not None
    operations = (metadata.inner("annotations").text(OPERATION) or "").split(";")
    image_switch = auto.flag("machineImageVersion")
    return FleetCluster(
        id=f"{metadata.text('namespace') or 'default'}/{document.name}",
        kubernetes=spec.inner("kubernetes").text("version"),
        profile=reference.text("name") or spec.text("cloudProfileName") or "",
        own=reference.text("kind") == "NamespacedCloudProfile",
        pools=tuple(_pool(fields) for fields in spec.inner("provider").each("workers")),
        auto_kubernetes=bool(auto.flag("kubernetesVersion")) if declared else True,
        auto_image=True if image_switch is None else image_switch,
        window=_window(maintenance.inner("timeWindow"), metadata.inner("annotations")),
        maintain="maintain" in (operation.strip() for operation in operations),
        deleting=metadata.text("deletionTimestamp") is not None,
        labels={key: str(value) for key, value in metadata.inner("labels").data.items()},
        running=shoot_running(document.data),
        health=shoot_health(document.data),
    )


def shoot_running(shoot: Mapping[str, Any]) -> str:
    """What Gardener works on, by a Shoot's last operation; empty: nothing. Without one nobody says."""
    operation = _mapping(_mapping(shoot.get("status")).get("lastOperation"))
    working = operation.get("state") in ("Processing", "Pending")
    return f"{operation.get('type')} {operation.get('state')}" if working else ""


def shoot_health(shoot: Mapping[str, Any]) -> Health:
    """How a Shoot is by its status: its last operation has succeeded, on the newest spec, and every condition is True."""
    metadata, status = _mapping(shoot.get("metadata")), _mapping(shoot.get("status"))
    operation = _mapping(status.get("lastOperation"))
    state, kind = operation.get("state"), operation.get("type")
    listed = status.get("conditions")
    conditions = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    if not conditions:
        return UNKNOWN
    if state in ("Failed", "Aborted", "Error"):
        return Health(False, f"{kind} {state}: {operation.get('description') or 'no description'}")
    behind = _number(metadata.get("generation")) > _number(status.get("observedGeneration"))
    if behind or state in ("Processing", "Pending"):
        return Health(None, "Gardener has not taken up its newest spec" if behind else f"{kind} {state}")
    wrong = [each for each in conditions if each.get("status") != "True"]
    if any(each.get("status") == "False" for each in wrong):
        first = next(each for each in wrong if each.get("status") == "False")
        return Health(False, f"{first.get('type')}: {first.get('message') or first.get('reason') or 'no message'}")
    if wrong:
        return Health(None, f"{wrong[0].get('type')} is {wrong[0].get('status')}")
    return Health(True)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def shoot_id(document: Document) -> str:
    """`NAMESPACE/NAME` of a Shoot document, without reading the rest of it."""
    metadata = document.data.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return f"{namespace or 'default'}/{document.name}"


def _pool(fields: Fields) -> Pool:
    machine, cri = fields.inner("machine"), fields.inner("cri")
    image = machine.inner("image")
    return Pool(
        name=fields.text("name") or "",
        machine_type=machine.text("type") or "",
        image=image.text("name"),
        image_version=image.text("version"),
        kubernetes=fields.inner("kubernetes").text("version"),
        architecture=machine.text("architecture"),
        cri=cri.text("name") or CONTAINERD,
        runtimes=tuple(runtime.text("type") or "" for runtime in cri.each("containerRuntimes")),
        in_place=fields.text("updateStrategy") in IN_PLACE,
    )


def _window(fields: Fields, annotations: Fields) -> Window:
    """The window that holds. One that Gardener cannot read is no window; a zone or freeze that we cannot read is a problem."""
    zone = annotations.text(TIME_ZONE)
    key = TIME_ZONE
    try:
        if zone:
            read_zone(zone)
        key = FREEZE
        freezes = parse_freezes(annotations.text(FREEZE) or "", zone)
    except InvalidWindow as error:
        fields.problems.append(fields.document.problem((*annotations.path, key), "Invalid", str(error)))
        return ALWAYS
    try:
        if fields.data:
            return parse_window(fields.text("begin") or "", fields.text("end") or "", zone, freezes)
    except InvalidWindow:
        pass
    return replace(ALWAYS, freezes=freezes)


@dataclass(frozen=True, slots=True)
class ProviderState:
    """How a provider's cluster is: the fields of FleetCluster of the same names."""

    deleting: bool = False
    running: str = ""
    not_ready: str = ""
    exclusions: tuple[Exclusion, ...] = ()
    health: Health = UNKNOWN


def declared_cluster(
    name: str, spec: ClusterSpec, kubernetes: str, pools: tuple[Pool, ...], catalogue: str, seen: ProviderState
) -> FleetCluster:
    """A provider's cluster under its Cluster document: the document's window, switches and profile, else the provider's catalogue.

    Raises InvalidWindow.
    """
    maintenance = spec.maintenance
    times = maintenance.time_window if maintenance else None
    auto = maintenance.auto_update if maintenance else None
    return FleetCluster(
        id=name,
        kubernetes=kubernetes,
        profile=spec.cloud_profile or catalogue,
        pools=pools,
        auto_kubernetes=auto is None or auto.kubernetes_version,
        auto_image=auto is None or auto.machine_image_version,
        window=parse_window(times.begin, times.end, maintenance.time_zone) if maintenance and times else NEVER_OPEN,
        deleting=seen.deleting,
        running=seen.running,
        not_ready=seen.not_ready,
        asked_for=True,
        exclusions=seen.exclusions,
        health=seen.health,
    )


def check_window(document: Document) -> list[Problem]:
    """Everything wrong with a Shoot's window (docs/versions.md §7)."""
    fields = Fields(document, document.data, (), [])
    zone = fields.inner("metadata").inner("annotations").text(TIME_ZONE)
    window = fields.inner("spec").inner("maintenance").inner("timeWindow")
    return _check_window(document, window.text("begin") or "", window.text("end") or "", zone) if window.data else []


def check_maintenance(document: Document, maintenance: Maintenance) -> list[Problem]:
    """Everything wrong with the window and the time zone of a Cluster document."""
    zone, window = maintenance.time_zone, maintenance.time_window
    try:
        if zone:
            read_zone(zone)
    except InvalidWindow as error:
        return [document.problem((*MAINTENANCE, "timeZone"), "Invalid", str(error))]
    return _check_window(document, window.begin, window.end, zone) if window else []


def _check_window(document: Document, begin: str, end: str, zone: str | None) -> list[Problem]:
    path = (*MAINTENANCE, "timeWindow")
    try:
        wrong = check_duration(parse_window(begin, end, zone))
    except InvalidWindow as error:
        return [replace(document.problem(path, "Invalid", str(error)), path="spec.maintenance.timeWindow.begin/end")]
    return [document.problem(path, "Invalid", wrong)] if wrong else []
