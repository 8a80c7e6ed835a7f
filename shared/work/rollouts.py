"""Start a rollout, steer it, take it a step further, show it: shared by the function, the API and the command line."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, cast

from msgspec import structs
from pydantic import BaseModel, ConfigDict
from ulid import ULID

from shared.domain.actions import REVISION_REJECTED, ActionOutcome
from shared.domain.documents.kinds import RolloutSpec, StageSpec, seconds, stages_of
from shared.domain.holds import Hold, longest
from shared.domain.labels.impact import Accepting, Impact
from shared.domain.names import REJECTED, SITE_ACTION_SUCCESS
from shared.domain.rollouts.approvals import let_open
from shared.domain.rollouts.causes import Cause, causes
from shared.domain.rollouts.decisions import APPROVER, Facts, Stop, Wait, asks, budget, decide
from shared.domain.rollouts.places import Candidate, resolve
from shared.domain.rollouts.progress import (
    Batch,
    Fact,
    Phase,
    Progress,
    Said,
    Stage,
    When,
    Word,
    WrongPhase,
    approved,
    given,
)
from shared.ledger.places import Later
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import Released
from shared.ledger.revisions import Revision, UnknownRevision
from shared.ledger.rollouts import UnknownRollout
from shared.messages import RolloutStep
from shared.ports import BusError, Cluster, ClusterError, Unavailable
from shared.work.holds import held
from shared.work.intake import NO_REVISION, ROLLOUT_RUNNING, Refusal, Rejected
from shared.work.planning import everything
from shared.world import Labelled, World

if TYPE_CHECKING:
    from shared.work.standing import StageOfClusters

NOTHING_ACCEPTED = Accepting()
Control = Literal["approve", "pause", "resume", "abort", "revert", "retry"]
CONTROLS: tuple[Control, ...] = ("approve", "pause", "resume", "abort", "revert", "retry")
Recall = Callable[[Sequence[str]], Iterable[ActionOutcome | None]]
"""Reads how actions ended."""
CAUSES_FROM = 20
"""Most actions of a stage that are read for the causes of its failures, the newest."""
WHERE = 50
"""Most clusters that are listed for a stage."""


class Share(BaseModel):
    """To how many of a stage's nodes in a cluster the revision is released."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    cluster: str
    released: int
    nodes: int


class StageStatus(BaseModel):
    """Where one stage stands."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    name: str
    state: Literal["waiting", "open", "through", "skipped"]
    nodes: int
    opened: int = 0
    done: int = 0
    failed: int = 0
    missing: int = 0
    behind: int = 0
    """Nodes of clusters that did not answer: nothing was written to them."""
    budget: int = 0
    soak: int = 0
    """Seconds."""
    approval: Literal["none", "before", "after"] = "none"
    actions: list[str] = []
    reason: str = ""
    """What it waits for, until it is through: a code."""
    message: str = ""
    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    clusters: int = 0
    """How many clusters have nodes of it."""
    where: list[Share] = []
    """Those with most nodes, where the rollout has several clusters."""
    runs: list[str] = []
    """Of a rollout for versions, whose units are clusters: what they run."""
    pods: str = ""
    """What its labels do to pods, in words, where the rollout counts that; as it was counted before it opened."""
    causes: list[Cause] = []
    """Why nodes failed or are missing, most nodes first; of a rollout that is asked for by its id."""


class ApprovalImpact(BaseModel):
    """What an approval lets happen before the next one is needed. An approval names its digest, and counts for nothing else."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    digest: str
    at: datetime
    """When it was counted."""
    stages: list[str]
    """The stages that open."""
    clusters: dict[str, Impact] = {}
    versions: list[str] = []
    """Of a rollout for versions: which ones, of which profile and line."""


