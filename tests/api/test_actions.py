"""What the api does with actions, through functions-framework and the whole cloud behind it."""

from __future__ import annotations

from typing import Any

import pytest

from functions.api.shipyard import step_detail
from functions.api.standing import Standing
from shared.domain.actions import ActionRequest
from shared.domain.names import UPDATE_LABELS, UPDATE_VERSIONS
from shared.ports import BusError, Unavailable
from tests.api.conftest import FrontDoor, reasons
from tests.stories.fleet import START, a_policy


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        (UPDATE_VERSIONS, {"plan": "version_check", "version_apply": "version_apply", "rollup": "result_rollup"}),
        (UPDATE_LABELS, {"plan": "relabel_request", "relabel_nodes": "node_apply", "rollup": "result_rollup"}),
    ],
)
def test_a_step_names_the_function_that_does_it(name: str, functions: dict[str, str]) -> None:
    asked = ActionRequest(id="01", name=name, cluster="c", revision=1, requested_by="ada", requested_at=START, deadline=START)
    found = Standing(asked, None, None, "Pending")

    steps = {step: step_detail(found, None, step, 1) for step in functions}

    assert {step: shown.operator for step, shown in steps.items() if shown} == functions


@pytest.mark.parametrize("targets", [["n1", "n2"], "n1,n2", " n2 , n1,,n1 "])
def test_a_list_and_a_comma_string_relabel_the_same_nodes(fleet: FrontDoor, targets: Any) -> None:
    answer = fleet.create(target_nodes=targets)
    fleet.cloud.drain()

    assert answer.status_code == 201
    assert answer.json["parameters"] == {"target_nodes": targets}
    assert fleet.labels("n1") == {"zone": "a", "rack": "r7"}
    assert fleet.labels("n2") == {"zone": "a", "rack": "r8"}


def test_a_new_action_answers_shipyards_fields_and_where_it_is(fleet: FrontDoor) -> None:
    answer = fleet.create(target_nodes=["n1"])

    body = answer.json
    assert answer.headers["Location"] == f"/v1.0/actions/{body['id']}"
    assert len(body["id"]) == 26
    assert (body["name"], body["dag_id"], body["dag_status"], body["action_lifecycle"]) == (
        "update_labels",
        "update_labels",
        "SCHEDULED",
        "Pending",
    )
    assert (body["committed_rev_id"], body["user"], body["allow_intermediate_commits"]) == (1, "unauthenticated", False)
    assert fleet.get(answer.headers["Location"]).json["id"] == body["id"]


def test_an_action_goes_from_pending_over_processing_to_its_end(fleet: FrontDoor) -> None:
    action = fleet.create(target_nodes=["n1", "n2"]).json["id"]
    assert fleet.get(f"/v1.0/actions/{action}").json["action_lifecycle"] == "Pending"

    fleet.cloud.drain()

    shown = fleet.get(f"/v1.0/actions/{action}").json
    assert (shown["action_lifecycle"], shown["dag_status"], shown["result"]) == ("Complete", "success", "success")
    assert shown["counts"] == {"changed": 2}
    assert shown["progress"] == {"done": 2, "total": 2}
    assert [(step["id"], step["state"]) for step in shown["steps"]] == [
        ("plan", "success"),
        ("relabel_nodes", "success"),
        ("rollup", "success"),
    ]
    assert [entry["command"] for entry in shown["command_audit"]] == ["invoke"]


def test_the_cause_of_each_failure_stands_in_the_step_note_of_its_node(fleet: FrontDoor) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "gone": {"rack": "r9"}})
    action = fleet.create(target_nodes=["gone", "n1"]).json["id"]
    fleet.cloud.drain()

    shown = fleet.get(f"/v1.0/actions/{action}").json
    assert (shown["action_lifecycle"], shown["result"]) == ("Failed", "partial_success")
    notes = {note["subject"]: note["note_val"] for note in shown["steps"][1]["notes"]}
    assert list(notes) == ["gone"]
    assert notes["gone"].startswith("node:gone: missing NodeNotFound: ")
    assert notes["gone"].endswith("(error)")

    step = fleet.get(f"/v1.0/actions/{action}/steps/relabel_nodes").json
    assert {note["subject"]: note["note_val"] for note in step["notes"]}["n1"] == "node:n1: changed rack=r7"
    assert (step["task_id"], step["state"], step["index"], step["try_number"]) == ("relabel_nodes", "failed", 2, 1)


