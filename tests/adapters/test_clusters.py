"""What `shared.ports.Cluster` promises, held by the real API server and by the simulated one alike."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.adapters.kubernetes import Kubernetes
from shared.adapters.simulated import GROUP, Simulated
from shared.adapters.store import open_store
from shared.domain.nodes import Node
from shared.ports import Cluster, Conflict, LastWrites, NodeGone, ObjectStore, Readiness, Refused, Stale, StoreError, Unavailable, Workloads


class Others(Protocol):
    """What other people and controllers do to a cluster."""

    def create(self, name: str, labels: Mapping[str, str] | None = None, manager: str = "kubelet", *, ready: bool | None = None) -> str: ...
    def delete(self, name: str) -> None: ...
    def set_labels(self, name: str, labels: Mapping[str, str | None], manager: str = "kubectl-label") -> None: ...
    def apply(self, name: str, labels: Mapping[str, str], manager: str) -> None: ...
    def forget_managers(self, name: str) -> None: ...
    def set_daemon_set(self, name: str, daemon_set: str, available: bool) -> None: ...
    def set_unschedulable(self, namespace: str, count: int) -> None: ...
    def set_ready(self, name: str, ready: bool) -> None: ...
    def ready(self, name: str) -> bool | None: ...


@dataclass
class World:
    cluster: Cluster
    others: Others

    def labels(self, name: str) -> dict[str, str]:
        node = self.cluster.node(name)
        assert node is not None
        return dict(node.labels)


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "real":
        return World(request.getfixturevalue("real_cluster"), request.getfixturevalue("real_fleet"))
    simulated = Simulated(open_store("memory:"))
    return World(simulated, simulated)


# -- reading


def test_a_cluster_without_nodes_lists_none(world: World) -> None:
    assert world.cluster.nodes() == []
    assert world.cluster.node("n1") is None


@pytest.mark.parametrize("name", ["", ".", "..", "../n1", "n1/status", "n1?x=y", "N1", "n1\n", "é", "n" * 254])
def test_what_cannot_be_a_nodes_name_names_no_node(world: World, name: str) -> None:
    world.others.create("n1", {})
    assert world.cluster.node(name) is None


def test_a_node_says_when_each_manager_last_wrote(world: World) -> None:
    assert isinstance(world.cluster, LastWrites)
    begun = datetime.now(UTC).replace(microsecond=0)
    uid = world.others.create("n1", {"zone": "a"}, manager="kubelet")
    world.others.set_labels("n1", {"team": "x"}, "a-colleague")
    world.cluster.apply_labels("n1", uid, {"rack": "r1"})
    first = world.cluster.last_writes("n1")
    assert set(first) == {"kubelet", "a-colleague", "hullmark"}
    assert all(begun <= at <= datetime.now(UTC) for at in first.values())

    world.cluster.apply_labels("n1", uid, {"rack": "r1"})
    assert world.cluster.last_writes("n1") == first, "what changes nothing is no write"
    world.others.set_labels("n1", {"team": "y"}, "a-colleague")
    world.others.set_labels("n1", {"zone": "b"}, "a-colleague")
    after = world.cluster.last_writes("n1")
    assert after["a-colleague"] >= first["a-colleague"]
    assert after["hullmark"] == first["hullmark"]
    assert after.get("kubelet", first["kubelet"]) == first["kubelet"], "whose key is taken wrote nothing"
    assert world.cluster.last_writes("n2") == {}
    assert world.cluster.last_writes("../n1") == {}


def test_whose_label_was_taken_wrote_nothing() -> None:
    moments = iter(datetime(2026, 11, day, tzinfo=UTC) for day in (20, 21, 22))
    cluster = Simulated(open_store("memory:"), clock=lambda: next(moments))
    cluster.create("n1", {"zone": "a", "arch": "x"}, "kubelet")
    cluster.set_labels("n1", {"zone": "b"}, "a-colleague")
    cluster.set_labels("n1", {"team": "x"}, "another")
    assert {manager: at.day for manager, at in cluster.last_writes("n1").items()} == {"kubelet": 20, "a-colleague": 21, "another": 22}


def test_a_node_is_read_with_its_labels_and_their_owners(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a"}, manager="kubelet")
    world.cluster.apply_labels("n1", uid, {"rack": "r1"})

    node = world.cluster.node("n1")

    assert node is not None
    assert (node.name, node.uid, node.labels) == ("n1", uid, {"zone": "a", "rack": "r1"})
    assert node.owners == {"zone": ("kubelet",), "rack": ("hullmark",)}
    assert node.applied == {"hullmark": {"rack"}}


def test_a_listing_shows_the_same_as_reading_each_node(world: World) -> None:
    for name in ("n1", "n2", "n3"):
        world.others.create(name, {"zone": name})
    world.others.delete("n2")

    listed = sorted(world.cluster.nodes(), key=lambda node: node.name)

    assert listed == [world.cluster.node("n1"), world.cluster.node("n3")]


def test_a_node_is_ready_is_not_or_reports_no_such_condition(world: World) -> None:
    assert isinstance(world.cluster, Readiness)
    assert world.cluster.readiness() == {}
    world.others.create("n1", ready=True)
    world.others.create("n2", ready=False)
    world.others.create("n3")
    world.others.create("gone", ready=True)
    world.others.delete("gone")
    assert world.cluster.readiness() == {"n1": True, "n2": False, "n3": None}
    world.others.set_ready("n1", False)
    world.others.set_ready("n3", True)
    assert world.cluster.readiness() == {"n1": False, "n2": False, "n3": True}


def test_a_daemon_set_has_an_available_pod_on_a_node_or_has_none(world: World) -> None:
    assert isinstance(world.cluster, Workloads)
    assert world.cluster.daemon_sets(["n1"]) == {}
    for name in ("n1", "n2", "n3"):
        world.others.create(name, ready=True)
        world.others.set_daemon_set(name, "kube-system/cni", name != "n2")
    world.others.set_daemon_set("n1", "default/logs", True)
    assert world.cluster.daemon_sets(["n1", "n2", "gone"]) == {"kube-system/cni": {"n1"}, "default/logs": {"n1"}}
    world.others.set_daemon_set("n1", "kube-system/cni", False)
    assert world.cluster.daemon_sets(["n1", "n3"]) == {"kube-system/cni": {"n3"}, "default/logs": {"n1"}}


def test_the_pods_that_no_node_was_found_for_are_counted_by_namespace(world: World) -> None:
    assert isinstance(world.cluster, Workloads)
    assert world.cluster.unschedulable() == {}
    world.others.set_unschedulable("default", 3)
    world.others.set_unschedulable("kube-system", 1)
    assert world.cluster.unschedulable() == {"default": 3, "kube-system": 1}
    world.others.set_unschedulable("default", 0)
    assert world.cluster.unschedulable() == {"kube-system": 1}


# -- applying


def test_what_was_applied_before_and_is_no_longer_declared_goes(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a"})
    world.cluster.apply_labels("n1", uid, {"rack": "r1", "row": "7"})

    answer = world.cluster.apply_labels("n1", uid, {"rack": "r2"})

    assert answer.labels == {"zone": "a", "rack": "r2"} == world.labels("n1")
    assert answer == world.cluster.node("n1")


def test_an_empty_declared_set_removes_all_of_ours_and_nothing_else(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a"})
    world.cluster.apply_labels("n1", uid, {"rack": "r1"})

    answer = world.cluster.apply_labels("n1", uid, {})

    assert answer.labels == {"zone": "a"}
    assert answer.applied == {}


def test_applying_the_same_again_writes_nothing(world: World) -> None:
    uid = world.others.create("n1")
    first = world.cluster.apply_labels("n1", uid, {"rack": "r1"})
    assert world.cluster.apply_labels("n1", uid, {"rack": "r1"}).resource_version == first.resource_version


def test_two_managers_of_ours_keep_apart(world: World) -> None:
    uid = world.others.create("n1")
    world.cluster.apply_labels("n1", uid, {"rack": "r1"})
    world.cluster.apply_labels("n1", uid, {"alias": "x"}, manager="hullmark-aliases")

    node = world.cluster.apply_labels("n1", uid, {})

    assert node.labels == {"alias": "x"}
    assert node.applied == {"hullmark-aliases": {"alias"}}


def test_applying_to_an_absent_node_creates_none(world: World) -> None:
    with pytest.raises(NodeGone, match="n1"):
        world.cluster.apply_labels("n1", "6a1a1c30-9f1f-4a3c-8d57-0f6f7a3d1c11", {"rack": "r1"})
    with pytest.raises(NodeGone):
        world.cluster.apply_labels("n1", "", {"rack": "r1"})
    assert world.cluster.nodes() == []


def test_a_node_recreated_under_its_name_is_another_node(world: World) -> None:
    old = world.others.create("n1")
    world.others.delete("n1")
    new = world.others.create("n1")

    with pytest.raises(NodeGone):
        world.cluster.apply_labels("n1", old, {"rack": "r1"})

    assert old != new
    assert world.labels("n1") == {}


def test_a_key_that_others_hold_with_the_same_value_is_shared_and_stays_when_we_drop_it(world: World) -> None:
    uid = world.others.create("n1")
    world.others.apply("n1", {"rack": "r1"}, manager="argocd")
    shared = world.cluster.apply_labels("n1", uid, {"rack": "r1"}, force=False)
    assert shared.owners == {"rack": ("argocd", "hullmark")}

    assert world.cluster.apply_labels("n1", uid, {}).labels == {"rack": "r1"}


def test_force_takes_a_key_over_from_appliers_and_updaters_alike(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a"})
    world.others.apply("n1", {"rack": "theirs"}, manager="argocd")

    node = world.cluster.apply_labels("n1", uid, {"rack": "ours", "zone": "b"}, force=True)

    assert node.labels == {"rack": "ours", "zone": "b"}
    assert node.owners == {"rack": ("hullmark",), "zone": ("hullmark",)}


def test_without_force_each_key_in_conflict_names_who_holds_it_and_nothing_is_written(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a", "topology.example.com/row.no": "1"})
    world.others.apply("n1", {"rack": "theirs"}, manager="argocd")
    world.others.set_labels("n1", {"team": "x"}, manager='odd "name"')

    with pytest.raises(Conflict) as refused:
        world.cluster.apply_labels(
            "n1", uid, {"rack": "r", "zone": "b", "topology.example.com/row.no": "2", "team": "y", "new": "1"}, force=False
        )

    assert refused.value.managers == {
        "rack": "argocd",
        "zone": "kubelet",
        "topology.example.com/row.no": "kubelet",
        "team": 'odd "name"',
    }
    assert world.labels("n1") == {"zone": "a", "topology.example.com/row.no": "1", "rack": "theirs", "team": "x"}


def test_several_holders_of_one_key_are_all_named(world: World) -> None:
    uid = world.others.create("n1")
    world.others.apply("n1", {"rack": "r1"}, manager="flux")
    world.others.apply("n1", {"rack": "r1"}, manager="argocd")

    with pytest.raises(Conflict) as refused:
        world.cluster.apply_labels("n1", uid, {"rack": "r2"}, force=False)

    assert refused.value.managers == {"rack": "argocd, flux"}


def test_a_key_taken_from_us_is_no_longer_ours_to_remove(world: World) -> None:
    uid = world.others.create("n1")
    world.cluster.apply_labels("n1", uid, {"rack": "r1"})
    world.others.set_labels("n1", {"rack": "theirs"})

    node = world.cluster.apply_labels("n1", uid, {})

    assert node.labels == {"rack": "theirs"}
    assert node.owners == {"rack": ("kubectl-label",)}


def test_an_object_without_managers_belongs_to_whoever_was_before_us(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a", "rack": "r1"})
    world.others.forget_managers("n1")

    with pytest.raises(Conflict) as refused:
        world.cluster.apply_labels("n1", uid, {"rack": "r2"}, force=False)
    node = world.cluster.apply_labels("n1", uid, {"rack": "r1"})

    assert refused.value.managers == {"rack": "before-first-apply"}
    assert node.owners == {"zone": ("before-first-apply",), "rack": ("before-first-apply", "hullmark")}


@pytest.mark.parametrize(("key", "value"), [("bad key", "x"), ("a/b/c", "x"), ("rack", "no spaces"), ("rack", "x" * 64)])
def test_an_invalid_label_is_refused_and_nothing_is_written(world: World, key: str, value: str) -> None:
    uid = world.others.create("n1", {"zone": "a"})
    with pytest.raises(Refused) as refused:
        world.cluster.apply_labels("n1", uid, {key: value, "rack2": "r"})
    assert refused.value.reason == "Invalid"
    assert len(str(refused.value)) < 500
    assert world.labels("n1") == {"zone": "a"}


# -- removing


def test_remove_labels_takes_keys_whoever_owns_them(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a", "keep": "1"})
    node = world.cluster.apply_labels("n1", uid, {"rack": "r1"})

    after = world.cluster.remove_labels("n1", ["zone", "rack", "absent"], resource_version=node.resource_version)

    assert after.labels == {"keep": "1"}
    assert after.owners == {"keep": ("kubelet",)}
    assert after.resource_version != node.resource_version


def test_remove_labels_on_a_node_that_changed_since_is_stale_and_removes_nothing(world: World) -> None:
    world.others.create("n1", {"zone": "a"})
    seen = world.cluster.node("n1")
    assert seen is not None
    world.others.set_labels("n1", {"team": "x"})

    with pytest.raises(Stale):
        world.cluster.remove_labels("n1", ["zone"], resource_version=seen.resource_version)

    assert world.labels("n1") == {"zone": "a", "team": "x"}


def test_remove_labels_on_a_recreated_node_is_stale_and_on_an_absent_one_gone(world: World) -> None:
    world.others.create("n1", {"zone": "a"})
    seen = world.cluster.node("n1")
    assert seen is not None
    world.others.delete("n1")
    with pytest.raises(NodeGone):
        world.cluster.remove_labels("n1", ["zone"], resource_version=seen.resource_version)
    world.others.create("n1", {"zone": "a"})
    with pytest.raises(Stale):
        world.cluster.remove_labels("n1", ["zone"], resource_version=seen.resource_version)
    assert world.labels("n1") == {"zone": "a"}


def test_a_value_that_is_written_back_under_another_manager_outlives_our_apply_without_it(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a", "pool": "x"})
    mine = world.cluster.apply_labels("n1", uid, {"zone": "b", "rack": "r1"})

    world.cluster.patch_labels("n1", {"zone": "a"}, resource_version=mine.resource_version, manager="hullmark-revert")
    after = world.cluster.apply_labels("n1", uid, {"rack": "r1"})

    assert after.labels == {"zone": "a", "pool": "x", "rack": "r1"}
    assert after.owners == {"zone": ("hullmark-revert",), "pool": ("kubelet",), "rack": ("hullmark",)}
    with pytest.raises(Stale):
        world.cluster.patch_labels("n1", {"zone": "c"}, resource_version=mine.resource_version, manager="hullmark-revert")


def test_a_value_that_is_there_already_changes_no_holder_when_it_is_written_back(world: World) -> None:
    uid = world.others.create("n1", {})
    mine = world.cluster.apply_labels("n1", uid, {"zone": "a"})

    world.cluster.patch_labels("n1", {"zone": "a"}, resource_version=mine.resource_version, manager="hullmark-revert")

    assert world.cluster.apply_labels("n1", uid, {}).labels == {}


def test_remove_labels_of_no_keys_keeps_every_label(world: World) -> None:
    world.others.create("n1", {"zone": "a"})
    seen = world.cluster.node("n1")
    assert seen is not None
    assert world.cluster.remove_labels("n1", [], resource_version=seen.resource_version) == seen


# -- what others do


@pytest.mark.parametrize(
    ("labels", "manager"),
    [
        ({"bad key": "x"}, "kubectl-label"),
        ({"rack": "no spaces"}, "kubectl-label"),
        ({"rack": "x" * 64}, "kubectl-label"),
        ({"rack": "r1"}, "m" * 129),
        ({"rack": "r1"}, "bell\a"),
    ],
)
def test_what_the_api_server_refuses_of_others_is_refused_and_nothing_is_written(
    world: World, labels: dict[str, str], manager: str
) -> None:
    world.others.create("n1", {"zone": "a"})
    for write in (world.others.set_labels, world.others.apply):
        with pytest.raises(Refused) as refused:
            write("n1", labels, manager=manager)
        assert refused.value.reason in ("Invalid", "BadRequest")
    assert world.labels("n1") == {"zone": "a"}


@pytest.mark.parametrize("name", ["N1", "n_1", "n" * 254])
def test_a_node_whose_name_is_none_is_not_registered(world: World, name: str) -> None:
    with pytest.raises(Refused) as refused:
        world.others.create(name)
    assert refused.value.reason == "Invalid"
    assert world.cluster.nodes() == []


def test_what_others_do_to_a_node_that_is_not_there_is_an_error(world: World) -> None:
    with pytest.raises(NodeGone):
        world.others.set_labels("n1", {"rack": "r1"})
    with pytest.raises(NodeGone):
        world.others.set_ready("n1", True)
    with pytest.raises(NodeGone):
        world.others.delete("n1")
    world.others.create("n1")
    with pytest.raises(Refused) as refused:
        world.others.create("n1")
    assert refused.value.reason == "AlreadyExists"


def test_removing_a_label_that_is_not_there_changes_nothing(world: World) -> None:
    world.others.create("n1", {"zone": "a"})
    before = world.cluster.node("n1")
    world.others.set_labels("n1", {"absent": None, "zone": "a"})
    assert world.cluster.node("n1") == before


def test_a_nodes_ready_condition_is_what_its_kubelet_said_last(world: World) -> None:
    world.others.create("silent")
    world.others.create("n1", ready=True)
    assert (world.others.ready("silent"), world.others.ready("n1"), world.others.ready("absent")) == (None, True, None)

    world.others.set_ready("n1", False)

    assert world.others.ready("n1") is False
    world.others.delete("n1")
    world.others.create("n1")
    assert world.others.ready("n1") is None


def test_a_ready_condition_moves_the_nodes_version_and_leaves_labels_and_owners_alone(world: World) -> None:
    uid = world.others.create("n1", {"zone": "a"})
    before = world.cluster.apply_labels("n1", uid, {"rack": "r1"})

    world.others.set_ready("n1", True)
    after = world.cluster.node("n1")
    world.others.set_ready("n1", True)

    assert after is not None
    assert (after.labels, after.owners, after.applied) == (before.labels, before.owners, before.applied)
    assert after.resource_version != before.resource_version
    assert world.cluster.node("n1") == after
    with pytest.raises(Stale):
        world.cluster.remove_labels("n1", ["zone"], resource_version=before.resource_version)


# -- many at a time


def test_spread_keeps_the_order_and_does_each_item_once(world: World) -> None:
    uids = {f"n{i}": world.others.create(f"n{i}") for i in range(30)}

    answers = world.cluster.spread(lambda name: world.cluster.apply_labels(name, uids[name], {"rack": name}), list(uids))

    assert [node.name for node in answers] == list(uids)
    assert {node.name: node.labels for node in world.cluster.nodes()} == {name: {"rack": name} for name in uids}


def test_spread_raises_what_the_work_raises(world: World) -> None:
    def work(number: int) -> int:
        if number == 3:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError):
        world.cluster.spread(work, range(6))
    assert world.cluster.spread(work, []) == []


# -- ownership at random

KEYS = ["rack", "row", "zone", "example.com/team"]
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2", ""]), max_size=4)
UPDATES = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2", "", None]), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.sampled_from(["kubelet", "kubectl-label"]), UPDATES),
        st.tuples(st.just("apply"), st.sampled_from(["argocd", "flux"]), LABELS),
        st.tuples(st.just("ours"), st.sampled_from(["force", "ask"]), LABELS),
    ),
    max_size=6,
)
_numbers = itertools.count()
Steps = list[tuple[str, str, dict[str, str]]]


def _play(world: World, name: str, start: Mapping[str, str], steps: Steps) -> tuple[Node, list[object]]:
    """The node after these steps, and what each of ours answered.

    One label stays throughout, as on every node that a kubelet registered: on a real server the map itself has owners too, and they
    stand in the way of whoever fills it again after it was empty.
    """
    uid = world.others.create(name, {"kubernetes.io/hostname": name, **start})
    answers: list[object] = []
    for kind, who, labels in steps:
        if kind == "update":
            world.others.set_labels(name, labels, manager=who)
        elif kind == "apply":
            world.others.apply(name, labels, manager=who)
        else:
            try:
                answers.append(dict(world.cluster.apply_labels(name, uid, labels, force=who == "force").labels))
            except Conflict as conflict:
                answers.append(conflict.managers)
    node = world.cluster.node(name)
    assert node is not None
    return node, answers


def _foreign_labels_survive(world: World, start: Mapping[str, str], steps: Steps, ours: Mapping[str, str]) -> None:
    """Whatever happened before: an apply of ours changes no key that it doesn't name, unless we alone held it."""
    name = f"random-{next(_numbers)}"
    before, _ = _play(world, name, start, steps)

    after = world.cluster.apply_labels(name, before.uid, ours)

    foreign = {key: value for key, value in before.labels.items() if key not in ours and before.owners.get(key, ()) != ("hullmark",)}
    assert foreign.items() <= after.labels.items()
    assert dict(after.labels) == {**foreign, **ours}
    again = world.cluster.apply_labels(name, before.uid, {})
    assert {key: again.labels.get(key) for key in foreign} == foreign


