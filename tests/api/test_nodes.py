"""GET /v1.0/nodes: how each node stands to what is released to it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from functions.api import nodes as nodes_module
from shared.domain.labels.node_states import node_state
from shared.domain.nodes import Node
from shared.ports import Unavailable
from shared.work import nodes as work
from tests import prometheus
from tests.api.conftest import FrontDoor, reasons


@pytest.fixture
def released(door: FrontDoor) -> FrontDoor:
    """n1 to n3 with revision 1, n4 in the documents only."""
    door.declares({name: {"rack": f"r{name[1]}"} for name in ("n1", "n2", "n3", "n4")})
    door.has_nodes(n1={"zone": "a"}, n2={"zone": "a"}, n3={})
    door.relabels()
    return door


def override(fleet: FrontDoor, name: str, labels: dict[str, str]) -> None:
    """A person's labels in place of the documents'."""
    fleet.world.releases.override("default", name, labels, "a person", fleet.now)
    fleet.cluster.apply_labels(name, fleet.node(name).uid, labels)


def shown(fleet: FrontDoor, **query: str) -> dict[str, Any]:
    answer = fleet.get("/v1.0/nodes", query_string=query)
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json
    return body


def in_short(body: dict[str, Any]) -> dict[str, tuple[int | None, bool, str]]:
    return {name: (node["release"]["revision"], node["in_sync"], node["reason"]) for name, node in body["nodes"].items()}


def test_a_node_is_shown_with_its_labels_their_holders_and_its_release(released: FrontDoor) -> None:
    assert shown(released, names="n1") == {
        "cluster": "default",
        "committed": 1,
        "nodes": {
            "n1": {
                "labels": {"rack": "r1", "zone": "a"},
                "holders": {"rack": ["hullmark"], "zone": ["kubelet"]},
                "release": {"revision": 1, "override": None},
                "in_sync": True,
                "reason": "",
                "message": "",
            }
        },
        "next": "",
    }


def test_drift_names_the_key_and_who_wrote_it(released: FrontDoor) -> None:
    released.cluster.set_labels("n1", {"rack": "mine"}, "kubectl-label")
    released.cluster.set_labels("n2", {"rack": None}, "kubectl-label")
    body = shown(released)
    assert in_short(body) == {
        "n1": (1, False, "Drift"),
        "n2": (1, False, "Drift"),
        "n3": (1, True, ""),
        "n4": (1, False, "NodeNotFound"),
    }
    assert body["nodes"]["n1"]["message"] == "rack is 'mine' by kubectl-label, it should be 'r1'"
    assert body["nodes"]["n2"]["message"] == "rack is missing, it should be 'r2'"


def test_a_newer_revision_waits_and_no_node_is_out_of_sync_for_it(released: FrontDoor) -> None:
    released.declares({name: {"rack": "new"} for name in ("n1", "n2", "n3", "n4")}, adopted=False)
    released.relabels("n3")
    assert in_short(shown(released)) == {
        "n1": (1, True, "NewerRevisionWaits"),
        "n2": (1, True, "NewerRevisionWaits"),
        "n3": (2, True, ""),
        "n4": (1, False, "NodeNotFound"),
    }


def test_nothing_is_released_to_a_node_before_the_first_action(door: FrontDoor) -> None:
    door.has_nodes(n1={"zone": "a"})
    assert in_short(shown(door)) == {"n1": (None, False, "NotReleased")}
    door.declares({"n1": {"rack": "r1"}}, adopted=False)
    assert in_short(shown(door)) == {"n1": (None, False, "NotReleased")}


def test_only_nodes_that_are_out_of_sync_where_somebody_asks_for_them(released: FrontDoor) -> None:
    released.cluster.set_labels("n2", {"rack": "mine"})
    assert list(shown(released, out_of_sync="true")["nodes"]) == ["n2", "n4"]


def test_pages_follow_one_another_without_a_gap(released: FrontDoor) -> None:
    pages, after = [], ""
    while True:
        page = shown(released, limit="1", **({"after": after} if after else {}))
        pages.append(list(page["nodes"]))
        after = page["next"]
        if not after:
            break
    assert pages == [["n1"], ["n2"], ["n3"], ["n4"]]
    assert shown(released, names="n3,n1,n2", limit="2")["next"] == "n2"


def test_a_page_is_bounded_in_bytes_too(released: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PAGE_BYTES", 1)
    page = shown(released)
    assert (list(page["nodes"]), page["next"]) == (["n1"], "n1")


def test_a_page_costs_one_listing_and_named_nodes_a_read_each(released: FrontDoor) -> None:
    calls: list[tuple[str, str]] = []
    released.cluster.before = lambda call, node: calls.append((call, node))
    shown(released)
    assert [call for call in calls if call[0] != "server_version"] == [("nodes", "")]
    calls.clear()
    shown(released, names="n2,n1")
    assert sorted(call for call in calls if call[0] != "server_version") == [("node", "n1"), ("node", "n2")]


def test_an_override_is_a_release_of_its_own(released: FrontDoor) -> None:
    override(released, "n1", {"rack": "by-hand"})
    node = shown(released, names="n1")["nodes"]["n1"]
    assert (node["labels"]["rack"], node["in_sync"], node["release"]["override"] is not None) == ("by-hand", True, True)


def test_a_node_that_nobody_knows_is_refused_by_name(released: FrontDoor) -> None:
    answer = released.get("/v1.0/nodes?names=n1,x1,x2")
    assert (answer.status_code, reasons(answer)) == (400, ["UnknownNode", "UnknownNode"])
    answer = released.get("/v1.0/nodes?cluster=nowhere")
    assert (answer.status_code, reasons(answer)) == (400, ["ClusterUnknown"])
    assert released.get("/v1.0/nodes?limit=0").status_code == 400


def test_a_cluster_that_does_not_answer_is_no_empty_cluster(released: FrontDoor) -> None:
    released.unreachable(Unavailable("no route"))
    assert released.get("/v1.0/nodes").status_code == 503


@pytest.mark.parametrize("query", [{}, {"names": "n1"}])
def test_where_the_releases_cannot_be_read_every_node_says_so(released: FrontDoor, query: dict[str, str]) -> None:
    head = released.world.store.keys("releases/default/")[-1]
    released.world.store.delete(head)
    released.world.store.create(head, b"torn")
    released.world.__dict__.pop("releases", None)  # as another process would find it

    nodes = shown(released, **query)["nodes"]

    assert nodes
    assert {(node["in_sync"], node["reason"], head in node["message"]) for node in nodes.values()} == {(False, "RecordUnreadable", True)}
    assert nodes["n1"]["labels"] == {"rack": "r1", "zone": "a"}


def test_one_node_whose_override_cannot_be_read_leaves_the_others_as_they_are(released: FrontDoor) -> None:
    override(released, "n1", {"rack": "by-hand"})
    [kept] = released.world.store.keys("overrides/")
    released.world.store.delete(kept)
    body = in_short(shown(released))
    assert (body["n1"][1:], body["n2"]) == ((False, "RecordUnreadable"), (1, True, ""))


def test_a_page_of_a_hundred_thousand_nodes_plans_no_more_than_it_shows(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    door.declares({"n1": {"rack": "r1"}})
    nodes = [Node(f"n{number:06}", f"u{number}", {"zone": "a"}, owners={"zone": ("kubelet",)}) for number in range(100_000)]
    monkeypatch.setattr(door.cluster, "nodes", lambda: nodes)
    planned: list[Node] = []

    def counted(live: Node, *given: Any) -> Any:
        planned.append(live)
        return node_state(live, *given)

    monkeypatch.setattr(work, "node_state", counted)
    page = shown(door, limit="10", after="n050000")
    assert list(page["nodes"]) == [f"n{number:06}" for number in range(50_001, 50_011)]
    assert len(planned) == 11
    assert nodes_module.NodesQuery().limit == 500


def listed(fleet: FrontDoor) -> list[tuple[int, dict[str, dict[str, int]], list[str]]]:
    answer = fleet.get("/v1.0/revisions").json
    return [(revision["number"], revision["released"], revision["waits"]) for revision in answer["revisions"]]


def samples(fleet: FrontDoor, name: str) -> dict[str, float]:
    found = prometheus.read(fleet.get("/metrics").text)[name].samples
    return {dict(labels)["cluster"]: value for (_, labels), value in found.items()}


def test_a_revision_that_waits_is_seen_in_the_list_on_the_page_and_in_metrics(released: FrontDoor) -> None:
    released.declares({"n1": {"rack": "new"}, "n2": {"rack": "new"}}, adopted=False)
    released.now += timedelta(hours=2)
    assert listed(released) == [(1, {"default": {"base": True, "nodes": 0}}, []), (2, {}, ["default"])]
    assert "newest revision, waits to be released" in released.get("/").text
    assert samples(released, "hullmark_revision_base") == {"default": 1}
    assert samples(released, "hullmark_revision_waiting_seconds") == {"default": 7200}

    released.relabels("n1")
    assert listed(released)[1] == (2, {"default": {"base": False, "nodes": 1}}, ["default"])
    assert samples(released, "hullmark_revision_released") == {"default": 2}
    assert "1 node at revision 2" in re.sub(r"<[^>]+>", "", released.get("/").text)

    released.relabels()
    assert listed(released) == [(1, {}, []), (2, {"default": {"base": True, "nodes": 0}}, [])]
    assert "newest revision, released" in released.get("/").text
    assert samples(released, "hullmark_revision_waiting_seconds") == {"default": 0}


def test_a_rejected_revision_waits_for_nobody(released: FrontDoor) -> None:
    released.declares({"n1": {"rack": "new"}}, adopted=False)
    released.post("/v1.0/revisions/2/tags/rejected")
    assert listed(released)[1] == (2, {}, [])
    assert in_short(shown(released, names="n1")) == {"n1": (1, True, "")}


def test_releases_that_cannot_be_read_are_told_and_counted(released: FrontDoor) -> None:
    head = released.world.store.keys("releases/default/")[-1]
    released.world.store.delete(head)
    released.world.store.create(head, b"torn")
    released.world.__dict__.pop("releases", None)
    assert head in released.get("/").text
    assert samples(released, "hullmark_revision_base") == {}
    assert prometheus.read(released.get("/metrics").text)["hullmark_records_unreadable"].samples == {("", ()): 1}
    assert listed(released) == [(1, {}, [])]


def test_a_key_that_others_hold_too_and_we_only_have_to_give_up_is_no_drift(released: FrontDoor) -> None:
    released.cluster.apply("n1", {"rack": "r1"}, "argocd")
    released.declares({name: {"row": "7"} for name in ("n1", "n2", "n3", "n4")}, adopted=False)
    released.releases(2, "n1")
    released.cluster.set_labels("n1", {"row": "7"}, "argocd")
    assert in_short(shown(released, names="n1")) == {"n1": (2, True, "")}


def test_what_we_hold_and_never_declared_is_told(released: FrontDoor) -> None:
    node = released.node("n1")
    released.cluster.apply_labels("n1", node.uid, {"rack": "r1", "foreign.example/old": "x"})
    state = shown(released, names="n1")["nodes"]["n1"]
    assert (state["in_sync"], state["reason"], "--adopt" in state["message"]) == (False, "NotAdopted", True)
