"""`POST /plans` is a relabel that stops before its first write."""

from __future__ import annotations

from typing import Any

import pytest

from shared.ports import Unavailable
from tests.api.conftest import FrontDoor, policies, reasons
from tests.stories.fleet import a_policy


def planned(fleet: FrontDoor, **asked: Any) -> Any:
    answer = fleet.post("/v1.0/plans", asked)
    assert answer.status_code == 200, answer.json
    return answer.json


def test_a_plan_says_what_changes_and_why_and_leaves_no_trace(fleet: FrontDoor) -> None:
    actions, keys = fleet.world.actions.ids(), fleet.world.store.keys("")
    plan = planned(fleet, target_nodes=["n1"])
    change = {"set": {"rack": "r7"}, "remove": [], "from": {}, "takeovers": [], "reasons": {"rack": "declared by NodeLabelPolicy/n1"}}
    assert plan["nodes"] == {"n1": change}
    assert (plan["revision"], plan["cluster"], plan["unchanged"], plan["missing"], plan["blocked"]) == (1, "default", 0, [], {})
    assert (fleet.world.actions.ids(), fleet.world.store.keys("")) == (actions, keys)
    assert fleet.labels("n1") == {"zone": "a"}


def test_what_a_plan_names_is_what_the_relabel_changes(fleet: FrontDoor) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "n2": {"rack": "r8"}, "gone": {"rack": "r9"}})
    plan = planned(fleet, all=True)
    action = fleet.relabels()
    changed = {each.subject: each.changes.set for each in fleet.ended(action).outcomes if each.changes}
    assert {name: node["set"] for name, node in plan["nodes"].items()} == changed
    assert plan["missing"] == ["gone"]
    after = planned(fleet, all=True)
    assert (after["nodes"], after["unchanged"], after["missing"]) == ({}, 2, ["gone"])


