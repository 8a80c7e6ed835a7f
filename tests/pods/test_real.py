"""On a real kube-apiserver: what a bound pod carries, and that it binds whatever becomes of the webhook."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from werkzeug.wrappers import Request, Response

from shared.adapters.kubernetes import Kubernetes
from tests.pods.conftest import Real
from tests.pods.reviews import HOST, REGION, ZONE, a_policy

PATIENCE = 30
"""Seconds, the longest timeout that a webhook may have: for what comes in two on a quiet machine, and never where nobody gives up."""

pytestmark = pytest.mark.real

Opener = Callable[[Real], Kubernetes]
N1 = {ZONE: "z1", REGION: "r", HOST: "n1"}


def a_name() -> str:
    return f"p-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def cluster_of() -> Iterator[Opener]:
    opened: list[Kubernetes] = []

    def open_cluster(real: Real) -> Kubernetes:
        opened.append(Kubernetes(real.kube.access))
        return opened[-1]

    yield open_cluster
    for cluster in opened:
        cluster.server.close()


def test_with_the_gate_on_a_bound_pod_carries_its_nodes_labels(gate_on: Real, cluster_of: Opener) -> None:
    policy = a_policy(extra=["example.com/*", "team"])
    with gate_on.hullmark(cluster_of(gate_on), policy) as url, gate_on.webhook(url, policy):
        gate_on.pod("on-1", labels={"app": "web", ZONE: "wrong"})
        assert gate_on.bind("on-1") == []
        assert gate_on.labels("on-1") == {"app": "web", **N1, "example.com/rack": "r7", "team": "nodes"}

        gate_on.pod("on-2", labels={"team": "pods"})
        gate_on.bind("on-2", "n2")
        assert gate_on.labels("on-2") == {ZONE: "z2", REGION: "r", HOST: "n2", "example.com/rack": "r7", "team": "pods"}


def test_a_pod_created_with_a_node_name_and_a_legacy_binding_carry_them_too(gate_on: Real, cluster_of: Opener) -> None:
    with gate_on.hullmark(cluster_of(gate_on), a_policy()) as url, gate_on.webhook(url):
        gate_on.pod("placed", nodeName="n1")
        assert gate_on.labels("placed") == N1
        gate_on.pod("legacy")
        gate_on.bind("legacy", legacy=True)
        assert gate_on.labels("legacy") == N1


def test_with_the_gate_off_labels_are_dropped_and_annotations_arrive(gate_off: Real, cluster_of: Opener) -> None:
    for policy, in_annotations in ((a_policy(), dict[str, str]()), (a_policy(asAnnotations=True), N1)):
        with gate_off.hullmark(cluster_of(gate_off), policy) as url, gate_off.webhook(url):
            gate_off.pod(name := a_name())
            gate_off.bind(name)
            assert (gate_off.labels(name), gate_off.annotations(name)) == ({}, in_annotations)


def test_enabled_disabled_and_enabled_again_leaves_bound_pods_as_they_are(gate_on: Real, cluster_of: Opener) -> None:
    seen = []
    for enabled in (True, False, True):
        policy = a_policy(topology=[HOST], enabled=enabled)
        with gate_on.hullmark(cluster_of(gate_on), policy) as url, gate_on.webhook(url):
            gate_on.pod(name := a_name())
            gate_on.bind(name)
            seen.append(name)
    assert [HOST in gate_on.labels(name) for name in seen] == [True, False, True]


def test_a_namespace_that_no_policy_means_is_never_asked_about(gate_on: Real) -> None:
    gate_on.namespace("meant")
    asked: list[str] = []

    @Request.application
    def note(request: Request) -> Response:
        asked.append(json.loads(request.get_data())["request"]["namespace"])
        return Response("{}", 500)

    with gate_on.serving(note) as url, gate_on.webhook(url, a_policy(namespaces={"include": ["meant"]})):
        for namespace in ("default", "meant"):
            gate_on.pod(name := a_name(), namespace)
            gate_on.bind(name, namespace=namespace)
    assert asked == ["meant"]


def test_a_pod_without_a_node_costs_no_call(gate_on: Real) -> None:
    calls: list[str] = []

    @Request.application
    def note(request: Request) -> Response:
        calls.append(json.loads(request.get_data())["request"].get("subResource", ""))
        return Response("{}", 500)

    with gate_on.serving(note) as url, gate_on.webhook(url):
        gate_on.pod(name := a_name())
        assert calls == []
        gate_on.bind(name)
    assert calls == ["binding"]


def answering(make: Callable[[str], dict[str, Any]] | bytes, status: int = 200, delay: float = 0) -> Any:
    """A webhook that answers a review's uid with `make(uid)`, or always these bytes."""

    @Request.application
    def application(request: Request) -> Response:
        uid = json.loads(request.get_data())["request"]["uid"]
        time.sleep(delay)
        body = (
            make
            if isinstance(make, bytes)
            else json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": make(uid)})
        )
        return Response(body, status, content_type="application/json")

    return application


