"""Take a rollout one step further, or say what it waits for. What it does next is decided in shared/domain/rollouts/decisions.py.

in   rollouts           RolloutStep: a batch has ended, somebody said something, a clock
out  relabel-requests   RelabelRequest, one for each batch that opens
     rollouts           RolloutStep, one a rollout, where the clock means all of them
     notices            rollout changed, rollout waits
"""

from __future__ import annotations

from datetime import datetime, timedelta

import functions_framework
from cloudevents.http import CloudEvent
from ulid import ULID

from shared import telemetry, wiring
from shared.domain.notices import ROLLOUT_CHANGED, ROLLOUT_WAITS, NoticeKind
from shared.domain.rollouts.decisions import Facts, Open, Wait, after, asks, decide, to_weigh
from shared.domain.rollouts.progress import Progress
from shared.ledger.records import RecordUnreadable
from shared.ledger.rollouts import UnknownRollout
from shared.messages import LAST_ATTEMPT, Delivery, Malformed, Notice, RelabelRequest, RolloutStep
from shared.work.health import Looks, look, with_baseline
from shared.work.rollouts import busy, entered, facts_of, place, settle
from shared.world import World

REMINDERS = (0, 1, 7)
"""Days after which somebody for whom a rollout waits is told."""


@functions_framework.cloud_event
def rollout(event: CloudEvent) -> None:
    """Entry point: decode, hand over."""
    delivery = Delivery.from_event(event)
    with telemetry.handling("rollout", delivery) as line:
        world = wiring.world()
        now = world.clock()
        step = RolloutStep()
        try:
            step = RolloutStep.parse(delivery.data)
            line.subject = step.rollout or "every rollout"
            line.outcome(handle(step, world, now, last=delivery.attempt >= LAST_ATTEMPT))
        except UnknownRollout as unknown:
            world.rollouts.forget_unknown(step.rollout or "", now)
            line.warn()
            line.outcome("refused", "UnknownRollout", text=str(unknown))
        except (Malformed, RecordUnreadable) as error:  # no redelivery changes that; the next clock looks again
            line.warn()
            line.outcome("refused", getattr(error, "reason", type(error).__name__), text=str(error))


def handle(step: RolloutStep, world: World, now: datetime, *, last: bool = False) -> str:
    """Take one rollout as far as it goes now. Raises what the store, the bus and a cluster raise, where later may help."""
    if step.rollout is None:
        return fan_out(world, now)
    world = world.within(world.time_left())
    progress = world.rollouts.get(step.rollout)
    if progress.change == "versions":
        return watch_over(progress, world, now)
    if not busy(progress, world):
        progress = placed(entered(progress, world, now), world, now, last=last)
    looks = Looks(progress, world, last=last)
    progress, facts = gathered(progress, looks, world, now)
    while (further := stepped(progress.id, facts, looks, world, now)) != progress:
        progress, facts = gathered(further, looks, world, now)
    progress = asked(settle(progress, facts, world, now), facts, world, now)
    send(progress, facts, world)
    if progress.ended:  # whoever ended it may have been cut off before it was closed
        world.rollouts.close(progress.id)
    return tell(progress, facts, world, now)


def gathered(progress: Progress, looks: Looks, world: World, now: datetime) -> tuple[Progress, Facts]:
    """What is known of a rollout now. Where a document asks for it, what the labels of its next stage do to pods is counted."""
    progress, facts = look(progress, facts_of(progress, world, now), looks, world, now)
    stage = to_weigh(progress, decide(progress, facts, now))
    if stage < 0:
        return progress, facts
    from shared.work.weighing import weigh  # few documents ask for it

    return look(weigh(progress, stage, world, now), facts, looks, world, now)


def watch_over(progress: Progress, world: World, now: datetime) -> str:
    """Tell what a rollout for versions asks people, and end it with its document. What goes when is for version_check to ask."""
    from shared.work.standing import asks, ended_with_its_document  # those that bring labels need none of it

    progress = ended_with_its_document(progress, world, now)
    if progress.ended:
        world.rollouts.close(progress.id)
    announce(progress, world, now)
    waits = asks(progress, now) if progress.phase == "running" else []
    for wait in waits:
        remind(progress, wait, world, now)
    return f"waits: {waits[0].reason}" if waits else progress.phase


