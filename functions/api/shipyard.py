"""An action in Shipyard's words: its models (with a few fields of our own), steps and notes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from functions.api.standing import Progress, Standing, in_one_line, needing_attention, parameters_of
from shared.domain.actions import UNSUCCESSFUL, ActionOutcome, Lifecycle, action_id
from shared.domain.labels.impact import Impact
from shared.domain.names import RELABEL_NODES, UPDATE_VERSIONS
from shared.domain.outcomes import Outcome
from shared.world import World

StepState = Literal["scheduled", "queued", "running", "paused", "success", "failed", "upstream_failed"]
DAG_STATUS: dict[Lifecycle, str] = {
    "Pending": "queued",
    "Processing": "running",
    "Paused": "paused",
    "Complete": "success",
    "Failed": "failed",
}
OPERATORS = {RELABEL_NODES: "node_apply", "version_apply": "version_apply", "rollup": "result_rollup"}
"""The functions behind the steps; behind `plan` it is whoever plans actions of that name."""
NOTED_IN_ACTION = 100
"""Nodes that need attention, shown with the action itself; the step shows them all."""


class Note(BaseModel):
    """Shipyard's note. For a node: `node:NAME: OUTCOME …`, what changed or why it did not; for one of several clusters `cluster:NAME:`."""

    assoc_id: str
    subject: str
    sub_type: str
    note_val: str
    verbosity: int
    note_id: str
    note_timestamp: str


class ActionStep(BaseModel):
    """One step of an action; states are Airflow's words."""

    id: str
    url: str
    index: int
    state: StepState
    notes: list[Note]


class StepDetail(ActionStep):
    """A step as Shipyard shows it alone: Airflow's task instance."""

    task_id: str
    dag_id: str
    execution_date: str
    queued_dttm: str
    start_date: str | None
    end_date: str | None
    duration: float | None
    try_number: int
    operator: str


class Audit(BaseModel):
    """Who gave which command."""

    id: str
    action_id: str
    command: str
    user: str
    datetime: str


class Action(BaseModel):
    """Shipyard's action. `result`, `reason`, `message`, `cluster`, `clusters`, `parent`, `counts`, `progress`, `deadline`, `dry_run` and
    `retry_of` are ours. Over several `clusters`, each of them has an action of its own, whose `parent` this is, and is counted as one.
    """

    id: str
    name: str
    parameters: dict[str, Any]
    user: str
    timestamp: str
    datetime: str
    context_marker: str
    dag_id: str
    dag_execution_date: str
    dag_status: str
    action_lifecycle: Lifecycle
    committed_rev_id: int
    allow_intermediate_commits: bool = False
    steps: list[ActionStep]
    notes: list[Note]
    cluster: str
    clusters: list[str]
    parent: str | None
    dry_run: bool
    retry_of: str | None
    deadline: str
    result: str | None
    reason: str = ""
    message: str
    counts: dict[str, int]
    progress: Progress


class Child(BaseModel):
    """The action that one of several clusters has."""

    cluster: str
    id: str
    url: str


class ActionDetail(Action):
    """One action alone: with what was done to it, its impact where it was on more than named nodes, and its clusters' own actions."""

    children: list[Child] = []

    impact: Impact | None = None

    validations: list[dict[str, Any]] = []
    command_audit: list[Audit]


class OutcomeBody(BaseModel):
    """What became of every node. `outcomes` without the unchanged ones, which `unchanged` names."""

    id: str
    action_lifecycle: Lifecycle
    result: str | None
    reason: str = ""
    message: str = ""
    revision: int
    finished_at: str | None
    counts: dict[str, int]
    outcomes: list[Outcome]
    unchanged: list[str]
    impact: Impact | None = None


# --- from the ledger


def stamp(moment: datetime) -> str:
    """A time as Shipyard writes it: UTC without saying so."""
    return str(moment.replace(tzinfo=None))


def action_body(standing: Standing, *, detail: bool = False, world: World | None = None) -> Action:
    """Shipyard's action; with `detail` (and `world`), as it is shown alone."""
    asked, outcome = standing.request, standing.outcome
    common: dict[str, Any] = {
        "id": asked.id,
        "name": asked.name,
        "parameters": parameters_of(asked),
        "user": asked.requested_by,
        "timestamp": stamp(asked.requested_at),
        "datetime": stamp(asked.requested_at),
        "context_marker": asked.context_marker,
        "dag_id": asked.name,
        "dag_execution_date": asked.requested_at.isoformat(),
        "dag_status": DAG_STATUS[standing.lifecycle],
        "action_lifecycle": standing.lifecycle,
        "committed_rev_id": outcome.revision if outcome and outcome.revision else asked.revision,
        "steps": steps_of(standing, needing_attention(outcome.outcomes)[:NOTED_IN_ACTION] if detail and outcome else []),
        "notes": [_note(standing, f"action/{asked.id}", asked.id, "Configdoc", f"Configdoc revision {asked.revision}")],
        "cluster": asked.cluster,
        "clusters": asked.clusters or [],
        "parent": asked.parent,
        "dry_run": asked.dry_run,
        "retry_of": asked.retry_of,
        "deadline": asked.deadline.isoformat(),
        "result": outcome.result if outcome else None,
        "reason": outcome.reason if outcome else "",
        "message": outcome.message if outcome else "",
        "counts": outcome.counts if outcome else {},
        "progress": standing.progress,
    }
    if not detail or world is None:
        return Action(**common)
    given = [("invoke", asked.requested_by, asked.requested_at), *((c.verb, c.by, c.at) for c in world.actions.commands(asked.id))]
    audit = [
        Audit(id=action_id(f"{asked.id}/{verb}/{number}", at), action_id=asked.id, command=verb, user=by, datetime=stamp(at))
        for number, (verb, by, at) in enumerate(given)
    ]
    children = [Child(cluster=cluster, id=child, url=f"/actions/{child}") for cluster, child in asked.children.items()]
    return ActionDetail(**common, command_audit=audit, impact=standing.impact, children=children)


