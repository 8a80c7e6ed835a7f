"""A rollout from its document to its end: what opens when, what stops it, and the way back."""

from __future__ import annotations

import pytest

from shared.domain.names import REJECTED, SITE_ACTION_SUCCESS
from shared.domain.rollouts.progress import WrongPhase
from shared.messages import RelabelRequest
from shared.work.intake import Rejected
from tests.rollouts.rolling import CANARY, HALF, Rolling, a_rollout
from tests.stories.fleet import a_policy

EVERY = [f"n{number}" for number in range(10)]


def test_a_rollout_opens_stage_after_stage_with_soak_and_approval_and_ends_as_the_base(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, HALF)
    fleet.starts()
    assert fleet.new() == ["n0"]
    assert (fleet.status.reason, fleet.status.until) == ("Soaking", fleet.now.replace(minute=10))

    fleet.later(minutes=9)
    assert fleet.new() == ["n0"]

    fleet.later(minutes=1)
    assert fleet.new() == ["n0"]
    assert fleet.status.reason == "AwaitingApproval"

    fleet.says("approve", "half")
    assert fleet.new() == EVERY
    assert fleet.status.phase == "done"
    assert [stage.state for stage in fleet.status.stages] == ["through", "through", "through"]
    assert sum(stage.nodes for stage in fleet.status.stages) == 10
    head = fleet.world.releases.head("default")
    assert (head.base, head.about.next, head.about.names) == (2, None, {})
    assert SITE_ACTION_SUCCESS in fleet.world.revisions.tags(2)
    assert fleet.world.rollouts.open() == []


def test_a_sweep_during_a_rollout_brings_each_node_to_what_is_released_to_it(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, HALF)
    fleet.starts()
    fleet.cluster.set_labels("n0", {"tier": "drifted"})
    fleet.cluster.set_labels("n1", {"tier": "drifted"})
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    assert (fleet.tiers()["n0"], fleet.tiers()["n1"]) == ("new", "old")


def test_a_failure_beyond_the_budget_stops_it_and_nothing_more_opens(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.fails("n0")
    fleet.starts()
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "TooManyFailures")
    fleet.later(hours=1)
    assert fleet.new() == []


