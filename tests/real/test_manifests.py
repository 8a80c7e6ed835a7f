"""The manifests of examples/ are what a real API server takes, field by field, and their rights are enough and no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.steps import ROOT
from shared.adapters.apiserver import Access, ApiServer, StatusError
from shared.adapters.kubernetes import Kubernetes
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
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
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


RIGHTS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@contextmanager
def granted(kube: KubeApiserver, manifest: str, account: str) -> Iterator[ApiServer]:
    """An API server asked with the rights that a manifest gives to its ServiceAccount, and no others."""
    admin = ApiServer(kube.access)
    with suppress(StatusError):  # made by another test: a namespace does not go without its controller
        create(admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hullmark"}})
    with ExitStack() as made:
        for each in objects(Path(manifest)):
            if each["kind"] in RIGHTS:
                made.callback(admin.request, "DELETE", create(admin, each))
        yield ApiServer(lambda: impersonating(kube, f"system:serviceaccount:hullmark:{account}"))


def is_forbidden(server: ApiServer, method: str, path: str) -> bool:
    try:
        server.request(method, path, body=b"{}" if method == "PATCH" else b"", headers={"Content-Type": "application/merge-patch+json"})
    except StatusError as refused:
        return refused.code == 403
    return False


def impersonating(kube: KubeApiserver, user: str) -> Access:
    access = kube.access()
    return Access(access.server, ca=access.ca, authorization=access.authorization, headers={"Impersonate-User": user})


def test_the_forwarders_rights_are_enough_for_it_and_for_nothing_else(kube: KubeApiserver) -> None:
    with granted(kube, "examples/events/forwarder.yaml", "event-forwarder") as server:
        NodeWatch(server).list()
        lease = ClusterLease(server, "hullmark", "event-forwarder")
        stamp = "2026-11-22T00:00:00.000000Z"
        made = lease.write(Lease("a", 15, stamp, stamp))
        assert lease.write(Lease("b", 15, stamp, stamp, 1, made.version)).holder == "b"

        assert is_forbidden(server, "PATCH", "/api/v1/nodes/n1")
        assert is_forbidden(server, "GET", "/api/v1/pods")
        assert is_forbidden(server, "GET", "/api/v1/secrets")
        assert is_forbidden(server, "GET", "/apis/coordination.k8s.io/v1/namespaces/hullmark/leases/another")
        assert is_forbidden(server, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/event-forwarder")


def test_the_backfills_rights_are_enough_for_it_and_for_nothing_else(kube: KubeApiserver) -> None:
    with granted(kube, "examples/pod-binding/backfill.yaml", "pod-backfill") as server:
        cluster = Kubernetes(lambda: impersonating(kube, "system:serviceaccount:hullmark:pod-backfill"))
        list(cluster.nodes())
        list(cluster.pods())
        assert not is_forbidden(server, "PATCH", "/api/v1/namespaces/default/pods/nobody")

        assert is_forbidden(server, "PATCH", "/api/v1/nodes/n1")
        assert is_forbidden(server, "DELETE", "/api/v1/namespaces/default/pods/nobody")
        assert is_forbidden(server, "GET", "/api/v1/secrets")
