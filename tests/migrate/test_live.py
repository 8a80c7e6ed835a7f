"""Live objects, read through a fake API server's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from local.workloads import live_objects
from shared.domain.manifests import Renamings, examine
from shared.ports import Refused, Unavailable


class Server:
    """Answers lists page by page; knows no other API than the ones it was given."""

    def __init__(self, lists: Mapping[str, Any]) -> None:
        self.lists = lists
        self.asked: list[tuple[str, dict[str, str]]] = []

    def __call__(self, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        self.asked.append((path, dict(query)))
        answer = self.lists.get(path, 404)
        if isinstance(answer, int):
            return answer, b'{"message": "no"}'
        page = int(query.get("continue", 0))
        kind, items = answer
        more = {"continue": str(page + 1)} if page + 1 < len(items) else {}
        return 200, json.dumps({"apiVersion": "apps/v1", "kind": f"{kind}List", "metadata": more, "items": items[page : page + 1]}).encode()


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


@pytest.mark.parametrize(("status", "error"), [(403, Refused), (401, Refused), (503, Unavailable)])
def test_a_list_that_is_refused_is_an_error_that_names_it(status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"prod.*/api/v1/pods"):
        list(live_objects("prod", Server({"/api/v1/pods": status})))
