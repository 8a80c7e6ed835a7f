"""What a pod gets from its node, answered in time: the declared policies and the nodes of each cluster, kept between requests.

Whatever can't be known before the deadline is left out, and the answer says so: pods bind, labels may be missing
(`hullmark pods backfill` adds them later).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from shared.domain.documents.kinds import PodLabelPolicySpec
from shared.domain.pods.copying import Additions, Copying, Own, Placement, copying, decide, needs_own
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce
from shared.ports import Cluster, ClusterError, Pods, StoreError
from shared.work.node_cache import NodeCache
from shared.work.reads import Clock, Late, Reads, Refreshed

if TYPE_CHECKING:
    from shared.world import World

POLICIES_AGE = 10.0
"""Seconds after which a newly committed revision is looked for."""
NODES_AGE = 30.0
"""Seconds after which the nodes are listed again: how long a changed node label may go unseen."""
NAMESPACES = 20_000
"""How many namespaces' sums are kept: more than a cluster has, and few enough for memory."""
OLD = 300.0
"""Seconds after which what could not be refreshed is worth a warning."""


class PodPolicies:
    """The policies that hold in each cluster, summed up once for each namespace that is asked about."""

    def __init__(
        self,
        policies: Sequence[PodLabelPolicySpec] | Mapping[str, Sequence[PodLabelPolicySpec] | StoreError],
        open_cluster: Callable[[str], Cluster],
        named: Callable[[str], str] = str,
    ) -> None:
        """`policies`: for every cluster, or by its declared name, with why they can't be read where that is so."""
        self.open_cluster = open_cluster
        """A cluster by its declared name. Raises ClusterError."""
        self.named = named
        """The declared name of the cluster that a review's path names. Raises Refused for one that nobody declares."""
        self._policies = policies
        every = list(policies.values()) if isinstance(policies, Mapping) else [policies]
        self.keys = copying([policy for some in every if not isinstance(some, StoreError) for policy in some], None)
        """Those that any policy wants."""
        self._sums: dict[tuple[str, str], Copying] = {}

    def of(self, namespace: str, cluster: str) -> Copying:
        """What pods of this namespace get. Raises StoreError."""
        keys = self._sums.get((namespace, cluster))
        if keys is None:
            if len(self._sums) >= NAMESPACES:  # a review may name any
                self._sums.clear()
            keys = self._sums[namespace, cluster] = copying(self._of(cluster), namespace)
        return keys

    def _of(self, cluster: str) -> Sequence[PodLabelPolicySpec]:
        policies = self._policies.get(cluster, ()) if isinstance(self._policies, Mapping) else self._policies
        if isinstance(policies, StoreError):
            raise policies
        return policies


