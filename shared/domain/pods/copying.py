"""Which of a node's labels its pods get (KEP-4742, docs/pods.md), decided from one AdmissionReview.

Kubernetes' own plugin copies two constant keys, from 1.35 on. A `PodLabelPolicy` says which keys, for which namespaces, and whether
as labels or as annotations. Nothing declared, nothing copied. No answer ever denies.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

from shared.domain.documents.kinds import Namespaces, PodLabelPolicySpec
from shared.domain.documents.reading import Path
from shared.domain.keys import key_error, value_error

SELECTED_ON: Mapping[str, str] = {
    "app": "Services and Deployments commonly select on it",
    "k8s-app": "the cluster's own Services (kube-dns) select on it",
    "app.kubernetes.io/*": "Services and Deployments of Helm charts select on these",
    "apps.kubernetes.io/*": "the StatefulSet controller sets pod-index there",
    "batch.kubernetes.io/*": "the Job controller selects its pods by controller-uid and job-name",
    "controller-uid": "the Job controller selects its pods by it",
    "job-name": "the Job controller and many scripts select on it",
    "statefulset.kubernetes.io/*": "Services for single pods of a StatefulSet select on pod-name",
    "controller-revision-hash": "DaemonSet and StatefulSet controllers tell a pod's revision by it",
    "pod-template-hash": "a Deployment's ReplicaSets select their pods by it",
    "pod-template-generation": "DaemonSet controllers tell a pod's generation by it",
    "sidecar.istio.io/*": "sidecar injection is decided by it",
}
"""Keys (`prefix/*`: every key under the prefix) that no node label may take over on a pod, and who would be misled."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def selected_on(key: str) -> str | None:
    """Why a node label must not become this key of a pod (or a key of this `prefix/*`), or None where it may."""
    return SELECTED_ON.get(key) or SELECTED_ON.get(f"{key.rpartition('/')[0]}/*")


class PolicyFlaw(NamedTuple):
    """One thing wrong with a policy: where in its spec, the field error word (reading.Problem.type), what is wrong and what to do."""

    path: Path
    type: str
    message: str


def check_pod_policy(spec: PodLabelPolicySpec) -> list[PolicyFlaw]:
    """What is wrong with a policy that has the right form: keys that are none, and keys that pods must keep. Empty: it may be committed."""
    flaws = [
        PolicyFlaw((name, number), *wrong)
        for name, keys, patterns in (("topology", spec.topology, False), ("extra", spec.extra, True))
        for number, key in enumerate(keys)
        if (wrong := _wrong_key(key, patterns))
    ]
    for name, namespaces in (("include", spec.namespaces.include), ("exclude", spec.namespaces.exclude)):
        for number, namespace in enumerate(namespaces or ()):
            if not _NAMESPACE.fullmatch(namespace):
                text = f"`{namespace}` is not the name of a namespace; patterns are not taken, name each one"
                flaws.append(PolicyFlaw(("namespaces", name, number), "Invalid", text))
    return flaws


def _wrong_key(key: str, patterns: bool) -> tuple[str, str] | None:
    if "*" in key and not patterns:
        return "Invalid", f"`{key}` is not an exact key; `prefix/*` belongs under `extra`, which does not replace what a pod has"
    error = key_error(key.removesuffix("*") + "x" if key.endswith("/*") else key)
    if error:
        return "Invalid", f"`{key}`: {error}" + ("; or it is a whole prefix such as `example.com/*`" if "*" in key else "")
    if why := selected_on(key):
        return "Forbidden", f"a node's `{key}` would become its pods' own: {why}; use a key of your own domain"
    return None


