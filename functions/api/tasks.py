"""`/tasks` and `/nodefilter`: Drydock's calls, with Drydock's fields (rules/airship.md §2). A task is an action underneath."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field

from functions.api.actions import Standing, outcome_so_far, parameters_of, recalled, stamp, standing, start, told
from functions.api.answers import ApiError, Said, answers, send
from shared import wiring
from shared.domain.actions import UNSUCCESSFUL, ActionOutcome
from shared.domain.labels.selection import NodeFilter, select
from shared.domain.outcomes import Outcome
from shared.ledger.revisions import Revision, Revisions
from shared.work.planning import candidate

routes = APIBlueprint("tasks", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="tasks", description="Drydock's tasks and node filter")])

ACTIONS = {"relabel_nodes": "relabel_nodes", "update_labels": "update_labels"}
REF = re.compile(r"(?:.*/)?revisions/([0-9]{1,6})(?:/rendered-documents)?/?")
EVERY_NODE: dict[str, Any] = {"filter_set_type": "union", "filter_set": []}
DESIGN_REF = "`committed`, `revisions/N`, or a Deckhand URL that ends in `revisions/N/rendered-documents`."

TaskStatus = Literal["requested", "queued", "running", "complete", "terminated"]
TaskResult = Literal["incomplete", "success", "partial_success", "failure"]


class TaskPath(BaseModel):
    """A task's id; a subtask's is the task's, a dot and the node's name."""

    task: str = Field(max_length=300)


class TaskQuery(BaseModel):
    """How deep to look."""

    model_config = ConfigDict(extra="ignore")
    layers: int = Field(default=0, ge=-1, le=10, description="0 the task alone; else Drydock's form with its subtasks, by id.")
    subtaskerrors: bool = Field(default=False, description="Add `subtask_errors`, by id.")


class CreateTask(BaseModel):
    """Relabel the nodes that a filter means (none: every node)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "action": "relabel_nodes",
                    "design_ref": "committed",
                    "node_filter": {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["n1"]}]},
                }
            ]
        },
    )
    action: str = Field(max_length=64)
    design_ref: str = Field(max_length=2048, description=DESIGN_REF)
    node_filter: NodeFilter | None = None


class FilterNodes(BaseModel):
    """Which nodes a filter means."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"design_ref": "committed", "node_filter": None}]})
    design_ref: str = Field(max_length=2048, description=DESIGN_REF)
    node_filter: NodeFilter | None = None


class TaskMessage(BaseModel):
    """Drydock's message: about one node, or about the task."""

    message: str
    error: bool
    context_type: str
    context: str
    ts: str
    extra: dict[str, Any] = {}


class TaskDetails(BaseModel):
    """Messages, and how many of them are errors."""

    errorCount: int  # noqa: N815 - Drydock's name
    messageList: list[TaskMessage]  # noqa: N815


class TaskOutcome(BaseModel):
    """Drydock's `result`."""

    kind: Literal["Status"] = "Status"
    apiVersion: Literal["v1.0"] = "v1.0"  # noqa: N815
    metadata: dict[str, Any] = {}
    status: TaskResult
    message: str
    reason: str
    successes: list[str]
    failures: list[str]
    links: list[dict[str, str]]
    details: TaskDetails


class Subtask(BaseModel):
    """One node's part of a task, in short."""

    task_id: str
    node: str
    status: TaskStatus
    result: TaskResult
    message: str


class Task(BaseModel):
    """Drydock's task; `subtasks` is ours."""

    kind: Literal["Task"] = "Task"
    apiVersion: Literal["v1"] = "v1"  # noqa: N815
    task_id: str
    action: str
    parent_task_id: str | None
    design_ref: str
    status: TaskStatus
    result: TaskOutcome
    node_filter: dict[str, Any] | None
    subtask_id_list: list[str]
    subtasks: list[Subtask] = []
    created: str
    created_by: str
    updated: str
    terminated: str | None
    terminated_by: str | None
    terminate: bool
    retry: int = 0


