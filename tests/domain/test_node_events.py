"""Events as their senders write them, and the one value that they become."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.labels.events import GkeName, Ignored, NodeChange, UnreadableEvent, Watched, read_event
from shared.domain.nodes import Node
from shared.messages import NodeChanged

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n1",
        "uid": "7c3a",
        "resourceVersion": "4711",
        "creationTimestamp": "2026-11-20T08:00:00Z",
        "labels": {"kubernetes.io/os": "linux", "rack": "r1"},
        "managedFields": [
            {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/os": {}}}}},
            {"manager": "hullmark", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:rack": {}}}}},
        ],
    },
    "spec": {"providerID": "x://n1"},
    "status": {"nodeInfo": {"kubeletVersion": "v1.35.4"}},
}
REFERENCE = {"kind": "Node", "namespace": "", "name": "n1", "uid": "7c3a", "apiVersion": "v1", "resourceVersion": "4711"}


def knative(type_: str, data: Any, **more: str) -> bytes:
    """The structured form, as the source sends it to a sink."""
    event = {"specversion": "1.0", "id": "1f0", "type": type_, "source": "https://10.96.0.1:443", "subject": "/apis/v1/nodes/n1"}
    return json.dumps({**event, "time": "2026-11-21T07:00:00Z", "datacontenttype": "application/json", **more, "data": data}).encode()


def audit(method: str, **payload: Any) -> bytes:
    """A Cloud Audit entry of GKE, as a log sink publishes it."""
    return json.dumps(
        {
            "insertId": "9a5",
            "logName": "projects/p/logs/cloudaudit.googleapis.com%2Factivity",
            "resource": {"type": "k8s_cluster", "labels": {"cluster_name": "blue", "location": "europe-west1", "project_id": "p"}},
            "timestamp": "2026-11-21T07:00:00.000001Z",
            "operation": {"first": True, "last": True, "id": "5d1", "producer": "k8s.io"},
            "protoPayload": {
                "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
                "serviceName": "k8s.io",
                "methodName": method,
                "resourceName": "core/v1/nodes/n1",
                "authenticationInfo": {"principalEmail": "ops@example.com"},
                "requestMetadata": {"callerIp": "203.0.113.9", "callerSuppliedUserAgent": "kubectl/v1.35.0 (linux/amd64)"},
                "authorizationInfo": [{"granted": True, "permission": "io.k8s.core.v1.nodes.patch", "resource": "core/v1/nodes/n1"}],
                "status": {},
                **payload,
            },
        }
    ).encode()


@pytest.mark.parametrize(("verb", "kind"), [("add", "added"), ("update", "changed"), ("delete", "deleted")])
def test_knatives_resource_mode_carries_the_whole_node(verb: str, kind: str) -> None:
    change = read_event(knative(f"dev.knative.apiserver.resource.{verb}", NODE, cluster="blue"), {})

    assert change == NodeChange.model_validate(
        {
            "cluster": "blue",
            "name": "n1",
            "kind": kind,
            "uid": "7c3a",
            "resource_version": "4711",
            "labels": {"kubernetes.io/os": "linux", "rack": "r1"},
            "owners": {"kubernetes.io/os": ["kubelet"], "rack": ["hullmark"]},
            "applied": {"hullmark": ["rack"]},
            "created": "2026-11-20T08:00:00Z",
            "taints": [],
            "may_have_taints": False,
        }
    )


def test_knatives_reference_mode_names_the_node_which_then_has_to_be_read() -> None:
    change = read_event(knative("dev.knative.apiserver.ref.update", REFERENCE), {"cluster": "blue"})

    assert change == NodeChange(cluster="blue", name="n1", uid="7c3a", resource_version="4711")
    assert isinstance(change, NodeChange)
    assert change.node() is None


def test_the_binary_form_has_its_type_in_the_attributes() -> None:
    change = read_event(json.dumps(NODE).encode(), {"ce-type": "dev.knative.apiserver.resource.add", "ce-cluster": "blue"})

    assert isinstance(change, NodeChange)
    assert (change.cluster, change.kind, change.uid) == ("blue", "added", "7c3a")


def test_an_event_with_the_whole_node_needs_no_read() -> None:
    change = read_event(knative("dev.knative.apiserver.resource.update", NODE), {})

    assert isinstance(change, NodeChange)
    assert change.node() == Node(
        "n1",
        "7c3a",
        {"kubernetes.io/os": "linux", "rack": "r1"},
        "4711",
        {"kubernetes.io/os": ("kubelet",), "rack": ("hullmark",)},
        {"hullmark": frozenset({"rack"})},
        created="2026-11-20T08:00:00Z",
        taints=(),
        may_have_taints=False,
    )


def test_without_managedfields_the_node_has_to_be_read() -> None:
    metadata = {key: value for key, value in NODE["metadata"].items() if key != "managedFields"}
    change = read_event(knative("dev.knative.apiserver.resource.update", {**NODE, "metadata": metadata}), {})

    assert isinstance(change, NodeChange)
    assert (change.labels, change.node()) == (NODE["metadata"]["labels"], None)


@pytest.mark.parametrize(
    ("method", "kind"),
    [("io.k8s.core.v1.nodes.create", "added"), ("io.k8s.core.v1.nodes.patch", "changed"), ("io.k8s.core.v1.nodes.update", "changed")],
)
def test_an_audit_entry_tells_what_its_response_shows_and_who_did_it(method: str, kind: str) -> None:
    change = read_event(audit(method, response={"@type": "core.k8s.io/v1.Node", **NODE}), {})

    assert isinstance(change, NodeChange)
    assert (change.cluster, change.name, change.kind, change.manager) == ("", "n1", kind, "kubectl")
    assert change.gke == GkeName(project="p", location="europe-west1", name="blue")
    assert change.labels == {"kubernetes.io/os": "linux", "rack": "r1"}


@pytest.mark.parametrize("path", ["core/v1/nodes", "core/v1/nodes/"])
def test_a_created_nodes_audit_entry_may_leave_the_name_to_its_response(path: str) -> None:
    change = read_event(audit("io.k8s.core.v1.nodes.create", resourceName=path, response=NODE), {"cluster": "named"})

    assert isinstance(change, NodeChange)
    assert (change.name, change.kind, change.uid, change.labels) == ("n1", "added", "7c3a", NODE["metadata"]["labels"])


@pytest.mark.parametrize("response", [{}, {"kind": "Status"}, {"metadata": {"name": "../n1"}}, {"metadata": {"name": ["n1"]}}])
def test_an_audit_entry_that_names_no_node_anywhere_is_refused(response: dict[str, Any]) -> None:
    with pytest.raises(UnreadableEvent):
        read_event(audit("io.k8s.core.v1.nodes.create", resourceName="core/v1/nodes", response=response), {})


def test_the_labels_of_an_audit_entrys_request_are_a_patch_and_not_the_nodes_labels() -> None:
    change = read_event(audit("io.k8s.core.v1.nodes.patch", request={"metadata": {"labels": {"rack": "r9"}}}), {"cluster": "named"})

    assert change == NodeChange(cluster="named", name="n1", manager="kubectl")


def test_the_node_in_an_audit_entrys_request_is_an_older_one_and_is_not_believed() -> None:
    older = {"metadata": {"name": "n1", "uid": "u0", "labels": {"rack": "r9"}}}
    change = read_event(audit("io.k8s.core.v1.nodes.update", request=older), {"cluster": "named"})
    assert change == NodeChange(cluster="named", name="n1", manager="kubectl")


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (audit("io.k8s.core.v1.nodes.status.patch"), "changes no node's metadata"),
        (audit("io.k8s.core.v1.pods.create"), "changes no node's metadata"),
        (audit("io.k8s.core.v1.nodes.patch", status={"code": 7, "message": "denied"}), "code 7"),
        (audit("io.k8s.core.v1.nodes.patch", resourceName="core/v1/nodes/n1/status"), "of status"),
        (audit("io.k8s.core.v1.nodes.patch", request={"spec": {"unschedulable": True}}), "leaves the metadata alone"),
        (knative("dev.knative.apiserver.resource.add", {**NODE, "kind": "Pod"}), "a Pod, not a Node"),
        (knative("dev.knative.apiserver.ref.add", {**REFERENCE, "kind": "Event"}), "an? Event|a Event"),
        (knative("dev.knative.apiserver.resource.sync", NODE), "no change"),
    ],
)
def test_what_is_no_change_of_a_nodes_metadata_ends_there(event: bytes, reason: str) -> None:
    ignored = read_event(event, {})

    assert isinstance(ignored, Ignored)
    assert any(part in ignored.reason for part in reason.split("|"))


@pytest.mark.parametrize(
    "event",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"protoPayload": {"methodName": "io.k8s.core.v1.nodes.patch", "resourceName": "core/v1/pods/p"}}',
        b'{"protoPayload": {"methodName": "io.k8s.core.v1.nodes.patch", "resourceName": "core/v1/nodes"}}',
        knative("dev.knative.apiserver.resource.add", None),
        knative("dev.knative.apiserver.ref.add", {"kind": "Node"}),
        knative("dev.knative.apiserver.resource.add", {"kind": "Node", "metadata": {"name": 7}}),
        knative("dev.knative.apiserver.resource.add", {"kind": "Node"}),
        b'{"name": "n1", "kind": "exploded"}',
        b'{"name": "../n1"}',
        b'{"name": "n1/status"}',
        b'{"name": ""}',
        knative("dev.knative.apiserver.ref.add", {"kind": "Node", "name": "../secrets"}),
        audit("io.k8s.core.v1.nodes.delete", resourceName="core/v1/nodes/.."),
        b"[" * 100_000,
        b'{"protoPayload":' + b'{"a":' * 100_000,
    ],
)
def test_an_event_that_no_redelivery_will_make_readable_is_refused(event: bytes) -> None:
    with pytest.raises(UnreadableEvent):
        read_event(event, {})


@pytest.mark.parametrize("depth", [10, 100, 500, 990, 5000, 100_000])
@pytest.mark.parametrize(
    "around",
    ['{"name":"n1","labels":%s}', '{"name":"n1","more":%s}', '{"protoPayload":%s}', '{"kind":"Node","metadata":{"name":"n1","labels":%s}}'],
)
def test_an_event_may_be_nested_as_deeply_as_it_likes(around: str, depth: int) -> None:
    for attributes in ({}, {"ce-type": "dev.knative.apiserver.resource.update"}):
        with contextlib.suppress(UnreadableEvent):
            assert isinstance(read_event((around % ('{"a":' * depth + "1" + "}" * depth)).encode(), attributes), (NodeChange, Ignored))


def test_our_own_message_comes_back_as_it_was_sent() -> None:
    sent = NodeChanged(cluster="blue", name="n1", kind="added", uid="7c3a", labels={"rack": ""}, owners={}, applied={})

    back = read_event(sent.outgoing().data, {})

    assert isinstance(back, NodeChange)
    assert back.model_dump() == sent.model_dump(exclude={"version"})


JSON = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text()), lambda x: st.lists(x) | st.dictionaries(st.text(), x))


@given(JSON, st.sampled_from(["dev.knative.apiserver.resource.add", "dev.knative.apiserver.ref.update", "x"]), st.booleans())
def test_no_event_is_too_strange_to_be_read_or_refused(data: Any, type_: str, audited: bool) -> None:
    body = {"protoPayload": data, "name": "n"} if audited else {"specversion": "1.0", "type": type_, "data": data}
    with contextlib.suppress(UnreadableEvent):
        assert isinstance(read_event(json.dumps(body).encode(), {}), (NodeChange, Ignored))


def test_a_watcher_tells_new_nodes_and_changed_labels_and_nothing_else() -> None:
    watched = Watched("blue")

    def told(node: Node) -> str | None:
        news = watched.saw(node)
        return news.kind if news else None

    assert told(Node("n1", "a", {"rack": "r1"}, "1")) == "added"
    assert told(Node("n1", "a", {"rack": "r1"}, "2")) is None
    assert told(Node("n1", "a", {"rack": "r2"}, "3")) == "changed"
    assert told(Node("n1", "b", {"rack": "r2"}, "4")) == "added"
    watched.gone("n1")
    assert told(Node("n1", "b", {"rack": "r2"}, "5")) == "added"


def test_after_a_gap_only_the_difference_is_told() -> None:
    watched = Watched("blue")
    list(watched.listed([Node("same", "1", {}), Node("other", "2", {"rack": "r1"}), Node("gone", "3", {})]))

    news = watched.listed([Node("same", "1", {}, "9"), Node("other", "2", {"rack": "r2"}), Node("fresh", "4", {})])

    assert [(change.name, change.kind) for change in news] == [("other", "changed"), ("fresh", "added")]