def test_unchanged_nodes_are_noted_only_when_asked_for(fleet: FrontDoor) -> None:
    for _ in range(2):
        action = fleet.create(target_nodes=["n1"]).json["id"]
        fleet.cloud.drain()
    step = f"/v1.0/actions/{action}/steps/relabel_nodes"
    assert fleet.get(step).json["notes"] == []
    assert [note["note_val"] for note in fleet.get(f"{step}?verbosity=2").json["notes"]] == ["node:n1: unchanged"]


@pytest.mark.parametrize("targets", [None, [], "", " ", ",", {}, 7, [1], [None]])
def test_no_nodes_is_refused(fleet: FrontDoor, targets: Any) -> None:
    answer = fleet.create(target_nodes=targets)
    assert answer.status_code == 400
    assert answer.json["message"] == "Invalid target_nodes parameter"
    assert fleet.get("/v1.0/actions").json == []


def test_every_unknown_node_is_named(fleet: FrontDoor) -> None:
    answer = fleet.create(target_nodes=["n1", "x1", "x2"])
    assert answer.status_code == 400
    assert reasons(answer) == ["UnknownNode", "UnknownNode"]
    assert [said["message"].split(":")[0] for said in answer.json["details"]["messageList"]] == ["unknown node x1", "unknown node x2"]
    assert answer.json["details"]["errorCount"] == 2


def test_many_names_that_no_document_knows_cost_one_listing(fleet: FrontDoor) -> None:
    calls: list[str] = []
    fleet.cluster.before = lambda call, _node: calls.append(call)
    answer = fleet.create(target_nodes=[f"x{number}" for number in range(600)])
    assert (answer.status_code, answer.json["details"]["errorCount"]) == (400, 600)
    assert calls.count("nodes") == 1
    assert calls.count("node") == 0


def test_an_unsupported_action_is_refused_in_shipyards_words(fleet: FrontDoor) -> None:
    answer = fleet.create(name="update_versions")
    assert (answer.status_code, answer.json["message"]) == (400, "Unable to start action")
    assert answer.json["reason"].startswith("Unsupported Action: update_versions")


def test_a_misspelt_parameter_never_becomes_something_else(fleet: FrontDoor) -> None:
    answer = fleet.create(target_nodes=["n1"], dryrun=True)
    assert (answer.status_code, reasons(answer)) == (400, ["UnknownParameter"])


def test_nothing_is_accepted_before_documents_are_committed(door: FrontDoor) -> None:
    answer = door.create(target_nodes=["n1"])
    assert (answer.status_code, answer.json["message"]) == (400, "No committed configdocs")


def test_a_targeted_action_needs_a_site_action_before_it_and_never_counts_as_one(door: FrontDoor) -> None:
    door.commits(a_policy("racks", {"names": ["n1"]}, {"rack": "r7"}), adopted=False)
    door.has_nodes(n1={})
    refused = door.create(target_nodes=["n1"])
    assert (refused.status_code, reasons(refused)) == (400, ["NoSiteAction"])

    assert door.create(name="update_site").status_code == 201
    door.cloud.drain()
    assert door.cloud.world.revisions.tags(1) == ["committed", "site-action-success"]

    door.commits(a_policy("racks", {"names": ["n1"]}, {"rack": "r9"}), adopted=False)
    assert door.create(target_nodes=["n1"]).status_code == 201
    door.cloud.drain()
    assert door.cloud.world.revisions.tags(2) == ["committed"]


def test_a_dry_run_changes_nothing_and_says_what_would_change(fleet: FrontDoor) -> None:
    action = fleet.create(target_nodes=["n1"], dry_run=True).json["id"]
    fleet.cloud.drain()
    assert "rack" not in fleet.labels("n1")
    (told,) = fleet.get(f"/v1.0/actions/{action}/outcome").json["outcomes"]
    assert (told["outcome"], told["reason"], told["changes"]["set"]) == ("changed", "DryRun", {"rack": "r7"})


