"""Label keys, label values and node names: what Kubernetes accepts (apimachinery validate/content), and what is protected."""

from __future__ import annotations

import re
from functools import lru_cache

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""What a DNS subdomain looks like, but for its length of at most 253."""
_SUBDOMAIN = re.compile(SUBDOMAIN)

PROTECTED = frozenset(
    [
        *(f"kubernetes.io/{name}" for name in ("hostname", "os", "arch")),
        *(f"beta.kubernetes.io/{name}" for name in ("os", "arch", "instance-type")),
        *(f"node.kubernetes.io/{name}" for name in ("instance-type", "windows-build")),
        *(f"topology.kubernetes.io/{name}" for name in ("zone", "region")),
        *(f"failure-domain.beta.kubernetes.io/{name}" for name in ("zone", "region")),
    ]
)
"""Keys that the kubelet and the cloud controllers set: exactly these (docs/labels.md). The kubelet writes its own only when it
registers: a node that loses one stays without it."""


RECONCILED = (
    ("eks.amazonaws.com/", "EKS knows its node groups by it and sets it again: label the node group (`aws eks update-nodegroup-config`)"),
    ("alpha.eksctl.io/", "eksctl knows its node groups by it: label the node group in eksctl's configuration"),
    (
        "cloud.google.com/gke-",
        "GKE knows its node pools by it and sets it again: label the node pool (`gcloud container node-pools update`)",
    ),
    (
        "kubernetes.azure.com/",
        "AKS keeps this prefix for itself and sets it again: label the node pool (`az aks nodepool update --labels`)",
    ),
    ("karpenter.sh/", "Karpenter knows its nodes by it and replaces those that differ: label the NodePool's template"),
    ("karpenter.k8s.aws/", "Karpenter sets it from the instance it launched: choose instances by the NodePool's requirements"),
    ("karpenter.azure.com/", "Karpenter sets it from the instance it launched: choose instances by the NodePool's requirements"),
    ("worker.gardener.cloud/", "Gardener knows its worker pools by it and sets it again: label the Shoot's worker pool"),
)
"""Prefixes of keys by which a cloud or an autoscaler knows its own nodes, and what puts them back however often somebody else sets them."""


@lru_cache(maxsize=65_536)
def reconciled(key: str) -> str | None:
    """What to know before declaring this key, because a cloud or an autoscaler manages it; None for all others."""
    why = next((why for prefix, why in RECONCILED if key.startswith(prefix)), None)
    return why and f"{key} is contested: {why}"


@lru_cache(maxsize=65_536)
def key_error(key: str) -> str | None:
    """Why Kubernetes refuses this label key, or None. Lengths are bytes; nothing but ASCII passes, so they are characters too."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return "a label key has at most one /"
    if slash and not is_subdomain(prefix):
        return "a key's prefix is a DNS name: lower-case letters, digits, - and ., at most 253 bytes"
    if not 1 <= len(name) <= 63 or not _NAME.fullmatch(name):
        return "a key's name has 1 to 63 bytes of letters, digits, -, _ and ., and begins and ends with a letter or digit"
    return None


@lru_cache(maxsize=65_536)
def value_error(value: str) -> str | None:
    """Why Kubernetes refuses this label value, or None."""
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        return "a label value has at most 63 bytes of letters, digits, -, _ and ., and begins and ends with a letter or digit, or is empty"
    return None


def is_subdomain(name: str) -> bool:
    """Whether this is a DNS subdomain, as a key's prefix and a node's name must be. `..` or `a/b` in a path would mean something else."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def node_name(name: str) -> str:
    """The name itself, where a node may have it. Raises ValueError: it becomes part of URLs and of the store's keys."""
    if not is_subdomain(name):
        raise ValueError(f"{name[:80]!r} is not a valid node name: a DNS name of lower-case letters, digits, - and ., at most 253 bytes")
    return name
