"""What holds changes back now: a Freeze document, a pause of the whole fleet; pausing it, and letting it go on (docs/freezes.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from shared.domain.holds import Change, Hold, frozen, longest
from shared.ledger.actions import WrongState
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce
from shared.ledger.revisions import Revision
from shared.work.control import go_on
from shared.world import World


class PauseStatus(BaseModel):
    """Whether the fleet is paused, by whom and why; `writing`: parts of actions that are under way, `parked`: parts that wait."""

    paused: bool
    by: str = ""
    at: datetime | None = None
    reason: str = ""
    writing: int = 0
    parked: int = 0


class FreezeEntry(BaseModel):
    """One Freeze document of a revision that counts: the newest one, or one that is released."""

    name: str
    revision: int
    begins: datetime
    ends: datetime
    clusters: str
    change: Literal["labels", "versions", "all"]
    reason: str
    active: bool


class FreezeList(BaseModel):
    """The freezes, those that end first on top."""

    freezes: list[FreezeEntry]


def paused(world: World) -> Hold | None:
    """The pause of the whole fleet."""
    word = world.pauses.paused()
    if word is None:
        return None
    how = "`hullmark resume` ends that"
    return Hold("Paused", f"{word.by} paused the fleet at {word.at:%Y-%m-%d %H:%M} UTC: {word.reason}; {how}", word.at)


def held(cluster: str, change: Change, in_force: InForce, world: World, now: datetime) -> Hold | None:
    """What holds a change in a cluster back: of the freezes of the newest and of the released revision the stricter, and a pause."""
    pause = paused(world)
    with suppress(RecordUnreadable):  # whoever plans meets that too, and ends with the cause
        counting = (in_force.committed, in_force.holding(cluster))
        return longest([pause, *(_frozen(revision, cluster, change, now) for revision in counting)])
    return pause


def _frozen(revision: Revision | None, cluster: str, change: Change, now: datetime) -> Hold | None:
    if revision is None:
        return None
    policies = revision.policies
    return frozen(policies.freezes, cluster, policies.cluster_labels.get(cluster, {}), change, now)


def pause(reason: str, by: str, world: World, now: datetime) -> PauseStatus:
    """Hold every write until somebody resumes: parts that are not being written by then wait. Raises WrongState."""
    world.pauses.say("pause", by, now, reason)
    return status(world)


def resume(by: str, world: World, now: datetime) -> PauseStatus:
    """Let everything go on that the pause held. Raises WrongState where there is nothing to resume."""
    try:
        world.pauses.say("resume", by, now)
    except WrongState:
        if world.pauses.paused() or not any(world.actions.parked(action) for action in _going(world)):
            raise
    for action in _going(world):
        go_on(action, world)
    return status(world)


def _going(world: World) -> Iterator[str]:
    """Open actions that nobody paused by themselves."""
    return (action for action in world.actions.open() if not world.actions.paused(action))


def status(world: World) -> PauseStatus:
    """Whether the fleet is paused, and how many parts of actions are being written or wait."""
    writing = parked = 0
    for action in world.actions.open():
        plan = world.actions.plan(action)
        waiting = len(world.actions.parked(action))
        parked += waiting
        writing += len(plan.parts) - len(world.actions.recorded(action)) - waiting if plan else 0
    word = world.pauses.paused()
    if word is None:
        return PauseStatus(paused=False, writing=max(0, writing), parked=parked)
    return PauseStatus(paused=True, by=word.by, at=word.at, reason=word.reason, writing=max(0, writing), parked=parked)


def freezes(world: World, now: datetime) -> FreezeList:
    """Every freeze of the newest revision, and of the released ones, that has not ended."""
    in_force = world.releases.look()
    clusters = world.labelled_clusters(in_force.committed) if in_force.committed else {}
    counting = [in_force.committed, *(in_force.holding(cluster) for cluster in clusters)]
    revisions = {revision.number: revision for revision in counting if revision}
    entries = [entry for revision in revisions.values() for entry in _entries(revision, now)]
    return FreezeList(freezes=sorted(entries, key=lambda entry: (entry.ends, entry.name, entry.revision)))


def _entries(revision: Revision, now: datetime) -> Iterator[FreezeEntry]:
    for name, freeze in revision.policies.freezes.items():
        begins, ends = freeze.span
        if now < ends:
            yield FreezeEntry(
                name=name,
                revision=revision.number,
                begins=begins,
                ends=ends,
                clusters=str(freeze.clusters) if freeze.clusters else "every cluster",
                change=freeze.change,
                reason=freeze.reason,
                active=begins <= now,
            )