def test_pause_keeps_the_parts_until_unpause_and_the_audit_says_who(fleet: FrontDoor) -> None:
    action = fleet.create(target_nodes=["n1"]).json["id"]
    assert fleet.post(f"/v1.0/actions/{action}/control/pause").status_code == 202
    fleet.cloud.drain()
    assert fleet.get(f"/v1.0/actions/{action}").json["action_lifecycle"] == "Paused"
    assert "rack" not in fleet.labels("n1")

    assert fleet.post(f"/v1.0/actions/{action}/control/unpause").status_code == 202
    fleet.cloud.drain()
    shown = fleet.get(f"/v1.0/actions/{action}").json
    assert shown["action_lifecycle"] == "Complete"
    assert [entry["command"] for entry in shown["command_audit"]] == ["invoke", "pause", "unpause"]
    assert fleet.labels("n1")["rack"] == "r7"


def test_a_stopped_action_ends_as_stopped_and_touches_nothing(fleet: FrontDoor) -> None:
    action = fleet.create(target_nodes=["n1"]).json["id"]
    assert fleet.post(f"/v1.0/actions/{action}/control/stop").status_code == 202
    fleet.cloud.drain()
    shown = fleet.get(f"/v1.0/actions/{action}").json
    assert (shown["action_lifecycle"], shown["result"]) == ("Failed", "stopped")
    assert "rack" not in fleet.labels("n1")


@pytest.mark.parametrize("verb", ["stop", "pause", "unpause", "retry"])
def test_a_control_in_the_wrong_state_is_a_conflict(fleet: FrontDoor, verb: str) -> None:
    action = fleet.create(target_nodes=["n1"]).json["id"]
    fleet.cloud.drain()
    answer = fleet.post(f"/v1.0/actions/{action}/control/{verb}")
    assert (answer.status_code, answer.json["message"]) == (409, "Invalid state")


def test_retry_is_a_new_action_on_the_nodes_that_failed(fleet: FrontDoor) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "late": {"rack": "r9"}})
    first = fleet.create(target_nodes=["n1", "late"]).json["id"]
    fleet.cloud.drain()
    fleet.has_nodes(late={})

    answer = fleet.post(f"/v1.0/actions/{first}/control/retry")
    fleet.cloud.drain()

    assert answer.status_code == 202
    again = fleet.get(answer.headers["Location"]).json
    assert (again["retry_of"], again["parameters"]["target_nodes"], again["result"]) == (first, ["late"], "success")


@pytest.mark.parametrize(
    "path",
    ["/v1.0/actions/{}", "/v1.0/actions/{}/steps/plan", "/v1.0/actions/{}/outcome", "/v1.0/tasks/{}"],
)
@pytest.mark.parametrize("unknown", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "..", "x"])
def test_an_unknown_action_is_not_found(fleet: FrontDoor, path: str, unknown: str) -> None:
    answer = fleet.get(path.format(unknown))
    assert (answer.status_code, answer.json["status"], answer.json["code"]) == (404, "Failure", "404 Not Found")


def test_a_request_that_the_bus_does_not_take_ends_as_failed_and_says_so(fleet: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(topic: str, messages: Any) -> None:
        raise BusError("topic relabel-requests: no answer")

    with monkeypatch.context() as patch:
        patch.setattr(fleet.cloud.world.bus, "publish", broken)
        answer = fleet.create(target_nodes=["n1"])
    assert (answer.status_code, answer.json["retry"]) == (503, True)
    (action,) = fleet.get("/v1.0/actions").json
    assert (action["action_lifecycle"], action["result"]) == ("Failed", "failure")
    assert "no answer" in action["message"]

    answer = fleet.post(f"/v1.0/actions/{action['id']}/control/retry")
    fleet.cloud.drain()
    assert fleet.get(answer.headers["Location"]).json["result"] == "success"


def test_an_unreachable_cluster_is_a_503_with_its_cause_when_names_must_be_looked_up(fleet: FrontDoor) -> None:
    fleet.unreachable(Unavailable("no answer from https://10.0.0.1 in 10 s"))
    answer = fleet.create(target_nodes=["x1"])
    assert (answer.status_code, answer.json["retry"], answer.json["reason"]) == (503, True, "no answer from https://10.0.0.1 in 10 s")