class RolloutStatus(BaseModel):
    """Where a rollout stands, and what it waits for."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    id: str
    name: str
    revision: int
    phase: Phase
    change: Literal["labels", "versions"] = "labels"
    clusters: list[str]
    started_by: str
    started_at: datetime
    stages: list[StageStatus]
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    stage: str = ""
    """The stage that waits for an approval."""
    impact: ApprovalImpact | None = None
    """What that approval lets happen; None where none is waited for, and for the moment until it is counted."""
    said_by: str = ""
    """Who brought about the last change."""


class RolloutList(BaseModel):
    """The newest rollouts, oldest of them first."""

    rollouts: list[RolloutStatus]


# --- starting


def start(name: str, by: str, world: World, now: datetime, accept: Accepting = NOTHING_ACCEPTED, *, supersede: bool = False) -> Progress:
    """Record a rollout of the newest revision by its Rollout document, begin it in every cluster, and have its first step taken.
    Raises Rejected.
    """
    in_force = world.releases.look()
    revision = in_force.committed
    if revision is None:
        raise Rejected(NO_REVISION)
    if why := world.revisions.rejection(revision.number):
        raise Rejected(Refusal(REVISION_REJECTED, why))
    if not name and len(revision.policies.rollouts) == 1:
        (name,) = revision.policies.rollouts
    spec = revision.policies.rollouts.get(name)
    if spec is None:
        known = ", ".join(sorted(revision.policies.rollouts)) or "none"
        raise Rejected(Refusal("UnknownRolloutDocument", f"revision {revision.number} has no Rollout {name[:80]!r} (there: {known})"))
    if spec.change == "versions":
        return _start_versions(name, revision.number, by, world, now, supersede=supersede)
    clusters = {cluster: in_force.state(cluster) for cluster in _clusters(spec, revision, world)}
    said = Said("start", by, now)
    for cluster, released in clusters.items():
        _refuse_where_busy(cluster, released, revision, world)
    progress = begin(str(ULID()), name, spec, revision.number, said, {cluster: released.k for cluster, released in clusters.items()})
    progress = structs.replace(progress, on_commit=False, accepted=accept.accepting())
    there = _under_way(clusters, world, skip_unreadable=supersede)
    if closing := next((other for other in there if other.pending in ("finish", "revert")), None):
        raise Rejected(Refusal(ROLLOUT_RUNNING, f"rollout {closing.id} is just being {_CLOSING[closing.pending]}: try again in a minute"))
    others = [other for other in there if other.unfinished]
    for other in others:
        if not supersede:
            raise Rejected(_running(other))
        _supersede(other, progress.id, by, world, now)
    world.rollouts.start(structs.replace(progress, replaces=[other.id for other in others]))
    for cluster, released in clusters.items():
        world.releases.begin_rollout(cluster, progress.id, revision.number, since=released.k, by=by, at=now)
    _refuse_if_overtaken(progress, by, world, now)
    nudge(progress.id, world)
    return progress


def begin(rollout: str, name: str, spec: RolloutSpec, revision: int, said: Said, clusters: dict[str, int]) -> Progress:
    """A rollout as a commit starts it: it has begun in no cluster yet. `clusters`: with the number of the newest release there."""
    return Progress(
        id=rollout,
        name=name,
        revision=revision,
        said=said,
        started=said,
        stages=[_stage(stage) for stage in stages_of(spec)],
        failed=spec.stop_when.failed,
        revert_on_stop=spec.on_stop == "revert",
        clusters=clusters,
        nodes_ready=spec.health.nodes_ready,
        daemon_sets=spec.health.daemon_sets,
        unschedulable_pods=spec.health.unschedulable_pods,
        impact=spec.stop_when.impact,
        on_commit=True,
    )


def _start_versions(name: str, revision: int, by: str, world: World, now: datetime, *, supersede: bool) -> Progress:
    from shared.work import standing  # few rollouts are for versions

    if supersede:
        raise Rejected(
            Refusal("NotForVersions", f"Rollout {name} is one for versions: it stands beside others, change its document instead")
        )
    progress = standing.start(name, revision, by, world, now)
    nudge(progress.id, world)
    return progress


_CLOSING = {"finish": "finished", "revert": "reverted"}
"""What is released follows in the next step of a rollout that ended; until then nothing may begin on top of it."""


def _under_way(clusters: Mapping[str, Released], world: World, *, skip_unreadable: bool) -> list[Progress]:
    """The rollouts that are on their way in one of these clusters, or are being closed. Raises RecordUnreadable for one that has begun."""
    begun = {released.about.next.rollout for released in clusters.values() if released.about.next}
    found: list[Progress] = []
    for rollout in sorted({*begun, *world.rollouts.open()}):
        try:
            found.append(world.rollouts.get(rollout))
        except UnknownRollout:
            continue  # whoever was to record it never got to that
        except RecordUnreadable:
            if rollout in begun and not skip_unreadable:
                raise
    return [each for each in found if not each.ended and not each.clusters.keys().isdisjoint(clusters)]


def _refuse_if_overtaken(progress: Progress, by: str, world: World, now: datetime) -> None:
    """Raises Rejected where somebody started another one at the same moment, and began it last."""
    for cluster in progress.clusters:
        way = world.releases.head(cluster).about.next
        if way is not None and way.rollout != progress.id:
            _supersede(progress, way.rollout, by, world, now)
            raise Rejected(_running(world.rollouts.get(way.rollout)))


def _running(other: Progress) -> Refusal:
    how = f"`--supersede` takes its place, `hullmark rollout abort {other.id}` or `revert` ends it"
    return Refusal(ROLLOUT_RUNNING, f"rollout {other.id} is on its way in {', '.join(sorted(other.clusters))}: {how}")


def nudge(rollout: str, world: World) -> None:
    """Have the function look at a rollout. A message that is lost costs the time to the next clock."""
    with contextlib.suppress(BusError):
        world.bus.publish(RolloutStep.TOPIC, [RolloutStep(rollout=rollout).outgoing()])


def _stage(spec: StageSpec) -> Stage:
    return Stage(spec.name, seconds(spec.soak), spec.approval == "before", spec.approval == "after", spec.max_in_flight)


def clusters_meant(spec: RolloutSpec, declared: Labelled, world: World) -> list[str]:
    """The clusters of these documents, and of the settings, that a rollout goes to."""
    known = world.labelled_clusters(declared)
    return sorted(name for name, labels in known.items() if spec.clusters is None or spec.clusters.means(name, labels))


def _clusters(spec: RolloutSpec, revision: Revision, world: World) -> list[str]:
    meant = clusters_meant(spec, revision, world)
    if not meant:
        there = ", ".join(sorted(world.labelled_clusters(revision))) or "none"
        raise Rejected(Refusal("ClusterUnknown", f"the rollout means no cluster of revision {revision.number} (there: {there})"))
    return meant


def _refuse_where_busy(cluster: str, released: Released, revision: Revision, world: World) -> None:
    way, about = released.about.next, released.about
    if way is not None and way.revision > revision.number:
        raise Rejected(Refusal("NewerReleased", f"rollout {way.rollout} has brought revision {way.revision} to nodes of cluster {cluster}"))
    if about.base_action and not world.has_ended(about.base_action):
        raise Rejected(Refusal("ActionRunning", f"action {about.base_action} still works on cluster {cluster}: wait for it, or stop it"))


def entered(progress: Progress, world: World, now: datetime) -> Progress:
    """A rollout that a commit started, once it has taken the place of those that are on their way where it goes; or has given way to a
    newer one. It stays paused where it takes the place of one that a person paused.
    """
    if not progress.on_commit or progress.phase != "running" or not progress.clusters.keys() - progress.placed.keys():
        return progress
    states = {cluster: world.releases.head(cluster) for cluster in progress.clusters}
    others = [other for other in _under_way(states, world, skip_unreadable=True) if other.id != progress.id and other.unfinished]
    for other in others:
        if _goes_first(other, progress):
            _supersede(progress, other.id, progress.started.by, world, now)
            return world.rollouts.get(progress.id)
    for other in others:
        progress = world.rollouts.change(progress.id, lambda state, other=other: _in_place_of(state, other))  # type: ignore[misc]
        _supersede(other, progress.id, progress.started.by, world, now)
    return progress


def _goes_first(other: Progress, progress: Progress) -> bool:
    """Whether another rollout stays: it brings something newer, or the same and a person started it."""
    if other.revision != progress.revision:
        return other.revision > progress.revision
    return not other.on_commit or other.name < progress.name


def _in_place_of(state: Progress, other: Progress) -> Progress:
    if other.id in state.replaces:
        return state
    state = structs.replace(state, replaces=[*state.replaces, other.id])
    if other.phase != "paused" or state.phase != "running":
        return state
    return given(state, structs.replace(other.said, message=f"{other.said.message} (said of rollout {other.id}, whose place it took)"))


def busy(progress: Progress, world: World) -> str:
    """Why a rollout that a commit started can't begin yet; empty where it can."""
    if not progress.on_commit or progress.phase != "running":
        return ""
    states = {cluster: world.releases.head(cluster) for cluster in progress.clusters.keys() - progress.placed.keys()}
    for cluster, released in sorted(states.items()):
        if (action := released.about.base_action) and not world.has_ended(action):
            return f"action {action} still works on cluster {cluster}: it begins when that has ended"
    there = _under_way(states, world, skip_unreadable=True) if states else []
    closing = next((other for other in there if other.pending in ("finish", "revert")), None)
    return f"rollout {closing.id} is just being {_CLOSING[closing.pending]}" if closing else ""


