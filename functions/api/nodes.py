"""`/node-labels/{node}`: Promenade's call (docs/airship.md §3). It writes at once, under our field manager, and says what changed.
`/nodes`: how nodes stand to what is released to them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field, RootModel

from functions.api.answers import ApiError, Said, Status, answers, send, success
from functions.api.identity import who
from shared import wiring
from shared.domain.keys import SUBDOMAIN
from shared.domain.labels.node_states import NodesRequest, NodeStates
from shared.domain.labels.planning import NOT_ADOPTED, as_it_is
from shared.domain.labels.policies import DeclaredLabels, declare, diff
from shared.domain.labels.requested import asked_for, back_again, refusals
from shared.domain.outcomes import Changes
from shared.ledger.declared import Declared
from shared.ledger.revisions import Revision
from shared.ports import Cluster, Conflict, Node, NodeGone, Refused, Stale
from shared.work.intake import refuse_held
from shared.work.nodes import node_states
from shared.world import World

routes = APIBlueprint("nodes", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="node-labels", description="Promenade's node labels")])

REFUSED_AS = {"Invalid": 400, "BadRequest": 400, "Conflict": 409}
"""Answers of the API server that are about the request; any other refusal is a 503 with its cause."""


class NodePath(BaseModel):
    """A node's name."""

    node: str = Field(min_length=1, max_length=253, pattern=f"^{SUBDOMAIN}$")


class NodeQuery(BaseModel):
    """Which cluster."""

    model_config = ConfigDict(extra="ignore")
    cluster: str | None = Field(default=None, max_length=253, description="Default: the default cluster.")


class NodesQuery(NodeQuery):
    """Which nodes, a page at a time."""

    names: str | None = Field(default=None, max_length=8000, description="Names with commas. Default: every node.")
    out_of_sync: bool = Field(default=False, description="Only nodes that are out of sync.")
    after: str = Field(default="", max_length=253, description="Only names after this one: `next` of the page before.")
    limit: int = Field(default=500, ge=1, le=10_000, description="At most so many; a page is also bounded in bytes.")


class PutQuery(NodeQuery):
    """Which cluster, and what to do where others hold a key with another value."""

    force: bool = Field(default=True, description="Take over keys of other owners; false: answer 409 with the owners.")
    adopt: bool = Field(default=False, description="Remove labels under our field manager too that no release of this store declared.")


class Pair(BaseModel):
    """One label."""

    model_config = ConfigDict(extra="forbid")
    key: str
    value: str


class Labels(RootModel[dict[str, str] | list[Pair]]):
    """The whole set that Hullmark is to own on the node: an object, or a list of key and value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rack": "r7"}]})


class AsDeclared(BaseModel):
    """What the newest documents declare for the node, and what the next relabel would do to it."""

    revision: int | None
    differ: bool
    labels: dict[str, str]
    next_relabel: Changes


class NodeLabelsBody(Status):
    """Promenade's status body, and what changed."""

    node: str
    cluster: str
    changes: Changes
    labels: dict[str, str]
    documents: AsDeclared


class NodeBody(BaseModel):
    """A node's labels, and who holds them."""

    node: str
    cluster: str
    labels: dict[str, str]
    owned: list[str]
    owners: dict[str, list[str]]
    documents: AsDeclared


class _At:
    """Where a request is about: the newest revision, the cluster, the node as it is. Raises ApiError 404."""

    def __init__(self, name: str, cluster: str | None, world: World) -> None:
        in_force = self.in_force = world.releases.look()
        self.cluster_name = cluster or world.default_cluster(in_force.committed)
        self.cluster: Cluster = world.cluster(self.cluster_name, in_force.committed)
        self.mark = in_force.mark(self.cluster_name, name)
        self.revision: Revision | None = in_force.revision_for(self.cluster_name, name)
        self.record = Declared(self.cluster_name, in_force.state(self.cluster_name), world.releases, world.revisions)
        self.name = name
        self.node = self.read()

    def read(self) -> Node:
        """The node now."""
        node = self.cluster.node(self.name)
        if node is None:
            cause = f"cluster {self.cluster_name} has no node {self.name}"
            raise ApiError(404, "Node not found", cause, [Said(message=cause, reason="NodeNotFound")])
        return node

    def declared(self, carried: dict[str, str]) -> AsDeclared:
        """Return what the documents declare for the node, and what the next relabel would change if it carried these labels."""
        if self.revision is None:
            return AsDeclared(revision=None, differ=False, labels={}, next_relabel=Changes())
        resolved = declare(
            self.name, self.revision.node(self.name), self.node, self.revision.policies, self.cluster_name, self.cluster.owner
        )
        labels = dict(resolved.labels) if isinstance(resolved, DeclaredLabels) else {}
        following = back_again(carried, labels)
        differ = bool(following.set or following.remove)
        return AsDeclared(revision=self.revision.number, differ=differ, labels=labels, next_relabel=following)

    def kept(self, wanted: Container[str]) -> dict[str, str]:
        """What we hold beside the wanted keys and this store never declared: another Hullmark's, perhaps."""
        strange = self.record.never(self.name, (key for key in self.owned if key in self.node.labels and key not in wanted))
        return {key: self.node.labels[key] for key in sorted(strange)}

    @property
    def owned(self) -> list[str]:
        """Keys that we hold by Apply."""
        return sorted(self.node.applied.get(self.cluster.owner.name, ()))


