"""What a rollout does next: one decision, from what was asked for, what is so, and the time. Pure.

Stages open in order. One opens when the stage before it has ended within its budget, has soaked, is approved where that was asked for, and
its nodes are as Ready as they were.
A cluster that does not answer holds nobody else up: it gets the change with the end of the rollout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from msgspec import structs

from shared.domain.documents.kinds import REST
from shared.domain.holds import Hold
from shared.domain.rollouts.health import AGAIN, named, newest_stage, watched
from shared.domain.rollouts.progress import HEALTHY, RUNNING, WAITS_FOR_A_PERSON, Batch, Doubts, Fact, Progress, Said, When, given

BATCH = 5000
"""Nodes of one batch at most: its request names them."""
WEIGHED_FOR = timedelta(minutes=5)
"""How long a count of pods may be old when a stage opens by it."""
APPROVER = "somebody who may approve it: `hullmark rollout approve`"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is so now. `batches`: by action."""

    batches: Mapping[str, Fact] = field(default_factory=dict)
    held: Hold | None = None
    """What holds changes back in a cluster of the rollout."""
    busy: str = ""
    """Why it can't begin yet; empty where it can."""
    looked: frozenset[str] | None = None
    """The clusters whose nodes were looked at in this step; None where the last look, as it is kept, is what to go by."""

    def of(self, batch: Batch) -> Fact:
        """What became of a batch."""
        return batch.fact or self.batches.get(batch.action, RUNNING)


@dataclass(frozen=True, slots=True)
class Open:
    """Bring the change to `count` nodes of a stage in a cluster, from `start` on."""

    stage: int
    cluster: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done now: why, since when, and until when or for whom."""

    reason: str
    message: str
    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    approval: tuple[int, When] | None = None
    """For which stage a person's word is waited for."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing more may open: why."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do."""


Decision = Open | Wait | Stop | Done


def decide(rollout: Progress, facts: Facts, now: datetime) -> Decision:
    """The one next thing."""
    decision = _next(rollout, facts, now)
    if isinstance(decision, Wait) and decision.until and decision.until <= now:
        return replace(decision, until=None)  # it depends on a cluster that does not answer, and nobody knows when that does
    if rollout.phase != "running" or not isinstance(decision, Open | Done):
        return decision
    stage = watched(rollout)  # a retry may open an earlier one
    return _unseen(rollout, facts) or (_unwell(rollout, stage) if stage >= 0 else None) or decision


def _next(rollout: Progress, facts: Facts, now: datetime) -> Decision:
    said = rollout.said
    match rollout.phase:
        case "aborted" | "superseded" | "reverted" | "done":
            return Done()
        case "paused":
            who = "somebody who resumes it: `hullmark rollout resume`"
            return Wait("RolloutPaused", f"paused by {said.by}: {said.message}", said.at, who=who)
        case "stopped":
            who = "somebody who decides: `hullmark rollout retry`, `revert` or `abort`"
            return Wait(said.reason, said.message, said.at, who=who)
    if facts.held:
        return _harmed(rollout, facts) or Wait(facts.held.reason, facts.held.message, facts.held.since, facts.held.until)
    if facts.busy:
        return Wait("ActionRunning", facts.busy, rollout.started.at)
    if unplaced := sorted(set(rollout.clusters) - set(rollout.placed)):
        return Wait("PlacesUnresolved", f"the nodes of cluster {unplaced[0]} are being assigned to stages", rollout.started.at)
    if empty := _empty(rollout):
        return Stop("EmptyStage", f"no node of any cluster is meant by stage {empty}: it would show nothing")
    since = rollout.started.at
    for stage in range(len(rollout.stages)):
        if rollout.size(stage) == 0:
            continue  # it is told as skipped; the next one goes by the stage before it
        decision = _stage(rollout, stage, facts, since, now)
        if not isinstance(decision, datetime):
            return decision
        since = decision
    return _left_out(rollout, facts) or Done()


def _harmed(rollout: Progress, facts: Facts) -> Stop | None:
    """Why what is out already stops the rollout under a freeze. A pause of the fleet holds every write, the way back of a stop too."""
    stage = newest_stage(rollout)
    if stage < 0 or facts.held is None or facts.held.every_write:
        return None
    tries = rollout.newest_batches(stage)
    counted = [batch for batch in tries if not _again(rollout, batch, facts)]
    unwell = _unwell(rollout, stage)
    return _beyond(rollout, stage, counted, facts) or (unwell if isinstance(unwell, Stop) else None)


