"""What a change does to the nodes of a cluster, from its listing or from the design, and whether a person must accept it first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from shared.domain.actions import ActionRequest
from shared.domain.labels.impact import (
    Acceptance,
    Accepting,
    Beyond,
    Bounds,
    Impact,
    Others,
    RevisionImpact,
    bounds_of,
    revision_impact,
    stricter,
    verdict,
)
from shared.domain.labels.policies import DeclaredLabels, declare
from shared.domain.labels.selection import Selection
from shared.domain.labels.tally import Tally
from shared.domain.names import DRIFT_SWEEP
from shared.domain.nodes import Node, Owner
from shared.ledger.acceptances import Accepted
from shared.ledger.releases import InForce
from shared.ledger.revisions import Revision, UnknownRevision
from shared.ports import ClusterError, StoreError
from shared.work.planning import Counted, Declarations, Ground, Observed, decisions, record_of
from shared.world import World

if TYPE_CHECKING:
    from shared.domain.rollouts.progress import Batch, Progress

T = TypeVar("T")
R = TypeVar("R")
LOOK_SECONDS = 20.0
"""Seconds that a commit gives the clusters to list their nodes; those that have not answered by then are judged by the design alone."""
LISTED = 8
"""Clusters whose nodes are listed at a time: each is in memory whole."""
EVERY_NODE = Selection()


class Listing:
    """Nodes that were listed before, in place of their cluster."""

    def __init__(self, nodes: list[Node], server_version: str, owner: Owner) -> None:
        self._nodes, self._version, self.owner = nodes, server_version, owner

    def server_version(self) -> str:
        return self._version

    def nodes(self) -> list[Node]:
        return self._nodes

    def node(self, name: str) -> Node | None:
        return next((node for node in self._nodes if node.name == name), None)

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return [work(item) for item in items]


# --- a revision, before anybody asks for it ---------------------------------------------------------------------------------------------


def impact_of(declared: Declarations, world: World, asked: Acceptance) -> RevisionImpact:
    """What these documents would do to every cluster, as its nodes are now. It takes LOOK_SECONDS at most, and refuses nothing."""
    left, end = world.time_left(), world.monotonic() + LOOK_SECONDS
    world = world.within(lambda: min(left(), end - world.monotonic()))
    in_force = world.releases.look()
    names = sorted({*clusters_of(declared, world), *(in_force.committed.clusters if in_force.committed else ())})
    impacts = world.workers.each(lambda name: _impact(name, declared, in_force, world), names, LISTED)
    return revision_impact(impacts, {name: bounds_in(name, in_force, world, declared) for name in names}, asked)


def clusters_of(declared: Declarations, world: World) -> list[str]:
    """The clusters that these documents reach, and the settings' default one."""
    return sorted({*declared.clusters, *(["default"] if world.settings.cluster or not declared.clusters else [])})


def _impact(name: str, declared: Declarations, in_force: InForce, world: World) -> Impact:
    if not world.knows(name, declared) and in_force.committed and name in in_force.committed.clusters:
        return Impact(cluster=name, unseen=f"cluster {name} is not declared any more: its nodes stay as they are, and nothing repairs them")
    try:
        overrides = sum(bool(entry.override) for entry in in_force.state(name).names().values())
        cluster, unseen = _observed(name, declared, in_force, world)
        counted, tally = Counted(cluster), Tally(name)
        for node, decided in decisions(EVERY_NODE, replace(Ground.of(name, counted, declared), record=record_of(name, in_force, world))):
            tally.add(node, decided)
    except (ClusterError, StoreError, UnknownRevision) as error:
        return Impact(cluster=name, unseen=f"cluster {name} could not be looked at: {error}")
    return tally.impact(counted.count, whole=True, overrides=overrides, unseen=unseen)


def _observed(name: str, declared: Declarations, in_force: InForce, world: World) -> tuple[Observed, str]:
    """The cluster's nodes as they are now, or, where it does not answer, as they are released, and why."""
    try:
        cluster = world.cluster(name, declared)
        return Listing(cluster.nodes(), world.server_version(name, cluster), cluster.owner), ""
    except ClusterError as error:
        owner = world.settings.field_managers
        why = f"cluster {name} does not answer ({error})" if world.knows(name, declared) else "no cluster is named to look at"
        unseen = (
            f"{why}: counted from the documents, as if the nodes were as they are released; without labels of others, nodes that no "
            "document names, and policies that select by the nodes' own labels"
        )
        return Listing(list(_as_released(name, in_force, world, owner)), "", owner), unseen


def _as_released(name: str, in_force: InForce, world: World, owner: Owner) -> Iterator[Node]:
    """The nodes that documents name, each with what is released to it and nothing else."""
    base = in_force.holding(name)
    state = in_force.state(name)
    names = {design.name for design in base.nodes() if base.policies.concern(design, name)} if base else set()
    for node in sorted(names.union(state.names())):
        mark = state.mark(node)
        if mark.override:
            labels: Mapping[str, str] = world.releases.override_of(mark).labels
        else:
            labels = _declared(node, name, world.releases.revision(mark.revision) if mark.revision else None, owner)
        yield Node(node, "", labels, "", dict.fromkeys(labels, (owner.name,)), {owner.name: frozenset(labels)})


