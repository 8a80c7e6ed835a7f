"""Rollouts on the nodes of a real kube-apiserver: a canary whose node goes NotReady takes itself back, a healthy one reaches every node."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shared import telemetry, wiring
from shared.adapters.kubernetes import Kubernetes
from shared.domain.names import REJECTED, SITE_ACTION_SUCCESS
from tests.kube_apiserver import Fleet as RealNodes
from tests.rollouts.rolling import CANARY, HALF, Rolling, a_rollout
from tests.stories.fleet import a_policy

pytestmark = pytest.mark.real


@pytest.fixture
def fleet(real_cluster: Kubernetes, real_fleet: RealNodes) -> Iterator[Rolling]:
    """Ten Ready nodes, to which revision 1 is released."""
    telemetry.write_to(None)
    fleet = Rolling()
    fleet.world.open_cluster = lambda _access, _name: real_cluster
    fleet.cluster = real_cluster  # type: ignore[assignment]
    for number in range(10):
        real_fleet.create(f"n{number}", {"zone": "a"}, ready=True)
    fleet.commits(a_policy("tiers", {}, {"tier": "old"}))
    fleet.relabels()
    assert set(fleet.tiers().values()) == {"old"}
    yield fleet
    wiring.install(None)


def test_a_canary_whose_node_goes_not_ready_takes_itself_back_with_every_label_and_holder_as_before(
    fleet: Rolling, real_fleet: RealNodes
) -> None:
    before = {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()}
    fleet.commits(a_policy("tiers", {}, {"tier": "new", "lane": "fast"}), a_rollout(CANARY, HALF, onStop="revert"), adopted=False)
    fleet.starts()
    assert fleet.new() == ["n0"]
    real_fleet.set_ready("n0", False)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "NodesNotReady")
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("reverted", "NodesNotReady")
    assert {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()} == before
    assert REJECTED in fleet.world.revisions.tags(2)


CNI = "kube-system/cni"
ALL_OF_IT = {"nodesReady": True, "daemonSets": True, "unschedulablePods": True}


def a_canary_with_pods(fleet: Rolling, real_fleet: RealNodes) -> None:
    """A canary, n0, soaks, in a cluster with a DaemonSet on every node and two pods that no node was found for."""
    for number in range(10):
        real_fleet.set_daemon_set(f"n{number}", CNI, True)
    real_fleet.set_daemon_set("n1", "default/logs", False)
    real_fleet.set_unschedulable("default", 2)
    rollout = a_rollout(CANARY, HALF, onStop="revert", health=ALL_OF_IT)
    fleet.commits(a_policy("tiers", {}, {"tier": "new", "lane": "fast"}), rollout, adopted=False)
    fleet.starts()
    assert (fleet.new(), fleet.status.reason) == (["n0"], "Soaking")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda there: there.set_daemon_set("n0", CNI, False), "DaemonSetsUnavailable"),
        (lambda there: there.delete_pods("kube-system", "spec.nodeName=n0"), "DaemonSetsUnavailable"),
        (lambda there: there.set_unschedulable("default", 3), "PodsUnschedulable"),
    ],
    ids=["a pod that is not ready", "a pod that is gone", "pods that can not be scheduled"],
)
def test_a_canary_that_harms_pods_takes_itself_back_with_every_label_and_holder_as_before(
    fleet: Rolling, real_fleet: RealNodes, harm: Callable[[RealNodes], None], reason: str
) -> None:
    before = {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()}
    a_canary_with_pods(fleet, real_fleet)
    harm(real_fleet)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", reason)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("reverted", reason)
    assert {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()} == before
    assert REJECTED in fleet.world.revisions.tags(2)


def test_a_canary_goes_on_where_pods_elsewhere_fail_and_none_are_worse_than_before(fleet: Rolling, real_fleet: RealNodes) -> None:
    a_canary_with_pods(fleet, real_fleet)
    real_fleet.set_daemon_set("n7", CNI, False)
    real_fleet.set_unschedulable("default", 1)
    fleet.later(minutes=5)
    fleet.later(minutes=5)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "AwaitingApproval")


def test_a_healthy_rollout_goes_through_three_stages_with_an_approval(fleet: Rolling) -> None:
    fleet.commits(a_policy("tiers", {}, {"tier": "new", "lane": "fast"}), a_rollout(CANARY, HALF), adopted=False)
    fleet.starts()
    fleet.later(minutes=10)
    assert (fleet.new(), fleet.status.reason) == (["n0"], "AwaitingApproval")
    fleet.says("approve", "half")
    assert fleet.status.phase == "done"
    assert set(fleet.tiers().values()) == {"new"}
    assert [stage.state for stage in fleet.status.stages] == ["through", "through", "through"]
    assert SITE_ACTION_SUCCESS in fleet.world.revisions.tags(2)
