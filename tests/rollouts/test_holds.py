"""A rollout under a freeze or a pause: it waits and says for what, and a person's way back passes both."""

from __future__ import annotations

import pytest

from shared.work.holds import pause, resume
from tests.rollouts.rolling import CANARY, Rolling
from tests.stories.fleet import a_policy
from tests.stories.test_holds import a_freeze


def test_a_rollout_waits_for_the_end_of_a_freeze_and_then_goes_on(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    document = fleet.world.revisions.get(2).policies.rollouts["careful"].to_json()
    rollout = {"apiVersion": "hullmark.dev/v1", "kind": "Rollout", "metadata": {"name": "careful"}, "spec": document}
    fleet.commits(a_policy("tiers", {}, {"tier": "new"}), rollout, a_freeze(), adopted=False)
    fleet.starts()
    assert (fleet.status.reason, fleet.status.until) == ("Frozen", fleet.now.replace(hour=5))
    assert fleet.new() == []
    fleet.later(hours=2)
    assert fleet.new() == ["n0"]


def test_nothing_opens_once_a_pause_was_answered_and_all_goes_on_after_it(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    pause("wait", "ada", fleet.world, fleet.now)
    fleet.later(hours=1)
    assert (fleet.status.reason, fleet.new()) == ("Paused", ["n0"])
    resume("ada", fleet.world, fleet.now)
    fleet.later(minutes=1)
    assert len(fleet.new()) == 10


def test_a_persons_revert_passes_a_pause_and_a_freeze(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    pause("wait", "ada", fleet.world, fleet.now)
    fleet.says("revert")
    assert fleet.new() == []
    assert fleet.status.phase == "reverted"


@pytest.mark.parametrize("verb", ["abort", "pause"])
def test_a_person_may_end_or_pause_what_the_fleets_pause_holds(fleet: Rolling, verb: str) -> None:
    fleet.ten_nodes(CANARY)
    pause("wait", "ada", fleet.world, fleet.now)
    fleet.starts()
    fleet.says(verb)  # type: ignore[arg-type]
    assert fleet.status.phase in ("aborted", "paused")
