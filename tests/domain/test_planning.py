"""Planning: one decision a node, and the short way to see that a node is in sync never says so of one that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.documents.access import Access, Outdated
from shared.domain.documents.design import DesignNode
from shared.domain.documents.kinds import NodeLabelPolicy
from shared.domain.labels import planning
from shared.domain.labels.aliases import KEP_793, in_force
from shared.domain.labels.planning import Rules, Settled, plan_node, subject
from shared.domain.labels.policies import Policies, declare
from shared.domain.labels.selection import FilterEntry, NodeFilter, Selection
from shared.domain.nodes import ALIAS_OWNER, HULLMARK, OWNER, Node
from shared.work.planning import Ground, decisions, tasks_for

T = TypeVar("T")
R = TypeVar("R")
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
    way, planning.in_sync = planning.in_sync, lambda *_: False
    try:
        long = plan_node(subject("n1", design, live, rules), rules)
    finally:
        planning.in_sync = way
    assert short == long
    if isinstance(short, Settled) and short.outcome.outcome == "unchanged":
        assert {key: live.labels.get(key) for key in declared} == declared


class Listed:
    """A cluster that is a list of nodes."""

    owner = HULLMARK

    def __init__(self, *nodes: Node) -> None:
        self._nodes = {node.name: node for node in nodes}

    def server_version(self) -> str:
        return "v1.35.4"

    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return [work(item) for item in items]


class Written:
    """Documents that are a dict of nodes."""

    number = None
    clusters: Mapping[str, Access | Outdated] = {}

    def __init__(self, *designs: DesignNode, policies: Policies | None = None) -> None:
        self._designs = {design.name: design for design in designs}
        self.policies = policies or Policies()

    def node(self, name: str) -> DesignNode | None:
        return self._designs.get(name)

    def nodes(self) -> Iterator[DesignNode]:
        return (self._designs[name] for name in sorted(self._designs))


GOLD = NodeFilter(filter_set_type="union", filter_set=[FilterEntry(filter_type="union", node_labels={"tier": "gold"})])


def the_ground() -> Ground:
    """Gold nodes: n1 by design, n2 by a policy, one that is in sync, one that is not there, and n9, which the documents don't know."""
    policy = {
        "apiVersion": "hullmark.dev/v1",
        "kind": "NodeLabelPolicy",
        "metadata": {"name": "gold"},
        "spec": {"nodes": {"names": ["n2"]}, "labels": {"tier": "gold"}},
    }
    gold = {"tier": "gold"}
    designs = [DesignNode(name, gold, {"tier": "D/d"}) for name in ("n1", "n3", "gone")]
    documents = Written(*designs, DesignNode("n2"), DesignNode("n4"), policies=Policies([NodeLabelPolicy.model_validate(policy)]))
    owned = Node("n3", "u3", gold, "1", {"tier": (OWNER,)}, {OWNER: frozenset({"tier"})})
    cluster = Listed(owned, *(Node(name, f"u-{name}", {}) for name in ("n9", "n4", "n2", "n1")))
    return Ground.of("default", cluster, documents)


@pytest.mark.parametrize(
    ("selection", "planned"),
    [
        (Selection(), {"gone": "missing", "n1": "write", "n2": "write", "n3": "unchanged", "n4": "unchanged", "n9": "unchanged"}),
        (Selection(node_filter=GOLD), {"gone": "missing", "n1": "write", "n2": "write", "n3": "unchanged"}),
        (Selection(target_nodes=["n9", "n1", "gone"]), {"gone": "missing", "n1": "write", "n9": "unchanged"}),
    ],
)
def test_a_selection_is_decided_in_order_of_names_and_each_node_declared_once(
    selection: Selection, planned: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared: list[str] = []

    def counted(name: str, *rest: Any) -> Any:
        declared.append(name)
        return declare(name, *rest)

    monkeypatch.setattr(planning, "declare", counted)
    found = {name: what.outcome.outcome if isinstance(what, Settled) else "write" for name, what in decisions(selection, the_ground())}
    assert list(found.items()) == sorted(planned.items())
    assert sorted(declared) == sorted(set(declared)) >= sorted(found)


def test_nodes_that_were_sent_out_get_a_task_again_in_sync_or_not_and_each_is_declared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    declared: list[str] = []

    def counted(name: str, *rest: Any) -> Any:
        declared.append(name)
        return declare(name, *rest)

    monkeypatch.setattr(planning, "declare", counted)
    tasks = tasks_for(["n3", "gone", "n1"], the_ground())
    assert [(task.name, task.uid, task.labels, task.settled) for task in tasks] == [
        ("n3", "u3", {"tier": "gold"}, None),
        ("gone", "", {"tier": "gold"}, None),
        ("n1", "u-n1", {"tier": "gold"}, None),
    ]
    assert declared == ["n3", "gone", "n1"]