def _declared(node: str, cluster: str, revision: Revision | None, owner: Owner) -> Mapping[str, str]:
    if revision is None:
        return {}
    declared = declare(node, revision.node(node), None, revision.policies, cluster, owner)
    return declared.labels if isinstance(declared, DeclaredLabels) else {}


# --- a request --------------------------------------------------------------------------------------------------------------------------


def bounds_in(cluster: str, in_force: InForce, world: World, newest: Declarations | None = None) -> Bounds:
    """The limits in force: of the newest documents' and of those that are released to the cluster the stricter ones, so that a commit
    does not take its own guard away. Where the released ones can't be read, those of the newest.
    """
    newest = newest or in_force.committed
    bounds = bounds_of(newest.policies.limits if newest else None)
    try:
        base = in_force.holding(cluster)
        return stricter(bounds, bounds_of(base.policies.limits)) if base else bounds
    except (StoreError, UnknownRevision):
        return bounds


def bounds_for(revision: int | None, cluster: str, in_force: InForce, world: World, newest: Declarations | None = None) -> Bounds:
    """The limits for a revision in a cluster. What the cluster has already, released again, repairs: then only labels that would be removed
    count.
    """
    bounds = bounds_in(cluster, in_force, world, newest)
    return Bounds(removals=bounds.removals) if revision == in_force.state(cluster).base else bounds


def would_exceed(impact: Impact, declared: Declarations, in_force: InForce, world: World) -> Beyond | None:
    """What would keep a relabel by these documents from being sent out, as far as nobody has accepted it."""
    name, number = impact.cluster, declared.number
    bounds = bounds_for(number, name, in_force, world, declared)
    beyond = verdict(impact, bounds)
    if beyond is None or number is None:
        return beyond
    return verdict(impact, bounds, kept=world.acceptances.holding(number, name, in_force.state(name).base))


def beyond_limits(request: ActionRequest, impact: Impact | None, world: World, now: datetime) -> Beyond | None:
    """What keeps a planned request from being sent out; None where nothing does. What it accepts of that is recorded.

    Nodes that a person named are the person's word (a plan's are not: a pipeline makes and applies plans); a sweep has its own measure.
    """
    named = request.target_nodes is not None and request.plan is None and not request.rollout
    if impact is None or named or request.name == DRIFT_SWEEP:
        return None
    if request.rollout:
        rollout, batch = world.rollouts.opened(request.rollout, request.batch or 0)
        if batch.back:
            return None
        impact = with_earlier(impact, rollout, batch)
    in_force = world.releases.look()
    base = in_force.state(request.cluster).base
    bounds = bounds_for(request.revision, request.cluster, in_force, world)
    others = world.actions.count(request, Others(impact.removals, impact.takeovers, impact.changes))
    beyond = verdict(impact, bounds, request.accepted, others=others)
    if beyond is None and request.accepted and not request.dry_run and verdict(impact, bounds, others=others):
        _record(request, impact, base, world, now)
    kept = world.acceptances.holding(request.revision, request.cluster, base) if beyond else ()
    return beyond and verdict(impact, bounds, request.accepted, kept, others)


def with_earlier(impact: Impact, rollout: Progress, batch: Batch) -> Impact:
    """The impact of a rollout's batch together with what earlier ones did to the same cluster: many small steps are not a way around."""
    earlier = [each.fact for each in rollout.batches if each.cluster == batch.cluster and each.fact and each.action != batch.action]
    counts = {what: getattr(impact, what) + sum(getattr(fact, what) for fact in earlier) for what in ("removals", "takeovers", "changes")}
    return impact.model_copy(update=counts)


def _record(request: ActionRequest, impact: Impact, base: int, world: World, now: datetime) -> None:
    """What is accepted for several clusters together is recorded for each as what it comes to there."""
    accepted = request.accepted
    if request.parent:
        said = {what: getattr(impact, what) for what, count in accepted if count is not None}
        accepted = Acceptance(**said)
    world.acceptances.add(
        Accepted(
            revision=request.revision,
            cluster=request.cluster,
            base=base,
            removals=accepted.removals,
            takeovers=accepted.takeovers,
            changes=accepted.changes,
            by=request.requested_by,
            at=now,
            reason=f"with action {request.id}",
        ),
        request.id,
    )


def accept(
    revision: int, clusters: Sequence[str], accepting: Accepting, world: World, *, by: str, now: datetime, reason: str = ""
) -> list[Accepted]:
    """Record a person's word for a revision on these clusters, each on top of what is released there now. Raises RecordUnreadable."""
    in_force = world.releases.look()
    said = accepting.accepted.model_dump()
    made = [
        Accepted(revision=revision, cluster=name, base=in_force.state(name).base, by=by, at=now, reason=reason, **said) for name in clusters
    ]
    for accepted in made:
        world.acceptances.add(accepted)
    return made
