"""Bring a slice of nodes in sync with their documents. The only function that writes node labels.

in   node-applies   NodeApply
out  results        PartResult
     node-applies   NodeApply, the rest of a part that its time was too short for
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import functions_framework
from cloudevents.http import CloudEvent

from functions.node_apply.asking import apply_all
from functions.node_apply.within import beyond_plan
from shared import telemetry, wiring
from shared.domain.actions import lost_record
from shared.domain.labels.bound import STALE_PLAN
from shared.domain.labels.releases import Mark
from shared.domain.outcomes import NOT_RELEASED, RELEASED_SINCE, Before, Changes, NodeTask, Outcome, OutcomeKind, in_conflict
from shared.ledger.actions import NeverPlanned
from shared.ledger.records import RecordUnreadable, missing
from shared.ledger.releases import release_key
from shared.ledger.revisions import UnknownRevision
from shared.messages import LAST_ATTEMPT, Delivery, NodeApply, PartResult, TryAgain
from shared.ports import Cluster, ClusterError, Conflict, Node, NodeGone, Stale, Taint, Taints
from shared.work.control import parked
from shared.world import World

REREADS = 3
"""Tries at a node that changes under our hands, before it is reported as failed and retryable."""

NEW_FOR = 24 * 3600.0
"""Seconds. A node that is older when it is labelled first was there before Hullmark, or before its policy: its time says nothing."""


@functions_framework.cloud_event
def node_apply(event: CloudEvent) -> None:
    """Entry point: decode, hand over."""
    delivery = Delivery.from_event(event)
    with telemetry.handling("node_apply", delivery) as line:
        task = NodeApply.parse(delivery.data)
        line.action, line.subject = task.action or "", f"part {task.part}"
        try:
            line.outcome(handle(task, wiring.world(), last=delivery.attempt >= LAST_ATTEMPT))
        except NeverPlanned as refused:
            line.warn()
            line.outcome("refused", "NeverPlanned", text=str(refused))


def handle(task: NodeApply, world: World, *, last: bool = False) -> str:
    """Apply every node of the part and publish what became of each. Raises TryAgain unless this is the last delivery, and NeverPlanned.

    It ends before the function is cut off. What it reached by then is settled in the message that it goes on with.
    """
    left = world.time_left()
    if task.action and world.actions.stopped(task.action):
        return _publish(task, [node.settled or _stopped(node) for node in task.nodes], world)
    if parked(task, world):
        return "parked"
    if task.action and any(node.settled for node in task.nodes) and world.actions.outcome(task.action):
        return "ended already"  # by its deadline, while one message after the other went on with this part
    world = world.within(left)
    while True:
        looked_up = _looked_up(task, world, last=last)
        if isinstance(looked_up, list):
            return _publish(task, looked_up, world)
        task, cluster = looked_up
        outcomes = apply_all(task.nodes, cluster, left, bring_in_sync)
        telemetry.labelled(times_to_label(task.nodes, outcomes, world.clock()))
        if further := _further(task, outcomes):
            world.bus.publish(NodeApply.TOPIC, [further.outgoing()])
            return f"goes on, {sum(node.settled is not None for node in further.nodes)} of {len(outcomes)} nodes done"
        unreachable = [outcome for outcome in outcomes if outcome.outcome == "failed" and outcome.retryable]
        if unreachable and not last:
            raise TryAgain(f"{len(unreachable)} of {len(outcomes)} nodes: {unreachable[0].message}")
        # What was released since may have been applied by others before our writes came and undid it: look once more.
        done = _with_outcomes(task, outcomes)
        task = as_released(done, world)
        if task is done:
            return _publish(task, _taken_back_or(outcomes, task, world), world)


def _looked_up(task: NodeApply, world: World, *, last: bool) -> tuple[NodeApply, Cluster] | list[Outcome]:
    """The part as it is released, and its cluster; or what becomes of its nodes where that can't be had. Raises what may pass."""
    try:
        task = as_released(task, world)
        return task, world.cluster(task.cluster, world.releases.look().committed)
    except UnknownRevision as unknown:
        if not last:  # the store may only be late
            raise
        return [lost_record(node.name, str(unknown)) for node in task.nodes]
    except RecordUnreadable as torn:  # an older release never takes the place of one that can't be read
        return [lost_record(node.name, str(torn)) for node in task.nodes]
    except ClusterError as error:
        if error.retryable and not last:
            raise
        return [node.settled or _failed(node, error) for node in task.nodes]


