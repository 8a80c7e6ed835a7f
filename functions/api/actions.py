"""`/actions`: Shipyard's calls, with Shipyard's fields (rules/airship.md §1.1) and a few of our own."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock
from typing import Any, Literal

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ulid import ULID

from functions.api.answers import ApiError, Said, answers, invalid, send, who
from shared import wiring
from shared.domain.actions import UNSUCCESSFUL, ActionOutcome, ActionRequest, Lifecycle, Plan, action_id, conclude, lifecycle
from shared.domain.outcomes import Outcome
from shared.domain.overview import in_short
from shared.ledger.actions import UnknownAction, WrongState
from shared.messages import RelabelRequest
from shared.ports import BusError, ObjectStore
from shared.work.control import control
from shared.work.intake import accept
from shared.world import World

routes = APIBlueprint("actions", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="actions", description="Shipyard's actions")])

ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
"""An action's id: a ULID."""
SITE_ACTIONS = ("update_site",)
RELABELS = ("update_labels", "relabel_nodes", *SITE_ACTIONS)
"""Actions that can be asked for."""
MIDDLE_STEP = {"update_versions": "version_apply"}
"""What the step between `plan` and `rollup` is called; `relabel_nodes` where nothing else is said."""
DAG_STATUS: dict[Lifecycle, str] = {
    "Pending": "queued",
    "Processing": "running",
    "Paused": "paused",
    "Complete": "success",
    "Failed": "failed",
}
IGNORED = ("continue-on-fail",)
"""Parameters that Shipyard's clients may send and that mean nothing here."""
NOTED_IN_ACTION = 100
"""Nodes that need a person, shown with the action itself; the step shows them all."""


# --- what is asked


class ActionPath(BaseModel):
    """An action's id: 26 characters, as POST answered it."""

    action: str = Field(max_length=64)


class StepPath(ActionPath):
    """A step of an action."""

    step: str = Field(max_length=64)


class ControlPath(ActionPath):
    """A control verb."""

    verb: str = Field(max_length=32)


class ListQuery(BaseModel):
    """How many actions to list."""

    model_config = ConfigDict(extra="ignore")
    limit: int = Field(default=100, ge=1, le=1000, description="The newest so many.")


class StepQuery(BaseModel):
    """How much to tell."""

    verbosity: int = Field(default=1, ge=0, le=5, description="0 no notes; 1 every node but the unchanged; 2 and more: those too.")


class CreateQuery(BaseModel):
    """Shipyard's query; relabeling has no intermediate commits to allow."""

    model_config = ConfigDict(extra="ignore")
    allow_intermediate_commits: bool = Field(default=False, alias="allow-intermediate-commits")


class CreateAction(BaseModel):
    """What to do: `update_labels` (`relabel_nodes` is the same) on nodes, or `update_site` on all of them."""

    model_config = ConfigDict(
        extra="ignore", json_schema_extra={"examples": [{"name": "update_labels", "parameters": {"target_nodes": ["n1"]}}]}
    )
    name: str = Field(min_length=1, max_length=64)
    parameters: dict[str, Any] | None = Field(
        default=None, description="`target_nodes` (a list or a comma string) or `node_filter`; `cluster`; `dry_run`."
    )


# --- what is answered


class Note(BaseModel):
    """Shipyard's note. For a node: `node:NAME: OUTCOME …`, what changed or why it did not."""

    assoc_id: str
    subject: str
    sub_type: str
    note_val: str
    verbosity: int
    note_id: str
    note_timestamp: str


class Step(BaseModel):
    """One step of an action; states are Airflow's words."""

    id: str
    url: str
    index: int
    state: Literal["scheduled", "queued", "running", "paused", "success", "failed", "upstream_failed"]
    notes: list[Note]


class StepDetail(Step):
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


class Progress(BaseModel):
    """Nodes that have an outcome, of all that are meant; both 0 before the plan is made."""

    done: int
    total: int


class Action(BaseModel):
    """Shipyard's action. `result`, `message`, `cluster`, `counts`, `progress`, `deadline`, `dry_run` and `retry_of` are ours."""

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
    steps: list[Step]
    notes: list[Note]
    cluster: str
    dry_run: bool
    retry_of: str | None
    deadline: str
    result: str | None
    message: str
    counts: dict[str, int]
    progress: Progress


class ActionDetail(Action):
    """One action alone: with what was done to it."""

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


