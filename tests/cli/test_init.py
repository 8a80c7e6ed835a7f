"""`hullmark init`: a folder of documents that says what is there, so that the first plan shows nothing to change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.domain.labels.inventory import Labelled, inventory
from tests.cli.conftest import Hullmark

Write = Callable[..., str]


def policies(file: str = "site/labels.yaml") -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(Path(file).read_text()))


def spec(*nodes: Labelled, **rest: Any) -> list[tuple[Any, Any]]:
    return [(policy["spec"]["nodes"], policy["spec"]["labels"]) for policy in inventory(nodes, **rest).policies]


def a_node(name: str, **labels: str) -> Labelled:
    return Labelled(name, {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}, {})


def test_the_folder_is_valid_and_changes_nothing(hullmark: Hullmark, nodes: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    system = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "eks.amazonaws.com/nodegroup": "g"}
    there = {"team/pool": "gpu", "no": "yes", "version": "012", "empty": "", "same": "1"}
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={**system, **there}, n2={**system, 'same': '1'}, n3={'same': '1'})}")
    made = hullmark("init", "site")
    assert made.code == 0
    assert "wrote site/labels.yaml: 2 policies for what 3 nodes have today" in made.out
    assert hullmark("validate", "-f", "site").code == 0
    planned = hullmark("plan", "-f", "site", "-o", "json")
    assert (planned.code, planned.json["nodes"], planned.json["unchanged"]) == (0, {}, 3)
    assert [line.strip().partition("  #")[0].strip() for line in made.out.splitlines() if line.startswith("  hullmark")] == [
        "hullmark validate -f site",
        "hullmark plan -f site",
        "hullmark documents stage -f site && hullmark documents commit",
        "hullmark relabel --all",
    ]
    hullmark("documents", "stage", "-f", "site")
    hullmark("documents", "commit")
    released = hullmark("relabel", "--all", "-o", "json").json
    assert (released["result"], {node["outcome"] for node in released["nodes"].values()}) == ("success", {"unchanged"})


def test_nodes_that_share_labels_share_a_policy() -> None:
    found = spec(a_node("n1", pool="gpu", rack="r1", all="1"), a_node("n2", pool="gpu", rack="r2", all="1"), a_node("n3", all="1"))
    assert found == [
        ({}, {"all": "1"}),
        ({"names": ["n1", "n2"]}, {"pool": "gpu"}),
        ({"names": ["n1"]}, {"rack": "r1"}),
        ({"names": ["n2"]}, {"rack": "r2"}),
    ]


def test_a_pool_of_nodes_is_selected_by_its_label_so_that_the_next_node_is_too() -> None:
    gpu = {"eks_amazonaws_com__nodegroup": "gpu"}
    found = spec(a_node("n1", team="ml", **gpu), a_node("n2", team="ml", **gpu), a_node("n3", team="web"))
    assert found == [({"matchLabels": {"eks.amazonaws.com/nodegroup": "gpu"}}, {"team": "ml"}), ({"names": ["n3"]}, {"team": "web"})]


def test_what_kubelets_clouds_and_add_ons_set_is_left_out_and_named() -> None:
    keys = (
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "node-role.kubernetes.io/control-plane",
        "feature.node.kubernetes.io/cpu-model.vendor_id",
        "nvidia.com/gpu.present",
        "cloud.google.com/gke-nodepool",
        "alias",
        "bad key\n- x",
    )
    found = inventory([Labelled("n1", {**dict.fromkeys(keys, "v"), "mine": "1"}, {"alias": ["hullmark-aliases"]})])
    assert [policy["spec"]["labels"] for policy in found.policies] == [{"mine": "1"}]
    assert set(found.left_out) == set(keys)
    assert "label the node pool" in found.left_out["cloud.google.com/gke-nodepool"]


def test_a_key_that_cannot_be_declared_everywhere_is_left_out_everywhere() -> None:
    """One node with a value that no document may declare: the others' policies would be half of the truth."""
    assert spec(Labelled("n1", {"odd": "a b", "mine": "1"}, {}), Labelled("n2", {"odd": "ok", "mine": "1"}, {})) == [({}, {"mine": "1"})]


def test_policies_of_two_values_with_one_name_are_told_apart() -> None:
    found = inventory([a_node("n1", pool="A"), a_node("n2", pool="a"), Labelled("n3", {"x/pool": "a"}, {}), a_node("n4", pool="a-2")])
    assert sorted(policy["metadata"]["name"] for policy in found.policies) == ["pool-a", "pool-a-2", "pool-a-2-2", "pool-a-3"]


def test_a_listing_serves_in_place_of_a_cluster(hullmark: Hullmark, nodes: Write) -> None:
    file = nodes(n1={"pool": "gpu"})
    made = hullmark("init", "deep/site", "--nodes", file, "-o", "json")
    assert (made.code, made.json["policies"], made.json["leftOut"]) == (0, 1, {})
    assert hullmark("plan", "-f", "deep/site", "--nodes", file).code == 0
    assert policies("deep/site/labels.yaml")[0]["spec"] == {"nodes": {}, "labels": {"pool": "gpu"}}


def test_what_is_there_already_is_never_touched(hullmark: Hullmark, nodes: Write) -> None:
    file = nodes(n1={"pool": "gpu"})
    Path("site").mkdir()
    Path("site/mine.txt").write_text("mine")
    Path("dangling").symlink_to("nowhere")
    for folder in ("site", "site/mine.txt", "dangling"):
        refused = hullmark("init", folder, "--nodes", file, "-o", "json")
        assert (refused.code, refused.json["errors"][0]["reason"]) == (1, "NotEmpty"), folder
    assert [path.name for path in Path("site").iterdir()] == ["mine.txt"]
    Path("empty").mkdir()
    assert hullmark("init", "empty", "--nodes", file).code == 0


def test_nothing_to_declare_makes_no_folder(hullmark: Hullmark, nodes: Write) -> None:
    bare = hullmark("init", "site", "--nodes", nodes(n1={"kubernetes.io/os": "linux"}))
    assert (bare.code, "kubelets, clouds and add-ons set every label" in bare.err, Path("site").exists()) == (1, True, False)
    Path("none.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": []}))
    none = hullmark("init", "site", "--nodes", "none.json")
    assert (none.code, "has no nodes" in none.err, Path("site").exists()) == (1, True, False)
