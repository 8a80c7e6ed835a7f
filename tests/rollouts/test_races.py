"""Two at once: what somebody was answered holds, whatever was being decided at that moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
import pytest

from functions.rollout.main import handle
from shared.domain.rollouts.progress import Progress
from shared.ledger.chains import Chain
from shared.messages import RolloutStep
from shared.ports import StoreError
from shared.work.intake import Rejected
from shared.work.rollouts import Control, control, start
from tests.rollouts.rolling import CANARY, HALF, Rolling, a_rollout
from tests.stories.fleet import a_policy

Opening = Callable[[Progress], None]


def before_openings(monkeypatch: pytest.MonkeyPatch, happens: Opening) -> None:
    """Have something happen right before an opening is written."""
    append = Chain.append

    def appended(chain: Chain, k: int, body: bytes) -> bool:
        if chain.key(k).startswith("rollouts/"):
            state = msgspec.json.decode(body, type=Progress)
            if state.said.verb == "open":
                happens(state)
        return append(chain, k, body)

    monkeypatch.setattr(Chain, "append", appended)


@pytest.mark.parametrize(("verb", "phase"), [("pause", "paused"), ("abort", "aborted"), ("revert", "reverted")])
def test_nothing_opens_where_a_word_was_answered_while_it_was_decided(
    fleet: Rolling, monkeypatch: pytest.MonkeyPatch, verb: Control, phase: str
) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    said: list[int] = []

    def somebody_speaks(state: Progress) -> None:
        if not said:
            said.append(len(state.batches))
            control(state.id, verb, "ada", fleet.world, fleet.now, message="because")

    before_openings(monkeypatch, somebody_speaks)
    fleet.later(minutes=10)
    assert said == [2]
    state = fleet.world.rollouts.get(fleet.rollout)
    assert (len([batch for batch in state.batches if not batch.back]), state.phase) == (1, phase)
    assert "n5" not in fleet.new()


def test_an_opening_is_written_before_its_request_is_sent(fleet: Rolling, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.ten_nodes(CANARY, HALF | {"approval": "none"})
    early: list[bool] = []

    def looks(state: Progress) -> None:
        early.append(any(state.batches[-1].action.encode() in waiting.message.data for waiting in fleet.cloud._queue))

    before_openings(monkeypatch, looks)
    fleet.starts()
    fleet.later(minutes=10)
    assert early == [False, False, False]


def test_two_who_look_at_once_open_a_batch_once(fleet: Rolling, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    looked: list[str] = []

    def another_looks(state: Progress) -> None:
        if not looked:
            looked.append(state.id)
            handle(RolloutStep(rollout=state.id), fleet.world, fleet.now)

    before_openings(monkeypatch, another_looks)
    fleet.later(minutes=10)
    batches = fleet.world.rollouts.get(fleet.rollout).batches
    assert len(batches) == len({batch.where for batch in batches}) == 2
    assert fleet.status.phase == "done"


def test_what_a_rollout_has_reached_is_in_the_first_stage_of_the_one_that_takes_its_place(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    other = {"name": "canary", "nodes": {"names": ["n1"]}, "soak": "10m"}
    fleet.commits(a_policy("tiers", {}, {"tier": "newer"}), a_rollout(other), adopted=False)
    fleet.starts(supersede=True)
    assert {name: tier for name, tier in fleet.tiers().items() if tier != "old"} == {"n0": "newer", "n1": "newer"}


def test_what_a_rollout_has_reached_is_in_the_first_stage_of_the_next_but_one_where_the_next_never_opened(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    for name in ("n1", "n2"):
        other = {"name": "canary", "nodes": {"names": [name]}, "approval": "before", "soak": "10m"}
        fleet.commits(a_policy("tiers", {}, {"tier": f"for-{name}"}), a_rollout(other), adopted=False)
        fleet.starts(supersede=True)
    fleet.says("approve", "canary")
    assert {name: tier for name, tier in fleet.tiers().items() if tier != "old"} == {"n0": "for-n2", "n2": "for-n2"}


def test_what_a_rollout_has_reached_keeps_it_until_the_one_that_takes_its_place_opens(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.commits(a_policy("tiers", {}, {"tier": "newer"}), a_rollout(CANARY | {"approval": "before"}), adopted=False)
    fleet.starts(supersede=True)
    fleet.cluster.set_labels("n0", {"tier": "drifted"})
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    assert fleet.new() == ["n0"]


def test_a_revision_that_was_taken_back_reaches_no_node_that_somebody_names(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.says("revert")
    fleet.relabels("n0", "n5")
    assert fleet.notices("request.refused")[-1]["problems"][0]["reason"] == "RevisionRejected"
    assert fleet.new() == []


@pytest.mark.parametrize("rejected", [True, False], ids=["and its revision rejected", "and its revision is not rejected yet"])
def test_the_request_of_a_batch_that_comes_after_the_rollout_was_taken_back_writes_nothing(
    fleet: Rolling, monkeypatch: pytest.MonkeyPatch, rejected: bool
) -> None:
    fleet.ten_nodes(CANARY)
    if not rejected:
        monkeypatch.setattr(fleet.world.revisions, "rejection", lambda number: "")
    start("careful", "ada", fleet.world, fleet.now)
    while "relabel-requests" not in {waiting.topic for waiting in fleet.cloud._queue}:
        fleet.cloud._deliver(fleet.cloud._queue.pop(0))
    held = [waiting for waiting in fleet.cloud._queue if waiting.topic == "relabel-requests"]
    fleet.cloud._queue[:] = [waiting for waiting in fleet.cloud._queue if waiting not in held]
    (fleet.rollout,) = fleet.world.rollouts.open()
    fleet.says("revert")
    fleet.cloud._queue.extend(held)
    fleet.cloud.drain()
    fleet.now += timedelta(minutes=10)
    fleet.later()
    assert fleet.new() == []
    assert fleet.status.phase == "reverted"


def test_a_finished_rollout_is_taken_back_under_another_one_that_is_on_its_way(fleet: Rolling) -> None:
    fleet.ten_nodes()
    fleet.starts()
    first = fleet.rollout
    fleet.commits(a_policy("tiers", {}, {"tier": "newer"}), a_rollout(CANARY), adopted=False)
    fleet.starts()
    control(first, "revert", "ada", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.tiers() == {name: "newer" if name == "n0" else "old" for name in fleet.tiers()}
    fleet.says("revert")
    assert set(fleet.tiers().values()) == {"old"}


def test_a_rollout_that_has_ended_is_closed_by_the_clock_where_that_was_cut_off(fleet: Rolling) -> None:
    fleet.ten_nodes()
    fleet.starts()
    fleet.world.store.create(f"open-rollouts/{fleet.rollout}", b"")
    fleet.later(minutes=10)
    assert fleet.world.rollouts.open() == []


def test_nothing_begins_on_top_of_a_rollout_whose_end_is_not_released_yet(fleet: Rolling) -> None:
    fleet.ten_nodes()
    finish, away = fleet.world.releases.finish_rollout, [True]

    def breaks(cluster: str, rollout: str, revision: int, by: str, at: datetime) -> None:
        if away:
            raise StoreError("the bucket is away")
        finish(cluster, rollout, revision, by, at)

    fleet.world.releases.finish_rollout = breaks  # type: ignore[method-assign]
    first = fleet.starts()
    assert (first.phase, first.pending) == ("done", "finish")
    fleet.commits(a_policy("tiers", {}, {"tier": "newest"}), a_rollout(), adopted=False)
    for supersede in (False, True):
        with pytest.raises(Rejected, match="is just being finished: try again in a minute"):
            start("careful", "ada", fleet.world, fleet.now, supersede=supersede)
    away.clear()
    fleet.later(minutes=1)
    fleet.starts()
    fleet.says("revert")
    assert fleet.world.releases.head("default").mark("n0").revision == 2
