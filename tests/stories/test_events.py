"""Nodes stay true: events become repairs, our own writes end there, fights are bounded and named, sweeps repair what events missed."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import functions_framework
import pytest

from local import steps
from shared import telemetry
from shared.adapters.simulated import Simulated
from shared.domain.labels.events import Kind, change_of
from shared.domain.nodes import ALIAS_OWNER, OWNER
from shared.messages import NodeChanged, Outgoing, PartResult, RelabelRequest
from tests.stories.fleet import Fleet, a_policy


def tell(fleet: Fleet, name: str, kind: Kind = "changed") -> None:
    """Our forwarder's event, with all that the node shows."""
    change = change_of(kind, "default", fleet.node(name))
    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(change.model_dump()).outgoing()])
    fleet.cloud.drain()


def calls_of(fleet: Fleet) -> list[str]:
    """What the cluster is asked from now on."""
    calls: list[str] = []
    fleet.cluster.before = lambda call, _node: calls.append(call)
    return calls


def test_a_new_node_gets_its_labels_with_one_write_and_no_read(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {"matchLabels": {"zone": "a"}}, {"rack": "r7"}))
    fleet.relabels()
    fleet.has_nodes(n1={"zone": "a", "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"})
    change = change_of("added", "default", fleet.node("n1"))
    calls = calls_of(fleet)

    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(change.model_dump()).outgoing()])
    fleet.cloud.drain()

    assert fleet.labels("n1")["rack"] == "r7"
    assert [call for call in calls if call not in ("server_version",)] == ["apply_labels", "node"]  # the last is this test's own look


def from_knative(fleet: Fleet, name: str, verb: str = "add", *, structured: bool = False) -> int:
    """What an ApiServerSource in Resource mode sends to the function itself: the whole object, and `ce-` headers beside it."""
    node = fleet.node(name)
    fields: dict[str, Any] = {f"f:{key}": {} for key in node.labels}
    managed = [{"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": fields}}}]
    metadata = {"name": name, "uid": node.uid, "resourceVersion": "7", "labels": dict(node.labels), "managedFields": managed}
    data = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": {"conditions": []}}
    attributes = {
        "specversion": "1.0",
        "id": "5c1b0d6e-9c1b-4a5c-8a0b-3f3a0a1b2c3d",
        "source": "https://10.96.0.1:443",
        "type": f"dev.knative.apiserver.resource.{verb}",
        "subject": f"/apis/v1/nodes/{name}",
        "time": "2026-11-21T03:00:00.123456789Z",
        "apiversion": "v1",
        "kind": "Node",
        "name": name,
        "namespace": "",
        "cluster": "default",
    }
    client = functions_framework.create_app("node_event", str(steps.load().steps["node_event"].source)).test_client()
    if structured:
        body = {**attributes, "datacontenttype": "application/json", "data": data}
        answer = client.post("/", data=json.dumps(body), content_type="application/cloudevents+json")
    else:
        answer = client.post("/", json=data, headers={f"ce-{key}": value for key, value in attributes.items()})
    fleet.cloud.drain()
    return int(answer.status_code)


@pytest.mark.parametrize("structured", [False, True])
def test_an_event_that_an_apiserversource_sends_straight_to_the_function_labels_the_node(fleet: Fleet, structured: bool) -> None:
    fleet.commits(a_policy("p", {"matchLabels": {"zone": "a"}}, {"rack": "r7"}))
    fleet.has_nodes(n1={"zone": "a"})
    calls = calls_of(fleet)

    assert from_knative(fleet, "n1", structured=structured) == 200

    assert fleet.labels("n1") == {"zone": "a", "rack": "r7"}
    assert [call for call in calls if call != "server_version"] == ["node", "apply_labels", "node"]  # the looks are this test's own


def test_the_event_of_our_own_write_ends_there(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    change = change_of("changed", "default", fleet.node("n1"))
    calls = calls_of(fleet)
    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(change.model_dump()).outgoing()])
    fleet.cloud.drain()
    assert "apply_labels" not in calls


