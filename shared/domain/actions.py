"""What an action is, from request to outcome: its records, its parts, its states. Pure.

Lifecycle words are Shipyard's (docs/airship.md §1.1); results are those of docs/labels.md.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from ulid import ULID

from shared.domain.clusters import NAMED_IN_WORDS, ClusterMatch, in_words
from shared.domain.labels.bound import BoundPlan
from shared.domain.labels.impact import BLOCKING, Accepting, Impact, Others, way_on_together
from shared.domain.labels.selection import Selection
from shared.domain.names import DRIFT_SWEEP, UNKNOWN, UPDATE_VERSIONS
from shared.domain.outcomes import NOTHING_WRITTEN, Outcome

MAX_PARTS = 256
"""Parts of one action at most (docs/messages.md)."""
PART_SIZE = 200
"""Nodes of one part, until that would make more than MAX_PARTS: about a third of a second of an API server's time."""

Result = Literal["success", "partial_success", "failure", "blocked", "stopped", "expired"]
Lifecycle = Literal["Pending", "Processing", "Paused", "Complete", "Failed"]
NEWER_WAITS = "NewerRevisionWaits"
"""The reason of a sweep that left a newer revision waiting: it is no failure."""
REVISION_REJECTED = "RevisionRejected"
"""The revision was taken back, and nobody has lifted that."""
UNREADABLE = "RecordUnreadable"
"""The reason of what ended because a record in the store can't be read; the message has its key."""
PARTLY_DONE, NODES_FAILED = "PartialSuccess", "NodesFailed"
"""Of a cluster, in an action over several: some of its nodes have failed, or all."""
NO_COUNTS: Mapping[int, Others] = {}
LATE = "no result by the deadline; retry these nodes with `hullmark actions retry`"
LATE_UPDATE = "nobody said by the deadline that it was through: its provider may still work on it, and the next check looks at what is due"
UNSUCCESSFUL = frozenset({"missing", "failed", "stopped"})


class Record(BaseModel):
    """A JSON object in the store: read tolerantly, written whole."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    def to_bytes(self) -> bytes:
        """The object's bytes."""
        return self.model_dump_json(exclude_none=True).encode()


class Ask(Accepting, Selection):
    """What somebody asks of a cluster: one shape in the message that asks, in the record that keeps it, and in the plan made of it."""

    name: str
    cluster: str | None = None
    clusters: list[str] | ClusterMatch | None = None
    """Several clusters, each of which gets an action of its own; in place of `cluster`."""
    requested_by: str
    dry_run: bool = False
    adopt: bool = Field(default=False, exclude_if=lambda adopt: not adopt)
    """Whether labels under our field manager that this store never declared are removed too."""
    supersede: bool = Field(default=False, exclude_if=lambda supersede: not supersede)
    """Whether it ends the rollouts that are on its way in its clusters, in place of being refused."""
    retry_of: str | None = None
    plan: BoundPlan | None = None
    """What it may change and nothing else: a plan that somebody has seen."""
    rollout: str | None = None
    """The rollout that it is a batch of; which nodes that means is kept with the rollout."""
    batch: int | None = None
    """The batch's number, from 1."""

    def asked(self) -> dict[str, Any]:
        """These fields as they are, for the next one that carries them: nothing is dumped or validated again."""
        return {field: getattr(self, field) for field in Ask.model_fields}


class ActionRequest(Ask, Record):
    """`request.json`: what was asked, of which revision; when it must have ended."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    id: str
    cluster: str
    """Empty where there are several `clusters`."""
    clusters: list[str] | None = None
    revision: int
    requested_at: datetime
    deadline: datetime
    parent: str | None = None
    """The action over several clusters that this one belongs to; `part` says which of the parent's parts it is."""
    part: int = 0
    parameters: dict[str, Any] = {}
    """As they came in over HTTP; empty for what a message asked."""
    context_marker: str = ""
    """The caller's own mark for the request (Shipyard's X-Context-Marker)."""

    @property
    def where(self) -> str:
        """The cluster, or clusters, in words."""
        return in_words(self.clusters or [self.cluster])

    @property
    def children(self) -> dict[str, str]:
        """By cluster, the id of its action; nothing for an action on one cluster. Whoever works them out gets the same ones."""
        return {cluster: child_id(self.id, cluster) for cluster in self.clusters or ()}


