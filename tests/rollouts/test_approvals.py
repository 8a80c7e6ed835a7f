"""An approval is for the impact that was shown: where that is another by now, nothing is approved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.rollouts.approvals import digest_of
from shared.work.intake import Rejected
from shared.work.rollouts import control
from tests.rollouts.rolling import CANARY, HALF, Rolling


def approves(fleet: Rolling, stage: str, impact: str) -> None:
    control(fleet.rollout, "approve", "ada", fleet.world, fleet.now, stage=stage, impact=impact)
    fleet.cloud.drain()


def waiting(fleet: Rolling, *stages: Mapping[str, Any]) -> str:
    """A rollout that waits for an approval; the digest of the impact that is shown."""
    fleet.ten_nodes(*stages)
    fleet.starts()
    fleet.later(minutes=10)
    assert fleet.status.impact is not None
    return fleet.status.impact.digest


def test_what_an_approval_lets_happen_is_counted_and_shown_when_it_is_waited_for(fleet: Rolling) -> None:
    waiting(fleet, CANARY, {**HALF, "approval": "before"}, {"name": "rest", "approval": "before"})
    shown = fleet.status.impact
    assert shown is not None
    assert (shown.stages, shown.clusters["default"].changes) == (["half"], fleet.status.stages[1].nodes)
    assert shown.clusters["default"].added == {"lane": fleet.status.stages[1].nodes}


def test_all_that_opens_before_the_next_approval_is_shown(fleet: Rolling) -> None:
    waiting(fleet, CANARY, HALF)
    shown = fleet.status.impact
    assert shown is not None
    assert (shown.stages, shown.clusters["default"].changes) == (["half", "rest"], 9)


def test_an_approval_after_a_stage_is_for_what_comes_next(fleet: Rolling) -> None:
    waiting(fleet, {**CANARY, "approval": "after"})
    shown = fleet.status.impact
    assert shown is not None
    assert (shown.stages, shown.clusters["default"].changes) == (["rest"], 9)


def test_an_approval_of_an_impact_that_has_changed_opens_nothing_and_says_what_changed(fleet: Rolling) -> None:
    shown = waiting(fleet, CANARY, HALF)
    fleet.cluster.set_labels("n5", {"lane": "mine"})
    with pytest.raises(Rejected, match=r"shown were 9 change .* now 9 change .*taken over: lane from .* on 1") as refused:
        approves(fleet, "half", shown)
    assert refused.value.problems[0].reason == "ImpactChanged"
    assert fleet.new() == ["n0"]

    now = fleet.status.impact
    assert now is not None
    assert now.digest != shown
    assert f"--impact {now.digest}" in str(refused.value)
    approves(fleet, "half", now.digest)
    assert fleet.status.phase == "done"


def test_the_digest_of_an_older_impact_counts_again_where_that_is_so_again(fleet: Rolling) -> None:
    shown = waiting(fleet, CANARY, HALF)
    fleet.cluster.create("n99", {}, ready=True)
    fleet.cluster.set_labels("n5", {"lane": "mine"})
    with pytest.raises(Rejected):
        approves(fleet, "half", shown)
    fleet.cluster.set_labels("n5", {"lane": None})
    approves(fleet, "half", shown)
    assert fleet.status.phase == "done"


def test_an_approval_that_names_no_impact_or_that_of_another_stage_opens_nothing(fleet: Rolling) -> None:
    first = waiting(fleet, {**CANARY, "approval": "after"}, HALF)
    with pytest.raises(Rejected, match="say which impact is approved"):
        approves(fleet, "canary", "")
    approves(fleet, "canary", first)
    with pytest.raises(Rejected, match="nothing was approved"):
        approves(fleet, "half", first)
    assert fleet.new() == ["n0"]


def test_a_digest_fits_one_rollout_one_stage_and_one_moment_of_it() -> None:
    digests = {digest_of(*args, {}) for args in (("a", 0, "before"), ("b", 0, "before"), ("a", 1, "before"), ("a", 0, "after"))}
    assert len(digests) == 4


def test_a_cluster_that_does_not_answer_is_said_to_be_unseen_and_is_approved_as_such(fleet: Rolling) -> None:
    from shared.ports import Unavailable

    shown = waiting(fleet, CANARY, HALF)

    def away(_call: str, _node: str) -> None:
        raise Unavailable("it is being moved")

    fleet.cluster.before = away
    with pytest.raises(Rejected, match="it does not answer"):
        approves(fleet, "half", shown)
    unseen = fleet.status.impact
    assert unseen is not None
    assert unseen.clusters["default"].unseen
    control(fleet.rollout, "approve", "ada", fleet.world, fleet.now, stage="half", impact=unseen.digest)
    assert fleet.world.rollouts.get(fleet.rollout).approved(1, "before")


def test_somebody_is_reminded_after_one_and_seven_days_and_after_thirty_the_rollout_stops(fleet: Rolling) -> None:
    waiting(fleet, CANARY, HALF)
    since = fleet.status.since
    assert since is not None
    told = []
    for day in range(31):
        fleet.now = since + timedelta(days=day, seconds=1)
        fleet.later()
        told.append(len(fleet.notices("rollout.waits")))
    assert [day for day in range(1, 30) if told[day] > told[day - 1]] == [1, 7]
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "ApprovalExpired")
    assert fleet.new() == ["n0"]

    fleet.says("retry")
    assert fleet.status.reason == "AwaitingApproval"
    fleet.says("approve", "half")
    assert fleet.status.phase == "done"
