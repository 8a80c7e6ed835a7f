"""How `rollout start --wait` and `rollout watch` end, asked of the installed command: pipelines go by its exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Hullmark
from tests.rollouts.rolling import a_rollout
from tests.stories.fleet import a_policy

CANARY = {"name": "canary", "nodes": {"names": ["n1"]}}
NOBODY = {"name": "canary", "nodes": {"names": ["n9"]}}
FREEZE = {
    "apiVersion": "hullmark.dev/v1",
    "kind": "Freeze",
    "metadata": {"name": "year-end"},
    "spec": {"from": "2026-11-20T00:00:00Z", "until": "2026-11-30T00:00:00Z", "reason": "year-end closing"},
}
Site = Callable[..., str]
Commits = Callable[..., None]


@pytest.fixture
def commits(hullmark: Hullmark, site: Site, nodes: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Commits:
    """Commits a rollout by this document on a site of three nodes; nothing is released before."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={}, n2={}, n3={})}")
    monkeypatch.setenv("HULLMARK_NOW", "2026-11-21T12:00:00Z")

    def commit(rollout: Mapping[str, Any], *documents: Mapping[str, Any]) -> None:
        hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r1"}), rollout, *documents))
        assert hullmark("documents", "commit").code == 0

    return commit


def installed(*arguments: str) -> int:
    """The exit code of the command as it is installed, in a process of its own."""
    script = Path(sys.executable).with_name("hullmark")
    return subprocess.run([script, "rollout", *arguments], capture_output=True, timeout=120, check=False).returncode


@pytest.mark.parametrize(
    ("rollout", "code"),
    [
        (a_rollout(), 0),
        (a_rollout(NOBODY), 3),
        (a_rollout(NOBODY, onStop="revert"), 3),
        (a_rollout({**CANARY, "approval": "after"}), 4),
        (a_rollout({**CANARY, "soak": "1h"}), 4),
    ],
    ids=["done", "stopped", "reverted", "waits for a person", "soaks"],
)
def test_a_start_that_waits_ends_with_what_became_of_the_rollout(
    hullmark: Hullmark, commits: Commits, rollout: Mapping[str, Any], code: int
) -> None:
    commits(rollout)
    assert installed("start", "--wait", "--timeout", "0.1") == code
    assert hullmark("rollout", "watch", _only(), "--timeout", "0").code == code


def test_a_rollout_that_is_recorded_is_enough_for_a_start_that_does_not_wait(hullmark: Hullmark, commits: Commits) -> None:
    commits(a_rollout(NOBODY))
    assert installed("start") == 0
    assert hullmark("rollout", "start").code == 1, "it is on its way already"


def test_a_freeze_at_the_end_of_the_callers_patience_is_a_four(commits: Commits) -> None:
    commits(a_rollout(), FREEZE)
    assert installed("start", "--wait", "--timeout", "0") == 4


@pytest.mark.parametrize(
    ("words", "code"), [(("pause", "--reason", "because"), 4), (("abort",), 3), (("revert",), 3)], ids=["paused", "aborted", "reverted"]
)
def test_watch_ends_with_what_a_person_said(hullmark: Hullmark, commits: Commits, words: tuple[str, ...], code: int) -> None:
    commits(a_rollout({**CANARY, "approval": "after"}))
    assert hullmark("rollout", "start").code == 0
    assert hullmark("rollout", words[0], _only(), *words[1:]).code == 0
    assert installed("watch", _only(), "--timeout", "0") == code


def _only() -> str:
    """The id of the one rollout in this folder's store."""
    (rollout,) = {path.parent.name for path in Path().rglob("rollouts/*/000001.json")}
    return rollout
