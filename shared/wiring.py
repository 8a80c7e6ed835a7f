"""Settings from the environment, and which adapter stands behind which port. Everything is built on first use.

A function asks `world()`; the runner that plays the cloud, and tests, `install` their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, assert_never

from shared.domain.documents.access import Access, Eks, Gke, InCluster, Kubeconfig, KubeconfigFile, OperatorAccess, SeedFile, Simulated
from shared.messages import Outgoing
from shared.ports import Bus, BusError, Cluster, Fleet, Node, NodePools, ObjectStore, Refused
from shared.world import Settings, SettingsError, World

if TYPE_CHECKING:
    from shared.adapters.apiserver import Login
    from shared.adapters.kept import Kept
    from shared.domain.documents.kinds import ClusterSpec
    from shared.domain.pools import PoolKind
    from shared.work.pod_topology import PodTopology


_installed: World | None = None
_pod_topology: PodTopology | None = None


def install(world: World | None, pod_topology: PodTopology | None = None) -> None:
    """Use this world in this process from now on (the embedded runner, tests); None goes back to the environment's."""
    global _installed, _pod_topology
    _installed, _pod_topology = world, pod_topology


def world(*, publishes: bool = True) -> World:
    """The world of this process. A function that publishes nothing needs no bus."""
    return _installed or _from_environment(publishes)


def pod_topology() -> PodTopology:
    """What pod_binding keeps between two requests; one a process."""
    global _pod_topology  # noqa: PLW0603 - see `install`
    if _pod_topology is None:
        from shared.work.pod_topology import PodTopology, declared_by

        given = world(publishes=False)
        _pod_topology = PodTopology(lambda: declared_by(given))
    return _pod_topology


def settings() -> Settings:
    """The settings of this process, without anything built from them. Raises SettingsError."""
    return _installed.settings if _installed else _settings()


@functools.cache
def _settings() -> Settings:
    return Settings.from_environment()


def person_behind_iap(assertion: str, audience: str) -> str:
    """Whom Identity-Aware Proxy's signed header names. Raises Unverified."""
    from shared.adapters import iap

    return iap.person(assertion, audience, iap.google_keys())


class _NoBus:
    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        raise BusError(f"{len(messages)} messages to {topic}: this function publishes nothing")


@functools.cache
def _from_environment(publishes: bool) -> World:
    settings = _settings()
    if not publishes:
        return build(settings, _NoBus())
    if settings.bus != "pubsub":
        raise SettingsError(
            "HULLMARK_BUS is `embedded`, but nothing plays the cloud in this process: use `hullmark`, or set it to `pubsub`"
        )
    from shared.adapters.pubsub import open_bus

    return build(settings, open_bus(settings.project, settings.topic_prefix, settings.publisher))


def reading(settings: Settings) -> World:
    """The world for these settings, for somebody who publishes nothing."""
    return build(settings, _NoBus())


def build(settings: Settings, bus: Bus) -> World:
    """The world for these settings around a bus."""
    from shared.adapters.kept import Kept
    from shared.adapters.store import open_store
    from shared.adapters.threads import Threads

    store = open_store(settings.store)
    opened: dict[tuple[str, Access | OperatorAccess], Cluster] = {}

    def open_cluster(access: Access | OperatorAccess, name: str) -> Cluster:
        if (name, access) not in opened:
            opened[name, access] = _open_cluster(access, name, store, settings)
        return opened[name, access]

    return World(
        store,
        bus,
        open_cluster,
        settings,
        clock_from(settings),
        functools.partial(open_fleet, settings, catalogues=Kept()),
        workers=Threads(),
    )


