"""Settings from the environment, and which adapter stands behind which port. Everything is built on first use.

A function asks `ports()`; the runner that plays the cloud, and tests, `install` their own.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.actions import Actions
from shared.messages import Outgoing
from shared.ports import Bus, BusError, Cluster, Fleet, Node, ObjectStore, Refused
from shared.revisions import Revision, Revisions

if TYPE_CHECKING:
    from shared.adapters.apiserver import Login
    from shared.fleets import Fleets, Opener
    from shared.pod_topology import PodTopology


VERSION_SECONDS = 600
"""How long a cluster's version is taken as known; upgrades take longer."""


class SettingsError(Exception):
    """A HULLMARK_* variable that can't be used; the message names it and what it takes."""


class Settings(BaseModel):
    """Read once from `HULLMARK_*`; each field says unit, default and why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    store: str = "file:.hullmark"
    """`file:FOLDER`, `memory:`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`. A folder beside you, so that a first try needs nothing."""
    bus: Literal["embedded", "pubsub"] = "embedded"
    """`embedded`: one process plays the cloud. `pubsub`: Google Cloud Pub/Sub, or its emulator (PUBSUB_EMULATOR_HOST)."""
    cluster: str = ""
    """The cluster of requests that name none: `kubeconfig:PATH?context=C`, `in-cluster:` or `simulated:FILE`."""
    project: str = ""
    """Google Cloud project of the topics; needed by `pubsub`."""
    topic_prefix: str = ""
    """Put before every topic name, so that two deployments can share a project."""
    publisher: Literal["rest", "grpc"] = "rest"
    """How `pubsub` publishes: `rest` starts faster, `grpc` is google-cloud-pubsub, for a process that lives long."""
    now: str = ""
    """RFC 3339. Stops the clock, for tests only."""
    action_seconds: float = 3600
    """Seconds after which an action that has not ended is closed as expired. 100,000 nodes take about three minutes."""
    in_flight: int = 8
    """Requests to one cluster at a time, from one process. Four to eight saturate two server cores; 32 is the most."""
    writes_per_second: float = 0
    """Writes a second to one cluster from one process; 0 leaves the pace to the server's answers (429, Retry-After)."""

    @classmethod
    def from_environment(cls, environment: dict[str, str] | None = None) -> Settings:
        """Read the variables. Raises SettingsError naming the variable."""
        source = os.environ if environment is None else environment
        values = {name: source[f"HULLMARK_{name.upper()}"] for name in cls.model_fields if source.get(f"HULLMARK_{name.upper()}")}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError("; ".join(f"HULLMARK_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())) from error


@dataclass
class Ports:
    """What a function may use of the outside world."""

    store: ObjectStore
    bus: Bus
    open_cluster: Callable[[dict[str, Any], str], Cluster]
    """(access as a Cluster document says it, name) → the cluster; the same object for the same arguments."""
    settings: Settings
    clock: Callable[[], datetime]
    open_fleet: Opener = field(default_factory=lambda: open_fleet)
    """(name, spec of a Cluster document with a `provider`) → the fleet behind it."""

    versions: dict[str, tuple[datetime, str]] = field(default_factory=dict)

    def server_version(self, name: str, cluster: Cluster) -> str:
        """A cluster's version, asked again after VERSION_SECONDS: an event costs no call for it."""
        asked, version = self.versions.get(name, (None, ""))
        if asked is None or (self.clock() - asked).total_seconds() >= VERSION_SECONDS:
            version = cluster.server_version()
            self.versions[name] = self.clock(), version
        return version

    @functools.cached_property
    def actions(self) -> Actions:
        """The ledger of actions."""
        return Actions(self.store)

    @functools.cached_property
    def revisions(self) -> Revisions:
        """The committed documents."""
        return Revisions(self.store)

    @functools.cached_property
    def pod_topology(self) -> PodTopology:
        """What pod_binding keeps between two requests."""
        from shared.pod_topology import PodTopology, declared_by

        return PodTopology(lambda: declared_by(self))

    def cluster(self, name: str, revision: Revision | None) -> Cluster:
        """The cluster that a message names: a Cluster document of the revision, or `default` from the settings.

        Raises Refused for a name that neither knows.
        """
        declared = revision.clusters if revision else {}
        if name in declared:
            return self.open_cluster(declared[name], name)
        if name == "default" and self.settings.cluster:
            return self.open_cluster(access_from_url(self.settings.cluster), name)
        known = ", ".join(sorted(declared)) or "none"
        raise Refused(
            "ClusterUnknown", f"no cluster {name!r}: set HULLMARK_CLUSTER, or name a Cluster document of the revision (there: {known})"
        )

    def fleets(self, revision: Revision | None) -> Fleets:
        """Every cluster whose versions the revision watches over: its Shoots, and what its Cluster documents' providers hold."""
        from shared.fleets import fleets_of

        if revision is None:
            return fleets_of(self.store, [], {}, self.open_fleet)
        return fleets_of(self.store, revision.gardener, revision.policies.clusters, self.open_fleet)

    def default_cluster(self, revision: Revision | None) -> str:
        """The name of the cluster that a request means when it names none. Raises Refused where several could be meant."""
        declared = sorted(revision.clusters) if revision else []
        if self.settings.cluster or not declared:
            return "default"
        if len(declared) == 1:
            return declared[0]
        raise Refused("ClusterUnknown", f"name the cluster: the revision declares {', '.join(declared)}")


def access_from_url(url: str) -> dict[str, Any]:
    """`kubeconfig:PATH?context=C` and its like, as a Cluster document's `access`. Raises Refused."""
    kind, _, rest = url.partition(":")
    if kind == "kubeconfig":
        path, _, query = rest.partition("?")
        context = parse_qs(query).get("context", [""])[0]
        return {"kubeconfig": {k: v for k, v in (("path", path), ("context", context)) if v}}
    if kind == "in-cluster":
        return {"inCluster": {}}
    if kind == "simulated" and rest:
        return {"simulated": {"nodes": rest}}
    raise Refused("ClusterUnknown", f"HULLMARK_CLUSTER={url!r} is none of kubeconfig:PATH?context=C, in-cluster:, simulated:FILE")


_installed: Ports | None = None


def install(ports: Ports | None) -> None:
    """Use these ports in this process from now on (the embedded runner, tests); None goes back to the environment's."""
    global _installed  # noqa: PLW0603 - the one place where a process keeps its ports
    _installed = ports


def ports(*, publishes: bool = True) -> Ports:
    """The ports of this process. A function that publishes nothing needs no bus."""
    return _installed or _from_environment(publishes)


class _NoBus:
    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        raise BusError(f"{len(messages)} messages to {topic}: this function publishes nothing")


@functools.cache
def _from_environment(publishes: bool) -> Ports:
    settings = Settings.from_environment()
    if not publishes:
        return build(settings, _NoBus())
    if settings.bus != "pubsub":
        raise SettingsError(
            "HULLMARK_BUS is `embedded`, but nothing plays the cloud in this process: use `hullmark`, or set it to `pubsub`"
        )
    from shared.adapters.pubsub import open_bus

    return build(settings, open_bus(settings.project, settings.topic_prefix, settings.publisher))


def build(settings: Settings, bus: Bus) -> Ports:
    """Ports for these settings around a bus."""
    from shared.adapters.store import open_store

    store = open_store(settings.store)
    opened: dict[str, Cluster] = {}

    def open_cluster(access: dict[str, Any], name: str) -> Cluster:
        key = f"{name} {sorted(access.items())}"
        if key not in opened:
            opened[key] = _open_cluster(access, name, store, settings)
        return opened[key]

    return Ports(store, bus, open_cluster, settings, clock_from(settings))


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

        return Simulated(store, name, lambda: _seed(how["nodes"]))
    from shared.adapters.kubernetes import Kubernetes

    return Kubernetes(_login(kind, how, name), in_flight=settings.in_flight, writes_per_second=settings.writes_per_second)


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


def open_fleet(name: str, spec: Mapping[str, Any]) -> Fleet:
    """The adapter for the fleet that a Cluster document stands for: a garden, an EKS cluster, a GKE cluster. Raises Refused."""
    access: Mapping[str, Any] = spec.get("access") or {}
    kind, how = next(iter(access.items()), ("no access", dict[str, Any]()))
    match spec.get("provider"), kind:
        case "gardener", "kubeconfig" | "inCluster":
            from shared.adapters import kubeconfig
            from shared.adapters.gardener import Garden

            if kind == "inCluster":
                return Garden(kubeconfig.in_cluster)
            return Garden(lambda: kubeconfig.from_kubeconfig(how.get("path", ""), how.get("context", "")))
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

    from shared.domain.reading import Source, read_nodes

    try:
        return read_nodes(Source(file, Path(file).expanduser().read_bytes()))
    except OSError as error:
        raise Refused("ClusterUnknown", f"simulated cluster: {file}: {error.strerror}") from error
