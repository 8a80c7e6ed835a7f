"""`/configdocs` and `/commitconfigdocs`: documents are staged by collection, then committed as the next revision."""

from __future__ import annotations

import itertools
import posixpath
from typing import Literal

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field

from functions.api.answers import ApiError, Said, Status, answers, media, said_of, send, success
from functions.api.identity import who
from shared import wiring
from shared.domain.documents.reading import DocumentsRefused, Source, as_stream, kept_name
from shared.domain.labels.impact import Accepting, RevisionImpact
from shared.domain.rollouts.on_commit import OnCommit
from shared.ledger.revisions import COLLECTION, Revisions, Staged, sources_of
from shared.work.commits import commit as commit_staged
from shared.work.commits import would_commit

routes = APIBlueprint("configdocs", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="configdocs", description="Shipyard's documents")])

YAML_TYPES = (
    "application/x-yaml",
    "application/yaml",
    "text/yaml",
    "text/x-yaml",
    "text/plain",
    "application/json",
    "application/octet-stream",
    "application/x-www-form-urlencoded",  # what `curl --data-binary` says of everything
)
"""Content types whose body is taken as one file of YAML (or of JSON, which is YAML)."""
ONE_FILE = {"schema": {"type": "string"}}
SEVERAL_FILES = {
    "schema": {
        "type": "object",
        "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
        "required": ["files"],
    }
}
DOCUMENTS = {"required": True, "content": {**dict.fromkeys(YAML_TYPES, ONE_FILE), "multipart/form-data": SEVERAL_FILES}}


class CollectionPath(BaseModel):
    """A collection's name."""

    collection: str = Field(pattern=COLLECTION)


class StageQuery(BaseModel):
    """What to do with what the buffer holds already."""

    model_config = ConfigDict(extra="ignore")
    buffermode: Literal["replace", "append", "rejectoncontents"] = "replace"


class ReadQuery(BaseModel):
    """Which version to read."""

    model_config = ConfigDict(extra="ignore")
    version: Literal["buffer", "committed"] = "buffer"


class Why(BaseModel):
    """What is kept with a revision."""

    model_config = ConfigDict(extra="ignore")
    message: str = Field(default="", max_length=2000, description="The reason for the change.")
    source: str = Field(default="", max_length=2000, description="Where the documents come from: a git commit, a URL.")


class CommitQuery(Why, Accepting):
    """Whether to commit at all, and what is accepted beyond the limits (docs/limits.md)."""

    dryrun: bool = Field(default=False, description="Validate, commit nothing.")


class StagedBody(Status):
    """Shipyard's answer, and what was staged."""

    collection: str
    files: list[str]
    digest: str


class CommittedBody(Status):
    """Shipyard's answer, the revision (null for a dry run), and what it does to the nodes once a site action brings it."""

    revision: int | None
    impact: RevisionImpact | None = None
    rollouts: list[OnCommit] = Field(default_factory=list)
    """What starts with it (of a dry run: would start): Rollout documents with `start: onCommit`."""


class CollectionStatus(BaseModel):
    """One collection: committed or not, and what the buffer does to it."""

    collection_name: str
    base_version: Literal["committed"] = "committed"
    base_status: Literal["present", "not present"]
    new_version: Literal["buffer"] = "buffer"
    new_status: Literal["unmodified", "modified", "created", "deleted"]
    files: list[str]


@routes.post(
    "/configdocs/<collection>", responses=answers(201, StagedBody, 404, 409, body=True), openapi_extensions={"requestBody": DOCUMENTS}
)
def stage(path: CollectionPath, query: StageQuery) -> Response:
    """Put documents into a collection's buffer: YAML as the body, or several files as multipart/form-data.

    A file is known by the path that it came with (`./a.yaml` is `a.yaml`), so that revisions can be compared; two can't share one.
    Syntax is judged here, everything else when they are committed.
    """
    world = wiring.world()
    sources = _sent(path.collection)
    kept = _buffered(world.revisions, path.collection) if query.buffermode != "replace" else None
    if kept and query.buffermode == "rejectoncontents":
        cause = f"the buffer of {path.collection} holds {', '.join(name for name, _ in kept.files)}: commit it, or use buffermode=replace"
        raise ApiError(409, "Buffer is not empty", cause)
    if kept:
        sources = _appended(sources_of([kept]), sources)
    _must_be_yaml(sources)
    staged = world.revisions.stage(path.collection, sources, who(), world.clock())
    said = success(
        f"{len(staged.files)} file(s) staged in collection {path.collection}", "Staged; to be committed with commitconfigdocs", 201
    )
    body = StagedBody(**dict(said), collection=path.collection, files=[name for name, _ in staged.files], digest=staged.digest)
    return send(body, 201, {"Location": f"{request.script_root}/v1.0/configdocs/{path.collection}"})


def _appended(buffered: list[Source], sent: list[Source]) -> list[Source]:
    """What a buffer holds, and what is added to it; a name that is taken already gets a number."""
    every = {source.file: source for source in buffered}
    for source in sent:
        stem, ending = posixpath.splitext(source.file)
        numbered = (f"{stem}-{number}{ending}" for number in itertools.count(2))
        name = next(name for name in itertools.chain([source.file], numbered) if name not in every)
        every[name] = Source(name, source.data)
    return list(every.values())


