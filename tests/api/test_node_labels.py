"""Promenade's call: labels on one node at once, and what it says about them."""

from __future__ import annotations

from typing import Any

import pytest

from shared.messages import NodeChanged
from shared.ports import ClusterError, NodeGone, Refused, Stale, Unavailable
from tests.api.conftest import FrontDoor, reasons
from tests.stories.fleet import a_policy

PATH = "/v1.0/node-labels/n1"


def put(door: FrontDoor, labels: Any, path: str = PATH, **given: Any) -> Any:
    return door.ask("PUT", path, json=labels, **given)


@pytest.mark.parametrize("form", [{"rack": "r9", "role": "db"}, [{"key": "rack", "value": "r9"}, {"key": "role", "value": "db"}]])
def test_labels_are_set_at_once_and_the_answer_is_promenades_and_says_what_changed(fleet: FrontDoor, form: Any) -> None:
    answer = put(fleet, form)
    assert answer.status_code == 200
    body = answer.json
    assert (body["kind"], body["status"], body["reason"], body["code"]) == ("Status", "Success", "Update node labels", "200 OK")
    assert body["changes"] == {"set": {"rack": "r9", "role": "db"}, "remove": []}
    assert fleet.labels("n1") == {"zone": "a", "rack": "r9", "role": "db"}
    assert fleet.node("n1").owners["role"] == ("hullmark",)


def test_the_body_is_the_whole_set_and_others_labels_stay(fleet: FrontDoor) -> None:
    put(fleet, {"rack": "r9", "role": "db"})
    assert put(fleet, {"rack": "r9"}).json["changes"] == {"set": {}, "remove": ["role"]}
    assert put(fleet, {}).json["changes"] == {"set": {}, "remove": ["rack"]}
    assert fleet.labels("n1") == {"zone": "a"}


def test_what_is_there_already_is_not_written_again(fleet: FrontDoor) -> None:
    put(fleet, {"rack": "r9"})
    version = fleet.node("n1").resource_version
    assert put(fleet, {"rack": "r9"}).json["changes"] == {"set": {}, "remove": []}
    assert fleet.node("n1").resource_version == version


def test_a_difference_to_the_documents_is_told_and_the_next_relabel_ends_it(fleet: FrontDoor) -> None:
    body = put(fleet, {"rack": "r9", "role": "db"}).json
    assert body["documents"] == {
        "revision": 1,
        "differ": True,
        "labels": {"rack": "r7"},
        "next_relabel": {"set": {"rack": "r7"}, "remove": ["role"]},
    }
    assert body["message"] == "differs from revision 1: the next relabel restores rack=r7 role-"

    fleet.relabels("n1")
    assert fleet.labels("n1") == {"zone": "a", "rack": "r7"}
    assert put(fleet, {"rack": "r7"}).json["message"] == ""


def test_no_document_is_needed(door: FrontDoor) -> None:
    door.has_nodes(n1={})
    body = put(door, {"rack": "r9"}).json
    assert body["documents"] == {"revision": None, "differ": False, "labels": {}, "next_relabel": {"set": {}, "remove": []}}


def test_a_node_shows_its_labels_and_who_holds_them(fleet: FrontDoor) -> None:
    fleet.relabels("n1")
    body = fleet.get(PATH).json
    assert body["labels"] == {"zone": "a", "rack": "r7"}
    assert (body["owned"], body["owners"]) == (["rack"], {"rack": ["hullmark"], "zone": ["kubelet"]})
    assert body["documents"]["differ"] is False


INVALID = [
    {"rack ": "r9"},
    {"rack": "-"},
    {"rack": None},
    {"rack": 1},
    {"rack": True},
    {"rack\n": "x"},
    {"a" * 64: "x"},
    {"$patch": "delete"},
    [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}],
    [{"key": "a"}],
    ["rack=r9"],
    "rack",
    7,
    None,
]


@pytest.mark.parametrize("labels", INVALID)
def test_what_kubernetes_refuses_is_refused_here_and_nothing_is_written(fleet: FrontDoor, labels: Any) -> None:
    assert put(fleet, labels).status_code == 400
    assert fleet.labels("n1") == {"zone": "a"}


def test_every_problem_is_named(fleet: FrontDoor) -> None:
    answer = put(fleet, {"rack ": "r9", "zone": "-", "kubernetes.io/hostname": "x"})
    assert reasons(answer) == ["InvalidLabel"] * 3
    assert "kubernetes.io/hostname is protected" in answer.json["reason"]


def test_a_protected_key_passes_where_the_documents_admit_it(fleet: FrontDoor) -> None:
    rules = {
        "apiVersion": "hullmark.dev/v1",
        "kind": "LabelRules",
        "metadata": {"name": "rules"},
        "spec": {"allowProtected": ["topology.kubernetes.io/zone"]},
    }
    fleet.commits(a_policy("n1", {"names": ["n1"]}, {"rack": "r7"}), rules)
    assert put(fleet, {"topology.kubernetes.io/zone": "b"}).status_code == 200
    assert put(fleet, {"topology.kubernetes.io/region": "b"}).status_code == 400


def test_an_unknown_node_is_not_found(fleet: FrontDoor) -> None:
    for answer in (put(fleet, {"a": "b"}, "/v1.0/node-labels/ghost"), fleet.get("/v1.0/node-labels/ghost")):
        assert (answer.status_code, answer.json["message"], reasons(answer)) == (404, "Node not found", ["NodeNotFound"])


