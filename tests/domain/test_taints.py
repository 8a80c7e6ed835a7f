"""Startup taints: which may be named, which go, which stay and why."""

from __future__ import annotations

import pytest

from shared.domain.documents.reading import Source
from shared.domain.labels.taints import REMEMBERED, due, remembered, stays, taint_of, text_of
from shared.domain.nodes import Node, Taint
from shared.domain.site import check

STARTUP = Taint("hullmark.dev/unlabelled", "NoSchedule")


def problems(until: str) -> list[str]:
    text = f"""apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {{name: gpu}}
spec:
  labels: {{rack: r1}}
  until: {until}
"""
    found, _ = check([Source("p.yaml", text.encode())])
    return [f"{problem.path}: {problem.message}" for problem in found]


def test_a_taint_with_key_effect_and_value_may_be_named() -> None:
    assert problems("{taint: {key: hullmark.dev/unlabelled, effect: NoSchedule}}") == []
    assert problems("{taint: {key: pool, effect: NoExecute, value: gpu}}") == []


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("{taint: {key: a/b/c, effect: NoSchedule}}", "spec.until.taint.key: `a/b/c` is no taint's key: a label key has at most one /"),
        ("{taint: {key: a, effect: Noschedul}}", "spec.until.taint.effect: `Noschedul` is not one of NoSchedule"),
        ("{taint: {key: a, effect: noexecute}}", "did you mean NoExecute?"),
        ("{taint: {key: a, effect: NoSchedule, value: a b}}", "spec.until.taint.value: a taint's value has at most 63 bytes"),
        ("{taint: {key: node.kubernetes.io/not-ready, effect: NoSchedule}}", "is not yours to take off: the node lifecycle controller"),
        ("{taint: {key: node.cloudprovider.kubernetes.io/uninitialized, effect: NoSchedule}}", "the cloud controller manager"),
        ("{taint: {key: karpenter.sh/unregistered, effect: NoExecute}}", "Karpenter"),
        ("{taint: {key: node-role.kubernetes.io/control-plane, effect: NoSchedule}}", "control planes"),
        ("{taint: {effect: NoSchedule}}", "`key` is required"),
        ("{taint: {key: a}}", "`effect` is required"),
        ("{taints: {key: a, effect: NoSchedule}}", "unknown field `taints`: did you mean taint?"),
        ("{taint: {key: a, efect: NoSchedule, effect: NoSchedule}}", "unknown field `efect`: did you mean effect?"),
        ("{}", "`taint` is required"),
        ("{taint: a:NoSchedule}", "must be a mapping, not text"),
        ("{taint: {key: 1, effect: NoSchedule}}", "must be text, not a number"),
    ],
)
def test_a_taint_that_cannot_be_one_is_refused_where_it_stands(until: str, said: str) -> None:
    assert any(said in problem for problem in problems(until)), problems(until)


def a_node(*taints: Taint, by: tuple[str, ...] = ()) -> Node:
    return Node("n1", "u", {}, taints=taints, taints_applied_by=by)


def test_only_what_the_release_names_goes() -> None:
    other = STARTUP._replace(value="x")

    assert due([STARTUP], a_node(other, STARTUP)) == (STARTUP,)
    assert due([STARTUP], a_node(other)) == ()
    assert due([], a_node(STARTUP)) == ()
    assert due([STARTUP], Node("n1", "u", {})) == ()


def test_what_somebody_applies_stays_and_they_are_named() -> None:
    node = a_node(STARTUP, by=("terraform",))

    assert due([STARTUP], node) == ()
    assert "terraform applies the node's taints" in stays([STARTUP], [STARTUP], node)


def test_nothing_is_told_of_taints_that_nobody_named() -> None:
    assert stays([STARTUP], [STARTUP], a_node(Taint("nvidia.com/gpu", "NoSchedule"))) == ""
    assert stays([STARTUP], [STARTUP], a_node(STARTUP)) == ""


def test_a_taint_is_remembered_for_some_revisions_after_the_last_that_named_it() -> None:
    known = remembered({}, [STARTUP], 1)

    assert remembered(known, [], REMEMBERED) == {text_of(STARTUP): 1}
    assert remembered(known, [], REMEMBERED + 1) == {}
    assert remembered(known, [STARTUP], 5) == {text_of(STARTUP): 5}
    assert taint_of(text_of(STARTUP._replace(value="x"))) == STARTUP._replace(value="x")
