"""The objects of a live cluster that may select nodes, as `kubectl get KIND NAME -o json` shows them. Read only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from shared.ports import Refused, Unavailable

PAGE = 500

RESOURCES: tuple[tuple[str, str], ...] = (
    ("/api/v1", "pods"),
    ("/api/v1", "replicationcontrollers"),
    ("/api/v1", "podtemplates"),
    ("/api/v1", "persistentvolumes"),
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "daemonsets"),
    ("/apis/apps/v1", "statefulsets"),
    ("/apis/apps/v1", "replicasets"),
    ("/apis/batch/v1", "jobs"),
    ("/apis/batch/v1", "cronjobs"),
    ("/apis/storage.k8s.io/v1", "storageclasses"),
    ("/apis/serving.knative.dev/v1", "services"),
    ("/apis/karpenter.sh/v1", "nodepools"),
)
"""What is asked for; a cluster without one of the APIs answers 404, and it is passed by."""


class Reader(Protocol):
    """GET of one path at an API server: status and body. The official client's `ApiClient`, or a fake."""

    def __call__(self, path: str, query: Mapping[str, str]) -> tuple[int, bytes]: ...


def reader(context: str) -> Reader:
    """Read the cluster of a kubeconfig context (KUBECONFIG, else ~/.kube/config). Raises Refused."""
    from kubernetes import config
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        client = config.new_client_from_config(context=context or None)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise Refused("Kubeconfig", f"kubeconfig context {context}: {error}") from error

    def get(path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            answer = client.call_api(
                path,
                "GET",
                query_params=list(query.items()),
                header_params={"Accept": "application/json"},
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=(5, 60),
            )
        except ApiException as error:
            return int(error.status or 0), (error.body or "").encode() if isinstance(error.body, str) else error.body or b""
        except HTTPError as error:
            raise Unavailable(f"{context}: {error}") from error
        return int(answer.status), answer.data

    return get


def live_objects(context: str, get: Reader | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield (`CONTEXT:KIND/NAMESPACE/NAME`, JSON) of every object that nobody owns; owned ones follow their owners.

    The JSON is laid out as `kubectl get -o json` does it, so that lines and columns can be looked up there. Raises Refused and Unavailable.
    """
    get = get or reader(context)
    for api, resource in RESOURCES:
        for listed, item in _listed(get, context, f"{api}/{resource}"):
            metadata = item.get("metadata", {})
            if any(owner.get("controller") for owner in metadata.get("ownerReferences", [])):
                continue
            metadata.pop("managedFields", None)
            kind = str(listed["kind"]).removesuffix("List")
            whole = {"apiVersion": listed["apiVersion"], "kind": kind, **item}
            where = "/".join(filter(None, (kind, metadata.get("namespace"), metadata.get("name"))))
            yield f"{context}:{where}", json.dumps(whole, indent=4, sort_keys=True, ensure_ascii=False).encode()


def _listed(get: Reader, context: str, path: str) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Yield every item of a list in pages, each with the list that it came in."""
    query = {"limit": str(PAGE)}
    while True:
        status, body = get(path, query)
        if status == 404:
            return
        if status in (401, 403):
            raise Refused("Forbidden", f"{context}: not allowed to list {path}: {body[:300].decode(errors='replace')}")
        if status != 200:
            raise Unavailable(f"{context}: GET {path} answered {status}: {body[:300].decode(errors='replace')}")
        page = json.loads(body)
        for item in page.get("items") or []:
            yield page, item
        following = page.get("metadata", {}).get("continue")
        if not following:
            return
        query = {"limit": str(PAGE), "continue": following}
