"""What a node template has to say, so that nodes which do not exist yet have their labels: for the systems that make nodes. Pure.

A template is known by the labels that it gives its nodes already (`pool=gpu`): by them policies select it, as they select a node. Each
system takes other keys; what it would refuse is left out and said, and Hullmark brings it when the node is there.

Rules: KEP-279 and the NodeRestriction admission plugin (kubelet), Karpenter's pkg/apis/v1/labels.go, the shapes of EKS' CreateNodegroup
and of GKE's NodeConfig.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from shared.domain.labels.policies import DeclaredLabels, Policies, PolicyConflict, declare, in_domains
from shared.domain.nodes import Node, Taint

Format = Literal["karpenter", "eks-nodegroup", "gke-nodepool", "kubelet"]
FORMATS: tuple[Format, ...] = get_args(Format)
KUBELETS_OWN = frozenset(
    [
        *(f"kubernetes.io/{name}" for name in ("hostname", "os", "arch")),
        *(f"beta.kubernetes.io/{name}" for name in ("os", "arch", "instance-type")),
        "node.kubernetes.io/instance-type",
        *(f"{domain}.kubernetes.io/{name}" for domain in ("topology", "failure-domain.beta") for name in ("zone", "region")),
    ]
)
"""Keys of Kubernetes' domains that a kubelet may set on its node."""
KUBELETS_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Domains of Kubernetes' of which a kubelet may set every key, and of those below them."""
KARPENTERS_EXCEPTIONS = ("node-restriction.kubernetes.io", "node-role.kubernetes.io", "kops.k8s.io", "node.kubernetes.io")
EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}
"""The clouds' words for the effects of taints."""
EKS_BYTES = 63
"""What EKS takes as a label's or taint's key, domain and all, and as a value, which may not be empty for a label."""


@dataclass(frozen=True, slots=True)
class Template:
    """A pool of nodes: what its template has to give, and what it can't, each with the reason."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


def template(name: str, own: Mapping[str, str], policies: Policies, cluster: str, form: Format) -> Template | PolicyConflict:
    """The template of a pool whose nodes have these labels of their own, in what a format takes."""
    live = Node("", "", dict(own), owners=dict.fromkeys(own, ("kubelet",)))
    declared = declare("", None, live, policies, cluster)  # no node's name: a policy may name a node that is called as the pool is
    if isinstance(declared, PolicyConflict):
        return declared
    return _fitting(name, declared, own, _REFUSALS[form])


def _fitting(name: str, declared: DeclaredLabels, own: Mapping[str, str], refusal: Callable[[str, str], str]) -> Template:
    labels = dict(sorted({**own, **declared.labels}.items()))
    left_out = {key: why for key, value in labels.items() if (why := refusal(key, value))}
    kept = {key: value for key, value in labels.items() if key not in left_out}
    taints = tuple(taint for taint in declared.until if not (why := _taint_refused(taint, refusal, left_out)))
    return Template(name, kept, taints, left_out)


def _taint_refused(taint: Taint, refusal: Callable[[str, str], str], left_out: dict[str, str]) -> str:
    """Only EKS refuses a taint: its key and value may be no longer than a label's."""
    why = "EKS takes keys of at most 63 bytes" if refusal is _no_eks and len(taint.key) > EKS_BYTES else ""
    if why:
        left_out[f"taint {taint}"] = why
    return why


def _no_kubelet(key: str, _: str) -> str:
    if in_domains(key, ("node-restriction.kubernetes.io",)):
        return "NodeRestriction lets no kubelet set it"
    if key in KUBELETS_OWN or in_domains(key, KUBELETS_DOMAINS) or not in_domains(key, ("kubernetes.io", "k8s.io")):
        return ""
    return "kubelets set no other keys of kubernetes.io and k8s.io, and refuse to start with them"


def _no_karpenter(key: str, _: str) -> str:
    if in_domains(key, ("karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com")):
        return "Karpenter keeps the domain for itself"
    if key == "kubernetes.io/hostname":
        return "Karpenter refuses it: every node has its own"
    if key in KUBELETS_OWN or in_domains(key, KARPENTERS_EXCEPTIONS) or not in_domains(key, ("kubernetes.io", "k8s.io")):
        return ""
    return "Karpenter refuses keys of kubernetes.io and k8s.io"


def _no_eks(key: str, value: str) -> str:
    if in_domains(key, ("eks.amazonaws.com",)):
        return "EKS keeps the domain for itself"
    if len(key) > EKS_BYTES:
        return f"EKS takes keys of at most {EKS_BYTES} bytes, domain and all"
    return _no_kubelet(key, value) or ("" if value else "EKS takes no empty value")


def _no_gke(key: str, value: str) -> str:
    if in_domains(key, ("cloud.google.com", "gke.io")):
        return "GKE keeps the domain for itself"
    return _no_kubelet(key, value)


_REFUSALS: Mapping[Format, Callable[[str, str], str]] = {
    "karpenter": _no_karpenter,
    "eks-nodegroup": _no_eks,
    "gke-nodepool": _no_gke,
    "kubelet": _no_kubelet,
}


def rendered(template: Template, form: Format) -> str:
    """The template as a file: the same template is the same bytes."""
    return _FORMS[form](template)


def _kubelet(template: Template) -> str:
    return "".join(f"{flag}\n" for flag in _flags(template))


def _flags(template: Template) -> Iterator[str]:
    if template.labels:
        yield "--node-labels=" + ",".join(f"{key}={value}" for key, value in template.labels.items())
    if template.taints:
        yield "--register-with-taints=" + ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in template.taints)


def _karpenter(template: Template) -> str:
    """The part of a NodePool that says what its nodes have; a strategic or JSON merge with the rest makes it whole."""
    metadata = {"metadata": {"labels": dict(template.labels)}} if template.labels else {}
    startup = {"spec": {"startupTaints": [_taint(taint, taint.effect) for taint in template.taints]}} if template.taints else {}
    return _json(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": template.name},
            "spec": {"template": {**metadata, **startup}},
        }
    )


def _eks(template: Template) -> str:
    """For `aws eks create-nodegroup --cli-input-json`."""
    taints = [_taint(taint, EFFECTS[taint.effect]) for taint in template.taints]
    return _json({"nodegroupName": template.name, "labels": dict(template.labels), "taints": taints})


def _gke(template: Template) -> str:
    """A NodePool as GKE's API takes it (`nodePools.create`, Terraform's `node_config`)."""
    taints = [{"key": taint.key, "value": taint.value, "effect": EFFECTS[taint.effect]} for taint in template.taints]
    return _json({"name": template.name, "config": {"labels": dict(template.labels), "taints": taints}})


def _taint(taint: Taint, effect: str) -> dict[str, str]:
    return {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": effect}


def _json(body: Mapping[str, object]) -> str:
    """JSON, which every reader of YAML takes too."""
    return json.dumps(body, indent=2) + "\n"


_FORMS: Mapping[Format, Callable[[Template], str]] = {
    "karpenter": _karpenter,
    "eks-nodegroup": _eks,
    "gke-nodepool": _gke,
    "kubelet": _kubelet,
}
