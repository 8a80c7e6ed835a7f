"""A site action or a filter that takes the place of a rollout: that ends, and its nodes keep what they got until the action brings more."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from shared.messages import RelabelRequest
from shared.work.control import retried
from tests.rollouts.rolling import CANARY, Rolling, a_rollout
from tests.stories.fleet import a_policy

EVERY = [f"n{number}" for number in range(10)]


def refused(fleet: Rolling) -> str:
    return str(fleet.notices("request.refused")[-1]["problems"][0]["reason"])


def test_a_site_action_that_says_so_takes_the_place_of_a_rollout(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.relabels()
    assert (refused(fleet), fleet.new()) == ("RolloutRunning", ["n0"])

    action = fleet.relabels(supersede=True)
    assert fleet.ended(action).result == "success"
    assert (fleet.status.phase, fleet.status.message) == ("superseded", f"action {action} takes its place")
    assert fleet.new() == EVERY
    head = fleet.world.releases.head("default")
    assert (head.base, head.about.next) == (2, None)
    assert fleet.world.rollouts.open() == []


def test_a_filter_that_says_so_ends_the_rollout_and_what_that_reached_keeps_it(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    by_name = {"node_filter": {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["n5"]}]}}
    fleet.sends(**by_name)
    fleet.cloud.drain()
    assert refused(fleet) == "RolloutRunning"

    action = fleet.sends(**by_name, supersede=True)
    fleet.cloud.drain()
    assert (fleet.outcome(action), fleet.status.phase) == ({"n5": "changed"}, "superseded")
    fleet.cluster.set_labels("n0", {"tier": "drifted"})
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    assert fleet.new() == ["n0", "n5"]
    fleet.later(hours=1)
    assert fleet.new() == ["n0", "n5"]


def test_a_dry_run_ends_no_rollout(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.relabels(supersede=True, dry_run=True)
    assert fleet.status.phase == "running"


def test_a_site_action_that_the_limits_block_ends_no_rollout(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.commits(a_policy("tiers", {}, {"lane": "fast"}), a_rollout(CANARY), adopted=False)
    action = fleet.relabels(supersede=True)
    assert (fleet.ended(action).result, fleet.status.phase) == ("blocked", "running")


def test_a_stopped_action_gives_the_nodes_back_what_the_rollout_had_brought_them(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.commits(a_policy("tiers", {}, {"tier": "newer", "lane": "fast"}), adopted=False)
    action = fleet.sends(name="update_site", supersede=True)
    while "node-applies" not in {waiting.topic for waiting in fleet.cloud._queue}:
        fleet.cloud._deliver(fleet.cloud._queue.pop(0))
    fleet.cloud.control(action, "stop", "ada", fleet.now)
    fleet.cloud.drain()
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    assert fleet.new() == ["n0"]
    assert set(fleet.tiers().values()) == {"old", "new"}


def test_an_older_revision_takes_the_place_of_no_rollout(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.relabels(supersede=True, revision=1)
    assert (refused(fleet), fleet.status.phase) == ("NewerReleased", "running")


def test_a_rollout_that_waits_to_begin_is_ended_too_and_brings_nothing_later(fleet: Rolling) -> None:
    from tests.rollouts.test_on_commit import SOON, merges

    fleet.has_nodes(**{name: {} for name in EVERY})
    fleet.commits(a_policy("tiers", {}, {"tier": "old"}))
    fleet.relabels()
    merges(fleet, "new", SOON, drain=False)
    asked = [waiting for waiting in fleet.cloud._queue if waiting.topic == "rollouts"]
    fleet.cloud._queue.clear()
    fleet.relabels(supersede=True)
    fleet.cloud._queue.extend(asked)
    fleet.cloud.drain()
    assert (fleet.status.phase, fleet.new()) == ("superseded", EVERY)


def test_nodes_that_somebody_names_pass_beside_a_rollout_and_need_no_such_word(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.relabels("n5")
    assert (fleet.new(), fleet.status.phase) == (["n0", "n5"], "running")
    for request in ({"target_nodes": ["n5"]}, {"name": "drift_sweep"}):
        with pytest.raises(ValidationError, match="pass beside a rollout"):
            RelabelRequest.model_validate(request | {"supersede": True})


def test_a_retry_of_its_failed_nodes_needs_the_word_no_more(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.fails("n7")
    action = fleet.relabels(supersede=True)
    again = retried(action, "ada", fleet.world)
    assert (again.target_nodes, again.supersede) == (["n7"], False)
    fleet.fails()
    fleet.cloud.publish(RelabelRequest.TOPIC, [again.outgoing()])
    fleet.cloud.drain()
    assert fleet.new() == EVERY