def _supersede(other: Progress, by_rollout: str, by: str, world: World, now: datetime) -> None:
    said = Said("supersede", by, now, message=f"rollout {by_rollout} takes its place")
    world.rollouts.change(other.id, lambda state: given(state, said) if state.unfinished else state)


# --- steering


def control(
    rollout: str,
    verb: Control,
    by: str,
    world: World,
    now: datetime,
    *,
    stage: str = "",
    impact: str = "",
    message: str = "",
    accept: Accepting = NOTHING_ACCEPTED,
) -> Progress:
    """Give a rollout a word. `stage`, `impact`: for an approval, the stage that it is for, and the digest of the impact that was shown;
    `message`: why. Raises UnknownRollout, WrongPhase and Rejected.
    """
    if verb == "pause" and not message.strip():
        raise Rejected(Refusal("ReasonRequired", "say why it is paused: whoever finds it so will want to know"))
    progress = world.rollouts.get(rollout)
    if progress.change == "versions":
        return _control_versions(progress, Said(verb, by, now, message=message), stage, impact, world)
    if verb == "revert" and progress.phase == "done":
        _refuse_if_replaced(progress, world)
    facts = facts_of(progress, world, now)
    said = Said(verb, by, now, message=message)
    if verb == "approve":
        from shared.work.approvals import bind  # it plans, which no step of a rollout does

        bind(progress, _asked_for(progress, facts, stage, said), impact, world, now)

    def change(state: Progress) -> Progress:
        if verb == "retry":
            return structs.replace(given(state, said), accepted={**state.accepted, **accept.accepting()})
        return approved(state, said, *_asked_for(state, facts, stage, said)) if verb == "approve" else given(state, said)

    changed = world.rollouts.change(rollout, change)
    nudge(rollout, world)
    return changed


