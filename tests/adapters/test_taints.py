"""How a startup taint is seen and taken off, held by the real API server and by the simulated cluster alike."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from shared.adapters import kubernetes
from shared.adapters.kubernetes import Kubernetes
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.ports import NodeGone, Stale, Taint
from tests.kube_apiserver import Fleet

STARTUP = Taint("hullmark.dev/unlabelled", "NoSchedule")
GPU = Taint("nvidia.com/gpu", "NoSchedule", "true")


@dataclass
class World:
    cluster: Kubernetes | Simulated
    others: Fleet | Simulated

    def taints(self, name: str) -> list[Taint]:
        node = self.cluster.with_taints().node(name)
        assert node is not None
        return list(node.taints or ())


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "real":
        return World(request.getfixturevalue("real_cluster"), request.getfixturevalue("real_fleet"))
    simulated = Simulated(open_store("memory:"))
    return World(simulated, simulated)


def a_node(world: World, *taints: Taint, name: str = "n1") -> str:
    uid = world.others.create(name)
    world.others.set_taints(name, taints)
    world.cluster.apply_labels(name, uid, {"example.com/rack": "r1"})
    return uid


def test_one_taint_goes_and_the_others_stay_in_their_order(world: World) -> None:
    uid = a_node(world, GPU, STARTUP, Taint("a", "NoExecute"))

    assert world.cluster.remove_taint("n1", uid, STARTUP, {"example.com/rack": "r1"})

    assert world.taints("n1") == [GPU, Taint("a", "NoExecute")]


@pytest.mark.parametrize("other", [STARTUP._replace(effect="NoExecute"), STARTUP._replace(value="x"), STARTUP._replace(key="other")])
def test_a_taint_of_another_value_effect_or_key_is_another_one(world: World, other: Taint) -> None:
    uid = a_node(world, other)

    assert not world.cluster.remove_taint("n1", uid, STARTUP, {})

    assert world.taints("n1") == [other]


@pytest.mark.parametrize("labels", [{"example.com/rack": "r2"}, {"example.com/missing": "x"}])
def test_a_taint_does_not_go_from_a_node_without_its_labels(world: World, labels: dict[str, str]) -> None:
    uid = a_node(world, STARTUP)

    with pytest.raises(Stale, match="n1"):
        world.cluster.remove_taint("n1", uid, STARTUP, labels)

    assert world.taints("n1") == [STARTUP]


def test_a_taint_does_not_go_from_a_node_that_was_created_anew(world: World) -> None:
    old = a_node(world, STARTUP)
    world.others.delete("n1")
    a_node(world, STARTUP)

    with pytest.raises(NodeGone):
        world.cluster.remove_taint("n1", old, STARTUP, {})
    with pytest.raises(NodeGone):
        world.cluster.remove_taint("gone", old, STARTUP, {})

    assert world.taints("n1") == [STARTUP]


def test_our_labels_applied_again_leave_everybodys_taints_alone(world: World) -> None:
    uid = a_node(world, STARTUP, GPU)
    world.cluster.remove_taint("n1", uid, STARTUP, {})

    world.cluster.apply_labels("n1", uid, {"example.com/rack": "r2"})
    world.cluster.apply_labels("n1", uid, {})

    assert world.taints("n1") == [GPU]


def test_taints_show_only_where_they_are_asked_for(world: World) -> None:
    a_node(world, STARTUP)
    a_node(world, name="n2")

    shown = {node.name: node for node in world.cluster.with_taints().nodes()}

    assert shown["n1"].taints == (STARTUP,)
    assert not shown["n2"].taints
    assert shown["n1"].may_have_taints
    assert not shown["n2"].may_have_taints


@pytest.mark.real
def test_many_nodes_with_taints_are_read_in_one_listing(
    real_cluster: Kubernetes, real_fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "SINGLY", 1)
    for name in ("n1", "n2", "n3"):
        a_node(World(real_cluster, real_fleet), STARTUP, name=name)

    shown = real_cluster.with_taints().nodes()

    assert [node.taints for node in shown] == [(STARTUP,)] * 3
    assert all(node.created.endswith("Z") and node.applied == {"hullmark": {"example.com/rack"}} for node in shown)


@pytest.mark.real
def test_taints_that_come_and_go_meanwhile_are_neither_lost_nor_brought_back(
    real_cluster: Kubernetes, real_fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = a_node(World(real_cluster, real_fleet), GPU, STARTUP)
    read, changed = real_cluster._taints_of, list[bool]()

    def then_others_write(name: str, uid: str) -> list[dict[str, object]]:
        there = read(name, uid)
        if not changed:
            changed.append(True)
            real_fleet.set_taints("n1", [STARTUP, Taint("new", "NoSchedule")])  # GPU is gone, and the startup taint has moved
        return there

    monkeypatch.setattr(real_cluster, "_taints_of", then_others_write)

    assert real_cluster.remove_taint("n1", uid, STARTUP, {"example.com/rack": "r1"})

    assert World(real_cluster, real_fleet).taints("n1") == [Taint("new", "NoSchedule")]


@pytest.mark.real
def test_a_manager_that_applies_the_taints_is_known(real_cluster: Kubernetes, real_fleet: Fleet) -> None:
    real_fleet.create("n1")
    real_fleet.apply_taints("n1", [STARTUP], "terraform")

    node = real_cluster.node("n1")

    assert node is not None
    assert node.taints_applied_by == ("terraform",)
