"""What a revision holds and how it differs from another, at the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

Write = Callable[..., str]


def a_tree(*documents: Any) -> None:
    """site/a.yaml and site/racks/b.yaml."""
    Path("site/racks").mkdir(parents=True, exist_ok=True)
    for name, document in zip(("a.yaml", "racks/b.yaml"), documents, strict=True):
        Path("site", name).write_text(yaml.safe_dump(document))


@pytest.fixture
def tree(hullmark: Hullmark) -> Hullmark:
    """A folder of two documents, nothing staged."""
    a_tree(a_policy("a", {}, {"a": "1"}), a_policy("b", {"names": ["n1"]}, {"b": "1"}))
    return hullmark


@pytest.mark.parametrize(
    "named",
    [
        ["./site"],
        ["site/"],
        ["{cwd}/site"],
        ["site/../site"],
        ["site/a.yaml", "site/racks/b.yaml"],
        ["{cwd}/site/racks/b.yaml", "./site/a.yaml"],
    ],
)
def test_however_a_folder_is_named_it_stages_the_same_files(tree: Hullmark, named: list[str]) -> None:
    first = tree("documents", "stage", "-f", "site", "-o", "json").json
    given = [word for name in named for word in ("-f", name.format(cwd=Path.cwd()))]
    again = tree("documents", "stage", *given, "-o", "json").json
    assert first["files"] == ["a.yaml", "racks/b.yaml"]
    assert again == first


def test_two_files_of_one_name_are_refused(tree: Hullmark) -> None:
    a_tree(a_policy("c", {}, {"c": "1"}), a_policy("d", {}, {"d": "1"}))
    Path("other").mkdir()
    Path("other/a.yaml").write_text(Path("site/a.yaml").read_text())
    ran = tree("documents", "stage", "-f", "site", "-f", "other", "-o", "json")
    assert (ran.code, [each["file"] for each in ran.json["errors"]]) == (1, ["a.yaml"])
    assert "a.yaml:0: two files have this name" in tree("documents", "stage", "-f", "site", "-f", "other").err
    assert tree("documents", "list", "-o", "json").json["staged"] == []
    assert tree("documents", "stage", "-f", "site/a.yaml", "-f", "other/a.yaml").code == 0, "they have a folder in common"


def test_the_text_of_one_collection_can_be_shown_and_compared(tree: Hullmark) -> None:
    for collection in ("east", "west"):
        a_tree(a_policy(f"{collection}-a", {}, {f"{collection}-a": "1"}), a_policy(f"{collection}-b", {}, {f"{collection}-b": "1"}))
        tree("documents", "stage", "-f", "site", "-c", collection)
    tree("documents", "commit")
    Path("site/a.yaml").write_text(yaml.safe_dump(a_policy("west-a", {}, {"west-a": "2"})))
    tree("documents", "stage", "-f", "site", "-c", "west")
    tree("documents", "commit")
    shown = tree("documents", "show", "2", "-c", "west", "-o", "json").json["files"]
    assert [(each["collection"], each["file"]) for each in shown] == [("west", "a.yaml"), ("west", "racks/b.yaml")]
    assert "east" not in tree("documents", "show", "2", "-c", "west").out
    assert "revision 2 has no collection north; it has: east, west" in tree("documents", "show", "2", "-c", "north").err

    text = tree("documents", "diff", "1", "2", "-o", "json").json["diff"]
    assert text[:2] == ["--- west/a.yaml (revision 1)", "+++ west/a.yaml (revision 2)"]
    assert tree("documents", "diff", "1", "2", "-c", "east", "-o", "json").json["diff"] == []
    assert tree("documents", "diff", "1", "2", "-c", "north").code == 1


def test_a_problem_says_in_which_collection_where_two_have_a_file_of_that_name(tree: Hullmark) -> None:
    tree("documents", "stage", "-f", "site", "-c", "east")
    Path("site/a.yaml").write_text(yaml.safe_dump(a_policy("bad", {}, {"a": "b c"})))
    tree("documents", "stage", "-f", "site/a.yaml", "-c", "west")
    assert {each["file"] for each in tree("documents", "commit", "-o", "json").json["errors"]} == {"west/a.yaml"}


@pytest.fixture
def watched(hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """Three gpu nodes and another one, which no document names, and two revisions."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(**{f'gpu{n}': {'gpu': 'yes'} for n in (1, 2, 3)}, cpu={})}")
    for labels in ({"pool": "old", "tier": "1"}, {"pool": "new", "owner": "ml"}):
        hullmark("documents", "stage", "-f", site(a_policy("gpu", {"matchLabels": {"gpu": "yes"}}, labels)))
        hullmark("documents", "commit")
    return hullmark


def test_a_policy_that_selects_the_clusters_own_nodes_shows_in_the_difference(watched: Hullmark) -> None:
    found = watched("documents", "diff", "1", "2", "-o", "json").json
    assert {key: (each["set"], each["changed"], each["removed"]) for key, each in found["labels"].items()} == {
        "owner": (3, 0, 0),
        "pool": (0, 3, 0),
        "tier": (0, 0, 3),
    }
    assert found["labels"]["pool"]["examples"]["gpu1"] == {"before": "old", "after": "new"}
    assert found["nodes"]["gpu3"] == {"before": {"pool": "old", "tier": "1"}, "after": {"pool": "new", "owner": "ml"}}
    assert sorted(found["nodes"]) == ["gpu1", "gpu2", "gpu3"]
    assert found["unseen"] == {}
    shown = watched("documents", "diff", "1", "2")
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert "pool changed on 3 gpu1: old → new, gpu2: old → new, gpu3: old → new" in lines
    assert "tier removed on 3 gpu1: 1 → none, gpu2: 1 → none, gpu3: 1 → none" in lines
    assert lines.index("3 nodes with different labels: gpu1, gpu2, gpu3") < lines.index("+ pool: new")
    assert watched("documents", "diff", "2", "2", "-o", "json").json["nodes"] == {}


def test_a_cluster_that_does_not_answer_is_compared_by_the_documents_alone(watched: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_CLUSTER", "kubeconfig:nowhere.yaml")
    ran = watched("documents", "diff", "1", "2")
    assert (ran.code, "0 nodes with different labels" in ran.out) == (0, True)
    assert "note: cluster default's own nodes were not looked at, only the documents: " in ran.err
    assert watched("documents", "diff", "1", "2", "--cluster", "nowhere").code == 1


def test_with_several_clusters_a_node_counts_in_its_own(
    hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cluster, node in (("east", "n1"), ("west", "n2")):
        Path(nodes(**{node: {}})).rename(f"{cluster}.json")
    monkeypatch.setenv("HULLMARK_SIMULATED", "east=east.json,west=west.json")
    clusters = [
        {
            "apiVersion": "hullmark.dev/v1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"access": {"simulated": {"name": name}}},
        }
        for name in ("east", "west")
    ]
    for value in ("1", "2"):
        policies = a_policy("named", {"names": ["n1", "n2", "gone"]}, {"a": value}), a_policy("west", {}, {"b": value}, clusters=["west"])
        hullmark("documents", "stage", "-f", site(*clusters, *policies))
        hullmark("documents", "commit")
    found = hullmark("documents", "diff", "1", "2", "-o", "json").json
    assert sorted(found["nodes"]) == ["east/gone", "east/n1", "west/n2"]
    assert (found["labels"]["a"]["changed"], found["labels"]["b"]["changed"]) == (3, 1)
    assert sorted(hullmark("documents", "diff", "1", "2", "--cluster", "west", "-o", "json").json["nodes"]) == ["gone", "n1", "n2"]
