"""Following an action on a server: it ends with the action, with Ctrl-C, or with a line that says how to go on."""

from __future__ import annotations

import json
import threading

import pytest

from local.cli import relabel
from local.cli.client import Server
from local.cli.output import Failure
from local.cli.relabel import follow
from tests.cli.test_broken_servers import Answering
from tests.cli.test_broken_servers import answering as answering

ACTION = "01M7ZBXTWV1ZFW0GSK0VTJ4ER7"
RUNNING = {
    "id": ACTION,
    "name": "update_site",
    "cluster": "default",
    "committed_rev_id": 1,
    "action_lifecycle": "Processing",
    "result": None,
    "user": "ada",
    "dag_execution_date": "2026-11-21T12:00:00Z",
    "progress": {"done": 3, "total": 7},
}


@pytest.fixture
def running(answering: Answering) -> Answering:
    """A server on which the action is under way."""
    answering.kind, answering.body = "application/json", json.dumps(RUNNING)
    return answering


def test_ctrl_c_on_the_bar_ends_the_command_and_not_only_the_bar(
    running: Answering, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    ledger = Server(running.url).ledger

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(relabel, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        follow(ledger, ACTION, "table")
    assert f"continues on the server; follow it with `hullmark actions watch {ACTION}`" in capsys.readouterr().err
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")] == []


def test_a_server_that_is_lost_on_the_way_leaves_a_hint(running: Answering) -> None:
    running.body = "<html>"
    with pytest.raises(Failure, match=f"not JSON.*follow it with `hullmark actions watch {ACTION}`"):
        Server(running.url).ledger.wait(ACTION)


def test_progress_is_what_the_server_says(running: Answering) -> None:
    ledger = Server(running.url).ledger
    assert ledger.progress(ACTION) == (3, 7)
    running.body = json.dumps(RUNNING | {"progress": {"done": 0, "total": 0}})
    assert ledger.progress(ACTION) is None
