"""What happened to a node, read from Knative's ApiServerSource, a GKE audit log entry, or our own forwarder.

An event is a hint, not the truth: it may be late, repeated, lost, or say less than the node does. It carries as much of the node as it
has, so that most events need no read; what it does not say is None, and then the node is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from shared.domain.keys import node_name
from shared.domain.nodes import Node, NodeObject, Taint

Kind: TypeAlias = Literal["added", "changed", "deleted"]

KNATIVE = "dev.knative.apiserver."
"""How the types of an ApiServerSource's CloudEvents begin."""
_VERBS: dict[str, Kind] = {"add": "added", "update": "changed", "delete": "deleted"}
_AUDIT = "io.k8s.core.v1.nodes."
_AUDIT_KINDS: dict[str, Kind] = {"create": "added", "update": "changed", "patch": "changed", "delete": "deleted"}


class GkeName(BaseModel):
    """A GKE cluster as its audit log names it, and as `access.gke` of a Cluster document does."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    project: str
    location: str
    name: str


class NodeChange(BaseModel):
    """One node that was added (or re-created), changed or deleted. `uid`, `resource_version`: empty where the event has none.

    `cluster` is empty for the default cluster, and where `gke` says which one it is.
    `labels` is None where the event does not carry the whole set. `owners` and `applied` are those of `shared.domain.nodes.Node`, None
    where the event has no managedFields. `manager` is who did it, as far as the event tells: for people, never for deciding.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    cluster: str = ""
    gke: GkeName | None = None
    name: Annotated[str, AfterValidator(node_name)]
    kind: Kind = "changed"
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    owners: dict[str, list[str]] | None = None
    applied: dict[str, list[str]] | None = None
    manager: str | None = None
    created: str = ""
    taints: list[Taint] | None = None
    may_have_taints: bool = True
    taints_applied_by: list[str] = []

    def node(self) -> Node | None:
        """The node as the event shows it; None where it shows too little to plan with, and the node has to be read."""
        if not self.uid or self.labels is None or self.owners is None or self.applied is None or self.kind == "deleted":
            return None
        return Node(
            name=self.name,
            uid=self.uid,
            labels=self.labels,
            resource_version=self.resource_version,
            owners={key: tuple(managers) for key, managers in self.owners.items()},
            applied={manager: frozenset(keys) for manager, keys in self.applied.items()},
            created=self.created,
            taints=None if self.taints is None else tuple(self.taints),
            may_have_taints=self.may_have_taints,
            taints_applied_by=tuple(self.taints_applied_by),
        )


@dataclass(frozen=True, slots=True)
class Ignored:
    """A valid event that does not concern us: a code to count by, and the reason in words."""

    code: Literal["NoChange", "NotANode", "NotTheNodeItself", "MetadataUntouched", "CallFailed", "ClusterUnknown"]
    reason: str


class UnreadableEvent(Exception):
    """Neither a CloudEvent of an ApiServerSource nor an audit LogEntry nor a NodeChanged. The text says what is missing."""


def read_event(data: bytes, attributes: Mapping[str, str]) -> NodeChange | Ignored:
    """Read one message of topic `node-events`. Raises UnreadableEvent.

    Knative's events arrive in the structured form (the CloudEvent is the body) or the binary one (`ce-` attributes). Which cluster they
    speak of, the source's `ceOverrides.extensions.cluster` says, or the attribute `cluster`; empty: the default cluster.
    """
    try:
        return _read(data, attributes)
    except RecursionError as error:
        raise UnreadableEvent("nested too deeply for an event") from error
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
        raise UnreadableEvent(
            f"neither an ApiServerSource CloudEvent, nor an audit LogEntry (protoPayload), nor a NodeChanged: {wrong}"
        ) from error


