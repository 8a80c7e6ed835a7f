"""The outside world as Hullmark sees it: four protocols and the few errors they may answer with.

Adapters implement these; functions and the shared stores use them; the domain never sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

from shared.domain.nodes import ALIAS_OWNER as ALIAS_OWNER
from shared.domain.nodes import HULLMARK as HULLMARK
from shared.domain.nodes import OWNER as OWNER
from shared.domain.nodes import Node as Node
from shared.domain.nodes import Owner as Owner
from shared.domain.nodes import Taint as Taint
from shared.messages import Outgoing

if TYPE_CHECKING:
    from datetime import datetime

    from shared.domain.pools import PoolChange, PoolLabels
    from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile
    from shared.domain.versions.clusters import FleetCluster, VersionStep
    from shared.domain.versions.ends import Progress
    from shared.domain.workloads.forecast import Budget, DaemonSet, Seen
    from shared.domain.workloads.placement import Host

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C")


class ClusterError(Exception):
    """Any answer of a cluster other than success. `reason` is a CamelCase code, `retryable` says whether later may help."""

    reason = "ClusterError"
    retryable = False


class NodeGone(ClusterError):
    """No node of that name, or one of that name with another uid."""

    reason = "NodeNotFound"


class Conflict(ClusterError):
    """An unforced apply met keys that others hold with other values. `managers` maps key to field manager."""

    reason = "Conflict"

    def __init__(self, managers: Mapping[str, str]) -> None:
        self.managers = dict(managers)
        super().__init__("; ".join(f"{key} is owned by {manager}" for key, manager in sorted(self.managers.items())))


class Stale(ClusterError):
    """The node changed since the resourceVersion that the write was based on: read again and decide again."""

    reason = "Stale"
    retryable = True


class Refused(ClusterError):
    """The API server will not do it, now or later: credentials, permissions, an invalid object, an admission webhook."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


FIELD_UNREADABLE = "FieldUnreadable"
"""The reason of a live cluster or profile that is left alone: what it says cannot be read."""


class Unavailable(ClusterError):
    """No answer, or one that says later: connection, timeout, 429, 5xx. `retry_after` in seconds, where the server named one."""

    reason = "Unavailable"
    retryable = True

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


@runtime_checkable
class TimeLimited(Protocol):
    """What can give its caller's time up; a Cluster or a Fleet may be this too."""

    def within(self, left: Callable[[], float], tries: int = ...) -> Self:
        """The same, whose calls end within the seconds that `left` says are left, and are tried at most so many times."""
        ...


def in_time(asked: C, left: Callable[[], float], **tries: int) -> C:
    """`asked` with a limit, where it takes one: what answers from memory or bounds its own calls does not."""
    return asked.within(left, **tries) if isinstance(asked, TimeLimited) else asked


class Workers(Protocol):
    """Who does at one time what mostly waits for others: calls of providers and of the store."""

    def each(self, work: Callable[[T], R], items: Iterable[T], most: int = 16) -> list[R]:
        """What the work on each item gave, in order; so many at a time. An error of one is raised when the others have ended."""
        ...


class OneByOne:
    """Workers where there is nobody else."""

    def each(self, work: Callable[[T], R], items: Iterable[T], most: int = 1) -> list[R]:
        """One after the other."""
        return [work(item) for item in items]


ONE_BY_ONE = OneByOne()


class Cluster(Protocol):
    """One cluster's nodes. Every method may raise Refused or Unavailable."""

    @property
    def owner(self) -> Owner:
        """Under which field managers we write here."""
        ...

    def server_version(self) -> str:
        """The API server's version, e.g. `v1.35.4`; empty where a cluster has none to tell."""
        ...

    def nodes(self) -> list[Node]:
        """All nodes, metadata only."""
        ...

    def node(self, name: str) -> Node | None:
        """One node, or None when there is no such node."""
        ...

    def apply_labels(self, name: str, uid: str, labels: Mapping[str, str], *, manager: str = "", force: bool = True) -> Node:
        """Server-Side Apply of exactly this label set under `manager` (empty: our own for labels). What it applied before and now leaves
        out goes, unless another manager holds it too. Raises NodeGone (absent, or another uid) and Conflict (only without force).
        """
        ...

    def remove_labels(self, name: str, keys: Sequence[str], *, resource_version: str, manager: str = "") -> Node:
        """One merge patch of nulls for `keys`, whoever owns them. Raises NodeGone and Stale."""
        ...

    def patch_labels(self, name: str, labels: Mapping[str, str], *, resource_version: str, manager: str) -> Node:
        """One merge patch that sets these labels under `manager`, whoever holds them: it alone holds those whose value changes. Raises
        NodeGone and Stale.
        """
        ...

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`work` on every item, as many at a time as this cluster may have in flight; results in the items' order.

        What `work` raises is raised once the others have ended.
        """
        ...


@runtime_checkable
class Taints(Protocol):
    """A cluster's taints; a Cluster may have these too."""

    def with_taints(self) -> Self:
        """The same cluster, whose `nodes` and `node` show taints."""
        ...

    def remove_taint(self, name: str, uid: str, taint: Taint, labels: Mapping[str, str]) -> bool:
        """Take one taint off a node, in one patch that holds only while it is this node and has these labels; its other taints stay as they
        are. False where it does not hold the taint. Raises NodeGone, Stale, Refused and Unavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pod:
    """What is read of a pod: who it is, where it runs, its labels and annotations."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    """Empty where it is not bound, and where only metadata was asked for (`pod`)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    resource_version: str = ""


