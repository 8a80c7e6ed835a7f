"""A rollout under a freeze or a pause: it waits and says for what, and a person's way back passes both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from shared.work.holds import pause, resume
from tests.rollouts.rolling import CANARY, Rolling, a_rollout
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


def under_a_freeze(fleet: Rolling, *stages: Mapping[str, Any], **spec: Any) -> None:
    """A canary is out, n0, and soaks, when a freeze begins that ends two hours later."""
    fleet.ten_nodes(*stages, **spec)
    document = a_rollout(*stages, **spec)
    freeze = a_freeze(**{"from": f"{fleet.now + timedelta(minutes=1):%FT%TZ}"})
    fleet.commits(a_policy("tiers", {}, {"tier": "new"}), document, freeze, adopted=False)
    fleet.starts()
    fleet.now += timedelta(minutes=2)
    assert (fleet.new(), fleet.status.reason) == (["n0"], "Frozen")


def test_what_is_out_is_looked_at_under_a_freeze_and_taken_back_where_it_harms(fleet: Rolling) -> None:
    under_a_freeze(fleet, CANARY, onStop="revert")
    fleet.cluster.set_ready("n0", False)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "Frozen")
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason, fleet.new()) == ("reverted", "NodesNotReady", [])


def test_a_freeze_holds_what_opens_next_and_asks_no_cluster_once_the_soak_is_over(fleet: Rolling) -> None:
    under_a_freeze(fleet, CANARY)
    asked = Counter[str]()
    fleet.cluster.before = lambda call, _node: asked.update([call])
    fleet.later(minutes=1)
    assert asked["readiness"] == 1
    fleet.later(minutes=10)
    fleet.later(minutes=10)
    assert (asked["readiness"], fleet.status.reason, fleet.new()) == (1, "Frozen", ["n0"])
    fleet.later(hours=3)
    assert (fleet.status.phase, asked["readiness"]) == ("done", 2 + 1)


def test_a_pause_of_the_fleet_takes_nothing_back_by_itself_until_it_is_over(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, onStop="revert")
    fleet.starts()
    pause("wait", "ada", fleet.world, fleet.now)
    fleet.cluster.set_ready("n0", False)
    for _ in range(3):
        fleet.later(minutes=1)
    assert (fleet.status.reason, fleet.new()) == ("Paused", ["n0"])
    resume("ada", fleet.world, fleet.now)
    fleet.later(minutes=1)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.new()) == ("reverted", [])


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
