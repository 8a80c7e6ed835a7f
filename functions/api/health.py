"""`/health`, `/metrics`, `/openapi.json`: the service about itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from flask import Response, current_app
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel

from functions.api.answers import answers, media, send
from functions.api.expiries import gardener_of
from functions.api.fleet import FleetOverview, look
from functions.api.rolling import MEASURED, Unfinished, unfinished
from shared import telemetry, wiring
from shared.domain.exposition import CONTENT_TYPE, Family, Sample, exposition
from shared.domain.outcomes import STARTUP_TAINT
from shared.domain.overview import OutOfSync
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
    """Prometheus text: this instance's counters, and the state of actions and nodes."""
    world = wiring.world()
    fleet, now = look(world), world.clock()
    rolling = unfinished(world, now, MEASURED)
    unreadable = fleet.unreadable + len(rolling.unreadable)
    ours = [*_gauges(fleet, unreadable, now), *_rollouts(rolling, bool(world.pauses.paused()), now), _refused(world)]
    return Response(exposition([*telemetry.metrics(), *ours, *_versions(fleet.revision, world)]), content_type=CONTENT_TYPE)


def _refused(world: World) -> Family:
    """Messages that were refused, of the newest: instances' own counters forget them."""
    kept = tuple(Sample(count, {"reason": reason}) for reason, count in world.refused_requests.counts().items())
    return Family("hullmark_requests_refused", "Messages that were refused, among the newest 200 of them, by reason.", "gauge", kept)


def _versions(revision: Revision | None, world: World) -> list[Family]:
    """Versions in use and their days left, from the documents alone; nothing where they can't be read."""
    if revision is None or not gardener_of(revision):
        return []
    from shared.domain.versions.notices import gauges
    from shared.ledger.fleets import Fleets

    return gauges(Fleets(world.store, revision.gardener, {}, world.open_fleet).view(), world.clock())


def _gauges(fleet: FleetOverview, unreadable: int, now: datetime) -> list[Family]:
    clusters = sorted({*fleet.clusters, *fleet.sync.looked_at})
    ended = tuple(Sample(count, {"name": name, "result": result}) for (name, result), count in fleet.results.items())
    bad = tuple(Sample(fleet.sync.count(cluster=name), {"cluster": name}) for name in clusters)
    tainted = tuple(Sample(sum(_tainted(node, name) for node in fleet.sync.nodes), {"cluster": name}) for name in clusters)
    readable = [reach for reach in fleet.reaches if not reach.trouble]
    base = tuple(Sample(reach.base or 0, {"cluster": reach.cluster}) for reach in readable)
    newest = tuple(Sample(reach.newest, {"cluster": reach.cluster}) for reach in readable)
    waiting = tuple(Sample(_seconds(reach.since, now), {"cluster": reach.cluster}) for reach in readable)
    return [
        Family("hullmark_actions", "Ended actions among the newest, by name and result.", "gauge", ended),
        Family("hullmark_actions_open", "Actions that have not ended.", "gauge", (Sample(len(fleet.running)),)),
        Family("hullmark_nodes_not_true", "Nodes that their newest action left out of sync, or a blocked one would change.", "gauge", bad),
        Family("hullmark_nodes_tainted", "Nodes on which a startup taint stays that nothing takes off.", "gauge", tainted),
        Family("hullmark_revision", "The newest committed revision.", "gauge", (Sample(fleet.newest),)),
        Family("hullmark_revision_base", "The revision of every node without one of its own; 0 for none.", "gauge", base),
        Family("hullmark_revision_released", "The newest revision that is released to any node; 0 for none.", "gauge", newest),
        Family("hullmark_revision_waiting_seconds", "How long the newest revision waits to be released; 0: it does not.", "gauge", waiting),
        Family("hullmark_records_unreadable", "Records among the newest that can't be read.", "gauge", (Sample(unreadable),)),
    ]


def _tainted(node: OutOfSync, cluster: str) -> bool:
    return node.cluster == cluster and node.outcome.reason == STARTUP_TAINT


def _rollouts(rolling: Unfinished, paused: bool, now: datetime) -> list[Family]:
    found = [(status, {"rollout": status.id, "name": status.name}) for status in rolling.found]
    state = tuple(Sample(1, {**which, "phase": status.phase, "reason": status.reason}) for status, which in found)
    total = tuple(Sample(sum(stage.nodes for stage in status.stages), which) for status, which in found)
    done = tuple(Sample(sum(stage.done for stage in status.stages), which) for status, which in found)
    failed = tuple(Sample(sum(stage.failed for stage in status.stages), which) for status, which in found)
    waiting = tuple(Sample(_seconds(status.since, now), which) for status, which in found)
    return [
        Family("hullmark_paused", "Whether somebody paused the whole fleet.", "gauge", (Sample(int(paused)),)),
        Family("hullmark_rollouts_unfinished", "Rollouts that are not finished.", "gauge", (Sample(rolling.total),)),
        Family("hullmark_rollout_state", "1: the phase of an unfinished rollout, and what it waits for.", "gauge", state),
        Family("hullmark_rollout_nodes", "Nodes of an unfinished rollout.", "gauge", total),
        Family("hullmark_rollout_nodes_done", "Nodes of batches that were written, those that failed included.", "gauge", done),
        Family("hullmark_rollout_nodes_failed", "Nodes of an unfinished rollout that failed.", "gauge", failed),
        Family("hullmark_rollout_waiting_seconds", "How long an unfinished rollout has waited for the same thing.", "gauge", waiting),
    ]


def _seconds(since: datetime | None, now: datetime) -> float:
    return max(0.0, round((now - since).total_seconds())) if since else 0.0


def openapi() -> Response:
    """This document."""
    return send(current_app.api_doc)  # type: ignore[attr-defined]


ANY_JSON: dict[str, Any] = {"content": {"application/json": {"schema": {"type": "object"}}}}
SERVED: tuple[tuple[str, Callable[[], Response], type[BaseModel] | dict[str, Any]], ...] = (
    ("health", health, Health),
    ("metrics", metrics, media("text/plain")),
    ("openapi.json", openapi, ANY_JSON),
)
"""Served at the root, where platforms look, and under Airship's prefix."""
for name, function, answered in SERVED:
    routes.get(f"/{name}", responses=answers(200, answered), operation_id=function.__name__)(function)
    routes.get(f"/v1.0/{name}", responses=answers(200, answered), operation_id=f"{function.__name__}_v1")(function)
