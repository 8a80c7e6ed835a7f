"""A real cluster's nodes: `shared.ports.Cluster` over the Kubernetes API.

Requests and answers carry metadata only: a Node is 12 KB, its metadata a fifth of it, and nothing here needs the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from shared.adapters.apiserver import ApiServer, Login, Rejected
from shared.domain.nodes import Node, owned_labels
from shared.ports import OWNER, Conflict, NodeGone, Refused, Stale, Unavailable

T = TypeVar("T")
R = TypeVar("R")

PAGE = 500
"""Nodes a page: the size that kubectl asks for; bounds the memory of both ends."""
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_ONE = {"Accept": _METADATA.format("")}
_LIST = {"Accept": _METADATA.format("List")}
_APPLY = {**_ONE, "Content-Type": "application/apply-patch+yaml"}
_MERGE = {**_ONE, "Content-Type": "application/merge-patch+json"}
_LABELS = ".metadata.labels."


class _Labels(msgspec.Struct):
    labels: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict, name="f:labels")


class _Fields(msgspec.Struct):
    metadata: _Labels | None = msgspec.field(default=None, name="f:metadata")


class _Managed(msgspec.Struct):
    manager: str = ""
    operation: str = ""
    fields: _Fields | None = msgspec.field(default=None, name="fieldsV1")


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    version: str = msgspec.field(name="resourceVersion")
    labels: dict[str, str] | None = None
    managed: list[_Managed] | None = msgspec.field(default=None, name="managedFields")


class _Object(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct):
    next: str = msgspec.field(default="", name="continue")


class _Objects(msgspec.Struct):
    items: list[_Object]
    metadata: _ListMetadata


class _Version(msgspec.Struct):
    version: str = msgspec.field(name="gitVersion")


_object, _objects, _version = (msgspec.json.Decoder(kind) for kind in (_Object, _Objects, _Version))


class Kubernetes:
    """`shared.ports.Cluster` over one API server. `login` reads the credentials, on the first request and after a 401."""

    def __init__(self, login: Login, **settings: Any) -> None:
        self.server = ApiServer(login, **settings)

    def server_version(self) -> str:
        return str(self._read(_version, "/version").version)

    def nodes(self) -> list[Node]:
        for _ in range(3):
            found: list[Node] = []
            page = ""
            try:
                while True:
                    query = {"limit": str(PAGE), **({"continue": page} if page else {})}
                    answer = self._read(_objects, "/api/v1/nodes", query, _LIST)
                    found.extend(_node(item) for item in answer.items)
                    page = answer.metadata.next
                    if not page:
                        return found
            except Rejected as rejected:
                if rejected.code != 410:  # etcd compacted the revision that the pages are of: begin again
                    raise rejected.refused() from rejected
        raise Unavailable("GET /api/v1/nodes: the listing expired between its pages three times")

    def node(self, name: str) -> Node | None:
        try:
            return _node(self._read(_object, _path(name), headers=_ONE))
        except Rejected as rejected:
            if rejected.code == 404:
                return None
            raise rejected.refused() from rejected

    def apply_labels(self, name: str, uid: str, labels: Mapping[str, str], *, manager: str = OWNER, force: bool = True) -> Node:
        if not uid:
            raise NodeGone(f"node {name!r} has no uid: applying without one would create it")
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid, "labels": dict(labels)}}
        query = {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}
        try:
            return self._patch(name, query, body, _APPLY)
        except Rejected as rejected:
            if rejected.code == 409 and (managers := _managers(rejected)):
                raise Conflict(managers) from rejected
            if _other_uid(rejected):
                raise NodeGone(f"node {name!r} with uid {uid} is gone") from rejected
            raise _meaning(rejected, name) from rejected

    def remove_labels(self, name: str, keys: Sequence[str], *, resource_version: str, manager: str = OWNER) -> Node:
        body = {"metadata": {"resourceVersion": resource_version, "labels": dict.fromkeys(keys)}}
        if not keys:
            body["metadata"].pop("labels")
        try:
            return self._patch(name, {"fieldManager": manager, "fieldValidation": "Strict"}, body, _MERGE)
        except Rejected as rejected:
            raise _meaning(rejected, name) from rejected

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(self.server.in_flight, len(items)), "cluster") as threads:
            return [future.result() for future in [threads.submit(copy_context().run, work, item) for item in items]]

    def _patch(self, name: str, query: Mapping[str, str], body: Mapping[str, Any], headers: Mapping[str, str]) -> Node:
        return _node(_decoded(_object, self.server.request("PATCH", _path(name), query, json.dumps(body).encode(), headers), f"PATCH {name}"))

    def _read(
        self, decoder: Any, path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        return _decoded(decoder, self.server.request("GET", path, query, headers=headers), f"GET {path}")


def _decoded(decoder: Any, answer: bytes, call: str) -> Any:
    try:
        return decoder.decode(answer)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"{call}: not the answer of a Kubernetes API server: {error}") from error


def _path(name: str) -> str:
    return "/api/v1/nodes/" + quote(name, safe="")


def _node(answer: _Object) -> Node:
    metadata = answer.metadata
    owners, applied = owned_labels(
        (entry.manager, entry.operation, entry.fields.metadata.labels)
        for entry in metadata.managed or ()
        if entry.fields is not None and entry.fields.metadata is not None
    )
    return Node(metadata.name, metadata.uid, metadata.labels or {}, metadata.version, owners, applied)


def _managers(rejected: Rejected) -> dict[str, str]:
    """Key → the managers that hold it, out of the causes of a 409: `conflict with "kubelet" using v1`, at `.metadata.labels.KEY`."""
    held: dict[str, set[str]] = {}
    details = rejected.status.details
    for cause in (details.causes if details else None) or ():
        if cause.reason == "FieldManagerConflict" and cause.field.startswith(_LABELS):
            quoted = re.search(r'conflict with ("(?:[^"\\]|\\.)*")', cause.message)
            held.setdefault(cause.field.removeprefix(_LABELS), set()).add(json.loads(quoted[1]) if quoted else cause.message)
    return {key: ", ".join(sorted(managers)) for key, managers in held.items()}


def _other_uid(rejected: Rejected) -> bool:
    """Whether the apply named a uid that the node of this name doesn't have (seen: 409 where absent, 409 or 422 where another)."""
    return rejected.code in (409, 422) and ("uid mismatch" in rejected.status.message or "metadata.uid" in rejected.status.message)


def _meaning(rejected: Rejected, name: str) -> NodeGone | Stale | Refused:
    if rejected.code == 404:
        return NodeGone(f"no node {name!r}")
    if rejected.code == 409:
        return Stale(f"node {name!r} changed since it was read")
    return rejected.refused()