def _further(task: NodeApply, outcomes: list[Outcome]) -> NodeApply | None:
    """The part to go on with, where time was too short for some of its nodes and others were done: at each message fewer are left."""
    done = {each.subject: each for each in outcomes if not (each.outcome == "failed" and each.retryable)}
    if not any(each.reason == "TimeBudgetSpent" for each in outcomes) or len(done) <= sum(node.settled is not None for node in task.nodes):
        return None
    return task.model_copy(update={"nodes": [node.model_copy(update={"settled": done.get(node.name)}) for node in task.nodes]})


def _stopped(task: NodeTask) -> Outcome:
    return _outcome(task, "stopped", "Stopped", "the action was stopped")


def as_released(task: NodeApply, world: World) -> NodeApply:
    """The part as its nodes are released now: an old message never brings an old declaration back, and none brings what nobody released.
    The task itself where every node's set is of the node's release.
    """
    in_force = world.releases.look()
    released = in_force.state(task.cluster)
    if task.release and task.release == released.k:
        return task
    if task.release > released.k:
        raise missing(release_key(task.cluster, task.release))
    marks = {node.name: released.mark(node.name) for node in task.nodes}
    outdated = [node for node in task.nodes if _outdated(node, task, marks[node.name])]
    for node in outdated:
        if (made := _made_from(node, task)).revision > marks[node.name].revision:
            world.revisions.get(made.revision)  # an older one may be released because somebody says so, not because the newer one is lost
    if not outdated:
        return task
    from shared.work.planning import renewed  # a rare path: the policies' models need not be imported for the others

    anew = renewed([node.name for node in outdated], task.cluster, world, in_force)
    nodes = [anew[node.name].model_copy(update={"give_back": node.give_back}) if node.name in anew else node for node in task.nodes]
    return task.model_copy(update={"nodes": nodes, "release": 0})


def _outdated(node: NodeTask, task: NodeApply, mark: Mark) -> bool:
    """Whether a node's set is not of its release. One that is done, and has no release any more, keeps what it has and its outcome."""
    return not _made_from(node, task).same(mark) and (mark.released or not node.settled)


def _made_from(node: NodeTask, task: NodeApply) -> Mark:
    return Mark(task.revision if node.revision is None else node.revision, node.override)


def _with_outcomes(task: NodeApply, outcomes: list[Outcome]) -> NodeApply:
    nodes = [node.model_copy(update={"settled": outcome}) for node, outcome in zip(task.nodes, outcomes, strict=True)]
    return task.model_copy(update={"nodes": nodes})


def _taken_back_or(outcomes: list[Outcome], task: NodeApply, world: World) -> list[Outcome]:
    """The outcomes; where the action was stopped, what it brought was taken back from the nodes that have another release now, or none."""
    back = {node.name for node in task.nodes if node.reason == RELEASED_SINCE}
    back |= {outcome.subject for outcome in outcomes if outcome.reason == NOT_RELEASED}
    if not back or not task.action or not world.actions.stopped(task.action):
        return outcomes
    return [_stopped(node) if node.name in back else outcome for node, outcome in zip(task.nodes, outcomes, strict=True)]


def bring_in_sync(task: NodeTask, cluster: Cluster) -> Outcome:
    """Bring one node to its declared set: one Server-Side Apply, a second patch only for `prune: all` or aliases."""
    try:
        for _ in range(REREADS):
            try:
                return _apply(task, cluster)
            except Stale:
                continue
            except NodeGone:
                node = cluster.node(task.name)
                if node is None:
                    return _outcome(task, "missing", "NodeNotFound", f"the cluster has no node {task.name}")
                task = task.model_copy(update={"uid": node.uid})
        return _outcome(task, "failed", "Stale", f"{task.name} kept changing under {REREADS} tries", retryable=True)
    except ClusterError as error:
        return _failed(task, error)


