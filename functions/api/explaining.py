"""`/explain/{node}` and `/node-labels/{node}/history`: why a node has its labels, and what happened to it."""

from __future__ import annotations

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from functions.api.answers import answers, send
from functions.api.nodes import NodePath, NodeQuery
from shared import wiring
from shared.domain.labels.explanations import NodeExplanation, NodeHistory
from shared.work.explaining import LOOK_BACK, MOST, explain, history

routes = APIBlueprint("explaining", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="explain", description="Why a node has its labels")])


class HistoryQuery(NodeQuery):
    """Which cluster, and how far to look back."""

    look_back: int = Field(
        default=LOOK_BACK, ge=1, le=MOST, description="So many releases of the cluster, and so many actions, the newest."
    )


class ExplainQuery(HistoryQuery):
    """Which label, too."""

    key: str = Field(default="", max_length=317, description="Default: every label of the node.")


@routes.get("/explain/<node>", responses=answers(200, NodeExplanation))
def explain_node(path: NodePath, query: ExplainQuery) -> Response:
    """Each label of a node: value, holders, document with file and line, revision, and the action that wrote it over what."""
    return send(explain(path.node, query.key, query.cluster, wiring.world(), query.look_back)[0])


@routes.get("/node-labels/<node>/history", responses=answers(200, NodeHistory))
def node_history(path: NodePath, query: HistoryQuery) -> Response:
    """What was released to a node and what actions did to it, newest first. A node that is gone has a past all the same."""
    return send(history(path.node, query.cluster, wiring.world(), query.look_back))
