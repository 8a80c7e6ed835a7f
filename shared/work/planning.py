"""Gather what planning needs, and plan: the listing of a cluster against the newest documents. Writes nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from shared.domain.actions import ActionRequest, lost_record
from shared.domain.documents.access import Access, Outdated
from shared.domain.documents.design import DesignNode
from shared.domain.keys import is_subdomain
from shared.domain.labels.aliases import in_force
from shared.domain.labels.bound import STALE_PLAN, BoundPlan, stale_message
from shared.domain.labels.impact import Impact
from shared.domain.labels.planning import Rules, Settled, Subject, Write, plan_again, plan_node, subject
from shared.domain.labels.policies import DeclaredLabels, Policies
from shared.domain.labels.releases import Mark
from shared.domain.labels.selection import Selection, matcher
from shared.domain.labels.tally import Tally
from shared.domain.names import DRIFT_SWEEP
from shared.domain.nodes import Node, Owner, Taint
from shared.domain.outcomes import NOT_RELEASED, RELEASED_SINCE, NodeTask, Outcome
from shared.ledger.declared import Declared
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce
from shared.ports import Cluster, Taints
from shared.world import World

if TYPE_CHECKING:
    from shared.domain.rollouts.progress import Batch, Progress

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


class Counted:
    """A cluster, or a listing of one, that remembers how many nodes it listed."""

    def __init__(self, cluster: Observed) -> None:
        self._cluster = cluster
        self.owner: Owner = cluster.owner
        self.count = 0

    def server_version(self) -> str:
        return self._cluster.server_version()

    def nodes(self) -> list[Node]:
        nodes = self._cluster.nodes()
        self.count = len(nodes)
        return nodes

    def node(self, name: str) -> Node | None:
        return self._cluster.node(name)

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return self._cluster.spread(work, items)


@dataclass(slots=True)
class Planned:
    """What a request comes to: tasks to send, and what is settled without a message."""

    revision: int
    release: int = 0
    """The number of the cluster's newest release that it was planned by."""
    tasks: list[NodeTask] = field(default_factory=list)
    preview: list[Outcome] = field(default_factory=list)
    """What a dry run answers for the tasks."""
    unchanged: list[str] = field(default_factory=list)
    settled: list[Outcome] = field(default_factory=list)
    stale: str = ""
    """Why the plan that the request is bound to no longer holds: nothing is written then, and `settled` has the nodes that differ."""
    impact: Impact | None = None
    """What it does to the cluster; None where nodes are named, and where they were sent out before."""

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


class Basis(Protocol):
    """By what the nodes of one cluster are planned: one set of documents, or each by its release."""

    @property
    def cluster(self) -> Observed: ...
    def ground(self, node: str) -> Ground:
        """What one node is planned by. Raises RecordUnreadable."""
        ...

    def main(self) -> Ground:
        """What the nodes are planned by that have nothing of their own. Raises RecordUnreadable."""
        ...


@dataclass(frozen=True, slots=True)
class Ground:
    """What a plan goes by, gathered once: what is declared, what that makes of this cluster, and its nodes as they are."""

    declared: Declarations
    rules: Rules
    cluster: Observed
    server_version: str
    record: Declared | None = None
    """What this store has declared so far; None where all that we hold counts as declared: for files, and where a person adopts it."""

    @classmethod
    def of(cls, name: str, cluster: Observed, declared: Declarations, server_version: str | None = None) -> Ground:
        """The ground in one cluster, whose version is asked for where none is given."""
        version = server_version or cluster.server_version()
        policies = declared.policies
        pairs = in_force(policies.alias_pairs, version)
        rules = Rules(policies, name, pairs, cluster.owner, declared.number or 0, startup_taints=policies.startup_taints)
        return cls(declared, rules, cluster, version)

    def ground(self, node: str) -> Ground:
        """The same for every node."""
        return self

    def main(self) -> Ground:
        """Itself."""
        return self

    def subject(self, name: str, live: Node | None) -> Subject:
        """One node of it."""
        return self.of_design(name, self.declared.node(name), live)

    def of_design(self, name: str, design: DesignNode | None, live: Node | None) -> Subject:
        """One node of it, whose design is at hand. What we hold on it and this store never declared is kept."""
        found = subject(name, design, live, self.rules)
        held = live.applied.get(self.rules.owner.name, frozenset()) if live else frozenset[str]()
        if self.record is None or live is None or held <= found.labels.keys():
            return found
        strange = self.record.never(name, (key for key in held if key in live.labels and key not in found.labels))
        return replace(found, kept={key: live.labels[key] for key in strange}) if strange else found