TASK_OR_LAYERS = {
    "content": {
        "application/json": {"schema": {"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "object", "required": ["init_task_id"]}]}}
    }
}


def task_of(found: Standing, outcomes: list[Outcome], stopped_by: str | None = None) -> Task:
    """The action as Drydock would show it, with what became of these nodes."""
    asked, ended = found.request, found.outcome
    status: TaskStatus = _status(found)
    updated = ended.finished_at if ended else found.plan.planned_at if found.plan else asked.requested_at
    given = parameters_of(asked)
    return Task(
        task_id=asked.id,
        action=asked.name,
        parent_task_id=None,
        design_ref=str(given.get("design_ref") or f"revisions/{asked.revision}"),
        status=status,
        result=_rolled_up(found, outcomes),
        node_filter=given["node_filter"] if "design_ref" in given else asked.node_filter,
        subtask_id_list=[f"{asked.id}.{outcome.subject}" for outcome in outcomes],
        subtasks=[
            Subtask(task_id=f"{asked.id}.{o.subject}", node=o.subject, status="complete", result=_result({o.outcome: 1}), message=told(o))
            for o in outcomes
        ],
        created=stamp(asked.requested_at),
        created_by=asked.requested_by,
        updated=stamp(updated),
        terminated=stamp(updated) if status == "terminated" else None,
        terminated_by=stopped_by if status == "terminated" else None,
        terminate=stopped_by is not None,
    )


def subtask_of(task: Task, outcome: Outcome) -> Task:
    """One node's leaf of it."""
    message = _message(outcome, task.updated)
    result = task.result.model_copy(
        update={
            "status": _result({outcome.outcome: 1}),
            "message": told(outcome),
            "reason": outcome.reason,
            "successes": [] if outcome.outcome in UNSUCCESSFUL else [outcome.subject],
            "failures": [outcome.subject] if outcome.outcome in UNSUCCESSFUL else [],
            "details": TaskDetails(errorCount=int(message.error), messageList=[message]),
        }
    )
    only = {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": [outcome.subject]}]}
    return task.model_copy(
        update={
            "task_id": f"{task.task_id}.{outcome.subject}",
            "action": "relabel_node",
            "parent_task_id": task.task_id,
            "status": "complete",
            "result": result,
            "node_filter": only,
            "subtask_id_list": [],
            "subtasks": [],
        }
    )


def _all(known: ActionOutcome | None) -> list[Outcome]:
    if known is None:
        return []
    return sorted([*known.outcomes, *(Outcome(subject=name, outcome="unchanged") for name in known.unchanged)], key=lambda o: o.subject)


def _status(found: Standing) -> TaskStatus:
    if found.outcome:
        return "terminated" if found.outcome.result == "stopped" else "complete"
    return "queued" if found.plan is None else "running"


def _result(counts: Mapping[str, int]) -> TaskResult:
    bad = sum(number for kind, number in counts.items() if kind in UNSUCCESSFUL)
    return "success" if not bad else "failure" if bad == sum(counts.values()) else "partial_success"


def _message(outcome: Outcome, at: str) -> TaskMessage:
    error = outcome.outcome in UNSUCCESSFUL
    extra = {"outcome": outcome.outcome, "reason": outcome.reason, "retryable": outcome.retryable}
    return TaskMessage(message=told(outcome), error=error, context_type="node", context=outcome.subject, ts=at, extra=extra)


def _rolled_up(found: Standing, outcomes: list[Outcome]) -> TaskOutcome:
    """Drydock's result. Unlike the original the causes are told here too, not only on the leaves; unchanged nodes need no message."""
    ended = found.outcome
    at = stamp(ended.finished_at if ended else found.request.requested_at)
    messages = [_message(outcome, at) for outcome in outcomes if outcome.outcome != "unchanged"]
    if ended and not ended.counts:
        why = ended.message or "No nodes in scope, nothing to relabel."
        messages = [TaskMessage(message=why, error=ended.result != "success", context_type="task", context=found.request.id, ts=at)]
    result: TaskResult = "incomplete"
    if ended:
        result = _result(ended.counts) if ended.counts or ended.result == "success" else "failure"
    return TaskOutcome(
        status=result,
        message=ended.message if ended else "",
        reason=ended.reason if ended else "",
        successes=[o.subject for o in outcomes if o.outcome not in UNSUCCESSFUL],
        failures=[o.subject for o in outcomes if o.outcome in UNSUCCESSFUL],
        links=[{"rel": "action", "href": f"/v1.0/actions/{found.request.id}"}],
        details=TaskDetails(errorCount=sum(m.error for m in messages), messageList=messages),
    )


def revision_of(design_ref: str, revisions: Revisions) -> Revision:
    """The revision that a design_ref means. Raises ApiError 400."""
    named = REF.fullmatch(design_ref.strip())
    newest_number = revisions.newest()
    if not named and design_ref.strip() != "committed":
        raise ApiError(400, "Invalid design_ref", f"a design_ref is {DESIGN_REF}")
    if not newest_number:
        cause = "Unable to locate a committed revision: POST /v1.0/configdocs/COLLECTION, then /v1.0/commitconfigdocs"
        raise ApiError(400, "No committed configdocs", cause, [Said(message=cause, reason="NoCommittedRevision")])
    number = int(named[1]) if named else newest_number
    if not 1 <= number <= newest_number:
        raise ApiError(400, "Invalid design_ref", f"no revision {number}; the newest is {newest_number}")
    return revisions.get(number)


@routes.post("/tasks", responses=answers(201, Task, body=True))
def create_task(body: CreateTask) -> Response:
    """Start a task. What is applied is the newest revision, also where design_ref names an older one: an old one never comes back."""
    world = wiring.world()
    if body.action not in ACTIONS:
        cause = f"unsupported action {body.action}: there are {', '.join(ACTIONS)}"
        raise ApiError(400, "Unsupported action", cause, [Said(message=cause, reason="UnsupportedAction")])
    revision_of(body.design_ref, world.revisions)
    chosen = body.node_filter.model_dump(exclude_none=True) if body.node_filter else None
    kept = {"design_ref": body.design_ref, "node_filter": chosen}
    accepted = start(ACTIONS[body.action], {"node_filter": chosen or EVERY_NODE}, world, kept=kept)
    answer = task_of(Standing(accepted, None, None, "Pending"), []).model_copy(update={"status": "requested", "node_filter": chosen})
    return send(answer, 201, {"Location": f"{request.script_root}/v1.0/tasks/{accepted.id}"})


@routes.get(
    "/tasks",
    responses=answers(
        200, {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Task"}}}}}
    ),
)
def list_tasks() -> Response:
    """The newest hundred, each without its nodes: GET one for what became of them."""
    world = wiring.world()
    found = recalled(world.actions.ids(limit=100), world)
    return send([task_of(each, []).model_dump(mode="json") for each in found])


@routes.get("/tasks/<task>", responses=answers(200, TASK_OR_LAYERS, 404))
def show_task(path: TaskPath, query: TaskQuery) -> Response:
    """One task with its nodes rolled up, or one node's subtask."""
    world = wiring.world()
    action, _, node = path.task.partition(".")
    found = standing(action, world)
    known = outcome_so_far(found, world)
    stopped = next((c.by for c in world.actions.commands(action) if c.verb == "stop"), None)
    outcomes = _all(known)
    if node:
        leaf = next((outcome for outcome in outcomes if outcome.subject == node), None)
        if leaf is None:
            raise ApiError(404, "Task not found", f"task {action} has no subtask for a node {node} (yet)")
        return send(subtask_of(task_of(found, [], stopped), leaf))
    task = task_of(found, outcomes, stopped)
    body = task.model_dump(mode="json")
    leaves = [subtask_of(task, outcome) for outcome in outcomes] if query.layers or query.subtaskerrors else []
    if query.layers:
        deep = leaves if query.layers != 1 else []
        body = {"init_task_id": task.task_id, task.task_id: body, **{leaf.task_id: leaf.model_dump(mode="json") for leaf in deep}}
    if query.subtaskerrors:
        body["subtask_errors"] = {leaf.task_id: leaf.result.details.model_dump(mode="json") for leaf in leaves if leaf.result.failures}
    return send(body)


@routes.post(
    "/nodefilter",
    responses=answers(200, {"content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}}, body=True),
)
def filter_nodes(body: FilterNodes) -> Response:
    """The names of the design's nodes that a filter means, sorted."""
    world = wiring.world()
    revision = revision_of(body.design_ref, world.revisions)
    cluster = world.default_cluster(revision)
    candidates = [candidate(node.name, node, None, revision.policies, cluster) for node in revision.nodes()]
    return send(select(body.node_filter, candidates))
