"""`/revisions`: what was committed, in the paths of Airship's Deckhand. The `hullmark documents` commands read it."""

from __future__ import annotations

from typing import Any, Self

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field, model_validator

from functions.api.answers import answers, send
from functions.api.configdocs import Why
from functions.api.identity import who
from shared import wiring
from shared.domain.labels.comparison import RevisionDiff
from shared.domain.labels.impact import Accepting, NodeCount, RevisionImpact
from shared.domain.labels.reach import ReleasedIn, whereabouts
from shared.domain.rollouts.on_commit import OnCommit
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import TAG, Committed, Revisions
from shared.work.commits import restore as restore_revision
from shared.work.comparison import compare
from shared.work.limits import accept, clusters_of
from shared.work.reach import reaches
from shared.work.releasing import tag

routes = APIBlueprint("revisions", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="revisions", description="Committed documents")])


class RevisionPath(BaseModel):
    """A revision's number."""

    revision: int = Field(ge=1, le=999_999)


class RestoreQuery(Why, Accepting):
    """What is kept with the new revision, and what is accepted beyond the limits (docs/limits.md)."""


class AcceptBody(BaseModel):
    """How many nodes of a cluster may be touched by a revision, whatever the limits say."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"removals": 30, "reason": "the old rack labels go"}]})
    cluster: str | None = Field(default=None, max_length=253, description="Default: every cluster that the revision declares.")
    removals: NodeCount | None = Field(default=None, description="So many nodes at most may lose labels.")
    takeovers: NodeCount | None = Field(default=None, description="On so many at most others' values may be replaced.")
    changes: NodeCount | None = Field(default=None, description="So many at most may change.")
    reason: str = Field(default="", max_length=2000, description="Why; kept with it.")

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if self.removals is None and self.takeovers is None and self.changes is None:
            raise ValueError("say what is accepted: removals, takeovers or changes, each a number of nodes")
        return self


class AcceptedBody(BaseModel):
    """A person's word. It holds while the cluster's base is `base`."""

    revision: int
    cluster: str
    base: int
    removals: int | None
    takeovers: int | None
    changes: int | None
    by: str
    at: str
    reason: str


class AcceptedList(BaseModel):
    """What was recorded, a cluster each."""

    acceptances: list[AcceptedBody]


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
    impact: RevisionImpact | None = None
    """What it would have done to the nodes when it was committed; null where nobody looked."""
    trouble: str = ""
    """Why it can't be read, where that is so; the rest is empty then."""


class RestoredBody(RevisionBody):
    """A revision that restores an earlier one, and those that were taken back with it."""

    rejected: list[int]
    rollouts: list[OnCommit] = []
    """What starts with it: Rollout documents with `start: onCommit`."""


class FileBody(BaseModel):
    """One file, as it was sent."""

    collection: str
    file: str
    text: str


class ShowQuery(BaseModel):
    """Which of its documents to show."""

    model_config = ConfigDict(extra="ignore")
    collection: str = Field(default="", max_length=100, description="Only the documents of this collection.")


class DiffPath(RevisionPath):
    """Two revisions."""

    newer: int = Field(ge=1, le=999_999)


class DiffQuery(ShowQuery):
    """What to compare."""

    cluster: str = Field(default="", max_length=253, description="Only the nodes of this cluster.")


class RevisionDetail(RevisionBody):
    """One revision with its documents."""

    texts: list[FileBody]


class RevisionsQuery(BaseModel):
    """Which revisions to list."""

    model_config = ConfigDict(extra="ignore")
    limit: int = Field(default=100, ge=1, le=1000, description="The newest so many.")
    before: int | None = Field(default=None, ge=1, le=1_000_000, description="Only those with lower numbers: the page before this one.")


class ListedRevision(RevisionBody):
    """One revision of the list: where it is released, by cluster, and in which clusters it waits to be."""

    released: dict[str, ReleasedIn]
    waits: list[str]


class RevisionList(BaseModel):
    """Revisions, oldest first, and the collections that hold something newer than the newest."""

    revisions: list[ListedRevision]
    staged: dict[str, str]


def _about(about: Committed, tags: list[str], trouble: str = "") -> dict[str, Any]:
    return about.model_dump(mode="json", exclude={"objects", "bounds", "seen", "label_keys"}) | {"tags": tags, "trouble": trouble}


