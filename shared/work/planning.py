"""Gather what planning needs, and plan: the listing of a cluster against the newest documents. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from shared.domain.actions import ActionRequest
from shared.domain.documents.design import DesignNode
from shared.domain.keys import is_subdomain
from shared.domain.labels.aliases import AliasPair, in_force
from shared.domain.labels.planning import Settled, Write, plan_node, task_of
from shared.domain.labels.policies import Declared, Policies, declare
from shared.domain.labels.selection import NodeFilter, select
from shared.domain.nodes import Node
from shared.domain.outcomes import NodeTask, Outcome
from shared.ledger.revisions import Revision
from shared.messages import NodeApply
from shared.ports import Cluster
from shared.world import World

T = TypeVar("T")
R = TypeVar("R")
READ_SINGLY = 512
"""Up to so many named nodes are read each by itself: nine nodes of a listing cost what one read costs, and a part of 200 to 400 nodes
that is planned anew must not list the 100,000 of its cluster, as every other part would too.
"""


class Declarations(Protocol):
    """What documents declare: a committed revision, or files that were read here."""

    @property
    def number(self) -> int | None:
        """The revision's number; None for what is not committed."""
        ...

    @property
    def policies(self) -> Policies:
        """Everything but the nodes."""
        ...

    @property
    def clusters(self) -> Mapping[str, dict[str, Any]]:
        """How each cluster is reached, by name."""
        ...

    def node(self, name: str) -> DesignNode | None:
        """One node of the design."""
        ...

    def nodes(self) -> Iterator[DesignNode]:
        """Every node of the design, in order of names."""
        ...


class Observed(Protocol):
    """Nodes as they are: a cluster, or a listing of one in a file."""

    def server_version(self) -> str: ...
    def nodes(self) -> list[Node]: ...
    def node(self, name: str) -> Node | None: ...
    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]: ...


@dataclass(slots=True)
class Planned:
    """What a request comes to: tasks to send, and what is settled without a message."""

    revision: int
    tasks: list[NodeTask] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    settled: list[Outcome] = field(default_factory=list)

    def add(self, name: str, decided: Settled | Write) -> None:
        """Sort one node's decision in."""
        match decided:
            case Write(task=task):
                self.tasks.append(task)
            case Settled(outcome=outcome) if outcome.outcome == "unchanged":
                self.unchanged.append(name)
            case Settled(outcome=outcome):
                self.settled.append(outcome)

    def preview(self) -> list[Outcome]:
        """What a dry run answers: the tasks as if they were done."""
        return [
            Outcome(subject=t.name, outcome="changed", reason="DryRun", message="nothing was written", changes=t.changes)
            for t in self.tasks
        ]


def plan_request(request: ActionRequest, world: World, *, only: Sequence[str] | None = None) -> Planned:
    """Plan an accepted request against the newest revision (which is never older than the one it was accepted for).

    `only`: the nodes that an earlier delivery sent out in parts; each gets a task again, true by now or not.
    """
    revision = world.revisions.get(world.revisions.newest())
    cluster = world.cluster(request.cluster, revision)
    pairs = in_force(revision.policies.alias_pairs, cluster.server_version())
    if only is not None:
        return Planned(revision.number, tasks=tasks_for(only, revision, cluster, request.cluster, pairs))
    node_filter = NodeFilter.model_validate(request.node_filter) if request.node_filter else None
    planned = Planned(revision.number)
    for name, decided in decisions(request.target_nodes, node_filter, revision, cluster, request.cluster, pairs):
        planned.add(name, decided)
    return planned


def decisions(
    targets: Sequence[str] | None,
    node_filter: NodeFilter | None,
    declared: Declarations,
    cluster: Observed,
    cluster_name: str,
    pairs: Sequence[AliasPair],
) -> Iterator[tuple[str, Settled | Write]]:
    """Decide every node that is meant, in order of names: these, those of a filter, or (neither given) all."""
    for name, design, live in _gather(targets, declared, cluster, node_filter, cluster_name):
        yield name, plan_node(name, design, live, declared.policies, cluster_name, pairs)


