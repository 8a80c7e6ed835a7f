"""`/revisions`: what was committed, in the paths of Airship's Deckhand. The `hullmark documents` commands read it."""

from __future__ import annotations

from typing import Any

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, Field

from functions.api.answers import answers, send
from functions.api.configdocs import Why
from functions.api.identity import who
from shared import wiring
from shared.ledger.revisions import TAG, Committed, Revisions

routes = APIBlueprint("revisions", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="revisions", description="Committed documents")])


class RevisionPath(BaseModel):
    """A revision's number."""

    revision: int = Field(ge=1, le=999_999)


class TagPath(RevisionPath):
    """A tag of a revision."""

    tag: str = Field(pattern=TAG)


class CollectionBody(BaseModel):
    """A collection inside a revision. `staged` is the key of its contents in the store."""

    files: list[str]
    digest: str
    staged: str


class RevisionBody(BaseModel):
    """One committed revision."""

    number: int
    by: str
    at: str
    digest: str
    documents: int
    nodes: int
    collections: dict[str, CollectionBody]
    tags: list[str]
    message: str
    source: str
    trouble: str = ""
    """Why it can't be read, where that is so; the rest is empty then."""


class FileBody(BaseModel):
    """One file, as it was sent."""

    file: str
    text: str


class RevisionDetail(RevisionBody):
    """One revision with its documents."""

    texts: list[FileBody]


class RevisionList(BaseModel):
    """Every revision, and the collections that hold something newer."""

    revisions: list[RevisionBody]
    staged: dict[str, str]


def _about(about: Committed, revisions: Revisions, trouble: str = "") -> dict[str, Any]:
    kept = about.model_dump(mode="json", exclude={"objects", "bounds", "seen"})
    return kept | {"tags": revisions.tags(about.number), "trouble": trouble}


@routes.get("/revisions", responses=answers(200, RevisionList))
def list_revisions() -> Response:
    """Every revision with its tags, and what is staged on top of the newest."""
    revisions = wiring.world().revisions
    every = [RevisionBody.model_validate(_about(about, revisions, trouble)) for about, trouble in revisions.listed()]
    staged = {} if every and every[-1].trouble else revisions.buffers()
    return send(RevisionList(revisions=every, staged=staged))


@routes.get("/revisions/<revision>", responses=answers(200, RevisionDetail, 404))
def show_revision(path: RevisionPath) -> Response:
    """One revision: what it holds, its tags, its documents."""
    revisions = wiring.world().revisions
    about = _about(revisions.get(path.revision).about, revisions)
    texts = [FileBody(file=source.file, text=source.data.decode()) for source in revisions.sources(path.revision)]
    return send(RevisionDetail.model_validate({**about, "texts": texts}))


@routes.post("/revisions/<revision>/restore", responses=answers(201, RevisionBody, 404))
def restore(path: RevisionPath, query: Why) -> Response:
    """Commit a revision's collections anew, as the next revision; what is staged stays staged."""
    world = wiring.world()
    revision, _ = world.revisions.restore(path.revision, who(), world.clock(), message=query.message, source=query.source)
    return send(RevisionBody.model_validate(_about(revision.about, world.revisions)), 201)


@routes.post("/revisions/<revision>/tags/<tag>", responses=answers(201, RevisionBody, 404))
def set_tag(path: TagPath) -> Response:
    """Set a tag; `site-action-success` adopts a site that was deployed by other means. Setting it again changes nothing."""
    world = wiring.world()
    world.revisions.tag(path.revision, path.tag, who(), world.clock())
    return send(RevisionBody.model_validate(_about(world.revisions.get(path.revision).about, world.revisions)), 201)
