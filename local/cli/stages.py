"""A rollout in the terminal: where its stages stand and what each waits for, and what has changed since the last look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from local.cli.output import grid
from shared.domain.reasons.table import GROUPS, WAITS
from shared.domain.rollouts.approvals import lines as worded
from shared.domain.rollouts.causes import Cause
from shared.work.rollouts import ApprovalImpact, RolloutStatus, StageStatus

PLACES = 5
"""Most clusters that are listed for a stage."""
COLUMNS = ("stage", "state", "nodes done", "failed", "missing", "waits for")
OF_VERSIONS = ("stage", "state", "clusters in order", "failed", "missing", "waits for")


def view(seen: RolloutStatus) -> Iterator[Any]:
    """A rollout for people: what the status page shows of it, in 80 columns."""
    what = "versions, cluster by cluster" if seen.change == "versions" else f"revision {seen.revision} to {_where(seen)}"
    yield Text(f"{seen.name}: {seen.phase}, {what}, started by {seen.started_by} at {at(seen.started_at)}")
    yield grid(OF_VERSIONS if seen.change == "versions" else COLUMNS, [_row(stage) for stage in seen.stages])
    for stage in seen.stages:
        yield from (Text(f"  {line}") for line in _details(stage))
    if seen.reason:
        yield Text(f"{'waits' if seen.phase == 'running' else seen.phase}: {waits(seen)}")
        yield from (Text(f"  see {line}") for line in explained(seen.reason))
    elif seen.phase != "running" and seen.said_by:
        yield Text(f"{seen.phase} by {seen.said_by} at {at(seen.since)}{': ' if seen.message else ''}{seen.message}")
    if seen.impact:
        yield from map(Text, impact_lines(seen.impact))
        yield Text(f"`hullmark rollout approve {seen.id} {seen.stage} --impact {seen.impact.digest}` approves that")


def impact_lines(impact: ApprovalImpact) -> Iterator[str]:
    """What an approval lets happen."""
    yield f"impact {impact.digest}, {', '.join(impact.stages) or 'no stage'}, as counted at {at(impact.at)}:"
    yield from (f"  {line}" for line in (*worded(impact.clusters), *impact.versions))


def _where(seen: RolloutStatus) -> str:
    return f"cluster {seen.clusters[0]}" if len(seen.clusters) == 1 else f"{len(seen.clusters)} clusters"


def _row(stage: StageStatus) -> tuple[str, ...]:
    done = f"{stage.done} of {stage.nodes}" + (f", {stage.behind} behind" if stage.behind else "")
    waits_for = stage.message if stage.reason == "WaitingForStage" else stage.reason
    until = f" until {at(stage.until)}" if stage.until else ""
    return stage.name, stage.state, done, f"{stage.failed} ({stage.budget} may)", str(stage.missing), f"{waits_for}{until}"


def _details(stage: StageStatus) -> Iterator[str]:
    """Where a stage is out, and why nodes of it failed."""
    if stage.where:
        more = f" and {stage.clusters - PLACES} more" if stage.clusters > PLACES else ""
        shares = ", ".join(f"{share.cluster} {share.released} of {share.nodes}" for share in stage.where[:PLACES])
        yield f"{stage.name} is released to {shares}{more}"
    if stage.pods:
        yield f"{stage.name}, its pods: {stage.pods}"
    yield from (f"{stage.name} runs {line}" for line in stage.runs)
    if stage.runs and stage.message:
        yield f"{stage.name} waits: {stage.message}"
    yield from (f"{stage.name}: {_in_words(cause)}" for cause in stage.causes)


def _in_words(cause: Cause) -> str:
    names = ", ".join(cause.examples) + (", …" if cause.nodes > len(cause.examples) else "")
    nodes = f"{cause.nodes} node{'s' if cause.nodes > 1 else ''}"
    return f"{nodes} {cause.reason} ({names})" + (f": {cause.message}" if cause.message else "")


def waits(seen: RolloutStatus) -> str:
    """What a rollout waits for, since when, until when and for whom."""
    since = f", since {at(seen.since)}" if seen.since else ""
    until = f", until {at(seen.until)}" if seen.until else ""
    who = f"; it needs {seen.who}" if seen.who else ""
    return f"{seen.reason}{': ' if seen.message else ''}{seen.message}{since}{until}{who}"


def explained(reason: str) -> Iterator[str]:
    """Where a reason of our own is explained."""
    if any(reason in group.reasons for group in GROUPS):
        page = f"docs/waits.md#{reason.lower()}" if reason in WAITS else "docs/reasons.md"
        yield f"{page}, or `hullmark reasons {reason}`"


def changes(before: RolloutStatus | None, after: RolloutStatus) -> Iterable[str]:
    """What has changed since the last look, a line for each."""
    for number, stage in enumerate(after.stages):
        yield from _changes_of(before.stages[number] if before else None, stage)
    told = [_standing(each) if each else "" for each in (before, after)]
    if told[0] != told[1]:
        yield told[1]


def _changes_of(before: StageStatus | None, stage: StageStatus) -> Iterable[str]:
    """Of a stage that nobody saw yet, only what is not as at the beginning."""
    was = before or StageStatus(name=stage.name, state="waiting", nodes=stage.nodes)
    if stage.state != was.state:
        yield f"stage {stage.name} is {stage.state}, {stage.done} of {stage.nodes} nodes done"
    elif stage.done != was.done:
        yield f"stage {stage.name}: {stage.done} of {stage.nodes} nodes done"
    for what, now, then in _counts(stage, was):
        if now != then:
            yield f"stage {stage.name}: {now} {what}"
    known = {(cause.reason, cause.nodes) for cause in was.causes}
    yield from (f"stage {stage.name}: {_in_words(cause)}" for cause in stage.causes if (cause.reason, cause.nodes) not in known)


def _counts(stage: StageStatus, was: StageStatus) -> Sequence[tuple[str, int, int]]:
    return (
        (f"failed, {stage.budget} may", stage.failed, was.failed),
        ("missing", stage.missing, was.missing),
        ("behind", stage.behind, was.behind),
    )


def _standing(seen: RolloutStatus) -> str:
    """The phase, and what it waits for."""
    return f"{seen.phase}, {waits(seen)}" if seen.reason else seen.phase


def at(moment: datetime | None) -> str:
    """A time as people read it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""