class PodTopology:
    """One per process. Safe with many threads."""

    def __init__(
        self,
        declared: Callable[[], PodPolicies],
        *,
        policies_age: float = POLICIES_AGE,
        nodes_age: float = NODES_AGE,
        clock: Clock = time.monotonic,
    ) -> None:
        self._clock, self._nodes_age = clock, nodes_age
        self._store_reads = Reads(2, clock)
        self._declared = Refreshed("the committed policies", declared, self._store_reads, age=policies_age, clock=clock)
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[NodeCache, Reads]] = {}

    def additions(self, place: Placement, cluster: str, seconds: float) -> Additions:
        """What this pod gets, after `seconds` at most; what stayed unknown is named in the warnings."""
        until = self._clock() + seconds
        try:
            declared = self._declared.get(seconds)
        except (Late, StoreError) as error:
            return _nothing(f"the policies can't be read: {error}")
        if not declared.keys:
            return Additions()
        try:
            cluster = declared.named(cluster)
            keys = declared.of(place.namespace, cluster)
        except ClusterError as error:
            return _nothing(str(error))
        except StoreError as error:
            return _nothing(f"the policies can't be read: {error}")
        if not keys:
            return Additions()
        nodes, reads = self._of(cluster)
        try:
            labels = nodes.labels(place.node, declared.keys, until - self._clock())
        except (Late, ClusterError, TimeoutError) as error:
            return _nothing(f"node {place.node} can't be read: {error}")
        own, warnings = None, self._old(nodes)
        if labels and place.binding and needs_own(keys, labels):
            try:
                own = _own(declared.open_cluster(cluster), place.namespace, place.pod, reads, until - self._clock())
            except (Late, ClusterError, TimeoutError) as error:
                warnings.append(f"hullmark: extra keys are not copied, pod {place.pod} can't be read: {error}")
        decided = decide(place, keys, labels, own)
        return Additions(decided.labels, decided.annotations, (*decided.warnings, *warnings)) if warnings else decided

    @property
    def kept(self) -> list[str]:
        """The clusters of which something is kept in memory."""
        with self._lock:
            return sorted(self._nodes)

    def ready(self, cluster: str) -> bool:
        """Whether reviews of `cluster` can be answered from memory. Starts what is missing, waits for nothing."""
        declared = self._declared.peek()
        if declared is None or not declared.keys:
            return declared is not None
        try:
            return self._of(declared.named(cluster))[0].warm(declared.keys)
        except ClusterError:
            return False

    def _of(self, cluster: str) -> tuple[NodeCache, Reads]:
        """What is kept of a declared cluster's nodes: for any name that is asked for, memory would grow with the callers' imagination."""
        with self._lock:
            if cluster not in self._nodes:
                reads = Reads(clock=self._clock)
                self._nodes[cluster] = NodeCache(lambda: self._open(cluster), reads, age=self._nodes_age, clock=self._clock), reads
            return self._nodes[cluster]

    def _open(self, cluster: str) -> Cluster:
        return self._declared.get(0).open_cluster(cluster)

    def _old(self, nodes: NodeCache) -> list[str]:
        return [
            f"hullmark: {what} are {seconds:.0f} s old: {trouble}"
            for what, seconds, trouble in (
                ("the nodes' labels", nodes.seconds_old(), nodes.trouble),
                ("the policies", self._declared.seconds_old(), self._declared.trouble),
            )
            if trouble and OLD < seconds < float("inf")
        ]


def _nothing(why: str) -> Additions:
    return Additions(warnings=(f"hullmark: no topology labels are copied, {why}"[:250],))


def _own(cluster: Cluster, namespace: str, pod: str, reads: Reads, seconds: float) -> Own | None:
    """The pod's own labels and annotations; None when there is no such pod (then nothing binds either)."""
    if not isinstance(cluster, Pods):
        raise Late("this cluster shows no pods")
    own = reads.get(f"pod {namespace}/{pod}", lambda: cluster.pod(namespace, pod), seconds)
    return Own(own.labels, own.annotations) if own else None


def declared_by(world: World) -> PodPolicies:
    """The policies that are released in each cluster, those of its base; where nothing was ever released, those of the newest revision, so
    that topology for pods needs no action on nodes. How a cluster is reached is as committed.
    """
    in_force = world.releases.look()
    revision = in_force.committed
    names = [name for name in ("default", *(revision.clusters if revision else ())) if world.knows(name, revision)]

    def named(name: str) -> str:
        name = world.default_cluster(revision) if name == "default" else name
        return world.must_know(name, revision)

    policies = {name: _released(name, in_force) for name in names}
    return PodPolicies(policies, lambda name: world.cluster(name, revision), named)


def released(cluster: str, in_force: InForce) -> Sequence[PodLabelPolicySpec]:
    """The policies that hold in one cluster. Raises RecordUnreadable."""
    holding = in_force.holding(cluster) or in_force.committed
    return holding.policies.pod_policies if holding else ()


def _released(cluster: str, in_force: InForce) -> Sequence[PodLabelPolicySpec] | StoreError:
    try:
        return released(cluster, in_force)
    except RecordUnreadable as torn:  # of this cluster alone: the others go on
        return torn
