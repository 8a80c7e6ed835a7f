"""Why a node has the labels that it has, and what happened to it: read from releases and the outcomes of actions, with a bound."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

from shared.domain.actions import began
from shared.domain.documents.finding import Place, places
from shared.domain.labels.explanations import NodeEvent, NodeExplanation, NodeHistory, RevisionAbout, explained, merged
from shared.domain.labels.node_states import NodeRelease, NodesRequest
from shared.domain.labels.policies import DeclaredLabels, declare
from shared.domain.labels.releases import UNRELEASED, Mark
from shared.domain.outcomes import Changes
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import Released
from shared.ledger.revisions import UnknownRevision
from shared.ports import Refused
from shared.work.intake import Refusal, Rejected
from shared.work.nodes import node_states
from shared.world import World

LOOK_BACK = 200
"""Releases of the cluster, and actions, that are looked through: the newest."""
MOST = 2000
READERS = 16
"""Parallel reads: a bucket takes 30 ms an object."""


class Past(NamedTuple):
    """Events of one kind, how far back they were looked for (None: to the beginning), and the records that can't be read."""

    events: list[NodeEvent]
    back_to: datetime | None
    unreadable: list[str]


def history(node: str, cluster: str | None, world: World, look_back: int = LOOK_BACK) -> NodeHistory:
    """What happened to a node, newest first. One that nobody knows any more has a past all the same.

    Raises Rejected (an unknown cluster, a node of which nothing is known at all), and what the cluster raises where it is asked for that.
    """
    name = _cluster(cluster, world)
    releases, written = _releases(node, name, world, look_back), _written(node, name, world, look_back)
    events = merged(releases.events, written.events)
    if not written.events:  # what is released to all is released to any name
        node_states(NodesRequest(names=[node], cluster=name), world)
    back_to = [moment for moment in (releases.back_to, written.back_to) if moment]
    unreadable = [*releases.unreadable, *written.unreadable]
    return NodeHistory(cluster=name, node=node, events=events, looked_back_to=max(back_to, default=None), unreadable=unreadable)


def explain(node: str, key: str, cluster: str | None, world: World, look_back: int = LOOK_BACK) -> tuple[NodeExplanation, NodeHistory]:
    """Each label of a node, or one: its value, holders, document, revision, and the action that wrote it; and the node's past.
    Raises as `history` does.
    """
    name = _cluster(cluster, world)
    state = node_states(NodesRequest(names=[node], cluster=name), world).nodes[node]
    past = history(node, name, world, look_back)
    mark, declared = _declared(node, name, world)
    meant = {key} if key else {*state.labels, *declared.labels}
    documents = {each: title for each, title in declared.sources.items() if each in meant}
    about = _about(mark.revision, world)
    explanation = NodeExplanation(
        cluster=name,
        node=node,
        release=state.release,
        in_sync=state.in_sync,
        reason=state.reason,
        message=state.message,
        revision=about,
        released=next((event for event in past.events if event.release), None),
        labels=explained(meant, state, declared.labels, documents, _places(mark, documents, world), past.events),
        looked_back_to=past.looked_back_to,
    )
    return explanation, past


def _cluster(asked: str | None, world: World) -> str:
    committed = world.releases.look().committed
    try:
        name = asked or world.default_cluster(committed)
        world.cluster(name, committed)
    except Refused as refused:
        raise Rejected(Refusal(refused.reason, str(refused))) from refused
    return name


NOTHING = DeclaredLabels({}, {})


def _declared(node: str, cluster: str, world: World) -> tuple[Mark, DeclaredLabels]:
    """A node's release, and what that declares for it; nothing where it can't be read, or documents contradict each other."""
    in_force = world.releases.look()
    try:
        mark = in_force.mark(cluster, node)
        if mark.override:
            override = world.releases.override_of(mark)
            return mark, DeclaredLabels(override.labels, dict.fromkeys(override.labels, f"override by {override.by}"))
        revision = in_force.revision_for(cluster, node)
        there = world.cluster(cluster, in_force.committed)
        declared = declare(node, revision.node(node), there.node(node), revision.policies, cluster, there.owner) if revision else NOTHING
    except RecordUnreadable:
        return UNRELEASED, NOTHING
    return mark, declared if isinstance(declared, DeclaredLabels) else NOTHING