def test_nodes_are_chosen_as_a_relabel_chooses_them(fleet: FrontDoor) -> None:
    chosen = {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_labels": {"rack": "r8"}}]}
    assert list(planned(fleet, node_filter=chosen)["nodes"]) == ["n2"]
    assert list(planned(fleet, target_nodes=" n2, n1,n2 ")["nodes"]) == ["n1", "n2"]
    assert list(planned(fleet, all=True, cluster="default")["nodes"]) == ["n1", "n2"]


def test_a_node_whose_policies_cannot_be_met_is_blocked(fleet: FrontDoor) -> None:
    fleet.commits(a_policy("zones", {"names": ["n1"]}, {"zone": "b"}, onConflict="fail"))
    plan = planned(fleet, target_nodes="n1")
    assert (plan["nodes"], plan["blocked"]["n1"]["outcome"], plan["blocked"]["n1"]["reason"]) == ({}, "failed", "Conflict")


def test_aliases_can_be_planned_for_another_version_of_the_cluster(fleet: FrontDoor) -> None:
    fleet.has_nodes(n3={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"})
    assert planned(fleet, target_nodes="n3")["nodes"]["n3"]["set"] == {"beta.kubernetes.io/os": "linux"}
    assert planned(fleet, target_nodes="n3", server_version="v1.17.3")["nodes"]["n3"]["set"] == {"kubernetes.io/os": "windows"}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "say which nodes"),
        ({"all": False}, "say which nodes"),
        ({"target_nodes": " , "}, "say which nodes"),
        ({"target_nodes": "n1", "all": True}, "one of them"),
        ({"target_nodes": [7]}, "target_nodes.0"),
        ({"all": True, "dry_run": True}, "dry_run"),
        ({"target_nodes": "n1,ghost1,ghost2"}, "unknown node ghost2: neither in revision 1 nor in cluster default"),
        ({"all": True, "cluster": "elsewhere"}, "elsewhere"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused_with_every_problem(fleet: FrontDoor, asked: dict[str, Any], says: str) -> None:
    answer = fleet.post("/v1.0/plans", asked)
    assert answer.status_code == 400
    assert says in " ".join(entry["message"] for entry in answer.json["details"]["messageList"])


def test_without_documents_there_is_nothing_to_plan(door: FrontDoor) -> None:
    assert reasons(door.post("/v1.0/plans", {"all": True})) == ["NoCommittedRevision"]


def test_a_cluster_that_does_not_answer_is_a_503_with_the_cause(fleet: FrontDoor) -> None:
    fleet.unreachable(Unavailable("no answer from https://10.0.0.1 in 10 s"))
    answer = fleet.post("/v1.0/plans", {"all": True})
    assert (answer.status_code, answer.json["retry"], answer.json["reason"]) == (503, True, "no answer from https://10.0.0.1 in 10 s")


def test_what_is_staged_is_not_planned(fleet: FrontDoor) -> None:
    fleet.stage(policies({"n1": {"rack": "r99"}}))
    assert planned(fleet, target_nodes="n1")["nodes"]["n1"]["set"] == {"rack": "r7"}


def test_what_a_plan_answers_binds_an_action_to_it(fleet: FrontDoor) -> None:
    plan = planned(fleet, target_nodes=["n1"])
    asked = fleet.create(plan=plan)
    assert (asked.status_code, asked.json["parameters"]) == (201, {"plan": {"revision": 1, "cluster": "default", "nodes": 1}})
    fleet.cloud.drain()
    outcome = fleet.get(f"/v1.0/actions/{asked.json['id']}/outcome").json
    assert (outcome["result"], outcome["counts"], fleet.labels("n1")["rack"], "rack" in fleet.labels("n2")) == (
        "success",
        {"changed": 1},
        "r7",
        False,
    )


def test_an_action_whose_plan_is_stale_says_what_differs_and_changes_nothing(fleet: FrontDoor) -> None:
    plan = planned(fleet, target_nodes=["n1"])
    fleet.cluster.set_labels("n1", {"rack": "mine"}, "a-colleague")
    asked = fleet.create(plan=plan)
    fleet.cloud.drain()
    shown = fleet.get(f"/v1.0/actions/{asked.json['id']}").json
    assert (shown["action_lifecycle"], shown["result"]) == ("Failed", "failure")
    assert "n1 (planned rack: (none) → r7; now due rack: mine → r7 (a-colleague))" in shown["message"]
    assert fleet.get(f"/v1.0/actions/{asked.json['id']}/outcome").json["reason"] == "StalePlan"
    assert fleet.labels("n1")["rack"] == "mine"


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("update_site", {}, "a plan says which nodes"),
        ("update_labels", {"target_nodes": ["n1", "n2"]}, "the plan does not have n2"),
        ("update_labels", {"cluster": "elsewhere"}, "the plan is for cluster default"),
        ("update_labels", {"plan": {"cluster": "default", "revision": 1, "nodes": {"n1": {"set": {}, "remove": []}}}}, "has no `from`"),
        ("update_labels", {"plan": [1]}, "plan: Input should be"),
        ("update_labels", {"plan": {"cluster": "default", "nodes": 7}}, "plan.nodes"),
        ("update_labels", {"plan": {"cluster": "default", "nodes": {}}}, "plan.nodes: Dictionary should have at least 1 item"),
    ],
)
def test_what_a_plan_does_not_have_can_not_be_asked_for_with_it(fleet: FrontDoor, name: str, more: dict[str, Any], says: str) -> None:
    answer = fleet.create(name, **({"plan": planned(fleet, target_nodes=["n1"])} | more))
    assert answer.status_code == 400
    assert says in " ".join(entry["message"] for entry in answer.json["details"]["messageList"])


def test_drift_alone_is_planned_where_it_is_asked_for(fleet: FrontDoor) -> None:
    fleet.relabels()
    fleet.commits(a_policy("racks", {"names": ["n1"]}, {"rack": "r99"}), adopted=False)
    newest, released = planned(fleet, all=True), planned(fleet, all=True, released=True)
    assert (newest["nodes"]["n1"]["set"], newest["waits"]) == ({"rack": "r99"}, {"revision": 2, "released": 1})
    assert (released["nodes"], released["revision"], released["released"]) == ({}, 1, True)
    answer = fleet.post("/v1.0/plans", {"all": True, "released": True, "server_version": "1.17"})
    assert (answer.status_code, "leave server_version out" in answer.json["details"]["messageList"][0]["message"]) == (400, True)