def _control_versions(progress: Progress, said: Said, stage: str, impact: str, world: World) -> Progress:
    from shared.work import standing

    changed = world.rollouts.change(progress.id, lambda state: standing.given_word(state, said.verb, said, stage, impact))
    nudge(progress.id, world)
    return changed


def _refuse_if_replaced(progress: Progress, world: World) -> None:
    """Raises WrongPhase where something newer is released since: taking this one back would bring nothing back."""
    bases = {cluster: world.releases.head(cluster).base for cluster in progress.clusters}
    if newer := sorted(cluster for cluster, base in bases.items() if base != progress.revision):
        said = f"cluster {newer[0]} has revision {bases[newer[0]]} by now: `hullmark documents restore N` goes back from there"
        raise WrongPhase(f"rollout {progress.id} is done, and {said}")


def _asked_for(state: Progress, facts: Facts, stage: str, said: Said) -> tuple[int, When]:
    """The approval that a rollout waits for, which must be for this stage. Raises WrongPhase."""
    wanted = asks(state, facts, said.at)
    if wanted is None:
        raise WrongPhase(f"rollout {state.id} waits for no approval now: nothing was approved")
    if stage != (name := state.stages[wanted[0]].name):
        raise WrongPhase(f"rollout {state.id} waits for a word on stage {name}, not on {stage or 'none'}: nothing was approved")
    return wanted