def test_a_node_created_again_under_its_name_gets_its_labels_again(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    fleet.cluster.delete("n1")
    fleet.has_nodes(n1={"zone": "b"})
    tell(fleet, "n1", "added")
    assert fleet.labels("n1") == {"zone": "b", "rack": "r7"}


def test_an_event_that_says_too_little_makes_the_node_be_read(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    event = {"specversion": "1.0", "type": "dev.knative.apiserver.ref.add", "data": {"kind": "Node", "apiVersion": "v1", "name": "n1"}}
    fleet.cloud.publish(NodeChanged.TOPIC, [Outgoing(json.dumps(event).encode())])
    fleet.cloud.drain()
    assert fleet.labels("n1") == {"rack": "r7"}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind": "Pod"}', b"\xff"])
def test_an_event_that_nobody_can_read_is_not_delivered_for_ever(fleet: Fleet, body: bytes) -> None:
    fleet.cloud.publish(NodeChanged.TOPIC, [Outgoing(body or b"{}")])
    fleet.cloud.drain()
    assert fleet.cloud.delivered == 1


def test_an_event_of_a_node_that_is_gone_by_now_changes_nothing(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    change = change_of("changed", "default", fleet.node("n1"))
    fleet.cluster.delete("n1")
    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(change.model_dump()).outgoing()])
    fleet.cloud.drain()
    assert fleet.cluster.node("n1") is None


def test_without_documents_events_keep_the_aliases(fleet: Fleet) -> None:
    fleet.has_nodes(n1={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"})
    tell(fleet, "n1")
    assert fleet.labels("n1")["beta.kubernetes.io/os"] == "linux"
    assert fleet.node("n1").applied == {ALIAS_OWNER: frozenset({"beta.kubernetes.io/os"})}


def test_where_only_an_alias_differs_only_the_alias_is_written(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"})
    fleet.relabels()
    fleet.cluster.set_labels("n1", {"beta.kubernetes.io/os": "windows"}, "kubectl-edit")
    calls = calls_of(fleet)
    tell(fleet, "n1")
    assert calls.count("apply_labels") == 1
    assert fleet.labels("n1") == {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "rack": "r7"}


def test_a_fight_of_two_writers_is_bounded_and_named_in_one_notice(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    repaired = 0
    for _ in range(20):
        fleet.cluster.set_labels("n1", {"rack": "theirs"}, "other-operator")
        tell(fleet, "n1")
        repaired += fleet.labels("n1")["rack"] == "r7"
    assert repaired == 3
    (told,) = fleet.notices("conflict.detected")
    assert "rack (other-operator)" in told["message"]

    fleet.now += timedelta(minutes=10)
    tell(fleet, "n1")
    assert fleet.labels("n1")["rack"] == "r7"


def test_a_fight_with_a_managed_pool_is_told_with_the_pools_name(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={"eks.amazonaws.com/nodegroup": "gpu"})
    fleet.relabels()
    for _ in range(4):
        fleet.cluster.set_labels("n1", {"rack": "theirs"}, "vpcLambda")
        tell(fleet, "n1")
    (told,) = fleet.notices("conflict.detected")
    assert "One of the two must yield. rack: the EKS node group gpu gives it to its nodes; change it on the pool" in told["message"]


def test_a_notice_of_a_fight_that_the_bus_did_not_take_is_sent_with_the_next_event(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    lost = fleet.loses_the_first_notice()
    for _ in range(4):
        fleet.cluster.set_labels("n1", {"rack": "theirs"}, "other-operator")
        tell(fleet, "n1")
    assert lost
    assert len(fleet.notices("conflict.detected")) == 1


def test_a_fight_with_somebody_who_takes_our_label_away_is_bounded_too(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7", "ring": "1"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    repaired = 0
    for _ in range(10):
        fleet.cluster.set_labels("n1", {"rack": None}, "other-operator")
        tell(fleet, "n1")
        repaired += fleet.labels("n1").get("rack") == "r7"
    assert repaired == 3
    (told,) = fleet.notices("conflict.detected")
    assert "rack (another manager)" in told["message"]

    fleet.cluster.set_labels("n1", {"rack": "r7", "ring": None}, "other-operator")
    tell(fleet, "n1")
    assert fleet.labels("n1")["ring"] == "1", "another label's repair is another matter"


def test_a_node_that_is_created_again_and_again_is_no_fight(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    for _ in range(5):
        fleet.has_nodes(n1={})
        tell(fleet, "n1", "added")
        assert fleet.labels("n1") == {"rack": "r7"}
        fleet.cluster.delete("n1")
    assert fleet.world.store.keys("drift/") == []


def test_an_event_delivered_again_takes_no_second_repair(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    fleet.cluster.set_labels("n1", {"rack": "theirs"}, "other-operator")
    change = NodeChanged.model_validate(change_of("changed", "default", fleet.node("n1")).model_dump())
    for _ in range(10):
        fleet.cloud.publish(NodeChanged.TOPIC, [change.outgoing()])
        fleet.cloud.drain()
    assert fleet.notices("conflict.detected") == []
    assert len(fleet.world.store.keys("drift/")) == 1


def test_the_sweep_repairs_what_events_missed_and_names_who_changed_it(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "n2": {"rack": "r8"}})
    fleet.has_nodes(n1={}, n2={})
    revision = fleet.world.revisions.newest()
    fleet.relabels()
    fleet.cluster.set_labels("n1", {"rack": "by-hand"}, "kubectl-edit")

    action = fleet.sends(name="drift_sweep")
    fleet.cloud.drain()

    assert fleet.labels("n1") == {"rack": "r7"}
    (told,) = fleet.ended(action).outcomes
    assert (told.subject, told.outcome, told.reason) == ("n1", "changed", "Drift")
    assert "rack was 'by-hand' by kubectl-edit" in told.message
    assert fleet.world.revisions.tags(revision) == ["committed", "site-action-success"]
    assert fleet.node("n1").applied == {OWNER: frozenset({"rack"})}


def the_clock_sweeps(fleet: Fleet) -> str:
    """As the schedule does it: no id, nobody's name. The action's id."""
    fleet.now += timedelta(hours=1)
    fleet.cloud.publish(RelabelRequest.TOPIC, [Outgoing(b'{"name": "drift_sweep"}')])
    fleet.cloud.drain()
    return next(fleet.world.actions.newest_first())


def test_of_sweeps_that_changed_nothing_only_the_newest_is_kept(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "gone": {"rack": "r8"}})
    fleet.has_nodes(n1={})
    relabelled = fleet.relabels()
    fleet.cluster.set_labels("n1", {"rack": "by-hand"}, "kubectl-edit")
    repaired = the_clock_sweeps(fleet)
    asked_for = fleet.sends(name="drift_sweep")
    fleet.cloud.drain()

    quiet = [the_clock_sweeps(fleet) for _ in range(4)]

    assert fleet.world.actions.ids() == [relabelled, repaired, asked_for, quiet[-1]]
    assert fleet.ended(quiet[-1]).counts == {"missing": 1, "unchanged": 1}
    assert [key for key in fleet.world.store.keys("") if any(each in key for each in quiet[:-1])] == []
    assert fleet.world.store.keys("quiet-sweeps/") == [f"quiet-sweeps/default/{quiet[-1]}"]


def test_a_sweep_says_that_a_newer_revision_waits_and_brings_none(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "n2": {"rack": "r8"}})
    fleet.has_nodes(n1={}, n2={})
    fleet.relabels()
    fleet.declares({"n1": {"rack": "new"}, "n2": {"rack": "new"}}, adopted=False)
    fleet.cluster.set_labels("n1", {"rack": "by-hand"})

    ended = fleet.ended(the_clock_sweeps(fleet))

    assert (fleet.labels("n1"), fleet.labels("n2")) == ({"rack": "r7"}, {"rack": "r8"})
    assert (ended.result, ended.reason, ended.counts) == ("success", "NewerRevisionWaits", {"changed": 1, "unchanged": 1})
    assert ended.message == "revision 2 waits: revision 1 is released to cluster default: `hullmark relabel` releases it"
    fleet.world.revisions.tag(2, "rejected", "an operator", fleet.now)
    assert fleet.ended(the_clock_sweeps(fleet)).reason == ""


def test_a_sweep_before_the_first_release_says_what_waits(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}}, adopted=False)
    fleet.has_nodes(n1={})
    ended = fleet.ended(the_clock_sweeps(fleet))
    assert (ended.result, ended.message.split(" to ")[0]) == ("success", "revision 1 waits: nothing is released")
    assert fleet.labels("n1") == {}


def test_an_event_says_that_a_newer_revision_waits_and_writes_nothing(fleet: Fleet) -> None:
    lines = io.StringIO()
    telemetry.write_to(lines)
    fleet.has_nodes(n1={})
    tell(fleet, "n1")
    fleet.declares({"n1": {"rack": "r7"}}, adopted=False)
    tell(fleet, "n1")
    fleet.relabels()
    tell(fleet, "n1")
    fleet.declares({"n1": {"rack": "new"}}, adopted=False)
    tell(fleet, "n1")
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(line["outcome"], line.get("reason", "")) for line in said if line["step"] == "node_event"] == [
        ("unchanged", ""),
        ("waiting", "NotReleased"),
        ("unchanged", ""),
        ("waiting", "NewerRevisionWaits"),
    ]
    assert fleet.labels("n1") == {"rack": "r7"}


def test_a_quiet_sweep_is_kept_for_as_long_as_the_bus_may_bring_its_request_again(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    first = the_clock_sweeps(fleet)
    fleet.now -= timedelta(minutes=45)
    second = the_clock_sweeps(fleet)
    assert {first, second} <= set(fleet.world.actions.ids())
    third = the_clock_sweeps(fleet)
    assert {first, second, third}.intersection(fleet.world.actions.ids()) == {third}


def test_a_sweep_that_the_bus_brings_again_once_it_is_forgotten_changes_nothing(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    first, second = the_clock_sweeps(fleet), the_clock_sweeps(fleet)

    fleet.cloud.publish(RelabelRequest.TOPIC, [RelabelRequest(name="drift_sweep", action=first).outgoing()])
    fleet.cloud.publish(PartResult.TOPIC, [PartResult(action=first).outgoing()])
    fleet.cloud.drain()

    assert (fleet.labels("n1"), fleet.cloud.dead) == ({"rack": "r7"}, [])
    assert fleet.world.actions.open() == []
    third = the_clock_sweeps(fleet)
    assert {first, second, third}.intersection(fleet.world.actions.ids()) == {third}


def test_a_quiet_sweep_whose_mark_cannot_be_read_goes_with_its_day(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    first = the_clock_sweeps(fleet)
    fleet.world.store.delete(f"quiet-sweeps/default/{first}")
    fleet.world.store.create(f"quiet-sweeps/default/{first}", b"torn")

    second = the_clock_sweeps(fleet)

    assert fleet.world.store.keys("quiet-sweeps/") == [f"quiet-sweeps/default/{second}"]
    assert first in fleet.world.actions.ids()


def test_a_write_for_an_event_that_fails_is_told(fleet: Fleet) -> None:
    from shared.ports import Refused

    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})

    def forbidden(call: str, _node: str) -> None:
        if call == "apply_labels":
            raise Refused("Forbidden", "may not patch nodes")

    fleet.cluster.before = forbidden
    tell(fleet, "n1", "added")
    (told,) = fleet.notices("node.failed")
    assert [failed["reason"] for failed in told["failed"]] == ["Forbidden"]


def a_cluster(name: str, **access: object) -> dict[str, object]:
    return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"access": access}}


def gke(name: str, project: str = "p", location: str = "europe-west1") -> dict[str, str]:
    return {"project": project, "location": location, "name": name}


def audited(fleet: Fleet, cluster: str, **where: str) -> None:
    """GKE's audit log says that somebody patched n1."""
    place = gke(cluster, **where)
    labels = {"project_id": place["project"], "location": place["location"], "cluster_name": place["name"]}
    payload = {"methodName": "io.k8s.core.v1.nodes.patch", "resourceName": "core/v1/nodes/n1"}
    entry = {"resource": {"type": "k8s_cluster", "labels": labels}, "protoPayload": payload}
    fleet.cloud.publish(NodeChanged.TOPIC, [Outgoing(json.dumps(entry).encode())])
    fleet.cloud.drain()


def ignored(reason: str) -> float:
    """How many events were ignored so far for this reason."""
    (family,) = (each for each in telemetry.metrics() if each.name == "hullmark_events_ignored_total")
    return sum(sample.value for sample in family.samples if sample.labels == {"reason": reason})


def test_an_audit_entry_belongs_to_the_cluster_that_has_its_project_location_and_name(fleet: Fleet) -> None:
    fleet.commits(
        a_cluster("prod", gke=gke("blue")), a_cluster("blue", gke=gke("other")), a_policy("p", {}, {"rack": "r1"}, clusters=["prod"])
    )
    fleet.has_nodes(n1={})
    opened: list[str] = []

    def opening(_access: object, name: str) -> Simulated:
        opened.append(name)
        return fleet.cluster

    fleet.world.open_cluster = opening
    audited(fleet, "blue")
    assert set(opened) == {"prod"}
    assert fleet.labels("n1") == {"rack": "r1"}


@pytest.mark.parametrize("where", [{"project": "q"}, {"location": "europe-west2"}])
def test_an_audit_entry_of_a_cluster_that_nobody_declared_is_ignored_and_counted(fleet: Fleet, where: dict[str, str]) -> None:
    fleet.commits(a_cluster("blue", gke=gke("blue")), a_policy("p", {}, {"rack": "r1"}))
    fleet.has_nodes(n1={})
    before = ignored("ClusterUnknown")
    audited(fleet, "blue", **where)
    assert (fleet.cloud.dead, fleet.cloud.delivered, fleet.labels("n1")) == ([], 1, {})
    assert ignored("ClusterUnknown") == before + 1


def test_events_from_a_cluster_that_nobody_declared_are_ignored_and_counted(fleet: Fleet) -> None:
    fleet.commits(a_cluster("east", inCluster={}), a_cluster("west", inCluster={}), a_policy("p", {}, {"rack": "r1"}))
    fleet.world.settings = fleet.world.settings.model_copy(update={"cluster": ""})
    fleet.has_nodes(n1={})
    change = change_of("added", "", fleet.node("n1"))
    before = ignored("ClusterUnknown")
    for name in ("nowhere", "default", "../east", ""):
        event = NodeChanged.model_validate(change.model_dump() | {"cluster": name})
        fleet.cloud.publish(NodeChanged.TOPIC, [event.outgoing()])
    fleet.cloud.drain()
    assert (fleet.cloud.dead, fleet.cloud.delivered, fleet.labels("n1")) == ([], 4, {})
    assert ignored("ClusterUnknown") == before + 4


def test_an_event_before_anything_is_declared_or_set_is_ignored(fleet: Fleet) -> None:
    fleet.world.settings = fleet.world.settings.model_copy(update={"cluster": ""})
    fleet.has_nodes(n1={})
    tell(fleet, "n1", "added")
    audited(fleet, "blue")
    assert (fleet.cloud.dead, fleet.cloud.delivered) == ([], 2)


def test_an_event_that_is_nested_beyond_reading_is_not_delivered_again(fleet: Fleet) -> None:
    fleet.cloud.publish(NodeChanged.TOPIC, [Outgoing(b'{"name":' * 100_000)])
    fleet.cloud.drain()
    assert (fleet.cloud.dead, fleet.cloud.delivered) == ([], 1)


def test_a_sweep_that_names_no_cluster_means_every_declared_one(fleet: Fleet) -> None:
    def cluster(name: str) -> dict[str, object]:
        access = {"simulated": {"name": "unused"}}
        return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"access": access}}

    fleet.commits(cluster("east"), cluster("west"), a_policy("p", {}, {"rack": "r1"}))
    clusters = {name: Simulated(fleet.world.store, name) for name in ("east", "west")}
    fleet.world.open_cluster = lambda _access, name: clusters[name]
    fleet.world.settings = fleet.world.settings.model_copy(update={"cluster": ""})
    for name, each in clusters.items():
        each.create(f"node-of-{name}", {})

    action = fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    fleet.sends(name="drift_sweep", action=action)
    fleet.cloud.drain()

    assert [dict(node.labels) for each in clusters.values() for node in each.nodes()] == [{"rack": "r1"}] * 2
    assert sorted(fleet.world.actions.request(each).cluster for each in fleet.world.actions.ids()) == ["east", "west"]