@dataclass(frozen=True, slots=True)
class Keys:
    """A set of keys to copy: some replace what is there, others only fill."""

    overwrite: frozenset[str] = frozenset()
    fill: frozenset[str] = frozenset()
    """Exact keys or `prefix/*`."""

    def __bool__(self) -> bool:
        return bool(self.overwrite or self.fill)

    def fills(self, key: str) -> bool:
        """Whether `key` is one of those that only fill."""
        return key not in self.overwrite and (key in self.fill or f"{key.rpartition('/')[0]}/*" in self.fill)

    def __contains__(self, key: str) -> bool:
        return key in self.overwrite or self.fills(key)


@dataclass(frozen=True, slots=True)
class Copying:
    """What is copied to the pods of one namespace."""

    labels: Keys = Keys()
    annotations: Keys = Keys()

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations)

    def __contains__(self, key: str) -> bool:
        return key in self.labels or key in self.annotations


def holds(namespaces: Namespaces, namespace: str) -> bool:
    """Whether a policy with these means pods of `namespace`: exact names, none included means all, `exclude` wins."""
    return namespace not in (namespaces.exclude or ()) and (not namespaces.include or namespace in namespaces.include)


def copying(policies: Iterable[PodLabelPolicySpec], namespace: str | None) -> Copying:
    """The sum of the enabled policies that mean `namespace` (None: of all policies, what any namespace may need)."""
    sets: dict[tuple[bool, bool], set[str]] = {(a, b): set() for a in (False, True) for b in (False, True)}
    for policy in policies:
        if policy.enabled and (namespace is None or holds(policy.namespaces, namespace)):
            sets[policy.as_annotations, True].update(policy.topology)
            sets[policy.as_annotations, False].update(policy.extra)
    labels, annotations = (Keys(frozenset(sets[kind, True]), frozenset(sets[kind, False])) for kind in (False, True))
    return Copying(labels, annotations)


class MalformedReview(Exception):
    """A body that is no AdmissionReview we can answer. The text says what is wrong and where."""


class _Resource(msgspec.Struct):
    resource: str
    group: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    resource: _Resource
    operation: str
    object: msgspec.Raw = msgspec.Raw(b"null")
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: _Request


class _Named(msgspec.Struct):
    uid: str


class _NamedReview(msgspec.Struct, rename="camel"):
    """As much of a review as an answer needs."""

    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: _Named


class _Metadata(msgspec.Struct):
    name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Target(msgspec.Struct):
    kind: str | None = None
    name: str | None = None


class _Binding(msgspec.Struct):
    metadata: _Metadata
    target: _Target


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


_NAMED = msgspec.json.Decoder(_NamedReview)
_REVIEW = msgspec.json.Decoder(_Review)
_BINDING = msgspec.json.Decoder(_Binding)
_POD = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod on its way to a node, as its Binding or the new pod itself shows it."""

    namespace: str
    pod: str
    node: str
    labels: Mapping[str, str] | None
    """Of the object under review; None where it has no such map."""
    annotations: Mapping[str, str] | None
    binding: bool
    """A Binding shows only what it adds: the pod's own labels and annotations have to be read."""


@dataclass(frozen=True, slots=True)
class Review:
    """One readable AdmissionReview. `placement` is None for anything that is not ours to change."""

    uid: str
    placement: Placement | None
    warnings: tuple[str, ...] = ()
    """What it lacks: it is allowed all the same, and whoever created the object is told."""


def read_review(body: bytes) -> Review:
    """Read an AdmissionReview v1. Anything but CREATE of `pods/binding`, `bindings` or a pod with a node name has no placement.

    Unlike upstream, an empty target.kind counts as Node, because the API server binds the pod there. A review that lacks what it needs
    has no placement and a warning, wherever it has a uid to answer to. Raises MalformedReview where it has none.
    """
    uid, where = "", "the review"
    try:
        uid = _NAMED.decode(body).request.uid
        if not uid:
            raise MalformedReview("request.uid is empty")
        request = _REVIEW.decode(body).request
        where = "request.object"
        return Review(uid, _placement(request))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wrong = f"{where}: {'nested too deeply' if isinstance(error, RecursionError) else error}"
        if uid:
            return Review(uid, None, (f"hullmark: no topology labels are copied; {wrong}"[:250],))
        raise MalformedReview(f"not an AdmissionReview of admission.k8s.io/v1: {wrong}") from error


