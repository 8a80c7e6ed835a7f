"""What a plan tells: the values that are there now, who holds them, what is taken from whom, and what stays as others set it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from shared.domain.documents.design import DesignNode
from shared.domain.documents.kinds import NodeLabelPolicy
from shared.domain.labels.bound import BoundPlan
from shared.domain.labels.planning import Rules, plan_node, subject
from shared.domain.labels.plans import Differs, Done, Due, LabelPlan, judge, label_plan
from shared.domain.labels.policies import Policies
from shared.domain.nodes import OWNER, Node, WrittenObject
from shared.domain.outcomes import Changes, KeyChange
from shared.domain.pools import from_pool
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


@pytest.mark.parametrize(
    ("manager", "key", "said"),
    [
        ("kubelet", "eks.amazonaws.com/nodegroup", "the EKS node group gpu gives it to its nodes; change it on the pool (`hullmark pools"),
        ("vpcLambda", "eks.amazonaws.com/nodegroup", "apply --pool gpu`), or leave it out of the documents"),
        ("kubelet", "cloud.google.com/gke-nodepool", "the GKE node pool gpu gives it"),
    ],
)
def test_a_conflict_with_what_a_managed_pool_sets_names_the_pool_and_where_to_change_it(manager: str, key: str, said: str) -> None:
    node = Node("n1", "u", {"rack": "theirs", key: "gpu"}, "1", {"rack": (manager,), key: ("kubelet",)})
    assert said in planned(node, onConflict="skip").nodes["n1"].conflict


@pytest.mark.parametrize(
    ("manager", "key"),
    [
        (KUBECTL, "eks.amazonaws.com/nodegroup"),
        ("kubelet", "example.com/pool"),
        ("vpcLambda", "cloud.google.com/gke-nodepool"),
    ],
)
def test_what_no_managed_pool_sets_is_not_laid_at_its_door(manager: str, key: str) -> None:
    node = Node("n1", "u", {"rack": "theirs", key: "gpu"}, "1", {"rack": (manager,)})
    assert "gives it to its nodes" not in planned(node, onConflict="skip").nodes["n1"].conflict


def test_what_kubelets_and_clouds_set_of_themselves_is_not_said_to_be_a_pools() -> None:
    labels = {"eks.amazonaws.com/nodegroup": "gpu"}
    assert from_pool({"kubernetes.io/arch": "kubelet", "eks.amazonaws.com/nodegroup": "kubelet"}, labels) == ""
    assert from_pool({"rack": "kubectl-label, kubelet", "kubernetes.io/arch": "kubelet"}, labels).startswith("rack: the EKS node group gpu")


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


# --- plans that bind


def bound(*nodes: Node, **policy: Any) -> BoundPlan:
    return planned(*nodes, **policy).bound()


def judged(plan: BoundPlan, now: Node | None, **policy: Any) -> Due | Done | Differs:
    """What has become of n1 of a plan, by what the policy (another one now, say) makes of the node as it is now."""
    document = a_policy("racks", {}, **{"labels": {"rack": "platform", "pool": "a"}, **policy})
    rules = Rules(Policies([NodeLabelPolicy.model_validate(document)]), "default", ())
    return judge(plan.changes_of("n1"), plan_node(subject("n1", DesignNode("n1"), now, rules), rules), now)


def test_a_change_that_is_due_as_it_was_planned_is_due() -> None:
    node = live({"rack": "mine", "old": "1"}, ours=("old",))
    assert isinstance(judged(bound(node), node), Due)


@pytest.mark.parametrize(
    ("now", "how"),
    [
        (live({"rack": "yours"}), f"planned rack: mine → platform ({KUBECTL}); now due rack: yours → platform ({KUBECTL})"),
        (live({"rack": "mine"}, ours=("rack",)), f"planned rack: mine → platform ({KUBECTL}); now due rack: mine → platform ({OWNER})"),
        (live({}), f"planned rack: mine → platform ({KUBECTL}); now due rack: (none) → platform"),
        (live({"rack": "mine", "old": "1"}, ours=("old",)), f"planned nothing more; now due old: 1 → (removed) ({OWNER})"),
        (None, "the documents name n1, but cluster default has no such node"),
    ],
)
def test_a_node_whose_change_would_now_be_another_says_how_it_differs(now: Node | None, how: str) -> None:
    found = judged(bound(live({"rack": "mine"})), now)
    assert isinstance(found, Differs)
    assert how in found.how


def test_a_node_that_is_as_the_plan_says_is_done_whoever_brought_it_there() -> None:
    plan = bound(live({"rack": "mine", "old": "1"}, ours=("old",)))
    assert isinstance(judged(plan, live({"rack": "platform", "pool": "a"})), Done)
    assert isinstance(judged(plan, live({"rack": "platform", "pool": "a", "old": "2"}, ours=("old",))), Differs)


def test_a_node_that_is_as_the_plan_says_and_on_which_more_is_due_is_stale() -> None:
    found = judged(bound(live({"rack": "mine"})), live({"rack": "platform", "pool": "a", "tier": "1"}, ours=("tier",)))
    assert found == Differs(f"planned nothing more; now due tier: 1 → (removed) ({OWNER})")


def test_a_node_that_somebody_brought_half_the_way_is_due() -> None:
    plan = bound(live({"rack": "mine", "old": "1"}, ours=("old",)))
    assert isinstance(judged(plan, live({"rack": "mine", "pool": "a", "old": "1"}, ours=("old",))), Due)
    assert isinstance(judged(plan, live({"rack": "mine", "pool": "b", "old": "1"}, ours=("old",))), Differs)


def test_a_node_that_no_policy_wants_so_any_more_is_stale_and_not_done() -> None:
    assert isinstance(judged(bound(live({"rack": "mine"})), live({"rack": "mine"}), labels={}), Differs)


def test_a_bound_plan_is_the_same_however_it_came() -> None:
    plan = planned(live({"rack": "mine", "old": "1"}, ours=("old",)), live({"rack": "yours"}, name="n2"))
    answered = BoundPlan.model_validate_json(plan.model_dump_json())
    assert answered == plan.bound() == BoundPlan.model_validate_json(plan.bound().model_dump_json())
    assert list(plan.bound(["n2"]).nodes) == ["n2"]


def test_a_plan_of_five_thousand_nodes_fits_into_a_message() -> None:
    many = {f"compute-{number:05}.rack-{number % 40}.site.example.com": live_like(number) for number in range(5000)}
    size = len(BoundPlan.of(many, revision=7, cluster="default").model_dump_json())
    assert size < 2_000_000, "of 10 MB that Pub/Sub takes, and base64 makes it a third longer"


def live_like(number: int) -> list[KeyChange]:
    """Ten changes: eight alike on many nodes, two that no other node has."""
    alike = [KeyChange(f"example.com/key-{key}", f"value-{number % 7}", f"was-{number % 3}", (KUBECTL,)) for key in range(8)]
    return [
        *alike,
        KeyChange("example.com/serial", f"s-{number}"),
        KeyChange("example.com/asset", f"a-{number}", f"b-{number}", (KUBECTL,)),
    ]


NODE: dict[str, Any] = {"set": {"rack": "platform"}, "remove": [], "from": {}}


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"nodes": {}}, "nodes"),
        (
            {"nodes": {"n1": {"set": {"rack": "r"}, "remove": [], "reasons": {}}}},
            "plans of an earlier version do not say what they replace",
        ),
        ({"nodes": {"n1": NODE | {"set": ["rack"]}}}, "n1.set"),
        ({"nodes": {"n1": NODE | {"set": {"rack": 7}}}}, "n1.set.rack"),
        ({"nodes": {"n1": 7}}, "nodes"),
        ({"nodes": {"N 1": NODE}}, "not a valid node name"),
        ({"nodes": {"n1": NODE, "n2": [0]}}, "changes"),
        ({"nodes": {"n1": [0]}, "changes": []}, "a change that is not there"),
        ({"nodes": {"n1": [-1]}, "changes": [["rack", "r", None, []]]}, "nodes.n1.0"),
        ({"nodes": {"n1": NODE | {"set": {"rack\x1b[2J": "r"}}}}, "no change of a label"),
        ({"nodes": {"n1": NODE | {"set": {"rack": "\x1b[2J"}}}}, "no change of a label"),
        ({"nodes": {"n1": NODE | {"from": {"rack": {"value": "a b"}}}}}, "no change of a label"),
        ({"nodes": {"n1": NODE | {"from": {"rack": {"value": "a", "holders": ["\x1b[2J"]}}}}}, "held by no field manager"),
        ({"nodes": {"n1": NODE}, "revision": 0}, "revision"),
        ({"nodes": {"n1": NODE}, "cluster": None}, "cluster"),
        ("n1", "dictionary"),
    ],
)
def test_what_is_no_plan_is_refused_with_where_and_why(plan: Any, says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        BoundPlan.model_validate({"cluster": "default", "revision": 1} | plan if isinstance(plan, dict) else plan)
    assert says in "; ".join(f"{'.'.join(map(str, flaw['loc']))} {flaw['msg']}" for flaw in refused.value.errors())


def test_of_a_manager_with_several_entries_the_newest_counts() -> None:
    """The kubelet has one for the node and one for its status."""
    entries = [{"manager": "kubelet", "time": f"2026-11-{day}T10:00:00Z"} for day in (20, 22, 21)] + [{"manager": "from-before"}]
    written = msgspec.json.decode(json.dumps({"metadata": {"managedFields": entries}}).encode(), type=WrittenObject)
    assert written.last_writes() == {"kubelet": datetime(2026, 11, 22, 10, tzinfo=UTC)}
    assert msgspec.json.decode(b'{"metadata": {"managedFields": null}}', type=WrittenObject).last_writes() == {}
