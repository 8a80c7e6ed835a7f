"""Which nodes of a listing need an event: those that are not in sync with what is released to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from shared.domain.labels.events import NodeChange
from shared.domain.labels.planning import Settled, Write
from shared.domain.labels.selection import Selection
from shared.domain.nodes import Node
from shared.ledger.records import RecordUnreadable
from shared.ports import Cluster, ClusterError, StoreError
from shared.work.planning import ByRelease, decisions
from shared.world import World

T = TypeVar("T")
R = TypeVar("R")


class Listed:
    """A cluster whose nodes are in hand already."""

    def __init__(self, nodes: Sequence[Node], cluster: Cluster) -> None:
        self.owner = cluster.owner
        self._nodes, self._cluster = list(nodes), cluster

    def server_version(self) -> str:
        """The server's."""
        return self._cluster.server_version()

    def nodes(self) -> list[Node]:
        """Those in hand."""
        return self._nodes

    def node(self, name: str) -> Node | None:
        """One of them."""
        return next((node for node in self._nodes if node.name == name), None)

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """One after the other: nothing is asked of a server."""
        return [work(item) for item in items]


class Needed:
    """Plans a listing as a sweep would, with the nodes that it has, and keeps the news of those that are not in sync.

    Where that can't be done, all of it is kept: an event too many costs a message, one too few a node's labels until the next sweep.
    """

    def __init__(self, cluster: str, watched: Cluster, world: World, say: Callable[[str], None]) -> None:
        """`watched`: the cluster that is listed, however the documents would have it reached from elsewhere."""
        self._cluster, self._watched, self._say = cluster, watched, say
        self._world = replace(world, open_cluster=lambda _access, _name: watched)

    def __call__(self, news: list[NodeChange]) -> list[NodeChange]:
        """The news that somebody has to act on."""
        try:
            needed = self._needed(news)
        except (RecordUnreadable, StoreError, ClusterError, OSError) as error:
            needed = f"what is released can't be read: {error}"
        if isinstance(needed, str):
            self._say(f"{needed}; all {len(news)} nodes are published")
            return news
        self._say(f"{len(needed)} of {len(news)} nodes are not in sync")
        return needed

    def _needed(self, news: list[NodeChange]) -> list[NodeChange] | str:
        in_force = self._world.releases.look()
        if in_force.committed is None:
            return f"nothing is committed in {self._world.settings.store}"
        if self._cluster not in in_force.committed.clusters and not in_force.state(self._cluster).k:
            return f"no Cluster document is named {self._cluster!r}, and nothing is released to such a cluster"
        nodes = {change.name: change.node() for change in news}
        seen = Listed([node for node in nodes.values() if node], self._watched)
        basis = ByRelease(self._cluster, self._world, in_force, seen=seen)
        due = {name for name, decided in decisions(Selection(), basis) if _is_due(decided)}
        if basis.startup_taints:  # the listing does not show them
            due |= {change.name for change in news if change.taints is None and change.may_have_taints}
        return [change for change in news if change.name in due or nodes[change.name] is None]


def _is_due(decided: Settled | Write) -> bool:
    return isinstance(decided, Write) or decided.outcome.outcome != "unchanged"
