"""A real cluster's nodes as they change: one listing, then a watch from where it ended. Metadata only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from shared.adapters.apiserver import ApiServer, StatusError
from shared.domain.nodes import Node, NodeObject
from shared.ports import Unavailable

PAGE = 500
WATCH_SECONDS = 300
"""How long the server keeps one watch; a new one goes on where it ended, with credentials read anew."""
SILENCE_SECONDS = 150.0
"""Bookmarks come about once a minute: a connection that says nothing for longer is dead."""
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


class Expired(Exception):
    """410 Gone: the server no longer knows what happened since that version. List again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of a watch: the version to go on from, and the node with what happened to it (None: a bookmark)."""

    version: str
    node: Node | None = None
    deleted: bool = False


class _ListMetadata(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    next: str = msgspec.field(default="", name="continue")


class _Objects(msgspec.Struct):
    items: list[NodeObject] | None
    metadata: _ListMetadata


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    metadata: _ListMetadata


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


_objects = msgspec.json.Decoder(_Objects)
_event = msgspec.json.Decoder(_Event)
_object = msgspec.json.Decoder(NodeObject)
_bookmark = msgspec.json.Decoder(_Bookmark)
_error = msgspec.json.Decoder(_Error)


class NodeWatch:
    """Lists and watches the nodes of one API server. Every method raises Expired, Refused and Unavailable."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def list(self) -> tuple[list[Node], str]:
        """All nodes, and the version to watch from."""
        nodes: list[Node] = []
        query = {"limit": str(PAGE)}
        while True:
            try:
                page = _objects.decode(self._server.request("GET", "/api/v1/nodes", query, headers={"Accept": _METADATA.format("List")}))
            except StatusError as rejected:
                raise _meaning(rejected) from rejected
            except msgspec.MsgspecError as error:
                raise Unavailable(f"GET /api/v1/nodes: not the answer of a Kubernetes API server: {error}") from error
            nodes.extend(item.node() for item in page.items or ())
            if not page.metadata.next:
                return nodes, page.metadata.version
            query = {"limit": str(PAGE), "continue": page.metadata.next}

    def since(self, version: str) -> Iterator[Seen]:
        """What happens after this version, until the server ends the watch."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        try:
            for line in self._server.follow("/api/v1/nodes", query, {"Accept": _METADATA.format("")}, SILENCE_SECONDS):
                yield _read(line)
        except StatusError as rejected:
            raise _meaning(rejected) from rejected
        except msgspec.MsgspecError as error:
            raise Unavailable(f"GET /api/v1/nodes (watch): a line that is no event: {error}") from error


def _read(line: bytes) -> Seen:
    event = _event.decode(line)
    if event.type == "BOOKMARK":
        return Seen(_bookmark.decode(event.object).metadata.version)
    if event.type == "ERROR":
        error = _error.decode(event.object)
        if error.code == 410:
            raise Expired(error.message)
        raise Unavailable(f"the watch of nodes ended: {error.code} {error.message}")
    node = _object.decode(event.object).node()
    return Seen(node.resource_version, node, deleted=event.type == "DELETED")


def _meaning(rejected: StatusError) -> Exception:
    return Expired(str(rejected)) if rejected.code == 410 else rejected.refused()
