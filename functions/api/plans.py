"""`/plans`: what a relabel would change, for the server's own documents and clusters. Nothing is written or recorded."""

from __future__ import annotations

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag

from functions.api.answers import answers, send
from shared import wiring
from shared.domain.labels.plans import LabelPlan, PlanRequest
from shared.work.plans import plan_committed

routes = APIBlueprint("plans", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="plans", description="What a relabel would change")])


@routes.post("/plans", responses=answers(200, LabelPlan, body=True))
def plan(body: PlanRequest) -> Response:
    """What a relabel of these nodes would change now, and why: the newest committed documents against the cluster itself.

    `released`: drift alone, each node against what is released to it. `waits`: the newest revision, where it is not released yet.
    `hullmark plan --server` prints this. A POST only because a filter needs a body: nothing is written or recorded.
    """
    return send(plan_committed(body, wiring.world()))