class Nothing:
    """Declarations where nothing is released."""

    number = None
    policies = Policies()
    clusters: Mapping[str, Access | Outdated] = {}

    def node(self, name: str) -> DesignNode | None:
        """None."""
        return None

    def nodes(self) -> Iterator[DesignNode]:
        """None."""
        return iter(())


class ByRelease:
    """Each node is planned by what is released to it; with `asked`, by that revision where it is not older than the node's."""

    def __init__(
        self,
        name: str,
        world: World,
        in_force: InForce,
        *,
        asked: int = 0,
        asks_version: bool = False,
        seen: Observed | None = None,
        adopt: bool = False,
    ) -> None:
        """`asks_version`: ask for the cluster's version, in place of the one that is known since some minutes. `seen`: the cluster's nodes,
        where somebody else looks at them too. `adopt`: all that we hold counts as declared by this store.
        """
        cluster = world.cluster(name, in_force.committed)
        self.released = in_force.state(name)
        self.startup_taints = in_force.committed.startup_taints if in_force.committed else frozenset[Taint]()
        """What counts as a startup taint, whatever is released."""
        self.cluster: Observed = seen or showing_taints(cluster, self.startup_taints)
        self._name, self._world, self._asked = name, world, asked
        self._version = functools.cache(cluster.server_version if asks_version else lambda: world.server_version(name, cluster))
        self._grounds: dict[Mark, Ground | RecordUnreadable] = {}
        self._record = record_of(name, in_force, world, adopt=adopt)

    @property
    def revision(self) -> int:
        """The revision of the nodes that have nothing of their own; 0 where there is none."""
        return max(self._asked, self.released.base)

    def mark(self, node: str) -> Mark:
        """What one node is planned by."""
        mark = self.released.mark(node)
        return Mark(self._asked) if self._asked and mark.revision <= self._asked else mark

    def ground(self, node: str) -> Ground:
        """See Basis."""
        return self.of(self.mark(node))

    def main(self) -> Ground:
        """See Basis."""
        return self.of(Mark(self.revision))

    def of(self, mark: Mark) -> Ground:
        """What a mark means. Raises RecordUnreadable, again and again where a record can't be read."""
        key = Mark(mark.revision, mark.override)
        if key not in self._grounds:
            try:
                self._grounds[key] = self._made(key)
            except RecordUnreadable as torn:
                self._grounds[key] = torn
        found = self._grounds[key]
        if isinstance(found, RecordUnreadable):
            raise found
        return found

    def _made(self, mark: Mark) -> Ground:
        declared = self._world.releases.revision(mark.revision) if mark.revision else Nothing()
        ground = replace(Ground.of(self._name, self.cluster, declared, self._version()), record=self._record)
        ground = replace(ground, rules=replace(ground.rules, startup_taints=ground.rules.startup_taints | self.startup_taints))
        if mark.override:
            override = self._world.releases.override_of(mark)
            source = f"an override by {override.by}"
            instead = DeclaredLabels(override.labels, dict.fromkeys(override.labels, source))
            return replace(ground, rules=replace(ground.rules, override=mark.override, instead=instead))
        return ground if mark.released else replace(ground, rules=replace(ground.rules, unreleased=True))


def showing_taints(cluster: Cluster, known: Collection[Taint]) -> Cluster:
    """The cluster, whose nodes show their taints where some of those count as startup taints: else nobody asks for any."""
    return cluster.with_taints() if known and isinstance(cluster, Taints) else cluster


