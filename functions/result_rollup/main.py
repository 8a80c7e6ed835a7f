"""Store each result under its identity, and close the action when all are in. Messages that nobody could handle end here too.

in   results            PartResult
in   dead-letters       any message, as its function could not take it
in   action-deadlines   DeadlineCheck (a clock)
out  results            PartResult, to the action over several clusters that this one belongs to
     notices            action finished, message lost
     rollouts           RolloutStep, when a batch of a rollout has ended
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import functions_framework
from cloudevents.http import CloudEvent

from shared import telemetry, wiring
from shared.domain.actions import ActionOutcome, ActionRequest, Plan, conclude, quiet_sweep, told_of
from shared.domain.names import SITE_ACTION_FAILURE, SITE_ACTION_SUCCESS, UPDATE_SITE
from shared.domain.notices import MESSAGE_LOST, NODE_FAILED
from shared.domain.outcomes import Outcome
from shared.ledger import repairs
from shared.ledger.actions import NeverPlanned, finished_notice
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import UnknownRevision
from shared.messages import DeadlineCheck, Delivery, Malformed, NodeApply, Notice, PartResult, RelabelRequest, RolloutStep, VersionUpdate
from shared.work.releasing import take_back_at_end
from shared.world import World

SOURCE = "CloudPubSubDeadLetterSourceSubscription"
SWEPT = "sweeps/"
"""Where the store remembers the hour of the last look back."""
LOOKED_BACK = 72
"""Hours that it goes back where no sweep ran for long."""
LOOKED_AT_A_TIME = 500
"""Actions that one look asks for their end, until an hour is through: of more, the next sweep takes up the rest."""
LISTED_AT_A_TIME = 200
"""Actions of an earlier release that one sweep has listed: a read and a write each."""
CLEARED_AT_A_TIME = 50
"""Revisions whose passed-over buffers one sweep removes."""
FORGOTTEN_AT_A_TIME = 50
"""Actions whose records one sweep removes: about 300 objects. A sweep every five minutes removes 14,000 a day."""
log = logging.getLogger("hullmark.result_rollup")


@functions_framework.cloud_event
def result_rollup(event: CloudEvent) -> None:
    """Entry point: decode by topic, hand over."""
    delivery = Delivery.from_event(event)
    with telemetry.handling("result_rollup", delivery) as line:
        world = wiring.world()
        now = world.clock()
        if SOURCE in delivery.attributes:
            line.outcome(bury(delivery, world, now))
        elif delivery.topic == DeadlineCheck.TOPIC:
            line.outcome(sweep(world, now))
        else:
            result = PartResult.parse(delivery.data)
            line.action, line.subject = result.action or "", f"part {result.part}"
            try:
                line.outcome(handle(result, world, now) if result.action else tell_failures(result, delivery.id, world, now))
            except NeverPlanned as refused:
                line.warn()
                line.outcome("refused", "NeverPlanned", text=str(refused))


def handle(result: PartResult, world: World, now: datetime) -> str:
    """Keep one part's outcomes; when it was the last one, end the action. Raises NeverPlanned, and then keeps nothing."""
    if result.action is None:
        return "of no action"
    try:
        plan = world.actions.plan(result.action)
        check_planned(result, plan, world)
        unreadable = None
    except RecordUnreadable as torn:
        plan, unreadable = None, torn
    if result.part:
        world.actions.record(result)
    outcome = world.actions.outcome(result.action)
    if outcome is None and unreadable:
        outcome = world.actions.end_unreadable(result.action, unreadable, now)
    outcome = outcome or world.actions.close_if_complete(result.action, now, plan)
    if outcome is None:
        return "recorded"
    announce(result.action, outcome, world)
    return outcome.result


def check_planned(result: PartResult, plan: Plan | None, world: World) -> None:
    """A result belongs to an accepted action, and to a part of its plan; 0 is no part, and asks only whether the action is complete.
    Raises NeverPlanned.
    """
    if plan is None and (result.action is None or world.actions.find(result.action) is None):
        raise NeverPlanned(f"a result of action {result.action}, which was never accepted: nothing is recorded")
    parts = len(plan.parts) if plan else 0
    if result.part > parts:
        raise NeverPlanned(f"a result of part {result.part} of action {result.action}, whose plan has {parts}: nothing is recorded")


