"""What colleagues, kubelets and failures do to a simulated cluster, and what Hullmark makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.cli.conftest import Hullmark, Ran
from tests.stories.fleet import a_policy

Nodes = Callable[..., str]
Site = Callable[..., str]


@pytest.fixture
def cluster(hullmark: Hullmark, site: Site, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """n1 and n2 with `rack=r1`, declared and relabelled."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={'zone': 'a'}, n2={'zone': 'b'})}")
    hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r1"})))
    hullmark("documents", "commit")
    assert hullmark("relabel", "--all").code == 0
    return hullmark


def followed(ran: Ran) -> list[tuple[str, str]]:
    return [(one["step"], one["outcome"]) for one in ran.json["event"]]


def test_a_colleagues_label_is_drift_that_the_event_repairs_at_once(cluster: Hullmark) -> None:
    ran = cluster("simulate", "label", "n1", "rack=mine", "team=x", "--as", "a-colleague", "-o", "json")

    assert (ran.code, ran.json["done"]) == (0, "labelled by a-colleague")
    assert followed(ran)[:2] == [("node_event", "repair"), ("node_apply", "changed")]
    assert ran.json["changes"]["rack"] == {"before": "r1", "written": "mine", "after": "r1", "holders": ["hullmark"]}
    assert ran.json["labels"] == {"rack": "r1", "team": "x", "zone": "a"}
    assert ran.json["holders"] == {"rack": ["hullmark"], "team": ["a-colleague"], "zone": ["kubelet"]}


def test_an_event_that_got_lost_leaves_the_drift_to_the_sweep(cluster: Hullmark) -> None:
    lost = cluster("simulate", "label", "n1", "rack-", "--no-event", "-o", "json")
    assert (lost.json["event"], lost.json["labels"]) == ([], {"zone": "a"})

    swept = cluster("clock", "--once", "-o", "json")

    assert [(action["name"], action["result"], action["counts"]) for action in swept.json["actions"]] == [
        ("drift_sweep", "success", {"changed": 1, "unchanged": 1})
    ]
    assert cluster("simulate", "label", "n1", "rack=r1", "-o", "json").json["done"] == "labels unchanged"


def test_the_table_shows_the_keys_that_were_named(cluster: Hullmark) -> None:
    lines = cluster("simulate", "label", "n1", "rack=", "zone-").out.splitlines()
    assert lines[:2] == ["node n1 of cluster default: labelled by kubectl-label", "event: node_event: repair, node_apply: changed"]
    assert [line.split() for line in lines[2:]] == [
        ["LABEL", "BEFORE", "WRITTEN", "NOW", "HELD", "BY"],
        ["rack", "r1", '""', "r1", "hullmark"],
        ["zone", "a", "-", "-"],
    ]


def test_labels_that_are_so_already_are_no_news(cluster: Hullmark) -> None:
    ran = cluster("simulate", "label", "n1", "zone=a", "absent-", "-o", "json")
    assert (ran.code, ran.json["done"], ran.json["event"], ran.json["holders"]["zone"]) == (0, "labels unchanged", [], ["kubelet"])


def test_a_new_node_gets_its_labels_by_its_first_event(cluster: Hullmark) -> None:
    ran = cluster("simulate", "add", "n3", "zone=c", "-o", "json")

    assert followed(ran)[:2] == [("node_event", "repair"), ("node_apply", "changed")]
    assert ran.json["labels"] == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "n3",
        "kubernetes.io/os": "linux",
        "rack": "r1",
        "zone": "c",
    }
    assert ran.json["ready"] is True
    assert "rack" in cluster("simulate", "add", "n4").out


def test_a_deleted_node_is_gone_and_one_of_its_name_is_another(cluster: Hullmark) -> None:
    deleted = cluster("simulate", "delete", "n1", "-o", "json").json
    assert (deleted["done"], deleted["labels"], deleted["ready"]) == ("deleted", {}, None)
    assert cluster("simulate", "delete", "n1").code == 1

    again = cluster("simulate", "add", "n1", "--no-event", "-o", "json").json
    assert "rack" not in again["labels"]
    assert "zone" not in again["labels"]


def test_a_nodes_readiness_is_kept(cluster: Hullmark) -> None:
    told = cluster("simulate", "ready", "n1", "false", "-o", "json").json
    assert (told["done"], told["ready"], told["event"], told["labels"]["rack"]) == ("not Ready", False, [], "r1")
    assert cluster("simulate", "label", "n1", "team=x", "-o", "json").json["ready"] is False, "a label is no sign of life"
    assert cluster("simulate", "ready", "n1", "true", "-o", "json").json["ready"] is True


