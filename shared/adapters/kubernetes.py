"""A real cluster's nodes: `shared.ports.Cluster` over the Kubernetes API (its pods: kubernetes_pods).

Requests and answers carry metadata only: a Node is 12 KB, its metadata a fifth of it, and nothing here needs the rest. Which nodes are
Ready comes as the table that `kubectl get nodes` prints, without the objects; how pods fare is read in kubernetes_workloads.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec.json import Decoder

from shared.adapters import kubernetes_workloads as workloads
from shared.adapters.apiserver import PATIENT, TRIES, ApiServer, Login, Patience, StatusError
from shared.adapters.kubernetes_pods import KubernetesPods
from shared.adapters.kubernetes_scheduling import KubernetesScheduling
from shared.adapters.kubernetes_tables import TABLE, WITHOUT_OBJECTS, ListMetadata, Table, available, statuses, tables
from shared.adapters.kubernetes_workloads import DaemonSet
from shared.domain.keys import is_subdomain
from shared.domain.nodes import Node, NodeObject, WrittenObject
from shared.ports import HULLMARK, Conflict, NodeGone, Owner, Refused, Stale, Taint, Unavailable

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
P = TypeVar("P", "_Objects", Table, workloads.DaemonSets, workloads.Pending)

PAGE = 500
"""Objects a page: the size that kubectl asks for; bounds the memory of both ends."""
SINGLY = 50
"""Up to so many nodes that may have taints are read each by itself: a whole node is five times its metadata."""
TAINT_TRIES = 3
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_ONE = {"Accept": _METADATA.format("")}
_LIST = {"Accept": _METADATA.format("List")}
_APPLY = {**_ONE, "Content-Type": "application/apply-patch+yaml"}
_JSON = {**_ONE, "Content-Type": "application/json-patch+json"}
_WHOLE = {"Accept": "application/json"}
_MERGE = {**_ONE, "Content-Type": "application/merge-patch+json"}
_LABELS = ".metadata.labels"


class _Objects(msgspec.Struct):
    items: list[NodeObject] | None  # null in an empty list
    metadata: ListMetadata


class _WholeMetadata(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] = {}


class _WholeSpec(msgspec.Struct):
    taints: list[dict[str, Any]] = []


class _Whole(msgspec.Struct):
    metadata: _WholeMetadata
    spec: _WholeSpec


class _Version(msgspec.Struct):
    version: str = msgspec.field(name="gitVersion")


_whole = Decoder(_Whole)
_object, _objects, _version, _written = Decoder(NodeObject), Decoder(_Objects), Decoder(_Version), Decoder(WrittenObject)


class Kubernetes(KubernetesPods, KubernetesScheduling):
    """`shared.ports.Cluster` over one API server. `login` reads the credentials, on the first request and after a 401."""

    def __init__(self, login: Login, owner: Owner = HULLMARK, **settings: Any) -> None:
        self.server = ApiServer(login, **settings)
        self.owner = owner
        self._patience = PATIENT
        self._taints = False

    def with_taints(self) -> Self:
        showing = copy.copy(self)  # on the same connections
        showing._taints = True
        return showing

    def within(self, left: Callable[[], float], tries: int = TRIES) -> Self:
        limited = copy.copy(self)  # on the same connections
        limited._patience = Patience(left, tries)
        return limited

    def server_version(self) -> str:
        return self._read(_version, "/version").version

    def nodes(self) -> list[Node]:
        listed = self._pages("/api/v1/nodes", _objects, _nodes, headers=_LIST)
        return self._showing_taints(listed) if self._taints else listed

    def _showing_taints(self, listed: list[Node]) -> list[Node]:
        """The nodes of a listing, those that may have taints with them: read singly where they are few, else out of a listing of whole
        nodes, of which everything else is skipped.
        """
        maybe = [node.name for node in listed if node.may_have_taints]
        if len(maybe) <= SINGLY:
            read = {node.name: node for node in self.spread(self.node, maybe) if node}
        else:
            read = {node.name: node for node in self._pages("/api/v1/nodes", _objects, _nodes, headers=_WHOLE)}
        return [read.get(node.name, node) for node in listed]

    def readiness(self) -> Mapping[str, bool | None]:
        return dict(self._pages("/api/v1/nodes", tables, statuses, WITHOUT_OBJECTS, TABLE))

    def daemon_sets(self, nodes: Collection[str]) -> Mapping[str, Collection[str]]:
        there = self._pages(workloads.DAEMON_SETS, workloads.daemon_sets, lambda page: page.items or ())
        return {f"{each.metadata.namespace}/{each.metadata.name}": self._available(each, frozenset(nodes)) for each in there}

    def _available(self, daemon_set: DaemonSet, nodes: Collection[str]) -> Collection[str]:
        def there(table: Table) -> Iterator[str]:
            return (node for node in available(table, daemon_set.metadata.name) if node in nodes)

        asked = daemon_set.asked(nodes, PAGE)
        return {node for query in asked for node in self._pages(daemon_set.pods, tables, there, {**WITHOUT_OBJECTS, **query}, TABLE)}

    def unschedulable(self) -> Mapping[str, int]:
        return Counter(self._pages(workloads.PODS, workloads.pending, workloads.unschedulable, workloads.WITHOUT_NODE))

    def _pages(
        self,
        path: str,
        decoder: Decoder[P],
        taken: Callable[[P], Iterable[T]],
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> list[T]:
        """What is `taken` from each page of a listing, of one moment."""
        for _ in range(3):
            listed: list[T] = []
            after: dict[str, str] = {}
            try:
                while True:
                    answer = self._read(decoder, path, {"limit": str(PAGE), **(query or {}), **after}, headers)
                    listed.extend(taken(answer))
                    if not answer.metadata.next:
                        return listed
                    after = {"continue": answer.metadata.next}
            except StatusError as rejected:
                if rejected.code != 410:  # etcd compacted the revision that the pages are of: begin again
                    raise rejected.refused() from rejected
        raise Unavailable(f"GET {path}: the listing expired between its pages three times")

    def node(self, name: str) -> Node | None:
        read = self._one(_object, name)
        return read.node() if read else None

    def last_writes(self, name: str) -> Mapping[str, datetime]:
        read = self._one(_written, name)
        return read.last_writes() if read else {}

    def _one(self, decoder: Decoder[A], name: str) -> A | None:
        if not is_subdomain(name):
            return None
        try:
            return self._read(decoder, _path(name), headers=_WHOLE if self._taints else _ONE)
        except StatusError as rejected:
            if rejected.code == 404:
                return None
            raise rejected.refused() from rejected

    def apply_labels(self, name: str, uid: str, labels: Mapping[str, str], *, manager: str = "", force: bool = True) -> Node:
        if not uid:
            raise NodeGone(f"node {name!r} has no uid: applying without one would create it")
        metadata = {"name": name, "uid": uid, **({"labels": dict(labels)} if labels else {})}  # an empty map would itself be a thing to own
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        query = _query(manager or self.owner.name, "true" if force else "false")
        try:
            return self._patch(name, query, body, _APPLY)
        except StatusError as rejected:
            if rejected.code == 409 and (managers := _managers(rejected, labels)):
                raise Conflict(managers) from rejected
            if _other_uid(rejected):
                raise NodeGone(f"node {name!r} with uid {uid} is gone") from rejected
            raise _meaning(rejected, name) from rejected

    def remove_taint(self, name: str, uid: str, taint: Taint, labels: Mapping[str, str]) -> bool:
        for _ in range(TAINT_TRIES):
            there = self._taints_of(name, uid)
            place = next((place for place, each in enumerate(there) if _taint(each) == taint), None)
            if place is None:
                return False
            guarded = {"/metadata/uid": uid, **{f"/metadata/labels/{_pointer(key)}": value for key, value in labels.items()}}
            tests = [{"op": "test", "path": path, "value": value} for path, value in guarded.items()]
            removal: list[Mapping[str, Any]] = [
                {"op": "test", "path": f"/spec/taints/{place}", "value": there[place]},
                {"op": "remove", "path": f"/spec/taints/{place}"},
            ]
            try:
                self._patch(name, _query(self.owner.name), [*tests, *removal], _JSON)
            except StatusError as rejected:
                if rejected.code == 422 and "error in our request" in rejected.status.message:
                    continue  # a test failed: another taint came or went, or a label did
                raise _meaning(rejected, name) from rejected
            return True
        raise Stale(f"node {name!r}: its taints or labels changed while {taint} was to be taken off")

    def _taints_of(self, name: str, uid: str) -> list[dict[str, Any]]:
        try:
            node = self._read(_whole, _path(name), headers=_WHOLE)
        except StatusError as rejected:
            raise _meaning(rejected, name) from rejected
        if node.metadata.uid != uid:
            raise NodeGone(f"node {name!r} with uid {uid} is gone")
        return node.spec.taints

    def remove_labels(self, name: str, keys: Sequence[str], *, resource_version: str, manager: str = "") -> Node:
        return self._merge(name, dict.fromkeys(keys), resource_version, manager or self.owner.name)

    def patch_labels(self, name: str, labels: Mapping[str, str], *, resource_version: str, manager: str) -> Node:
        return self._merge(name, labels, resource_version, manager)

    def _merge(self, name: str, labels: Mapping[str, str | None], resource_version: str, manager: str) -> Node:
        """One merge patch; a label of None goes. An empty map would itself be a thing to own."""
        body = {"metadata": {"resourceVersion": resource_version, **({"labels": labels} if labels else {})}}
        try:
            return self._patch(name, _query(manager), body, _MERGE)
        except StatusError as rejected:
            raise _meaning(rejected, name) from rejected

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(self.server.in_flight, len(items)), "cluster") as threads:
            return [future.result() for future in [threads.submit(copy_context().run, work, item) for item in items]]

    def _patch(self, name: str, query: str, body: Mapping[str, Any] | Sequence[Mapping[str, Any]], headers: Mapping[str, str]) -> Node:
        if not is_subdomain(name):  # `..` in the path would mean something else
            raise NodeGone(f"{name!r} is no name that a node can have")
        answer = self.server.request("PATCH", f"{_path(name)}?{query}", None, msgspec.json.encode(body), headers, self._patience)
        return _decoded(_object, answer, f"PATCH {_path(name)}").node()

    def _read(self, decoder: Decoder[A], path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> A:
        return _decoded(decoder, self.server.request("GET", path, query, headers=headers, patience=self._patience), f"GET {path}")


def _decoded(decoder: Decoder[A], answer: bytes, call: str) -> A:
    try:
        return decoder.decode(answer)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"{call}: not the answer of a Kubernetes API server: {error}") from error


def _taint(each: Mapping[str, Any]) -> Taint:
    return Taint(each.get("key", ""), each.get("effect", ""), each.get("value", ""))


def _pointer(key: str) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _nodes(page: _Objects) -> Iterator[Node]:
    return (item.node() for item in page.items or ())


@functools.cache
def _query(manager: str, force: str = "") -> str:
    return urlencode({"fieldManager": manager, **({"force": force} if force else {}), "fieldValidation": "Strict"})


def _path(name: str) -> str:
    return "/api/v1/nodes/" + quote(name, safe="")


def _managers(rejected: StatusError, declared: Iterable[str]) -> dict[str, str]:
    """Key → the managers that hold it, out of the causes of a 409: `conflict with "kubelet" using v1`, at `.metadata.labels.KEY`.

    Who applied an empty map holds `.metadata.labels` itself, and so stands in the way of every key.
    """
    held: dict[str, set[str]] = {}
    details = rejected.status.details
    for cause in (details.causes if details else None) or ():
        path, _, key = cause.field.partition(_LABELS)
        if cause.reason == "FieldManagerConflict" and not path:
            quoted = re.search(r'conflict with ("(?:[^"\\]|\\.)*")', cause.message)
            manager = json.loads(quoted[1]) if quoted else cause.message
            for one in [key.removeprefix(".")] if key else declared:
                held.setdefault(one, set()).add(manager)
    return {key: ", ".join(sorted(managers)) for key, managers in held.items()}


def _other_uid(rejected: StatusError) -> bool:
    """Whether the apply named a uid that the node of this name doesn't have (seen: 409 where absent, 409 or 422 where another)."""
    return rejected.code in (409, 422) and ("uid mismatch" in rejected.status.message or "metadata.uid" in rejected.status.message)


def _meaning(rejected: StatusError, name: str) -> NodeGone | Stale | Refused:
    if rejected.code == 404:
        return NodeGone(f"no node {name!r}")
    if rejected.code == 409:
        return Stale(f"node {name!r} changed since it was read")
    return rejected.refused()
