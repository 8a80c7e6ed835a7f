"""`/health`, `/metrics`, `/openapi.json`: is it alive, how does it fare, what does it answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, current_app
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel

from functions.api.answers import answers, media, send
from functions.api.fleet import Fleet, look
from shared import telemetry, wiring
from shared.world import World

routes = APIBlueprint("health", __name__, abp_tags=[Tag(name="service", description="The service itself")])
TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format."""


class Health(BaseModel):
    """Alive, and the store answers."""

    status: str
    revision: int
    """The newest committed revision; 0 before the first."""


def health() -> Response:
    """Alive, and the store can be read (503 where it can't)."""
    return send(Health(status="ok", revision=wiring.world().revisions.newest()))


def metrics() -> Response:
    """Prometheus text: this instance's counters, and what the store says of actions and nodes."""
    world = wiring.world()
    return Response(telemetry.metrics() + "\n".join([*_gauges(look(world)), *_versions(world)]) + "\n", content_type=TEXT)


def _versions(world: World) -> list[str]:
    """What runs, and how long it may: by the documents, without asking any live fleet."""
    newest = world.revisions.newest()
    revision = world.revisions.get(newest) if newest else None
    if revision is None or not revision.gardener:
        return []
    from shared.domain.versions.notices import gauges
    from shared.ledger.fleets import fleets_of

    return list(gauges(fleets_of(world.store, revision.gardener, {}, world.open_fleet).view(), world.clock()))


def _gauges(fleet: Fleet) -> list[str]:
    clusters = sorted({*fleet.clusters, *(bad.cluster for bad in fleet.not_true)})
    lines = ["# HELP hullmark_actions Ended actions among the newest, by name and result.", "# TYPE hullmark_actions gauge"]
    lines += [f'hullmark_actions{{name="{name}",result="{result}"}} {count}' for (name, result), count in fleet.results.items()]
    lines += ["# HELP hullmark_actions_open Actions that have not ended.", "# TYPE hullmark_actions_open gauge"]
    lines += [f"hullmark_actions_open {len(fleet.running)}"]
    lines += ["# HELP hullmark_nodes_not_true Nodes whose newest outcome is not a good one.", "# TYPE hullmark_nodes_not_true gauge"]
    lines += [f'hullmark_nodes_not_true{{cluster="{c}"}} {sum(bad.cluster == c for bad in fleet.not_true)}' for c in clusters]
    lines += ["# HELP hullmark_revision The newest committed revision.", "# TYPE hullmark_revision gauge"]
    return [*lines, f"hullmark_revision {fleet.revision.number if fleet.revision else 0}"]


def openapi() -> Response:
    """This document."""
    return send(current_app.api_doc)  # type: ignore[attr-defined]


ANY_JSON: dict[str, Any] = {"content": {"application/json": {"schema": {"type": "object"}}}}
SERVED: tuple[tuple[str, Callable[[], Response], type[BaseModel] | dict[str, Any]], ...] = (
    ("health", health, Health),
    ("metrics", metrics, media("text/plain")),
    ("openapi.json", openapi, ANY_JSON),
)
"""At the root, where platforms look, and under Airship's prefix."""
for name, function, answered in SERVED:
    routes.get(f"/{name}", responses=answers(200, answered), operation_id=function.__name__)(function)
    routes.get(f"/v1.0/{name}", responses=answers(200, answered), operation_id=f"{function.__name__}_v1")(function)