def test_what_a_rollout_looks_at_of_pods_can_be_said(cluster: Hullmark) -> None:
    told = cluster("simulate", "daemonset", "n1", "kube-system/cni", "false", "-o", "json").json
    assert (told["done"], told["event"], told["labels"]["rack"]) == ("no available pod of kube-system/cni", [], "r1")
    assert cluster("simulate", "unschedulable", "shop", "3", "-o", "json").json["unschedulable"] == {"shop": 3}
    assert (
        cluster("simulate", "unschedulable", "bank", "1").out == "pods of cluster default that can't be scheduled: 1 in bank, 3 in shop\n"
    )
    cluster("simulate", "unschedulable", "bank", "0")
    assert cluster("simulate", "unschedulable", "shop", "0").out == "pods of cluster default that can't be scheduled: none\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("daemonset", "n1", "cni", "true"), "is not NAMESPACE/NAME of a DaemonSet"),
        (("daemonset", "n9", "kube-system/cni", "true"), "no node 'n9'"),
        (("unschedulable", "../n1", "3"), "is not the name of a namespace"),
        (("label", "n1", "bad key=x"), "metadata.labels: bad key"),
        (("label", "n1", "rack=no spaces"), "a label value has at most 63 bytes"),
        (("label", "n1", "rack=x", "--as", "m" * 129), "fieldManager: a field manager's name has 1 to 128 bytes"),
        (("label", "n1", "rack=x", "--as", ""), "fieldManager"),
        (("label", "n1", "rack"), "neither KEY=VALUE nor KEY-"),
        (("label", "n1", "rack=x", "rack-"), "rack is named twice"),
        (("label", "n1", "-"), "no label key"),
        (("label", "n9", "rack=x"), "no node 'n9'"),
        (("label", "../n1", "rack=x"), "no node '../n1'"),
        (("label", "n1"), "Missing argument"),
        (("add", "n1"), "already exists"),
        (("add", "N_1"), "metadata.name"),
        (("add", "n3", "zone-"), "no labels to remove"),
        (("ready", "n9", "true"), "no node 'n9'"),
        (("ready", "n1", "perhaps"), "perhaps"),
        (("delete", "n9"), "no node 'n9'"),
        (("delete", "n1", "--cluster", "elsewhere"), "no cluster 'elsewhere'"),
    ],
)
def test_what_the_api_server_or_kubectl_refuses_is_refused(cluster: Hullmark, arguments: tuple[str, ...], said: str) -> None:
    ran = cluster("simulate", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err
    assert cluster("plan").code == 0, "nothing was written"


def test_of_several_clusters_one_is_named(
    hullmark: Hullmark, site: Site, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("HULLMARK_SIMULATED", f"one={nodes(n1={'zone': 'a'})}")

    def a_cluster(name: str, access: Mapping[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"access": access}}

    simulated, real = {"simulated": {"name": "one"}}, {"kubeconfig": {"context": "prod"}}
    hullmark("documents", "stage", "-f", site(a_cluster("east", simulated), a_cluster("west", simulated), a_cluster("prod", real)))
    hullmark("documents", "commit")

    unnamed = hullmark("simulate", "delete", "n1")
    assert (unnamed.code, "name the cluster: the revision declares east, prod, west" in unnamed.err) == (1, True)
    refused = hullmark("simulate", "delete", "n1", "--cluster", "prod")
    assert (refused.code, "cluster prod is a real one" in refused.err) == (1, True)
    assert hullmark("simulate", "delete", "n1", "--cluster", "west").code == 0
    assert hullmark("simulate", "ready", "n1", "true", "--cluster", "east", "-o", "json").json["labels"] == {"zone": "a"}


@pytest.mark.parametrize("command", [("simulate", "delete", "n1"), ("clock", "--once")])
def test_a_servers_cluster_and_clock_are_left_alone(hullmark: Hullmark, command: tuple[str, ...]) -> None:
    ran = hullmark(*command, "--server", "http://127.0.0.1:9")
    assert (ran.code, ran.out) == (1, "")
    assert "the embedded cloud only" in ran.err


def test_a_changed_file_of_a_simulated_cluster_is_noted_and_not_read_again(
    hullmark: Hullmark, nodes: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = nodes(n1={})
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{file}")
    assert "note:" not in hullmark("nodes").err
    assert "note:" not in hullmark("nodes").err
    nodes(n1={}, n2={})
    changed = hullmark("nodes", "-o", "json")
    assert list(changed.json["nodes"]) == ["n1"]
    assert f"note: {file} is not what store file:.hullmark took its simulated cluster from, and is not read again" in changed.err
    monkeypatch.setenv("HULLMARK_STORE", "file:another")
    anew = hullmark("nodes", "-o", "json")
    assert list(anew.json["nodes"]) == ["n1", "n2"]
    assert "note:" not in anew.err
