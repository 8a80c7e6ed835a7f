"""One plan for one node: the short way to see that a node is true never says so of one that is not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.documents.design import DesignNode
from shared.domain.labels import planning
from shared.domain.labels.aliases import KEP_793, in_force
from shared.domain.labels.planning import Rules, Settled, plan_node, subject
from shared.domain.labels.policies import Policies
from shared.domain.nodes import ALIAS_OWNER, OWNER, Node

KEYS = ("rack", "pool", "kubernetes.io/os", "beta.kubernetes.io/os")
values = st.sampled_from(["a", "b"])
labels = st.dictionaries(st.sampled_from(KEYS), values)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    carried = draw(labels)
    held = {manager: frozenset(draw(st.sets(st.sampled_from(KEYS)))) & carried.keys() for manager in (OWNER, ALIAS_OWNER, "kubelet")}
    owners = {key: tuple(sorted(manager for manager, keys in held.items() if key in keys)) for key in carried}
    applied = {manager: keys for manager, keys in held.items() if keys and manager != "kubelet"}
    return Node("n1", "u1", carried, "1", owners, applied)


@given(nodes(), labels, st.sampled_from(["1.17", "1.35"]))
@settings(max_examples=1500, deadline=None)
def test_the_short_way_and_the_long_way_say_the_same(live: Node, declared: dict[str, str], version: str) -> None:
    design = DesignNode("n1", declared, dict.fromkeys(declared, "BaremetalNode/n1"))
    rules = Rules(Policies(), "default", in_force(KEP_793, version))
    short = plan_node(subject("n1", design, live, rules), rules)
    way, planning.true_already = planning.true_already, lambda *_: False
    try:
        long = plan_node(subject("n1", design, live, rules), rules)
    finally:
        planning.true_already = way
    assert short == long
    if isinstance(short, Settled) and short.outcome.outcome == "unchanged":
        assert {key: live.labels.get(key) for key in declared} == declared
