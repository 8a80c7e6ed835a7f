"""`--context`, `--kubeconfig` and KUBECONFIG: which cluster a command looks at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Hullmark
from tests.kube_apiserver import Fleet as RealNodes
from tests.kube_apiserver import KubeApiserver
from tests.stories.fleet import a_policy

EAST, WEST = "http://127.0.0.1:9", "http://127.0.0.1:7"
"""Nothing listens there: errors name the one that was asked."""
CONTEXTS = f"""\
current-context: east
clusters: [{{name: e, cluster: {{server: '{EAST}'}}}}, {{name: w, cluster: {{server: '{WEST}'}}}}]
contexts: [{{name: east, context: {{cluster: e}}}}, {{name: west & co, context: {{cluster: w}}}}]
"""
Site = Callable[..., str]


@pytest.fixture
def kubectl(hullmark: Hullmark, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """The command, where KUBECONFIG has the contexts `east` (the current one) and `west & co`."""
    Path("config").write_text(CONTEXTS)
    monkeypatch.setenv("KUBECONFIG", "config")
    return hullmark


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["nodes"], EAST),
        (["nodes", "--context", "west & co"], WEST),
        (["--context=west & co", "init", "folder"], WEST),
        (["plan", "-f", "site.yaml", "--context", "west & co"], WEST),
        (["nodes", "--kubeconfig", "config"], EAST),
        (["explain", "n1", "--kubeconfig=config", "--context", "west & co"], WEST),
        (["--context", "west & co", "webhook", "check"], WEST),
        (["migrate", "--kubeconfig", "config", "--context", "west & co"], WEST),
    ],
)
def test_a_command_asks_the_cluster_of_the_context(kubectl: Hullmark, site: Site, words: list[str], asked: str) -> None:
    site(a_policy("racks", {}, {"rack": "r1"}))
    ran = kubectl(*words)
    assert (ran.code, ran.out) == (1, "")
    assert asked in ran.err


def test_a_context_holds_for_one_command_and_wins_over_the_setting(kubectl: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_CLUSTER", "simulated:nowhere.json")
    assert WEST in kubectl("nodes", "--context", "west & co").err
    assert "nowhere.json" in kubectl("nodes").err


def test_an_unknown_context_lists_the_known_ones(kubectl: Hullmark) -> None:
    said = kubectl("nodes", "--context", "esat").err
    assert "no 'esat' in contexts (there: east, west & co): did you mean east?" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["labels", "-f", "site.yaml"], "reads documents, and no cluster"),
        (["versions", "list", "--live"], "the clusters that documents declare"),
        (["relabel", "--all", "--cluster", "a"], "--cluster chooses among the clusters"),
        (["relabel", "--all", "--all-clusters"], "--all-clusters chooses among the clusters"),
        (["nodes", "--server", "http://127.0.0.1:1"], "a server has clusters of its own"),
    ],
)
def test_a_context_that_would_mean_nothing_is_refused(
    kubectl: Hullmark, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.setenv("HULLMARK_SERVER", "")  # --server sets it
    ran = kubectl(*words, "--context", "east")
    assert ran.code == 1
    assert says in ran.err


@pytest.mark.parametrize("option", ["--context=", "--kubeconfig="])
def test_an_empty_context_is_not_the_current_one(kubectl: Hullmark, option: str) -> None:
    assert "take a name that is not empty" in kubectl("relabel", "--all", option).err


def test_kubectls_cluster_does_not_stand_beside_declared_ones(kubectl: Hullmark, site: Site, nodes: Callable[..., str]) -> None:
    declared = {
        "apiVersion": "hullmark.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "edge"},
        "spec": {"access": {"kubeconfig": {"context": "west & co"}}},
    }
    kubectl("documents", "stage", "-f", site(declared, a_policy("racks", {}, {"rack": "r1"})))
    kubectl("documents", "commit")
    assert WEST in kubectl("nodes").err
    assert "no cluster 'default'" in kubectl("nodes", "--cluster", "default").err


@pytest.mark.real
def test_a_relabel_by_context_and_a_look_by_kubeconfig_are_of_one_cluster(
    hullmark: Hullmark, site: Site, kube: KubeApiserver, real_fleet: RealNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_fleet.create("n1")
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig()))
    hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r1"})))
    assert hullmark("documents", "commit").code == 0
    assert hullmark("relabel", "--all", "--context", "certificate").code == 0
    seen = hullmark("nodes", "-o", "json").json
    assert seen["cluster"] == "default"
    assert seen["nodes"]["n1"]["in_sync"]
    assert seen["nodes"]["n1"]["labels"]["rack"] == "r1"
    assert "Forbidden" in hullmark("nodes", "-o", "json", "--context", "nobody").out