def placed(progress: Progress, world: World, now: datetime, *, last: bool) -> Progress:
    """The rollout with every node of its clusters in a stage."""
    for cluster in sorted(progress.clusters.keys() - progress.placed.keys()):
        if progress.phase == "running":
            progress = place(progress.id, cluster, world, now, last=last)
    return progress


def fan_out(world: World, now: datetime) -> str:
    """Look at every rollout that has not ended, each by a message of its own; start what the newest commit should have started."""
    from shared.work.on_commit import catch_up  # the steps of rollouts start none

    catch_up(world, now)
    waiting = world.rollouts.open()
    if waiting:
        world.bus.publish(RolloutStep.TOPIC, [RolloutStep(rollout=each).outgoing() for each in waiting])
    return f"{len(waiting)} rollouts"


def stepped(rollout: str, facts: Facts, looks: Looks, world: World, now: datetime) -> Progress:
    """Decide on the newest state, and write what follows before anything is done."""
    action = str(ULID())

    def further(state: Progress) -> Progress:
        decision = decide(state, facts, now)
        changed = after(state, decision, facts, now, action)
        return with_baseline(changed, looks, world) if isinstance(decision, Open) else changed

    return world.rollouts.change(rollout, further)


def asked(progress: Progress, facts: Facts, world: World, now: datetime) -> Progress:
    """Count what the approval that it waits for would let happen, once."""
    wanted = asks(progress, facts, now)
    if wanted is None or progress.asked_for(*wanted):
        return progress
    from shared.work.approvals import ask  # it plans, which most steps don't

    return ask(progress, wanted, world, now)


def send(progress: Progress, facts: Facts, world: World) -> None:
    """Publish the request of every batch whose action nobody has accepted yet: it may be on its way, or lost."""
    open_ = [(number, batch) for number, batch in enumerate(progress.batches, 1) if facts.of(batch).ended is None]
    requests = [
        RelabelRequest(action=batch.action, cluster=batch.cluster, rollout=progress.id, batch=number, requested_by=progress.started.by)
        for number, batch in open_
        if not world.actions.begun(batch.action)
    ]
    if requests:
        world.bus.publish(RelabelRequest.TOPIC, [request.outgoing() for request in requests])


def tell(progress: Progress, facts: Facts, world: World, now: datetime) -> str:
    """Say what happened last, and for whom it waits; each once."""
    announce(progress, world, now)
    decision = decide(progress, facts, now)
    if not isinstance(decision, Wait):
        return progress.phase
    asked = decision.approval and progress.asked_for(*decision.approval)
    remind(progress, decision, world, now, asked.digest if asked else "")
    return f"waits: {decision.reason}"


def announce(progress: Progress, world: World, now: datetime) -> None:
    """Say what happened last, once."""
    said = progress.said
    changed = {"phase": progress.phase, "verb": said.verb, "by": said.by, "reason": said.reason, "message": said.message}
    name = f"{said.verb}-{len(progress.batches)}-{said.at:%Y%m%dT%H%M%S.%f}"
    once(progress.id, name, ROLLOUT_CHANGED, _about(progress) | changed, world, now)


def remind(progress: Progress, wait: Wait, world: World, now: datetime, impact: str = "") -> None:
    """Say for whom it waits, where it is for somebody; again after some days."""
    if not (wait.who and wait.since):
        return
    days = (0,) if wait.reason == "ApprovalExpired" else REMINDERS
    day = max(day for day in days if now >= wait.since + timedelta(days=day) or day == 0)
    waits = {"reason": wait.reason, "message": wait.message, "since": wait.since.isoformat(), "who": wait.who}
    until = ({"until": wait.until.isoformat()} if wait.until else {}) | ({"impact": impact} if impact else {})
    name = f"waits-{wait.reason}-{wait.since:%Y%m%dT%H%M%S.%f}-{day}"
    once(progress.id, name, ROLLOUT_WAITS, _about(progress) | waits | until, world, now)


def _about(progress: Progress) -> dict[str, object]:
    return {"id": progress.id, "name": progress.name, "revision": progress.revision}


def once(rollout: str, name: str, kind: NoticeKind, data: dict[str, object], world: World, now: datetime) -> None:
    """Publish a notice, unless it is known to be out."""
    mark = f"rollouts/{rollout}/told/{name}"
    if world.store.get(mark) is None:
        notice = Notice(id=kind.id(f"{rollout}/{name}"), type=kind.type, subject=rollout, time=now, data=data)
        world.bus.publish(Notice.TOPIC, [notice.outgoing()])
        world.store.create(mark, b"")