def a_patch(operations: Any) -> str:
    return base64.b64encode(json.dumps(operations).encode()).decode()


BROKEN = {
    "garbage": answering(b"\x00\xffnonsense"),
    "an empty body": answering(b""),
    "another uid": answering(lambda uid: {"uid": "other", "allowed": True}),
    "a patch that is none": answering(lambda uid: {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": "bm8="}),
    "status 500": answering(b"{}", 500),
    "slower than the timeout": answering(b"{}", delay=30),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_pods_bind_when_the_webhook_is_broken(gate_on: Real, broken: str) -> None:
    with gate_on.serving(BROKEN[broken]) as url, gate_on.webhook(url):
        gate_on.pod(name := a_name())
        began = time.monotonic()
        gate_on.bind(name)
        assert time.monotonic() - began < PATIENCE
        assert HOST not in gate_on.labels(name)


def test_only_a_patch_that_does_not_apply_stops_a_pod_whatever_the_failure_policy(gate_on: Real) -> None:
    """Why the patches are held to the object by properties (test_decision): `Ignore` does not cover this."""
    nowhere = a_patch([{"op": "add", "path": "/metadata/annotations/x/y", "value": "v"}])
    broken = answering(lambda uid: {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": nowhere})
    with gate_on.serving(broken) as url, gate_on.webhook(url):
        gate_on.pod(name := a_name())
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
        assert gate_on.call("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding)[0] == 500


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def hold() -> None:
            try:
                while True:
                    held.append(server.accept()[0])
            except OSError:
                pass

        holding = threading.Thread(target=hold, daemon=True)
        holding.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        holding.join()
        for connection in held:
            connection.close()


def test_pods_bind_when_the_webhook_hangs_and_when_nobody_listens(gate_on: Real, silent: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    for port in (silent, nobody):
        with gate_on.webhook(f"https://127.0.0.1:{port}"):
            gate_on.pod(name := a_name())
            began = time.monotonic()
            gate_on.bind(name)
            assert time.monotonic() - began < PATIENCE


def test_while_the_function_cannot_reach_the_cluster_pods_bind_at_once_and_kubectl_shows_a_warning(gate_on: Real, silent: int) -> None:
    from shared.adapters.apiserver import Access

    unreachable = Kubernetes(lambda: Access(f"https://127.0.0.1:{silent}"), connect_seconds=60)
    with gate_on.hullmark(unreachable, a_policy()) as url, gate_on.webhook(url, timeoutSeconds=PATIENCE):
        gate_on.pod(name := a_name())
        (warning,) = gate_on.bind(name)
        assert "hullmark: no topology labels are copied, node n1 can't be read" in warning
        assert HOST not in gate_on.labels(name)


def test_what_the_function_puts_on_a_pod_lets_later_updates_through(gate_on: Real, cluster_of: Opener) -> None:
    """The API server doesn't validate a Binding's labels: a bad one would make every status update of the pod fail."""
    with gate_on.hullmark(cluster_of(gate_on), a_policy(extra=["example.com/*"])) as url, gate_on.webhook(url):
        gate_on.pod(name := a_name())
        gate_on.bind(name)
    status, answer, _ = gate_on.call(
        "PATCH", f"/api/v1/namespaces/default/pods/{name}/status", {"status": {"phase": "Running"}}, "application/merge-patch+json"
    )
    assert status == 200, answer
