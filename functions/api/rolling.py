"""Rollouts, and what holds the fleet back, for the page and the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from functions.api.standing import recalled
from shared.domain.actions import ActionOutcome
from shared.domain.rollouts.progress import Batch, Progress
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import UnknownRevision
from shared.ledger.rollouts import UnknownRollout
from shared.work.holds import FreezeEntry, freezes
from shared.work.rollouts import RolloutStatus, StageStatus, shown
from shared.world import World

DETAILED = 5
"""Most unfinished rollouts that the page shows, the newest."""
FINISHED = 5
"""Most finished ones."""
MEASURED = 50
"""Most unfinished rollouts that have metrics of their own."""
CAUSES_FROM = 20
"""Most actions of a stage that are read for the causes of its failures."""
PLACES = 5
"""Most clusters that are listed for a stage."""
ACTIONS = 3
"""Most actions of a stage that are linked."""
EXAMPLES = 3
"""Nodes that are named for a cause."""


class Share(NamedTuple):
    """To how many of a stage's nodes in a cluster the revision is released."""

    cluster: str
    released: int
    nodes: int


@dataclass(slots=True)
class Cause:
    """Why nodes of a stage failed or are missing. `message`: of the first."""

    reason: str
    message: str
    nodes: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage as the page shows it."""

    status: StageStatus
    shares: Sequence[Share]
    """By cluster, where the rollout has several; those with most nodes first."""
    causes: Sequence[Cause]
    """Most nodes first."""


@dataclass(frozen=True, slots=True)
class RolloutView:
    """One unfinished rollout as the page shows it."""

    status: RolloutStatus
    stages: Sequence[StageView]
    commands: Sequence[str]


class Unreadable(NamedTuple):
    """A rollout whose record can't be read, and why."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The newest rollouts, newest first."""

    unfinished: Sequence[RolloutView]
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

    found: Sequence[tuple[Progress, RolloutStatus]]
    unreadable: Sequence[Unreadable]
    total: int


def unfinished(world: World, now: datetime, most: int) -> Unfinished:
    """Read the newest rollouts that are not finished, `most` at a time; one that can't be read hides no other."""
    found: list[tuple[Progress, RolloutStatus]] = []
    unreadable: list[Unreadable] = []
    ids = sorted(world.rollouts.open(), reverse=True)
    for rollout in ids[:most]:
        try:
            progress = world.rollouts.get(rollout)
            found.append((progress, shown(progress, world, now)))
        except UnknownRollout:
            continue  # whoever was to record it never got to that
        except (RecordUnreadable, UnknownRevision) as torn:
            unreadable.append(Unreadable(rollout, str(torn)))
    return Unfinished(found, unreadable, len(ids))


def rollouts(world: World, now: datetime) -> Rollouts:
    """Read what the page shows of rollouts."""
    on_their_way = unfinished(world, now, DETAILED)
    finished, torn = _finished(world)
    return Rollouts(
        [_view(progress, status, world) for progress, status in on_their_way.found],
        finished,
        [*on_their_way.unreadable, *torn],
        max(0, on_their_way.total - DETAILED),
    )


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


def _view(progress: Progress, status: RolloutStatus, world: World) -> RolloutView:
    stages = [
        StageView(stage, shares(progress, number), _causes_of(progress, number, world) if _troubled(stage) else [])
        for number, stage in enumerate(status.stages)
    ]
    return RolloutView(status, stages, commands(status))


def _troubled(stage: StageStatus) -> bool:
    return bool(stage.failed or stage.missing or stage.behind)


def shares(progress: Progress, stage: int) -> list[Share]:
    """Where a stage is out: its clusters with nodes, the largest first; none where the rollout has a single cluster."""
    if len(progress.clusters) == 1:
        return []
    released: Counter[str] = Counter()
    for batch in progress.newest_batches(stage):
        released[batch.cluster] += batch.count
    there = [Share(cluster, released[cluster], sizes[stage]) for cluster, sizes in progress.placed.items() if sizes[stage]]
    return sorted(there, key=lambda share: (-share.nodes, share.cluster))


def _causes_of(progress: Progress, stage: int, world: World) -> list[Cause]:
    """The causes in the newest of the stage's actions that have any."""
    tried = [batch for batch in progress.newest_batches(stage) if _may_tell(batch)][-CAUSES_FROM:]
    return causes(standing.outcome for standing in recalled([batch.action for batch in tried], world))


def _may_tell(batch: Batch) -> bool:
    fact = batch.fact
    return fact is None or bool(fact.failed or fact.missing or fact.behind)


def causes(outcomes: Iterable[ActionOutcome | None]) -> list[Cause]:
    """Group the nodes that failed or are missing by their reason, most nodes first."""
    found: dict[str, Cause] = {}
    for node in (node for outcome in outcomes if outcome for node in outcome.outcomes if node.outcome in ("failed", "missing")):
        cause = found.setdefault(reason := node.reason or node.outcome, Cause(reason, node.message))
        cause.nodes += 1
        if len(cause.examples) < EXAMPLES:
            cause.examples.append(node.subject)
    return sorted(found.values(), key=lambda cause: (-cause.nodes, cause.reason))


def commands(status: RolloutStatus) -> list[str]:
    """What a person may say to an unfinished rollout now, as commands."""
    said = [f"approve {status.id} {status.stage}"] if status.stage else []
    match status.phase:
        case "running":
            said += [f"retry {status.id}"] if status.reason == "ClusterBehind" else []
            said += [f"pause {status.id} --reason …"]
        case "paused":
            said += [f"resume {status.id}", f"abort {status.id}"]
        case "stopped":
            said += [f"retry {status.id}", f"abort {status.id}"]
        case _:
            return []
    return [f"hullmark rollout {words}" for words in [*said, f"revert {status.id}"]]


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
