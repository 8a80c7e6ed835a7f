"""Apply one cluster's updates, the window checked again: images, then the control plane, then the pools.

in   version-updates   VersionUpdate
out  results           PartResult
     notices           version updated, failed, skipped
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import functions_framework
from cloudevents.http import CloudEvent

from shared import telemetry, wiring
from shared.domain.actions import lost_record
from shared.domain.notices import UPDATE_SKIPPED, VERSION_BEGUN, VERSION_FAILED, VERSION_UPDATED
from shared.domain.outcomes import Outcome, OutcomeKind
from shared.domain.reasons.versions import sentence
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.decisions import Decision, Update
from shared.domain.versions.held import Held
from shared.domain.versions.holding import Holding, with_holds
from shared.domain.versions.identity import full_name
from shared.domain.versions.reasons import AUTO_UPDATE, EXPIRED
from shared.domain.versions.semver import InvalidVersion, parse
from shared.domain.versions.skew import behind, within_skew
from shared.ledger.actions import NeverPlanned
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.messages import LAST_ATTEMPT, ComponentUpdate, Delivery, Notice, PartResult, TryAgain, VersionUpdate
from shared.ports import ClusterError, Fleet, FleetAtOnce, Stale, TellsProgress, Unavailable
from shared.work.control import parked
from shared.work.version_holds import freezes_in
from shared.world import World

BUSY = "UpdateRunning"
BEGUN = "UpdateBegun"
NOTICES = {"changed": VERSION_UPDATED, "failed": VERSION_FAILED, "skipped": UPDATE_SKIPPED, "missing": VERSION_FAILED}
"""Outcomes that people are told of; that a provider is busy is none."""


@functions_framework.cloud_event
def version_apply(event: CloudEvent) -> None:
    """Entry point: decode, hand over."""
    delivery = Delivery.from_event(event)
    with telemetry.handling("version_apply", delivery) as line:
        task = VersionUpdate.parse(delivery.data)
        line.action, line.subject = task.action, name_of(task)
        world = wiring.world()
        try:
            line.outcome(handle(task, world, world.clock(), last=delivery.attempt >= LAST_ATTEMPT))
        except NeverPlanned as refused:
            line.warn()
            line.outcome("refused", "NeverPlanned", text=str(refused))


def handle(task: VersionUpdate, world: World, now: datetime, *, last: bool = False) -> str:
    """Carry out what still holds, and publish what became of each step. Raises TryAgain unless this is the last delivery, and NeverPlanned.

    It ends before the function is cut off: the next delivery finds the steps that were taken, and goes on with the others.
    """
    left = world.time_left()
    world = world.within(left)
    steps = [replace(_step(update), token=token_of(task.action, _step(update).key)) for update in task.updates]
    steps.sort(key=lambda step: step.rank)
    if task.part in world.actions.recorded(task.action):
        return "done before"
    if world.actions.stopped(task.action):
        if world.begun.there(task.fleet or "", task.action, task.part):
            return "begun before"
        return tell(task, [_outcome(step, "stopped", "Stopped", "the action was stopped") for step in steps], 0, world, now, last=last)
    if parked(task, world):
        return "parked"
    try:
        in_force = world.releases.look()
        revision = in_force.committed
        cluster = world.fleets(revision).find(task.cluster, task.fleet)
    except ClusterError as error:
        return unanswered(task, steps, error, world, now, last=last)
    except RecordUnreadable as torn:
        result = PartResult(action=task.action, part=task.part, outcomes=[lost_record(step.key, str(torn)) for step in steps])
        world.bus.publish(PartResult.TOPIC, [result.outgoing()])
        return "unreadable"
    if cluster is None:
        outcomes = [_outcome(step, "missing", "ClusterNotFound", f"no fleet has a cluster {name_of(task)}") for step in steps]
    elif cluster[1].asked_for and world.begun.there(task.fleet or "", task.action, task.part):
        return "begun before"
    elif cluster[1].deleting:
        outcomes = [_outcome(step, "skipped", "ClusterDeleting", sentence("ClusterDeleting")) for step in steps]
    elif not (task.force_window or cluster[1].maintain or cluster[1].window.open(now)):
        outcomes = [_outcome(step, "skipped", "OutsideWindow", _shut(cluster[1], now)) for step in steps]
    else:
        held = held_now(task, cluster[1], freezes_in([cluster[1].fleet], in_force), now)
        outcomes = [kept_back(step, held[step.key], *cluster) for step in steps if step.key in held]
        taken = carry_out([step for step in steps if step.key not in held], *cluster, left)
        outcomes += [saying_why(task, outcome) for outcome in taken]
    keep_failures(task, outcomes, revision, world, now)
    return tell(task, outcomes, revision.number if revision else 0, world, now, last=last)


def kept_back(step: VersionStep, held: Held, fleet: Fleet, cluster: FleetCluster) -> Outcome:
    """What became of a step that is held."""
    if held.reason == BUSY and runs_already(step, fleet, cluster):
        return _outcome(step, "changed", BEGUN, f"{step.current} → {step.to}")
    return _outcome(step, "skipped", held.reason, held.message, retryable=True)


def runs_already(step: VersionStep, fleet: Fleet, cluster: FleetCluster) -> bool:
    """Whether what a provider is busy with is this very step: another delivery had it accepted, and was cut off or is still at work."""
    if cluster.asked_for and isinstance(fleet, TellsProgress):
        with suppress(ClusterError):
            return fleet.progress(cluster.id, step).state == "running"
    return False


def token_of(action: str, key: str) -> str:
    """By this a provider knows a request that it has had: the same at every delivery, and no other step's."""
    return hashlib.sha256(f"{action}/{key}".encode()).hexdigest()[:32]