def _placement(request: _Request) -> Placement | None:
    if request.operation != "CREATE" or request.resource.group:
        return None
    match request.resource.resource, request.sub_resource or "":
        case ("pods", "binding") | ("bindings", ""):
            bound = _BINDING.decode(request.object)
            if bound.target.kind not in ("Node", "", None):
                return None
            meta, node, binding = bound.metadata, bound.target.name, True
        case "pods", "":
            pod = _POD.decode(request.object)
            meta, node, binding = pod.metadata, pod.spec.node_name, False
        case _:
            return None
    if not node:
        return None
    return Placement(request.namespace or "", request.name or meta.name or "", node, meta.labels, meta.annotations, binding)


@dataclass(frozen=True, slots=True)
class Own:
    """A pod's own labels and annotations, as it stands in the cluster."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Additions:
    """What to put on a pod (or its Binding), and what a person should know. Every key and value is valid."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def needs_own(keys: Copying, node: Mapping[str, str]) -> bool:
    """Whether this node has a key that must not replace the pod's: then a Binding alone doesn't show enough."""
    return any(keys.labels.fills(key) or keys.annotations.fills(key) for key in node)


def additions(keys: Copying, node: Mapping[str, str], *, shown: Own, own: Own | None) -> Additions:
    """What `node`'s labels add to a pod: topology replaces, extra fills what neither `shown` (the object) nor `own` (the pod) has.

    `own` None: the pod could not be read, so nothing is filled. Keys that controllers select on and invalid keys or values are left out:
    the API server does not validate a Binding's labels, and one bad label makes every later update of the pod fail.
    """
    warnings: list[str] = []
    picked: list[dict[str, str]] = []
    for wanted, here, there in (
        (keys.labels, shown.labels, own.labels if own else None),
        (keys.annotations, shown.annotations, own.annotations if own else None),
    ):
        added: dict[str, str] = {}
        for key, value in node.items():
            if key not in wanted or here.get(key) == value:
                continue
            if key_error(key) or value_error(value):
                warnings.append(f"hullmark: node label {key[:80]!r} has an invalid key or value and is not copied")
            elif not selected_on(key) and (key in wanted.overwrite or (there is not None and key not in there and key not in here)):
                added[key] = value
        picked.append(added)
    return Additions(picked[0], picked[1], tuple(warnings))


def patch(placement: Placement, add: Additions) -> list[dict[str, Any]]:
    """The JSON Patch (RFC 6902) that puts `add` on the object under review; the map is created where there is none."""
    operations: list[dict[str, Any]] = []
    for name, there, added in (("labels", placement.labels, add.labels), ("annotations", placement.annotations, add.annotations)):
        if added and there is None:
            operations.append({"op": "add", "path": f"/metadata/{name}", "value": dict(added)})
        elif added:
            operations += [{"op": "add", "path": f"/metadata/{name}/{_pointer(k)}", "value": v} for k, v in added.items()]
    return operations


def _pointer(key: str) -> str:
    """A key as one step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def answer(uid: str, operations: list[dict[str, Any]], warnings: Iterable[str] = ()) -> bytes:
    """The AdmissionReview to send back: always allowed."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if operations:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}
    if texts := list(warnings):
        response["warnings"] = texts
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def decide(place: Placement, keys: Copying, node: Mapping[str, str] | None, own: Own | None = None) -> Additions:
    """Decide what this pod gets from its node. `keys`: of its namespace. `node` None: no such node. `own`: the bound pod, if read."""
    if not keys:
        return Additions()
    if node is None:
        return Additions(warnings=(f"hullmark: there is no node {place.node[:80]!r}; no topology labels are copied",))
    shown = Own(place.labels or {}, place.annotations or {})
    return additions(keys, node, shown=shown, own=own if place.binding else shown)
