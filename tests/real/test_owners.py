"""Two Hullmarks on one real kube-apiserver, under field managers of their own: neither touches what the other one applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from local.cloud.embedded import Cloud
from shared import telemetry, wiring
from shared.domain.documents.reading import Source
from shared.domain.nodes import LONGEST_OWNER, Node, Owner
from shared.messages import RelabelRequest
from shared.world import Settings
from tests.kube_apiserver import Fleet as RealNodes
from tests.kube_apiserver import KubeApiserver
from tests.stories.fleet import a_policy

pytestmark = pytest.mark.real
FOREIGN = {"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows", "hand.made/note": "keep"}
OWNERS = (Owner(), Owner("team b/ops"))


@pytest.fixture
def nodes(real_fleet: RealNodes) -> Iterator[RealNodes]:
    telemetry.write_to(None)
    real_fleet.create("n1", FOREIGN, manager="kubelet")
    yield real_fleet
    wiring.install(None)


def hullmark(kube: KubeApiserver, owner: Owner) -> Cloud:
    return Cloud(Settings(store="memory:", cluster=f"kubeconfig:{kube.kubeconfig()}", owner=owner.name))


def relabels(cloud: Cloud, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, str]:
    """Commit one policy for every node, where one is given, and relabel the site; what became of each node."""
    wiring.install(cloud.world)
    now = cloud.world.clock()
    if labels is not None:
        cloud.world.revisions.stage("site", [Source("p.yaml", yaml.safe_dump(a_policy("p", {}, labels, **spec)).encode())], "me", now)
        cloud.world.revisions.commit("me", now)
    action = f"01ARZ3NDEKTSV4RRFFQ69G5{len(cloud.world.actions.ids()):03}"
    cloud.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, name="update_site", accept_removals=1).outgoing()])
    cloud.drain()
    ended = cloud.world.actions.outcome(action)
    assert ended is not None
    return dict.fromkeys(ended.unchanged, "unchanged") | {told.subject: told.outcome for told in ended.outcomes}


def live(cloud: Cloud) -> Node:
    node = cloud.world.cluster("default", None).node("n1")
    assert node is not None
    return node


def test_each_sets_and_takes_away_its_own_labels_and_no_others(kube: KubeApiserver, nodes: RealNodes) -> None:
    a, b = (hullmark(kube, owner) for owner in OWNERS)
    assert relabels(a, {"rack": "r1", "row": "1"}) == {"n1": "changed"}
    assert relabels(b, {"pool": "gpu", "row": "1"}) == {"n1": "changed"}
    assert (relabels(a), relabels(b)) == ({"n1": "unchanged"}, {"n1": "unchanged"})
    node = live(a)
    same = FOREIGN | {"beta.kubernetes.io/os": "linux"}
    assert node.labels == same | {"rack": "r1", "row": "1", "pool": "gpu"}
    assert [node.applied[owner.name] for owner in OWNERS] == [{"rack", "row"}, {"pool", "row"}]
    assert node.applied[OWNERS[0].aliases] == {"beta.kubernetes.io/os"}

    relabels(a, {})
    assert live(a).labels == same | {"row": "1", "pool": "gpu"}
    relabels(b, {})
    assert live(a).labels == same


def test_what_the_other_one_holds_is_a_conflict(kube: KubeApiserver, nodes: RealNodes) -> None:
    a, b = (hullmark(kube, owner) for owner in OWNERS)
    relabels(a, {"rack": "a"})
    assert relabels(b, {"rack": "b", "pool": "x"}, onConflict="skip") == {"n1": "changed"}
    assert relabels(b, {"rack": "b"}, onConflict="fail") == {"n1": "failed"}
    assert live(a).labels["rack"] == "a"


@pytest.mark.parametrize("name", ["x" * LONGEST_OWNER, "ü" * (LONGEST_OWNER // 2), "team b/ops \U0001f6a2"])
def test_the_api_server_takes_every_name_that_settings_take(kube: KubeApiserver, nodes: RealNodes, name: str) -> None:
    owner = Owner(name)
    cloud = hullmark(kube, owner)
    assert relabels(cloud, {"rack": "r1"}) == {"n1": "changed"}
    assert live(cloud).applied == {owner.name: {"rack"}, owner.aliases: {"beta.kubernetes.io/os"}}
    assert relabels(cloud, {"rack": "r2"}, onConflict="fail") == {"n1": "changed"}


def test_two_stores_under_one_name_keep_each_others_labels_until_one_of_them_adopts(kube: KubeApiserver, nodes: RealNodes) -> None:
    a, b = (hullmark(kube, Owner()) for _ in range(2))
    assert relabels(a, {"rack": "r1"}) == {"n1": "changed"}
    assert relabels(b, {"pool": "gpu"}) == {"n1": "changed"}
    assert relabels(a, {"rack": "r2"}) == {"n1": "changed"}
    assert relabels(b) == {"n1": "skipped"}, "it says what it leaves alone"
    node = live(a)
    assert {key: node.labels[key] for key in ("rack", "pool")} == {"rack": "r2", "pool": "gpu"}
    assert node.applied["hullmark"] == {"rack", "pool"}

    wiring.install(b.world)
    adopting = RelabelRequest(action="01ARZ3NDEKTSV4RRFFQ69G5FZZ", name="update_site", adopt=True, accept_removals=1)
    b.publish(RelabelRequest.TOPIC, [adopting.outgoing()])
    b.drain()
    assert live(b).applied["hullmark"] == {"pool"}
    assert "rack" not in live(b).labels