# --- one step


def facts_of(progress: Progress, world: World, now: datetime) -> Facts:
    """What became of the batches: one read for each that is not known to have ended."""
    open_ = [batch for batch in progress.batches if batch.fact is None]
    found = {batch.action: fact for batch in open_ if (fact := _fact(batch, world, now))}
    return Facts(found, _held(progress, world, now), busy=busy(progress, world))


def _held(progress: Progress, world: World, now: datetime) -> Hold | None:
    if progress.phase != "running":
        return None
    return longest(held(progress.clusters, "labels", world.releases.look(), world, now).values())


def _fact(batch: Batch, world: World, now: datetime) -> Fact | None:
    outcome = world.actions.outcome(batch.action)
    if outcome is not None:
        return fact_of(outcome)
    late = batch.at + timedelta(seconds=world.settings.action_seconds)
    if now >= late and not world.actions.begun(batch.action):
        return Fact(late, reason="BatchRefused", message="its request was refused: the notices say why")
    return None


def fact_of(outcome: ActionOutcome) -> Fact:
    """What the end of a batch's action says of it."""
    behind = outcome.result == "failure" and outcome.reason == Unavailable.reason
    as_a_whole = outcome.result in ("blocked", "failure", "stopped") and not behind
    impact = outcome.impact
    done = impact is not None and outcome.result != "blocked"
    return Fact(
        ended=outcome.finished_at,
        failed=outcome.counts.get("failed", 0),
        missing=outcome.counts.get("missing", 0),
        behind=behind,
        reason=(outcome.reason or ("Stopped" if outcome.result == "stopped" else "")) if as_a_whole else "",
        message=outcome.message if as_a_whole else "",
        removals=impact.removals if impact and done else 0,
        takeovers=impact.takeovers if impact and done else 0,
        changes=impact.changes if impact and done else 0,
    )


def place(rollout: str, cluster: str, world: World, now: datetime, *, last: bool = False) -> Progress:
    """Resolve in which stage each node of a cluster stands, and keep it. A cluster that does not answer at the last try is resolved by the
    design alone.
    """
    progress = world.rollouts.get(rollout)
    revision = world.revisions.get(progress.revision)
    world.releases.begin_rollout(cluster, rollout, progress.revision, since=progress.clusters[cluster], by=progress.started.by, at=now)
    released = world.releases.look().state(cluster)
    stages = _stages_in(cluster, revision, progress, world)
    candidates = list(_candidates(cluster, revision, world, last))
    way = released.about.next
    before = list(way.replaced()) if way is not None and way.rollout == rollout else []
    shaky = frozenset(each.name for each in candidates if any(one.reached(each.name, released.stage_of) for one in before))
    standing = resolve(stages, candidates, world.settings.field_managers, shaky)
    later = [Later(stage, below) for stage, below in standing.later]
    index = world.rollouts.places.keep(rollout, cluster, standing.stages, len(stages), later)
    said = Said("place", progress.started.by, now, message=f"cluster {cluster}")

    def placed(state: Progress) -> Progress:
        if cluster in state.placed:
            return state
        return structs.replace(
            state,
            said=said if state.phase == "running" else state.said,
            placed={**state.placed, cluster: index.stages},
            meant={**state.meant, cluster: list(standing.meant)},
        )

    return world.rollouts.change(rollout, placed)