# --- one action as the ledger has it


@dataclass(frozen=True)
class Standing:
    """One action, gathered: what was asked, the plan where it has not ended yet, how it ended."""

    request: ActionRequest
    plan: Plan | None
    outcome: ActionOutcome | None
    lifecycle: Lifecycle
    done: int = 0

    @property
    def progress(self) -> Progress:
        """How far it is."""
        if self.outcome:
            total = sum(self.outcome.counts.values())
            return Progress(done=total, total=total)
        if self.plan is None:
            return Progress(done=0, total=0)
        settled = len(self.plan.unchanged) + len(self.plan.settled)
        return Progress(done=settled + self.done, total=settled + sum(map(len, self.plan.parts)))

    @property
    def moving(self) -> bool:
        """Whether it goes on by itself."""
        return self.lifecycle in ("Pending", "Processing")

    @property
    def middle(self) -> str:
        """The name of the step that does the work."""
        return MIDDLE_STEP.get(self.request.name, "relabel_nodes")


def standing(action: str, world: World) -> Standing:
    """Gather one action. Raises ApiError 404."""
    found = gather(action, world)
    if found is None:
        cause = f"no action {action}"
        raise ApiError(404, "Action not found", cause, [Said(message=cause, reason="UnknownAction")])
    return found


_KEPT: OrderedDict[tuple[ObjectStore, str], Standing] = OrderedDict()
_lock = Lock()
READERS = 16
"""Reads at a time when several actions are wanted."""
KEPT = 200_000
"""Names in all that the remembered actions may hold, an outcome with its reason counting as ten: about 40 MB."""


def remembered(action: str, world: World) -> Standing | None:
    """One action with its outcome in short (see overview.in_short). What has ended never changes, so it is read once."""
    key = (world.store, action)
    with _lock:
        if key in _KEPT:
            return _KEPT[key]
    found = gather(action, world)
    if found is None or found.outcome is None:
        return found
    found = replace(found, outcome=in_short(found.request, found.outcome))
    with _lock:
        _KEPT[key] = found
        while sum(map(_weight, _KEPT.values())) > KEPT:
            _KEPT.popitem(last=False)
    return found


def recalled(actions: Sequence[str], world: World) -> list[Standing]:
    """Several actions in their order, read side by side: a bucket takes its 30 ms for each object."""
    with ThreadPoolExecutor(READERS) as readers:
        return [found for found in readers.map(lambda action: remembered(action, world), actions) if found]


def _weight(found: Standing) -> int:
    return 10 + 10 * len(found.outcome.outcomes) + len(found.outcome.unchanged) if found.outcome else 0


def gather(action: str, world: World) -> Standing | None:
    """Gather one action: two reads when it has ended, three and two listings while it runs. None where there is none."""
    ledger = world.actions
    asked = ledger.find(action) if ID.fullmatch(action) else None
    if asked is None:
        return None
    outcome = ledger.outcome(action)
    if outcome:
        return Standing(asked, None, outcome, lifecycle(None, outcome, paused=False))
    plan = ledger.plan(action)
    recorded = ledger.recorded(action) if plan else set()
    done = sum(len(names) for number, names in enumerate(plan.parts, 1) if number in recorded) if plan else 0
    return Standing(asked, plan, None, lifecycle(plan, None, paused=ledger.paused(action)), done)


def outcome_so_far(found: Standing, world: World) -> ActionOutcome | None:
    """How it ended, or what is known of it while it runs; None before the plan is made."""
    if found.outcome or found.plan is None:
        return found.outcome
    told = world.actions.part_outcomes(found.request.id)
    known = found.plan.model_copy(
        update={"parts": [[outcome.subject for outcome in told.get(n, ())] for n in range(1, len(found.plan.parts) + 1)]}
    )
    return conclude(known, told, found.plan.planned_at)


# --- Shipyard's words


def stamp(moment: datetime) -> str:
    """A time as Shipyard writes it: UTC without saying so."""
    return str(moment.replace(tzinfo=None))


def parameters_of(asked: ActionRequest) -> dict[str, Any]:
    """What was asked, as it came in; of a message, what it said."""
    said = {"target_nodes": asked.target_nodes, "node_filter": asked.node_filter, "dry_run": asked.dry_run or None}
    return asked.parameters or {key: value for key, value in said.items() if value is not None}


