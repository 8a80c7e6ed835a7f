"""Where a pod may run, as tables. The same is held to the real scheduler and DaemonSet controller in tests/real/test_impact.py."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared.domain.nodes import Taint
from shared.domain.workloads.placement import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Daemon,
    Host,
    LabelSelector,
    Placement,
    PodSpec,
    Toleration,
    daemon,
    target,
)

LABELS = {"zone": "a", "gpu": "", "memory": "64", "rack": "r7", "size": "12x", "big": "9223372036854775807"}


def a_spec(**spec: Any) -> PodSpec:
    return msgspec.convert(spec, PodSpec)


def requiring(*terms: dict[str, Any], **spec: Any) -> PodSpec:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    return a_spec(affinity=affinity, **spec)


def line(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("key", "operator", "values", "fits"),
    [
        ("zone", "In", ["a"], True),
        ("zone", "In", ["b", "a"], True),
        ("zone", "In", ["b"], False),
        ("absent", "In", ["a"], False),
        ("gpu", "In", [""], True),
        ("zone", "NotIn", ["b"], True),
        ("zone", "NotIn", ["a", "b"], False),
        ("absent", "NotIn", ["a"], True),
        ("gpu", "Exists", [], True),
        ("absent", "Exists", [], False),
        ("gpu", "DoesNotExist", [], False),
        ("absent", "DoesNotExist", [], True),
        ("memory", "Gt", ["63"], True),
        ("memory", "Gt", ["64"], False),
        ("memory", "Lt", ["65"], True),
        ("memory", "Lt", ["064"], False),
        ("absent", "Gt", ["0"], False),
        ("absent", "Lt", ["9"], False),
        ("size", "Gt", ["1"], False),
        ("gpu", "Gt", ["0"], False),
        ("big", "Gt", ["9223372036854775806"], True),
        # what the scheduler can't make a line of means no node, even where its contrary would
        ("big", "Lt", ["9223372036854775808"], False),
        ("memory", "Gt", ["ten"], False),
        ("memory", "Gt", ["1", "2"], False),
        ("memory", "Gt", [], False),
        ("memory", "Gt", ["-1"], False),
        ("zone", "NotIn", [], False),
        ("zone", "NotIn", ["no label!"], False),
        ("absent", "DoesNotExist", ["a"], False),
        ("zone", "Is", ["a"], False),
        ("not a key", "DoesNotExist", [], False),
    ],
)
def test_each_operator_of_node_affinity(key: str, operator: str, values: list[str], fits: bool) -> None:
    placement = Placement(requiring({"matchExpressions": [line(key, operator, *values)]}))
    assert placement.chooses(Host("n1", LABELS)) is fits


IN_A, IN_B = line("zone", "In", "a"), line("zone", "In", "b")
THIS, OTHER = line("metadata.name", "In", "n1"), line("metadata.name", "In", "n2")


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([{"matchExpressions": [IN_A, line("gpu", "Exists")]}], True),
        ([{"matchExpressions": [IN_A, IN_B]}], False),
        ([{"matchExpressions": [IN_B]}, {"matchExpressions": [IN_A]}], True),
        ([{}], False),
        ([{"matchExpressions": []}, {"matchFields": []}], False),
        ([{}, {"matchExpressions": [IN_A]}], True),
        ([], False),
        ([{"matchFields": [THIS]}], True),
        ([{"matchFields": [OTHER]}], False),
        ([{"matchFields": [line("metadata.name", "NotIn", "n2")]}], True),
        ([{"matchFields": [line("metadata.name", "NotIn", "n1")]}], False),
        ([{"matchFields": [line("metadata.name", "In", "n1", "n2")]}], False),
        ([{"matchFields": [line("metadata.name", "Exists")]}], False),
        ([{"matchFields": [line("metadata.uid", "In", "n1")]}], False),
        ([{"matchFields": [line("metadata.uid", "NotIn", "n1")]}], True),
        ([{"matchExpressions": [IN_A], "matchFields": [OTHER]}], False),
        ([{"matchExpressions": [line("memory", "Gt", "x")], "matchFields": [THIS]}], False),
        ([{"matchExpressions": [line("memory", "Gt", "x")]}, {"matchExpressions": [IN_A]}], True),
    ],
)
def test_one_term_has_to_mean_the_node_with_all_of_its_lines(terms: list[dict[str, Any]], fits: bool) -> None:
    assert Placement(requiring(*terms)).chooses(Host("n1", LABELS)) is fits


def test_node_selector_and_affinity_both_have_to_mean_the_node() -> None:
    both = Placement(requiring({"matchExpressions": [IN_A]}, nodeSelector={"rack": "r7"}))
    assert both.chooses(Host("n1", LABELS))
    assert not both.chooses(Host("n1", {**LABELS, "rack": "r8"}))
    assert not both.chooses(Host("n1", {**LABELS, "zone": "b"}))
    assert both.keys == {"zone", "rack"}
    assert Placement(a_spec()).chooses(Host("n1", {}))


TAINT = Taint("team", NO_SCHEDULE, "blue")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("team", "Equal", "blue", NO_SCHEDULE), True),
        (Toleration("team", "", "blue"), True),
        (Toleration("team", "Equal", "red"), False),
        (Toleration("team", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", effect=NO_EXECUTE), False),
        (Toleration("", "Equal", "blue"), True),
        (Toleration("team", "Equal", "blue", NO_EXECUTE), False),
        (Toleration("team", "Resembles", "blue"), False),
        (Toleration("team", "Lt", "5"), False),
    ],
)
def test_a_toleration_matches_key_value_and_effect(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(TAINT) is tolerates


def test_numbers_of_tolerations_are_compared() -> None:
    taint = Taint("spot", NO_SCHEDULE, "40")
    compared = [Toleration("spot", operator, value).tolerates(taint) for operator in ("Lt", "Gt") for value in ("39", "40", "41")]
    assert compared == [False, False, True, True, False, False]


@pytest.mark.parametrize(
    ("taints", "unschedulable", "fits"),
    [
        ((), False, True),
        ((TAINT,), False, False),
        ((Taint("team", "PreferNoSchedule", "blue"),), False, True),
        ((Taint("team", NO_EXECUTE),), False, False),
        ((), True, False),
    ],
)
def test_the_scheduler_minds_taints_that_forbid_and_cordons(taints: tuple[Taint, ...], unschedulable: bool, fits: bool) -> None:
    assert Placement(a_spec()).fits(Host("n1", {}, taints, unschedulable)) is fits


def of_node(key: str, effect: str) -> Taint:
    return Taint(f"node.kubernetes.io/{key}", effect)


@pytest.mark.parametrize(
    ("taint", "network", "decided"),
    [
        (TAINT, False, Daemon(starts=False, stays=True)),
        (Taint("team", NO_EXECUTE), False, Daemon(starts=False, stays=False)),
        (Taint("team", "PreferNoSchedule"), False, Daemon(starts=True, stays=True)),
        (of_node("not-ready", NO_EXECUTE), False, Daemon(starts=True, stays=True)),
        (of_node("not-ready", NO_SCHEDULE), False, Daemon(starts=False, stays=True)),
        (of_node("unreachable", NO_EXECUTE), False, Daemon(starts=True, stays=True)),
        (of_node("disk-pressure", NO_SCHEDULE), False, Daemon(starts=True, stays=True)),
        (of_node("memory-pressure", NO_SCHEDULE), False, Daemon(starts=True, stays=True)),
        (of_node("pid-pressure", NO_SCHEDULE), False, Daemon(starts=True, stays=True)),
        (of_node("unschedulable", NO_SCHEDULE), False, Daemon(starts=True, stays=True)),
        (of_node("network-unavailable", NO_SCHEDULE), False, Daemon(starts=False, stays=True)),
        (of_node("network-unavailable", NO_SCHEDULE), True, Daemon(starts=True, stays=True)),
    ],
)
def test_the_daemon_set_controller_tolerates_what_befalls_a_node(taint: Taint, network: bool, decided: Daemon) -> None:
    placement = Placement(a_spec(hostNetwork=network), daemon=True)
    assert daemon(placement, Host("n1", {}, (taint,))) == decided


def test_a_daemon_sets_pod_stays_only_where_it_is_meant_to_be() -> None:
    nowhere = Daemon(starts=False, stays=False)
    assert daemon(Placement(a_spec(nodeSelector={"zone": "b"}), daemon=True), Host("n1", LABELS)) == nowhere
    assert daemon(Placement(a_spec(), daemon=True), Host("n1", LABELS), node_name="n2") == nowhere
    assert daemon(Placement(a_spec(), daemon=True), Host("n1", LABELS), node_name="n1").starts


def test_a_daemon_sets_pod_names_its_node_before_it_is_bound() -> None:
    assert target(requiring({"matchFields": [THIS]})) == "n1"
    assert target(requiring({"matchExpressions": [IN_A]}, {"matchFields": [OTHER]})) == "n2"
    assert target(requiring({"matchFields": [OTHER]}, nodeName="n1")) == "n1"
    assert target(requiring({"matchFields": [line("metadata.name", "In", "n1", "n2")]})) == ""
    assert target(a_spec()) == ""


def test_a_label_selector_selects_everything_when_it_is_empty() -> None:
    assert LabelSelector().selects({})
    selector = msgspec.convert({"matchLabels": {"app": "web"}, "matchExpressions": [line("tier", "NotIn", "test")]}, LabelSelector)
    assert [selector.selects(labels) for labels in ({"app": "web"}, {"app": "web", "tier": "test"}, {})] == [True, False, False]