def _sent(collection: str) -> list[Source]:
    """The files of the body. Raises ApiError 400 and 415."""
    if request.mimetype == "multipart/form-data":
        sources = [Source(kept_name(part.filename or f"{collection}.yaml"), part.stream.read()) for part in request.files.getlist("files")]
    elif not request.mimetype or request.mimetype in YAML_TYPES:
        sources = [Source(f"{collection}.yaml", request.get_data())]
    else:
        cause = f"the body is {request.mimetype}: send YAML as application/x-yaml, or files as multipart/form-data"
        raise ApiError(415, "Unsupported Media Type", cause)
    if not any(source.data.strip() for source in sources):
        raise ApiError(400, "Validation failed", "there are no documents in the body (of a multipart body, the field is `files`)")
    return sources


def _must_be_yaml(sources: list[Source]) -> None:
    from shared.domain.documents.reading import read

    documents, problems = read(sources)
    if problems:
        raise DocumentsRefused(problems)
    if not documents:
        raise ApiError(400, "Validation failed", "there are no documents in the body")


def _buffered(revisions: Revisions, collection: str) -> Staged | None:
    key = revisions.buffers().get(collection)
    return revisions.staged(key) if key else None


@routes.delete("/configdocs/<collection>", responses=answers(200, StagedBody, 404))
def remove(path: CollectionPath) -> Response:
    """Stage a collection's removal, in place of what its buffer held; the next commit takes it away."""
    world = wiring.world()
    staged = world.revisions.remove(path.collection, who(), world.clock())
    said = success(f"the removal of collection {path.collection} is staged", "Staged; to be committed with commitconfigdocs", 200)
    return send(StagedBody(**dict(said), collection=path.collection, files=[], digest=staged.digest))


@routes.get(
    "/configdocs",
    responses=answers(
        200,
        {"content": {"application/json": {"schema": {"type": "array", "items": CollectionStatus.model_json_schema(mode="serialization")}}}},
    ),
)
def status() -> Response:
    """Every collection: what is committed, and what the buffer would change."""
    revisions = wiring.world().revisions
    newest = revisions.newest()
    committed = revisions.get(newest).about.collections if newest else {}
    buffers = revisions.buffers()
    listed = []
    for name in sorted({*committed, *buffers}):
        staged = revisions.staged(buffers[name]) if name in buffers else None
        files = [file for file, _ in staged.files] if staged else committed[name].files
        new = "unmodified" if not staged or (name in committed and staged.digest == committed[name].digest) else "modified"
        listed.append(
            CollectionStatus(
                collection_name=name,
                base_status="present" if name in committed else "not present",
                new_status="created" if name not in committed else "deleted" if staged and staged.removed else new,
                files=files,
            ).model_dump()
        )
    return send(listed)


@routes.get("/configdocs/<collection>", responses=answers(200, media("application/x-yaml"), 404))
def read_collection(path: CollectionPath, query: ReadQuery) -> Response:
    """The documents of a collection, as they were sent: what the buffer holds (else what is committed), or what is committed."""
    revisions = wiring.world().revisions
    newest = revisions.newest()
    committed = revisions.get(newest).about.collections.get(path.collection) if newest else None
    staged = _buffered(revisions, path.collection) if query.version == "buffer" else None
    if staged and staged.removed:
        raise ApiError(
            404, "Configdocs not found", f"the removal of collection {path.collection} is staged (read it with version=committed)"
        )
    if staged is None and committed:
        staged = revisions.staged(committed.staged)
    if staged is None:
        raise ApiError(404, "Configdocs not found", f"collection {path.collection} holds nothing ({query.version})")
    return Response(as_stream(sources_of([staged])), mimetype="application/x-yaml")


@routes.post("/commitconfigdocs", responses=answers(200, CommittedBody, 409))
def commit(query: CommitQuery) -> Response:
    """Validate the buffers together with what is committed, and make the next revision of them. All problems come in one answer (400)."""
    world = wiring.world()
    impact: RevisionImpact | None
    if query.dryrun:
        would = would_commit(world, world.clock(), query)
        number, warnings, impact, rollouts = None, would.warnings, would.impact, would.rollouts
    else:
        made = commit_staged(world, who(), world.clock(), message=query.message, source=query.source, accepting=query)
        number, warnings, impact, rollouts = made.revision.number, made.warnings, made.revision.about.impact, made.rollouts
    message = f"revision {number} committed" if number else "valid; nothing committed (dryrun)"
    listed = [*(said_of(warning, error=False) for warning in warnings), *_beyond(impact)]
    return send(CommittedBody(**dict(success(message, "Validation", 200, listed)), revision=number, impact=impact, rollouts=rollouts))


def _beyond(impact: RevisionImpact | None) -> list[Said]:
    """What goes beyond the limits, as warnings: a commit is not refused for it, a site action is."""
    beyond = impact.beyond.values() if impact else ()
    return [Said(message=each.message, error=False, level="Warning", reason=each.reason) for each in beyond]
