"""The labels that a cluster's nodes have today, as the policies that would declare them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Any, NamedTuple

from shared.domain.documents.kinds import API_VERSION
from shared.domain.keys import PROTECTED, key_error, reconciled, value_error
from shared.domain.labels.policies import KEEP_DOMAINS, KUBERNETES_DOMAINS, in_domains
from shared.domain.nodes import HULLMARK, Owner

POOLS = (
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "worker.gardener.cloud/pool",
    "node-role.kubernetes.io/control-plane",
)
"""Keys by which clouds, autoscalers and kubeadm know a pool of nodes: a policy that selects by one holds for the pool's next node too."""


class Labelled(NamedTuple):
    """A node: its labels, and which managers hold each."""

    name: str
    labels: Mapping[str, str]
    holders: Mapping[str, Iterable[str]]


class Inventory(NamedTuple):
    """The policies, the ones for most nodes first, and the keys that they leave out, each with why."""

    policies: list[dict[str, Any]]
    left_out: dict[str, str]


def inventory(nodes: Iterable[Labelled], cluster: str = "", owner: Owner = HULLMARK) -> Inventory:
    """What nodes have that kubelets, clouds and add-ons did not set: nodes with a label in common get one policy for all that they alone
    share. `cluster`: the only cluster that the policies are for; empty: every one.
    """
    listed = list(nodes)
    left_out = {key: why for node in listed for key, value in node.labels.items() if (why := _left_out(node, key, value, owner))}
    groups = sorted(_sharing(listed, left_out).items(), key=lambda each: (-len(each[0]), sorted(each[1].items())))
    everywhere, pools = frozenset(node.name for node in listed), dict(_pools(listed))
    named = zip(_names(labels for _, labels in groups), groups, strict=True)
    policies = [_policy(name, _selected(nodes, everywhere, pools), labels, cluster) for name, (nodes, labels) in named]
    return Inventory(policies, dict(sorted(left_out.items())))


def _sharing(nodes: Iterable[Labelled], left_out: Container[str]) -> Mapping[frozenset[str], Mapping[str, str]]:
    """By group of nodes, the labels that these nodes have and no other."""
    having: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in nodes:
        for key, value in node.labels.items():
            if key not in left_out:
                having[key, value].add(node.name)
    shared: dict[frozenset[str], dict[str, str]] = defaultdict(dict)
    for (key, value), names in sorted(having.items()):
        shared[frozenset(names)][key] = value
    return shared


def _left_out(node: Labelled, key: str, value: str, owner: Owner) -> str:
    """Why a key is nothing to declare, or empty. A key that is left out on one node is left out on all of them."""
    if key in PROTECTED:
        return "the kubelet or the cloud sets it"
    if why := reconciled(key):
        return why
    if in_domains(key, KUBERNETES_DOMAINS):
        return "Kubernetes and its add-ons set labels of this domain"
    if in_domains(key, KEEP_DOMAINS):
        return "a cloud, distribution or add-on sets labels of this domain"
    if owner.aliases in node.holders.get(key, ()):
        return "it is an alias, kept equal to its primary key"
    return key_error(key) or value_error(value) or ""


def _pools(nodes: Iterable[Labelled]) -> Iterator[tuple[frozenset[str], tuple[str, str]]]:
    """The pools of nodes, each with the label that only its nodes have; of several such labels the first of POOLS comes last and counts."""
    members: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in nodes:
        for key in POOLS:
            if (value := node.labels.get(key)) is not None and value_error(value) is None:
                members[key, value].add(node.name)
    for pool in sorted(members, key=lambda pool: -POOLS.index(pool[0])):
        yield frozenset(members[pool]), pool


def _selected(names: frozenset[str], everywhere: frozenset[str], pools: Mapping[frozenset[str], tuple[str, str]]) -> dict[str, Any]:
    """How a policy selects these nodes: all, by the label of their pool, or by name."""
    if names == everywhere:
        return {}
    if pool := pools.get(names):
        return {"matchLabels": dict([pool])}
    return {"names": sorted(names)}


def _names(groups: Iterable[Mapping[str, str]]) -> list[str]:
    """A name for each policy, from its first label: `pool-gpu`; told apart where two would have the same."""
    names: dict[str, None] = {}
    for labels in groups:
        key, value = next(iter(labels.items()))
        words = re.sub("[^a-z0-9]+", "-", f"{key.rpartition('/')[2]}-{value}".lower()).strip("-")
        free = (name for name in chain([words], (f"{words}-{number}" for number in count(2))) if name not in names)
        names[next(free)] = None
    return list(names)


def _policy(name: str, nodes: Mapping[str, Any], labels: Mapping[str, str], cluster: str) -> dict[str, Any]:
    where = {"clusters": [cluster]} if cluster else {}
    spec = {**where, "nodes": dict(nodes), "labels": dict(labels)}
    return {"apiVersion": API_VERSION, "kind": "NodeLabelPolicy", "metadata": {"name": name}, "spec": spec}
