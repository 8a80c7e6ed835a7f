"""The MutatingWebhookConfiguration that calls pod_binding: made so that scheduling never depends on it, and judged by the same table."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from shared.domain.documents import PodLabelPolicySpec
from shared.domain.pods import holds

NAME = "hullmark-pod-topology"
WEBHOOK = "pod-topology.hullmark.dev"
TIMEOUT_SECONDS = 2
LONGEST_SECONDS = 3
"""Above this a webhook that hangs is felt: every binding, and with it the scheduler's queue, waits so long."""
NAMESPACE_KEY = "kubernetes.io/metadata.name"
"""The label that the API server itself puts on every namespace."""
GATE = "PodTopologyLabelsAdmission"
IN_TREE = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""What Kubernetes' own plugin copies where the gate is on (KUBE.md §4.1)."""
RESOURCES: Mapping[str, str] = {
    "pods/binding": "pods that a scheduler binds get nothing",
    "bindings": "pods bound by the legacy `POST …/bindings` get nothing: no other rule and no plugin sees them",
    "pods": "pods created with a node name (static pods' mirrors, some operators) get nothing",
}
"""What has to be watched on CREATE, and who goes without where it isn't."""
ONLY_PLACED = "request.resource.resource != 'pods' || request.subResource == 'binding' || has(object.spec.nodeName)"
"""CEL: a pod that waits for a scheduler costs no call."""

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """Where the API server finds the function: a URL, or a service (`namespace/name`, port), with the PEM of the CA that signed it."""

    url: str = ""
    service: str = ""
    port: int = 443
    path: str = "/"
    ca: str = ""
    cert_manager: str = ""
    """`namespace/name` of a cert-manager Certificate that fills the CA in, instead of `ca`."""

    def problems(self) -> list[str]:
        """What the API server or TLS would refuse later, silently."""
        found = []
        if bool(self.url) == bool(self.service):
            found.append("give --url or --service, one of them")
        url = urlsplit(self.url)
        if self.url and (url.scheme != "https" or not url.hostname or url.query or url.fragment or url.username):
            found.append(f"--url {self.url}: the API server takes https://host[:port][/path], without user, query and fragment")
        if self.service and not re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", self.service):
            found.append(f"--service {self.service}: namespace/name[:port]")
        if self.service and not (self.ca or self.cert_manager):
            found.append("--service needs --ca-file (or --cert-manager): no public CA signs names of services, every call would fail")
        if self.ca and ("-----BEGIN CERTIFICATE-----" not in self.ca or "PRIVATE KEY" in self.ca):
            found.append("--ca-file: a PEM file of certificates, and of nothing else, is wanted")
        return found

    def config(self) -> dict[str, Any]:
        """`clientConfig`."""
        bundle = {"caBundle": base64.b64encode(self.ca.encode()).decode()} if self.ca else {}
        if self.url:
            return {"url": self.url, **bundle}
        namespace, name = self.service.split("/")
        return {"service": {"namespace": namespace, "name": name, "port": self.port, "path": self.path}, **bundle}


def manifest(client: Client, policies: Sequence[PodLabelPolicySpec] = (), *, conditions: bool = True) -> dict[str, Any]:
    """The configuration to apply. Namespaces that no policy means are left out, and the one that the service itself runs in.

    `conditions`: whether the server knows matchConditions (1.28).
    """
    expressions = _namespaces(policies, client.service.partition("/")[0])
    annotations = {"annotations": {"cert-manager.io/inject-ca-from": client.cert_manager}} if client.cert_manager else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "hullmark"}, **annotations},
        "webhooks": [
            {
                "name": WEBHOOK,
                "admissionReviewVersions": ["v1"],
                "clientConfig": client.config(),
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "reinvocationPolicy": "IfNeeded",
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
                "namespaceSelector": {"matchExpressions": expressions} if expressions else {},
                **({"matchConditions": [{"name": "only-placed-pods", "expression": ONLY_PLACED}]} if conditions else {}),
                "rules": [
                    {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [*RESOURCES], "scope": "Namespaced"}
                ],
            }
        ],
    }


def _namespaces(policies: Sequence[PodLabelPolicySpec], home: str) -> list[dict[str, Any]]:
    """The selector's expressions for the namespaces that any enabled policy means."""
    enabled = [policy for policy in policies if policy.enabled]
    named = {name for p in enabled for name in (*(p.namespaces.include or ()), *(p.namespaces.exclude or ()))}
    meant = {name for name in named if any(holds(p.namespaces, name) for p in enabled)}
    if enabled and all(p.namespaces.include for p in enabled):
        return [{"key": NAMESPACE_KEY, "operator": "In", "values": sorted(meant)}]
    left_out = (named - meant) | ({home} - meant - {""})
    return [{"key": NAMESPACE_KEY, "operator": "NotIn", "values": sorted(left_out)}] if left_out else []
