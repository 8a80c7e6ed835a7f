"""`/rollouts`: start one, look at it, give it a word."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.api.conftest import FrontDoor
from tests.rollouts.rolling import a_rollout
from tests.stories.fleet import a_policy

CANARY = {"name": "canary", "nodes": {"names": ["n1"]}, "approval": "after"}


@pytest.fixture
def door(door: FrontDoor) -> FrontDoor:
    """Two nodes, revision 1 released, revision 2 committed with a rollout."""
    door.has_nodes(n1={}, n2={})
    door.commits(a_policy("tiers", {}, {"tier": "old"}))
    door.relabels()
    door.commits(a_policy("tiers", {}, {"tier": "new"}), a_rollout(CANARY), adopted=False)
    return door


def started(door: FrontDoor) -> Any:
    answer = door.post("/v1.0/rollouts", {"name": "careful"})
    door.cloud.drain()
    assert answer.status_code == 201
    return answer


def control(door: FrontDoor, rollout: str, verb: str, **body: Any) -> Any:
    answer = door.post(f"/v1.0/rollouts/{rollout}/control/{verb}", body)
    door.cloud.drain()
    return answer


def test_a_rollout_is_started_shown_approved_and_listed(door: FrontDoor) -> None:
    answer = started(door)
    rollout = answer.json["id"]
    assert answer.headers["Location"] == f"/v1.0/rollouts/{rollout}"
    shown = door.get(f"/v1.0/rollouts/{rollout}").json
    assert (shown["phase"], shown["reason"], shown["stages"][0]["name"]) == ("running", "AwaitingApproval", "canary")

    assert control(door, rollout, "approve", stage="canary", impact=shown["impact"]["digest"]).status_code == 202
    assert [one["phase"] for one in door.get("/v1.0/rollouts").json["rollouts"]] == ["done"]
    assert door.labels("n2") == {"tier": "new"}


def test_a_second_rollout_and_a_site_action_are_conflicts_while_one_is_on_its_way(door: FrontDoor) -> None:
    started(door)
    for refused in (door.post("/v1.0/rollouts", {}), door.create("update_site")):
        assert refused.status_code == 409
        assert refused.json["details"]["messageList"][0]["reason"] == "RolloutRunning"


def test_a_site_action_that_supersedes_ends_the_rollout_and_takes_its_place(door: FrontDoor) -> None:
    rollout = started(door).json["id"]
    assert door.create("update_site", supersede=True).status_code == 201
    door.cloud.drain()
    assert door.get(f"/v1.0/rollouts/{rollout}").json["phase"] == "superseded"
    assert door.labels("n2") == {"tier": "new"}


def test_a_relabel_of_named_nodes_takes_the_place_of_no_rollout(door: FrontDoor) -> None:
    started(door)
    assert door.create("update_labels", target_nodes="n2", supersede=True).status_code == 400


@pytest.mark.parametrize(
    ("verb", "body", "status", "reason"),
    [
        ("approve", {"stage": "rest"}, 409, "WrongPhase"),
        ("approve", {"stage": "canary"}, 400, "ImpactRequired"),
        ("approve", {"stage": "canary", "impact": "2f1c0a9b8d7e6f50"}, 409, "ImpactChanged"),
        ("approve", {"stage": "canary", "impact": "../x"}, 409, "ImpactChanged"),
        ("pause", {}, 400, "ReasonRequired"),
        ("resume", {}, 409, "WrongPhase"),
        ("explode", {}, 404, ""),
        ("approve", {"stag": "canary"}, 400, "extra_forbidden"),
    ],
)
def test_a_word_that_makes_no_sense_now_changes_nothing(door: FrontDoor, verb: str, body: dict[str, str], status: int, reason: str) -> None:
    rollout = started(door).json["id"]
    answer = control(door, rollout, verb, **body)
    assert (answer.status_code, answer.json["details"]["messageList"][0]["reason"]) == (status, reason)
    assert door.get(f"/v1.0/rollouts/{rollout}").json["reason"] == "AwaitingApproval"


def test_a_rollout_that_nobody_started_is_not_found(door: FrontDoor) -> None:
    for path in ("nothing", "01M7ZBXTWV1ZFW0GSK0VTJ4ER0", "..%2Factions"):
        assert door.get(f"/v1.0/rollouts/{path}").status_code == 404


def test_the_action_of_a_batch_is_steered_with_its_rollout(door: FrontDoor) -> None:
    rollout = started(door).json["id"]
    action = door.get(f"/v1.0/rollouts/{rollout}").json["stages"][0]["actions"][0]
    answer = door.post(f"/v1.0/actions/{action}/control/retry")
    assert (answer.status_code, "belongs to a rollout" in answer.json["reason"]) == (409, True)


def test_a_commit_names_the_rollout_that_it_starts_and_a_dry_run_the_one_that_it_would(door: FrontDoor) -> None:
    documents = (a_policy("tiers", {}, {"tier": "newest"}), a_rollout(CANARY, start="onCommit"))
    door.post("/v1.0/configdocs/site", data=yaml.safe_dump_all(documents), content_type="application/x-yaml")
    would = door.post("/v1.0/commitconfigdocs?dryrun=true").json["rollouts"]
    assert [(each["name"], each["id"], each["clusters"]) for each in would] == [("careful", "", ["default"])]

    (started,) = door.post("/v1.0/commitconfigdocs").json["rollouts"]
    door.cloud.drain()
    assert door.get(f"/v1.0/rollouts/{started['id']}").json["reason"] == "AwaitingApproval"
    assert (door.labels("n1"), door.labels("n2")) == ({"tier": "newest"}, {"tier": "old"})


def test_a_restore_names_the_rollout_that_it_starts(door: FrontDoor) -> None:
    documents = (a_policy("tiers", {}, {"tier": "newest"}), a_rollout(CANARY, start="onCommit"))
    door.commits(*documents, adopted=False)
    door.commits(a_policy("tiers", {}, {"tier": "wrong"}), adopted=False)
    restored = door.post("/v1.0/revisions/3/restore").json
    assert restored["rejected"] == [4]
    assert door.get(f"/v1.0/rollouts/{restored['rollouts'][0]['id']}").json["revision"] == 5
