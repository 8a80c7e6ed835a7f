"""`/actions`: Shipyard's calls, and a few of ours. Requests are read and started here; how an action is shown is in shipyard.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ulid import ULID

from functions.api.answers import ApiError, Said, answers, invalid, send
from functions.api.identity import who
from functions.api.shipyard import Action, ActionDetail, OutcomeBody, StepDetail, action_body, outcome_body, step_detail
from functions.api.standing import Standing, outcome_so_far, recalled, remembered, standing
from shared import wiring
from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.labels.impact import Accepting
from shared.domain.names import OVER_HTTP
from shared.messages import RelabelRequest
from shared.ports import BusError
from shared.work.control import control, retried
from shared.work.intake import accept
from shared.world import World

routes = APIBlueprint("actions", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="actions", description="Shipyard's actions")])

IGNORED = ("continue-on-fail",)
"""Parameters that Shipyard's clients may send and that mean nothing here."""


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
    limit: int = Field(default=100, ge=1, le=1000, description="How many.")


class RetryQuery(Accepting):
    """What a retry accepts (docs/limits.md)."""

    model_config = ConfigDict(extra="ignore")


class StepQuery(BaseModel):
    """How much to tell."""

    verbosity: int = Field(default=1, ge=0, le=5, description="0 no notes; 1: every node but the unchanged; 2 and more: all nodes.")


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
        default=None,
        description="`target_nodes` (a list or a comma string) or `node_filter`; `cluster`, or `clusters` for an action on each "
        "of them (names, `*` for all, or `{names, matchLabels}`); `dry_run`; `adopt` (docs/labels.md); "
        "`supersede`: take the place of a rollout that is not finished (docs/rollouts.md); "
        "`plan`: what `POST /v1.0/plans` answered, in place of nodes: that is changed and nothing else; "
        "`accept_removals`, `accept_takeovers`, `accept_changes`: a number of nodes.",
    )


# --- starting one


def start(name: str, given: Mapping[str, Any], world: World, *, kept: Mapping[str, Any] | None = None) -> ActionRequest:
    """Check a request as it came in, then `begin` it. Raises ApiError too.

    `given`: target_nodes, node_filter, cluster, clusters, dry_run. `kept` is what the action answers as its parameters (else `given`).
    """
    try:
        asked = RelabelRequest.model_validate({**given, "name": name, "requested_by": who()})
    except ValidationError as error:
        raise invalid("Invalid target_nodes parameter" if _about_nodes(error) else "Invalid parameters", error) from error
    return begin(asked, world, dict(given) if kept is None else kept)


def begin(asked: RelabelRequest, world: World, parameters: Mapping[str, Any]) -> ActionRequest:
    """Record and publish a request. Raises Rejected and what the store, the cluster and the bus raise.

    Where the bus does not confirm, the action ends at once as failed: asking again makes a new one, and nothing runs twice.
    """
    now = world.clock()
    marker = request.headers.get("X-Context-Marker", "")[:64]
    accepted = accept(asked, asked.action or str(ULID()), world, now, parameters=parameters, context_marker=marker)
    try:
        world.bus.publish(RelabelRequest.TOPIC, [RelabelRequest.again(accepted).outgoing()])
    except BusError as error:
        message = f"the request could not be published: {error}"
        ended = ActionOutcome(result="failure", finished_at=now, revision=accepted.revision, reason="BusError", message=message)
        world.actions.end(accepted.id, ended)
        raise
    return accepted


def _about_nodes(error: ValidationError) -> bool:
    return any(flaw["loc"][:1] in ((), ("target_nodes",), ("node_filter",)) for flaw in error.errors())


PARAMETERS = ("target_nodes", "node_filter", "cluster", "clusters", "dry_run", "adopt", "supersede", "plan", *Accepting.model_fields)


