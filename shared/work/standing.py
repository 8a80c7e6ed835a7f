"""Rollouts for versions as people steer and see them: start one, give it a word, where its stages stand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from msgspec import structs
from ulid import ULID

from shared.domain.documents.kinds import RolloutSpec
from shared.domain.rollouts.decisions import APPROVER, Wait
from shared.domain.rollouts.progress import WAITS_FOR_A_PERSON, Progress, Said, Verb, Word, WrongPhase, given
from shared.domain.waves.decisions import Ask, Wave, WaveStage
from shared.domain.waves.standing import NOT_FOR_VERSIONS, Waiting, approved, counted, digest_of, lapses, questions_on, waiting, wave
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.ledger.rollouts import UnknownRollout
from shared.work.intake import Refusal, Rejected
from shared.world import World


def versions_rollouts(revision: Revision | None) -> dict[str, RolloutSpec]:
    """The rollouts for versions that are in force."""
    return {name: spec for name, spec in revision.policies.rollouts.items() if spec.change == "versions"} if revision else {}


def started_rollouts(world: World, names: Collection[str]) -> dict[str, Progress]:
    """The rollouts of these documents that somebody started and nobody aborted; of several of one document the oldest."""
    found: dict[str, Progress] = {}
    for rollout in sorted(world.rollouts.open()):
        with suppress(UnknownRollout, RecordUnreadable):
            progress = world.rollouts.get(rollout)
            if progress.change == "versions" and progress.name in names and not progress.ended:
                found.setdefault(progress.name, progress)
    return found


def start(name: str, revision: int, by: str, world: World, now: datetime) -> Progress:
    """Begin a rollout for versions, or say which one has begun already: it stands as long as its document."""
    if there := started_rollouts(world, {name}).get(name):
        return there
    said = Said("start", by, now)
    progress = Progress(str(ULID()), name, revision, said, said, [], change="versions")
    world.rollouts.start(progress)
    first = started_rollouts(world, {name}).get(name, progress)
    if first.id != progress.id:  # somebody else began at the same moment
        ended = Said("abort", by, now, message=f"rollout {first.id} of the same document has begun")
        world.rollouts.change(progress.id, lambda state: given(state, ended))
    return first


# --- steering


def given_word(state: Progress, verb: Verb, said: Said, stage: str = "", impact: str = "") -> Progress:
    """What a word makes of a rollout for versions. Raises Rejected for a word that says nothing to it, and WrongPhase."""
    if why := NOT_FOR_VERSIONS.get(verb):
        raise Rejected(Refusal("NotForVersions", f"rollout {state.id} is one for versions: {why}"))
    if verb == "approve":
        after = approved(state, stage, said)
        _refuse_unless_shown(state, stage, impact)
        return after
    if verb == "retry" and state.phase == "paused":
        raise WrongPhase(f"rollout {state.id} is paused: resume it, then retry")
    changed = given(state, said)
    return structs.replace(changed, questions=[]) if verb == "abort" else changed


def _refuse_unless_shown(state: Progress, stage: str, impact: str) -> None:
    """Raises Rejected where an approval does not name what is asked now."""
    digest, asked = question_digest(state, stage), in_words(state, stage)
    if not impact:
        raise Rejected(Refusal("ImpactRequired", f"say what is approved: {asked} is impact {digest}"))
    if impact != digest:
        raise Rejected(Refusal("ImpactChanged", f"nothing was approved: what is asked now is {asked}, which is impact {digest}"))


def ended_with_its_document(progress: Progress, world: World, now: datetime) -> Progress:
    """The rollout, ended where the newest revision has its document no more."""
    if progress.ended or progress.name in versions_rollouts(world.releases.look().committed):
        return progress
    said = Said("abort", "documents", now, message="the newest revision has no such Rollout any more")
    return world.rollouts.change(progress.id, lambda state: state if state.ended else given_word(state, "abort", said))


def asks(progress: Progress, now: datetime) -> list[Wait]:
    """What people are asked, one wait since each moment at which something was; what nobody has answered in time lapses."""
    by_end: dict[datetime, list[str]] = {}
    for word in progress.questions:
        by_end.setdefault(lapses(progress, word), []).append(_question(word))
    return [_wait(end, "; ".join(said), lapsed=now >= end) for end, said in sorted(by_end.items())]


def _wait(end: datetime, said: str, *, lapsed: bool) -> Wait:
    if lapsed:
        return Wait("ApprovalExpired", f"nobody answered within {WAITS_FOR_A_PERSON.days} days: {said}", end, who=APPROVER)
    return Wait("AwaitingApproval", said, end - WAITS_FOR_A_PERSON, end, APPROVER)


def _question(word: Word) -> str:
    what = Ask(*word.about)
    return f"may {what} enter stage {word.stage}?" if word.when == "before" else f"was {what} good in stage {word.stage}?"


# --- showing


def in_words(progress: Progress, stage: str) -> str:
    """What a word on a stage would be about."""
    return ", ".join(asked_about(progress, stage))


def asked_about(progress: Progress, stage: str) -> list[str]:
    """What a word on a stage would be about, one by one."""
    return [str(Ask(*word.about)) for word in questions_on(progress, stage)]


def question_digest(progress: Progress, stage: str) -> str:
    """What an approval of a stage has to name."""
    return digest_of(progress.id, questions_on(progress, stage))


class StageOfClusters(NamedTuple):
    """Where one stage stands."""

    about: WaveStage
    clusters: int
    under_way: int
    failed: int
    silent: int
    budget: int
    runs: Sequence[str]
    """What its clusters run, in words."""
    waits: Sequence[Waiting]


def stages_shown(progress: Progress, world: World, now: datetime) -> list[StageOfClusters]:
    """Where the stages of a rollout for versions stand, by what was seen of their clusters last; none where its document is gone."""
    spec = versions_rollouts(world.releases.look().committed).get(progress.name)
    if spec is None:
        return []
    known = world.sightings.read(now).clusters
    about = wave(progress.name, spec, progress, known, now)
    waits = list(waiting(about))
    return [_stage_shown(about, stage, [each for each in waits if each.stage == stage]) for stage in range(len(about.stages))]


def _stage_shown(about: Wave, stage: int, waits: Sequence[Waiting]) -> StageOfClusters:
    there = [(name, about.known[name]) for name in about.members[stage]]
    return StageOfClusters(
        about=about.stages[stage],
        clusters=len(there),
        under_way=sum(name in about.words.under_way for name, _ in there),
        failed=sum(bool(known.failures or known.bad) for _, known in there),
        silent=sum(known.unknown is not None for _, known in there),
        budget=about.budget(stage),
        runs=counted(about, stage),
        waits=waits,
    )