def record_of(cluster: str, in_force: InForce, world: World, *, adopt: bool = False) -> Declared | None:
    """What the store has declared for a cluster's nodes so far; None where a person adopts all that we hold."""
    return None if adopt else Declared(cluster, in_force.state(cluster), world.releases, world.revisions)


def plan_request(request: ActionRequest, world: World, *, only: Sequence[str] | None = None) -> Planned:
    """Plan an accepted request: a sweep brings each node to its release, any other action to the revision that it was accepted for, or to
    the node's release where that is newer.

    `only`: the nodes that an earlier delivery sent out in parts; each gets a task again, in sync by now or not.
    """
    batch = world.rollouts.opened(request.rollout, request.batch or 0) if request.rollout else None
    by_release = request.name == DRIFT_SWEEP or (batch and batch[1].back)
    asked = 0 if by_release else request.revision
    basis = ByRelease(request.cluster, world, world.releases.look(), asked=asked, asks_version=True, adopt=request.adopt)
    planned = Planned(basis.revision, basis.released.k)
    if only is not None:
        planned.tasks = [_bound(task, request.plan) for task in tasks_for(only, basis)]
        _give_back(planned, basis, batch, world)
        return planned
    tally = Tally(request.cluster)
    if request.plan is not None:
        _stay_within(request.plan, request, planned, basis, tally)
        limits = basis.main().rules.policies.limits
        if not planned.stale and (tally.takes_away or (limits and limits.changes)):  # else no limit asks how many nodes there are
            planned.impact = tally.impact(len(basis.cluster.nodes()), whole=False)
        return planned
    basis.cluster = counted = Counted(basis.cluster)
    for name, decided in decisions(request, basis):
        planned.add(name, decided)
        tally.add(name, decided)
    if batch:
        _give_back(planned, basis, batch, world)
        planned.impact = tally.impact(sum(batch[0].placed[request.cluster]), whole=False)
    if request.target_nodes is None:
        every = request.node_filter is None
        overrides = sum(bool(entry.override) for entry in basis.released.names().values()) if asked and every else 0
        planned.impact = tally.impact(counted.count, whole=every, overrides=overrides)
    return planned


def _give_back(planned: Planned, basis: Basis, batch: tuple[Progress, Batch] | None, world: World) -> None:
    """Where a rollout is taken back, have its nodes get the values again that it took from other managers, those in sync by now too."""
    if batch is None or not batch[1].back:
        return
    from shared.work.takeovers import taken_over  # only where a rollout is taken back

    values = taken_over(*batch, world)
    planned.tasks += tasks_for([name for name in planned.unchanged if name in values], basis)
    planned.unchanged = [name for name in planned.unchanged if name not in values]
    planned.tasks = [task.model_copy(update={"give_back": values.get(task.name, {})}) for task in planned.tasks]


def _stay_within(plan: BoundPlan, request: ActionRequest, planned: Planned, basis: Basis, tally: Tally) -> None:
    """Plan what a plan has that somebody has seen; where it holds no more for one of its nodes, nothing at all."""
    from shared.domain.labels.plans import Differs, Done, Due, judge  # few requests are bound to a plan

    if plan.revision not in (None, request.revision):
        planned.stale = f"the plan is stale: it was made for revision {plan.revision}, and revision {request.revision} is committed"
        return
    differing: dict[str, str] = {}
    for name, node, rules in _meant(request, basis):
        decided, live = _decided(name, node, rules), None if isinstance(node, RecordUnreadable) else node.live
        match judge(plan.changes_of(name), decided, live):
            case Due(write):
                planned.add(name, replace(write, task=_bound(write.task, plan)))
                tally.add(name, decided)
            case Done():
                planned.unchanged.append(name)
            case Differs(how):
                differing[name] = how
    if differing:
        planned.stale = stale_message(differing, plan)
        planned.settled = [Outcome(subject=name, outcome="failed", reason=STALE_PLAN, message=how) for name, how in differing.items()]


