"""How a rollout for versions goes on: what is let go, what people are asked and what they said. Pure.

Such a rollout stands as long as its document: it never ends by itself, and its stages are those of the document in force.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from shared.domain.documents.kinds import RolloutSpec, StageSpec, seconds, stages_of
from shared.domain.rollouts.progress import WAITS_FOR_A_PERSON, Opening, Progress, Said, Verb, Word, WrongPhase
from shared.domain.versions.decisions import Update
from shared.domain.versions.held import BEFORE_STAGE, Held
from shared.domain.versions.plans import ClusterPlan, going
from shared.domain.versions.semver import parse
from shared.domain.waves.decisions import Ask, Move, Wave, WaveStage, Words, line_of, means
from shared.domain.waves.sightings import Known, judge

LAPSES = timedelta(hours=6)
"""An opening of which nothing has come by then counts no more: its window has shut."""
KEPT_WORDS = 200
"""Words of people that are kept, the newest."""
NOT_FOR_VERSIONS: Mapping[Verb, str] = {
    "revert": "a Kubernetes version cannot be taken back: `pause` it, and bring a higher version that works",
}
"""Words that say nothing to a rollout of versions, and why."""


class Wanted(NamedTuple):
    """A cluster that is to be let go. `pressing`: its version expires before its stage comes."""

    cluster: str
    moves: Mapping[str, str]
    """By line, the version it goes to."""
    pressing: bool = False


def wanted_of(plan: ClusterPlan, waves: Iterable[Wave]) -> Wanted | None:
    """What one cluster would be let go for; None where it is in no stage, or nothing goes."""
    name = plan.cluster.full_name
    updates = going(plan.decisions)
    if not updates or not any(name in about.stage_of for about in waves):
        return None
    moves = {line_of(each.component, each.subject, each.image): each.outcome.to for each in updates if isinstance(each.outcome, Update)}
    return Wanted(name, moves, any(each.waived and each.waived.reason == BEFORE_STAGE.code for each in updates))


def wave(
    name: str, spec: RolloutSpec, progress: Progress | None, known: Mapping[str, Known], now: datetime, *, unseen: bool = False
) -> Wave:
    """A rollout as it is now. `progress` None: nobody has started it. `known`: every cluster that is known; `unseen`: not all are yet."""
    meant = {each: about for each, about in known.items() if spec.clusters is None or means(spec.clusters, each, about.labels)}
    if progress and progress.retried_at:
        meant = {each: _tried_again(about, progress.retried_at) for each, about in meant.items()}
    words = replace(words_of(progress, meant, now), unseen=unseen)
    return Wave(name, [_stage(stage) for stage in stages_of(spec)], meant, now, spec.stop_when.failed, words)


def _stage(spec: StageSpec) -> WaveStage:
    soak = timedelta(seconds=seconds(spec.soak))
    return WaveStage(spec.name, spec.clusters, spec.percent, soak, spec.approval == "before", spec.approval == "after", spec.max_in_flight)


def _tried_again(known: Known, since: datetime) -> Known:
    """A cluster whose failures before a retry count no more."""
    return structs.replace(known, failures={line: failure for line, failure in known.failures.items() if failure.at > since})


def words_of(progress: Progress | None, known: Mapping[str, Known], now: datetime) -> Words:
    """What people have said, and which clusters are on their way."""
    if progress is None or progress.phase not in ("running", "paused"):
        return Words(started=False)
    paused = f"{progress.said.by}: {progress.said.message}" if progress.phase == "paused" else ""
    going = (cluster for cluster, opening in progress.openings.items() if not _through(opening, known.get(cluster), now))
    return Words(True, paused, frozenset(Ask(*word.about) for word in progress.words), frozenset(going))


def _through(opening: Opening, known: Known | None, now: datetime) -> bool:
    """Whether a cluster that was let go has got there in good health, has failed, or never will."""
    if known is None:
        return True
    reached = True
    for line, version in opening.moves.items():
        if line not in known.lines:
            continue
        judged = judge(known, line, parse(version), timedelta(0), now)
        if judged.standing == "failed":
            return True
        there = parse(known.lines[line][-1].version).key >= parse(version).key
        reached = reached and judged.standing == "proven"
        if not there and now - opening.at >= LAPSES:
            return True
    return reached


def let_go(progress: Progress, about: Wave, wanted: Iterable[Wanted], said: Said) -> Progress:
    """The rollout with those of these clusters let go for which there is room; the same object where none is new."""
    if progress.phase != "running":
        return progress
    openings = {each: opening for each, opening in progress.openings.items() if each in about.words.under_way}
    room = [about.room(stage) for stage in range(len(about.stages))]
    fresh: dict[str, Opening] = {}
    for each in wanted:
        stage = about.stage_of[each.cluster]
        left = room[stage]
        if each.cluster in openings or (left == 0 and not each.pressing):
            continue
        fresh[each.cluster] = Opening(said.at, dict(each.moves))
        room[stage] = None if left is None else max(0, left - 1)
    return structs.replace(progress, said=said, openings={**openings, **fresh}) if fresh else progress


def asked(progress: Progress, asks: Collection[Ask], now: datetime) -> Progress:
    """The rollout with what people are asked; the same object where that is nothing new. A newer version replaces an older one."""
    known = {word.about for word in progress.questions}
    fresh = [Word(*ask, at=now) for ask in sorted(asks) if tuple(ask) not in known]
    if not fresh:
        return progress
    lines = {word.about[:4] for word in fresh}
    still = [word for word in progress.questions if word.about[:4] not in lines or tuple(word.about) in {tuple(ask) for ask in asks}]
    return structs.replace(progress, questions=[*still, *fresh])


def questions_on(progress: Progress, stage: str) -> list[Word]:
    """What people are asked about a stage."""
    return [word for word in progress.questions if word.stage == stage]


def lapses(progress: Progress, question: Word) -> datetime:
    """When a question that nobody has answered lapses. A retry asks it again."""
    return max(question.at, progress.retried_at or question.at) + WAITS_FOR_A_PERSON


def digest_of(rollout: str, questions: Iterable[Word]) -> str:
    """What an approval names: the same as long as the same is asked."""
    return hashlib.sha256(json.dumps([rollout, sorted(word.about for word in questions)]).encode()).hexdigest()[:16]


def approved(progress: Progress, stage: str, said: Said) -> Progress:
    """The rollout with a person's word for everything that one stage waits for. Raises WrongPhase where it waits for nothing."""
    meant = questions_on(progress, stage)
    if progress.phase != "running" or not meant:
        waiting = ", ".join(sorted({word.stage for word in progress.questions})) or "none"
        raise WrongPhase(f"rollout {progress.id} waits for no word on stage {stage or 'none'} (on {waiting}): nothing was approved")
    if any(lapses(progress, word) <= said.at for word in meant):
        within = f"nobody answered on stage {stage} within {WAITS_FOR_A_PERSON.days} days"
        raise WrongPhase(f"rollout {progress.id}: {within}, and nothing was approved: `hullmark rollout retry {progress.id}` asks again")
    words = [structs.replace(word, by=said.by, at=said.at) for word in meant]
    rest = [word for word in progress.questions if word.stage != stage]
    what = ", ".join(str(Ask(*word.about)) for word in meant)
    told = structs.replace(said, message=said.message or f"stage {stage}: {what}")
    return structs.replace(progress, said=told, questions=rest, words=[*progress.words, *words][-KEPT_WORDS:])


