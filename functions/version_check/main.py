"""Classify versions, decide, and issue updates inside open windows; tell what expires and what is stuck.

in   version-checks    VersionCheck (a clock, or a person)
out  version-checks    one a shard, where there are many fleets
     results           PartResult, of updates that EKS or GKE is through with
     version-updates   VersionUpdate, one a cluster whose window is open
     notices           version expiring, expired, update skipped: once each; fleet unreadable: once a day
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import functions_framework
from cloudevents.http import CloudEvent

from shared import telemetry, wiring
from shared.domain.actions import UNREADABLE, ActionRequest, Plan
from shared.domain.names import UPDATE_VERSIONS
from shared.domain.outcomes import Outcome
from shared.domain.versions.answers import UnknownFleetCluster
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.decisions import Decision, Update
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.holding import any_of
from shared.domain.versions.notices import Due, due, told_of
from shared.domain.versions.plans import ClusterPlan, Planner, going, updates_of
from shared.domain.versions.shards import shards_of
from shared.ledger.actions import deadline
from shared.ledger.notices import Sent
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.messages import ComponentUpdate, Delivery, Malformed, Notice, PartResult, VersionCheck, VersionUpdate
from shared.work.provider_updates import Watch, attempt, watch
from shared.work.version_holds import version_holds
from shared.world import World

if TYPE_CHECKING:
    from shared.ledger.fleets import Fleets
    from shared.work.waves import Standing

BATCH = 500
"""Messages published at a time: a fleet of 10,000 clusters is never all in memory."""


@functions_framework.cloud_event
def version_check(event: CloudEvent) -> None:
    """Entry point: decode, hand over."""
    delivery = Delivery.from_event(event)
    with telemetry.handling("version_check", delivery) as line:
        try:
            check = VersionCheck.parse(delivery.data)
        except Malformed as malformed:
            line.outcome("refused", reason=str(malformed))
            return
        world = wiring.world()
        try:
            line.outcome(handle(check, world, world.clock()))
        except RecordUnreadable as torn:  # the revision; page and metrics tell of it, and the next check looks again
            line.warn()
            line.outcome("no revision to go by", reason=str(torn))


def handle(check: VersionCheck, world: World, now: datetime) -> str:
    """Decide for every cluster; publish one update for each that is due and may be changed now. Says what came of it.

    Of many fleets, each shard is a message of its own.
    """
    in_force = world.releases.look()
    revision = in_force.committed
    fleets = world.fleets(revision)
    if check.shard is None and check.clusters is None and (shards := shards_of(fleets.names)):
        world.bus.publish(VersionCheck.TOPIC, [check.model_copy(update={"shard": shard}).outgoing() for shard in shards])
        return f"{len(shards)} shards"
    seen = fleets.view(world.time_left(), check.shard)
    holds = version_holds(seen.fleets, in_force, world)
    view = holds.over(seen)
    waves = waves_of(revision, view, fleets, check.shard, world, now, keep=not check.dry_run)
    planner = Planner(view, any_of(holds, waves.holding), waves.staged) if waves else Planner(view, holds)
    sent = Sent(world.store, now, check.shard)
    tally: Counter[str] = Counter()
    watched = Watch() if check.dry_run else watch(check.shard, view, fleets, world, now)
    send([], watched.notices(sent, revision, world, now), sent, world, now, tally)
    if results := watched.results(world):
        world.bus.publish(PartResult.TOPIC, [result.outgoing() for result in results])
    plans = planner.plan(now, wanted(check, view, tally))
    if waves and not check.dry_run:
        plans = waves.cleared(plans, world, now, forced=check.force_window)
    while batch := list(itertools.islice(plans, BATCH)):
        notices = [notice for plan in batch for notice in due(plan, profile_of(plan, planner), now)]
        updates = issued(check, batch, watched, world, revision.number if revision else 0, now, tally)
        send(updates, [] if check.dry_run else notices, sent, world, now, tally)
    if not check.dry_run:
        send([], [told_of(trouble, now) for trouble in fleets.troubles], sent, world, now, tally)
        watched.forget(world, now)
        if waves:
            waves.ask(world, now)
        sent.forget()
        world.deferrals.forget(now)
    tally["unreachable"] += len(fleets.unreachable)
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.items()) if count) or "no clusters"


def waves_of(
    revision: Revision | None, view: FleetView, fleets: Fleets, shard: int | None, world: World, now: datetime, *, keep: bool
) -> Standing | None:
    """The rollouts for versions that are in force, about the clusters as they were just seen; None where there are none."""
    if revision is None or not any(spec.change == "versions" for spec in revision.policies.rollouts.values()):
        return None
    from shared.work.waves import standing  # most fleets have none

    listed = view.fleets.keys() & set(fleets.of_shard(shard))
    return standing(revision, view, fleets.troubles, world, now, keep=keep, listed=listed)


def profile_of(plan: ClusterPlan, planner: Planner) -> CloudProfile | None:
    """The profile by which a cluster was decided."""
    timeline = planner.timeline(plan.cluster)
    return timeline.profile if timeline else None


def wanted(check: VersionCheck, view: FleetView, tally: Counter[str]) -> list[FleetCluster]:
    """The clusters that a check is about. A name that no cluster has, or several, is left out and counted with its reason."""
    if check.clusters is None:
        return list(view.clusters.values())
    clusters: dict[str, FleetCluster] = {}
    for name in check.clusters:
        try:
            cluster = view.named(name)
            clusters[cluster.full_name] = cluster
        except UnknownFleetCluster as unknown:
            tally[f"not checked ({unknown})"] += 1
    return list(clusters.values())


def send(updates: list[VersionUpdate], notices: list[Due], sent: Sent, world: World, now: datetime, tally: Counter[str]) -> None:
    """Publish updates, and the notices that are not out yet: each is told once, marked when it is confirmed."""
    fresh = [notice for notice in notices if not sent.knows(notice.key, notice.fleet)]
    if updates:
        world.bus.publish(VersionUpdate.TOPIC, [update.outgoing() for update in updates])
    if fresh:
        told = [Notice(id=notice.key, type=notice.type, subject=notice.subject, time=now, data=notice.data) for notice in fresh]
        world.bus.publish(Notice.TOPIC, [notice.outgoing() for notice in told])
        world.workers.each(lambda notice: sent.add(notice.key, notice.fleet), fresh)
    tally["notices"] += len(fresh)


def issued(
    check: VersionCheck, plans: list[ClusterPlan], watched: Watch, world: World, revision: int, now: datetime, tally: Counter[str]
) -> list[VersionUpdate]:
    """The updates that these clusters are due, side by side; what came of each is counted."""
    going_now = []
    for plan in plans:
        if why := idle(check, plan):
            tally[why] += 1
        else:
            going_now.append(plan)
    found = world.workers.each(lambda plan: issue(check, plan, watched, world, revision, now), going_now)
    tally.update(outcome for _, outcome in found)
    return [update for update, _ in found if update is not None]


def idle(check: VersionCheck, plan: ClusterPlan) -> str:
    """Why nothing is issued for a cluster, as far as its plan says; empty where something may be."""
    if not going(plan.decisions):
        return "held" if updates_of(plan.decisions) else "up to date"
    if not plan.open and not check.force_window:
        return "outside their window"
    return "would be updated" if check.dry_run else ""


def issue(
    check: VersionCheck, plan: ClusterPlan, watched: Watch, world: World, revision: int, now: datetime
) -> tuple[VersionUpdate | None, str]:
    """The update that one cluster is due, recorded as an action; and what came of looking."""
    steps = in_order(going(plan.decisions))
    for action in attempts(plan, steps, now):
        known = world.actions.shown(action)
        if known is None:
            return accept(check, plan, steps, action, world, revision, now), "to update"
        outcome = world.actions.outcome(action)
        if outcome is None and action in watched.parts:  # its provider works on it, or is just through
            outcomes = watched.parts[action].outcomes
            if outcomes is None:
                return None, "being updated"
            steps = unfinished(steps, outcomes)
            if not steps:
                return None, "updated in this window"
            continue
        if outcome is None:  # running, or lost after it was recorded, with its plan or before: the same once more does no harm
            try:
                return accept(check, plan, steps, action, world, revision, now), "being updated"
            except RecordUnreadable:
                return None, "unreadable, until the next sweep ends it"
        if outcome.reason == UNREADABLE:  # what it did is unknown; each step is checked against what the cluster runs
            continue
        steps = unfinished(steps, outcome.outcomes)
        if not steps:
            return None, "updated in this window"
    return None, "given up for this window"


def unfinished(steps: list[VersionStep], outcomes: list[Outcome]) -> list[VersionStep]:
    """The steps that an action has left for the next one."""
    left = {told.subject for told in outcomes if told.retryable}
    return [step for step in steps if step.key in left]


def attempts(plan: ClusterPlan, steps: list[VersionStep], now: datetime) -> Iterator[str]:
    """The ids of the actions that one opening of the window may have: what one leaves unfinished, the next one takes up.

    An update that is asked for outside a window is told apart by what it does.
    """
    opening = plan.cluster.window.opening(now)
    content = "" if opening else hashlib.sha256(" ".join(f"{step.key}={step.current}>{step.to}" for step in steps).encode()).hexdigest()
    began = opening or now.replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(1, 50):
        yield attempt(plan.cluster, number, began, content)


def in_order(pending: list[Decision]) -> list[VersionStep]:
    """Images, the control plane, the pools' Kubernetes versions."""
    steps = [
        VersionStep(update.component, update.subject, update.current or "", update.outcome.to, update.image)
        for update in pending
        if isinstance(update.outcome, Update)
    ]
    return sorted(steps, key=lambda step: step.rank)


