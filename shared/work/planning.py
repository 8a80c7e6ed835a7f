"""Gather what planning needs, and plan: the listing of a cluster against the newest documents. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from shared.domain.actions import ActionRequest
from shared.domain.documents.access import Access, Outdated
from shared.domain.documents.design import DesignNode
from shared.domain.keys import is_subdomain
from shared.domain.labels.aliases import in_force
from shared.domain.labels.planning import Rules, Settled, Subject, Write, plan_again, plan_node, subject
from shared.domain.labels.policies import Policies
from shared.domain.labels.selection import Selection, matcher
from shared.domain.nodes import Node, Owner
from shared.domain.outcomes import NodeTask, Outcome
from shared.ledger.revisions import Revision
from shared.messages import NodeApply
from shared.ports import StoreError
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
    def clusters(self) -> Mapping[str, Access | Outdated]:
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

    @property
    def owner(self) -> Owner: ...
    def server_version(self) -> str: ...
    def nodes(self) -> list[Node]: ...
    def node(self, name: str) -> Node | None: ...
    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]: ...


@dataclass(slots=True)
class Planned:
    """What a request comes to: tasks to send, and what is settled without a message."""

    revision: int
    tasks: list[NodeTask] = field(default_factory=list)
    preview: list[Outcome] = field(default_factory=list)
    """What a dry run answers for the tasks."""
    unchanged: list[str] = field(default_factory=list)
    settled: list[Outcome] = field(default_factory=list)

    def add(self, name: str, decided: Settled | Write) -> None:
        """Sort one node's decision in."""
        match decided:
            case Write(task=task):
                self.tasks.append(task)
                self.preview.append(decided.preview())
            case Settled(outcome=outcome) if outcome.outcome == "unchanged":
                self.unchanged.append(name)
            case Settled(outcome=outcome):
                self.settled.append(outcome)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a plan goes by, gathered once: what is declared, what that makes of this cluster, and its nodes as they are."""

    declared: Declarations
    rules: Rules
    cluster: Observed
    server_version: str

    @classmethod
    def of(cls, name: str, cluster: Observed, declared: Declarations, server_version: str | None = None) -> Ground:
        """The ground in one cluster, whose version is asked for where none is given."""
        version = server_version or cluster.server_version()
        policies = declared.policies
        return cls(declared, Rules(policies, name, in_force(policies.alias_pairs, version), cluster.owner), cluster, version)


def plan_request(request: ActionRequest, world: World, *, only: Sequence[str] | None = None) -> Planned:
    """Plan an accepted request by the revision that holds for its cluster (never older than the one it was accepted for).

    `only`: the nodes that an earlier delivery sent out in parts; each gets a task again, in sync by now or not.
    """
    revision = world.releases.look().holding(request.cluster)
    if revision is None:
        raise StoreError(f"action {request.id} was accepted for revision {request.revision}, and the store has none")
    ground = Ground.of(request.cluster, world.cluster(request.cluster, revision), revision)
    if only is not None:
        return Planned(revision.number, tasks=tasks_for(only, ground))
    planned = Planned(revision.number)
    for name, decided in decisions(request, ground):
        planned.add(name, decided)
    return planned


def decisions(selection: Selection, ground: Ground) -> Iterator[tuple[str, Settled | Write]]:
    """Decide every node that is meant, in order of names. Writes nothing: a plan is shown, or sent out, by whoever asks."""
    for node in _meant(selection, ground):
        yield node.name, plan_node(node, ground.rules)


def unknown_nodes(names: Iterable[str], declared: Declarations, cluster: Observed) -> list[str]:
    """Those names that neither the documents nor the cluster know."""
    unnamed = [name for name in names if declared.node(name) is None]
    live = live_nodes([name for name in unnamed if is_subdomain(name)], cluster) if unnamed else {}
    return [name for name in unnamed if name not in live]


def renew(task: NodeApply, revision: Revision, world: World) -> list[NodeTask]:
    """The part's nodes as this revision declares them, in sync already or not."""
    ground = Ground.of(task.cluster, world.cluster(task.cluster, revision), revision)
    return tasks_for([node.name for node in task.nodes], ground)


def tasks_for(names: Sequence[str], ground: Ground) -> list[NodeTask]:
    """A task for each of these nodes, whether it is in sync already or not."""
    live = live_nodes(names, ground.cluster)
    return [plan_again(subject(name, ground.declared.node(name), live.get(name), ground.rules), ground.rules) for name in names]


def _meant(selection: Selection, ground: Ground) -> Iterator[Subject]:
    """Every node that is meant, in order of names: with its design, as the cluster shows it, and what it should carry."""
    declared, rules = ground.declared, ground.rules
    if selection.target_nodes is not None:
        live = live_nodes(selection.target_nodes, ground.cluster)
        for name in sorted(selection.target_nodes):
            yield subject(name, declared.node(name), live.get(name), rules)
        return
    live = {node.name: node for node in ground.cluster.nodes()}
    subjects = (subject(*pair, rules) for pair in everything(declared.nodes(), live, rules.policies, rules.cluster))
    yield from filter(matcher(selection.node_filter), subjects)


def everything(
    designs: Iterable[DesignNode], live: Mapping[str, Node], policies: Policies, cluster: str
) -> Iterator[tuple[str, DesignNode | None, Node | None]]:
    """Every node of the design (sorted by name, read as it goes) and of the cluster, each with what both say of it, in order of names.

    A node that is not there, and that only policies for other clusters name, does not concern this cluster.
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