def unknown_nodes(names: Iterable[str], declared: Declarations, cluster: Observed) -> list[str]:
    """Those names that neither the documents nor the cluster know."""
    unnamed = [name for name in names if declared.node(name) is None]
    live = live_nodes([name for name in unnamed if is_subdomain(name)], cluster) if unnamed else {}
    return [name for name in unnamed if name not in live]


def renew(task: NodeApply, revision: Revision, world: World) -> list[NodeTask]:
    """The part's nodes as this revision declares them, true already or not."""
    cluster = world.cluster(task.cluster, revision)
    pairs = in_force(revision.policies.alias_pairs, cluster.server_version())
    return tasks_for([node.name for node in task.nodes], revision, cluster, task.cluster, pairs)


def tasks_for(names: Sequence[str], revision: Revision, cluster: Cluster, cluster_name: str, pairs: Iterable[AliasPair]) -> list[NodeTask]:
    """A task for each of these nodes, whether it is true already or not; one for a node that is not there tells `missing`."""
    live = live_nodes(names, cluster)
    pairs = tuple(pairs)
    tasks = []
    for name in names:
        design, node = revision.node(name), live.get(name)
        decided = plan_node(name, design, node, revision.policies, cluster_name, pairs)
        if isinstance(decided, Write):
            tasks.append(decided.task)
            continue
        declared = declare(name, design, node, revision.policies, cluster_name)
        settled = decided.outcome if decided.outcome.outcome == "failed" else None
        plain = (
            task_of(name, node.uid if node else "", declared, revision.policies) if isinstance(declared, Declared) else NodeTask(name=name)
        )
        tasks.append(plain.model_copy(update={"settled": settled}))
    return tasks


def _gather(
    targets: Sequence[str] | None, declared: Declarations, cluster: Observed, node_filter: NodeFilter | None, cluster_name: str
) -> Iterator[tuple[str, DesignNode | None, Node | None]]:
    """Every node that is meant, in order of names: with its design, and as the cluster shows it."""
    if targets is not None:
        live = live_nodes(targets, cluster)
        for name in sorted(targets):
            yield name, declared.node(name), live.get(name)
        return
    live = {node.name: node for node in cluster.nodes()}
    both = everything(declared.nodes(), live, declared.policies, cluster_name)
    if node_filter is None:
        yield from both
        return
    found = {name: (design, node) for name, design, node in both}
    candidates = [candidate(name, design, node, declared.policies, cluster_name) for name, (design, node) in found.items()]
    for name in select(node_filter, candidates):
        yield name, *found[name]


def candidate(name: str, design: DesignNode | None, live: Node | None, policies: Policies, cluster: str) -> DesignNode:
    """A node as the filter sees it: with the labels that it is to carry."""
    declared = declare(name, design, live, policies, cluster)
    labels = declared.labels if isinstance(declared, Declared) else {}
    return replace(design or DesignNode(name), labels=labels)


def everything(
    designs: Iterable[DesignNode], live: Mapping[str, Node], policies: Policies, cluster: str
) -> Iterator[tuple[str, DesignNode | None, Node | None]]:
    """Every node of the design (sorted by name, read as it goes) and of the cluster, each with what both say of it, in order of names.

    A node that is not there, and that only policies for other clusters name, is no business of this cluster.
    """
    others = iter(sorted(live))
    waiting = next(others, None)
    for design in designs:
        while waiting is not None and waiting < design.name:
            yield waiting, None, live[waiting]
            waiting = next(others, None)
        if waiting == design.name:
            waiting = next(others, None)
        elif not policies.concern(design, cluster):
            continue
        yield design.name, design, live.get(design.name)
    while waiting is not None:
        yield waiting, None, live[waiting]
        waiting = next(others, None)


def live_nodes(names: Sequence[str], cluster: Observed) -> dict[str, Node]:
    """Those of the named nodes that the cluster has."""
    if len(names) <= READ_SINGLY:
        return {node.name: node for node in cluster.spread(cluster.node, names) if node is not None}
    wanted = frozenset(names)
    return {node.name: node for node in cluster.nodes() if node.name in wanted}