def _empty(rollout: Progress) -> str:
    """The first stage that means no node at all, but for the rest."""
    sums = {stage.name: sum(meant[number] for meant in rollout.meant.values()) for number, stage in enumerate(rollout.stages)}
    return next((name for name, count in sums.items() if not count and name != REST), "")


def needs_a_look(rollout: Progress, facts: Facts, now: datetime) -> bool:
    """Whether the nodes of the open stage have to be looked at now: while it is written and soaks, in a freeze too, before anything more
    opens or it ends, and until what the last look found is in order.
    """
    stage, held = watched(rollout), facts.held
    if stage < 0 or rollout.phase != "running" or (held and held.every_write):
        return False
    match decide(rollout.blind(), replace(facts, held=None), now):
        case Wait(reason="BatchRunning" | "Soaking"):
            return True
        case Open(stage=opens):
            return opens == stage or held is None or rollout.health != HEALTHY
        case Done():
            return held is None or rollout.health != HEALTHY
        case Stop():
            return False
    return rollout.health != HEALTHY


def asks(rollout: Progress, facts: Facts, now: datetime) -> tuple[int, When] | None:
    """The approval that it waits for."""
    decision = decide(rollout, facts, now)
    return decision.approval if isinstance(decision, Wait) else None


def after(rollout: Progress, decision: Decision, facts: Facts, now: datetime, action: str) -> Progress:
    """The rollout once the decision is taken, `action` being the id for a batch that opens; the same object where that changes nothing."""
    by = rollout.started.by
    match decision:
        case Open(stage, cluster, start, count):
            known = [_remembered(batch, facts) for batch in rollout.batches]
            first = next((each for each in known if each.where == (stage, cluster, start) and not (each.back or each.unsent)), None)
            batch = Batch(stage, cluster, start, count, action, now, before=first.before if first else None)
            return structs.replace(rollout, batches=[*known, batch], said=Said("open", by, now))
        case Stop(reason, message):
            return given(rollout, Said("stop", by, now, reason, message))
        case Done() if rollout.phase == "running":
            return given(rollout, Said("end", by, now))
    return rollout


def _remembered(batch: Batch, facts: Facts) -> Batch:
    fact = facts.of(batch)
    return batch if batch.fact or fact.ended is None else structs.replace(batch, fact=fact)


def _stage(rollout: Progress, stage: int, facts: Facts, since: datetime, now: datetime) -> Decision | datetime:
    """What one stage needs, `since` the one before it was through; when it was through itself, where it needs nothing more."""
    about = rollout.stages[stage]
    tries = rollout.newest_batches(stage)
    if about.before and not rollout.approved(stage, "before"):
        return _approval(rollout, stage, "before", since, now)
    again = {batch.where for batch in tries if _again(rollout, batch, facts)}
    counted = [batch for batch in tries if batch.where not in again]
    if stop := _beyond(rollout, stage, counted, facts):
        return stop
    if stage == watched(rollout) and (unwell := _unwell(rollout, stage)):
        return unwell
    if further := _further(rollout, stage, tries, again, facts):
        return (None if tries else too_much(rollout, stage, now)) or further
    running = [batch for batch in tries if facts.of(batch).ended is None]
    if running:
        nodes = sum(batch.count for batch in running)
        return Wait("BatchRunning", f"stage {about.name}: {nodes} nodes are being written", min(batch.at for batch in running))
    if stuck := _nobody_answered(rollout, stage, tries, facts):
        return stuck
    ended = max(_ended(batch, facts) for batch in tries)
    through = ended + timedelta(seconds=about.soak)
    if now < through:
        return Wait("Soaking", f"stage {about.name} soaks", ended, through)
    if about.after and not rollout.approved(stage, "after"):
        return _approval(rollout, stage, "after", through, now)
    return through


def _ended(batch: Batch, facts: Facts) -> datetime:
    return facts.of(batch).ended or batch.at