def times_to_label(nodes: Sequence[NodeTask], outcomes: Sequence[Outcome], now: datetime) -> list[float]:
    """Seconds from their creation for the nodes that have their labels now and had none before, or lost their startup taint.

    The event of the labels' own write may ask for the taint again before it is gone: what then finds nothing to do counts for nothing.
    """
    there = (node.created for node, outcome in zip(nodes, outcomes, strict=True) if node.created and _came(outcome))
    ages = (max(0.0, (now - datetime.fromisoformat(created)).total_seconds()) for created in there)
    return [age for age in ages if age < NEW_FOR]


def _came(outcome: Outcome) -> bool:
    changes = outcome.changes or Changes()
    return outcome.outcome == "changed" and bool(changes.set or changes.untaint)


def _failed(task: NodeTask, error: ClusterError) -> Outcome:
    return _outcome(task, "failed", error.reason, str(error), retryable=error.retryable)


def _apply(task: NodeTask, cluster: Cluster) -> Outcome:
    if not task.uid:
        raise NodeGone(task.name)
    if task.planned is not None:
        live = cluster.node(task.name)
        if live and live.uid == task.uid and (how := beyond_plan(task, live, cluster.owner)):
            return _outcome(task, "failed", STALE_PLAN, f"{how}: the node changed after the plan was judged, and is left as it is")
    applied, removed = Applied(None), dict[str, Before]()
    given = _give_back(task, cluster.node(task.name), cluster) if task.give_back else {}
    if not task.aliases_only:
        applied = _apply_declared(task, cluster)
        if applied.node is None:
            return _outcome(task, "failed", "Conflict", applied.conflict)
        given |= _give_back(task, applied.node, cluster)  # a value that was the same before changed no holder, and went with our key
        removed = _prune(task, applied.node, cluster) if task.prune == "all" else {}
    if task.aliases is not None:
        cluster.apply_labels(task.name, task.uid, task.aliases, manager=cluster.owner.aliases)
    gone = [taint for taint in task.untaint if _untaint(taint, task, applied.left, cluster)]
    return _after_writing(task, applied, removed, given, gone)


def _untaint(taint: Taint, task: NodeTask, left: Set[str], cluster: Cluster) -> bool:
    """Take a startup taint off, last of all: the patch holds only while the declared labels are on the node, but for those that a policy
    leaves to others. Whether the node held it.
    """
    if not isinstance(cluster, Taints):
        return False
    labels = {key: value for key, value in task.labels.items() if key not in left and task.on_conflict.get(key) != "skip"}
    return cluster.remove_taint(task.name, task.uid, taint, labels)


def _give_back(task: NodeTask, live: Node | None, cluster: Cluster) -> dict[str, str]:
    """Write values back that were taken from other managers, where nothing declares them now and nobody else has set them since; which.
    Before our key goes, so that the node is not without it, and under a manager of their own, whose keys our Apply leaves alone.
    """
    if live is None or live.uid != task.uid:
        raise NodeGone(task.name)
    wanted = {key: value for key, value in task.give_back.items() if key not in task.labels and key not in (task.aliases or {})}
    due = {key: value for key, value in wanted.items() if key not in live.labels or live.owners.get(key) == (cluster.owner.name,)}
    if due and task.prune == "all":
        from shared.domain.labels.policies import prunable  # only where a document asks for it

        gone = prunable(due, (), task.keep, {}, cluster.owner)
        due = {key: value for key, value in due.items() if key not in gone}
    if due:
        cluster.patch_labels(task.name, due, resource_version=live.resource_version, manager=cluster.owner.reverts)
    return due


class Applied(NamedTuple):
    """The node after the Apply (None where a policy says fail), the keys that others keep, the conflict in words, and what was taken over
    that the plan did not foresee.
    """

    node: Node | None
    left: frozenset[str] = frozenset()
    conflict: str = ""
    taken: Mapping[str, Before] = MappingProxyType({})