def _stages_in(cluster: str, revision: Revision, progress: Progress, world: World) -> list[StageSpec | None]:
    """The stages as they are in one cluster: None for those that are for others."""
    labels = world.labelled_clusters(revision).get(cluster, {})
    stages = stages_of(revision.policies.rollouts[progress.name])
    return [stage if stage.clusters is None or stage.clusters.means(cluster, labels) else None for stage in stages]


def _candidates(cluster: str, revision: Revision, world: World, last: bool) -> list[Candidate]:
    try:
        observed: Cluster = world.cluster(cluster, world.releases.look().committed)
        live = {node.name: node for node in observed.nodes()}
    except ClusterError as error:
        if error.retryable and not last:
            raise
        live = {}
    return [Candidate(*each) for each in everything(revision.nodes(), live, revision.policies, cluster)]


def settle(progress: Progress, facts: Facts, world: World, now: datetime) -> Progress:
    """Do in every cluster what the rollout's phase asks for, and say that it is done."""
    by = progress.said.by
    if progress.pending == "finish":
        for cluster in progress.clusters:
            world.releases.finish_rollout(cluster, progress.id, progress.revision, by, now)
        world.revisions.tag(progress.revision, SITE_ACTION_SUCCESS, by, now)
        return world.rollouts.change(progress.id, lambda state: _settled(state, "finish"))
    if progress.pending == "revert":
        for cluster, since in progress.clusters.items():
            reached = _reached(progress, cluster, world)
            world.releases.revert_rollout(cluster, progress.id, progress.revision, reached, since=since, by=by, at=now)
        world.revisions.tag(progress.revision, REJECTED, by, now)
        progress = world.rollouts.change(progress.id, lambda state: _bringing_back(state, now))
    if progress.pending == "back":
        facts = facts_of(progress, world, now)
        if all(facts.of(batch).ended for batch in progress.batches if batch.back):
            return world.rollouts.change(progress.id, lambda state: _settled(state, "back"))
    return progress


def _settled(state: Progress, pending: str) -> Progress:
    return structs.replace(state, pending="") if state.pending == pending else state


def _bringing_back(state: Progress, now: datetime) -> Progress:
    if state.pending != "revert":
        return state
    forward = {batch.where: batch for batch in state.batches if not (batch.back or batch.unsent)}
    back = [structs.replace(batch, action=str(ULID()), at=now, back=True, fact=None) for batch in forward.values()]
    return structs.replace(state, pending="back", batches=[*state.batches, *back])


def _reached(progress: Progress, cluster: str, world: World) -> list[str]:
    """The nodes of a cluster that the rollout may have brought its revision to."""
    opened = {batch.where: batch for batch in progress.batches if batch.cluster == cluster and not (batch.back or batch.unsent)}
    return [name for batch in opened.values() for name in world.rollouts.members(progress, batch)]


# --- showing


def shown(progress: Progress, world: World, now: datetime, recall: Recall | None = None) -> RolloutStatus:
    """Where it stands, and what it waits for. With `recall`, the causes of failures too."""
    if progress.change == "versions":
        return _versions_shown(progress, world, now)
    facts = facts_of(progress, world, now)
    decision = decide(progress, facts, now)
    waits = decision if isinstance(decision, Wait | Stop) else None
    until = waits if isinstance(waits, Wait) else None
    status = RolloutStatus(
        id=progress.id,
        name=progress.name,
        revision=progress.revision,
        phase=progress.phase,
        clusters=sorted(progress.clusters),
        started_by=progress.started.by,
        started_at=progress.started.at,
        stages=_stages_shown(progress, facts, until.approval[0] if until and until.approval else -1, recall),
        reason=waits.reason if waits else progress.said.reason,
        message=waits.message if waits else progress.said.message,
        since=until.since if until else progress.said.at,
        until=until.until if until else None,
        who=until.who if until else "",
        stage=progress.stages[until.approval[0]].name if until and until.approval else "",
        impact=_impact_shown(progress, until.approval, world) if until and until.approval else None,
        said_by=progress.said.by,
    )
    return status if progress.ended else status.model_copy(update={"stages": _waiting(status)})


