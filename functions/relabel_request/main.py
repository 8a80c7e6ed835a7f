"""Turn a request into parts: one listing of the cluster, no write to it. Nodes that already match are settled here.

in   relabel-requests   RelabelRequest
out  node-applies       NodeApply, one a part
     results            PartResult, where there is nothing to apply
     relabel-requests   RelabelRequest, one a cluster, where several are meant
     notices            request refused, loss held
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import functions_framework
from cloudevents.http import CloudEvent
from ulid import ULID

from shared import telemetry, wiring
from shared.domain.actions import REVISION_REJECTED, ActionOutcome, ActionRequest, Plan, child_id, split
from shared.domain.labels.bound import STALE_PLAN
from shared.domain.labels.plans import Waits
from shared.domain.labels.sweeps import due
from shared.domain.names import DRIFT_SWEEP, UNKNOWN
from shared.domain.notices import REQUEST_REFUSED
from shared.domain.outcomes import NOTHING_WRITTEN, NodeTask, Outcome
from shared.ledger.records import RecordUnreadable
from shared.messages import LAST_ATTEMPT, Delivery, Malformed, NodeApply, Notice, PartResult, RelabelRequest
from shared.ports import ClusterError, StoreError
from shared.work.filters import beyond_together
from shared.work.intake import Refusal, Rejected, accept
from shared.work.limits import beyond_limits
from shared.work.losses import hold_back
from shared.work.planning import Planned, plan_request
from shared.work.releasing import rejected_since, release, take_back_at_end
from shared.work.several import send_children
from shared.world import World

NOT_YET = "not yet"
"""What a sweep comes to that is spread over the hour, and is nobody's turn."""


@functions_framework.cloud_event
def relabel_request(event: CloudEvent) -> None:
    """Entry point: decode, hand over. What can't be read or must be refused is told once, not delivered again."""
    delivery = Delivery.from_event(event)
    with telemetry.handling("relabel_request", delivery) as line:
        world = wiring.world()
        now = world.clock()
        request = None
        try:
            request = RelabelRequest.parse(delivery.data).as_claimed()
            action = request.action or delivery.action_id(now)
            line.action, line.subject = action, request.name
            line.outcome(handle(request, action, world, now, last=delivery.attempt >= LAST_ATTEMPT))
        except Malformed as malformed:
            line.outcome(refuse(delivery, request, [Refusal("Malformed", str(malformed))], world, now), reason=str(malformed))
            line.warn()
        except Rejected as rejected:
            line.outcome(refuse(delivery, request, rejected.problems, world, now), reason=str(rejected))
            line.warn()


def handle(request: RelabelRequest, action: str, world: World, now: datetime, *, last: bool = False) -> str:
    """Accept, plan and send out. Delivered again, it goes on with the plan that was made first.

    Raises what the cluster or the store raised, unless that is final or this is the last delivery: then the action ends with the cause,
    as it does where one of its records can't be read. The cluster has to answer before the function would be cut off.
    """
    world = world.within(world.time_left())
    try:
        return (
            fan_out(request, action, world)
            or held_with_the_fleet(request, action, world)
            or carry_on(request, action, world, now, last=last)
        )
    except RecordUnreadable as torn:
        if not world.actions.begun(action):
            raise Rejected(Refusal(torn.reason, str(torn))) from torn
        world.actions.end_unreadable(action, torn, now)
        world.bus.publish(PartResult.TOPIC, [PartResult(action=action).outgoing()])  # so that its end is announced
        return "unreadable"


def held_with_the_fleet(request: RelabelRequest, action: str, world: World) -> str:
    """The clock's sweep of a fleet that is paused is no action, and nobody is told. Empty for all others."""
    held = request.name == DRIFT_SWEEP and not request.dry_run and world.pauses.paused() and not world.actions.begun(action)
    return "held: the fleet is paused" if held else ""


def carry_on(request: RelabelRequest, action: str, world: World, now: datetime, *, last: bool) -> str:
    """The request of one cluster, from wherever earlier deliveries left it."""
    accepted = accept(request, action, world, now)
    if ended := world.actions.outcome(action):
        take_back_at_end(accepted, ended, world, now)  # who released it may have died before it saw the end
        return "ended already"
    if accepted.clusters:
        return send_children(accepted, world, now)
    plan = world.actions.plan(action)
    try:
        planned = plan_request(accepted, world, only=None if plan is None else [name for part in plan.parts for name in part])
    except (ClusterError, StoreError) as error:
        if plan or (error.retryable and not last):
            raise
        plan, planned = unplanned(accepted, error, now), Planned(accepted.revision)
    else:
        if plan is None and accepted.name == DRIFT_SWEEP:
            planned = hold_back(planned, accepted, world, now)
        plan = plan or make_plan(accepted, planned, world, now)
    plan = world.actions.settle_plan(action, plan)
    if why := rejected_since(accepted, plan, world):
        return end_rejected(accepted, plan, why, world, now)
    newest = release(accepted, plan, planned.release, world, now)
    return send(accepted, plan, {task.name: task for task in planned.tasks}, world, newest)


def end_rejected(request: ActionRequest, plan: Plan, why: str, world: World, now: datetime) -> str:
    """End an action whose revision was taken back after it was accepted. Nothing of it was released or sent."""
    ended = ActionOutcome(result="blocked", finished_at=now, revision=plan.revision, reason=REVISION_REJECTED, message=why)
    world.actions.end(request.id, ended)
    world.bus.publish(PartResult.TOPIC, [PartResult(action=request.id, revision=plan.revision).outgoing()])  # so that it is announced
    return "blocked"


