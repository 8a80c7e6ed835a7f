"""What becomes of updates that a provider has accepted: their action runs until it is through, and ends with what it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.domain.actions import action_id, lost_record
from shared.domain.notices import VERSION_FAILED, VERSION_UPDATED
from shared.domain.outcomes import Outcome
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.ends import UNSAID, Progress, end_of, gone, reached, stopped
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.notices import Due
from shared.ledger.begun import BegunPart, TornPart
from shared.ledger.fleets import Fleets
from shared.ledger.notices import Sent
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.messages import PartResult
from shared.ports import ClusterError
from shared.world import World

NEVER = timedelta(days=30)
"""An update whose end was not seen for so long is forgotten: nobody will see it."""


@dataclass(frozen=True)
class Watched:
    """A part of an action that a provider has accepted, and the steps of it that have ended, by their subjects."""

    part: BegunPart
    ended: Mapping[str, Outcome]
    told: bool = False
    """Whether its action has ended already."""
    stopped: bool = False
    """Whether somebody stopped its action."""

    @property
    def through(self) -> bool:
        """Whether every step has ended."""
        return self.ended.keys() >= self.part.about.keys()

    @property
    def outcomes(self) -> list[Outcome] | None:
        """What became of each of its steps; None while its action runs."""
        if not (self.through or self.stopped):
            return None
        waiting = {outcome.subject: stopped(outcome) for outcome in self.part.begun}
        return [self.ended.get(each.subject) or waiting.get(each.subject) or each for each in self.part.outcomes]


@dataclass(frozen=True)
class Watch:
    """All of a check's, by their actions, and the records that can't be read."""

    parts: Mapping[str, Watched] = field(default_factory=dict)
    torn: tuple[TornPart, ...] = ()

    def notices(self, sent: Sent, revision: Revision | None, world: World, now: datetime) -> list[Due]:
        """What is to be told of the steps that have ended, and is not out yet; waves stop where one failed."""
        told: list[Due] = []
        for watched in self.parts.values():
            fresh = [notice for notice in _notices(watched) if not sent.knows(notice.key, notice.fleet)]
            _stop_waves(watched.part.cluster, fresh, revision, world, now)
            told += fresh
        return told

    def results(self, world: World) -> list[PartResult]:
        """What became of the parts whose actions can end now. Said again until they have."""
        ended = [(each.part, outcomes) for each in self.parts.values() if not each.told and (outcomes := each.outcomes) is not None]
        results = [PartResult(action=part.action, part=part.part, revision=part.revision, outcomes=outcomes) for part, outcomes in ended]
        return results + [_lost(torn, world) for torn in self.torn if torn.part]

    def forget(self, world: World, now: datetime) -> None:
        """Forget what is told and whose actions have ended, and what nobody will see the end of."""
        for watched in self.parts.values():
            if (watched.told and watched.through) or now - watched.part.at > NEVER:
                world.begun.forget(watched.part.key)
        for torn in self.torn:
            if not torn.part or world.actions.outcome(torn.action):
                world.begun.forget(torn.key)


def watch(shard: int | None, view: FleetView, fleets: Fleets, world: World, now: datetime) -> Watch:
    """How far providers are with what they have accepted, in a shard's fleets."""
    parts, torn = world.begun.of(shard)
    found = world.workers.each(lambda part: _watched(part, view, fleets, world, now), parts)
    return Watch({each.part.action: each for each in found}, tuple(torn))


def _watched(part: BegunPart, view: FleetView, fleets: Fleets, world: World, now: datetime) -> Watched:
    ended = {outcome.subject: end for outcome in part.begun if (end := _end(part, outcome, view, fleets, now))}
    told = world.actions.outcome(part.action) is not None
    return Watched(part, ended, told, stopped=not told and world.actions.stopped(part.action))


def _end(part: BegunPart, begun: Outcome, view: FleetView, fleets: Fleets, now: datetime) -> Outcome | None:
    step, cluster = part.step(begun.subject), view.clusters.get(part.cluster)
    if cluster is None:
        there = part.fleet in fleets.names and part.fleet not in view.fleets  # its fleet does not answer: later it may
        return None if there else gone(step, part.cluster)
    if cluster.running:
        return None
    said = UNSAID if reached(step, cluster) else _said(fleets, cluster, step)
    return end_of(step, begun, cluster, said, now - part.at)


def _said(fleets: Fleets, cluster: FleetCluster, step: VersionStep) -> Progress:
    try:
        return fleets.progress(cluster, step)
    except ClusterError as error:
        return Progress("unknown", f"the provider's words cannot be read: {error}")


def _notices(watched: Watched) -> Iterator[Due]:
    """What is told of the steps that have ended."""
    for subject, end in watched.ended.items():
        about = watched.part.about[subject]
        kind = VERSION_UPDATED if end.outcome == "changed" else VERSION_FAILED
        data = about | {"outcome": end.outcome, "code": end.reason, "message": end.message}
        yield Due(kind.id(f"{watched.part.action}/{subject}"), kind.type, watched.part.cluster, data)


def _stop_waves(cluster: str, notices: Iterable[Due], revision: Revision | None, world: World, now: datetime) -> None:
    """Keep what failed as version_apply does, so that waves stop there."""
    failed = [notice.data for notice in notices if notice.data["outcome"] == "failed"]
    if not failed:
        return
    from shared.domain.waves.decisions import line_of  # few updates fail
    from shared.domain.waves.sightings import Failure
    from shared.work.waves import tried_and_failed

    lines = {line_of(each["component"], each["subject"], each["image"]): Failure(each["to"], now, each["message"]) for each in failed}
    tried_and_failed(cluster, lines, revision, world, now)


def _lost(torn: TornPart, world: World) -> PartResult:
    """The result of a part whose record can't be read: its steps have failed with that cause."""
    try:
        plan = world.actions.plan(torn.action)
    except RecordUnreadable:
        plan = None
    subjects = plan.parts[torn.part - 1] if plan and 0 < torn.part <= len(plan.parts) else []
    return PartResult(action=torn.action, part=torn.part, outcomes=[lost_record(each, torn.cause) for each in subjects])


def attempt(cluster: FleetCluster, number: int, began: datetime, content: str = "") -> str:
    """The id of the n-th action for a cluster in the opening of its window that began then."""
    return action_id(f"versions/{cluster.full_name}/{content}/{number}", began)
