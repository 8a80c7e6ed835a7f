"""The fields that Gardener's kinds have (core.gardener.cloud/v1beta1). A misspelt one means nothing to a garden, which drops it in silence:
a version with an `expirationdate` never expires. So each one is a warning; it is no error, because gardens grow new fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.domain.documents.kinds import did_you_mean
from shared.domain.documents.reading import Document, Path, Problem

ANY: Final[Mapping[str, Any]] = {"*": None}
"""Whatever stands there belongs to others: provider configuration, free labels, status."""
LEAF: Final = None


def _fields(names: str, **inner: Any) -> dict[str, Any]:
    """A mapping with these plain fields, and those that hold more."""
    return dict.fromkeys(names.split(), LEAF) | inner


_METADATA = _fields(
    "name namespace generateName uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds selfLink",
    labels=ANY,
    annotations=ANY,
    finalizers=ANY,
    ownerReferences=ANY,
    managedFields=ANY,
)
_LIFECYCLE = _fields("classification startTime")
_VERSION = _fields("version classification expirationDate", lifecycle=_LIFECYCLE)
_RUNTIMES = _fields("name", containerRuntimes=_fields("type", providerConfig=ANY))
_IMAGE = _fields(
    "name updateStrategy",
    versions=_VERSION
    | _fields(
        "kubeletVersionConstraint",
        cri=_RUNTIMES,
        architectures=ANY,
        capabilityFlavors=ANY,
        inPlaceUpdates=_fields("supported minVersionForUpdate"),
    ),
)
_MACHINE_TYPE = _fields("name cpu gpu memory usable architecture", storage=_fields("class type size minSize"), capabilities=ANY)
_VOLUME_TYPE = _fields("name class usable minSize")
_LIMITS = _fields("maxNodesTotal")
_PROFILE = _fields(
    "type caBundle",
    kubernetes=_fields("", versions=_VERSION),
    machineImages=_IMAGE,
    machineTypes=_MACHINE_TYPE,
    volumeTypes=_VOLUME_TYPE,
    machineCapabilities=_fields("name", values=ANY),
    limits=_LIMITS,
    bastion=_fields("", machineImage=_fields("name version"), machineType=_fields("name")),
    regions=_fields(
        "name",
        zones=_fields("name", unavailableMachineTypes=ANY, unavailableVolumeTypes=ANY),
        labels=ANY,
        accessRestrictions=ANY,
    ),
    seedSelector=ANY,
    providerConfig=ANY,
)
_NAMESPACED = _fields(
    "caBundle",
    parent=_fields("kind name"),
    kubernetes=_fields("", versions=_VERSION),
    machineImages=_IMAGE,
    machineTypes=_MACHINE_TYPE,
    volumeTypes=_VOLUME_TYPE,
    limits=_LIMITS,
    providerConfig=ANY,
)
_WORKER = _fields(
    "name caBundle maximum minimum maxSurge maxUnavailable kubeletDataVolumeName priority updateStrategy",
    cri=_RUNTIMES,
    kubernetes=_fields("version", kubelet=ANY),
    machine=_fields("type architecture", image=_fields("name version", providerConfig=ANY)),
    annotations=ANY,
    labels=ANY,
    providerConfig=ANY,
    taints=ANY,
    volume=ANY,
    dataVolumes=ANY,
    zones=ANY,
    systemComponents=ANY,
    machineControllerManager=ANY,
    sysctls=ANY,
    clusterAutoscaler=ANY,
    controlPlane=ANY,
)
_SHOOT = _fields(
    "cloudProfileName purpose region secretBindingName credentialsBindingName seedName exposureClassName schedulerName",
    cloudProfile=_fields("kind name"),
    kubernetes=_fields(
        "version allowPrivilegedContainers enableStaticTokenKubeconfig",
        clusterAutoscaler=ANY,
        etcd=ANY,
        kubeAPIServer=ANY,
        kubeControllerManager=ANY,
        kubeProxy=ANY,
        kubeScheduler=ANY,
        kubelet=ANY,
        verticalPodAutoscaler=ANY,
    ),
    maintenance=_fields(
        "confineSpecUpdateRollout",
        autoUpdate=_fields("kubernetesVersion machineImageVersion"),
        timeWindow=_fields("begin end"),
        autoRotation=ANY,
        credentialsAutoRotation=ANY,
    ),
    provider=_fields("type", workers=_WORKER, controlPlaneConfig=ANY, infrastructureConfig=ANY, workersSettings=ANY),
    accessRestrictions=ANY,
    addons=ANY,
    controlPlane=ANY,
    dns=ANY,
    extensions=ANY,
    hibernation=ANY,
    monitoring=ANY,
    networking=ANY,
    resources=ANY,
    seedSelector=ANY,
    systemComponents=ANY,
    tolerations=ANY,
)
KNOWN: Mapping[str, Mapping[str, Any]] = {
    kind: _fields("apiVersion kind", metadata=_METADATA, spec=spec, status=ANY)
    for kind, spec in {"CloudProfile": _PROFILE, "NamespacedCloudProfile": _NAMESPACED, "Shoot": _SHOOT}.items()
}


def unknown_fields(document: Document) -> Iterator[Problem]:
    """A warning for each field that the kind does not have."""
    yield from _unknown(document, document.data, KNOWN[document.kind], ())


def _unknown(document: Document, value: object, known: Mapping[str, Any] | None, path: Path) -> Iterator[Problem]:
    """What is wrong with keys stays there: a list of mappings is looked at item by item, and a wrong type is told elsewhere."""
    if known is None or known is ANY:
        return
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown(document, item, known, (*path, number))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name in known:
                yield from _unknown(document, inner, known[name], (*path, name))
            else:
                message = f"a {document.kind} has no field {name!s} here, so it has no effect{did_you_mean(str(name), known)}"
                yield document.problem((*path, name), "Unknown", message)