def _given(body: CreateAction) -> dict[str, Any]:
    """The parameters that mean something. Raises ApiError for an unsupported action and for parameters nobody knows."""
    if body.name not in OVER_HTTP:
        cause = f"Unsupported Action: {body.name}; choose one of {', '.join(OVER_HTTP)}"
        raise ApiError(400, "Unable to start action", cause, [Said(message=cause, reason="UnsupportedAction")])
    given = {key: value for key, value in (body.parameters or {}).items() if key not in IGNORED}
    unknown = sorted(set(given) - set(PARAMETERS))
    if unknown:
        said = [Said(message=f"unknown parameter {name}: there are {', '.join(PARAMETERS)}", reason="UnknownParameter") for name in unknown]
        raise ApiError(400, "Invalid parameters", "; ".join(problem.message for problem in said), said)
    return given


def _kept(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters as the action shows them: of a plan, which has every node, what it was made for."""
    plan = parameters.get("plan")
    if not isinstance(plan, dict) or not isinstance(nodes := plan.get("nodes"), dict):
        return parameters
    return {**parameters, "plan": {"revision": plan.get("revision"), "cluster": plan.get("cluster"), "nodes": len(nodes)}}


# --- the routes


@routes.post("/actions", responses=answers(201, Action, body=True))
def create_action(query: CreateQuery, body: CreateAction) -> Response:
    """Start an action: bring nodes in sync with the newest committed documents.

    Refused (400) without nodes, with unknown ones (each is named), for another action, without committed documents, and, for
    named nodes, while no revision has taken part in a site action. Where several clusters could be meant, say which. 201 means that it is
    recorded and will run.
    """
    world = wiring.world()
    accepted = start(body.name, _given(body), world, kept=_kept(body.parameters or {}))
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
    """List the newest actions, oldest first."""
    world = wiring.world()
    actions = recalled(world.actions.ids(limit=query.limit), world)
    return send([action_body(listed).model_dump(mode="json") for listed in actions])


@routes.get("/actions/<action>", responses=answers(200, ActionDetail, 404))
def show_action(path: ActionPath) -> Response:
    """Show an action: its state, steps, nodes that need attention, and the controls it was given."""
    world = wiring.world()
    shown = remembered(path.action, world) or standing(path.action, world)
    return send(action_body(shown, detail=True, world=world))


@routes.get("/actions/<action>/outcome", responses=answers(200, OutcomeBody, 404))
def show_outcome(path: ActionPath) -> Response:
    """Show the outcome of every node; while it runs, of those that are done."""
    world = wiring.world()
    shown = standing(path.action, world)
    return send(outcome_body(shown, outcome_so_far(shown, world)))


@routes.get("/actions/<action>/steps/<step>", responses=answers(200, StepDetail, 404))
def show_step(path: StepPath, query: StepQuery) -> Response:
    """Show a step: `plan`, `relabel_nodes` (the outcome of every node, and why) or `rollup`."""
    world = wiring.world()
    shown = standing(path.action, world)
    step = step_detail(shown, outcome_so_far(shown, world), path.step, query.verbosity)
    if step is None:
        cause = f"action {path.action} has no step {path.step}: there are plan, {shown.middle}, rollup"
        raise ApiError(404, "Step not found", cause)
    return send(step)


@routes.post("/actions/<action>/control/<verb>", responses=answers(202, ActionDetail, 404, 409))
def control_action(path: ControlPath, query: RetryQuery) -> Response:
    """Stop, pause, unpause; `retry` starts a new action on the nodes that failed (all, where it was blocked): its id and Location.

    `retry` accepts what goes beyond the limits as POST /actions does.
    """
    world = wiring.world()
    if path.verb not in ("stop", "pause", "unpause", "retry"):
        raise ApiError(404, "Control not supported", f"there is no control {path.verb}: stop, pause, unpause, retry")
    if path.verb == "retry":
        again = begin(retried(path.action, who(), world, query), world, {})
        started = standing(again.id, world)
        return send(action_body(started, detail=True, world=world), 202, {"Location": located(again.id)})
    control(path.action, path.verb, who(), world, world.clock())
    return send(action_body(standing(path.action, world), detail=True, world=world), 202)