def fan_out(request: RelabelRequest, action: str, world: World) -> str:
    """A sweep that names no cluster means every one: where the documents declare several, one request for each. Empty for all others.
    A sweep that is spread over the hour means those whose turn it is.
    """
    if request.name != DRIFT_SWEEP or request.cluster or request.clusters:
        return ""
    committed = None if world.settings.cluster else world.releases.look().committed
    declared = sorted(committed.clusters) if committed else []
    turn = due(declared or [world.settings.cluster], ULID.from_str(action).datetime, request.spread) if request.spread else declared
    if request.spread and not turn:
        return NOT_YET
    if len(declared) < 2:
        return ""
    once = request.model_copy(update={"spread": None})
    requests = [once.model_copy(update={"cluster": name, "action": child_id(action, name)}) for name in turn]
    world.bus.publish(RelabelRequest.TOPIC, [message.outgoing() for message in requests])
    return f"{len(requests)} clusters"


def make_plan(request: ActionRequest, planned: Planned, world: World, now: datetime) -> Plan:
    """Cut what must be written into parts. A dry run writes nothing: what would change is settled as such. What goes beyond the limits
    ends the action as blocked, before anything is released.
    """
    beyond = beyond_limits(request, planned.impact, world, now) or beyond_together(request, planned, world, now)
    plan = Plan(
        revision=planned.revision,
        release=planned.release,
        planned_at=now,
        parts=[],
        unchanged=planned.unchanged,
        settled=planned.settled,
    )
    if planned.stale:
        return plan.model_copy(update={"reason": STALE_PLAN, "message": planned.stale})
    plan = plan.model_copy(update={"impact": planned.impact})
    if request.dry_run:
        words = NOTHING_WRITTEN + (f"; for real it would be blocked: {beyond.message}" if beyond else "")
        return plan.model_copy(update={"settled": [*planned.settled, *planned.preview], "message": words})
    if beyond:
        ended = {"reason": beyond.reason, "message": beyond.message, "blocked": True, "unchanged": [], "settled": []}
        return plan.model_copy(update=ended)
    parts = split([task.name for task in planned.tasks])
    return plan.model_copy(update={"parts": parts, "waits": waiting(request, planned.revision, world)})


def waiting(request: ActionRequest, base: int, world: World) -> str:
    """What a sweep says of a newer revision that nobody has released; empty where there is none, or a person rejected it."""
    newer = Waits.of(request.revision, base) if request.name == DRIFT_SWEEP else None
    if newer is None or world.revisions.rejection(newer.revision):
        return ""
    return f"{newer} to cluster {request.cluster}: `hullmark relabel` releases it"


def unplanned(request: ActionRequest, error: ClusterError | StoreError, now: datetime) -> Plan:
    """The plan of a request that can't be planned: every node that it names has failed with the cause."""
    failed = [
        Outcome(subject=name, outcome="failed", reason=error.reason, message=str(error), retryable=error.retryable)
        for name in request.target_nodes or ()
    ]
    return Plan(revision=request.revision, planned_at=now, parts=[], settled=failed, reason=error.reason, message=str(error))


def send(request: ActionRequest, plan: Plan, tasks: dict[str, NodeTask], world: World, newest: int) -> str:
    """Publish every part that has no result yet, or an empty result that lets the action end where every part has one. `newest`: the number
    of the release that every set is of; 0 where node_apply has to look that up.
    """
    done = world.actions.recorded(request.id)
    messages = [
        NodeApply(
            action=request.id,
            part=number,
            cluster=request.cluster,
            revision=plan.revision,
            release=newest,
            nodes=[tasks[name] for name in names],
        ).outgoing()
        for number, names in enumerate(plan.parts, 1)
        if number not in done
    ]
    if not messages:
        nothing = PartResult(action=request.id, revision=plan.revision)
        world.bus.publish(PartResult.TOPIC, [nothing.outgoing()])
        return "nothing to apply"
    world.bus.publish(NodeApply.TOPIC, messages)
    return f"{len(messages)} parts"


def refuse(delivery: Delivery, request: RelabelRequest | None, problems: Sequence[Refusal], world: World, now: datetime) -> str:
    """Record and tell that a request was refused, and why. An action that was accepted before stays as it is."""
    from shared.ledger.refusals import RefusedRequest  # only where there is one

    world.refused_requests.add(
        delivery.action_id(now),
        RefusedRequest(
            message_id=delivery.id,
            at=now,
            by=request.requested_by if request else UNKNOWN,
            asked=f"{request.name} on {request.meant}" if request else "",
            reason=problems[0].reason,
            message="; ".join(problem.message for problem in problems),
        ),
    )
    notice = Notice(
        id=REQUEST_REFUSED.id(delivery.id),
        type=REQUEST_REFUSED.type,
        subject=delivery.attributes.get("identity", delivery.id),
        time=now,
        data={
            "problems": [{"reason": problem.reason, "message": problem.message} for problem in problems],
            "request": delivery.data.decode(errors="replace")[:2000],
        },
    )
    world.bus.publish(Notice.TOPIC, [notice.outgoing()])
    return "refused"
