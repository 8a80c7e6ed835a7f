"""An action that is bound to a plan changes what the plan says and nothing else, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ulid import ULID

from shared.domain.labels.bound import BoundPlan
from shared.domain.labels.plans import PlanRequest
from shared.domain.outcomes import Before
from shared.messages import Malformed, NodeApply, Outgoing, PartResult, RelabelRequest
from shared.ports import BusError
from shared.work.control import control, retried
from shared.work.intake import accept
from shared.work.plans import plan_committed
from tests.stories.fleet import Fleet, a_policy

STALE = "StalePlan"


@pytest.fixture
def planned(fleet: Fleet) -> Fleet:
    """Three nodes, of which a colleague holds a label of the second."""
    fleet.commits(a_policy("racks", {}, {"rack": "platform"}))
    fleet.has_nodes(n1={}, n2={}, n3={})
    fleet.cluster.set_labels("n2", {"rack": "mine"}, "kubectl-label")
    return fleet


def plan_of(fleet: Fleet, *names: str) -> BoundPlan:
    """The plan for these nodes, none named means all."""
    asked = PlanRequest(target_nodes=list(names)) if names else PlanRequest(all=True)
    return plan_committed(asked, fleet.world).bound()


def applies(fleet: Fleet, plan: BoundPlan, **request: Any) -> str:
    action = fleet.sends(**({"plan": plan, "requested_by": "an operator"} | request))
    fleet.cloud.drain()
    return action


def rack(fleet: Fleet, *names: str) -> list[str | None]:
    return [fleet.labels(name).get("rack") for name in names or ("n1", "n2", "n3")]


def test_what_the_plan_names_is_written_and_nothing_else(planned: Fleet) -> None:
    ended = planned.ended(applies(planned, plan_of(planned, "n1", "n2")))
    assert (ended.result, rack(planned)) == ("success", ["platform", "platform", None])
    taken = {each.subject: each.changes.from_ for each in ended.outcomes if each.changes}
    assert taken == {"n1": {}, "n2": {"rack": Before(value="mine", holders=["kubectl-label"])}}


def test_some_nodes_of_a_plan_can_be_chosen(planned: Fleet) -> None:
    ended = planned.ended(applies(planned, plan_of(planned), target_nodes=["n3"]))
    assert (ended.counts, rack(planned)) == ({"changed": 1}, [None, "mine", "platform"])


def test_a_plan_that_was_applied_has_nothing_more_to_do(planned: Fleet) -> None:
    plan = plan_of(planned)
    applies(planned, plan)
    ended = planned.ended(applies(planned, plan))
    assert (ended.result, ended.counts) == ("success", {"unchanged": 3})


def test_a_plan_that_was_applied_in_part_is_finished(planned: Fleet) -> None:
    plan = plan_of(planned)
    planned.relabels("n1")
    ended = planned.ended(applies(planned, plan))
    assert (ended.result, ended.counts, rack(planned)) == ("success", {"changed": 2, "unchanged": 1}, ["platform"] * 3)


def test_where_a_colleague_changed_a_node_since_nothing_is_written_anywhere(planned: Fleet) -> None:
    plan = plan_of(planned)
    planned.cluster.set_labels("n2", {"rack": "yours"}, "helm")
    ended = planned.ended(action := applies(planned, plan))
    how = "planned rack: mine → platform (kubectl-label); now due rack: yours → platform (helm)"
    assert (ended.result, ended.reason) == ("failure", STALE)
    assert ended.message == f"the plan no longer holds for 1 of 3 nodes: n2 ({how}): nothing was written; make a new plan"
    assert [(each.subject, each.outcome, each.reason, each.message) for each in ended.outcomes] == [("n2", "failed", STALE, how)]
    assert rack(planned) == [None, "yours", None]
    (notice,) = planned.notices("action.finished")
    assert (notice["id"], notice["reason"]) == (action, STALE)


def test_a_stale_plan_releases_nothing(planned: Fleet) -> None:
    plan = plan_of(planned)
    planned.cluster.set_labels("n2", {"rack": "yours"}, "helm")
    before = planned.world.releases.look().state("default").k
    applies(planned, plan)
    assert planned.world.releases.look().state("default").k == before


def test_a_plan_of_an_older_revision_is_stale_though_its_changes_are_the_same(planned: Fleet) -> None:
    plan = plan_of(planned)
    planned.commits(a_policy("racks", {}, {"rack": "platform"}), a_policy("more", {"names": ["n9"]}, {"pool": "a"}))
    ended = planned.ended(applies(planned, plan))
    assert (ended.reason, rack(planned)) == (STALE, [None, "mine", None])
    assert "it was made for revision 1, and revision 2 is committed" in ended.message


def test_what_is_committed_after_an_action_was_accepted_does_not_make_its_plan_stale(planned: Fleet) -> None:
    request = RelabelRequest(plan=plan_of(planned), action=(action := str(ULID())), requested_by="an operator")
    accept(request, action, planned.world, planned.now)
    planned.commits(a_policy("racks", {}, {"rack": "other"}), adopted=False)
    planned.cloud.publish(RelabelRequest.TOPIC, [request.outgoing()])
    planned.cloud.drain()
    assert (planned.ended(action).result, rack(planned)) == ("success", ["platform"] * 3)


def test_a_node_that_is_gone_makes_the_plan_stale(planned: Fleet) -> None:
    plan = plan_of(planned)
    planned.cluster.delete("n3")
    ended = planned.ended(applies(planned, plan))
    assert (ended.reason, rack(planned, "n1", "n2")) == (STALE, [None, "mine"])
    assert "n3" in ended.message


def test_a_plan_of_files_holds_once_what_is_committed_says_the_same(planned: Fleet) -> None:
    plan = plan_of(planned).model_copy(update={"revision": None})
    assert planned.ended(applies(planned, plan)).result == "success"
    planned.commits(a_policy("racks", {}, {"rack": "other"}))
    planned.has_nodes(n4={})
    ahead = BoundPlan.of({"n4": plan.changes_of("n1")}, revision=None, cluster="default")  # type: ignore[dict-item]
    ended = planned.ended(applies(planned, ahead))
    assert (ended.reason, planned.labels("n4")) == (STALE, {})
    assert "it was made of files, and what is committed says something else" in ended.message


def test_a_dry_run_of_a_plan_says_whether_it_holds_and_writes_nothing(planned: Fleet) -> None:
    plan = plan_of(planned)
    assert planned.ended(applies(planned, plan, dry_run=True)).counts == {"changed": 3}
    assert rack(planned) == [None, "mine", None]
    planned.cluster.set_labels("n1", {"rack": "yours"}, "helm")
    assert planned.ended(applies(planned, plan, dry_run=True)).reason == STALE


def test_a_redelivery_says_the_same_though_the_plan_would_hold_by_then(planned: Fleet) -> None:
    plan = plan_of(planned)
    planned.cluster.set_labels("n2", {"rack": "yours"}, "helm")
    action = planned.sends(plan=plan)
    end, planned.world.actions.close_if_complete = planned.world.actions.close_if_complete, lambda *_: None  # type: ignore[method-assign]
    planned.cloud.drain()
    planned.world.actions.close_if_complete = end  # type: ignore[method-assign]
    planned.cluster.set_labels("n2", {"rack": "mine"}, "kubectl-label")
    planned.cloud.publish(RelabelRequest.TOPIC, [RelabelRequest.again(planned.world.actions.request(action)).outgoing()])
    planned.cloud.drain()
    assert (planned.ended(action).reason, rack(planned)) == (STALE, [None, "mine", None])


def test_a_retry_stays_bound_to_the_plan(planned: Fleet) -> None:
    plan = plan_of(planned)
    planned.cluster.set_labels("n2", {"rack": "yours"}, "helm")
    again = retried(applies(planned, plan), "an operator", planned.world)
    assert (again.target_nodes, again.plan) == (["n2"], plan)
    assert planned.ended(applies(planned, plan, action=again.action, target_nodes=again.target_nodes)).reason == STALE


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"name": "update_site"}, "a plan says which nodes: leave update_site out"),
        ({"name": "drift_sweep"}, "a plan says which nodes: leave drift_sweep out"),
        ({"node_filter": {"filter_set_type": "union"}}, "node_filter"),
        ({"target_nodes": ["n1", "n9"]}, "the plan does not have n9"),
        ({"cluster": "elsewhere"}, "the plan is for cluster default, not for elsewhere"),
        ({"plan": {"revision": 1, "cluster": "default", "nodes": {}}}, "plan.nodes"),
        ({"plan": "n1"}, "plan"),
    ],
)
def test_what_does_not_stay_within_its_plan_is_refused(request_: dict[str, Any], says: str) -> None:
    node = {"set": {"rack": "r1"}, "remove": [], "from": {}}
    body = {"plan": {"revision": 1, "cluster": "default", "nodes": {"n1": node}}} | request_
    with pytest.raises(Malformed, match=says):
        RelabelRequest.parse(json.dumps(body).encode())


# --- between the judgement and the write


def by_another(fleet: Fleet, node: str, **labels: str) -> None:
    fleet.cluster.set_labels(node, labels, "helm")


def paused(fleet: Fleet, plan: BoundPlan, **more: Any) -> str:
    """An action that was planned, and whose parts wait."""
    request = RelabelRequest(plan=plan, action=(action := str(ULID())), requested_by="an operator", **more)
    accept(request, action, fleet.world, fleet.now)
    control(action, "pause", "an operator", fleet.world, fleet.now)
    fleet.cloud.publish(RelabelRequest.TOPIC, [request.outgoing()])
    fleet.cloud.drain()
    assert fleet.world.actions.plan(action) is not None
    return action


def goes_on(fleet: Fleet, action: str) -> dict[str, tuple[str, str]]:
    control(action, "unpause", "an operator", fleet.world, fleet.now)
    fleet.cloud.drain()
    return {each.subject: (each.outcome, each.reason) for each in fleet.ended(action).outcomes}


@pytest.mark.parametrize("changed", [{"rack": "yours"}, {"pool": "other"}])
def test_a_node_that_changes_while_the_action_waits_is_left_as_it_is(planned: Fleet, changed: dict[str, str]) -> None:
    planned.commits(a_policy("racks", {}, {"rack": "platform", "pool": "a"}))
    planned.relabels("n2")
    planned.cluster.set_labels("n2", {"rack": "mine"}, "kubectl-label")
    action = paused(planned, plan_of(planned))
    by_another(planned, "n2", **changed)
    left = planned.labels("n2")
    assert goes_on(planned, action) == {"n1": ("changed", ""), "n2": ("failed", STALE), "n3": ("changed", "")}
    assert planned.labels("n2") == left
    (told,) = (each.message for each in planned.ended(action).outcomes if each.subject == "n2")
    assert told.endswith("the node changed after the plan was judged, and is left as it is")


def test_what_a_colleague_did_meanwhile_as_it_was_planned_is_done(planned: Fleet) -> None:
    action = paused(planned, plan_of(planned))
    by_another(planned, "n2", rack="platform")
    assert {outcome for outcome, _ in goes_on(planned, action).values()} == {"changed"}


def test_a_label_that_came_meanwhile_is_not_pruned_by_a_plan_that_does_not_have_it(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1"}, prune="all"))
    fleet.has_nodes(n1={})
    by_another(fleet, "n1", junk="1")
    action = paused(fleet, plan_of(fleet))
    by_another(fleet, "n1", precious="1")
    assert goes_on(fleet, action) == {"n1": ("failed", STALE)}
    assert fleet.labels("n1") == {"junk": "1", "precious": "1"}
    again = applies(fleet, plan_of(fleet))
    assert (fleet.outcome(again), fleet.labels("n1")) == ({"n1": "changed"}, {"rack": "r1"})


def test_a_part_that_is_delivered_again_finds_its_own_work_and_goes_on(planned: Fleet) -> None:
    action = planned.sends(plan=plan_of(planned))
    publish, lost = planned.world.bus.publish, list[str]()

    def once(topic: str, messages: Sequence[Outgoing]) -> None:
        if topic == PartResult.TOPIC and not lost:
            lost.append(topic)
            raise BusError("the bus is away")
        publish(topic, messages)

    planned.world.bus.publish = once  # type: ignore[method-assign]
    planned.cloud.drain()
    assert (lost, planned.ended(action).counts, rack(planned)) == ([PartResult.TOPIC], {"changed": 3}, ["platform"] * 3)


def test_a_request_that_is_delivered_again_after_its_judgement_stays_within_the_plan(planned: Fleet) -> None:
    action = planned.sends(plan=plan_of(planned))
    publish, lost = planned.world.bus.publish, list[str]()

    def once(topic: str, messages: Sequence[Outgoing]) -> None:
        if topic == NodeApply.TOPIC and not lost:
            lost.append(topic)
            by_another(planned, "n2", rack="yours")
            raise BusError("the bus is away")
        publish(topic, messages)

    planned.world.bus.publish = once  # type: ignore[method-assign]
    planned.cloud.drain()
    assert lost == [NodeApply.TOPIC]
    assert (planned.outcome(action), rack(planned)) == (
        {"n1": "changed", "n2": "failed", "n3": "changed"},
        ["platform", "yours", "platform"],
    )


def test_an_alias_and_a_key_that_goes_are_part_of_what_binds(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1", "old": "1"}))
    fleet.has_nodes(n1={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"})
    fleet.relabels("n1")
    fleet.cluster.set_labels("n1", {"beta.kubernetes.io/os": "windows"}, "kubelet")
    fleet.commits(a_policy("p", {}, {"rack": "r2"}))
    ended = fleet.ended(applies(fleet, plan_of(fleet)))
    assert (ended.result, fleet.labels("n1")) == (
        "success",
        {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "rack": "r2"},
    )