def _approval(rollout: Progress, stage: int, when: When, since: datetime, now: datetime) -> Wait | Stop:
    since = max(since, rollout.retried_at or since)
    name, until = rollout.stages[stage].name, since + WAITS_FOR_A_PERSON
    if now >= until:
        return Stop("ApprovalExpired", f"nobody approved stage {name} within {WAITS_FOR_A_PERSON.days} days")
    what = f"stage {name} may begin" if when == "before" else f"stage {name} was good"
    return Wait("AwaitingApproval", f"waits for a word that {what}", since, until, APPROVER, (stage, when))


IMPACT_UNKNOWN = "ImpactUnknown"


def too_much(rollout: Progress, stage: int, now: datetime) -> Wait | Stop | None:
    """Why a stage may not open for what its labels do to pods. What was counted long ago, or not in full, is counted anew."""
    if rollout.impact is None:
        return None
    name, weighed = rollout.stages[stage].name, rollout.weighed_for(stage)
    if weighed is None or (now >= weighed.at + WEIGHED_FOR and not weighed.unseen):
        return Wait(IMPACT_UNKNOWN, f"stage {name}: what its labels do to pods is counted next", now)
    if weighed.unseen:
        who = "somebody who lets Hullmark see it: `hullmark rollout retry` then" if weighed.refused else ""
        return Wait(IMPACT_UNKNOWN, f"stage {name}: nobody knows how many pods its labels end: {weighed.unseen}", weighed.at, who=who)
    may = max(rollout.impact, weighed.accepted)
    if weighed.ends > may:
        return Stop("TooMuchImpact", f"stage {name}: {weighed.ends} pods would end, and {may} may: {weighed.words}")
    return None


def to_weigh(rollout: Progress, decision: Decision) -> int:
    """The stage whose impact on pods has to be counted now; -1 where none has, and where somebody has to let it be seen first."""
    if not (isinstance(decision, Wait) and decision.reason == IMPACT_UNKNOWN) or decision.who:
        return -1
    return next(number for number in range(len(rollout.stages)) if rollout.size(number) and not rollout.newest_batches(number))


def _again(rollout: Progress, batch: Batch, facts: Facts) -> bool:
    """Whether a retry asks for this batch once more."""
    fact = facts.of(batch)
    asked = any(batch.action == each.action for each in rollout.batches[: rollout.retried])
    return asked and fact.ended is not None and bool(fact.failed or fact.behind or fact.reason)


def budget(rollout: Progress, stage: int) -> int:
    """How many nodes of a stage may fail."""
    if isinstance(rollout.failed, int):
        return rollout.failed
    return int(rollout.size(stage) * Decimal(rollout.failed.removesuffix("%")) / 100)


def _beyond(rollout: Progress, stage: int, batches: list[Batch], facts: Facts) -> Stop | None:
    """Why nothing more may open after what these batches came to."""
    found = [facts.of(batch) for batch in batches]
    about, may = rollout.stages[stage], budget(rollout, stage)
    if refused := next((fact for fact in found if fact.reason and not fact.behind), None):
        return Stop(refused.reason, f"stage {about.name}: {refused.message}")
    failed = sum(fact.failed for fact in found if not fact.behind)
    if failed > may:
        return Stop("TooManyFailures", f"stage {about.name}: {failed} of {rollout.size(stage)} nodes failed, and {may} may")
    ended = [batch for batch in batches if facts.of(batch).ended and not facts.of(batch).behind]
    if ended and sum(batch.count for batch in ended) == rollout.size(stage) == sum(facts.of(batch).missing for batch in ended):
        return Stop("NobodyThere", f"stage {about.name}: none of its {rollout.size(stage)} nodes is there, so it shows nothing")
    return None


HARM = (
    ("NodesNotReady", "nodes", "turned NotReady"),
    ("DaemonSetsUnavailable", "daemon_sets", "had an available pod, and has none"),
    ("PodsUnschedulable", "pods", "has more unschedulable pods than before"),
)
"""What stops a stage: its code, where a look keeps it, and what is said of whatever turned."""


