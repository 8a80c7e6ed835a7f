"""Settings from the environment, and which adapter stands behind which port. Everything is built on first use.

A function asks `world()`; the runner that plays the cloud, and tests, `install` their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shared.messages import Outgoing
from shared.ports import HULLMARK, Bus, BusError, Cluster, Fleet, Node, ObjectStore, Owner, Refused
from shared.world import Settings, SettingsError, World

if TYPE_CHECKING:
    from shared.adapters.apiserver import Login
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


def build(settings: Settings, bus: Bus) -> World:
    """The world for these settings around a bus."""
    from shared.adapters.store import open_store

    store = open_store(settings.store)
    opened: dict[str, Cluster] = {}

    def open_cluster(access: dict[str, Any], name: str) -> Cluster:
        key = f"{name} {sorted(access.items())}"
        if key not in opened:
            opened[key] = _open_cluster(access, name, store, settings)
        return opened[key]

    return World(store, bus, open_cluster, settings, clock_from(settings), functools.partial(open_fleet, owner=settings.field_managers))


def clock_from(settings: Settings) -> Callable[[], datetime]:
    """The clock: the system's, or stopped at HULLMARK_NOW."""
    if not settings.now:
        return lambda: datetime.now(UTC)
    try:
        stopped = datetime.fromisoformat(settings.now)
    except ValueError as error:
        raise SettingsError(f"HULLMARK_NOW={settings.now!r} is no RFC 3339 time such as 2026-01-31T22:00:00Z") from error
    stopped = stopped.replace(tzinfo=stopped.tzinfo or UTC).astimezone(UTC)
    return lambda: stopped


def _open_cluster(access: dict[str, Any], name: str, store: ObjectStore, settings: Settings) -> Cluster:
    """The adapter for one way of reaching a cluster. Raises Refused."""
    kind, how = next(iter(access.items()))
    if kind == "simulated":
        from shared.adapters.simulated import Simulated

        return Simulated(store, name, lambda: _seed(how["nodes"]), owner=settings.field_managers)
    from shared.adapters.kubernetes import Kubernetes

    return Kubernetes(
        _login(kind, how, name), settings.field_managers, in_flight=settings.in_flight, writes_per_second=settings.writes_per_second
    )


def _login(kind: str, how: Mapping[str, Any], name: str) -> Login:
    """The reader of the credentials for one way of reaching a cluster; only its own module is imported. Raises Refused."""
    match kind:
        case "kubeconfig":
            from shared.adapters import kubeconfig

            return lambda: kubeconfig.from_kubeconfig(how.get("path", ""), how.get("context", ""))
        case "inCluster":
            from shared.adapters import kubeconfig

            return kubeconfig.in_cluster
        case "gke":
            from shared.adapters import gke

            return lambda: gke.access(**how)
        case "eks":
            from shared.adapters import eks

            return lambda: eks.access(**how)
    raise Refused("ClusterUnknown", f"cluster {name}: access by {kind} is not supported")


def open_fleet(name: str, spec: Mapping[str, Any], owner: Owner = HULLMARK) -> Fleet:
    """The adapter for the fleet that a Cluster document stands for: a garden, an EKS cluster, a GKE cluster. Raises Refused."""
    access: Mapping[str, Any] = spec.get("access") or {}
    kind, how = next(iter(access.items()), ("no access", dict[str, Any]()))
    match spec.get("provider"), kind:
        case "gardener", "kubeconfig" | "inCluster":
            from shared.adapters import kubeconfig
            from shared.adapters.gardener import Garden

            if kind == "inCluster":
                return Garden(kubeconfig.in_cluster, owner)
            return Garden(lambda: kubeconfig.from_kubeconfig(how.get("path", ""), how.get("context", "")), owner)
        case "eks", "eks":
            from shared.adapters.eks_versions import EksVersions, client_for

            return EksVersions(name, how["name"], lambda: client_for(how["region"]), spec)
        case "gke", "gke":
            from shared.adapters.gke_versions import GkeVersions, client

            return GkeVersions(name, f"projects/{how['project']}/locations/{how['location']}", how["name"], client, spec)
        case provider, _:
            raise Refused("ClusterUnknown", f"cluster {name}: provider {provider} cannot be reached by {kind}")


def _seed(file: str) -> list[Node]:
    """The nodes of a simulated cluster, from what `kubectl get nodes -o json` wrote."""
    from pathlib import Path

    from shared.domain.documents.reading import Source, read_nodes

    try:
        return read_nodes(Source(file, Path(file).expanduser().read_bytes()))
    except OSError as error:
        raise Refused("ClusterUnknown", f"simulated cluster: {file}: {error.strerror}") from error