def test_without_force_a_key_that_others_hold_is_a_conflict_that_names_them(fleet: FrontDoor) -> None:
    answer = put(fleet, {"zone": "b"}, f"{PATH}?force=false")
    assert (answer.status_code, answer.json["message"]) == (409, "Conflict")
    assert "zone is owned by kubelet" in answer.json["reason"]
    assert put(fleet, {"zone": "b"}).status_code == 200


ANSWERS: list[tuple[ClusterError, int, str, bool]] = [
    (Stale("n1 changed since it was read"), 409, "Conflict", True),
    (NodeGone("n1"), 409, "Conflict", True),
    (Refused("Invalid", "metadata.labels: too many"), 400, "Invalid labels", False),
    (Refused("Forbidden", "nodes is forbidden: User cannot patch"), 503, "Kubernetes API Error", False),
    (Unavailable("no answer in 10 s"), 503, "Kubernetes API Error", True),
]


@pytest.mark.parametrize(("error", "status", "title", "retry"), ANSWERS)
def test_what_the_api_server_says_comes_back_with_its_cause(
    fleet: FrontDoor, error: ClusterError, status: int, title: str, retry: bool
) -> None:
    def before(call: str, _node: str) -> None:
        if call == "apply_labels":
            raise error

    fleet.cluster.before = before
    answer = put(fleet, {"rack": "r9"})
    assert (answer.status_code, answer.json["message"], answer.json["retry"]) == (status, title, retry)
    assert "n1" in answer.json["reason"] or str(error) in answer.json["reason"]


def test_an_unknown_cluster_is_a_bad_request(fleet: FrontDoor) -> None:
    answer = put(fleet, {"a": "b"}, f"{PATH}?cluster=nowhere")
    assert (answer.status_code, reasons(answer)) == (400, ["ClusterUnknown"])


def test_what_this_store_never_declared_stays_until_it_is_adopted(fleet: FrontDoor) -> None:
    fleet.cluster.apply_labels("n1", fleet.node("n1").uid, {"team": "theirs"})
    answer = put(fleet, {"rack": "r9"})
    assert (answer.json["changes"], fleet.labels("n1")) == (
        {"set": {"rack": "r9"}, "remove": []},
        {"zone": "a", "rack": "r9", "team": "theirs"},
    )
    warned = [(said["reason"], said["level"]) for said in answer.json["details"]["messageList"]]
    assert warned == [("DiffersFromDocuments", "Warning"), ("NotAdopted", "Warning")]
    assert fleet.get(PATH).json["documents"]["next_relabel"] == {"set": {"rack": "r7"}, "remove": []}
    assert put(fleet, {}).json["changes"]["remove"] == ["rack"]
    assert put(fleet, {}, f"{PATH}?adopt=true").json["changes"]["remove"] == ["team"]
    assert fleet.labels("n1") == {"zone": "a"}


def test_an_action_adopts_over_http(fleet: FrontDoor) -> None:
    fleet.relabels()
    fleet.cluster.apply_labels("n1", fleet.node("n1").uid, {"rack": "r7", "team": "theirs"})
    for adopt, labels in ((False, {"zone": "a", "rack": "r7", "team": "theirs"}), (True, {"zone": "a", "rack": "r7"})):
        assert fleet.create(target_nodes=["n1"], adopt=adopt).status_code == 201
        fleet.cloud.drain()
        assert fleet.labels("n1") == labels


def test_whose_values_are_replaced_is_in_the_answer(fleet: FrontDoor) -> None:
    fleet.cluster.set_labels("n1", {"rack": "mine"}, "a-colleague")
    taken = put(fleet, {"rack": "r9", "role": "db"}).json["changes"]["from"]
    assert taken == {"rack": {"value": "mine", "holders": ["a-colleague"]}}


def tells(fleet: FrontDoor) -> None:
    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged(kind="added", cluster="default", name="n1").outgoing()])
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()


def test_the_event_of_the_own_write_and_a_sweep_keep_what_a_person_put(fleet: FrontDoor) -> None:
    put(fleet, {"rack": "r9"})
    tells(fleet)
    assert fleet.labels("n1") == {"zone": "a", "rack": "r9"}
    fleet.relabels("n1")
    tells(fleet)
    assert fleet.labels("n1") == {"zone": "a", "rack": "r7"}


def test_what_the_cluster_refused_is_taken_back_and_the_documents_labels_hold(fleet: FrontDoor) -> None:
    fleet.relabels("n1")
    fleet.cluster.set_labels("n1", {"row": "theirs"}, "someone")
    assert put(fleet, {"row": "mine"}, f"{PATH}?force=false").status_code == 409
    tells(fleet)
    assert fleet.labels("n1") == {"zone": "a", "rack": "r7", "row": "theirs"}


@pytest.mark.parametrize("error", [Unavailable("no answer"), Refused("Forbidden", "not today")], ids=["away", "refuses for now"])
def test_what_the_cluster_did_not_answer_to_is_written_by_the_next_sweep(fleet: FrontDoor, error: ClusterError) -> None:
    def is_away(call: str, _node: str) -> None:
        if call == "apply_labels":
            raise error

    fleet.cluster.before = is_away
    assert put(fleet, {"rack": "r9"}).status_code >= 500
    fleet.cluster.before = lambda call, node: None
    tells(fleet)
    assert fleet.labels("n1") == {"zone": "a", "rack": "r9"}