def unanswered(task: VersionUpdate, steps: list[VersionStep], error: ClusterError, world: World, now: datetime, *, last: bool) -> str:
    """The cluster's fleet cannot be opened or does not say how the cluster is: none of its steps is taken."""
    outcomes = [_outcome(step, "failed", error.reason, str(error), retryable=error.retryable) for step in steps]
    return tell(task, outcomes, 0, world, now, last=last)


def tell(task: VersionUpdate, outcomes: list[Outcome], revision: int, world: World, now: datetime, *, last: bool) -> str:
    """Publish what became of each step. Raises TryAgain where later may help, unless this is the last delivery.

    Of a part that a provider works on, version_check tells the end, so that the action runs until then.
    """
    waiting = [outcome for outcome in outcomes if outcome.outcome == "failed" and outcome.retryable]
    if waiting and not last:
        raise TryAgain(f"{len(waiting)} of {len(outcomes)} steps: {waiting[0].message}")
    result = PartResult(action=task.action, part=task.part, revision=revision, outcomes=outcomes)
    notices = [notice(task, outcome, now).outgoing() for outcome in outcomes if outcome.outcome in NOTICES and outcome.reason != BUSY]
    begun = [outcome for outcome in outcomes if outcome.reason == BEGUN]
    if begun:
        keep_begun(task, begun, result, world, now)
    world.bus.publish(Notice.TOPIC, notices)
    if not begun:
        world.bus.publish(PartResult.TOPIC, [result.outgoing()])
    return ", ".join(f"{outcome.subject} {outcome.outcome}" for outcome in outcomes)


def held_now(task: VersionUpdate, cluster: FleetCluster, holding: Holding, now: datetime) -> dict[str, Held]:
    """The steps that may not be taken any more, and why: a freeze that began meanwhile, a pool that is too far behind by now."""
    decided = [
        Decision(update.component, update.subject, update.from_, _decided(update), update.image, update.expires)
        for update in task.updates
        if _step(update).version_in(cluster) != update.to  # an earlier delivery took the others
    ]
    looked_at = behind(with_holds(within_skew(decided, cluster), cluster, holding, now))
    return {f"{decision.component}/{decision.subject}": decision.held for decision in looked_at if decision.held}


