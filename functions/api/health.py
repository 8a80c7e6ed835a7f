"""`/health`, `/metrics`, `/openapi.json`: is it alive, how does it fare, what does it answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, current_app
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel

from functions.api.answers import answers, media, send
from functions.api.expiries import gardener_of
from functions.api.fleet import FleetOverview, look
from shared import telemetry, wiring
from shared.domain.exposition import CONTENT_TYPE, Family, Sample, exposition
from shared.ledger.revisions import Revision
from shared.world import World

routes = APIBlueprint("health", __name__, abp_tags=[Tag(name="service", description="The service itself")])


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
    fleet = look(world)
    return Response(exposition([*telemetry.metrics(), *_gauges(fleet), *_versions(fleet.revision, world)]), content_type=CONTENT_TYPE)


def _versions(revision: Revision | None, world: World) -> list[Family]:
    """What runs, and how long it may: by the documents, without asking any live fleet. Nothing where they can't be read."""
    if revision is None or not gardener_of(revision):
        return []
    from shared.domain.versions.notices import gauges
    from shared.ledger.fleets import fleets_of

    return gauges(fleets_of(world.store, revision.gardener, {}, world.open_fleet).view(), world.clock())


def _gauges(fleet: FleetOverview) -> list[Family]:
    clusters = sorted({*fleet.clusters, *(bad.cluster for bad in fleet.not_true)})
    ended = tuple(Sample(count, {"name": name, "result": result}) for (name, result), count in fleet.results.items())
    bad = tuple(Sample(sum(each.cluster == name for each in fleet.not_true), {"cluster": name}) for name in clusters)
    return [
        Family("hullmark_actions", "Ended actions among the newest, by name and result.", "gauge", ended),
        Family("hullmark_actions_open", "Actions that have not ended.", "gauge", (Sample(len(fleet.running)),)),
        Family("hullmark_nodes_not_true", "Nodes whose newest outcome is not a good one.", "gauge", bad),
        Family("hullmark_revision", "The newest committed revision.", "gauge", (Sample(fleet.newest),)),
        Family("hullmark_records_unreadable", "Records among the newest that can't be read.", "gauge", (Sample(fleet.unreadable),)),
    ]


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