def tell_failures(result: PartResult, message: str, world: World, now: datetime) -> str:
    """No one waits for work that no action requested (cluster events), so failures become a notice."""
    failed = [outcome for outcome in result.outcomes if outcome.outcome == "failed"]
    if failed:
        notice = Notice(
            id=NODE_FAILED.id(message),
            type=NODE_FAILED.type,
            subject=failed[0].subject,
            time=now,
            data={"revision": result.revision, "failed": [outcome.model_dump(exclude_none=True) for outcome in failed]},
        )
        world.bus.publish(Notice.TOPIC, [notice.outgoing()])
    return f"{len(failed)} failed" if failed else "of no action"


def announce(action: str, outcome: ActionOutcome, world: World) -> None:
    """Take back what it did not bring; tell whom its end concerns: the parent of an action on one of several clusters, the revision of a
    site action, and everybody by a notice. Repeated until all that is known to be done; readers drop repeats by id.
    """
    request = None if world.actions.announced(action) else world.actions.shown(action)
    taken_back = True
    if request:
        taken_back = take_back_at_end(request, outcome, world, outcome.finished_at)
        if request.parent:
            part = PartResult(action=request.parent, part=request.part, revision=outcome.revision, outcomes=[told_of(request, outcome)])
            world.bus.publish(PartResult.TOPIC, [part.outgoing()])
        elif request.name == UPDATE_SITE and not request.dry_run and outcome.revision and outcome.result != "blocked":
            tag(request, outcome, world)
        world.bus.publish(Notice.TOPIC, [finished_notice(request, outcome).outgoing()])
        if request.rollout:
            world.bus.publish(RolloutStep.TOPIC, [RolloutStep(rollout=request.rollout).outgoing()])
    if taken_back:
        world.actions.mark_announced(action)
        if request and quiet_sweep(request, outcome):
            world.actions.keep_newest_quiet(request)


def tag(request: ActionRequest, outcome: ActionOutcome, world: World) -> None:
    """Tag the revision that a site action brought to the nodes. One that can't be read (or is gone) gets no tag and holds up nothing."""
    try:
        world.releases.keep()  # what the action did not release must not count as released by its tag
        name = SITE_ACTION_SUCCESS if outcome.result == "success" else SITE_ACTION_FAILURE
        world.revisions.tag(outcome.revision, name, request.requested_by, outcome.finished_at)
    except (UnknownRevision, RecordUnreadable) as error:
        log.warning("action %s: revision %d is not tagged: %s", request.id, outcome.revision, error)


def sweep(world: World, now: datetime) -> str:
    """End what is overdue or can't be read, and announce what ended without its notice getting out. An action that this fails for,
    whatever the cause, does not keep the others from ending; the cause is raised once they have.
    """
    ended, failed, hourly = 0, list[Exception](), False
    try:
        hourly = look_back(world, now)
    except Exception as error:
        failed.append(error)
    for action in world.actions.open():
        try:
            outcome = world.actions.outcome(action) or world.actions.close_if_complete(action, now) or world.actions.expire(action, now)
            if outcome:
                announce(action, outcome, world)
                ended += 1
        except Exception as error:
            failed.append(error)
    if failed:
        raise failed[0]
    world.actions.list_old(now, LISTED_AT_A_TIME)
    world.actions.forget(now - timedelta(days=world.settings.keep_actions_days), FORGOTTEN_AT_A_TIME)
    if hourly:
        tidy(world, now)
    return f"{ended} ended"


def tidy(world: World, now: datetime) -> None:
    """Remove what nobody will ask for any more: buffers that were passed over, repairs and marks of what is over."""
    world.revisions.forget_staged(now - timedelta(days=world.settings.keep_actions_days), CLEARED_AT_A_TIME)
    world.losses.forget(now)
    repairs.forget(world.store, world.revisions.newest(), now)


