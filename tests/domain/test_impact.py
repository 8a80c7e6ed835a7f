"""Impact and limits: counts are what a person would count, and nothing beyond a limit passes without being accepted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.documents.design import DesignNode
from shared.domain.documents.kinds import Limit, LimitsSpec, NodeLabelPolicy
from shared.domain.labels.aliases import KEP_793, in_force
from shared.domain.labels.impact import Acceptance, Bound, Bounds, Impact, Others, bounds_of, stricter, verdict
from shared.domain.labels.planning import Rules, Settled, Write, plan_node, subject
from shared.domain.labels.policies import Policies, PolicyConflict, declare
from shared.domain.labels.tally import impact_of
from shared.domain.nodes import OWNER, Node

KEYS = ("rack", "pool", "tier")
values = st.sampled_from(["a", "b"])
labels = st.dictionaries(st.sampled_from(KEYS), values)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    carried = draw(labels)
    ours = frozenset(draw(st.sets(st.sampled_from(KEYS)))) & carried.keys()
    theirs = {key for key in carried if key not in ours or draw(st.booleans())}
    held = ((OWNER, ours), ("them", theirs))
    owners = {key: tuple(manager for manager, keys in held if key in keys) for key in carried}
    return Node("n", "u", carried, "1", owners, {OWNER: ours} if ours else {})


def policy(prune: str = "owned", **labels: str) -> NodeLabelPolicy:
    body: dict[str, Any] = {"apiVersion": "hullmark.dev/v1", "kind": "NodeLabelPolicy", "metadata": {"name": "p"}}
    return NodeLabelPolicy.model_validate({**body, "spec": {"labels": labels, "prune": prune}})


def decided(fleet: list[Node], declared: list[dict[str, str]], prune: str) -> list[tuple[str, Settled | Write]]:
    rules = Rules(Policies([policy("all")] if prune == "all" else []), "default", in_force(KEP_793, "1.35"))
    designs = [DesignNode(f"n{number}", each, dict.fromkeys(each, "d")) for number, each in enumerate(declared)]
    return [(d.name, plan_node(subject(d.name, d, live, rules), rules)) for d, live in zip(designs, fleet, strict=True)]


@given(st.lists(st.tuples(nodes(), labels), min_size=1, max_size=14), st.sampled_from(["owned", "all"]))
@settings(max_examples=400, deadline=None)
def test_an_impact_counts_what_the_nodes_would_look_like(fleet: list[tuple[Node, dict[str, str]]], prune: str) -> None:
    live, declared = [node for node, _ in fleet], [want for _, want in fleet]
    impact = impact_of("default", len(fleet), decided(live, declared, prune))

    def kept(node: Node, want: dict[str, str]) -> dict[str, str]:
        gone = {key for key in node.labels if key not in want and (prune == "all" or node.owners[key] == (OWNER,))}
        return {key: value for key, value in node.labels.items() if key not in gone} | want

    after = [kept(node, want) for node, want in fleet]
    lost = [node.labels.keys() - then.keys() for node, then in zip(live, after, strict=True)]
    taken = [{k for k, v in want.items() if k in node.labels and node.labels[k] != v and "them" in node.owners[k]} for node, want in fleet]
    assert impact.removals == sum(map(bool, lost))
    assert impact.removed == {key: n for key in KEYS if (n := sum(key in keys for keys in lost))}
    assert impact.takeovers == sum(map(bool, taken))
    assert {key: sum(by.values()) for key, by in impact.taken.items()} == {
        key: n for key in KEYS if (n := sum(key in keys for keys in taken))
    }
    assert impact.changes == sum(node.labels != then for node, then in zip(live, after, strict=True))
    gained = [then.keys() - node.labels.keys() for node, then in zip(live, after, strict=True)]
    assert impact.added == {key: n for key in KEYS if (n := sum(key in keys for keys in gained))}
    assert impact.bare == (bool(impact.removals) and not any(declared))
    assert impact.losing == [f"n{number}" for number, keys in enumerate(lost) if keys][:10]


bounds = st.builds(
    Bound,
    nodes=st.one_of(st.none(), st.integers(0, 30)),
    percent=st.decimals(0, 100, places=1, allow_nan=False),
    least=st.integers(1, 4),
    together=st.booleans(),
)
all_bounds = st.builds(Bounds, *[st.frozensets(bounds, max_size=2)] * 3)
acceptances = st.builds(Acceptance, *[], **dict.fromkeys(("removals", "takeovers", "changes"), st.one_of(st.none(), st.integers(0, 25))))


@st.composite
def impacts(draw: st.DrawFn) -> Impact:
    total = draw(st.integers(1, 25))
    removals, takeovers = draw(st.integers(0, total)), draw(st.integers(0, total))
    changes = draw(st.integers(max(removals, takeovers), total))
    return Impact(
        cluster="c", nodes=total, removals=removals, takeovers=takeovers, changes=changes, bare=bool(removals) and draw(st.booleans())
    )


@given(impacts(), all_bounds, all_bounds, acceptances, st.lists(acceptances, max_size=2))
@settings(max_examples=600, deadline=None)
def test_the_stricter_of_two_limits_passes_what_both_pass(
    impact: Impact, one: Bounds, other: Bounds, asked: Acceptance, kept: list[Acceptance]
) -> None:
    both = verdict(impact, stricter(one, other), asked, kept)
    assert (both is None) == all(verdict(impact, each, asked, kept) is None for each in (one, other))
    assert stricter(one, other) == stricter(other, one)
    assert stricter(one, one) == one


@given(impacts(), all_bounds, acceptances)
@settings(max_examples=600, deadline=None)
def test_what_is_accepted_in_full_passes_and_one_node_more_does_not(impact: Impact, limits: Bounds, kept: Acceptance) -> None:
    full = Acceptance(removals=impact.removals, takeovers=impact.takeovers, changes=impact.changes)
    assert verdict(impact, limits, full) is None
    assert verdict(impact, limits, kept=[kept, full]) is None
    for what, reason in (("removals", "TooManyRemovals"), ("takeovers", "TooManyTakeovers"), ("changes", "TooManyChanges")):
        if count := getattr(impact, what):
            beyond = verdict(impact, limits, full.model_copy(update={what: count - 1}))
            assert beyond is not None
            assert beyond.reason == reason
            assert f"`--accept-{what} {count}`" in beyond.message


@given(impacts(), all_bounds, acceptances)
@settings(max_examples=400, deadline=None)
def test_what_was_accepted_before_never_makes_anything_worse(impact: Impact, limits: Bounds, kept: Acceptance) -> None:
    if verdict(impact, limits) is None:
        assert verdict(impact, limits, kept=[kept]) is None


def removing(count: int, total: int, **more: Any) -> Impact:
    return Impact(cluster="c", nodes=total, removals=count, changes=count, removed={"role": count}, losing=["n1"], **more)


@pytest.mark.parametrize(
    ("count", "total", "passes"),
    [(0, 9, True), (2, 9, True), (3, 9, False), (20, 200, True), (21, 200, False), (2, 2, True), (1000, 100_000, True),
     (1001, 100_000, False), (300, 3000, True), (301, 3000, False)],
)  # fmt: skip
def test_without_limits_a_tenth_of_the_nodes_or_two_pass(count: int, total: int, passes: bool) -> None:
    assert (verdict(removing(count, total), bounds_of(None)) is None) == passes
    taken = Impact(cluster="c", nodes=total, takeovers=count, changes=count)
    assert (verdict(taken, bounds_of(None)) is None) == passes
    assert verdict(Impact(cluster="c", nodes=total, changes=total), bounds_of(None)) is None


def test_a_thousand_nodes_are_counted_over_all_clusters_of_one_request() -> None:
    assert verdict(removing(600, 10_000), bounds_of(None), others=Others(removals=400)) is None
    beyond = verdict(removing(600, 10_000), bounds_of(None), others=Others(removals=401))
    assert beyond is not None
    assert "more than 1,000 nodes over all clusters" in beyond.message


def test_a_cluster_never_loses_its_last_declared_label_without_a_word() -> None:
    generous = bounds_of(LimitsSpec(removals=Limit(nodes="100%")))
    assert verdict(removing(2, 2), generous) is None
    beyond = verdict(removing(2, 2, bare=True), generous)
    assert beyond is not None
    assert "without any declared label" in beyond.message
    assert verdict(removing(2, 2, bare=True), generous, Acceptance(removals=2)) is None


def test_a_document_says_what_holds_in_place_of_the_defaults() -> None:
    said = bounds_of(LimitsSpec(removals=Limit(nodes=0), changes=Limit(nodes="50%")))
    assert said.removals == {Bound(nodes=0)}
    assert said.takeovers == bounds_of(None).takeovers
    assert said.changes == {Bound(percent=Decimal(50))}
    assert verdict(removing(1, 3000), said) is not None


def test_the_words_name_keys_counts_nodes_and_the_way_on() -> None:
    names = [f"n{number}" for number in range(10)]
    removed = {"role": 199, "rack": 120, "tier": 9, "zone": 1}
    impact = Impact(cluster="halden", nodes=200, removals=199, removed=removed, losing=names)
    beyond = verdict(impact, bounds_of(None))
    assert beyond is not None
    assert beyond.message == (
        "it removes labels from 199 of 200 nodes of cluster halden: role on 199, rack on 120, tier on 9, 1 more "
        f"({', '.join(names)}, …), more than 10 % of the cluster's nodes; "
        "if that is meant: `--accept-removals 199` (`accept_removals` over HTTP and in messages)"
    )
    taken = Impact(cluster="c", nodes=3, takeovers=3, taken={"mine": {"kubectl-label": 2, "ops": 1}}, taking=["a", "b", "c"])
    beyond = verdict(taken, bounds_of(None))
    assert beyond is not None
    assert beyond.message.startswith("it takes labels over on 3 of 3 nodes of cluster c: mine from kubectl-label and ops on 3 (a, b, c), ")


def test_a_node_whose_policies_contradict_each_other_keeps_its_labels() -> None:
    quarrel = [policy(rack="a"), policy(rack="b").model_copy(update={"metadata": policy().metadata.model_copy(update={"name": "q"})})]
    rules = Rules(Policies(quarrel), "default", ())
    assert isinstance(declare("n", None, None, rules.policies, "default"), PolicyConflict)
    live = Node("n", "u", {"rack": "a"}, "1", {"rack": (OWNER,)}, {OWNER: frozenset({"rack"})})
    settled = plan_node(subject("n", None, live, rules), rules)
    losing = plan_node(subject("n", None, live, Rules(Policies(), "default", ())), Rules(Policies(), "default", ()))
    assert impact_of("default", 2, [("a", losing)]).bare
    assert not impact_of("default", 2, [("a", losing), ("n", settled)]).bare
    assert not impact_of("default", 2, [("a", losing)], whole=False).bare