def action_body(found: Standing, *, detail: bool = False, world: World | None = None) -> Action:
    """Shipyard's action; with `detail` (and `world`), as it is shown alone."""
    asked, outcome = found.request, found.outcome
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
        "dag_status": DAG_STATUS[found.lifecycle],
        "action_lifecycle": found.lifecycle,
        "committed_rev_id": outcome.revision if outcome and outcome.revision else asked.revision,
        "steps": steps_of(found, needing_a_person(outcome.outcomes)[:NOTED_IN_ACTION] if detail and outcome else []),
        "notes": [_note(found, f"action/{asked.id}", asked.id, "Configdoc", f"Configdoc revision {asked.revision}")],
        "cluster": asked.cluster,
        "dry_run": asked.dry_run,
        "retry_of": asked.retry_of,
        "deadline": asked.deadline.isoformat(),
        "result": outcome.result if outcome else None,
        "message": outcome.message if outcome else "",
        "counts": outcome.counts if outcome else {},
        "progress": found.progress,
    }
    if not detail or world is None:
        return Action(**common)
    given = [("invoke", asked.requested_by, asked.requested_at), *((c.verb, c.by, c.at) for c in world.actions.commands(asked.id))]
    audit = [
        Audit(id=action_id(f"{asked.id}/{verb}/{number}", at), action_id=asked.id, command=verb, user=by, datetime=stamp(at))
        for number, (verb, by, at) in enumerate(given)
    ]
    return ActionDetail(**common, command_audit=audit)


STATES: dict[Lifecycle, tuple[str, str, str]] = {
    "Pending": ("queued", "scheduled", "scheduled"),
    "Processing": ("success", "running", "scheduled"),
    "Paused": ("success", "paused", "scheduled"),
    "Complete": ("success", "success", "success"),
    "Failed": ("success", "failed", "success"),
}
"""States of plan, work and rollup by where the action stands."""


def steps_of(found: Standing, noted: Iterable[Outcome]) -> list[Step]:
    """The three steps, the outcomes noted on the one that does the work."""
    states = STATES[found.lifecycle]
    if found.outcome and found.outcome.reason and not found.outcome.counts:
        states = ("failed", "upstream_failed", "success")  # it ended before there was a plan
    return [
        Step.model_validate(
            {
                "id": name,
                "url": f"/actions/{found.request.id}/steps/{name}",
                "index": index,
                "state": state,
                "notes": [_of_node(found, name, outcome) for outcome in noted] if index == 2 else _of_step(found, name),
            }
        )
        for index, (name, state) in enumerate(zip(("plan", found.middle, "rollup"), states, strict=True), 1)
    ]


