from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from shared.domain.documents.design import DesignNode
from shared.domain.labels.selection import NodeFilter, select

NODES = [
    DesignNode("c", {"color": "yellow", "kind": "physical"}, tags=("worker",), rack="r2", rack_labels={"row": "b", "room": "1"}),
    DesignNode("a", {"color": "yellow"}, tags=("master", "gpu"), rack="r1", rack_labels={"row": "a", "room": "1"}),
    DesignNode("b", {"kind": "physical", "ready": "true"}, tags=("worker", "gpu"), rack="r1", rack_labels={"row": "a", "room": "1"}),
    DesignNode("n100", {"color": "green"}),
]
EVERY = ["a", "b", "c", "n100"]


def chosen(*entries: dict[str, Any], sets: str = "union") -> list[str]:
    return select(NodeFilter.model_validate({"filter_set_type": sets, "filter_set": list(entries)}), NODES)


def entry(filter_type: str, **criteria: Any) -> dict[str, Any]:
    return {"filter_type": filter_type, **criteria}


@pytest.mark.parametrize("kind", ["union", "intersection"])
@pytest.mark.parametrize(
    ("criterion", "names"),
    [
        ({"node_names": ["b", "a", "gone"]}, ["a", "b"]),
        ({"node_names": ["n1"]}, []),  # never part of a name
        ({"node_names": ["A"]}, []),  # case counts
        ({"node_tags": ["master", "worker"]}, ["a", "b", "c"]),  # alternatives
        ({"node_tags": ["gpu"]}, ["a", "b"]),
        ({"rack_names": ["r1", "r9"]}, ["a", "b"]),
        ({"node_labels": {"color": "yellow"}}, ["a", "c"]),
        ({"node_labels": {"ready": "true"}}, ["b"]),
        ({"rack_labels": {"row": "a"}}, ["a", "b"]),
    ],
)
def test_a_single_criterion_means_the_same_under_both_types(kind: str, criterion: dict[str, Any], names: list[str]) -> None:
    assert chosen(entry(kind, **criterion)) == names


def test_several_labels_are_alternatives_under_union_and_all_must_match_under_intersection() -> None:
    labels = {"color": "yellow", "kind": "physical"}
    assert chosen(entry("union", node_labels=labels)) == ["a", "b", "c"]
    assert chosen(entry("intersection", node_labels=labels)) == ["c"]
    rack = {"row": "b", "room": "1"}
    assert chosen(entry("union", rack_labels=rack)) == ["a", "b", "c"]
    assert chosen(entry("intersection", rack_labels=rack)) == ["c"]


def test_criteria_combine_by_filter_type() -> None:
    criteria = {"node_tags": ["gpu"], "node_labels": {"kind": "physical"}}
    assert chosen(entry("union", **criteria)) == ["a", "b", "c"]
    assert chosen(entry("intersection", **criteria)) == ["b"]


def test_filters_combine_by_filter_set_type() -> None:
    filters = entry("union", node_tags=["gpu"]), entry("union", rack_names=["r2"], node_names=["b"])
    assert chosen(*filters, sets="union") == ["a", "b", "c"]
    assert chosen(*filters, sets="intersection") == ["b"]


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        {},
        {"filter_set_type": "union"},
        {"filter_set_type": "intersection", "filter_set": None},
        {"filter_set_type": "union", "filter_set": []},
        {"filter_set_type": "union", "filter_set": [{"filter_type": "union"}]},
        {
            "filter_set_type": "intersection",
            "filter_set": [{"filter_type": "union", "node_names": [], "node_labels": {}, "rack_names": None}],
        },
    ],
)
def test_a_filter_without_any_criterion_means_all_nodes(nothing: Any) -> None:
    assert select(None if nothing is None else NodeFilter.model_validate(nothing), NODES) == EVERY


def test_an_entry_without_criteria_restricts_nothing() -> None:
    filters = entry("union", node_names=["a"]), entry("union", node_tags=[])
    assert chosen(*filters, sets="intersection") == ["a"]
    assert chosen(*filters, sets="union") == EVERY


def test_no_nodes_is_no_names() -> None:
    assert select(None, []) == []


@pytest.mark.parametrize(
    "malformed",
    [
        {"filter_set": [entry("union", node_names=["a"])]},
        {"filter_set_type": "xor", "filter_set": []},
        {"filter_set_type": "union", "filter_set": [{"node_names": ["a"]}]},
        {"filter_set_type": "union", "filter_set": [entry("none")]},
        {"filter_set_type": "union", "filter_set": [entry("union", node_names="a")]},
        {"filter_set_type": "union", "filter_set": [entry("union", node_names=[1])]},
        {"filter_set_type": "union", "filter_set": [entry("union", node_labels=["a"])]},
        {"filter_set_type": "union", "filter_set": [entry("union", node_labels={"ready": True})]},
        {"filter_set_type": "union", "filter_set": [entry("union", node_labels={"ready": None})]},
        {"filter_set_type": "union", "filter_set": [entry("union", node_name=["a"])]},
        {"filter_set_type": "union", "filter_set": {"filter_type": "union"}},
        {"filter_set_type": "union", "filters": []},
        [],
        "a",
    ],
)
def test_a_malformed_filter_is_refused(malformed: Any) -> None:
    with pytest.raises(ValidationError):
        NodeFilter.model_validate(malformed)