def look_back(world: World, now: datetime) -> bool:
    """Once an hour: look after actions that are overdue and have lost the mark that they are open. Each is looked at once. False where
    this hour's look is done.
    """
    this = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if world.store.get(_swept(this)) is not None:
        return False
    marks = world.store.keys(SWEPT)
    missed = (this - timedelta(hours=number) for number in range(1, LOOKED_BACK))
    done = next((hour for hour in missed if _swept(hour) in marks), this - timedelta(hours=LOOKED_BACK))
    overdue, looked_at = timedelta(seconds=world.settings.action_seconds), 0
    while done < this and looked_at < LOOKED_AT_A_TIME:
        looked_at += world.actions.mark_open(done - overdue, done + timedelta(hours=1) - overdue)
        done += timedelta(hours=1)
    world.store.create(_swept(done), b"")
    for key in marks:
        if key != _swept(done):
            world.store.delete(key)
    return True


def _swept(hour: datetime) -> str:
    return f"{SWEPT}{hour:%Y-%m-%dT%H}"


def bury(delivery: Delivery, world: World, now: datetime) -> str:
    """Turn a message that its function kept failing on into recorded failures that a person can read."""
    count = delivery.attributes.get("CloudPubSubDeadLetterSourceDeliveryCount", "several")
    cause = f"given up after {count} deliveries; the function's log says why"
    readers = {"NodeApply": _bury_part, "VersionUpdate": _bury_update, "PartResult": _bury_result, "RelabelRequest": _bury_request}
    try:
        reader = readers.get(
            delivery.attributes.get("type", ""), _bury_request if "relabel-requests" in delivery.attributes[SOURCE] else None
        )
        if reader:
            return reader(delivery, cause, world, now)
    except (Malformed, NeverPlanned) as unreadable:
        cause = f"{cause}; {unreadable}"
    lost = Notice(
        id=MESSAGE_LOST.id(f"{delivery.attributes[SOURCE]}/{delivery.id}"),
        type=MESSAGE_LOST.type,
        subject=delivery.attributes[SOURCE],
        time=now,
        data={"message": cause, "body": delivery.data.decode(errors="replace")[:2000]},
    )
    world.bus.publish(Notice.TOPIC, [lost.outgoing()])
    return "lost"


def _bury_part(delivery: Delivery, cause: str, world: World, now: datetime) -> str:
    task = NodeApply.parse(delivery.data)
    outcomes = [node.settled or _lost(node.name, cause) for node in task.nodes]
    return handle(PartResult(action=task.action, part=task.part, revision=task.revision, outcomes=outcomes), world, now)


def _bury_update(delivery: Delivery, cause: str, world: World, now: datetime) -> str:
    task = VersionUpdate.parse(delivery.data)
    outcomes = [_lost(f"{update.component}/{update.subject}", cause) for update in task.updates]
    return handle(PartResult(action=task.action, part=task.part, outcomes=outcomes), world, now)


def _bury_result(delivery: Delivery, cause: str, world: World, now: datetime) -> str:
    return handle(PartResult.parse(delivery.data), world, now)


def _bury_request(delivery: Delivery, cause: str, world: World, now: datetime) -> str:
    request = RelabelRequest.parse(delivery.data)
    accepted = world.actions.shown(request.action or delivery.action_id(now))
    if accepted is None:
        raise Malformed("it started no action")
    try:
        ended = world.actions.end(accepted.id, _given_up(accepted, cause, world, now))
    except RecordUnreadable as torn:
        ended = world.actions.end_unreadable(accepted.id, torn, now)
    announce(accepted.id, ended, world)
    return ended.result


def _given_up(request: ActionRequest, cause: str, world: World, now: datetime) -> ActionOutcome:
    plan = world.actions.plan(request.id) or Plan(revision=request.revision, planned_at=now, parts=[request.target_nodes or []])
    told = world.actions.part_outcomes(request.id, plan)
    lost = {number: told.get(number) or [_lost(name, cause) for name in names] for number, names in enumerate(plan.parts, 1)}
    ended = conclude(plan, lost, now)
    result = ended.result if ended.outcomes and ended.result != "success" else "failure"
    return ended.model_copy(update={"result": result, "reason": "DeadLettered", "message": cause})


def _lost(name: str, cause: str) -> Outcome:
    return Outcome(subject=name, outcome="failed", reason="DeadLettered", message=cause, retryable=True)