def test_a_stopped_rollout_that_is_retried_tries_what_failed_and_goes_on(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.fails("n0")
    fleet.starts()
    fleet.fails()
    fleet.says("retry")
    assert fleet.new() == ["n0"]
    fleet.later(minutes=10)
    assert (fleet.new(), fleet.status.phase) == (EVERY, "done")


def test_a_retry_writes_only_what_failed_and_its_end_tags_the_revision(fleet: Rolling) -> None:
    some = {"name": "some", "nodes": {"names": ["n0", "n1", "n2"]}, "maxInFlight": 1}
    fleet.ten_nodes(some, stopWhen={"failed": 1})
    fleet.fails("n1", "n2")
    fleet.starts()
    assert (fleet.status.reason, fleet.new()) == ("TooManyFailures", ["n0"])
    written: list[str] = []
    fleet.cluster.before = lambda call, node: written.append(node) if call == "apply_labels" else None
    fleet.says("retry")
    assert sorted(written[:2]) == ["n1", "n2"]
    assert sorted(written) == [name for name in EVERY if name != "n0"]
    assert (fleet.status.phase, SITE_ACTION_SUCCESS in fleet.world.revisions.tags(2)) == ("done", True)


def test_a_retry_opens_no_batch_again_that_had_succeeded(fleet: Rolling) -> None:
    fleet.ten_nodes({"name": "some", "nodes": {"names": ["n0", "n1", "n2"]}, "maxInFlight": 1}, stopWhen={"failed": 1})
    fleet.fails("n1", "n2")
    fleet.starts()
    fleet.fails()
    fleet.says("retry")
    tries = [batch.where for batch in fleet.world.rollouts.get(fleet.rollout).batches if batch.stage == 0]
    assert sorted(tries.count(where) for where in {*tries}) == [1, 2, 2]


def test_a_rollout_that_stops_itself_and_reverts_leaves_every_label_and_holder_as_before(fleet: Rolling) -> None:
    fleet.ten_nodes({"name": "some", "nodes": {"names": ["n0", "n1", "n2"]}}, onStop="revert")
    before = {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()}
    fleet.fails("n2")
    fleet.starts()
    assert fleet.status.phase == "reverted"
    fleet.fails()
    assert {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()} == before
    assert REJECTED in fleet.world.revisions.tags(2)
    assert fleet.world.releases.head("default").about.next is None
    assert fleet.world.rollouts.open() == []


def test_a_finished_rollout_is_taken_back_to_the_revision_before_it(fleet: Rolling) -> None:
    fleet.ten_nodes()
    fleet.starts()
    assert fleet.new() == EVERY
    fleet.says("revert")
    assert fleet.new() == []
    assert [node.labels for node in fleet.cluster.nodes()] == [{"tier": "old"}] * 10
    assert fleet.world.releases.head("default").base == 1
    with pytest.raises(Rejected, match="rejected"):
        fleet.starts()


def test_a_finished_rollout_that_something_newer_has_replaced_is_not_taken_back(fleet: Rolling) -> None:
    fleet.ten_nodes()
    fleet.starts()
    fleet.commits(a_policy("tiers", {}, {"tier": "newer", "lane": "fast"}), adopted=False)
    fleet.relabels()
    with pytest.raises(WrongPhase, match="has revision 3 by now"):
        fleet.says("revert")
    assert set(fleet.tiers().values()) == {"newer"}
    assert REJECTED not in fleet.world.revisions.tags(2)


def test_the_first_rollout_of_a_site_begins_with_one_node_and_a_revert_leaves_none_of_our_labels(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, released=False)
    fleet.starts()
    assert fleet.new() == ["n0"]
    fleet.says("revert")
    assert [node.labels for node in fleet.cluster.nodes()] == [{}] * 10
    assert all("hullmark" not in node.applied for node in fleet.cluster.nodes())


def test_nothing_opens_after_a_pause_was_answered_and_it_goes_on_when_resumed(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.says("pause")
    fleet.later(hours=1)
    assert (fleet.new(), fleet.status.reason) == (["n0"], "RolloutPaused")
    fleet.says("resume")
    assert fleet.new() == EVERY


def test_an_aborted_rollout_keeps_what_it_released_and_can_still_be_taken_back(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.says("abort")
    fleet.later(hours=1)
    assert (fleet.new(), fleet.status.phase) == (["n0"], "aborted")
    fleet.says("revert")
    assert fleet.new() == []


def test_an_approval_that_comes_twice_or_for_another_stage_opens_nothing_else(fleet: Rolling) -> None:
    fleet.ten_nodes({**CANARY, "soak": "0s", "approval": "after"}, {**HALF, "soak": "10m"})
    fleet.starts()
    with pytest.raises(WrongPhase, match="waits for a word on stage canary"):
        fleet.says("approve", "half")
    fleet.says("approve", "canary")
    with pytest.raises(WrongPhase, match="waits for a word on stage half"):
        fleet.says("approve", "canary")
    assert fleet.new() == ["n0"]
    fleet.says("approve", "half")
    opened = fleet.new()
    with pytest.raises(WrongPhase, match="waits for no approval"):
        fleet.says("approve", "half")
    assert fleet.new() == opened != EVERY


def test_no_more_nodes_than_the_stage_says_are_under_way_at_a_time(fleet: Rolling) -> None:
    fleet.ten_nodes({"name": "all", "maxInFlight": 3})
    fleet.starts()
    batches = fleet.world.rollouts.get(fleet.rollout).batches
    assert [batch.count for batch in batches] == [3, 3, 3, 1]
    assert (fleet.new(), fleet.status.phase) == (EVERY, "done")


def test_a_batch_that_no_rollout_recorded_is_refused(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    action = fleet.sends(rollout=fleet.rollout, batch=2)
    stray = fleet.sends(rollout=fleet.rollout, batch=1)
    fleet.cloud.drain()
    assert not fleet.world.actions.begun(action)
    assert not fleet.world.actions.begun(stray)
    assert len(fleet.notices("request.refused")) == 2


def test_a_site_action_during_a_rollout_is_refused_and_a_node_that_somebody_names_is_not(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.relabels()
    assert fleet.notices("request.refused")[-1]["problems"][0]["reason"] == "RolloutRunning"
    fleet.relabels("n5")
    assert fleet.new() == ["n0", "n5"]


def test_a_stage_that_means_no_node_stops_the_rollout_before_anything_opens(fleet: Rolling) -> None:
    fleet.ten_nodes({"name": "canary", "nodes": {"matchLabels": {"pool": "none"}}})
    fleet.starts()
    assert (fleet.status.reason, fleet.new()) == ("EmptyStage", [])


def test_a_canary_that_is_not_there_shows_nothing_and_stops_the_rollout(fleet: Rolling) -> None:
    fleet.ten_nodes({"name": "canary", "nodes": {"names": ["n77"]}})
    fleet.starts()
    assert (fleet.status.reason, fleet.new()) == ("NobodyThere", [])


def test_a_node_that_comes_later_has_its_place_by_percent_or_is_among_the_rest(fleet: Rolling) -> None:
    fleet.ten_nodes(HALF | {"approval": "after"})
    fleet.starts()
    reached = fleet.new()
    fleet.has_nodes(**{f"later{number}": {} for number in range(20)})
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    some = [name for name in fleet.new() if name not in reached]
    assert 0 < len(some) < 20
    assert set(fleet.tiers().values()) == {"old", "new"}


def test_a_newer_rollout_takes_the_place_of_one_that_is_unfinished_and_keeps_its_baseline(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    first = fleet.rollout
    fleet.commits(a_policy("tiers", {}, {"tier": "newer"}), a_rollout(CANARY), adopted=False)
    with pytest.raises(Rejected, match="on its way"):
        fleet.starts()
    fleet.starts(supersede=True)
    assert fleet.world.rollouts.get(first).phase == "superseded"
    assert fleet.tiers()["n0"] == "newer"
    fleet.says("revert")
    assert set(fleet.tiers().values()) == {"old"}


def test_an_override_on_a_reached_node_outlives_the_rest_of_the_rollout_and_one_from_before_ends(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    chain = fleet.world.releases
    chain.override("default", "n5", {"tier": "by hand"}, "ada", fleet.now)
    fleet.starts()
    chain.override("default", "n0", {"tier": "mine"}, "ada", fleet.now)
    fleet.later(minutes=10)
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    assert fleet.status.phase == "done"
    assert (fleet.tiers()["n0"], fleet.tiers()["n5"]) == ("mine", "new")


def test_a_redelivered_batch_releases_nothing_again(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    batch = fleet.world.rollouts.get(fleet.rollout).batches[0]
    fleet.world.releases.override("default", "n0", {"tier": "mine"}, "ada", fleet.now)
    before = fleet.world.releases.head("default").k
    again = RelabelRequest(action=batch.action, rollout=fleet.rollout, batch=1)
    fleet.cloud.publish(RelabelRequest.TOPIC, [again.outgoing()])
    fleet.cloud.drain()
    assert fleet.world.releases.head("default").k == before