def needing_a_person(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Failed, missing, stopped and skipped ones."""
    return [outcome for outcome in outcomes if outcome.outcome in UNSUCCESSFUL or outcome.outcome == "skipped"]


def told(outcome: Outcome) -> str:
    """What became of a node, in one line: what changed, or why it did not."""
    changes = outcome.changes
    words = [f"{key}={value}" for key, value in sorted(changes.set.items())] + [f"{key}-" for key in changes.remove] if changes else []
    cause = ": ".join(filter(None, (outcome.reason, outcome.message)))
    return " ".join(filter(None, (outcome.outcome, " ".join(words), f"({cause})" if words and cause else cause)))


def _of_step(found: Standing, name: str) -> list[Note]:
    outcome = found.outcome
    if name != "rollup" or outcome is None:
        return []
    counts = ", ".join(f"{number} {kind}" for kind, number in outcome.counts.items()) or "no nodes"
    text = f"{outcome.result}: {counts}" + (f"; {outcome.message}" if outcome.message else "")
    return [_note(found, f"step/{found.request.id}/rollup", found.request.id, "Result", text)]


def _of_node(found: Standing, step: str, outcome: Outcome) -> Note:
    failed = " (error)" if outcome.outcome in UNSUCCESSFUL else ""
    text = f"node:{outcome.subject}: {told(outcome)}{failed}"
    verbosity = 2 if outcome.outcome == "unchanged" else 1
    return _note(found, f"step/{found.request.id}/{step}", outcome.subject, "Task Message", text, verbosity)


def _note(found: Standing, where: str, subject: str, kind: str, text: str, verbosity: int = 1) -> Note:
    at = found.outcome.finished_at if found.outcome and where.startswith("step/") else found.request.requested_at
    return Note(
        assoc_id=where,
        subject=subject,
        sub_type=kind,
        note_val=text,
        verbosity=verbosity,
        note_id=action_id(f"{where}/{subject}/{kind}", at),
        note_timestamp=stamp(at),
    )


# --- starting one


def start(
    name: str, given: Mapping[str, Any], world: World, *, retry_of: str | None = None, kept: Mapping[str, Any] | None = None
) -> ActionRequest:
    """Check, record and publish a request. Raises ApiError, Rejected and what the store, the cluster and the bus raise.

    `given`: target_nodes, node_filter, cluster, dry_run. `kept` is what the action answers as its parameters (else `given`).
    Where the bus does not confirm, the action ends at once as failed: asking again makes a new one, and nothing runs twice.
    """
    now = world.clock()
    try:
        asked = RelabelRequest.model_validate({**given, "name": name, "requested_by": who(), "retry_of": retry_of})
    except ValidationError as error:
        raise invalid("Invalid target_nodes parameter" if _about_nodes(error) else "Invalid parameters", error) from error
    marker = request.headers.get("X-Context-Marker", "")[:64]
    accepted = accept(asked, str(ULID()), world, now, parameters=dict(given) if kept is None else kept, context_marker=marker)
    try:
        world.bus.publish(RelabelRequest.TOPIC, [RelabelRequest.again(accepted).outgoing()])
    except BusError as error:
        message = f"the request could not be published: {error}"
        ended = ActionOutcome(result="failure", finished_at=now, revision=accepted.revision, reason="BusError", message=message)
        world.actions.end(accepted.id, ended)
        raise
    return accepted


def _about_nodes(error: ValidationError) -> bool:
    return any(each["loc"][:1] in ((), ("target_nodes",), ("node_filter",)) for each in error.errors())


PARAMETERS = ("target_nodes", "node_filter", "cluster", "dry_run")


def _given(body: CreateAction) -> dict[str, Any]:
    """The parameters that mean something. Raises ApiError for an unsupported action and for parameters nobody knows."""
    if body.name not in RELABELS:
        cause = f"Unsupported Action: {body.name}; there are {', '.join(RELABELS)}"
        raise ApiError(400, "Unable to start action", cause, [Said(message=cause, reason="UnsupportedAction")])
    given = {key: value for key, value in (body.parameters or {}).items() if key not in IGNORED}
    unknown = sorted(set(given) - set(PARAMETERS))
    if unknown:
        said = [Said(message=f"unknown parameter {name}: there are {', '.join(PARAMETERS)}", reason="UnknownParameter") for name in unknown]
        raise ApiError(400, "Invalid parameters", "; ".join(each.message for each in said), said)
    return given


# --- the routes


@routes.post("/actions", responses=answers(201, Action, body=True))
def create_action(query: CreateQuery, body: CreateAction) -> Response:
    """Start an action: make nodes true to the newest committed documents.

    Refused (400) without nodes, with unknown ones (each is named), for another action, without committed documents, and, for
    named nodes, while no revision has taken part in a site action. 201 says that it is recorded; it runs behind the bus.
    """
    world = wiring.world()
    accepted = start(body.name, _given(body), world, kept=body.parameters or {})
    answer = action_body(Standing(accepted, None, None, "Pending"))
    answer = answer.model_copy(update={"dag_status": "SCHEDULED", "allow_intermediate_commits": query.allow_intermediate_commits})
    return send(answer, 201, {"Location": located(accepted.id)})


def located(action: str) -> str:
    """Where an action is found, under the prefix that this request came by."""
    return f"{request.script_root}/v1.0/actions/{action}"


@routes.get(
    "/actions",
    responses=answers(
        200, {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Action"}}}}}, 400
    ),
)
def list_actions(query: ListQuery) -> Response:
    """The newest actions, oldest of them first."""
    world = wiring.world()
    found = recalled(world.actions.ids(limit=query.limit), world)
    return send([action_body(each).model_dump(mode="json") for each in found])


@routes.get("/actions/<action>", responses=answers(200, ActionDetail, 404))
def show_action(path: ActionPath) -> Response:
    """One action: where it stands, its steps, the nodes that need a person, who commanded it."""
    world = wiring.world()
    found = remembered(path.action, world) or standing(path.action, world)
    return send(action_body(found, detail=True, world=world))


@routes.get("/actions/<action>/outcome", responses=answers(200, OutcomeBody, 404))
def show_outcome(path: ActionPath) -> Response:
    """What became of every node; while it runs, of those that are done."""
    world = wiring.world()
    found = standing(path.action, world)
    known = outcome_so_far(found, world)
    ended = found.outcome
    return send(
        OutcomeBody(
            id=path.action,
            action_lifecycle=found.lifecycle,
            result=ended.result if ended else None,
            reason=ended.reason if ended else "",
            message=ended.message if ended else "",
            revision=known.revision if known else found.request.revision,
            finished_at=ended.finished_at.isoformat() if ended else None,
            counts=known.counts if known else {},
            outcomes=known.outcomes if known else [],
            unchanged=known.unchanged if known else [],
        )
    )


@routes.get("/actions/<action>/steps/<step>", responses=answers(200, StepDetail, 404))
def show_step(path: StepPath, query: StepQuery) -> Response:
    """One step: `plan`, `relabel_nodes` (what became of each node, and why) or `rollup`."""
    world = wiring.world()
    found = standing(path.action, world)
    known = outcome_so_far(found, world)
    listed = [*(known.outcomes if known else ()), *(Outcome(subject=n, outcome="unchanged") for n in (known.unchanged if known else ()))]
    step = next((each for each in steps_of(found, listed) if each.id == path.step), None)
    if step is None:
        cause = f"action {path.action} has no step {path.step}: there are plan, {found.middle}, rollup"
        raise ApiError(404, "Step not found", cause)
    began = found.request.requested_at
    planned = found.plan.planned_at if found.plan else None
    ended = found.outcome.finished_at if found.outcome else None
    since, until = {"plan": (began, planned or ended), found.middle: (planned or (began if ended else None), ended)}.get(
        path.step, (ended, ended)
    )
    notes = [note for note in step.notes if note.verbosity <= query.verbosity]
    return send(
        StepDetail(
            **step.model_dump(exclude={"notes"}),
            notes=notes,
            task_id=step.id,
            dag_id=found.request.name,
            execution_date=began.isoformat(),
            queued_dttm=began.isoformat(),
            start_date=since.isoformat() if since else None,
            end_date=until.isoformat() if until else None,
            duration=(until - since).total_seconds() if since and until else None,
            try_number=1,
            operator={"plan": "relabel_request", "rollup": "result_rollup"}.get(step.id, "node_apply"),
        )
    )


@routes.post("/actions/<action>/control/<verb>", responses=answers(202, ActionDetail, 404, 409))
def control_action(path: ControlPath) -> Response:
    """`stop`, `pause`, `unpause`; `retry` starts a new action on the nodes that failed (its id and Location are answered)."""
    world = wiring.world()
    if path.verb not in ("stop", "pause", "unpause", "retry"):
        raise ApiError(404, "Control not supported", f"there is no control {path.verb}: stop, pause, unpause, retry")
    if path.verb == "retry":
        again = _retry(standing(path.action, world), world)
        found = standing(again.id, world)
        return send(action_body(found, detail=True, world=world), 202, {"Location": located(again.id)})
    try:
        control(path.action, path.verb, who(), world, world.clock())
    except UnknownAction:
        standing(path.action, world)
    except WrongState as wrong:
        raise ApiError(409, "Invalid state", str(wrong), [Said(message=str(wrong), reason="WrongState")]) from wrong
    return send(action_body(standing(path.action, world), detail=True, world=world), 202)


def _retry(found: Standing, world: World) -> ActionRequest:
    """The unsuccessful nodes again; all that was meant, where it ended before any node had an outcome."""
    asked, ended = found.request, found.outcome
    common = {"cluster": asked.cluster, "dry_run": asked.dry_run}
    if ended and asked.name in RELABELS and ended.unsuccessful:
        return start("update_labels", {"target_nodes": ended.unsuccessful, **common}, world, retry_of=asked.id)
    if ended and asked.name in RELABELS and ended.result != "success" and not ended.counts:
        meant = {"target_nodes": asked.target_nodes, "node_filter": asked.node_filter, **common}
        return start(asked.name, {key: value for key, value in meant.items() if value is not None}, world, retry_of=asked.id)
    why = f"it is {found.lifecycle}" if not ended else "it is not about nodes" if asked.name not in RELABELS else "no node of it failed"
    raise ApiError(409, "Invalid state", f"action {asked.id} can't be retried: {why}")