def again(steps: list[VersionStep], plan: Plan) -> list[VersionStep]:
    """Those steps that the action's plan names."""
    planned = {key for part in plan.parts for key in part}
    return [step for step in steps if step.key in planned]


def accept(
    check: VersionCheck, plan: ClusterPlan, steps: list[VersionStep], action: str, world: World, revision: int, now: datetime
) -> VersionUpdate:
    """Record the action and its plan, then make its message. What an earlier delivery recorded stands."""
    request = ActionRequest(
        id=action,
        name=UPDATE_VERSIONS,
        cluster=plan.cluster.full_name,
        revision=revision,
        requested_by="version_check",
        requested_at=now,
        deadline=deadline(now, world.settings.provider_update_seconds if plan.cluster.asked_for else world.settings.action_seconds),
        parameters={"force_window": check.force_window},
    )
    world.actions.accept(request)
    settled = world.actions.settle_plan(action, Plan(revision=revision, planned_at=now, parts=[[step.key for step in steps]]))
    return message(check, plan, again(steps, settled), action)


def message(check: VersionCheck, plan: ClusterPlan, steps: list[VersionStep], action: str) -> VersionUpdate:
    """The message of an action."""
    decided = {f"{decision.component}/{decision.subject}": decision for decision in plan.decisions}
    updates = [ComponentUpdate.model_validate(_move(step) | _cause(decided[step.key])) for step in steps]
    return VersionUpdate(
        action=action, part=1, cluster=plan.cluster.id, fleet=plan.cluster.fleet, updates=updates, force_window=check.force_window
    )


def _move(step: VersionStep) -> dict[str, object]:
    return {"component": step.component, "subject": step.subject, "from": step.current, "to": step.to, "image": step.image}


def _cause(decision: Decision) -> dict[str, object]:
    """Why a step is taken, so that version_apply can look again whether it may be."""
    if not isinstance(decision.outcome, Update):
        return {}
    waived = f"{decision.waived.reason}: {decision.waived.message}" if decision.waived else ""
    outcome = decision.outcome
    return {"kind": outcome.kind, "reason": outcome.reason, "trigger": outcome.trigger, "expires": decision.expires, "waived": waived}
