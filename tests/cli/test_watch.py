"""`hullmark rollout watch`: what the page shows, in 80 columns; changes as they come; the exit code at the end."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from local.cli import rollout, watching
from local.cli.stages import changes, explained, view
from local.steps import ROOT
from shared.domain.reasons.table import WAITS
from shared.domain.rollouts.causes import Cause
from shared.work.rollouts import RolloutStatus, Share, StageStatus

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CANARY = StageStatus(name="canary", state="open", nodes=10, done=10, reason="Soaking", message="stage canary soaks", since=NOON)
REST = StageStatus(name="rest", state="waiting", nodes=90, reason="WaitingForStage", message="opens after stage canary")
SOAKS = RolloutStatus(
    id="01M7ZBXTWV1ZFW0GSK0VTJ4ER0",
    name="careful",
    revision=2,
    phase="running",
    clusters=["default"],
    started_by="ada",
    started_at=NOON,
    stages=[CANARY, REST],
    reason="Soaking",
    message="stage canary soaks",
    since=NOON,
    until=NOON + timedelta(minutes=10),
)
ENDED = {"reason": "", "message": "", "since": None, "until": None}
THROUGH = CANARY.model_copy(update={"state": "through", **ENDED})
REFUSED = Cause(reason="Forbidden", message="nodes is forbidden: the admission webhook says no", nodes=12, examples=["n1", "n2", "n3"])
FAILS = REST.model_copy(update={"state": "open", "done": 50, "failed": 12, "budget": 9, "causes": [REFUSED], "reason": "TooManyFailures"})
STOPPED = SOAKS.model_copy(
    update={
        "phase": "stopped",
        "stages": [THROUGH, FAILS],
        "reason": "TooManyFailures",
        "message": "stage rest: 12 of 90 nodes failed, and 9 may",
        "until": None,
        "who": "somebody who decides: `hullmark rollout retry`, `revert` or `abort`",
    }
)
DONE = SOAKS.model_copy(
    update={"phase": "done", "stages": [THROUGH, REST.model_copy(update={"state": "through", "done": 90, **ENDED})], **ENDED}
)


def printed(seen: RolloutStatus, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    for part in view(seen):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_view_fits_80_columns_and_cuts_nothing() -> None:
    text = printed(STOPPED)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text.replace("n3, …", "")
    words = " ".join(text.split())
    for told in (
        "careful: stopped, revision 2 to cluster default, started by ada at 2026-11-21 12:00 UTC",
        "canary through 10 of 10 0 (0 may) 0",
        "50 of 90 12 (9 may) 0",
        "rest: 12 nodes Forbidden (n1, n2, n3, …): nodes is forbidden: the admission webhook says no",
        "TooManyFailures: stage rest: 12 of 90 nodes failed, and 9 may, since 2026-11-21 12:00 UTC; it needs somebody who decides",
        "see docs/waits.md#toomanyfailures, or `hullmark reasons TooManyFailures`",
    ):
        assert told in words


def test_a_view_says_until_when_and_what_later_stages_wait_for_and_where_the_change_is_out() -> None:
    shares = [Share(cluster=f"c{number}", released=number, nodes=9) for number in range(7)]
    spread = SOAKS.model_copy(
        update={
            "clusters": [f"c{number}" for number in range(7)],
            "stages": [CANARY.model_copy(update={"where": shares, "clusters": 7}), REST],
        }
    )
    words = " ".join(printed(spread, 200).split())
    for told in (
        "revision 2 to 7 clusters",
        "canary is released to c0 0 of 9, c1 1 of 9, c2 2 of 9, c3 3 of 9, c4 4 of 9 and 2 more",
        "rest waiting 0 of 90 0 (0 may) 0 opens after stage canary",
        "waits: Soaking: stage canary soaks, since 2026-11-21 12:00 UTC, until 2026-11-21 12:10 UTC",
    ):
        assert told in words


def test_the_first_look_tells_where_it_stands_and_later_ones_what_has_changed() -> None:
    assert [*changes(None, SOAKS)] == [
        "stage canary is open, 10 of 10 nodes done",
        "running, Soaking: stage canary soaks, since 2026-11-21 12:00 UTC, until 2026-11-21 12:10 UTC",
    ]
    assert [*changes(SOAKS, SOAKS)] == []
    told = [*changes(SOAKS, STOPPED)]
    assert told[:3] == [
        "stage canary is through, 10 of 10 nodes done",
        "stage rest is open, 50 of 90 nodes done",
        "stage rest: 12 failed, 9 may",
    ]
    assert told[3].startswith("stage rest: 12 nodes Forbidden (n1, n2, n3, …)")
    assert told[4].startswith("stopped, TooManyFailures: stage rest")
    assert len(told) == 5
    assert [*changes(STOPPED, DONE)][-1] == "done"


@pytest.mark.parametrize("code", WAITS)
def test_every_reason_of_a_rollout_has_a_section_that_the_terminal_points_to(code: str) -> None:
    (line,) = explained(code)
    assert line == f"docs/waits.md#{code.lower()}, or `hullmark reasons {code}`"
    assert f"\n## {code}\n" in (ROOT / "docs" / "waits.md").read_text()


def test_a_foreign_reason_points_nowhere() -> None:
    assert [*explained("ThrottlingException")] == []


class Scripted:
    """A service whose rollout stands differently at each look."""

    goes_on = "on the server"

    def __init__(self, *looks: RolloutStatus) -> None:
        self._looks: Iterator[RolloutStatus] = iter(looks)
        self.ledger = self.rollouts = self

    def get(self, _: str) -> RolloutStatus:
        return next(self._looks)

    def look_again(self, _: str, __: float) -> RolloutStatus:
        if (seen := next(self._looks, None)) is None:
            raise KeyboardInterrupt
        return seen


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def watch(*looks: RolloutStatus, timeout: float | None = None) -> SimpleNamespace:
        there = Scripted(*looks)
        monkeypatch.setattr(rollout, "service", lambda: there)
        code = rollout.follow(there.get(""), "table", timeout)
        return SimpleNamespace(code=code, **capsys.readouterr()._asdict())

    return watch


@pytest.mark.parametrize(("looks", "code"), [((SOAKS, SOAKS, DONE), 0), ((SOAKS, STOPPED), 3)])
def test_a_watch_prints_one_line_for_each_change_and_ends_with_its_code(watched: Any, looks: tuple[RolloutStatus, ...], code: int) -> None:
    ran = watched(*looks)
    assert ran.code == code
    expected = [*changes(None, SOAKS), *changes(SOAKS, looks[-1])]
    assert ran.err.splitlines() == expected
    assert f"careful: {looks[-1].phase}" in ran.out


def test_a_watch_whose_patience_ends_while_it_waits_is_4(watched: Any) -> None:
    assert watched(SOAKS, timeout=0).code == 4


def test_ctrl_c_says_how_it_goes_on(watched: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        watched(SOAKS)
    assert f"goes on on the server; follow it with `hullmark rollout watch {SOAKS.id}`" in capsys.readouterr().err


def test_on_a_terminal_changes_scroll_by_and_the_view_stays_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=80, height=40, force_terminal=True, color_system=None)
    monkeypatch.setattr(watching, "talk", lambda: console)
    with watching.display() as show:
        show(SOAKS)
        show(STOPPED)
    text = screen.getvalue()
    assert text.index("stage rest: 12 failed, 9 may") < text.rindex("careful: stopped")
    assert "\x1b[2K" in text, "the view is drawn anew, not printed again and again"