def _decided(update: ComponentUpdate) -> Update:
    return Update(update.to, update.kind, update.trigger or (EXPIRED if update.kind == "force" else AUTO_UPDATE), update.reason)


def _step(update: ComponentUpdate) -> VersionStep:
    return VersionStep(update.component, update.subject, update.from_, update.to, update.image)


def saying_why(task: VersionUpdate, outcome: Outcome) -> Outcome:
    """What became of a step, with why it was taken although something would have kept it back."""
    waived = next((update.waived for update in task.updates if _step(update).key == outcome.subject), "")
    return outcome.model_copy(update={"message": f"{outcome.message}; {waived}"}) if waived and outcome.outcome == "changed" else outcome


def keep_failures(task: VersionUpdate, outcomes: list[Outcome], revision: Revision | None, world: World, now: datetime) -> None:
    """Keep which lines of the cluster failed for good, so that waves stop there. One that a later try may cure is none."""
    failed = {outcome.subject: outcome.message for outcome in outcomes if outcome.outcome == "failed" and not outcome.retryable}
    if not failed:
        return
    from shared.domain.waves.decisions import line_of  # few updates fail
    from shared.domain.waves.sightings import Failure
    from shared.work.waves import tried_and_failed

    steps = {f"{update.component}/{update.subject}": update for update in task.updates}
    lines = {line_of(steps[key].component, steps[key].subject, steps[key].image): (steps[key].to, text) for key, text in failed.items()}
    tried_and_failed(name_of(task), {line: Failure(to, now, text) for line, (to, text) in lines.items()}, revision, world, now)


def keep_begun(task: VersionUpdate, begun: list[Outcome], result: PartResult, world: World, now: datetime) -> None:
    """Keep what a provider works on, with what became of the other steps."""
    from shared.ledger.begun import BegunPart  # Shoots have what is asked for at once

    about = {outcome.subject: notice(task, outcome, now).data for outcome in begun}
    place = {"action": task.action, "part": task.part, "fleet": task.fleet or "", "cluster": name_of(task)}
    world.begun.add(BegunPart(**place, revision=result.revision, at=now, outcomes=result.outcomes, about=about))


def name_of(task: VersionUpdate) -> str:
    """The full name of its cluster."""
    return full_name(task.fleet or "", task.cluster)


def carry_out(steps: list[VersionStep], fleet: Fleet, cluster: FleetCluster, left: Callable[[], float]) -> Iterator[Outcome]:
    """Every step: with one write where the fleet can, else one after the other."""
    return at_once(steps, fleet, fleet, cluster, left) if isinstance(fleet, FleetAtOnce) else one_by_one(steps, fleet, cluster, left)


def at_once(
    steps: list[VersionStep], writer: FleetAtOnce, fleet: Fleet, cluster: FleetCluster, left: Callable[[], float]
) -> Iterator[Outcome]:
    """All steps that are still due with one write, asked as a dry run first: all of them go or none.

    What was moved meanwhile is left out, and a pool that would go above a control plane that does not move.
    """
    goes = [step.to for step in steps if step.rank == 1 and step.version_in(cluster) == step.current]
    reached = next(iter(goes), cluster.kubernetes or "")
    due = [step for step in steps if step.version_in(cluster) == step.current and not (step.rank == 2 and _above(step.to, reached))]
    yield from one_by_one([step for step in steps if step not in due], fleet, cluster, left)
    if not due:
        return
    if left() <= 0:
        yield from (_outcome(step, "failed", "TimeBudgetSpent", "no time was left for it", retryable=True) for step in due)
        return
    try:
        writer.apply_at_once(cluster.id, due, dry_run=True)
        besides = writer.apply_at_once(cluster.id, due)
    except ClusterError as error:
        yield from (_not_taken(step, error) for step in due)
        return
    for step in due:
        notes = besides if step.rank == 1 else ()
        yield _outcome(step, "changed", message="; ".join([f"{step.current} → {step.to}", *notes]))