STATES: dict[Lifecycle, tuple[StepState, StepState, StepState]] = {
    "Pending": ("queued", "scheduled", "scheduled"),
    "Processing": ("success", "running", "scheduled"),
    "Paused": ("success", "paused", "scheduled"),
    "Complete": ("success", "success", "success"),
    "Failed": ("success", "failed", "success"),
}
"""States of plan, work and rollup by where the action stands."""


def steps_of(standing: Standing, noted: Iterable[Outcome]) -> list[ActionStep]:
    """The three steps, the outcomes noted on the one that does the work."""
    states = STATES[standing.lifecycle]
    if standing.outcome and standing.outcome.reason and not standing.outcome.counts:
        states = ("failed", "upstream_failed", "success")  # it ended before there was a plan
    return [
        ActionStep(
            id=name,
            url=f"/actions/{standing.request.id}/steps/{name}",
            index=index,
            state=state,
            notes=[_of_node(standing, name, outcome) for outcome in noted] if index == 2 else _of_step(standing, name),
        )
        for index, (name, state) in enumerate(zip(("plan", standing.middle, "rollup"), states, strict=True), 1)
    ]


def _of_step(standing: Standing, name: str) -> list[Note]:
    outcome = standing.outcome
    if name != "rollup" or outcome is None:
        return []
    counts = ", ".join(f"{number} {kind}" for kind, number in outcome.counts.items()) or "no nodes"
    counts += " (clusters)" if standing.request.clusters else ""
    text = f"{outcome.result}: {counts}" + (f"; {outcome.message}" if outcome.message else "")
    return [_note(standing, f"step/{standing.request.id}/rollup", standing.request.id, "Result", text)]


def _of_node(standing: Standing, step: str, outcome: Outcome) -> Note:
    failed = " (error)" if outcome.outcome in UNSUCCESSFUL else ""
    what = "cluster" if standing.request.clusters else "node"
    text = f"{what}:{outcome.subject}: {in_one_line(outcome)}{failed}"
    verbosity = 2 if outcome.outcome == "unchanged" else 1
    return _note(standing, f"step/{standing.request.id}/{step}", outcome.subject, "Task Message", text, verbosity)


def _note(standing: Standing, where: str, subject: str, kind: str, text: str, verbosity: int = 1) -> Note:
    at = standing.outcome.finished_at if standing.outcome and where.startswith("step/") else standing.request.requested_at
    return Note(
        assoc_id=where,
        subject=subject,
        sub_type=kind,
        note_val=text,
        verbosity=verbosity,
        note_id=action_id(f"{where}/{subject}/{kind}", at),
        note_timestamp=stamp(at),
    )


def outcome_body(standing: Standing, known: ActionOutcome | None) -> OutcomeBody:
    """What became of every node; `known` is all there is of it so far."""
    ended = standing.outcome
    return OutcomeBody(
        id=standing.request.id,
        action_lifecycle=standing.lifecycle,
        result=ended.result if ended else None,
        reason=ended.reason if ended else "",
        message=ended.message if ended else "",
        revision=known.revision if known else standing.request.revision,
        finished_at=ended.finished_at.isoformat() if ended else None,
        counts=known.counts if known else {},
        outcomes=known.outcomes if known else [],
        unchanged=known.unchanged if known else [],
        impact=standing.impact,
    )


def step_detail(standing: Standing, known: ActionOutcome | None, name: str, verbosity: int) -> StepDetail | None:
    """One step with its notes up to a verbosity; None where the action has no such step."""
    listed = [*(known.outcomes if known else ()), *(Outcome(subject=n, outcome="unchanged") for n in (known.unchanged if known else ()))]
    step = next((step for step in steps_of(standing, listed) if step.id == name), None)
    if step is None:
        return None
    began = standing.request.requested_at
    since, until = _ran(standing, name)
    return StepDetail(
        **step.model_dump(exclude={"notes"}),
        notes=[note for note in step.notes if note.verbosity <= verbosity],
        task_id=name,
        dag_id=standing.request.name,
        execution_date=began.isoformat(),
        queued_dttm=began.isoformat(),
        start_date=since.isoformat() if since else None,
        end_date=until.isoformat() if until else None,
        duration=(until - since).total_seconds() if since and until else None,
        try_number=1,
        operator=OPERATORS.get(name) or ("version_check" if standing.request.name == UPDATE_VERSIONS else "relabel_request"),
    )


def _ran(standing: Standing, name: str) -> tuple[datetime | None, datetime | None]:
    """From when to when a step ran."""
    began = standing.request.requested_at
    planned = standing.plan.planned_at if standing.plan else None
    ended = standing.outcome.finished_at if standing.outcome else None
    if name == "plan":
        return began, planned or ended
    if name == standing.middle:
        return planned or (began if ended else None), ended
    return ended, ended
