"""`/rollouts`: start one, see where it stands, give it a word. What it does by itself is the function `rollout`'s."""

from __future__ import annotations

from typing import Literal

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field

from functions.api.answers import ApiError, answers, send
from functions.api.identity import who
from functions.api.rolling import detailed
from shared import wiring
from shared.domain.labels.impact import Accepting
from shared.work.rollouts import CONTROLS, RolloutList, RolloutStatus, control, listed, shown, start

routes = APIBlueprint("rollouts", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="rollouts", description="Changes in stages")])


class RolloutPath(BaseModel):
    """A rollout's id."""

    rollout: str = Field(max_length=64)


class RolloutControlPath(RolloutPath):
    """A word for it."""

    verb: str = Field(max_length=32)


class RolloutListQuery(BaseModel):
    """How many to list."""

    model_config = ConfigDict(extra="ignore")
    limit: int = Field(default=20, ge=1, le=200, description="How many.")


class StartRollout(Accepting):
    """Which Rollout document of the newest revision to follow, and what is accepted beyond the limits (docs/limits.md)."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "careful"}]})
    name: str = Field(default="", max_length=253, description="Of the document; may be left out where there is one.")
    supersede: bool = Field(default=False, strict=True, description="Take the place of a rollout that is not finished.")


class Word(Accepting):
    """`stage`, `impact`: for `approve`, the stage that is meant and the digest of the impact that was shown; `reason`: why, for `pause`;
    `accept_…`: for `retry` (docs/limits.md).
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"stage": "canary", "impact": "2f1c0a9b8d7e6f50"}]})
    stage: str = Field(default="", max_length=63, description="For `approve`: the stage that it waits at.")
    impact: str = Field(default="", max_length=64, description="For `approve`: `impact.digest` of the rollout, as it was shown.")
    reason: str = Field(default="", max_length=2000, description="Why; required by `pause`.")


@routes.post("/rollouts", responses=answers(201, RolloutStatus, 409, body=True))
def start_rollout(body: StartRollout) -> Response:
    """Start a rollout of the newest revision. 201 means that it is recorded and begins; nothing has been written to a node yet."""
    world, now = wiring.world(), wiring.world().clock()
    progress = start(body.name, who(), world, now, body, supersede=body.supersede)
    return send(shown(progress, world, now), 201, {"Location": f"{request.script_root}/v1.0/rollouts/{progress.id}"})


@routes.get("/rollouts", responses=answers(200, RolloutList))
def list_rollouts(query: RolloutListQuery) -> Response:
    """List the newest rollouts, oldest first."""
    world = wiring.world()
    return send(RolloutList(rollouts=listed(world, world.clock(), query.limit)))


@routes.get("/rollouts/<rollout>", responses=answers(200, RolloutStatus, 404))
def show_rollout(path: RolloutPath) -> Response:
    """Show where a rollout stands: what each stage waits for, since when, until when or for whom, and why nodes failed."""
    world = wiring.world()
    return send(detailed(world.rollouts.get(path.rollout), world, world.clock()))


@routes.post("/rollouts/<rollout>/control/<verb>", responses=answers(202, RolloutStatus, 404, 409, body=True))
def control_rollout(path: RolloutControlPath, body: Word) -> Response:
    """Approve, pause, resume, abort, revert or retry. Once a pause is answered nothing more opens."""
    world, now = wiring.world(), wiring.world().clock()
    verb: Literal["approve", "pause", "resume", "abort", "revert", "retry"] | None
    verb = next((known for known in CONTROLS if known == path.verb), None)
    if verb is None:
        raise ApiError(404, "Control not supported", f"there is no control {path.verb}: {', '.join(CONTROLS)}")
    changed = control(path.rollout, verb, who(), world, now, stage=body.stage, impact=body.impact, message=body.reason, accept=body)
    return send(shown(changed, world, now), 202)
