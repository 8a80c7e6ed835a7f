"""Rollouts, and what holds the fleet back, for the page and the metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from functions.api.standing import recalled
from shared.domain.rollouts.progress import Progress
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import UnknownRevision
from shared.ledger.rollouts import UnknownRollout
from shared.work.holds import FreezeEntry, freezes
from shared.work.rollouts import Control, RolloutStatus, shown
from shared.world import World

DETAILED = 5
"""Most unfinished rollouts that the page shows, the newest."""
FINISHED = 5
"""Most finished ones."""
MEASURED = 50
"""Most unfinished rollouts that have metrics of their own."""
PLACES = 5
"""Most clusters that are listed for a stage."""
ACTIONS = 3
"""Most actions of a stage that are linked."""


Show = Callable[[Progress, World, datetime], RolloutStatus]


class Unreadable(NamedTuple):
    """A rollout whose record can't be read, and why."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The newest rollouts, newest first."""

    unfinished: Sequence[RolloutStatus]
    finished: Sequence[Progress]
    unreadable: Sequence[Unreadable]
    more: int
    """Unfinished ones that are left out."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What holds changes back now."""

    paused: bool = False
    by: str = ""
    since: datetime | None = None
    reason: str = ""
    freezes: Sequence[FreezeEntry] = ()
    trouble: str = ""
    """Why the freezes can't be told; else empty."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The unfinished rollouts that were read, newest first."""

    found: Sequence[RolloutStatus]
    unreadable: Sequence[Unreadable]
    total: int


def unfinished(world: World, now: datetime, most: int, show: Show = shown) -> Unfinished:
    """Read the newest rollouts that are not finished, `most` at a time; one that can't be read hides no other."""
    found: list[RolloutStatus] = []
    unreadable: list[Unreadable] = []
    ids = sorted(world.rollouts.open(), reverse=True)
    for rollout in ids[:most]:
        try:
            found.append(show(world.rollouts.get(rollout), world, now))
        except UnknownRollout:
            continue  # whoever was to record it never got to that
        except (RecordUnreadable, UnknownRevision) as torn:
            unreadable.append(Unreadable(rollout, str(torn)))
    return Unfinished(found, unreadable, len(ids))


def rollouts(world: World, now: datetime) -> Rollouts:
    """Read what the page shows of rollouts."""
    on_their_way = unfinished(world, now, DETAILED, detailed)
    finished, torn = _finished(world)
    more = max(0, on_their_way.total - DETAILED)
    return Rollouts(on_their_way.found, finished, [*on_their_way.unreadable, *torn], more)


def _finished(world: World) -> tuple[list[Progress], list[Unreadable]]:
    """The newest that have ended: one chain each."""
    going = {*world.rollouts.open()}
    found: list[Progress] = []
    torn: list[Unreadable] = []
    for rollout in [each for each in reversed(world.rollouts.ids()) if each not in going][:FINISHED]:
        try:
            found.append(world.rollouts.get(rollout))
        except UnknownRollout:
            continue
        except RecordUnreadable as gone:
            torn.append(Unreadable(rollout, str(gone)))
    return found, torn


def detailed(progress: Progress, world: World, now: datetime) -> RolloutStatus:
    """Where a rollout stands, with the causes of its failures."""
    return shown(progress, world, now, lambda actions: [standing.outcome for standing in recalled(actions, world)])


_AGAIN_FOR_VERSIONS: list[Control] = ["retry", "pause", "abort"]
_PAUSED_FOR_VERSIONS: list[Control] = ["resume", "abort"]
"""What a rollout for versions takes: it is never taken back."""


def words(status: RolloutStatus) -> list[Control]:
    """The words that a rollout takes now."""
    approving: list[Control] = ["approve"] if status.stage else []
    if status.change == "versions":
        return {"running": [*approving, *_AGAIN_FOR_VERSIONS], "paused": _PAUSED_FOR_VERSIONS}.get(status.phase, [])
    match status.phase:
        case "running":
            again: list[Control] = ["retry"] if status.reason == "ClusterBehind" else []
            return [*approving, *again, "pause", "revert"]
        case "paused":
            return ["resume", "abort", "revert"]
        case "stopped":
            return ["retry", "abort", "revert"]
        case "aborted" | "done":
            return ["revert"]
        case _:
            return []


def holding(world: World, now: datetime) -> Holding:
    """Whether the fleet is paused, and which freezes hold now."""
    word = world.pauses.paused()
    try:
        # a freeze stands once for each revision that counts
        active = {(each.name, each.ends, each.clusters, each.change): each for each in freezes(world, now).freezes if each.active}
        entries, trouble = [*active.values()], ""
    except RecordUnreadable as torn:
        entries, trouble = [], str(torn)
    if word is None:
        return Holding(freezes=entries, trouble=trouble)
    since = word.at if word.at.timestamp() else None  # a pause that can't be read has no time
    return Holding(True, word.by, since, word.reason, entries, trouble)
