"""What a plan tells: the values that are there now, who holds them, what is taken from whom, and what stays as others set it."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain.documents.design import DesignNode
from shared.domain.documents.kinds import NodeLabelPolicy
from shared.domain.labels.planning import Rules, plan_node, subject
from shared.domain.labels.plans import LabelPlan, label_plan
from shared.domain.labels.policies import Policies
from shared.domain.nodes import OWNER, Node
from shared.domain.outcomes import Changes
from tests.stories.fleet import a_policy

KUBECTL = "kubectl-label"


def planned(*nodes: Node, default: Any = "force", **policy: Any) -> LabelPlan:
    """The plan of one policy, `racks`, for these nodes."""
    document = a_policy("racks", {}, **{"labels": {"rack": "platform", "pool": "a"}, **policy})
    rules = Rules(Policies([NodeLabelPolicy.model_validate(document)], on_conflict=default), "default", ())
    decided = ((node.name, plan_node(subject(node.name, DesignNode(node.name), node, rules), rules)) for node in nodes)
    return label_plan(decided, revision=1, cluster="default", server_version="v1.35.4")


def live(labels: dict[str, str], ours: tuple[str, ...] = (), name: str = "n1") -> Node:
    """A node whose labels a colleague set, except `ours`."""
    owners = {key: (OWNER,) if key in ours else (KUBECTL,) for key in labels}
    return Node(name, f"uid-{name}", labels, "1", owners, {OWNER: frozenset(ours)} if ours else {})


def test_a_plan_says_what_is_there_now_who_holds_it_and_what_is_taken_over() -> None:
    plan = planned(live({"rack": "mine", "zone": "a", "old": "1"}, ours=("old",)))
    node = plan.nodes["n1"].model_dump()
    assert (node["set"], node["remove"]) == ({"pool": "a", "rack": "platform"}, ["old"])
    assert node["from"] == {"rack": {"value": "mine", "holders": [KUBECTL]}, "old": {"value": "1", "holders": [OWNER]}}
    assert node["takeovers"] == ["rack"]
    assert plan.keys()["rack"].takeovers == 1


def test_a_key_of_our_own_that_changes_is_no_takeover() -> None:
    node = planned(live({"rack": "r1"}, ours=("rack",))).nodes["n1"]
    assert (node.from_["rack"].holders, node.takeovers) == ([OWNER], [])


def test_of_a_key_that_we_and_others_hold_every_holder_is_named() -> None:
    both = Node("n1", "u", {"rack": "r1"}, "1", {"rack": (OWNER, KUBECTL)}, {OWNER: frozenset({"rack"})})
    node = planned(both).nodes["n1"]
    assert (node.from_["rack"].holders, node.takeovers) == ([OWNER, KUBECTL], ["rack"])


def test_a_plan_read_back_from_its_json_is_the_same() -> None:
    plan = planned(live({"rack": "mine"}))
    assert LabelPlan.model_validate_json(plan.model_dump_json()) == plan


def test_changes_without_anything_taken_look_as_they_always_did() -> None:
    assert Changes(set={"rack": "r1"}).model_dump() == {"set": {"rack": "r1"}, "remove": []}
    assert Changes.model_validate({"set": {"rack": "r1"}}).from_ == {}


@pytest.mark.parametrize(("how", "outcome", "failing"), [("skip", "skipped", 0), ("fail", "failed", 1)])
def test_the_reason_of_a_conflict_names_policy_and_values(how: str, outcome: str, failing: int) -> None:
    plan = planned(live({"rack": "mine", "pool": "a"}), onConflict=how)
    blocked = plan.blocked["n1"]
    words = f"rack is 'mine' by {KUBECTL}; NodeLabelPolicy/racks declares 'platform' and says onConflict: {how}"
    assert (blocked.outcome, blocked.reason, blocked.message) == (outcome, "Conflict", words)
    assert plan.failing == failing


def test_what_is_left_to_others_is_told_of_a_node_that_changes_otherwise() -> None:
    node = planned(live({"rack": "mine"}), onConflict="skip").nodes["n1"]
    assert (node.set, node.takeovers) == ({"pool": "a"}, [])
    assert node.conflict == f"rack is 'mine' by {KUBECTL}; NodeLabelPolicy/racks declares 'platform' and says onConflict: skip"


def test_label_rules_say_what_holds_for_policies_that_say_nothing_of_conflicts() -> None:
    taken = live({"rack": "mine", "pool": "a"})
    told = planned(taken, default="skip").blocked["n1"].message
    assert told == f"rack is 'mine' by {KUBECTL}; NodeLabelPolicy/racks declares 'platform', LabelRules says onConflict: skip"
    assert planned(taken, default="skip", onConflict="force").nodes["n1"].takeovers == ["rack"]
    assert planned(taken, default="fail", onConflict="skip").failing == 0
    assert planned(taken).nodes["n1"].takeovers == ["rack"]


def test_what_label_rules_say_of_conflicts_is_kept_with_the_revision() -> None:
    policies = Policies(on_conflict="skip")
    assert Policies.from_json(policies.to_json()).on_conflict == "skip"
    before = {name: value for name, value in policies.to_json().items() if name != "onConflict"}
    assert Policies.from_json(before).on_conflict == "force"


def test_a_summary_counts_nodes_by_key() -> None:
    plan = planned(live({"rack": "mine"}), live({"rack": "platform", "pool": "a", "old": "1"}, ours=("old",), name="n2"))
    assert {key: count.model_dump() for key, count in plan.keys().items()} == {
        "old": {"set": 0, "remove": 1, "takeovers": 0},
        "pool": {"set": 1, "remove": 0, "takeovers": 0},
        "rack": {"set": 1, "remove": 0, "takeovers": 1},
    }
    summary = plan.summary()
    assert (summary["changing"], summary["unchanged"], list(summary["keys"])) == (2, 0, ["old", "pool", "rack"])
