"""Pools of nodes that a cloud manages: EKS' node groups and GKE's node pools, which give labels to their nodes themselves. Pure.

Which field manager a cloud writes with is documented nowhere, so ownership is judged by what is known: the kubelet sets a label when its
node registers, from what the pool says (`--node-labels`), and `vpcLambda` is the client of EKS' node groups, by whose name their other
writes (the ConfigMap `aws-auth`) are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.domain.keys import PROTECTED, reconciled


@dataclass(frozen=True, slots=True)
class PoolKind:
    """What a cloud calls a pool, the label by which its nodes name it, its `--format`, and who brings its labels to nodes."""

    title: str
    key: str
    form: str
    managers: frozenset[str]


EKS_POOL = PoolKind("EKS node group", "eks.amazonaws.com/nodegroup", "eks-nodegroup", frozenset(["kubelet", "vpcLambda"]))
GKE_POOL = PoolKind("GKE node pool", "cloud.google.com/gke-nodepool", "gke-nodepool", frozenset(["kubelet"]))
POOL_KINDS = (EKS_POOL, GKE_POOL)


def from_pool(holders: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Which of these keys a node has from its managed pool, and where to declare them, in words; empty where none.

    `holders`: the field managers of each key, separated by commas. `labels`: the node's.
    """
    kind = next((kind for kind in POOL_KINDS if labels.get(kind.key)), None)
    if kind is None:
        return ""
    keys = sorted(key for key, managers in holders.items() if _sets(kind, key, managers.split(", ")))
    if not keys:
        return ""
    pool = labels[kind.key]
    there = f"change it on the pool (`hullmark pools apply --pool {pool}`), or leave it out of the documents"
    return f"{', '.join(keys)}: the {kind.title} {pool} gives it to its nodes; {there}"


def _sets(kind: PoolKind, key: str, managers: Iterable[str]) -> bool:
    """Whether a pool of this kind can have set a key that these managers hold: nothing that kubelets and clouds set by themselves."""
    return not kind.managers.isdisjoint(managers) and key not in PROTECTED and not reconciled(key)


@dataclass(frozen=True, slots=True)
class PoolLabels:
    """The labels that a pool gives its nodes. `version`: what an update is based on, where the cloud has such a thing."""

    name: str
    labels: Mapping[str, str]
    version: str = ""


@dataclass(frozen=True, slots=True)
class PoolChange:
    """What an update of a pool's labels sets and removes; everything else stays."""

    set: Mapping[str, str]
    remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.set or self.remove)


def pool_change(pool: PoolLabels, wanted: Mapping[str, str], given_up: Iterable[str] = ()) -> PoolChange:
    """What makes a pool give the wanted labels, and no longer those that are given up."""
    differing = {key: value for key, value in sorted(wanted.items()) if pool.labels.get(key) != value}
    return PoolChange(differing, tuple(sorted(key for key in set(given_up) if key in pool.labels and key not in wanted)))