@routes.get("/nodes", responses=answers(200, NodeStates))
def list_nodes(query: NodesQuery) -> Response:
    """Show each node's labels with who holds them, what is released to it, and why it is out of sync, as `hullmark nodes` does.

    In order of names; where there are more, `next` is what `after` has to be for the next page.
    """
    return send(node_states(NodesRequest.model_validate(query.model_dump()), wiring.world()))


@routes.get("/node-labels/<node>", responses=answers(200, NodeBody, 404))
def show_labels(path: NodePath, query: NodeQuery) -> Response:
    """Show a node's labels, their owners, and what the documents declare."""
    at = _At(path.node, query.cluster, wiring.world())
    owners = {key: list(managers) for key, managers in sorted(at.node.owners.items())}
    kept = at.kept(())
    carried = {key: at.node.labels[key] for key in at.owned if key in at.node.labels and key not in kept}
    body = NodeBody(
        node=path.node,
        cluster=at.cluster_name,
        labels=dict(at.node.labels),
        owned=at.owned,
        owners=owners,
        documents=at.declared(carried),
    )
    return send(body)


@routes.put("/node-labels/<node>", responses=answers(200, NodeLabelsBody, 404, 409, body=True))
def put_labels(path: NodePath, query: PutQuery, body: Labels) -> Response:
    """Replace the labels that Hullmark owns on the node, at once, until the next relabel restores the documents' labels.

    They are recorded as the node's release, then written: events and sweeps keep them. Where the cluster refuses them, the record is taken
    back; where it does not answer, the next sweep writes them. Labels of other owners stay unless named here, and so do those under our
    field manager that this store never declared, unless `adopt` says otherwise. A node that already matches is not written.
    """
    world = wiring.world()
    labels, problems = asked_for(body.model_dump())
    at = _At(path.node, query.cluster, world)
    problems += refusals(labels, at.revision.policies.allow_protected if at.revision else ())
    if problems:
        raise ApiError(400, "Invalid labels", "; ".join(problems), [Said(message=problem, reason="InvalidLabel") for problem in problems])
    kept = {} if query.adopt else at.kept(labels)
    difference = diff(DeclaredLabels({**kept, **labels}, {}), at.node, owner=at.cluster.owner)
    refuse_held([at.cluster_name], at.in_force, world, world.clock())
    override = _record(at, labels, world)
    try:
        after = _apply(at, {**kept, **labels}, force=query.force) if difference.write else at.node
    except ApiError as refused:
        if override and refused.status < 500:
            world.releases.drop_override(at.cluster_name, path.node, override, who(), world.clock())
        raise
    declared = at.declared(labels)
    said = success(_difference(declared), "Update node labels", 200, [*_warned(declared), *_not_adopted(kept)])
    before = as_it_is((*difference.set, *difference.remove), at.node)
    taken = {key: was for key, was in before.items() if any(manager not in at.cluster.owner for manager in was.holders)}
    changes = Changes(set=dict(difference.set), remove=list(difference.remove), from_=taken)
    answer = NodeLabelsBody(
        **dict(said), node=path.node, cluster=at.cluster_name, changes=changes, labels=dict(after.labels), documents=declared
    )
    return send(answer)


def _record(at: _At, labels: dict[str, str], world: World) -> str:
    """Keep the labels as the node's release; the override's id, or nothing where they are its release already."""
    if at.mark.override and world.releases.override_of(at.mark).labels == labels:
        return ""
    return world.releases.override(at.cluster_name, at.name, labels, who(), world.clock())


def _apply(at: _At, labels: dict[str, str], *, force: bool) -> Node:
    try:
        return at.cluster.apply_labels(at.name, at.node.uid, labels, force=force)
    except NodeGone as gone:
        at.read()  # 404 where it is gone; else another one of that name came while we wrote
        raise ApiError(409, "Conflict", f"node {at.name} was replaced while it was written: try again", retry=True) from gone
    except Conflict as conflict:
        said = [
            Said(message=f"{key} is owned by {who} with another value", reason="Conflict") for key, who in sorted(conflict.managers.items())
        ]
        raise ApiError(409, "Conflict", str(conflict), said) from conflict
    except Stale as stale:
        raise ApiError(409, "Conflict", str(stale), retry=True) from stale
    except Refused as refused:
        status = REFUSED_AS.get(refused.reason, 503)
        title = {400: "Invalid labels", 409: "Conflict"}.get(status, "Kubernetes API Error")
        raise ApiError(status, title, str(refused), [Said(message=str(refused), reason=refused.reason)]) from refused


def _difference(declared: AsDeclared) -> str:
    if not declared.differ:
        return ""
    following = declared.next_relabel
    words = [f"{key}={value}" for key, value in following.set.items()] + [f"{key}-" for key in following.remove]
    return f"differs from revision {declared.revision}: the next relabel restores {' '.join(words)}"


def _warned(declared: AsDeclared) -> list[Said]:
    return [Said(message=_difference(declared), error=False, level="Warning", reason="DiffersFromDocuments")] if declared.differ else []


def _not_adopted(kept: Mapping[str, str]) -> list[Said]:
    """Why the node keeps labels that were not asked for."""
    if not kept:
        return []
    keys = ", ".join(f"{key}={value}" for key, value in kept.items())
    why = f"{keys}: under our field manager, and no release of this store declared it: left alone; `?adopt=true` removes it"
    return [Said(message=why, error=False, level="Warning", reason=NOT_ADOPTED)]