def clock_from(settings: Settings) -> Callable[[], datetime]:
    """The clock: the system's, or stopped at HULLMARK_NOW."""
    if not settings.now:
        return lambda: datetime.now(UTC)
    try:
        stopped = datetime.fromisoformat(settings.now)
        stopped = stopped.replace(tzinfo=stopped.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise SettingsError(f"HULLMARK_NOW={settings.now!r} is no RFC 3339 time such as 2026-01-31T22:00:00Z") from error
    return lambda: stopped


SEED_BYTES = 256 << 20
"""The most that a node list may have: 100,000 nodes with 60 labels come to about 200 MB."""


def _open_cluster(access: Access | OperatorAccess, name: str, store: ObjectStore, settings: Settings) -> Cluster:
    """The adapter for one way of reaching a cluster. Raises Refused."""
    way = access.way if isinstance(access, Access) else access
    if isinstance(way, Simulated):
        way = settings.seed(way.name)
    if isinstance(way, SeedFile):
        from shared.adapters.simulated import Simulated as SimulatedCluster

        file = way.path
        owner, clock = settings.field_managers, clock_from(settings)
        return SimulatedCluster(store, name, lambda: _seed(file), owner=owner, clock=clock, origin=lambda: _digest(file))
    from shared.adapters.kubernetes import Kubernetes

    login, owner = _login(way, settings), settings.field_managers
    return Kubernetes(login, owner, in_flight=settings.in_flight, writes_per_second=settings.writes_per_second)


def _login(way: Kubeconfig | KubeconfigFile | InCluster | Gke | Eks, settings: Settings) -> Login:
    """The reader of the credentials for one way of reaching a cluster; only its own module is imported. Raises Refused."""
    match way:
        case Kubeconfig(name=name, context=context):
            return _login(settings.kubeconfig(name, context), settings)
        case KubeconfigFile(path=path, context=context):
            from shared.adapters import kubeconfig

            return lambda: kubeconfig.from_kubeconfig(path, context)
        case InCluster():
            from shared.adapters import kubeconfig

            return kubeconfig.in_cluster
        case Gke(project=project, location=location, name=gke_name, endpoint=endpoint):
            from shared.adapters import gke

            return lambda: gke.access(project, location, gke_name, endpoint)
        case Eks(region=region, name=eks_name, role_arn=role):
            from shared.adapters import eks

            return lambda: eks.access(region, eks_name, role)
        case _:
            assert_never(way)


def open_fleet(settings: Settings, name: str, spec: ClusterSpec, catalogues: Kept | None = None) -> Fleet:
    """The adapter for the fleet that a Cluster document stands for: a garden, an EKS cluster, a GKE cluster. Raises Refused.

    `catalogues`: what providers offer in a region, which serves every cluster there.
    """
    way = spec.access.way if spec.access else None
    match spec.provider, way:
        case "gardener", Kubeconfig() | InCluster():
            from shared.adapters.gardener import Garden

            return Garden(_login(way, settings), settings.field_managers)
        case "eks", Eks(region=region, name=eks_name, role_arn=role):
            from shared.adapters.eks_versions import EksVersions, client_for

            return EksVersions(name, eks_name, lambda service: client_for(service, region, role), spec, catalogues)
        case "gke", Gke(project=project, location=location, name=gke_name):
            from shared.adapters.gke_versions import GkeVersions, client

            return GkeVersions(name, f"projects/{project}/locations/{location}", gke_name, client, spec, catalogues)
        case provider, _:
            raise Refused("ClusterUnknown", f"cluster {name}: provider {provider} cannot be reached by its access")


def open_pools(name: str, spec: ClusterSpec) -> tuple[PoolKind, NodePools]:
    """The managed pools of the cluster that a Cluster document stands for, and what kind they are. Raises Refused."""
    from shared.domain.pools import EKS_POOL, GKE_POOL  # no function labels pools

    match spec.access.way if spec.access else None:
        case Eks(region=region, name=eks_name, role_arn=role):
            from shared.adapters.eks_pools import EksPools
            from shared.adapters.eks_versions import client_for

            return EKS_POOL, EksPools(eks_name, lambda: client_for("eks", region, role))
        case Gke(project=project, location=location, name=gke_name):
            from shared.adapters.gke_pools import GkePools
            from shared.adapters.gke_versions import client

            return GKE_POOL, GkePools(f"projects/{project}/locations/{location}/clusters/{gke_name}", client)
        case _:
            raise Refused("ClusterUnknown", f"cluster {name}: its document has no access.eks or access.gke, whose pools could be labelled")


def _seed(file: str) -> list[Node]:
    """The nodes of a simulated cluster, from what `kubectl get nodes -o json` wrote."""
    from pathlib import Path

    from shared.adapters.files import NotReadable, read_regular
    from shared.domain.documents.reading import Source, read_nodes

    try:
        return read_nodes(Source(file, read_regular(Path(file).expanduser(), SEED_BYTES)))
    except NotReadable as error:
        raise Refused("ClusterUnknown", f"simulated cluster: {file}: {error}") from error


def _digest(file: str) -> str:
    """Of a node list's bytes; empty for one that can't be read."""
    import hashlib
    from pathlib import Path

    from shared.adapters.files import NotReadable, read_regular

    try:
        return hashlib.sha256(read_regular(Path(file).expanduser(), SEED_BYTES)).hexdigest()
    except NotReadable:
        return ""
