"""`/pause`, `/freezes` and `/versions/deferrals`: what holds changes back in the whole fleet, or in some clusters for a time."""

from __future__ import annotations

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field

from functions.api.answers import ApiError, answers, send
from functions.api.identity import who
from functions.api.versions import FleetClusterPath, Time
from shared import wiring
from shared.work import deferrals as work
from shared.work.deferrals import DeferralEntry, DeferralList
from shared.work.holds import FreezeList, PauseStatus, freezes, pause, resume, status

routes = APIBlueprint("holds", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="holds", description="Pauses and freezes")])


class SetPause(BaseModel):
    """Pause the fleet, or let it go on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "network maintenance"}, {"paused": False}]})
    paused: bool = Field(default=True, strict=True, description="false lets everything go on.")
    reason: str = Field(default="", max_length=2000, description="Why; required to pause.")


@routes.get("/pause", responses=answers(200, PauseStatus))
def show_pause() -> Response:
    """Whether the fleet is paused, by whom and why."""
    return send(status(wiring.world()))


@routes.put("/pause", responses=answers(200, PauseStatus, 409, body=True))
def set_pause(body: SetPause) -> Response:
    """Hold every write to nodes and every update of versions, repairs too, or let them go on.

    The answer counts the parts that are still being written: nothing begins after it. A person's revert of a rollout passes.
    """
    world = wiring.world()
    if not body.paused:
        return send(resume(who(), world, world.clock()))
    if not body.reason.strip():
        raise ApiError(400, "Invalid parameters", "say why: `reason`")
    return send(pause(body.reason.strip(), who(), world, world.clock()))


class Defer(BaseModel):
    """Put the updates of a cluster off."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"until": "2026-12-01T06:00:00Z", "reason": "quarter-end"}]})
    until: Time = Field(description="When that ends: in the future, within 90 days.")
    reason: str = Field(min_length=1, max_length=2000, description="Why; everybody who looks at the cluster sees it.")


@routes.get("/versions/deferrals", responses=answers(200, DeferralList))
def list_deferrals() -> Response:
    """The clusters whose updates are put off."""
    world = wiring.world()
    return send(work.deferrals(world, world.clock()))


@routes.put("/versions/deferrals/<path:cluster>", responses=answers(200, DeferralEntry, 404, 409, body=True))
def defer(path: FleetClusterPath, body: Defer) -> Response:
    """Put the updates of a cluster off. `limits` names what expires before that ends, and goes in its last window before."""
    world = wiring.world()
    return send(work.defer(path.cluster, body.until, body.reason, who(), world, world.clock()))


@routes.delete("/versions/deferrals/<path:cluster>", responses=answers(200, DeferralEntry, 404, 409))
def cancel_deferral(path: FleetClusterPath) -> Response:
    """Let the updates of a cluster go on that were put off."""
    world = wiring.world()
    return send(work.cancel(path.cluster, who(), world, world.clock()))


@routes.get("/freezes", responses=answers(200, FreezeList))
def list_freezes() -> Response:
    """The Freeze documents that count and have not ended."""
    world = wiring.world()
    return send(freezes(world, world.clock()))
