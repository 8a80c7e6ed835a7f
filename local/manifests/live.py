"""The objects of a live cluster that may select nodes, as `kubectl get KIND NAME -o json` shows them. Read only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from shared.adapters.apiserver import ApiServer, StatusError
from shared.adapters.kubeconfig import from_kubeconfig

PAGE = 500

RESOURCES = (
    "/api/v1/pods",
    "/api/v1/replicationcontrollers",
    "/api/v1/podtemplates",
    "/api/v1/persistentvolumes",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/jobs",
    "/apis/batch/v1/cronjobs",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/serving.knative.dev/v1/services",
    "/apis/karpenter.sh/v1/nodepools",
)
"""What is asked for; a cluster without one of the APIs answers 404, and it is passed by."""


class Server(Protocol):
    """Reads one path of an API server. Raises StatusError, Refused and Unavailable."""

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> bytes: ...


def live_objects(context: str, server: Server | None = None, kubeconfig: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield (`CONTEXT:KIND/NAMESPACE/NAME`, JSON) of every object that no controller owns; owned ones follow their owners.

    The JSON is laid out as `kubectl get -o json` does it, so that lines and columns can be looked up there. Raises Refused and Unavailable.
    """
    server = server or ApiServer(lambda: from_kubeconfig(kubeconfig, context))
    for path in RESOURCES:
        for listing, item in _listed(server, path):
            metadata = item.get("metadata", {})
            if any(owner.get("controller") for owner in metadata.get("ownerReferences", [])):
                continue
            metadata.pop("managedFields", None)
            kind = str(listing["kind"]).removesuffix("List")
            whole = {"apiVersion": listing["apiVersion"], "kind": kind, **item}
            where = "/".join(filter(None, (kind, metadata.get("namespace"), metadata.get("name"))))
            yield f"{context}:{where}", json.dumps(whole, indent=4, sort_keys=True, ensure_ascii=False).encode()


def _listed(server: Server, path: str) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Yield every item of a list in pages, each with the page that it came in."""
    query = {"limit": str(PAGE)}
    while True:
        try:
            page = json.loads(server.request("GET", path, query))
        except StatusError as rejected:
            if rejected.code == 404:
                return
            raise rejected.refused() from rejected
        for item in page.get("items") or []:
            yield page, item
        following = page.get("metadata", {}).get("continue")
        if not following:
            return
        query = {"limit": str(PAGE), "continue": following}
