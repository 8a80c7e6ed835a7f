"""Drydock's calls: tasks with a node filter, rolled up from their nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import FrontDoor, reasons


def by_name(*names: str) -> dict[str, Any]:
    return {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": list(names)}]}


def task(door: FrontDoor, **fields: Any) -> Any:
    return door.post("/v1.0/tasks", {"action": "relabel_nodes", "design_ref": "committed", **fields})


REFS = [
    "committed",
    "revisions/1",
    "http://deckhand-int.ucp.svc.cluster.local:9000/api/v1.0/revisions/1/rendered-documents",
    "deckhand+http://deckhand-int.ucp.svc.cluster.local:9000/api/v1.0/revisions/1/rendered-documents",
]


@pytest.mark.parametrize("ref", REFS)
def test_every_form_of_a_design_ref_starts_a_task(fleet: FrontDoor, ref: str) -> None:
    answer = task(fleet, design_ref=ref, node_filter=by_name("n1"))
    assert answer.status_code == 201, answer.json
    body = answer.json
    assert answer.headers["Location"] == f"/v1.0/tasks/{body['task_id']}"
    assert (body["action"], body["status"], body["design_ref"]) == ("relabel_nodes", "requested", ref)
    assert body["result"]["status"] == "incomplete"
    assert body["node_filter"]["filter_set"][0]["node_names"] == ["n1"]


@pytest.mark.parametrize("ref", ["", "revision 1", "revisions/2", "revisions/0", "revisions/x", "revisions/1/documents"])
def test_another_design_ref_is_refused(fleet: FrontDoor, ref: str) -> None:
    answer = task(fleet, design_ref=ref)
    assert (answer.status_code, answer.json["message"]) == (400, "Invalid design_ref")


def test_a_finished_task_is_rolled_up_from_a_subtask_for_each_node(fleet: FrontDoor) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "gone": {"rack": "r9"}})
    started = task(fleet, node_filter=by_name("n1", "gone")).json["task_id"]
    assert fleet.get(f"/v1.0/tasks/{started}").json["status"] == "queued"
    fleet.cloud.drain()

    body = fleet.get(f"/v1.0/tasks/{started}").json
    assert (body["status"], body["result"]["status"]) == ("complete", "partial_success")
    assert (body["result"]["successes"], body["result"]["failures"]) == (["n1"], ["gone"])
    assert body["result"]["details"]["errorCount"] == 1
    assert [(each["node"], each["result"]) for each in body["subtasks"]] == [("gone", "failure"), ("n1", "success")]

    leaf = fleet.get(f"/v1.0/tasks/{body['subtask_id_list'][0]}").json
    assert (leaf["action"], leaf["parent_task_id"], leaf["result"]["failures"]) == ("relabel_node", started, ["gone"])
    assert leaf["result"]["details"]["messageList"][0]["message"].startswith("missing NodeNotFound: ")


def test_layers_and_subtask_errors_come_in_drydocks_form(fleet: FrontDoor) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "gone": {"rack": "r9"}})
    started = task(fleet, node_filter=by_name("n1", "gone")).json["task_id"]
    fleet.cloud.drain()
    body = fleet.get(f"/v1.0/tasks/{started}?layers=-1&subtaskerrors=true").json
    assert body["init_task_id"] == started
    assert set(body) == {"init_task_id", "subtask_errors", started, f"{started}.n1", f"{started}.gone"}
    assert list(body["subtask_errors"]) == [f"{started}.gone"]


def test_without_a_filter_every_node_is_meant_and_no_revision_is_tagged(fleet: FrontDoor) -> None:
    fleet.has_nodes(n3={})
    started = task(fleet).json["task_id"]
    fleet.cloud.drain()
    body = fleet.get(f"/v1.0/tasks/{started}").json
    assert body["result"]["successes"] == ["n1", "n2", "n3"]
    assert body["node_filter"] is None
    assert fleet.labels("n2")["rack"] == "r8"


def test_a_stopped_task_is_terminated_by_who_stopped_it(fleet: FrontDoor) -> None:
    started = task(fleet, node_filter=by_name("n1")).json["task_id"]
    fleet.post(f"/v1.0/actions/{started}/control/stop", environ_overrides={"REMOTE_USER": "ada"})
    fleet.cloud.drain()
    body = fleet.get(f"/v1.0/tasks/{started}").json
    assert (body["status"], body["terminated_by"], body["result"]["status"]) == ("terminated", "ada", "failure")


MALFORMED = [
    {"filter_set_type": "both", "filter_set": []},
    {"filter_set": [{"filter_type": "union", "node_names": ["n1"]}]},
    {"filter_set_type": "union", "filter_set": [{"filter_type": "xor"}]},
    {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": "n100"}]},
    {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_label": {"a": "b"}}]},
    "n1",
    [],
]


@pytest.mark.parametrize("call", ["tasks", "nodefilter"])
@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_malformed_filter_is_refused(fleet: FrontDoor, call: str, malformed: Any) -> None:
    action = {"action": "relabel_nodes"} if call == "tasks" else {}
    answer = fleet.post(f"/v1.0/{call}", {**action, "design_ref": "committed", "node_filter": malformed})
    assert answer.status_code == 400
    assert "node_filter" in answer.json["reason"]


def test_a_node_filter_answers_names(fleet: FrontDoor) -> None:
    def names(node_filter: Any) -> Any:
        return fleet.post("/v1.0/nodefilter", {"design_ref": "committed", "node_filter": node_filter}).json

    assert names(None) == ["n1", "n2"]
    assert names(by_name("n2", "unknown")) == ["n2"]
    assert names({"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_labels": {"rack": "r7"}}]}) == ["n1"]


@pytest.mark.parametrize("field", ["action", "design_ref"])
def test_a_task_without_its_required_fields_names_them(fleet: FrontDoor, field: str) -> None:
    body = {"action": "relabel_nodes", "design_ref": "committed"}
    del body[field]
    answer = fleet.post("/v1.0/tasks", body)
    assert (answer.status_code, reasons(answer)) == (400, ["missing"])
    assert field in answer.json["reason"]


def test_drydocks_other_actions_are_not_ours(fleet: FrontDoor) -> None:
    assert reasons(task(fleet, action="deploy_nodes")) == ["UnsupportedAction"]


def test_every_action_is_a_task_and_the_list_says_so(fleet: FrontDoor) -> None:
    action = fleet.create(target_nodes=["n1"]).json["id"]
    fleet.cloud.drain()
    (listed,) = fleet.get("/v1.0/tasks").json
    assert (listed["task_id"], listed["result"]["status"]) == (action, "success")
