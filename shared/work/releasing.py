"""Releasing what an action brings, when it is sent; and taking back what it has not brought, when it is stopped or expires."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from datetime import datetime

from shared.domain.actions import ActionOutcome, ActionRequest, Plan
from shared.domain.labels.places import LAST, place_of
from shared.domain.labels.releases import UNBOUND, Bounds
from shared.domain.names import DRIFT_SWEEP, SITE_ACTION_SUCCESS, UPDATE_SITE, UPDATE_VERSIONS
from shared.domain.outcomes import NOT_RELEASED, Outcome
from shared.ledger.actions import WrongState
from shared.ledger.records import RecordUnreadable
from shared.world import World

log = logging.getLogger("hullmark.releasing")
NOT_REACHED = frozenset({"Stopped", "Expired", "NoOutcome", NOT_RELEASED})
"""Reasons of outcomes that say that a node was not brought anything."""
TAKEN_BACK = frozenset({"stopped", "expired"})
"""Results of actions whose release is taken back from the nodes that they did not reach."""


def releases(request: ActionRequest) -> bool:
    """Whether an action releases what it brings: dry runs and sweeps bring nothing that is new, and of an action over several clusters each
    cluster's own releases it.
    """
    return not request.dry_run and not request.clusters and request.name not in (DRIFT_SWEEP, UPDATE_VERSIONS)


def rejected_since(request: ActionRequest, plan: Plan, world: World) -> str:
    """Why an action may not release its revision: a person took that back after the action was accepted. Empty where nobody did, and where
    it was released before.
    """
    if not releases(request) or plan.reason or not (why := world.revisions.rejection(request.revision)) or _brings_back(request, world):
        return ""
    return why if world.releases.find(request.cluster, request.id, plan.release) is None else ""


def _brings_back(request: ActionRequest, world: World) -> bool:
    return bool(request.rollout) and world.rollouts.opened(request.rollout or "", request.batch or 0)[1].back


def release(request: ActionRequest, plan: Plan, planned_by: int, world: World, now: datetime) -> int:
    """Release what a plan brings to its nodes, unless that was done. The number of the cluster's newest release, where nobody but this
    action released anything since release `planned_by`; else 0, and who applies has to look what is released to each node.

    After the limits, before the parts: what could not be planned, and what somebody stopped by now, releases nothing.
    """
    if not releases(request) or plan.reason or _over(request, plan, world, now):
        return 0
    if request.rollout:
        return _advance(request, plan, planned_by, world, now)
    if request.supersede:
        _take_the_place_of_rollouts(request, world, now)
    chain, by = world.releases, request.requested_by
    if request.name == UPDATE_SITE:
        newest = chain.to_all(
            request.cluster, request.id, request.revision, since=plan.release, by=by, at=now, bounds=_bounds(request, plan)
        )
    else:
        names = [*(name for part in plan.parts for name in part), *plan.unchanged, *(outcome.subject for outcome in plan.settled)]
        newest = chain.to_names(request.cluster, request.id, request.revision, names, since=plan.release, by=by, at=now)
    if _over(request, plan, world, now):  # while it was released: whoever ended it may have looked before
        return 0
    return newest.k if newest.k == planned_by + newest.made else 0


def _take_the_place_of_rollouts(request: ActionRequest, world: World, now: datetime) -> None:
    """End the rollouts that are on their way in a cluster, or wait to begin there. What they reached they keep, until the action has it.

    Only now: an action that the limits blocked would have ended them for nothing.
    """
    from shared.domain.rollouts.progress import Said, given
    from shared.ledger.rollouts import UnknownRollout

    said = Said("supersede", request.requested_by, now, message=f"action {request.id} takes its place")
    way = world.releases.head(request.cluster).about.next
    for rollout in sorted({*world.rollouts.open(), *([way.rollout] if way else [])}):
        with contextlib.suppress(UnknownRollout, RecordUnreadable):
            found = world.rollouts.get(rollout)
            if request.cluster in found.clusters and found.revision <= request.revision:
                world.rollouts.change(rollout, lambda state: given(state, said) if state.unfinished else state)


def _advance(request: ActionRequest, plan: Plan, planned_by: int, world: World, now: datetime) -> int:
    """Release a rollout's revision to one batch of it. Where the rollout is not on its way any more, the batch is stopped."""
    rollout, batch = world.rollouts.opened(request.rollout or "", request.batch or 0)
    if batch.back:
        return 0
    whole = batch.start + batch.count == rollout.placed[batch.cluster][batch.stage]
    names = request.target_nodes or []
    to = (batch.stage, LAST if whole else place_of(names[-1]))
    newest = world.releases.advance(batch.cluster, rollout.id, request.id, to, names, since=plan.release, by=request.requested_by, at=now)
    if newest is None:
        with contextlib.suppress(WrongState):
            world.actions.control(request.id, "stop", f"rollout {rollout.id}, which goes on no further", now)
        return 0
    return newest.k if newest.k == planned_by + newest.made else 0


def _bounds(request: ActionRequest, plan: Plan) -> Bounds:
    """What the action was let through for."""
    impact = plan.impact
    return Bounds(request.id, impact.nodes, impact.removals, impact.takeovers) if impact else UNBOUND


def _over(request: ActionRequest, plan: Plan, world: World, now: datetime) -> bool:
    """Whether the action was stopped, or has ended: then what it released is taken back from the nodes that it did not reach."""
    over = world.actions.stopped(request.id) or world.actions.outcome(request.id) is not None
    if over:
        take_back(request, plan, world.actions.part_outcomes(request.id, plan).values(), world, now)
    return over


def tag(number: int, name: str, by: str, world: World, now: datetime) -> None:
    """Tag a revision for a person. `site-action-success` adopts a site that was deployed by other means: where nothing is released, in a
    cluster that the revision declares, the revision is from now on. Raises UnknownRevision.
    """
    revision = world.revisions.get(number)
    if name == SITE_ACTION_SUCCESS:
        for cluster in sorted(revision.clusters) or [world.default_cluster(revision)]:
            world.releases.adopt(cluster, number, by, now)
    world.releases.keep()
    world.revisions.tag(number, name, by, now)


def take_back(request: ActionRequest, plan: Plan, parts: Iterable[Iterable[Outcome]], world: World, now: datetime) -> None:
    """Take an action's release back from the nodes that have no outcome in `parts`, nor in its plan."""
    told = [outcome for part in (plan.settled, *parts) for outcome in part]
    _take_back(request, plan, plan.unchanged, told, world, now)


def take_back_at_end(request: ActionRequest, outcome: ActionOutcome, world: World, now: datetime) -> bool:
    """Take an action's release back, where it ended before it had reached every node; one that was stopped when all were reached gives it
    to those again. False where that can't be done now, because what is released can't be read.
    """
    if not releases(request) or not (outcome.result in TAKEN_BACK or world.actions.stopped(request.id)):
        return True
    try:
        if plan := world.actions.plan(request.id):
            _take_back(request, plan, outcome.unchanged, outcome.outcomes, world, now)
    except RecordUnreadable as torn:
        log.warning("action %s: what it did not bring is not taken back yet: %s", request.id, torn)
        return False
    return True


def _take_back(request: ActionRequest, plan: Plan, unchanged: Iterable[str], told: Iterable[Outcome], world: World, now: datetime) -> None:
    if request.rollout:
        return  # what a rollout released it takes back as a whole
    reached = {outcome.subject for outcome in told if outcome.outcome != "stopped" and outcome.reason not in NOT_REACHED}
    world.releases.take_back(request.cluster, request.id, reached.union(unchanged), since=plan.release, by=request.requested_by, at=now)