def _tagged(about: Committed, revisions: Revisions) -> dict[str, Any]:
    return _about(about, revisions.tags(about.number))


@routes.get("/revisions", responses=answers(200, RevisionList, 400))
def list_revisions(query: RevisionsQuery) -> Response:
    """The newest revisions with their tags and where they are released, oldest of them first, and what is staged on top of the newest."""
    world = wiring.world()
    revisions, there = world.revisions, reaches(world)
    listed = revisions.listed(query.limit, query.before or 0)
    tags = revisions.tags_of([about.number for about, _ in listed])
    every = [
        ListedRevision.model_validate(_about(about, tags[about.number], trouble) | dict(whereabouts(about.number, there)))
        for about, trouble in listed
    ]
    try:
        staged = revisions.buffers()
    except RecordUnreadable:  # the newest one; the list says so
        staged = {}
    return send(RevisionList(revisions=every, staged=staged))


@routes.get("/revisions/<revision>", responses=answers(200, RevisionDetail, 404))
def show_revision(path: RevisionPath, query: ShowQuery) -> Response:
    """One revision: what it holds, its tags, its documents."""
    revisions = wiring.world().revisions
    about = _tagged(revisions.get(path.revision).about, revisions)
    texts = [
        FileBody(collection=collection, file=source.file, text=source.data.decode())
        for collection, sources in revisions.files(path.revision, query.collection).items()
        for source in sources
    ]
    return send(RevisionDetail.model_validate({**about, "texts": texts}))


@routes.get("/revisions/<revision>/diff/<newer>", responses=answers(200, RevisionDiff, 400, 404))
def diff(path: DiffPath, query: DiffQuery) -> Response:
    """What changes from one revision to another: which labels on how many nodes of the design and of the clusters, and the text.

    A cluster that does not answer is compared by the documents alone, and `unseen` says why.
    """
    return send(compare(path.revision, path.newer, wiring.world(), cluster=query.cluster, collection=query.collection))


@routes.post("/revisions/<revision>/restore", responses=answers(201, RestoredBody, 404))
def restore(path: RevisionPath, query: RestoreQuery) -> Response:
    """Commit a revision's collections anew, as the next revision; what is staged stays staged.

    The revisions that it replaces are tagged `rejected`: nothing releases one of them until that tag is removed.
    """
    world = wiring.world()
    given = {"message": query.message, "source": query.source}
    made = restore_revision(path.revision, world, who(), world.clock(), **given, accepting=query)
    also = {"rejected": made.rejected, "rollouts": made.rollouts}
    return send(RestoredBody.model_validate(_tagged(made.revision.about, world.revisions) | also), 201)


@routes.post("/revisions/<revision>/acceptances", responses=answers(201, AcceptedList, 404, body=True))
def accept_impact(path: RevisionPath, body: AcceptBody) -> Response:
    """Accept what a revision does beyond the limits. It holds for site actions and filters, until something else is released there."""
    world = wiring.world()
    revision = world.revisions.get(path.revision)
    clusters = [world.must_know(body.cluster, revision)] if body.cluster else clusters_of(revision, world)
    accepting = Accepting(accept_removals=body.removals, accept_takeovers=body.takeovers, accept_changes=body.changes)
    made = accept(path.revision, clusters, accepting, world, by=who(), now=world.clock(), reason=body.reason)
    return send(AcceptedList(acceptances=[AcceptedBody.model_validate(each.model_dump(mode="json")) for each in made]), 201)


@routes.post("/revisions/<revision>/tags/<tag>", responses=answers(201, RevisionBody, 404))
def set_tag(path: TagPath) -> Response:
    """Set a tag; `site-action-success` adopts a site that was deployed by other means, `rejected` keeps the revision from being released.

    Setting it again changes nothing.
    """
    world = wiring.world()
    tag(path.revision, path.tag, who(), world, world.clock())
    return send(RevisionBody.model_validate(_tagged(world.revisions.get(path.revision).about, world.revisions)), 201)


@routes.delete("/revisions/<revision>/tags/<tag>", responses=answers(200, RevisionBody, 404, 409))
def remove_tag(path: TagPath) -> Response:
    """Remove a tag that people set; without `rejected` the revision can be released again. Those of site actions stay (409)."""
    revisions = wiring.world().revisions
    revisions.untag(path.revision, path.tag)
    return send(RevisionBody.model_validate(_tagged(revisions.get(path.revision).about, revisions)))
