"""What an action is, from request to outcome: its records, its parts, its states. Pure.

Lifecycle words are Shipyard's (docs/airship.md §1.1); results are those of docs/labels.md.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from ulid import ULID

from shared.domain.labels.impact import Accepting, Impact
from shared.domain.labels.selection import Selection
from shared.domain.names import DRIFT_SWEEP, UNKNOWN
from shared.domain.outcomes import Outcome

MAX_PARTS = 256
"""Parts of one action at most (docs/messages.md)."""
PART_SIZE = 200
"""Nodes of one part, until that would make more than MAX_PARTS: about a third of a second of an API server's time."""

Result = Literal["success", "partial_success", "failure", "blocked", "stopped", "expired"]
Lifecycle = Literal["Pending", "Processing", "Paused", "Complete", "Failed"]
UNREADABLE = "RecordUnreadable"
"""The reason of what ended because a record in the store can't be read; the message has its key."""
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
    requested_by: str
    dry_run: bool = False
    retry_of: str | None = None

    def asked(self) -> dict[str, Any]:
        """These fields as they are, for the next one that carries them: nothing is dumped or validated again."""
        return {field: getattr(self, field) for field in Ask.model_fields}


class ActionRequest(Ask, Record):
    """`request.json`: what was asked, of which revision; when it must have ended."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    id: str
    cluster: str
    revision: int
    requested_at: datetime
    deadline: datetime
    parameters: dict[str, Any] = {}
    """As they came in over HTTP; empty for what a message asked."""
    context_marker: str = ""
    """The caller's own mark for the request (Shipyard's X-Context-Marker)."""


class Plan(Record):
    """`plan.json`: the subjects of each part (part 1 first) and what planning settled without a message."""

    revision: int
    release: int = 0
    """The number of the cluster's newest release when it was planned; what the action itself released has a higher one."""
    planned_at: datetime
    parts: list[list[str]]
    unchanged: list[str] = []
    settled: list[Outcome] = []
    reason: str = ""
    message: str = ""
    """Why nothing could be planned, where that is so: the action ends as a failure with this cause."""
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


def conclude(plan: Plan, parts: Mapping[int, Sequence[Outcome]], finished_at: datetime) -> ActionOutcome:
    """Roll up a plan and the results of its parts. A subject whose part brought no outcome for it counts as failed."""
    outcomes = [*plan.settled]
    for number, names in enumerate(plan.parts, 1):
        told = {outcome.subject: outcome for outcome in parts.get(number, ())}
        outcomes += [told.get(name) or _silent(name) for name in names]
    kinds = [outcome.outcome for outcome in outcomes]
    counts = Counter(kinds)
    if plan.unchanged:
        counts["unchanged"] += len(plan.unchanged)
    result = result_of(counts.elements())
    return ActionOutcome(
        result="blocked" if plan.blocked else "failure" if plan.reason and result == "success" else result,
        reason=plan.reason,
        message=plan.message,
        finished_at=finished_at,
        revision=plan.revision,
        counts=dict(sorted(counts.items())),
        outcomes=sorted(outcomes, key=lambda outcome: outcome.subject),
        unchanged=plan.unchanged,
        impact=plan.impact,
    )


def expire(plan: Plan | None, parts: Mapping[int, Sequence[Outcome]], request: ActionRequest, now: datetime) -> ActionOutcome:
    """End an action whose deadline has passed: what is known stays, the rest is failed and may be retried."""
    plan = plan or Plan(revision=request.revision, planned_at=now, parts=[])
    told = {outcome.subject: outcome for part in parts.values() for outcome in part}
    late = "no result by the deadline; retry these nodes with `hullmark actions retry`"
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
    asked_by_the_clock = (request.name, request.requested_by) == (DRIFT_SWEEP, UNKNOWN)
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