@settings(max_examples=200, deadline=None)
@given(start=LABELS, steps=STEPS, ours=LABELS)
def test_foreign_labels_survive_in_the_simulated_cluster(start: dict[str, str], steps: Steps, ours: dict[str, str]) -> None:
    simulated = Simulated(open_store("memory:"))
    _foreign_labels_survive(World(simulated, simulated), start, steps, ours)


@pytest.mark.real
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=LABELS, steps=STEPS, ours=LABELS)
def test_foreign_labels_survive_in_a_real_cluster(
    real_cluster: Kubernetes, real_fleet: Others, start: dict[str, str], steps: Steps, ours: dict[str, str]
) -> None:
    _foreign_labels_survive(World(real_cluster, real_fleet), start, steps, ours)


@pytest.mark.real
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=LABELS, steps=STEPS)
def test_the_simulated_cluster_does_what_the_real_one_does(
    real_cluster: Kubernetes, real_fleet: Others, start: dict[str, str], steps: Steps
) -> None:
    simulated = Simulated(open_store("memory:"))
    name = f"twin-{next(_numbers)}"

    real, real_answers = _play(World(real_cluster, real_fleet), name, start, steps)
    copy, copied_answers = _play(World(simulated, simulated), name, start, steps)

    assert copied_answers == real_answers
    assert (copy.labels, copy.owners, copy.applied) == (real.labels, real.owners, real.applied)


