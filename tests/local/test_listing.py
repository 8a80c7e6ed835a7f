"""A forwarder that starts: of a listing, only what is not in sync with its release is published."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from local.cloud.forwarder import Forwarder
from local.cloud.listing import Needed
from shared import wiring
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.domain.documents.reading import Source
from shared.domain.nodes import OWNER, Node
from shared.world import Settings, World
from tests.local.test_forwarder import Bus
from tests.local.test_forwarder import Source as Watch

NOW = datetime(2026, 11, 22, tzinfo=UTC)
CLUSTER = "{apiVersion: hullmark.dev/v1, kind: Cluster, metadata: {name: blue}, spec: {access: {inCluster: {}}}}"
POLICY = (
    "{apiVersion: hullmark.dev/v1, kind: NodeLabelPolicy, metadata: {name: rack}, spec: {nodes: {names: [n1, n2]}, labels: {rack: r7}}}"
)
LABELLED = {"rack": "r7"}


def node(name: str, labels: dict[str, str], applied: bool = True) -> Node:
    owners = dict.fromkeys(labels, (OWNER if applied else "kubectl",))
    return Node(name, f"uid-{name}", labels, "1", owners, {OWNER: frozenset(labels)} if applied and labels else {})


class Site:
    """A store with documents, a cluster that is watched, and what a forwarder of it publishes."""

    def __init__(self) -> None:
        self.world: World = wiring.build(Settings(store="memory:"), Bus())
        self.bus = Bus()
        self.said: list[str] = []

    def commits(self, *documents: str, released: bool = True) -> None:
        sources = [Source(f"{number}.yaml", text.encode()) for number, text in enumerate(documents)]
        self.world.revisions.stage("default", sources, "me", NOW)
        revision, _ = self.world.revisions.commit("me", NOW)
        if released:
            self.world.releases.to_all("blue", f"a{revision.number}", revision.number, since=0, by="me", at=NOW)

    def published(self, *listings: list[Node], cluster: str = "blue") -> list[str]:
        watched = Simulated(open_store("memory:"), cluster, lambda: listings[0], version="v1.35.4")
        source = Watch([*listings])
        needed = Needed(cluster, watched, self.world, self.said.append)
        forwarder = Forwarder(cluster, source, self.bus, needed=needed)
        for _ in listings:
            forwarder.round("")
        return [name for name, _ in self.bus.told]


@pytest.fixture
def site() -> Site:
    return Site()


def test_only_nodes_that_are_not_in_sync_are_published(site: Site) -> None:
    site.commits(CLUSTER, POLICY)

    assert site.published(
        [node("n1", LABELLED), node("n2", {"rack": "by-hand"}, applied=False), node("n3", {"other": "x"}, applied=False)]
    ) == ["n2"]
    assert site.said == ["1 of 3 nodes are not in sync"]


def test_a_node_with_a_label_of_ours_that_nothing_declares_any_more_is_published(site: Site) -> None:
    site.commits(CLUSTER, POLICY)
    site.commits(CLUSTER)

    assert site.published([node("n1", LABELLED), node("n2", {})]) == ["n1"]


def test_a_node_that_may_hold_a_startup_taint_is_published_although_its_labels_are_in_sync(site: Site) -> None:
    site.commits(CLUSTER, POLICY[:-2] + ", until: {taint: {key: hullmark.dev/unlabelled, effect: NoSchedule}}}}")

    assert site.published([node("n1", LABELLED), replace(node("n2", LABELLED), may_have_taints=False)]) == ["n1"]


def test_after_a_gap_the_difference_is_planned_too(site: Site) -> None:
    site.commits(CLUSTER, POLICY)
    before = [node("n1", LABELLED), node("n2", LABELLED), node("n3", {})]

    assert site.published(before, [node("n1", {}), node("n2", LABELLED), node("n3", {"theirs": "x"}, applied=False)]) == ["n1"]


def test_what_is_committed_and_not_released_is_no_reason_to_publish(site: Site) -> None:
    site.commits(CLUSTER)
    site.commits(CLUSTER, POLICY, released=False)

    assert site.published([node("n1", {}), node("n2", {})]) == []


def test_where_nobody_can_say_what_is_released_all_are_published(site: Site) -> None:
    nodes = [node("n1", LABELLED), node("n2", {})]

    assert site.published(nodes) == ["n1", "n2"]
    site.commits(CLUSTER, POLICY)
    assert site.published(nodes, cluster="green") == ["n1", "n2", "n1", "n2"]
    site.world.store.create("releases/blue/000002.json", b"torn")
    assert site.published(nodes) == ["n1", "n2"] * 3
    assert [said.partition(";")[0][:30] for said in site.said] == [
        "nothing is committed in memory",
        "no Cluster document is named '",
        "what is released can't be read",
    ]
