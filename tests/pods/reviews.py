"""AdmissionReviews as the API server sends them, and clusters that answer, hang, fail or count."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import jsonpatch

from shared.domain.documents.kinds import PodLabelPolicySpec
from shared.domain.pods.copying import Placement, read_review
from shared.ports import Cluster, Node, Pod

ZONE, REGION, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"


def a_binding(
    node: str = "n1", *, labels: Mapping[str, str] | None = None, kind: str | None = "Node", name: str = "web-0"
) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "shop"} | ({"labels": dict(labels)} if labels is not None else {})
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": meta,
        "target": {"name": node} | ({"kind": kind} if kind is not None else {}),
    }


def a_pod(node: str = "n1", *, labels: Mapping[str, str] | None = None, name: str = "web-0") -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "shop"} | ({"labels": dict(labels)} if labels is not None else {})
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": {"containers": [{"name": "c"}]} | ({"nodeName": node} if node else {}),
    }


def a_review(
    obj: Any, *, resource: str = "", sub: str | None = None, operation: str = "CREATE", namespace: str = "shop", group: str = ""
) -> dict[str, Any]:
    binding = isinstance(obj, dict) and obj.get("kind") == "Binding"
    sub = ("binding" if binding and resource != "bindings" else "") if sub is None else sub
    request = {
        "uid": "u-1",
        "resource": {"group": group, "version": "v1", "resource": resource or "pods"},
        "operation": operation,
        "name": (obj or {}).get("metadata", {}).get("name", "") if isinstance(obj, dict) else "",
        "namespace": namespace,
        "object": obj,
        "dryRun": False,
    } | ({"subResource": sub} if sub else {})
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def placed(obj: Any, **how: Any) -> Placement:
    place = read_review(json.dumps(a_review(obj, **how)).encode()).placement
    assert place is not None
    return place


def a_policy(**spec: Any) -> PodLabelPolicySpec:
    return PodLabelPolicySpec.model_validate(spec)


def patched(review: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """The object as the API server has it after the answer."""
    assert response["allowed"] is True
    assert response["uid"] == review["request"]["uid"]
    if "patch" not in response:
        return cast("dict[str, Any]", review["request"]["object"])
    assert response["patchType"] == "JSONPatch"
    operations = json.loads(base64.b64decode(response["patch"], validate=True))
    return cast("dict[str, Any]", jsonpatch.apply_patch(review["request"]["object"], operations))


@dataclass
class Fleet:
    """Nodes and pods in memory, shaped as a Cluster and Pods; `reading` runs before each read and may hang or raise."""

    node_labels: dict[str, dict[str, str]] = field(default_factory=dict)
    pod_labels: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    reading: Callable[[str], None] = lambda what: None
    reads: list[str] = field(default_factory=list)

    def _read(self, what: str) -> None:
        self.reads.append(what)
        self.reading(what)

    def nodes(self) -> list[Node]:
        self._read("nodes")
        return [Node(name, f"uid-{name}", labels) for name, labels in self.node_labels.items()]

    def node(self, name: str) -> Node | None:
        self._read(f"node {name}")
        return Node(name, f"uid-{name}", self.node_labels[name]) if name in self.node_labels else None

    def pod(self, namespace: str, name: str) -> Pod | None:
        self._read(f"pod {name}")
        labels = self.pod_labels.get((namespace, name))
        return None if labels is None else Pod(namespace, name, f"uid-{name}", labels=labels)

    def pods(self, namespace: str = "") -> Iterator[Pod]:
        raise NotImplementedError

    def add_to_pod(self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        raise NotImplementedError

    def as_cluster(self) -> Cluster:
        return cast("Cluster", self)


class Hang:
    """Reads that don't come back until `release`; use as `Fleet.reading`, and as a context manager so that no thread is left."""

    def __init__(self, *what: str) -> None:
        self._what, self._gate = what, threading.Event()

    def __call__(self, what: str) -> None:
        if not self._what or what.startswith(self._what):
            self._gate.wait(20)

    def __enter__(self) -> Hang:
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.set()

    release = property(lambda self: self._gate.set)
