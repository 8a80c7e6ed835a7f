"""How nodes stand to what is released to them: each is planned by its release, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from shared.domain.actions import lost_record
from shared.domain.labels.node_states import NodesRequest, NodeStates, node_state
from shared.domain.labels.planning import Settled, Write
from shared.domain.labels.releases import UNRELEASED, Mark
from shared.domain.labels.selection import Selection
from shared.domain.nodes import Node, Taint
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce
from shared.ports import Cluster, Refused
from shared.work.intake import Refusal, Rejected
from shared.work.planning import ByRelease, decisions, everything, showing_taints
from shared.world import World

T = TypeVar("T")
R = TypeVar("R")
PAGE_BYTES = 8 << 20
"""A page ends where it comes to about so much, below what any front end takes for an answer."""


class SeenCluster:
    """A cluster whose nodes are kept as they were read: what is planned and what is shown is one reading."""

    def __init__(self, cluster: Cluster) -> None:
        self.owner = cluster.owner
        self.seen: dict[str, Node] = {}
        self._cluster = cluster
        self._whole = False

    def server_version(self) -> str:
        """The cluster's."""
        return self._cluster.server_version()

    def nodes(self) -> list[Node]:
        """All of them, listed once."""
        if not self._whole:
            self.seen = {node.name: node for node in self._cluster.nodes()}
            self._whole = True
        return list(self.seen.values())

    def node(self, name: str) -> Node | None:
        """One of them, as it was listed, if it was."""
        found = self.seen.get(name)
        if found is None and not self._whole and (found := self._cluster.node(name)):
            self.seen[name] = found
        return found

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The cluster's."""
        return self._cluster.spread(work, items)


def node_states(asked: NodesRequest, world: World) -> NodeStates:
    """The nodes that are asked for. Raises Rejected (an unknown cluster or node), and what the cluster raises."""
    in_force = world.releases.look()
    committed = in_force.committed
    try:
        name = asked.cluster or world.default_cluster(committed)
        known = committed.startup_taints if committed else frozenset[Taint]()
        cluster = SeenCluster(showing_taints(world.cluster(name, committed), known))
    except Refused as refused:
        raise Rejected(Refusal(refused.reason, str(refused))) from refused
    answer = NodeStates(cluster=name, committed=committed.number if committed else 0, nodes={})
    newest = 0 if world.revisions.rejection(answer.committed) else answer.committed
    size = 0
    for node, mark, decided in _decided(asked, name, cluster, in_force, world):
        state = node_state(cluster.seen.get(node), mark, decided, newest)
        if asked.out_of_sync and state.in_sync:
            continue
        if asked.limit and (len(answer.nodes) == asked.limit or size > PAGE_BYTES):
            return answer.model_copy(update={"next": next(reversed(answer.nodes))})
        answer.nodes[node] = state
        size += len(state.model_dump_json()) if asked.limit else 0
    return answer


def _decided(
    asked: NodesRequest, name: str, cluster: SeenCluster, in_force: InForce, world: World
) -> Iterator[tuple[str, Mark, Settled | Write]]:
    """Each node that is asked for, its release, and what planning it by that has decided, in order of names."""
    try:
        basis = ByRelease(name, world, in_force, seen=cluster)
        meant = [node for node in _names(asked, name, basis, cluster, in_force) if node > asked.after]
    except RecordUnreadable as torn:  # nothing is known of any release, and the nodes are there all the same
        nodes = cluster.spread(cluster.node, asked.names) if asked.names else cluster.nodes()
        names = sorted(node.name for node in nodes if node is not None and node.name > asked.after)
        yield from ((node, UNRELEASED, Settled(lost_record(node, str(torn)))) for node in names)
        return
    for node, decided in decisions(Selection(target_nodes=meant), basis):
        try:
            yield node, basis.mark(node), decided
        except RecordUnreadable:
            yield node, UNRELEASED, decided


def _names(asked: NodesRequest, cluster_name: str, basis: ByRelease, cluster: SeenCluster, in_force: InForce) -> list[str]:
    """The names of the nodes that are meant. Raises Rejected for names that nobody knows."""
    main = basis.main()
    if asked.names is None:
        live = {node.name: node for node in cluster.nodes()}
        return [node for node, _, _ in everything(main.declared.nodes(), live, main.rules.policies, cluster_name)]
    committed = in_force.committed
    designs = [declared for declared in (main.declared, committed) if declared is not None]
    unnamed = [node for node in asked.names if all(declared.node(node) is None for declared in designs)]
    cluster.spread(cluster.node, unnamed)
    if unknown := [node for node in unnamed if node not in cluster.seen]:
        where = f"neither in the documents nor in cluster {cluster_name}"
        raise Rejected(*(Refusal("UnknownNode", f"unknown node {node}: {where}") for node in unknown))
    return sorted(asked.names)