def one_by_one(steps: list[VersionStep], fleet: Fleet, cluster: FleetCluster, left: Callable[[], float]) -> Iterator[Outcome]:
    """Step by step; a failed one stops no other, but no pool goes above the control plane it ends up with. None begins after its time."""
    reached, cause = cluster.kubernetes or "", ""
    for step in steps:
        if left() <= 0:
            yield _outcome(step, "failed", "TimeBudgetSpent", f"it was not reached in the time that a part has{cause}", retryable=True)
            continue
        if step.rank == 2 and _above(step.to, reached):
            yield _outcome(step, "skipped", "ControlPlaneBehind", f"the control plane is still on {reached}", retryable=True)
            continue
        outcome = _take(step, fleet, cluster)
        if outcome.outcome == "failed":
            cause = f"; before it, {step.key} failed: {outcome.message}"
        if step.rank == 1 and outcome.outcome in ("changed", "unchanged"):
            reached = step.to
        yield outcome


def _take(step: VersionStep, fleet: Fleet, cluster: FleetCluster) -> Outcome:
    """One step: asked as a dry run first, so that what the provider refuses changes nothing."""
    try:
        if fleet.apply(cluster.id, step, dry_run=True) and fleet.apply(cluster.id, step):
            begun = BEGUN if cluster.asked_for else ""
            return _outcome(step, "changed", begun, f"{step.current} → {step.to}")
        return _outcome(step, "changed", "AlreadyDone", f"{step.to} was reached by an earlier delivery")
    except ClusterError as error:
        if error.reason == BUSY and runs_already(step, fleet, cluster):
            return _outcome(step, "changed", BEGUN, f"{step.current} → {step.to}")
        return _not_taken(step, error)


def _not_taken(step: VersionStep, error: ClusterError) -> Outcome:
    if isinstance(error, Stale):
        return _outcome(step, "skipped", error.reason, str(error))
    if isinstance(error, Unavailable):
        if error.reason == BUSY:  # not a fault, and nothing that waiting a minute would cure: the next check takes it up
            return _outcome(step, "skipped", BUSY, str(error), retryable=True)
        return _outcome(step, "failed", error.reason, str(error), retryable=True)
    return _outcome(step, "failed", error.reason, str(error))


def _above(version: str, limit: str) -> bool:
    try:
        return parse(version).key > parse(limit).key
    except InvalidVersion:
        return False


def _shut(cluster: FleetCluster, now: datetime) -> str:
    following = cluster.window.next(now)
    return f"{sentence('OutsideWindow')}{f' ({following:%Y-%m-%d %H:%M} UTC)' if following else ''}"


def _outcome(step: VersionStep, kind: OutcomeKind, reason: str = "", message: str = "", *, retryable: bool = False) -> Outcome:
    return Outcome(subject=step.key, outcome=kind, reason=reason, message=message, retryable=retryable)


def notice(task: VersionUpdate, outcome: Outcome, now: datetime) -> Notice:
    """What people are told about one step; the same id at every delivery."""
    step = next(update for update in task.updates if f"{update.component}/{update.subject}" == outcome.subject)
    data = {
        "cluster": task.cluster,
        "fleet": task.fleet or "",
        "action": task.action,
        **step.model_dump(by_alias=True),
        "outcome": outcome.outcome,
        "code": outcome.reason,
        "message": outcome.message,
    }
    kind = VERSION_BEGUN if outcome.reason == BEGUN else NOTICES[outcome.outcome]
    return Notice(id=kind.id(f"{task.action}/{outcome.subject}"), type=kind.type, subject=name_of(task), time=now, data=data)