def _read(data: bytes, attributes: Mapping[str, str]) -> NodeChange | Ignored:
    try:
        body = json.loads(data)
    except ValueError as error:
        raise UnreadableEvent(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise UnreadableEvent("not a JSON object")
    cluster = attributes.get("cluster") or attributes.get("ce-cluster") or ""
    if attributes.get("ce-type", "").startswith(KNATIVE):
        return _knative(attributes["ce-type"], body, cluster)
    if str(body.get("type", "")).startswith(KNATIVE) and "specversion" in body:
        return _knative(body["type"], body.get("data"), str(body.get("cluster") or cluster))
    if "protoPayload" in body:
        return _audit(body, cluster)
    return NodeChange.model_validate(body)


def change_of(kind: Kind, cluster: str, node: Node, *, managed: bool = True) -> NodeChange:
    """Tell all that an object shows. `managed`: it came with its managedFields."""
    return NodeChange(
        cluster=cluster,
        name=node.name,
        kind=kind,
        uid=node.uid,
        resource_version=node.resource_version,
        labels=dict(node.labels),
        owners={key: list(managers) for key, managers in node.owners.items()} if managed else None,
        applied={manager: sorted(keys) for manager, keys in node.applied.items()} if managed else None,
        created=node.created,
        taints=None if node.taints is None else list(node.taints),
        may_have_taints=node.may_have_taints,
        taints_applied_by=list(node.taints_applied_by),
    )


def _knative(type_: str, data: Any, cluster: str) -> NodeChange | Ignored:
    """Resource mode carries the object, ref mode an ObjectReference (knative.dev/eventing, ApiServerSource)."""
    _, mode, verb = f"{type_.removeprefix('dev.knative.')}..".split(".")[:3]
    kind = _VERBS.get(verb)
    if mode not in ("resource", "ref") or kind is None:
        return Ignored("NoChange", f"{type_} tells of no change")
    if not isinstance(data, dict):
        raise UnreadableEvent(f"{type_}: no object in its data")
    if data.get("kind") != "Node":
        return Ignored("NotANode", f"a {data.get('kind') or 'thing without a kind'}, not a Node")
    if mode == "resource":
        return _from_object(kind, cluster, data, type_)
    name = str(data.get("name") or "")
    if not name:
        raise UnreadableEvent(f"{type_}: the reference has no name")
    return NodeChange(
        cluster=cluster,
        name=name,
        kind=kind,
        uid=str(data.get("uid") or ""),
        resource_version=str(data.get("resourceVersion") or ""),
    )


def _audit(entry: Mapping[str, Any], cluster: str) -> NodeChange | Ignored:
    """A Cloud Audit LogEntry of GKE. Its request is a patch or an older object, so labels come from the response alone."""
    payload = entry["protoPayload"] if isinstance(entry["protoPayload"], dict) else {}
    method = str(payload.get("methodName") or "")
    kind = _AUDIT_KINDS.get(method.removeprefix(_AUDIT)) if method.startswith(_AUDIT) else None
    if kind is None:
        return Ignored("NoChange", f"{method or 'no method'} changes no node's metadata")
    if code := _part(payload, "status").get("code"):
        return Ignored("CallFailed", f"{method} failed with code {code}: nothing changed")
    response = _part(payload, "response")
    name, below = _named(str(payload.get("resourceName") or ""), response)
    if not name:
        raise UnreadableEvent(f"{method}: resourceName {payload.get('resourceName')!r} names no node, and neither does the response")
    if below:
        return Ignored("NotTheNodeItself", f"{method} of {'/'.join(below)}, not of the node itself")
    request = payload.get("request")
    if method.endswith(".patch") and isinstance(request, dict) and request and "metadata" not in request:
        return Ignored("MetadataUntouched", "a patch that leaves the metadata alone")
    gke = None if cluster else _gke(_part(_part(entry, "resource"), "labels"))
    agent = str(_part(payload, "requestMetadata").get("callerSuppliedUserAgent") or "").partition("/")[0]
    manager = agent or str(_part(payload, "authenticationInfo").get("principalEmail") or "") or None
    if kind != "deleted" and _part(response, "metadata").get("uid"):
        told = _from_object(kind, cluster, response, method)
        return told.model_copy(update={"gke": gke, "manager": manager}) if isinstance(told, NodeChange) else told
    return NodeChange(cluster=cluster, gke=gke, name=name, kind=kind, manager=manager)


def _named(path: str, response: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The node that a resourceName means, and the parts of it below. A create's may end at `nodes`; the server answers the name."""
    parts = path.rstrip("/").split("/")
    if "nodes" not in parts:
        return "", []
    name, *below = parts[parts.index("nodes") + 1 :] or [str(_part(response, "metadata").get("name") or "")]
    return name, below


def _gke(labels: Mapping[str, Any]) -> GkeName:
    """The cluster whose log this is, by its monitored resource `k8s_cluster`."""
    project, location, name = (str(labels.get(label) or "") for label in ("project_id", "location", "cluster_name"))
    return GkeName(project=project, location=location, name=name)


def _from_object(kind: Kind, cluster: str, data: Mapping[str, Any], what: str) -> NodeChange | Ignored:
    try:
        node = msgspec.convert(data, NodeObject).node()
    except msgspec.ValidationError as error:
        raise UnreadableEvent(f"{what}: {error}") from error
    return change_of(kind, cluster, node, managed="managedFields" in data["metadata"])


def _part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = of.get(name)
    return part if isinstance(part, dict) else {}


class Watched:
    """What a watcher has told about each node, to tell only what is news: a new node, another uid, other labels.

    Kubelets write to their nodes all the time; none of that reaches the bus.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[str, Mapping[str, str]]] = {}

    @property
    def count(self) -> int:
        """How many nodes there are, as far as was told."""
        return len(self._known)

    def saw(self, node: Node) -> NodeChange | None:
        """Take in one node as it is now; the news, if it is any."""
        before = self._known.get(node.name)
        now = (node.uid, node.labels)
        if before == now:
            return None
        self._known[node.name] = now
        return change_of("changed" if before and before[0] == node.uid else "added", self._cluster, node)

    def gone(self, name: str) -> None:
        """Forget a node that was deleted: one of its name that comes later is new. That a node is gone is no news, nothing is to do."""
        self._known.pop(name, None)

    def listed(self, nodes: Iterable[Node]) -> Iterator[NodeChange]:
        """Take in a whole listing, after a start or a gap: what became news since the last look."""
        nodes = list(nodes)
        for name in self._known.keys() - {node.name for node in nodes}:
            self.gone(name)
        for node in nodes:
            if news := self.saw(node):
                yield news