def _impact_shown(progress: Progress, wanted: tuple[int, When], world: World) -> ApprovalImpact | None:
    """The impact that an approval has to name. One whose counts can't be read can be named all the same."""
    asked = progress.asked_for(*wanted)
    if asked is None:
        return None
    stages = [progress.stages[number].name for number in let_open(progress, *wanted)]
    clusters: dict[str, Impact] = {}
    with contextlib.suppress(RecordUnreadable):
        clusters = world.rollouts.asked(progress.id, asked.digest)
    return ApprovalImpact(digest=asked.digest, at=asked.at, stages=stages, clusters=clusters)


def _versions_shown(progress: Progress, world: World, now: datetime) -> RolloutStatus:
    """Where a rollout for versions stands: what it waits for is what its first stage waits for that has to."""
    from shared.work import standing

    stages = [_clusters_shown(each) for each in standing.stages_shown(progress, world, now)]
    waits = next((stage for stage in stages if stage.reason), None) if progress.phase == "running" else None
    ask = progress.questions[0] if progress.questions and progress.phase == "running" else None
    asked = standing.asks(progress, now) if ask else []
    return RolloutStatus(
        id=progress.id,
        name=progress.name,
        revision=progress.revision,
        phase=progress.phase,
        change="versions",
        clusters=[],
        started_by=progress.started.by,
        started_at=progress.started.at,
        stages=stages,
        reason=asked[0].reason if asked else waits.reason if waits else progress.said.reason,
        message=_message(progress, ask, asked) if ask else waits.message if waits else progress.said.message,
        since=ask.at if ask else progress.said.at,
        until=asked[0].until if asked else waits.until if waits else None,
        who=APPROVER if ask else "",
        stage=ask.stage if ask else "",
        impact=_versions_asked(progress, ask) if ask else None,
        said_by=progress.said.by,
    )


def _message(progress: Progress, ask: Word, asked: Sequence[Wait]) -> str:
    from shared.work import standing

    if asked[0].reason == "ApprovalExpired":
        return asked[0].message
    return f"waits for a word on stage {ask.stage}: {standing.in_words(progress, ask.stage)}"


def _versions_asked(progress: Progress, ask: Word) -> ApprovalImpact:
    from shared.work import standing

    digest, versions = standing.question_digest(progress, ask.stage), standing.asked_about(progress, ask.stage)
    return ApprovalImpact(digest=digest, at=ask.at, stages=[ask.stage], versions=versions)


def _clusters_shown(stage: StageOfClusters) -> StageStatus:
    first = stage.waits[0] if stage.waits else None
    state = "skipped" if not stage.clusters else "open" if stage.under_way else "waiting" if first else "through"
    return StageStatus(
        name=stage.about.name,
        state=cast("Literal['waiting', 'open', 'through', 'skipped']", state),
        nodes=stage.clusters,
        opened=stage.under_way,
        done=stage.clusters - stage.under_way - stage.failed - stage.silent,
        failed=stage.failed,
        behind=stage.silent,
        budget=stage.budget,
        soak=int(stage.about.soak.total_seconds()),
        approval="before" if stage.about.before else "after" if stage.about.after else "none",
        reason=first.held.reason if first else "",
        message="; ".join(f"{each.profile} {each.line} {each.version}: {each.held.message}" for each in stage.waits),
        until=first.held.until if first else None,
        clusters=stage.clusters,
        runs=list(stage.runs),
    )


def _stages_shown(progress: Progress, facts: Facts, approving: int, recall: Recall | None) -> list[StageStatus]:
    reached = max(approving, *(batch.stage for batch in progress.batches if not batch.back), -1)
    found = [_stage_shown(progress, number, facts, reached) for number in range(len(progress.stages))]
    if recall is None:
        return found
    return [_with_causes(stage, progress, number, recall) for number, stage in enumerate(found)]


