"""`/refused-requests`: messages that were refused, so that there is no action that could say why."""

from __future__ import annotations

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field

from functions.api.answers import answers, send
from shared import wiring
from shared.ledger.refusals import KEPT

routes = APIBlueprint("refusals", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="actions", description="Actions")])


class RefusalsQuery(BaseModel):
    """How many."""

    model_config = ConfigDict(extra="ignore")
    limit: int = Field(default=50, ge=1, le=KEPT, description="The newest so many.")


class RefusedRequestBody(BaseModel):
    """One message. `by` is who it says that asked: nothing verifies it. What was sent is not kept."""

    message_id: str
    at: str
    by: str
    asked: str
    reason: str
    message: str


class RefusedRequestList(BaseModel):
    """Messages that were refused, newest first; `unreadable` are the keys of records that can't be read."""

    refused: list[RefusedRequestBody]
    unreadable: list[str]


@routes.get("/refused-requests", responses=answers(200, RefusedRequestList))
def list_refused(query: RefusalsQuery) -> Response:
    """Show the newest messages on `relabel-requests` that were refused: when, who says that they asked, for what, and why not."""
    known = wiring.world().refused_requests.newest(query.limit)
    found = [RefusedRequestBody.model_validate(each.model_dump(mode="json")) for each in known.found]
    return send(RefusedRequestList(refused=found, unreadable=list(known.unreadable)))