# --- showing


class Waiting(NamedTuple):
    """What a stage waits for: the version that the stages before it run, and why it may not have it."""

    stage: int
    profile: str
    line: str
    version: str
    held: Held
    asked: Ask | None


def waiting(about: Wave) -> Iterator[Waiting]:
    """What the later stages wait for: of every profile and line the highest version that an earlier stage runs and they don't."""
    for stage in range(1, len(about.stages)):
        for profile, line in sorted(
            {(about.known[each].profile, line) for each in about.members[stage] for line in about.known[each].lines}
        ):
            behind = _behind(about, stage, profile, line)
            if behind is None:
                continue
            cluster, move = behind
            held, ask = about.judged(cluster, move)
            if held:
                yield Waiting(stage, profile, line, move.to, held, ask)


def _behind(about: Wave, stage: int, profile: str, line: str) -> tuple[str, Move] | None:
    """A cluster of a stage that runs less than one of an earlier stage, and the move that it has before it."""
    ahead = [each for number in range(stage) for each in about.members[number]]
    highest = max(
        (_runs(about, each, line) for each in ahead if _shows(about, each, profile, line)), key=lambda it: parse(it).key, default=""
    )
    members = [each for each in about.members[stage] if _shows(about, each, profile, line)]
    if not highest or not members:
        return None
    lowest = min(members, key=lambda each: parse(_runs(about, each, line)).key)
    runs = _runs(about, lowest, line)
    return (lowest, Move(line, runs, highest)) if parse(runs).key < parse(highest).key else None


def _shows(about: Wave, cluster: str, profile: str, line: str) -> bool:
    return about.known[cluster].profile == profile and line in about.known[cluster].lines


def _runs(about: Wave, cluster: str, line: str) -> str:
    return about.known[cluster].lines[line][-1].version


def counted(about: Wave, stage: int) -> Sequence[str]:
    """What the clusters of a stage run, in words: `p controlPlane: 3 on 1.30.4, 1 on 1.30.1`."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for cluster in about.members[stage]:
        known = about.known[cluster]
        for line, runs in known.lines.items():
            versions = found.setdefault((known.profile, line), {})
            versions[runs[-1].version] = versions.get(runs[-1].version, 0) + 1
    return [
        f"{profile} {line}: " + ", ".join(f"{count} on {version}" for version, count in sorted(versions.items(), key=lambda it: -it[1]))
        for (profile, line), versions in sorted(found.items())
    ]
