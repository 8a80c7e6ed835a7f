"""What holds changes back now: a Freeze document, a pause of the whole fleet; pausing it, and letting it go on (docs/freezes.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    """Whether the fleet is paused, by whom and why; `writing`: parts of actions that are under way, `parked`: parts that wait,
    `unreadable`: actions whose parts can't be counted.
    """

    paused: bool
    by: str = ""
    at: datetime | None = None
    reason: str = ""
    writing: int = 0
    parked: int = 0
    unreadable: int = 0


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


def held(clusters: Iterable[str], change: Change, in_force: InForce, world: World, now: datetime) -> dict[str, Hold]:
    """What holds a change back, by cluster: a pause, and of the freezes of the newest and of the released revision the stricter.

    A revision that can't be read takes no other's freeze away; whoever plans by it meets that too, and ends with the cause.
    """
    pause = paused(world)
    freezing = {cluster: [_frozen(revision, cluster, change, now) for revision in _guarding(cluster, in_force)] for cluster in clusters}
    holds = {cluster: longest([pause, *freezes]) for cluster, freezes in freezing.items()}
    return {cluster: hold for cluster, hold in holds.items() if hold}


def _guarding(cluster: str, in_force: InForce) -> Iterator[Revision]:
    """The revisions whose freezes count in a cluster, as far as they can be read."""
    looks: tuple[Callable[[], Revision | None], ...] = (lambda: in_force.committed, lambda: in_force.holding(cluster))
    for look in looks:
        with suppress(RecordUnreadable):
            revision = look()
            if revision and revision.policies.freezes:
                yield revision


def _frozen(revision: Revision, cluster: str, change: Change, now: datetime) -> Hold | None:
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
        with suppress(RecordUnreadable):  # its deadline ends it; the others go on
            go_on(action, world)
    return status(world)


def _going(world: World) -> Iterator[str]:
    """Open actions that nobody paused by themselves."""
    return (action for action in world.actions.open() if not world.actions.paused(action))


def status(world: World) -> PauseStatus:
    """Whether the fleet is paused, and how many parts of actions are being written or wait."""
    word = world.pauses.paused()
    found = PauseStatus(paused=True, by=word.by, at=word.at, reason=word.reason) if word else PauseStatus(paused=False)
    for action in world.actions.open():
        waiting = len(world.actions.parked(action))
        found.parked += waiting
        try:
            plan = world.actions.plan(action)
        except RecordUnreadable:
            found.unreadable += 1
            continue
        sent = len(plan.parts) if plan else 0
        found.writing += max(0, sent - len(world.actions.recorded(action)) - waiting)
    return found


def freezes(world: World, now: datetime) -> FreezeList:
    """Every freeze of the newest revision, and of the released ones, that has not ended."""
    in_force = world.releases.look()
    clusters = world.labelled_clusters(in_force.committed) if in_force.committed else {}
    revisions = {revision.number: revision for cluster in clusters for revision in _guarding(cluster, in_force)}
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