# -- one writer beside another, on one store


@pytest.mark.parametrize("url", ["memory:", "file"])
def test_writers_in_several_processes_lose_nothing(url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = open_store(url if url == "memory:" else f"file:{tmp_path_factory.mktemp('store')}")
    clusters = [Simulated(store) for _ in range(4)]
    uid = clusters[0].create("n1")

    def write(number: int) -> None:
        for turn in range(10):
            clusters[number].set_labels("n1", {f"w{number}-{turn}": "1"}, manager=f"m{number}")
            clusters[number].apply_labels("n1", uid, {f"a{number}": str(turn)}, manager=f"applier{number}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    node = Simulated(store).node("n1")
    assert node is not None
    assert node.labels == {f"w{n}-{t}": "1" for n in range(4) for t in range(10)} | {f"a{n}": "9" for n in range(4)}


def test_a_writer_that_read_long_ago_does_not_slip_its_version_under_newer_ones() -> None:
    store = open_store("memory:")
    fast, slow = Simulated(store), Simulated(store)
    uid = fast.create("n1")
    turns = iter(range(3 * GROUP))

    def others_write_many_times() -> None:
        for turn in turns:
            fast.set_labels("n1", {"fast": str(turn)})

    slow.interrupt = others_write_many_times

    slow.apply_labels("n1", uid, {"slow": "1"})

    node = fast.node("n1")
    assert node is not None
    assert node.labels == {"fast": str(3 * GROUP - 1), "slow": "1"}
    assert len(store.keys("clusters/default/nodes/n1/")) <= 2 * GROUP


class Busy:
    """A store whose listings show the least that a folder's may show while others write: what is there from beginning to end.
    `meanwhile` is what the others do during a listing.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.meanwhile: Callable[[], None] = lambda: None

    def keys(self, prefix: str, after: str = "") -> list[str]:
        before = self._store.keys(prefix, after)
        self.meanwhile()
        there = set(self._store.keys(prefix, after))
        return [key for key in before if key in there]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def a_busy_node(writes: int) -> tuple[Simulated, Simulated]:
    """A seeded node that others change so many times during each of three listings: whoever lists it, and the others."""
    store = open_store("memory:")
    others = Simulated(store, seed=lambda: [Node("n1", "u1", {"zone": "a"})])
    others.set_labels("n1", {"count": "0"})
    busy, listings, counts = Busy(store), iter(range(3)), itertools.count(1)

    def meanwhile() -> None:
        if next(listings, None) is not None:
            for _ in range(writes):
                others.set_labels("n1", {"count": str(next(counts))})

    busy.meanwhile = meanwhile
    return Simulated(cast("ObjectStore", busy)), others


WRITES = pytest.mark.parametrize("writes", [1, GROUP - 1, GROUP, 2 * GROUP + 1, 5 * GROUP])


@WRITES
def test_a_node_that_is_replaced_while_it_is_listed_is_never_older_than_when_the_listing_began(writes: int) -> None:
    reader, others = a_busy_node(writes)
    assert ["count" in node.labels for node in reader.nodes()] == [True]
    for _ in range(3):
        known, seen = others.node("n1"), reader.node("n1")
        assert known is not None
        assert seen is not None
        assert int(seen.labels["count"]) >= int(known.labels["count"])


@WRITES
def test_a_writer_loses_nothing_of_what_others_write_during_its_listings(writes: int) -> None:
    writer, others = a_busy_node(writes)
    writer.set_labels("n1", {"mine": "1"})
    node = others.node("n1")
    assert node is not None
    count = int(node.labels["count"])
    assert (node.labels, count >= writes, count % writes) == ({"zone": "a", "count": str(count), "mine": "1"}, True, 0)


@pytest.mark.parametrize("behind", [1, GROUP, 3 * GROUP])
@pytest.mark.parametrize("breaks_off", [False, True])
def test_a_version_that_was_removed_is_not_made_again(behind: int, breaks_off: bool) -> None:
    """The slow writer creates its version when others have left it behind and removed it; breaking off there, it leaves it in the store."""
    store = open_store("memory:")
    fast, slow = Simulated(store), Simulated(store)
    fast.create("n1")
    version, state = slow._newest("n1")
    assert state is not None
    for turn in range(behind):
        fast.set_labels("n1", {"fast": str(turn)})
    if breaks_off:
        store.create(slow._key("n1", version + 1), store.get(slow._key("n1", version)) or b'{"uid": "u", "labels": {"slow": "1"}}')
    else:
        assert not slow._write("n1", version, state)
    for reader in (Simulated(store), fast, slow):
        node = reader.node("n1")
        assert node is not None
        assert (node.labels, [each.labels for each in reader.nodes()]) == ({"fast": str(behind - 1)}, [{"fast": str(behind - 1)}])
    slow.set_labels("n1", {"slow": "1"})
    assert [node.labels for node in fast.nodes()] == [{"fast": str(behind - 1), "slow": "1"}]


@pytest.mark.parametrize("broken_at", range(1, 40))
def test_a_writer_that_breaks_off_anywhere_leaves_the_node_whole(broken_at: int) -> None:
    class Breaks:
        """Passes so many writes on to the store, then fails."""

        def __init__(self, store: ObjectStore) -> None:
            self._store, self._left = store, broken_at

        def _next(self, name: str, *args: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise StoreError("power cut")
            return getattr(self._store, name)(*args)

        def __getattr__(self, name: str) -> Any:
            return (lambda *args: self._next(name, *args)) if name in ("create", "delete") else getattr(self._store, name)

    store = open_store("memory:")
    Simulated(store, seed=lambda: [Node("n1", "u1", {"zone": "a"})]).nodes()
    broken, written = Simulated(cast("ObjectStore", Breaks(store))), 0
    with suppress(StoreError):
        while True:
            broken.set_labels("n1", {"count": str(written)})
            written += 1
    node = Simulated(store).node("n1")
    assert node is not None
    assert node.labels.get("count", "-1") in (str(written), str(written - 1))
    healthy = Simulated(store)
    for turn in range(2 * GROUP):
        healthy.set_labels("n1", {"after": str(turn)})
    assert [each.labels["after"] for each in Simulated(store).nodes()] == [str(2 * GROUP - 1)]
    assert len(store.keys("clusters/default/nodes/n1/")) <= 2 * GROUP


def test_a_store_whose_versions_were_removed_says_so() -> None:
    store = open_store("memory:")
    cluster = Simulated(store, seed=lambda: [Node("n1", "u1", {"zone": "a"})])
    for turn in range(2 * GROUP):
        cluster.set_labels("n1", {"turn": str(turn)})
    for key in store.keys("clusters/default/nodes/"):
        store.delete(key)
    with pytest.raises(Unavailable, match="removed"):
        Simulated(store).node("n1")


def test_a_simulated_cluster_is_seeded_once_and_outlives_its_process() -> None:
    store = open_store("memory:")
    seed = [Node("n1", "u1", {"zone": "a"}, owners={"zone": ("kubelet",)}, kubelet_version="v1.30.1"), Node("n2", "", {})]
    first = Simulated(store, seed=lambda: seed, version="v1.30.4")
    first.apply_labels("n1", "u1", {"rack": "r1"})
    first.delete("n2")

    again = Simulated(store, seed=lambda: pytest.fail("seeded twice"))

    assert again.nodes() == [
        Node(
            "n1",
            "u1",
            {"zone": "a", "rack": "r1"},
            "2",
            {"zone": ("kubelet",), "rack": ("hullmark",)},
            {"hullmark": frozenset({"rack"})},
            "v1.30.1",
            may_have_taints=False,
        )
    ]
    assert again.server_version() == "v1.30.4"


def test_a_simulated_cluster_answers_with_the_faults_that_a_test_wants() -> None:
    calls = []

    def before(call: str, node: str) -> None:
        calls.append((call, node))
        if call == "apply_labels":
            raise Refused("Forbidden", "not today")

    cluster = Simulated(open_store("memory:"), before=before)
    uid = cluster.create("n1")
    with pytest.raises(Refused, match="not today"):
        cluster.apply_labels("n1", uid, {"rack": "r1"})
    cluster.nodes()
    assert calls == [("apply_labels", "n1"), ("nodes", "")]


@pytest.mark.real
@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_a_node_whose_kubelet_is_silent_is_not_ready_cordoned_or_not(real_cluster: Kubernetes, real_fleet: Any, status: str) -> None:
    real_fleet.create("n1", ready=True)
    real_fleet.create("n2", ready=True)
    for name in ("n1", "n2"):
        real_fleet.patch(name, {"spec": {"unschedulable": True}})
    body = {"status": {"conditions": [{"type": "Ready", "status": status, "reason": "NodeStatusUnknown"}]}}
    kind = {"Content-Type": "application/strategic-merge-patch+json"}
    real_fleet._request("PATCH", "/api/v1/nodes/n2/status", {"fieldManager": "c"}, json.dumps(body).encode(), kind)
    assert real_cluster.readiness() == {"n1": True, "n2": False}


@pytest.mark.real
def test_readiness_is_listed_page_by_page(real_cluster: Kubernetes, real_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.adapters.kubernetes.PAGE", 2)
    for number in range(5):
        real_fleet.create(f"n{number}", ready=number != 3)
    assert real_cluster.readiness() == {f"n{number}": number != 3 for number in range(5)}