def _bound(task: NodeTask, plan: BoundPlan | None) -> NodeTask:
    """The task with what it may change: labels, and no taint. The event of its write, or the next sweep, takes that off."""
    return task.model_copy(update={"planned": sorted(plan.changes_of(task.name), key=str), "untaint": []}) if plan else task


def decisions(selection: Selection, basis: Basis) -> Iterator[tuple[str, Settled | Write]]:
    """Decide every node that is meant, in order of names. Writes nothing: a plan is shown, or sent out, by whoever asks."""
    for name, node, rules in _meant(selection, basis):
        yield name, _decided(name, node, rules)


def _decided(name: str, node: Subject | RecordUnreadable, rules: Rules) -> Settled | Write:
    return plan_node(node, rules) if not isinstance(node, RecordUnreadable) else Settled(lost_record(name, str(node)))


def unknown_nodes(names: Iterable[str], declared: Declarations, cluster: Observed) -> list[str]:
    """Those names that neither the documents nor the cluster know."""
    unnamed = [name for name in names if declared.node(name) is None]
    live = live_nodes([name for name in unnamed if is_subdomain(name)], cluster) if unnamed else {}
    return [name for name in unnamed if name not in live]


def tasks_for(names: Sequence[str], basis: Basis) -> list[NodeTask]:
    """A task for each of these nodes, whether it is in sync already or not."""
    live = live_nodes(names, basis.cluster)
    return [_again(name, live.get(name), basis) for name in names]


def _again(name: str, live: Node | None, basis: Basis) -> NodeTask:
    try:
        ground = basis.ground(name)
        return plan_again(ground.subject(name, live), ground.rules)
    except RecordUnreadable as torn:
        return NodeTask(name=name, settled=lost_record(name, str(torn)))


def renewed(names: Sequence[str], cluster: str, world: World, in_force: InForce) -> dict[str, NodeTask]:
    """Nodes of a part as they are released now, which is not as the part has them."""
    basis = ByRelease(cluster, world, in_force)
    return {task.name: _renewed(task, basis.mark(task.name)) for task in tasks_for(names, basis)}


def _renewed(task: NodeTask, mark: Mark) -> NodeTask:
    task = task.model_copy(update={"revision": mark.revision, "override": mark.override})
    if not mark.released and task.aliases is None:
        waits = "what was released to it was taken back, and nothing else is released: nothing is written"
        return task.model_copy(update={"settled": Outcome(subject=task.name, outcome="waiting", reason=NOT_RELEASED, message=waits)})
    what = "an override" if mark.override else f"revision {mark.revision}" if mark.revision else "nothing"
    return task.model_copy(update={"reason": RELEASED_SINCE, "note": f"{what} is released to it since, and was applied instead"})


def _meant(selection: Selection, basis: Basis) -> Iterator[tuple[str, Subject | RecordUnreadable, Rules]]:
    """Every node that is meant, in order of names: with its design, as the cluster shows it, and what it should carry. A node whose own
    release can't be read is meant by every filter.
    """
    main = basis.main()
    if selection.target_nodes is not None:
        live = live_nodes(selection.target_nodes, basis.cluster)
        for name in sorted(selection.target_nodes):
            yield name, *_subject(name, live.get(name), basis, main)
        return
    selected = matcher(selection.node_filter)
    live = {node.name: node for node in basis.cluster.nodes()}
    for name, design, node in everything(main.declared.nodes(), live, main.rules.policies, main.rules.cluster):
        found, rules = _subject(name, node, basis, main, (design,))
        if isinstance(found, RecordUnreadable) or selected(found):
            yield name, found, rules


def _subject(
    name: str, live: Node | None, basis: Basis, main: Ground, in_main: tuple[DesignNode | None] | None = None
) -> tuple[Subject | RecordUnreadable, Rules]:
    """A node and the rules that it goes by. `in_main`: its design in the main documents, where it is at hand."""
    try:
        ground = basis.ground(name)
        if ground is main and in_main:
            return main.of_design(name, in_main[0], live), main.rules
        return ground.subject(name, live), ground.rules
    except RecordUnreadable as torn:
        return torn, main.rules


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
