"""Startup taints: kubelets register with one, and it goes once the labels are there that pods are placed by (docs/first-pod.md). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from shared.domain.documents.kinds import did_you_mean
from shared.domain.keys import key_error, value_error
from shared.domain.nodes import Node, Taint

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REMEMBERED = 20
"""Revisions for which a taint counts as a startup taint after the last one that named it: node templates change later than documents."""
OTHERS = (
    ("node.kubernetes.io/", "the node lifecycle controller and kubelets put it on and take it off by a node's conditions"),
    ("node.cloudprovider.kubernetes.io/", "the cloud controller manager takes it off when it has initialised the node"),
    ("node-role.kubernetes.io/", "it keeps pods off control planes for as long as they are control planes"),
    ("cloud.google.com/", "GKE puts it on nodes of its own kinds and takes it off"),
    ("eks.amazonaws.com/", "EKS puts it on nodes of its own kinds"),
    ("kubernetes.azure.com/", "AKS puts it on nodes of its own kinds"),
    ("karpenter.sh/", "Karpenter puts it on nodes that register or end"),
    ("ToBeDeletedByClusterAutoscaler", "the cluster autoscaler puts it on nodes that it removes"),
    ("DeletionCandidateOfClusterAutoscaler", "the cluster autoscaler puts it on nodes that it may remove"),
    ("node.cluster.x-k8s.io/", "Cluster API takes it off"),
    ("node.gardener.cloud/", "Gardener takes it off"),
    ("node.cilium.io/", "Cilium takes it off when its agent runs"),
)
"""Keys and prefixes of taints that somebody else takes off, and who: nobody else may, or what they wait for is not waited for."""


def taint_error(taint: Taint) -> tuple[str, str] | None:
    """Why this can't be a startup taint: the field that is wrong, and what to do. None where it can."""
    if reason := key_error(taint.key):
        return "key", f"`{taint.key[:80]}` is no taint's key: {reason}"
    if owner := next((why for start, why in OTHERS if taint.key.startswith(start)), None):
        return "key", f"{taint.key} is not yours to take off: {owner}; choose a key of your own, such as hullmark.dev/unlabelled"
    if taint.effect not in EFFECTS:
        return "effect", f"`{taint.effect[:80]}` is not one of {', '.join(EFFECTS)}{did_you_mean(taint.effect, EFFECTS)}"
    if reason := value_error(taint.value):
        return "value", reason.replace("a label value", "a taint's value")
    return None


def due(wanted: Iterable[Taint], live: Node) -> tuple[Taint, ...]:
    """Those startup taints of its release that a node holds and that may go; none where a field manager applies the node's taints."""
    return () if live.taints_applied_by else tuple(taint for taint in sorted(set(wanted)) if taint in (live.taints or ()))


def stays(wanted: Collection[Taint], known: Collection[Taint], live: Node) -> str:
    """Which startup taints stay on a node although its labels are there, why, and what to do, in words; empty where none does.

    `wanted`: those that its release names. `known`: every taint that counts as one (see `remembered`).
    """
    words: list[str] = []
    for taint in live.taints or ():
        alike = [each for each in (*wanted, *known) if (each.key, each.effect) == (taint.key, taint.effect)]
        if taint in wanted and live.taints_applied_by:
            who = ", ".join(live.taints_applied_by)
            words.append(f"the startup taint {taint} stays: {who} applies the node's taints and would put it back; take it out there")
        elif taint in known and taint not in wanted:
            words.append(f"the startup taint {taint} stays: nothing that is released to the node names it")
        elif alike and taint not in wanted:
            words.append(f"the taint {taint} stays: documents name {alike[0]} as a startup taint, and the values differ")
    return "; ".join(words)


def remembered(before: Mapping[str, int], named: Iterable[Taint], number: int) -> dict[str, int]:
    """Each taint that counts as a startup taint from revision `number` on, as text, with the newest revision that named it."""
    kept = {text: last for text, last in before.items() if number - last < REMEMBERED}
    return dict(sorted((kept | {text_of(taint): number for taint in named}).items()))


def text_of(taint: Taint) -> str:
    """A taint as one text, for `taint_of`."""
    return "|".join(taint)


def taint_of(text: str) -> Taint:
    """What `text_of` wrote."""
    key, effect, value = text.split("|")
    return Taint(key, effect, value)
