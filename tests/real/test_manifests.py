"""The manifests of examples/ are what a real API server takes, field by field, and their rights are enough and no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.steps import ROOT
from shared.adapters.apiserver import Access, ApiServer, StatusError
from shared.adapters.kubernetes_lease import ClusterLease
from shared.adapters.kubernetes_watch import NodeWatch
from shared.domain.leases import Lease
from tests.kube_apiserver import KubeApiserver

pytestmark = pytest.mark.real
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}
OTHERS = ("cert-manager.io/v1", "sources.knative.dev/v1")
"""Of controllers that are not here: only that they are written as their own documentation has it."""
MANIFESTS = sorted(path.relative_to(ROOT) for folder in ("events", "pod-binding") for path in (ROOT / "examples" / folder).glob("*.yaml"))


def objects(manifest: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((ROOT / manifest).read_text()) if each["apiVersion"] != "hullmark.dev/v1"]


def create(server: ApiServer, each: dict[str, Any], namespace: str = "", **query: str) -> str:
    """Create one object, in another namespace where one is given; its path."""
    metadata = each["metadata"] | ({"namespace": namespace} if namespace and "namespace" in each["metadata"] else {})
    collection = COLLECTIONS[each["kind"]].format(metadata.get("namespace", ""))
    body = yaml.safe_dump(each | {"metadata": metadata}).encode()
    server.request("POST", collection, {"fieldValidation": "Strict", **query}, body, {"Content-Type": "application/yaml"})
    return f"{collection}/{metadata['name']}"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=str)
def test_every_object_is_one_that_the_api_server_takes(kube: KubeApiserver, manifest: Path) -> None:
    server = ApiServer(kube.access)
    for each in objects(manifest):
        if each["apiVersion"] not in OTHERS:
            create(server, each, "default", dryRun="All")


@pytest.fixture
def as_forwarder(kube: KubeApiserver) -> Iterator[ApiServer]:
    """An API server asked with the rights of the forwarder's ServiceAccount, and no others."""
    admin = ApiServer(kube.access)
    with ExitStack() as made:
        for each in objects(Path("examples/events/forwarder.yaml")):
            if each["kind"] in ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
                made.callback(admin.request, "DELETE", create(admin, each))
        yield ApiServer(lambda: impersonating(kube, "system:serviceaccount:hullmark:event-forwarder"))


def impersonating(kube: KubeApiserver, user: str) -> Access:
    access = kube.access()
    return Access(access.server, ca=access.ca, authorization=access.authorization, headers={"Impersonate-User": user})


def test_the_forwarders_rights_are_enough_for_it_and_for_nothing_else(as_forwarder: ApiServer) -> None:
    NodeWatch(as_forwarder).list()
    lease = ClusterLease(as_forwarder, "hullmark", "event-forwarder")
    stamp = "2026-11-22T00:00:00.000000Z"
    made = lease.write(Lease("a", 15, stamp, stamp))
    assert lease.write(Lease("b", 15, stamp, stamp, 1, made.version)).holder == "b"

    for method, path in (
        ("PATCH", "/api/v1/nodes/n1"),
        ("GET", "/api/v1/pods"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/hullmark/leases/another"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/event-forwarder"),
    ):
        with pytest.raises(StatusError) as refused:
            as_forwarder.request(
                method, path, body=b"{}" if method == "PATCH" else b"", headers={"Content-Type": "application/merge-patch+json"}
            )
        assert refused.value.code == 403, path