def _places(mark: Mark, documents: dict[str, str], world: World) -> dict[str, Place]:
    if mark.override or not mark.revision or not documents:
        return {}
    try:
        return places(world.revisions.files(mark.revision), documents)
    except (RecordUnreadable, UnknownRevision):
        return {}


def _about(number: int, world: World) -> RevisionAbout | None:
    """A revision, in short; None where there is none, or it can't be read."""
    try:
        about = world.revisions.get(number).about if number else None
    except (RecordUnreadable, UnknownRevision):
        return None
    return RevisionAbout(number=number, by=about.by, at=about.at, message=about.message, source=about.source) if about else None


# --- releases


def _releases(node: str, cluster: str, world: World, most: int) -> Past:
    """The changes of a node's release among the newest acts of its cluster."""
    unreadable: list[str] = []
    try:
        newest = world.releases.head(cluster).k
    except RecordUnreadable as torn:
        return Past([], None, [torn.key])
    first = max(0, newest - most)

    def read(k: int) -> tuple[Released, Mark] | None:
        try:
            released = world.releases.act(cluster, k)
            return released, released.mark(node)
        except RecordUnreadable as torn:
            unreadable.append(torn.key)
            return None

    with ThreadPoolExecutor(READERS) as readers:
        states = list(readers.map(read, range(first, newest + 1)))
    events = [_released(now, world) for was, now in itertools.pairwise(states) if was and now and not now[1].same(was[1])]
    back_to = states[0][0].about.at if first and states[0] else None
    return Past(events[::-1], back_to, sorted({*unreadable}))


def _released(now: tuple[Released, Mark], world: World) -> NodeEvent:
    state, mark = now[0].about, now[1]
    cause = state.cause
    rollout = cause.action if cause.kind.startswith("rollout") else ""
    return NodeEvent(
        at=state.at or datetime.fromtimestamp(0).astimezone(),
        by=state.by,
        cause=cause.kind,
        release=NodeRelease.of(mark),
        action="" if rollout or mark.override else cause.action,
        rollout=rollout,
        revision=_about(mark.revision, world),
        labels=_put(mark, world),
    )


def _put(mark: Mark, world: World) -> dict[str, str] | None:
    """The labels of an override; None for another release, and where they can't be read."""
    try:
        return world.releases.override_of(mark).labels if mark.override else None
    except RecordUnreadable:
        return None


# --- writes


def _written(node: str, cluster: str, world: World, most: int) -> Past:
    """What the newest actions did to a node."""
    ids = list(itertools.islice(world.actions.newest_first(), most + 1))
    unreadable: list[str] = []

    def read(action: str) -> NodeEvent | None:
        try:
            return _told(action, node, cluster, world)
        except RecordUnreadable as torn:
            unreadable.append(torn.key)
            return None

    with ThreadPoolExecutor(READERS) as readers:
        events = [event for event in readers.map(read, ids[:most]) if event]
    return Past(events, began(ids[most - 1]) if len(ids) > most else None, sorted(unreadable))


def _told(action: str, node: str, cluster: str, world: World) -> NodeEvent | None:
    """What an action, or the one that it has in this cluster, did to a node; None where it did nothing, or only said what it would do."""
    told = world.actions.about(action, (node, cluster))
    if not told:
        return None
    request = world.actions.find(action)
    if request is None or request.dry_run:
        return None
    if request.clusters:
        child = request.children.get(cluster)
        return _told(child, node, cluster, world) if child else None
    if request.cluster != cluster or node not in told:
        return None
    ended, outcome = told[node]
    return NodeEvent(
        at=ended.finished_at,
        by=request.requested_by,
        action=action,
        name=request.name,
        rollout=request.rollout or "",
        revision=_about(ended.revision, world),
        outcome=outcome.outcome,
        reason=outcome.reason,
        message=outcome.message,
        changes=outcome.changes or Changes(),
    )
