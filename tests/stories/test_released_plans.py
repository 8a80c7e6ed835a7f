"""A plan is against the newest commit, and says when that waits; a plan of what is released is drift alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from shared.domain.labels.plans import LabelPlan, PlanRequest
from shared.work.plans import plan_committed
from tests.stories.fleet import Fleet, a_policy


def planned(fleet: Fleet, **asked: Any) -> LabelPlan:
    return plan_committed(PlanRequest(**({"all": True} | asked)), fleet.world)


def changes(plan: LabelPlan) -> dict[str, dict[str, str]]:
    return {name: node.set for name, node in plan.nodes.items()}


def test_a_commit_waits_until_it_is_released(fleet: Fleet) -> None:
    fleet.has_nodes(n1={})
    fleet.commits(a_policy("racks", {}, {"rack": "r1"}), adopted=False)
    before = planned(fleet)
    assert before.waits is not None
    assert str(before.waits) == "revision 1 waits: nothing is released"
    fleet.relabels()
    assert planned(fleet).waits is None
    fleet.commits(a_policy("racks", {}, {"rack": "r2"}), adopted=False)
    waiting = planned(fleet)
    assert waiting.waits is not None
    assert (str(waiting.waits), changes(waiting)) == ("revision 2 waits: revision 1 is released", {"n1": {"rack": "r2"}})


def test_what_is_committed_is_no_drift_and_what_a_colleague_changed_is(fleet: Fleet) -> None:
    fleet.has_nodes(n1={}, n2={})
    fleet.commits(a_policy("racks", {}, {"rack": "r1"}), adopted=False)
    fleet.relabels()
    fleet.commits(a_policy("racks", {}, {"rack": "r2"}), adopted=False)
    calm = planned(fleet, released=True)
    assert (calm.nodes, calm.unchanged, calm.revision, calm.released) == ({}, 2, 1, True)
    fleet.cluster.set_labels("n2", {"rack": "mine"}, "a-colleague")
    drifted = planned(fleet, released=True)
    assert changes(drifted) == {"n2": {"rack": "r1"}}
    assert drifted.nodes["n2"].takeovers == ["rack"]


def test_drift_says_when_its_holder_last_wrote(fleet: Fleet) -> None:
    fleet.has_nodes(n1={}, n2={})
    fleet.commits(a_policy("racks", {}, {"rack": "r1"}), adopted=False)
    fleet.relabels()
    before = datetime.now(UTC)
    fleet.cluster.set_labels("n1", {"rack": "mine"}, "a-colleague")
    fleet.cluster.set_labels("n2", {"rack": None}, "a-colleague")
    drifted = planned(fleet, released=True).nodes
    there = drifted["n1"].from_["rack"]
    assert (there.holders, there.at is not None and there.at >= before) == (["a-colleague"], True)
    assert drifted["n2"].from_ == {}, "a label that is gone has no holder"
    assert "at" not in planned(fleet).model_dump(mode="json")["nodes"]["n1"]["from"]["rack"], "a plan of a revision asks nothing more"


def test_each_node_is_compared_with_its_own_release(fleet: Fleet) -> None:
    fleet.has_nodes(n1={}, n2={})
    fleet.commits(a_policy("racks", {}, {"rack": "r1"}), adopted=False)
    fleet.relabels()
    fleet.commits(a_policy("racks", {}, {"rack": "r2"}), adopted=False)
    fleet.relabels("n1")
    assert planned(fleet, released=True).nodes == {}
    fleet.cluster.set_labels("n1", {"rack": "mine"}, "a-colleague")
    fleet.cluster.set_labels("n2", {"rack": "mine"}, "a-colleague")
    assert changes(planned(fleet, released=True)) == {"n1": {"rack": "r2"}, "n2": {"rack": "r1"}}
    assert changes(planned(fleet, released=True, all=False, target_nodes=["n2"])) == {"n2": {"rack": "r1"}}


def test_nodes_that_nothing_is_released_to_are_counted_and_left_alone(fleet: Fleet) -> None:
    fleet.has_nodes(n1={}, n2={})
    fleet.commits(a_policy("racks", {}, {"rack": "r1"}), adopted=False)
    plan = planned(fleet, released=True)
    assert (plan.nodes, plan.unreleased, plan.revision) == ({}, 2, None)


def test_a_plan_of_what_is_released_repairs_drift_when_it_is_applied(fleet: Fleet) -> None:
    fleet.has_nodes(n1={}, n2={})
    fleet.commits(a_policy("racks", {}, {"rack": "r1"}), adopted=False)
    fleet.relabels()
    fleet.cluster.set_labels("n2", {"rack": "mine"}, "a-colleague")
    plan = planned(fleet, released=True).bound()
    action = fleet.sends(plan=plan)
    fleet.cloud.drain()
    assert (fleet.ended(action).counts, fleet.labels("n2")) == ({"changed": 1}, {"rack": "r1"})
