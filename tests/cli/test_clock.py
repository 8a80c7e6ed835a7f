"""`hullmark clock --once`: what the schedules send, for a cron job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from local import steps
from local.steps import ROOT
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.domain.actions import ActionRequest
from shared.ledger.actions import Actions, deadline
from shared.ports import Refused
from tests.cli.conftest import Hullmark
from tests.cli.test_embedded_and_server import FLEET

LEFT_OPEN: Final = "01M7ZBXTWV1ZFW0GSK0VTJ4ER0"


@pytest.fixture
def halden(hullmark: Hullmark, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """The example's site, relabelled."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{ROOT / 'examples' / 'nodes.json'}")
    hullmark("documents", "stage", "-f", str(ROOT / "examples" / "site"))
    hullmark("documents", "commit")
    hullmark("relabel", "--all")
    return hullmark


def test_every_schedule_is_sent_once_and_says_what_came_of_it(halden: Hullmark) -> None:
    ran = halden("clock", "--once", "-o", "json")

    schedules = steps.load().schedules
    assert [(sent["schedule"], sent["topic"]) for sent in ran.json["sent"]] == [(name, one.topic) for name, one in schedules.items()]
    assert {sent["schedule"]: (sent["step"], sent["outcome"]) for sent in ran.json["sent"]} == {
        "version-check": ("version_check", "no clusters"),
        "drift-sweep": ("relabel_request", "nothing to apply"),
        "action-deadlines": ("result_rollup", "0 ended"),
        "rollouts": ("rollout", "0 rollouts"),
    }
    [sweep] = ran.json["actions"]
    assert (sweep["name"], sweep["result"], sweep["counts"]["missing"]) == ("drift_sweep", "partial_success", 1)
    assert (ran.code, ran.json["notices"], ran.json["lost"]) == (3, [], []), "compute17 is in the design and not in the cluster"


def test_the_table_has_a_line_for_each_schedule_and_one_for_each_action(halden: Hullmark) -> None:
    lines = halden("clock", "--once").out.splitlines()
    assert lines[0].split() == ["SCHEDULE", "FUNCTION", "OUTCOME"]
    assert [line.split()[0] for line in lines[1:5]] == ["version-check", "drift-sweep", "action-deadlines", "rollouts"]
    assert [(line[:7], "drift_sweep of default: partial_success (1 missing" in line) for line in lines[5:]] == [("action ", True)]


def test_before_a_commit_there_is_nothing_to_sweep(hullmark: Hullmark) -> None:
    ran = hullmark("clock", "--once", "-o", "json")
    assert (ran.code, ran.json["actions"]) == (0, [])
    assert [notice["type"] for notice in ran.json["notices"]] == ["dev.hullmark.request.refused.v1"]
    assert {sent["outcome"] for sent in ran.json["sent"]} == {"no clusters", "refused", "0 ended", "0 rollouts"}


def test_a_clock_that_is_moved_says_what_is_due_then(hullmark: Hullmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    monkeypatch.setenv("HULLMARK_NOW", "2026-11-21T12:00:00Z")
    hullmark("documents", "stage", "-f", "fleet.yaml")
    hullmark("documents", "commit")

    early = hullmark("clock", "--once", "-o", "json").json
    monkeypatch.setenv("HULLMARK_NOW", "2026-12-20T12:00:00Z")
    late = hullmark("clock", "--once", "-o", "json").json
    again = hullmark("clock", "--once", "-o", "json").json

    def days_left(answer: dict[str, list[dict[str, dict[str, int]]]]) -> list[int]:
        return [notice["data"]["daysLeft"] for notice in answer["notices"] if "daysLeft" in notice["data"]]

    assert (days_left(early), days_left(late), days_left(again)) == ([32], [3], [])
    assert late["now"].startswith("2026-12-20T12:00:00")


def test_an_action_past_its_deadline_is_ended(halden: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, now = Actions(open_store("file:.hullmark")), datetime.now(UTC)
    late = deadline(now, 3600)
    asked = {"name": "update_labels", "cluster": "default", "revision": 1, "requested_by": "a colleague", "target_nodes": ["compute17"]}
    ledger.accept(ActionRequest.model_validate({**asked, "id": LEFT_OPEN, "requested_at": now, "deadline": late}))
    ledger.control(LEFT_OPEN, "pause", "a colleague", now)
    monkeypatch.setenv("HULLMARK_NOW", (late + timedelta(minutes=1)).isoformat())

    ran = halden("clock", "--once", "-o", "json")

    assert {action["id"]: action["result"] for action in ran.json["actions"]}[LEFT_OPEN] == "expired"
    assert ran.code == 1


def test_a_sweep_whose_cluster_refuses_is_an_error(halden: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Refused("Forbidden", "not today")

    monkeypatch.setattr(Simulated, "nodes", refuse)
    ran = halden("clock", "--once", "-o", "json")
    assert ran.code == 1
    assert [(action["result"], action["reason"]) for action in ran.json["actions"]] == [("failure", "Forbidden")]


def test_without_once_the_command_says_what_keeps_going(hullmark: Hullmark) -> None:
    ran = hullmark("clock")
    assert (ran.code, "hullmark serve" in ran.err) == (1, True)