def _apply_declared(task: NodeTask, cluster: Cluster) -> Applied:
    """Apply the declared set. It is forced at once where the plan knows whose values that replaces; else a conflict is news, and what it
    is about is read before it is taken over.
    """
    foreseen = task.changes.from_.keys() if task.changes else frozenset[str]()
    if not task.on_conflict and foreseen:
        return Applied(cluster.apply_labels(task.name, task.uid, task.labels))
    try:
        return Applied(cluster.apply_labels(task.name, task.uid, task.labels, force=False))
    except Conflict as conflict:
        others = {key: who for key, who in conflict.managers.items() if not all(manager in cluster.owner for manager in who.split(", "))}
    if refused := {key: who for key, who in others.items() if task.on_conflict.get(key) == "fail"}:
        live = cluster.node(task.name)
        return Applied(None, conflict=in_conflict(refused, live.labels if live else {}, task.says))
    skipped = {key: who for key, who in others.items() if task.on_conflict.get(key) == "skip"}
    labels = {key: value for key, value in task.labels.items() if key not in skipped}
    taken = _as_they_are(others.keys() - skipped.keys() - foreseen, task.name, cluster)
    node = cluster.apply_labels(task.name, task.uid, labels)
    return Applied(node, frozenset(skipped), in_conflict(skipped, node.labels, task.says), taken)


def _as_they_are(keys: Set[str], name: str, cluster: Cluster) -> dict[str, Before]:
    """These labels of a node before we take them over, so that they can be given back."""
    live = cluster.node(name) if keys else None
    if live is None:
        return {}
    return {key: Before(value=live.labels[key], holders=list(live.owners.get(key, ()))) for key in sorted(keys) if key in live.labels}


def _prune(task: NodeTask, node: Node, cluster: Cluster) -> dict[str, Before]:
    """Airship's meaning: what is not declared goes. Based on the answer of the Apply, whose resourceVersion guards it. What went."""
    from shared.domain.labels.policies import prunable  # only where a document asks for it

    keys = prunable(node.labels, task.labels.keys() | (task.aliases or {}).keys(), task.keep, node.owners, cluster.owner)
    if keys:
        cluster.remove_labels(task.name, keys, resource_version=node.resource_version)
    return {key: Before(value=node.labels[key], holders=list(node.owners.get(key, ()))) for key in keys}


def _after_writing(
    task: NodeTask, applied: Applied, removed: dict[str, Before], given: Mapping[str, str], untainted: Sequence[Taint] = ()
) -> Outcome:
    planned = task.changes or Changes()
    set_ = {key: value for key, value in planned.set.items() if key not in applied.left}
    set_ |= {key: task.labels[key] for key in applied.taken}
    set_ |= given
    remove = sorted({*planned.remove, *removed} - given.keys())
    gone = list(map(str, untainted))
    done = Changes(set=set_, remove=remove, untaint=gone, from_={**removed, **planned.taken([*set_, *remove]), **applied.taken})
    replaced = (f"{key} was {was.value!r} by {', '.join(was.holders)}" for key, was in applied.taken.items())
    back = (f"{key} is {value!r} again, as before the rollout" for key, value in sorted(given.items()))
    note = "; ".join(filter(None, (task.note, *replaced)))
    reason = task.reason or ("Drift" if note else "")
    note = "; ".join(filter(None, (note, *back)))
    if not applied.conflict:
        return _outcome(task, "changed", reason, note, changes=done)
    kind: OutcomeKind = "changed" if done.set or done.remove or done.untaint else "skipped"
    return _outcome(task, kind, "Conflict", "; ".join(filter(None, (applied.conflict, note))), changes=done)


def _outcome(
    task: NodeTask, kind: OutcomeKind, reason: str = "", message: str = "", *, retryable: bool = False, changes: Changes | None = None
) -> Outcome:
    return Outcome(subject=task.name, outcome=kind, reason=reason, message=message, retryable=retryable, changes=changes)


def _publish(task: NodeApply, outcomes: list[Outcome], world: World) -> str:
    result = PartResult(action=task.action, part=task.part, revision=task.revision, release=task.release, outcomes=outcomes)
    world.bus.publish(PartResult.TOPIC, [result.outgoing()])
    return ", ".join(sorted({outcome.outcome for outcome in outcomes}))
