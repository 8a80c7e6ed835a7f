"""A real cluster's pods: `shared.ports.Pods` over the Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.json import Decoder

from shared.adapters.apiserver import ApiServer, StatusError
from shared.domain.keys import is_subdomain
from shared.ports import Owner, Pod, Stale, Unavailable

A = TypeVar("A")

PAGE = 500
"""Pods a page: whole pods, because metadata alone does not say the node."""
_METADATA = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
_MERGE = {**_METADATA, "Content-Type": "application/merge-patch+json"}


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PodObject(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)

    def pod(self) -> Pod:
        meta = self.metadata
        return Pod(
            meta.namespace, meta.name, meta.uid, self.spec.node_name, meta.labels or {}, meta.annotations or {}, meta.resource_version
        )


class _ListMetadata(msgspec.Struct):
    next: str = msgspec.field(default="", name="continue")


class _PodList(msgspec.Struct):
    items: list[_PodObject]
    metadata: _ListMetadata


_one, _list = Decoder(_PodObject), Decoder(_PodList)


class KubernetesPods:
    """The pods behind one API server; what a cluster's adapter is besides its nodes."""

    server: ApiServer
    owner: Owner

    def pod(self, namespace: str, name: str) -> Pod | None:
        if not (is_subdomain(namespace) and is_subdomain(name)):
            return None
        try:
            return self._pods_read(_one, _path(namespace, name), headers=_METADATA).pod()
        except StatusError as rejected:
            if rejected.code == 404:
                return None
            raise rejected.refused() from rejected

    def pods(self, namespace: str = "") -> Iterator[Pod]:
        path, page = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else "/api/v1/pods", ""
        while True:
            query = {"limit": str(PAGE), "fieldSelector": "spec.nodeName!=", **({"continue": page} if page else {})}
            try:
                answer = self._pods_read(_list, path, query)
            except StatusError as rejected:
                if rejected.code == 410:
                    raise Unavailable(f"GET {path}: the listing expired between its pages; run it again") from rejected
                raise rejected.refused() from rejected
            yield from (item.pod() for item in answer.items)
            page = answer.metadata.next
            if not page:
                return

    def add_to_pod(self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        metadata: dict[str, Any] = {"uid": pod.uid, "resourceVersion": pod.resource_version}
        metadata |= {name: dict(added) for name, added in (("labels", labels), ("annotations", annotations)) if added}
        body = msgspec.json.encode({"metadata": metadata})
        try:
            self.server.request("PATCH", _path(pod.namespace, pod.name), {"fieldManager": self.owner.pods}, body, _MERGE)
        except StatusError as rejected:
            if rejected.code in (404, 409):
                raise Stale(f"pod {pod.namespace}/{pod.name} changed or went since it was read") from rejected
            raise rejected.refused() from rejected

    def _pods_read(
        self, decoder: Decoder[A], path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> A:
        answer = self.server.request("GET", path, query, headers=headers)
        try:
            return decoder.decode(answer)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"GET {path}: not the answer of a Kubernetes API server: {error}") from error


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