def _with_causes(shown: StageStatus, progress: Progress, stage: int, recall: Recall) -> StageStatus:
    """A stage with the causes in the newest of its actions that have any."""
    tried = [batch.action for batch in progress.newest_batches(stage) if _may_tell(batch)][-CAUSES_FROM:]
    troubled = bool(tried) and (shown.failed or shown.missing or shown.behind)
    if not troubled:
        return shown
    nodes = (node for outcome in recall(tried) if outcome for node in outcome.outcomes)
    return shown.model_copy(update={"causes": causes(nodes)})


def _stage_shown(progress: Progress, stage: int, facts: Facts, reached: int) -> StageStatus:
    batches = progress.newest_batches(stage)
    found = [facts.of(batch) for batch in batches]
    size, about = progress.size(stage), progress.stages[stage]
    through = stage < reached or progress.phase == "done"
    state = "skipped" if not size and progress.placed else "through" if through else "open" if batches else "waiting"
    where, weighed = shares(progress, stage), progress.weighed_for(stage)
    return StageStatus(
        name=about.name,
        state=cast("Literal['waiting', 'open', 'through', 'skipped']", state),
        nodes=size,
        opened=sum(batch.count for batch in batches),
        done=sum(batch.count for batch, fact in zip(batches, found, strict=True) if fact.ended and not (fact.behind or fact.reason)),
        failed=sum(fact.failed for fact in found if not fact.behind),
        missing=sum(fact.missing for fact in found),
        behind=sum(batch.count for batch, fact in zip(batches, found, strict=True) if fact.behind),
        budget=budget(progress, stage),
        pods=weighed.words if weighed else "",
        soak=about.soak,
        approval="before" if about.before else "after" if about.after else "none",
        actions=[batch.action for batch in progress.batches if batch.stage == stage and not batch.unsent],
        clusters=len(where),
        where=where[:WHERE] if len(progress.clusters) > 1 else [],
    )


def shares(progress: Progress, stage: int) -> list[Share]:
    """Where a stage is out: its clusters with nodes, the largest first."""
    released: Counter[str] = Counter()
    for batch in progress.newest_batches(stage):
        released[batch.cluster] += batch.count
    there = [(cluster, sizes[stage]) for cluster, sizes in progress.placed.items() if sizes[stage]]
    there.sort(key=lambda each: (-each[1], each[0]))
    return [Share(cluster=cluster, released=released[cluster], nodes=nodes) for cluster, nodes in there]


def _may_tell(batch: Batch) -> bool:
    fact = batch.fact
    return fact is None or bool(fact.failed or fact.missing or fact.behind)


def _waiting(status: RolloutStatus) -> list[StageStatus]:
    """Its stages; of those that are not through, the first waits for what the rollout waits for, the others for the one before them."""
    found: list[StageStatus] = []
    before = ""
    for stage in status.stages:
        waits: dict[str, object] = {}
        if stage.state in ("waiting", "open") and before:
            waits = {"reason": WAITING_FOR_STAGE, "message": f"opens after stage {before}{_SAID_OF[stage.approval]}"}
        elif stage.state in ("waiting", "open"):
            waits = status.model_dump(include={"reason", "message", "since", "until", "who"})
        found.append(stage.model_copy(update=waits))
        before = stage.name if waits else before
    return found


WAITING_FOR_STAGE = "WaitingForStage"
_SAID_OF: Mapping[str, str] = {"none": "", "before": " and an approval", "after": ""}


def listed(world: World, now: datetime, limit: int = 20) -> list[RolloutStatus]:
    """The newest rollouts, oldest of them first. One that can't be read is left out."""
    found: list[RolloutStatus] = []
    for rollout in world.rollouts.ids()[-limit:]:
        try:
            found.append(shown(world.rollouts.get(rollout), world, now))
        except (RecordUnreadable, UnknownRollout, UnknownRevision):
            continue
    return found