@runtime_checkable
class Pods(Protocol):
    """One cluster's pods; a Cluster may be this too. Every method may raise Refused or Unavailable."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """One pod, metadata only, or None when there is no such pod."""
        ...

    def pods(self, namespace: str = "") -> Iterator[Pod]:
        """Every bound pod (of one namespace), page by page."""
        ...

    def add_to_pod(self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """One merge patch that sets these, with the uid and the resourceVersion that `pod` was read with.

        Raises Stale where the pod is gone, another, or changed since.
        """
        ...


@runtime_checkable
class LastWrites(Protocol):
    """When a node was last changed, and by whom; a Cluster may say this too. May raise Refused or Unavailable."""

    def last_writes(self, name: str) -> Mapping[str, datetime]:
        """By field manager, when it last set a field of the node or changed the value of one; empty where there is no such node."""
        ...


@runtime_checkable
class Readiness(Protocol):
    """Whether a cluster's nodes are Ready; a Cluster may say this too. May raise Refused or Unavailable."""

    def readiness(self) -> Mapping[str, bool | None]:
        """Every node by name: whether it is Ready (one whose kubelet is silent is not); None where it has no such condition."""
        ...


@runtime_checkable
class Workloads(Protocol):
    """How a cluster's pods fare; a Cluster may say this too. Every method may raise Refused or Unavailable."""

    def daemon_sets(self, nodes: Collection[str]) -> Mapping[str, Collection[str]]:
        """Every DaemonSet, `NAMESPACE/NAME`, with those of these nodes on which a pod of it runs and is ready."""
        ...

    def unschedulable(self) -> Mapping[str, int]:
        """By namespace, how many pods the scheduler has found no node for; namespaces without any are left out."""
        ...


@runtime_checkable
class Scheduling(Protocol):
    """What decides where a cluster's pods run; a Cluster may say this too. Every method may raise Refused or Unavailable, as it goes on."""

    def hosts(self) -> Iterator[Host]:
        """Every node, as pods are placed on it."""
        ...

    def daemon_set_pods(self) -> Iterator[DaemonSet]:
        """Every DaemonSet that is not being deleted, with what it asks of nodes."""
        ...

    def budgets(self) -> Iterator[Budget]:
        """Every PodDisruptionBudget."""
        ...

    def placed(self, nodes: Collection[str]) -> Iterator[Seen]:
        """The pods on these nodes and the pending ones, page by page; pods on other nodes may be among them. Neither those that have ended
        nor those that are being deleted.
        """
        ...


class StoreError(Exception):
    """The store did not do it (no space, read-only, refused, unreachable). The message says what and where."""

    reason = "StoreError"
    retryable = True


class ObjectStore(Protocol):
    """Objects by key (`a/b/c.json`). Create-only writes are the one concurrency primitive. Methods may raise StoreError."""

    def create(self, key: str, body: bytes) -> bool:
        """Write the object whole if there is none under this key. False, and nothing written, if there is one."""
        ...

    def get(self, key: str) -> bytes | None:
        """The object's bytes, or None."""
        ...

    def keys(self, prefix: str, after: str = "", limit: int = 0) -> list[str]:
        """Every key under the folder `prefix` (which ends in `/`), sorted; with `after`, only keys greater than it; with `limit`, the
        first so many of them, at the cost of so many.
        """
        ...

    def folders(self, prefix: str) -> list[str]:
        """The names one level below the folder `prefix` that hold objects of their own, sorted."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object; no error if there is none."""
        ...


class Unverified(Exception):
    """Nothing vouches for who a caller says to be. `retryable`: the keys that would tell could not be read now."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(message)


class BusError(Exception):
    """The bus did not confirm a publish. The caller fails its message and is delivered again."""


class Bus(Protocol):
    """Topics by their plain names (`relabel-requests`); a prefix per deployment is the adapter's business."""

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """Return only when every message is confirmed. Raises BusError."""
        ...


class Fleet(Protocol):
    """Clusters and the versions they run, wherever they live. Every method may raise Refused or Unavailable."""

    def clusters(self) -> Iterator[FleetCluster]:
        """Every cluster of the fleet."""
        ...

    def cluster(self, name: str) -> FleetCluster | None:
        """One cluster by its id, read anew; None where this fleet has no such cluster."""
        ...

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        """What the fleet itself says it may run (a garden's profiles, a provider's catalogue); empty where only documents say it."""
        ...

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        """Move one version; False where it was there already. A dry run asks everything and changes nothing.

        Raises Stale where the cluster now runs another version than the step starts from, Refused where the provider will not do it,
        Unavailable where it may later (`UpdateRunning`: it is busy with an earlier change).
        """
        ...


class NodePools(Protocol):
    """The managed pools of nodes of one cluster, and the labels that they give their nodes."""

    def read(self, pool: str) -> PoolLabels:
        """A pool's labels now. Raises Refused (`NotFound`) and Unavailable."""
        ...

    def write(self, pool: PoolLabels, change: PoolChange) -> None:
        """Change these labels of a pool as it was read. Raises Stale where it has changed since, Refused, and Unavailable
        (`UpdateRunning`: the cloud works on it).
        """
        ...


@runtime_checkable
class TellsProgress(Protocol):
    """A fleet whose provider carries updates out after it has accepted them."""

    def progress(self, name: str, step: VersionStep) -> Progress:
        """What the provider says of its last update to a step's version. Raises Refused and Unavailable."""
        ...


@runtime_checkable
class FleetAtOnce(Protocol):
    """A fleet that moves several versions of a cluster with one write, so that all of them go or none."""

    def apply_at_once(self, name: str, steps: Sequence[VersionStep], *, dry_run: bool = False) -> Sequence[str]:
        """Move these versions. Answers what else of the cluster had to change for that. Raises as Fleet.apply does."""
        ...