class Plan(Record):
    """`plan.json`: the subjects of each part (part 1 first) and what planning settled without a message."""

    revision: int
    release: int = 0
    """The number of the cluster's newest release when it was planned; what the action itself released has a higher one."""
    planned_at: datetime
    parts: list[list[str]]
    unchanged: list[str] = []
    settled: list[Outcome] = []
    of: Literal["nodes", "clusters"] = "nodes"
    """What the subjects are."""
    reason: str = ""
    message: str = ""
    """Why nothing could be planned, where that is so: the action ends as a failure with this cause."""
    waits: str = ""
    """Of a sweep: that a newer revision waits to be released, in words; sweeps never bring one."""
    blocked: bool = False
    """Whether it was planned, and goes beyond a limit: `reason` says which. Nothing is sent, or released."""
    impact: Impact | None = None
    """What it does to the nodes, where somebody looked."""


class ActionOutcome(Record):
    """`outcome.json`: written once, by whoever stores the last part, stops the clock or refuses the request."""

    result: Result
    finished_at: datetime
    revision: int
    reason: str = ""
    message: str = ""
    counts: dict[str, int] = {}
    outcomes: list[Outcome] = []
    unchanged: list[str] = []
    impact: Impact | None = None
    """What it does to the nodes, where somebody looked."""

    @property
    def unsuccessful(self) -> list[str]:
        """Subjects to retry, in order."""
        return [outcome.subject for outcome in self.outcomes if outcome.outcome in UNSUCCESSFUL]


def action_id(message_id: str, published: datetime) -> str:
    """The id of the action that a message starts when its publisher gave none: the same for every delivery of it."""
    stamp = int(published.timestamp() * 1000).to_bytes(6, "big")
    return str(ULID(stamp + hashlib.sha256(message_id.encode()).digest()[:10]))


def child_id(parent: str, cluster: str) -> str:
    """The id of the action that an action over several clusters has for one of them: the same whenever it is asked for."""
    return action_id(f"{parent}/{cluster}", began(parent))


def children_of(parent: ActionRequest) -> list[ActionRequest]:
    """The actions that an action over several clusters consists of, one for each, part by part."""
    own = {"clusters": None, "parent": parent.id}
    return [
        parent.model_copy(update=own | {"id": child, "cluster": cluster, "part": part, "retry_of": _child_of(parent.retry_of, cluster)})
        for part, (cluster, child) in enumerate(parent.children.items(), 1)
    ]


def _child_of(parent: str | None, cluster: str) -> str | None:
    return child_id(parent, cluster) if parent else None


def plan_of_clusters(parent: ActionRequest, now: datetime) -> Plan:
    """The plan of an action over several clusters: each is a part."""
    message = NOTHING_WRITTEN if parent.dry_run else ""
    parts = [[cluster] for cluster in parent.clusters or ()]
    return Plan(revision=parent.revision, planned_at=now, parts=parts, of="clusters", message=message)


def told_of(child: ActionRequest, ended: ActionOutcome) -> Outcome:
    """What the parent of an action says of its cluster: how the action on it ended, its counts, and where to look."""
    words = {"changed": "would change"} if child.dry_run else {}
    counts = ", ".join(f"{number} {words.get(kind, kind)}" for kind, number in ended.counts.items())
    why = ended.message.removeprefix(NOTHING_WRITTEN).removeprefix("; ")
    message = "; ".join(filter(None, (counts or ("" if why else "no nodes"), why, f"action {child.id}")))
    if ended.result == "success":
        changed = bool(ended.counts.get("changed"))
        reason = "DryRun" if child.dry_run and changed else ""
        return Outcome(subject=child.cluster, outcome="changed" if changed else "unchanged", reason=reason, message=message)
    stopped, partly = ended.result == "stopped", ended.result == "partial_success"
    reason = ended.reason or ("Stopped" if stopped else PARTLY_DONE if partly else NODES_FAILED)
    return Outcome(subject=child.cluster, outcome="stopped" if stopped else "failed", reason=reason, message=message, retryable=not stopped)


