"""`/tasks` and `/nodefilter`: Drydock's calls. A task is an action underneath; how it is shown is in drydock.py."""

from __future__ import annotations

import re
from typing import Any

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field

from functions.api.actions import start
from functions.api.answers import ApiError, Said, answers, send
from functions.api.drydock import Task, subtask_of, task_of
from functions.api.standing import Standing, outcome_so_far, recalled, standing
from shared import wiring
from shared.domain.actions import ActionOutcome
from shared.domain.clusters import ClusterMatch
from shared.domain.labels.impact import Accepting
from shared.domain.labels.planning import Rules, subject
from shared.domain.labels.selection import NodeFilter, select
from shared.domain.names import COMMITTED, NAMED_NODES
from shared.domain.outcomes import Outcome
from shared.ledger.revisions import Revision, Revisions

routes = APIBlueprint("tasks", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="tasks", description="Drydock's tasks and node filter")])

REF = re.compile(r"(?:.*/)?revisions/([0-9]{1,6})(?:/rendered-documents)?/?")
EVERY_NODE: dict[str, Any] = {"filter_set_type": "union", "filter_set": []}
DESIGN_REF = "`committed`, `revisions/N`, or a Deckhand URL that ends in `revisions/N/rendered-documents`."


class TaskPath(BaseModel):
    """A task's id; a subtask's is the task's, a dot and the node's name."""

    task: str = Field(max_length=300)


class TaskQuery(BaseModel):
    """How deep to look."""

    model_config = ConfigDict(extra="ignore")
    layers: int = Field(default=0, ge=-1, le=10, description="0 the task alone; else Drydock's form with its subtasks, by id.")
    subtaskerrors: bool = Field(default=False, description="Add `subtask_errors`, by id.")


class CreateTask(Accepting):
    """Relabel the nodes that a filter means (none: every node), beyond the limits as far as that is accepted (docs/limits.md)."""

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
    cluster: str | None = Field(default=None, max_length=253, description="Ours: the cluster, where documents declare several.")
    clusters: str | list[str] | ClusterMatch | None = Field(default=None, description="Ours, in place of it: several, as for actions.")


class FilterNodes(BaseModel):
    """Which nodes a filter means."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"design_ref": "committed", "node_filter": None}]})
    design_ref: str = Field(max_length=2048, description=DESIGN_REF)
    node_filter: NodeFilter | None = None


TASK_OR_LAYERS = {
    "content": {
        "application/json": {"schema": {"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "object", "required": ["init_task_id"]}]}}
    }
}


def _all(known: ActionOutcome | None) -> list[Outcome]:
    if known is None:
        return []
    return sorted([*known.outcomes, *(Outcome(subject=name, outcome="unchanged") for name in known.unchanged)], key=lambda o: o.subject)


def revision_of(design_ref: str, revisions: Revisions) -> Revision:
    """The revision that a design_ref means. Raises ApiError 400."""
    named = REF.fullmatch(design_ref.strip())
    newest_number = revisions.newest()
    if not named and design_ref.strip() != COMMITTED:
        raise ApiError(400, "Invalid design_ref", f"a design_ref is {DESIGN_REF}")
    if not newest_number:
        cause = "Unable to locate a committed revision: POST /v1.0/configdocs/COLLECTION, then /v1.0/commitconfigdocs"
        raise ApiError(400, "No committed configdocs", cause, [Said(message=cause, reason="NoCommittedRevision")])
    number = int(named[1]) if named else newest_number
    if not 1 <= number <= newest_number:
        raise ApiError(400, "Invalid design_ref", f"no revision {number}; the newest is {newest_number}")
    return revisions.get(number)


@routes.post("/tasks", responses=answers(201, Task, 409, body=True))
def create_task(body: CreateTask) -> Response:
    """Start a task for the revision that design_ref means. One that is older than what is released to a node of it is refused (409)."""
    world = wiring.world()
    if body.action not in NAMED_NODES:
        cause = f"unsupported action {body.action}: there are {', '.join(NAMED_NODES)}"
        raise ApiError(400, "Unsupported action", cause, [Said(message=cause, reason="UnsupportedAction")])
    revision = revision_of(body.design_ref, world.revisions).number
    chosen = body.node_filter.model_dump(exclude_none=True) if body.node_filter else None
    kept = {"design_ref": body.design_ref, "node_filter": chosen}
    where = {"cluster": body.cluster, "clusters": body.clusters}
    accepted = start(
        body.action, {"node_filter": chosen or EVERY_NODE, "revision": revision, **where, **body.accepting()}, world, kept=kept
    )
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
    tasks = recalled(world.actions.ids(limit=100), world)
    return send([task_of(task, []).model_dump(mode="json") for task in tasks])


@routes.get("/tasks/<task>", responses=answers(200, TASK_OR_LAYERS, 404))
def show_task(path: TaskPath, query: TaskQuery) -> Response:
    """One task with its nodes rolled up, or one node's subtask."""
    world = wiring.world()
    action, _, node = path.task.partition(".")
    shown = standing(action, world)
    known = outcome_so_far(shown, world)
    stopped = next((c.by for c in world.actions.commands(action) if c.verb == "stop"), None)
    outcomes = _all(known)
    if node:
        leaf = next((outcome for outcome in outcomes if outcome.subject == node), None)
        if leaf is None:
            raise ApiError(404, "Task not found", f"task {action} has no subtask for a node {node} (yet)")
        return send(subtask_of(task_of(shown, [], stopped), leaf))
    task = task_of(shown, outcomes, stopped)
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
    rules = Rules(revision.policies, cluster, ())
    return send(select(body.node_filter, (subject(node.name, node, None, rules) for node in revision.nodes())))
