"""Places in a manifest where a node label key may stand, and what may be done with it there (docs/migrate.md).

A place is told by the mapping keys that lead to it, innermost last. The nearest one that decides, decides: `matchExpressions` under
`labelSelector` picks pods, under `nodeSelectorTerms` it picks nodes, whatever stands further out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

LINE_END = re.compile(r"\n|\r(?!\n)")
"""Where lines end, for counting them: LF, CRLF and a lone CR."""

Action = Literal["rewrite", "report", "unknown", "comment"]


@dataclass(frozen=True, slots=True)
class Hit:
    """An old key in a text: characters `start` to `end`. `separator` is how its `/` is written there: `/`, `~1` or `\\/`; `dot` how its
    dots are: escaped in a JSONPath.
    """

    start: int
    end: int
    old: str
    separator: str = "/"
    dot: str = "."

    def moved(self, by: int) -> Hit:
        """The same hit in a text that starts elsewhere."""
        return Hit(self.start + by, self.end + by, self.old, self.separator, self.dot)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with one hit, and why. `unknown`: nothing says that nodes are meant, so a person has to look. `comment`: in a comment
    or prose, where it has no effect.
    """

    action: Action
    why: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hit stands: as a mapping's key (`is_key`) or as a value, under these names, in an object of this kind."""

    is_key: bool
    names: tuple[str, ...]
    kind: str = ""


Judged = tuple[Hit, Verdict]

NOT_A_MANIFEST = Verdict("report", "not a manifest: look, and change it by hand if nodes are selected by it")
UNKNOWN_PLACE = Verdict("unknown", "nothing here says that nodes are selected by it: look, and change it by hand if so")
JSONPATH = Verdict("report", "a JSONPath with the old key: change it together with what it reads")
COMMENT = Verdict("comment", "in a comment")
IN_PROSE = Verdict("comment", "in prose")
TAINT = Verdict("report", "a taint's key, not a label: it changes with the taint on the nodes")
CSI_NODE = Verdict("report", "CSINode is written by the kubelet for the driver: it changes when the driver names the new key")

_NODE_SELECTOR = re.compile(r"node[-_]?selectors?\Z", re.IGNORECASE)
_TOPOLOGY_KEY = re.compile(r"(?:\A|[a-z_-])topology[-_]?keys?\Z", re.IGNORECASE)
_NODE_TERMS = frozenset({"nodeSelectorTerms", "nodeAffinity", "preference", "nodeAffinityPreset"})
_SELECTORS = frozenset({"selector", "labelSelector", "podSelector", "namespaceSelector", "objectSelector"})
_LABELS = frozenset({"labels", "commonLabels", "podLabels", "nodeLabels", "annotations", "commonAnnotations", "podAnnotations"})
_KEY_NAMES = frozenset({"node_selector_key", "nodeSelectorKey"})
_KARPENTER = frozenset({"NodePool", "NodeClaim", "Provisioner"})
_FIXED_SELECTORS = frozenset({"Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "PersistentVolumeClaim"})

# Checked against the API server's validation, v1.35 (pkg/apis/core/validation, pkg/apis/storage/validation).
_IN_PLACE = {
    "PersistentVolume": "; the field is immutable, but the API server takes the change from a beta key to its GA key in place",
    "Pod": "; cannot be applied to a pod that exists: create it anew",
    "Job": "; cannot be applied to a job that exists: create it anew",
    "StorageClass": "; holds for volumes provisioned from then on",
    "Deployment": "; applying it rolls the pods",
    "DaemonSet": "; applying it rolls the pods",
    "StatefulSet": "; applying it rolls the pods",
}
_PV_ELSE = "; cannot be applied to a volume that exists: the field is immutable (only beta keys may become GA keys)"
_LABELS_OF = {
    "Node": "a node's own labels come from its kubelet and its cloud: nothing is selected here, and both keys stand side by side",
    "PersistentVolume": "labels of a volume: the scheduler still reads the old zone and region here; relabel the live volume with it",
}


def in_place(kind: str, *, beta: bool) -> str:
    """Return what a person must know about applying a rewritten manifest of this kind; empty where there is nothing to know."""
    return _PV_ELSE if kind == "PersistentVolume" and not beta else _IN_PLACE.get(kind, "")


def judge(place: Place, *, beta: bool = True) -> Verdict:
    """Decide what to do with a key that stands alone at a place. `beta`: it is one of Kubernetes' own old keys."""
    verdict = _judge_key(place) if place.is_key else _judge_value(place)
    return Verdict("rewrite", verdict.why + in_place(place.kind, beta=beta)) if verdict.action == "rewrite" else verdict


def judge_pointer(pointer: str, old: str, kind: str = "") -> Verdict:
    """Decide for a JSON pointer of a JSON6902 patch in which the old key is one whole segment."""
    names = pointer_names(pointer)
    if old not in names:
        return UNKNOWN_PLACE
    verdict = _judge_key(Place(True, names[: names.index(old)], kind))
    return (
        Verdict("rewrite", f"{verdict.why}, by a JSON patch: what it patches must change with it")
        if verdict.action == "rewrite"
        else verdict
    )


def pointer_names(pointer: str) -> tuple[str, ...]:
    """`/spec/nodeSelector/beta.kubernetes.io~1os` as the names that it leads through, list indices left out (RFC 6901)."""
    names = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return tuple(name for name in names if not name.isdecimal() and name != "-")


def _judge_key(place: Place) -> Verdict:
    for name in reversed(place.names):
        if _NODE_SELECTOR.search(name):
            return Verdict("rewrite", name)
        if name in _SELECTORS:
            return _selector(name, place.kind)
        if name in _LABELS:
            return _labels(name, place.kind)
    return UNKNOWN_PLACE


def _judge_value(place: Place) -> Verdict:
    name = place.names[-1] if place.names else ""
    if _TOPOLOGY_KEY.search(name):
        return CSI_NODE if place.kind == "CSINode" else Verdict("rewrite", name)
    if name in _KEY_NAMES:
        return Verdict("rewrite", name)
    if name != "key":
        return UNKNOWN_PLACE
    for outer in reversed(place.names[:-1]):
        if outer in _NODE_TERMS or _NODE_SELECTOR.search(outer):
            return Verdict("rewrite", "node affinity" if outer in _NODE_TERMS else outer)
        if outer == "allowedTopologies" or (outer == "requirements" and place.kind in _KARPENTER):
            return Verdict("rewrite", outer)
        if outer in _SELECTORS:
            return _selector(outer, place.kind)
        if outer in ("tolerations", "taints", "startupTaints"):
            return TAINT
    return UNKNOWN_PLACE


def _selector(name: str, kind: str) -> Verdict:
    if name == "selector" and kind in _FIXED_SELECTORS:
        return Verdict("report", f"the selector of a {kind} is immutable, and the labels that it picks must match: create it anew")
    return Verdict("report", f"{name} picks objects by their own labels, not nodes: change both sides together")


def _labels(name: str, kind: str) -> Verdict:
    known = _LABELS_OF.get(kind) if name == "labels" else None
    return Verdict("report", known or f"{name} that an object carries: whoever selects on them must change with them")