def _unwell(rollout: Progress, stage: int) -> Wait | Stop | None:
    """Why nothing may open after what is known of the stage's nodes."""
    health, name = rollout.health, rollout.stages[stage].name
    doubts: list[tuple[str, Doubts, str]] = [(reason, getattr(health, kind), words) for reason, kind, words in HARM]
    if harm := next(((reason, found.turned, words) for reason, found, words in doubts if found.turned), None):
        return Stop(harm[0], f"stage {name}: {named(harm[1])} {harm[2]}")
    if health.unknown:
        who = "somebody who looks at the nodes; `hullmark rollout revert` takes it back"
        return Wait("HealthUnknown", f"stage {name}: {health.unknown}", health.since, who=who)
    for reason, found, words in doubts:
        if found.suspects:
            first, last = min(found.suspects.values()), max(found.suspects.values())
            return Wait(reason, f"stage {name}: {named(list(found.suspects))} {words}; a second look decides", first, last + AGAIN)
    return None


def _unseen(rollout: Progress, facts: Facts) -> Wait | None:
    """Nothing goes on before the open stage's nodes were looked at in this step: somebody else may have opened or approved meanwhile."""
    batches = rollout.newest_batches(watched(rollout))
    answering = {batch.cluster for batch in batches if not facts.of(batch).behind}
    if facts.looked is None or not (unseen := sorted(answering - facts.looked)):
        return None
    return Wait("HealthUnknown", f"the nodes of {unseen[0]} are looked at next", batches[-1].at)


def _further(rollout: Progress, stage: int, tries: list[Batch], again: set[tuple[int, str, int]], facts: Facts) -> Open | None:
    """The next batch of a stage, where there is one and room for it. In each cluster one follows the other."""
    under_way = [batch for batch in tries if facts.of(batch).ended is None]
    room = _in_flight(rollout, stage) - sum(batch.count for batch in under_way)
    busy = {batch.cluster for batch in rollout.batches if not batch.back and facts.of(batch).ended is None}
    behind = {batch.cluster for batch in tries if facts.of(batch).behind and batch.where not in again}
    for cluster in sorted(rollout.placed.keys() - busy - behind):
        there = [batch for batch in tries if batch.cluster == cluster]
        once_more = next((batch for batch in there if batch.where in again), None)
        opened = sum(batch.count for batch in there)
        start, count = opened, rollout.placed[cluster][stage] - opened
        if once_more:
            start, count = once_more.start, once_more.count
        elif count > 0:
            count = min(count, room, BATCH)
        if 0 < count <= room:
            return Open(stage, cluster, start, count)
    return None


def _in_flight(rollout: Progress, stage: int) -> int:
    """How many nodes of a stage may be under way at a time."""
    most, size = rollout.stages[stage].in_flight, rollout.size(stage)
    if most is None:
        return size
    if isinstance(most, int):
        return most
    return max(1, int(size * Decimal(most.removesuffix("%")) / 100))


def _left_out(rollout: Progress, facts: Facts) -> Wait | None:
    """What got nothing because a cluster would not say how it was: the end would bring it the change with nobody looking."""
    batches = [batch for stage in range(len(rollout.stages)) for batch in rollout.newest_batches(stage)]
    refused = {batch.cluster: facts.of(batch) for batch in batches if batch.unsent and facts.of(batch).reason}
    if not refused:
        return None
    which = "; ".join(f"{cluster} {fact.message}" for cluster, fact in sorted(refused.items()))
    since = max(fact.ended or rollout.said.at for fact in refused.values())
    who = "somebody who tries again there: `hullmark rollout retry`"
    return Wait("ClusterBehind", f"all else is through; {which}, and got nothing", since, who=who)


def _nobody_answered(rollout: Progress, stage: int, tries: list[Batch], facts: Facts) -> Wait | None:
    """A stage that no cluster is through with shows nothing."""
    behind = {batch.cluster: facts.of(batch).message or "did not answer" for batch in tries if facts.of(batch).behind}
    if behind.keys() >= {batch.cluster for batch in tries}:
        which = "; ".join(
            f"{', '.join(sorted(each for each in behind if behind[each] == why))} {why}" for why in sorted({*behind.values()})
        )
        since = max(_ended(batch, facts) for batch in tries)
        who = "somebody who tries again: `hullmark rollout retry`"
        return Wait("ClusterBehind", f"stage {rollout.stages[stage].name}: {which}", since, who=who)
    return None