def split(names: Sequence[str]) -> list[list[str]]:
    """Cut sorted names into parts: PART_SIZE each, larger where that would exceed MAX_PARTS."""
    size = max(PART_SIZE, -(-len(names) // MAX_PARTS))
    return [list(names[start : start + size]) for start in range(0, len(names), size)]


def result_of(kinds: Iterable[str]) -> Result:
    """Roll outcomes up: `success` where none failed or is missing (skipped ones are no failure), docs/labels.md, "Outcomes"."""
    seen = Counter(kinds)
    if seen["stopped"]:
        return "stopped"
    bad = seen["failed"] + seen["missing"]
    if not bad:
        return "success"
    return "partial_success" if sum(seen.values()) > bad else "failure"


def conclude(
    plan: Plan, parts: Mapping[int, Sequence[Outcome]], finished_at: datetime, counts_of: Mapping[int, Others] = NO_COUNTS
) -> ActionOutcome:
    """Roll up a plan and the results of its parts. A subject whose part brought no outcome for it counts as failed.

    `counts_of`: on how many nodes each part acts, where the parts are clusters.
    """
    outcomes = [*plan.settled]
    for number, names in enumerate(plan.parts, 1):
        told = {outcome.subject: outcome for outcome in parts.get(number, ())}
        outcomes += [told.get(name) or _silent(name) for name in names]
    kinds = [outcome.outcome for outcome in outcomes]
    counts = Counter(kinds)
    if plan.unchanged:
        counts["unchanged"] += len(plan.unchanged)
    result = result_of(counts.elements())
    if plan.of == "clusters":
        return _conclude_clusters(plan, result, outcomes, finished_at, dict(sorted(counts.items())), counts_of)
    return ActionOutcome(
        result="blocked" if plan.blocked else "failure" if plan.reason else result,
        reason=plan.reason or (NEWER_WAITS if plan.waits else ""),
        message=plan.message or plan.waits,
        finished_at=finished_at,
        revision=plan.revision,
        counts=dict(sorted(counts.items())),
        outcomes=sorted(outcomes, key=lambda outcome: outcome.subject),
        unchanged=plan.unchanged,
        impact=plan.impact,
    )


def _conclude_clusters(
    plan: Plan, result: Result, outcomes: list[Outcome], now: datetime, counts: dict[str, int], counts_of: Mapping[int, Others]
) -> ActionOutcome:
    """Of several clusters: a failure only where no node of any was brought in sync; what blocks one of them is told of the whole."""
    blocked = [outcome for outcome in outcomes if outcome.reason in (*BLOCKING, REVISION_REJECTED)]
    if result == "failure" and any(outcome.reason == PARTLY_DONE for outcome in outcomes):
        result = "partial_success"
    elif result == "failure" and len(blocked) == len(outcomes):
        result = "blocked"
    return ActionOutcome(
        result=result,
        reason=blocked[0].reason if blocked else "",
        message=_why_blocked(plan, blocked, counts_of) if blocked else plan.message,
        finished_at=now,
        revision=plan.revision,
        counts=counts,
        outcomes=sorted(outcomes, key=lambda outcome: outcome.subject),
    )


def _why_blocked(plan: Plan, blocked: Sequence[Outcome], counts_of: Mapping[int, Others]) -> str:
    """What keeps clusters from being acted on, and how a person may accept all of it."""
    names = {outcome.subject for outcome in blocked}
    parts = [number for number, (name,) in enumerate(plan.parts, 1) if name in names]
    together = sum((counts_of.get(number, Others()) for number in parts), Others())
    said = [f"{outcome.subject}: {outcome.message}" for outcome in blocked[:NAMED_IN_WORDS]]
    more = [f"and {len(blocked) - len(said)} more clusters"] if len(blocked) > len(said) else []
    return "; ".join(filter(None, [*said, *more, way_on_together((outcome.message for outcome in blocked), together)]))


def expire(plan: Plan | None, parts: Mapping[int, Sequence[Outcome]], request: ActionRequest, now: datetime) -> ActionOutcome:
    """End an action whose deadline has passed: what is known stays, the rest is failed and may be retried."""
    plan = plan or Plan(revision=request.revision, planned_at=now, parts=[])
    told = {outcome.subject: outcome for part in parts.values() for outcome in part}
    late = LATE_UPDATE if request.name == UPDATE_VERSIONS else LATE
    full = {
        number: [told.get(n) or Outcome(subject=n, outcome="failed", reason="Expired", message=late, retryable=True) for n in names]
        for number, names in enumerate(plan.parts, 1)
    }
    ended = conclude(plan, full, now)
    reason = f"not finished by {request.deadline:%Y-%m-%d %H:%M:%S} UTC"
    return ended.model_copy(update={"result": "expired", "reason": "Expired", "message": reason})


def unreadable(
    plan: Plan | None, parts: Mapping[int, Sequence[Outcome]], request: ActionRequest, cause: str, now: datetime
) -> ActionOutcome:
    """End an action one of whose records can't be read: what is known stays, the other nodes that it is known to be about have failed."""
    told = {outcome.subject: outcome for part in parts.values() for outcome in part}
    plan = plan or Plan(revision=request.revision, planned_at=now, parts=[sorted({*told, *(request.target_nodes or ())})])
    full = {number: [told.get(name) or lost_record(name, cause) for name in names] for number, names in enumerate(plan.parts, 1)}
    ended = conclude(plan, full, now)
    result = "failure" if ended.result == "success" else ended.result
    return ended.model_copy(update={"result": result, "reason": UNREADABLE, "message": cause})


def quiet_sweep(request: ActionRequest, outcome: ActionOutcome) -> bool:
    """Whether it is a sweep of the clock's that had nothing to change: of those only the newest says anything."""
    asked_by_the_clock = (request.name, request.requested_by) == (DRIFT_SWEEP, UNKNOWN) and not (request.clusters or request.parent)
    return asked_by_the_clock and outcome.result in ("success", "partial_success") and "changed" not in outcome.counts


def lost_record(subject: str, cause: str) -> Outcome:
    """What became of a subject is in a record that can't be read, or follows from one."""
    return Outcome(subject=subject, outcome="failed", reason=UNREADABLE, message=cause, retryable=True)


def began(action: str) -> datetime:
    """When an action's id was made; the beginning of time for an id that doesn't say."""
    try:
        return ULID.from_str(action).datetime
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def unknown_request(action: str) -> ActionRequest:
    """Stands in for a request that can't be read, to show its action. It names no node, and nothing is planned from it."""
    at = began(action)
    return ActionRequest(
        id=action, name="unreadable", cluster="unknown", revision=0, requested_by="unknown", requested_at=at, deadline=at, target_nodes=[]
    )


def lifecycle(plan: Plan | None, outcome: ActionOutcome | None, *, paused: bool) -> Lifecycle:
    """Shipyard's word for where an action stands."""
    if outcome:
        return "Complete" if outcome.result == "success" else "Failed"
    if paused:
        return "Paused"
    return "Processing" if plan else "Pending"


def _silent(name: str) -> Outcome:
    return Outcome(subject=name, outcome="failed", reason="NoOutcome", message="its part ended without an outcome for it", retryable=True)
