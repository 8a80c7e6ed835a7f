"""Live objects, read through a fake API server's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from local.cli import main
from local.manifests.live import live_objects
from shared.adapters.apiserver import ApiServer, ApiStatus, StatusError
from shared.domain.manifests.findings import Renamings, examine
from shared.ports import Refused
from tests.kube_apiserver import KubeApiserver


class Server:
    """Answers lists page by page; knows no other API than the ones it was given."""

    def __init__(self, lists: Mapping[str, Any]) -> None:
        self.lists = lists
        self.asked: list[tuple[str, dict[str, str]]] = []

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> bytes:
        query = query or {}
        self.asked.append((path, dict(query)))
        answer = self.lists.get(path, 404)
        if isinstance(answer, int):
            raise StatusError(answer, ApiStatus(message="no"), f"{method} {path}")
        page = int(query.get("continue", 0))
        kind, items = answer
        more = {"continue": str(page + 1)} if page + 1 < len(items) else {}
        return json.dumps({"apiVersion": "apps/v1", "kind": f"{kind}List", "metadata": more, "items": items[page : page + 1]}).encode()


def deployment(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}
    return {"metadata": {"name": name, "namespace": "shop", "managedFields": [{"f:beta.kubernetes.io/os": {}}], **metadata}, "spec": spec}


def test_every_page_of_every_kind_is_read_and_named_as_people_name_it() -> None:
    server = Server({"/apis/apps/v1/deployments": ("Deployment", [deployment("a"), deployment("b")])})

    found = dict(live_objects("prod", server))

    assert list(found) == ["prod:Deployment/shop/a", "prod:Deployment/shop/b"]
    assert [f.old for f in examine(found["prod:Deployment/shop/a"], Renamings.of()).findings] == ["beta.kubernetes.io/os"]


def test_the_finding_stands_where_kubectl_get_shows_it() -> None:
    server = Server({"/apis/apps/v1/deployments": ("Deployment", [deployment("a")])})

    ((_, data),) = live_objects("prod", server)
    (finding,) = examine(data, Renamings.of()).findings

    assert data.decode().splitlines()[finding.line - 1][finding.column - 1 :] == 'beta.kubernetes.io/os": "linux"'
    assert b"managedFields" not in data


def test_what_a_controller_made_follows_its_owner_and_is_not_told_twice() -> None:
    owned = deployment("a-5d9", ownerReferences=[{"kind": "Deployment", "controller": True}])

    assert list(live_objects("prod", Server({"/apis/apps/v1/replicasets": ("ReplicaSet", [owned])}))) == []


def test_a_list_that_is_refused_is_an_error_that_names_it() -> None:
    with pytest.raises(Refused, match="/api/v1/pods"):
        list(live_objects("prod", Server({"/api/v1/pods": 403})))


@pytest.mark.real
def test_a_real_cluster_is_read_through_its_kubeconfig_context(
    kube: KubeApiserver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [{"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "migrate-live"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": nodes}},
        },
    }
    server = ApiServer(kube.access)
    server.request("POST", "/api/v1/persistentvolumes", body=json.dumps(volume).encode(), headers={"Content-Type": "application/json"})
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig()))

    with pytest.raises(SystemExit) as ending:
        main(["migrate", "--context", "admin", "-o", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]

    assert (ending.value.code, finding["file"]) == (2, "admin:PersistentVolume/migrate-live")

    # What the finding says about volumes holds on this server: the GA key is taken in place, any other change is not.
    path = "/api/v1/persistentvolumes/migrate-live"
    change = json.dumps({"spec": volume["spec"]})
    patch = {"Content-Type": "application/merge-patch+json"}
    server.request("PATCH", path, body=change.replace("failure-domain.beta", "topology").encode(), headers=patch)
    with pytest.raises(StatusError, match="immutable"):
        server.request("PATCH", path, body=change.replace("failure-domain.beta.kubernetes.io", "example.com").encode(), headers=patch)
