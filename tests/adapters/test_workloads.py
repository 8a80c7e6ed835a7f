"""How the pods of a real cluster are read: which count, and by how many requests. What both clusters promise is in test_clusters.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.adapters.kubernetes import Kubernetes
from shared.adapters.kubernetes_tables import available, statuses, tables
from shared.ports import Refused, Unavailable
from tests.kube_apiserver import running_status

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_pods_are_listed_page_by_page_or_node_by_node_whichever_takes_fewer_requests(
    real_cluster: Kubernetes, real_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.adapters.kubernetes.PAGE", 2)
    for number in range(5):
        real_fleet.create(f"n{number}", ready=True)
        real_fleet.set_daemon_set(f"n{number}", "kube-system/cni", number != 3)
    real_fleet.set_unschedulable("default", 5)
    status = {"currentNumberScheduled": 5, "desiredNumberScheduled": 5, "numberMisscheduled": 0, "numberReady": 4}
    kind, body = {"Content-Type": "application/merge-patch+json"}, json.dumps({"status": status}).encode()
    real_fleet._request("PATCH", "/apis/apps/v1/namespaces/kube-system/daemonsets/cni/status", {}, body, kind)
    asked = _watched_requests(real_cluster, monkeypatch)
    assert real_cluster.daemon_sets([f"n{number}" for number in range(5)]) == {"kube-system/cni": {"n0", "n1", "n2", "n4"}}
    assert len(asked) == 1 + 3
    asked.clear()
    assert real_cluster.daemon_sets(["n1", "n3"]) == {"kube-system/cni": {"n1"}}
    assert [query.get("fieldSelector") for query in asked[1:]] == ["spec.nodeName=n1", "spec.nodeName=n3"]
    asked.clear()
    assert real_cluster.unschedulable() == {"default": 5}
    assert len(asked) >= 3


def _watched_requests(cluster: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """The queries of the requests that a cluster is asked from now on."""
    asked: list[Mapping[str, str]] = []
    request = cluster.server.request

    def watched(method: str, path: str, query: Mapping[str, str] | None = None, *rest: Any, **named: Any) -> bytes:
        asked.append(query or {})
        return request(method, path, query, *rest, **named)

    monkeypatch.setattr(cluster.server, "request", watched)
    return asked


@pytest.mark.real
def test_a_pod_is_available_with_every_container_and_gate_and_is_its_daemon_sets_own(real_cluster: Kubernetes, real_fleet: Any) -> None:
    real_fleet.create("n1", ready=True)
    real_fleet.set_daemon_set("n1", "default/cni", False)
    labels = {"name": "cni"}
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "main:1"}]}
    for name in ("cni-web-7d9c8-abcde", "web-abcde"):  # a Deployment's, whose labels the selector means too
        real_fleet.post("/api/v1/namespaces/default/pods", {"metadata": {"name": name, "labels": labels}, "spec": spec})
        real_fleet.set_pod("default", name, running_status(True))
    assert real_cluster.daemon_sets(["n1"]) == {"default/cni": set()}
    gated = {"name": "cni-abcde", "labels": labels}
    gates = {"readinessGates": [{"conditionType": "example.com/up"}]}
    real_fleet.post("/api/v1/namespaces/default/pods", {"metadata": gated, "spec": spec | gates})
    real_fleet.set_pod("default", "cni-abcde", running_status(True))
    assert real_cluster.daemon_sets(["n1"]) == {"default/cni": set()}
    running = running_status(True)
    running["conditions"].append({"type": "example.com/up", "status": "True"})
    real_fleet.set_pod("default", "cni-abcde", running)
    assert real_cluster.daemon_sets(["n1"]) == {"default/cni": {"n1"}}


@pytest.mark.real
def test_every_kind_of_selector_of_a_daemon_set_is_understood(real_cluster: Kubernetes, real_fleet: Any) -> None:
    real_fleet.create("n1", ready=True)
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "tier", "operator": "NotIn", "values": ["c"]},
        {"key": "app", "operator": "Exists"},
        {"key": "debug", "operator": "DoesNotExist"},
    ]
    labels = {"tier": "a", "app": "cni", "app.kubernetes.io/name": "cni"}
    selector = {"matchLabels": {"app.kubernetes.io/name": "cni"}, "matchExpressions": expressions}
    containers = {"containers": [{"name": "main", "image": "main:1"}]}
    spec = {"selector": selector, "template": {"metadata": {"labels": labels}, "spec": containers}}
    real_fleet.post("/apis/apps/v1/namespaces/default/daemonsets", {"metadata": {"name": "cni"}, "spec": spec})
    for name, others in (("cni-00000", {}), ("cni-00001", {"debug": "yes"}), ("cni-00002", {"tier": "c"})):
        node = f"n{name[-1]}"
        pod = {"metadata": {"name": name, "labels": labels | others}, "spec": {"nodeName": node, **containers}}
        real_fleet.post("/api/v1/namespaces/default/pods", pod)
        real_fleet.set_pod("default", name, running_status(True))
    assert real_cluster.daemon_sets(["n0", "n1", "n2"]) == {"default/cni": {"n0"}}


@pytest.mark.real
def test_a_pod_that_waits_behind_a_gate_or_goes_is_not_unschedulable(real_cluster: Kubernetes, real_fleet: Any) -> None:
    pods = "/api/v1/namespaces/default/pods"
    containers = {"containers": [{"name": "main", "image": "main:1"}]}
    real_fleet.post(pods, {"metadata": {"name": "gated"}, "spec": containers | {"schedulingGates": [{"name": "example.com/later"}]}})
    real_fleet.set_unschedulable("default", 1)
    assert real_cluster.unschedulable() == {"default": 1}
    kept = {"finalizers": ["example.com/kept"]}
    real_fleet.patch_pod("default", "waits-0", {"metadata": kept})
    real_fleet._request("DELETE", f"{pods}/waits-0", {"gracePeriodSeconds": "0"})
    assert real_cluster.unschedulable() == {}
    real_fleet.patch_pod("default", "waits-0", {"metadata": {"finalizers": None}})


@pytest.mark.real
def test_who_may_not_list_pods_is_told_so(kube: Any, real_fleet: Any) -> None:
    nobody = Kubernetes(lambda: kube.access("nobody"))
    for ask in (lambda: nobody.daemon_sets(["n1"]), nobody.unschedulable):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.reason == "Forbidden"


@pytest.mark.real
def test_the_role_for_it_in_the_examples_is_enough_and_lets_nobody_read_a_pod_by_name(kube: Any, real_fleet: Any) -> None:
    role = "hullmark-workload-reader"
    documents = list(yaml.safe_load_all((ROOT / "examples" / "rbac.yaml").read_text()))
    for document in (each for each in documents if each["metadata"]["name"] == role):
        if "subjects" in document:
            document["subjects"] = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "nobody"}]
        real_fleet.post(f"/apis/{document['apiVersion']}/{document['kind'].lower()}s", document)
    nobody = Kubernetes(lambda: kube.access("nobody"))
    real_fleet.set_daemon_set("n1", "default/cni", True)
    try:
        for _ in range(10_000):  # until the API server has heard of the role
            with suppress(Refused):
                assert nobody.daemon_sets(["n1"]) == {"default/cni": {"n1"}}
                break
        assert nobody.unschedulable() == {}
        assert [list(listed) for listed in (nobody.budgets(), nobody.placed(["n2"]))] == [[], []], "plan --impact needs it, too"
        assert [each.name for each in nobody.daemon_set_pods()] == ["default/cni"]
        with pytest.raises(Refused):
            nobody.pod("default", "cni-00159")
        with pytest.raises(Refused):
            nobody.readiness()
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            real_fleet._request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/{role}")


def test_a_row_of_pods_counts_where_it_runs_with_all_its_containers_and_gates_and_is_of_the_daemon_set() -> None:
    rows = [
        ("cni-aaaaa", "1/1", "Running", "n1", "<none>"),
        ("cni-aaaab", "2/2", "Running", "n2", "1/1"),
        ("cni-aaaac", "1/2", "Running", "half", "<none>"),
        ("cni-aaaad", "1/1", "Terminating", "going", "<none>"),
        ("cni-aaaae", "1/1", "Running", "gated", "0/1"),
        ("cni-web-7d9c8-aaaaf", "1/1", "Running", "of-a-deployment", "<none>"),
        ("cniaaaaag", "1/1", "Running", "of-another", "<none>"),
    ]
    columns = [{"name": name} for name in ("Name", "Ready", "Status", "Node", "Readiness Gates")]
    body = {"metadata": {}, "columnDefinitions": columns, "rows": [{"cells": row} for row in rows]}
    assert list(available(tables.decode(json.dumps(body).encode()), "cni")) == ["n1", "n2"]
    long = "a" * 70
    body["rows"] = [{"cells": (long[:58] + "bbbbb", "1/1", "Running", "n1", "<none>")}]
    assert list(available(tables.decode(json.dumps(body).encode()), long)) == ["n1"]


def test_a_table_without_the_columns_that_count_is_no_answer() -> None:
    body = b'{"metadata": {}, "columnDefinitions": [{"name": "Name"}], "rows": []}'
    with pytest.raises(Unavailable, match="a table without the columns Name and Status: Name"):
        list(statuses(tables.decode(body)))


@pytest.mark.real
def test_pods_to_judge_are_listed_node_by_node_or_all_of_them_and_those_that_are_over_are_left_out(
    real_cluster: Kubernetes, real_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.adapters.kubernetes_scheduling.PAGE", 2)
    for number in range(4):
        real_fleet.create(f"n{number}")
        real_fleet.set_daemon_set(f"n{number}", "kube-system/cni", True)
    real_fleet.set_pod("kube-system", "cni-00158", {"phase": "Succeeded"})  # of n0
    real_fleet.set_unschedulable("default", 1)
    asked = _watched_requests(real_cluster, monkeypatch)
    one = list(real_cluster.placed(["n1"]))
    assert sorted((pod.name, pod.spec.node_name) for pod in one) == [("cni-00159", "n1"), ("waits-0", ""), ("waits-1", "")]
    assert [query["fieldSelector"].partition(",")[0] for query in asked] == ["spec.nodeName=n1", "spec.nodeName="]
    asked.clear()
    monkeypatch.setattr("shared.adapters.kubernetes_scheduling.SINGLY", 1)
    every = list(real_cluster.placed(["n0", "n1"]))
    assert sorted(pod.spec.node_name for pod in every) == ["", "", "n1", "n2", "n3"]
    assert len(asked) == 3
    assert {pod.spec.tolerations[0].operator for pod in every if pod.spec.tolerations} == {"Exists"}
