"""Startup taints: a node registers with one, and it goes with the labels that its pods are placed by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.api.fleet import look
from functions.api.health import _gauges
from functions.node_event.main import Waiting, handle
from shared import telemetry
from shared.adapters.simulated import Simulated
from shared.domain.labels.bound import BoundPlan
from shared.domain.labels.events import NodeChange
from shared.domain.labels.node_states import NodesRequest, NodeState
from shared.domain.labels.plans import PlanRequest
from shared.ports import Stale, Taint, Unavailable
from shared.work.nodes import node_states
from shared.work.plans import plan_committed
from tests.stories.fleet import START, Fleet, a_policy

STARTUP = Taint("hullmark.dev/unlabelled", "NoSchedule")
GPU = Taint("nvidia.com/gpu", "NoSchedule", "true")
UNTIL = {"until": {"taint": {"key": STARTUP.key, "effect": STARTUP.effect}}}


def commits(fleet: Fleet, *, until: bool = True, adopted: bool = True, value: str = "r1", **spec: Any) -> int:
    """A policy for every node, with the startup taint or without."""
    return fleet.commits(a_policy("gpu", {}, {"rack": value}, **(UNTIL if until else {}), **spec), adopted=adopted)


def registers(fleet: Fleet, name: str, *taints: Taint, age: float = 0) -> None:
    """A kubelet registers a node."""
    created = (fleet.now - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    fleet.cluster.create(name, {}, ready=True, taints=taints or (STARTUP, GPU), created=created)


def event(fleet: Fleet, name: str) -> Any:
    """The event of a node that was added, and all that follows from it."""
    answer = handle(NodeChange(kind="added", cluster="default", name=name), fleet.world, fleet.now)
    fleet.cloud.drain()
    return answer


def taints(fleet: Fleet, name: str) -> tuple[Taint, ...]:
    node = fleet.cluster.with_taints().node(name)
    assert node is not None
    return node.taints or ()


def state(fleet: Fleet, name: str) -> NodeState:
    return node_states(NodesRequest(names=[name]), fleet.world).nodes[name]


@pytest.fixture
def gpus(fleet: Fleet) -> Fleet:
    commits(fleet)
    return fleet


def test_an_event_brings_a_new_nodes_labels_and_takes_its_startup_taint_off(gpus: Fleet) -> None:
    registers(gpus, "n1")

    assert event(gpus, "n1") == "repair"

    assert gpus.labels("n1") == {"rack": "r1"}
    assert taints(gpus, "n1") == (GPU,)
    assert state(gpus, "n1").in_sync


def test_a_relabel_and_a_sweep_do_it_as_well_and_say_so(gpus: Fleet) -> None:
    registers(gpus, "n1")
    first = gpus.relabels()
    registers(gpus, "n2")
    sweep = gpus.relabels(name="drift_sweep")

    assert taints(gpus, "n1") == taints(gpus, "n2") == (GPU,)
    for action, name in ((first, "n1"), (sweep, "n2")):
        told = next(told for told in gpus.ended(action).outcomes if told.subject == name)
        assert told.changes is not None
        assert (told.outcome, told.changes.untaint) == ("changed", [str(STARTUP)])


def test_a_node_that_has_its_labels_and_still_the_taint_loses_the_taint(gpus: Fleet) -> None:
    registers(gpus, "n1", GPU)
    gpus.relabels()
    gpus.cluster.set_taints("n1", [STARTUP, GPU])
    assert (state(gpus, "n1").reason, "startup taint" in state(gpus, "n1").message) == ("Drift", True)

    action = gpus.relabels(name="drift_sweep")

    assert gpus.outcome(action) == {"n1": "changed"}
    assert taints(gpus, "n1") == (GPU,)


def test_labels_are_there_before_the_taint_goes_and_a_crash_between_is_made_good(gpus: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    registers(gpus, "n1")
    crashes = [RuntimeError("the instance is gone")]
    seen: list[dict[str, str]] = []
    remove = Simulated.remove_taint

    def crash_once(self: Simulated, name: str, uid: str, taint: Taint, labels: dict[str, str]) -> bool:
        seen.append(gpus.labels(name))
        if crashes:
            raise crashes.pop()
        return remove(self, name, uid, taint, labels)

    monkeypatch.setattr(Simulated, "remove_taint", crash_once)

    action = gpus.relabels()

    assert seen == [{"rack": "r1"}] * 2
    assert taints(gpus, "n1") == (GPU,)
    assert gpus.outcome(action) == {"n1": "changed"}


def test_a_taint_stays_while_somebody_takes_the_label_away_again(gpus: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    registers(gpus, "n1")
    remove, undone = Simulated.remove_taint, list[bool]()

    def after_an_edit(self: Simulated, name: str, uid: str, taint: Taint, labels: dict[str, str]) -> bool:
        if not undone:
            undone.append(True)
            gpus.cluster.set_labels("n1", {"rack": "theirs"})
        return remove(self, name, uid, taint, labels)

    monkeypatch.setattr(Simulated, "remove_taint", after_an_edit)

    gpus.relabels()

    assert (gpus.labels("n1"), taints(gpus, "n1")) == ({"rack": "r1"}, (GPU,))


def test_an_api_server_that_is_away_leaves_the_taint_and_the_next_sweep_takes_it_off(gpus: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    registers(gpus, "n1")
    with monkeypatch.context() as away:

        def unavailable(*_: object) -> bool:
            raise Unavailable("away")

        away.setattr(Simulated, "remove_taint", unavailable)
        failed = gpus.relabels()

    assert gpus.outcome(failed) == {"n1": "failed"}
    assert (gpus.labels("n1"), taints(gpus, "n1")) == ({"rack": "r1"}, (STARTUP, GPU))
    gpus.relabels(name="drift_sweep")
    assert taints(gpus, "n1") == (GPU,)


def test_before_a_first_release_the_taint_stays_and_is_told(fleet: Fleet) -> None:
    commits(fleet, adopted=False)
    registers(fleet, "n1")

    assert event(fleet, "n1") == Waiting("StartupTaint")
    sweep = fleet.relabels(name="drift_sweep")

    assert taints(fleet, "n1") == (STARTUP, GPU)
    told = fleet.ended(sweep).outcomes[0]
    assert (told.outcome, told.reason) == ("skipped", "StartupTaint")
    assert told.message == f"the startup taint {STARTUP} stays: nothing that is released to the node names it"
    assert (state(fleet, "n1").in_sync, state(fleet, "n1").reason) == (False, "StartupTaint")


def test_after_the_taint_left_the_documents_a_node_that_registers_with_it_is_told_for_twenty_revisions(fleet: Fleet) -> None:
    commits(fleet)
    for number in range(20):
        assert commits(fleet, until=False, value=f"r{number}") == number + 2
        name = f"n{number}"
        registers(fleet, name)
        if number < 19:
            assert event(fleet, name) == "repair"
            assert taints(fleet, name) == (STARTUP, GPU)
            assert state(fleet, name).reason == "StartupTaint", number

    event(fleet, "n19")

    assert state(fleet, "n19").reason == ""


def test_an_override_names_no_taint_so_it_stays_and_is_told(gpus: Fleet) -> None:
    registers(gpus, "n1", GPU)
    gpus.relabels()
    gpus.world.releases.override("default", "n1", {"rack": "mine"}, "me", gpus.now)
    gpus.cluster.set_taints("n1", [STARTUP])

    event(gpus, "n1")

    assert (taints(gpus, "n1"), state(gpus, "n1").reason) == ((STARTUP,), "StartupTaint")


@pytest.mark.parametrize("differing", [STARTUP._replace(value="true"), STARTUP._replace(effect="NoExecute"), STARTUP._replace(key="other")])
def test_a_taint_that_differs_stays(gpus: Fleet, differing: Taint) -> None:
    registers(gpus, "n1", differing)

    event(gpus, "n1")

    assert (gpus.labels("n1"), taints(gpus, "n1")) == ({"rack": "r1"}, (differing,))
    assert ("values differ" in state(gpus, "n1").message) == bool(differing.value)


def test_a_node_whose_labels_cannot_be_brought_keeps_its_taint_and_says_so(gpus: Fleet) -> None:
    commits(gpus, onConflict="fail")
    gpus.cluster.create("n1", {"rack": "theirs"}, taints=[STARTUP])

    action = gpus.relabels()

    told = gpus.ended(action).outcomes[0]
    assert (told.outcome, f"its startup taint {STARTUP} stays" in told.message) == ("failed", True)
    assert taints(gpus, "n1") == (STARTUP,)


def test_a_key_that_a_policy_leaves_to_others_holds_no_taint_up(gpus: Fleet) -> None:
    commits(gpus, onConflict="skip")
    gpus.cluster.create("n1", {"rack": "theirs"}, taints=[STARTUP])

    gpus.relabels()

    assert (gpus.labels("n1"), taints(gpus, "n1")) == ({"rack": "theirs"}, ())


def test_no_taint_is_ever_put_on(gpus: Fleet) -> None:
    gpus.has_nodes(n1={})

    gpus.relabels()

    assert taints(gpus, "n1") == ()


def test_while_the_fleet_is_paused_the_taint_stays_with_the_labels_that_are_missing(gpus: Fleet) -> None:
    gpus.world.pauses.say("pause", "me", gpus.now, "repairs")
    registers(gpus, "n1")

    event(gpus, "n1")

    assert (gpus.labels("n1"), taints(gpus, "n1")) == ({}, (STARTUP, GPU))
    assert (state(gpus, "n1").in_sync, "waits to be taken off" in state(gpus, "n1").message) == (False, True)


def test_a_plan_shows_the_taint_that_goes_and_an_action_bound_to_it_changes_labels_alone(gpus: Fleet) -> None:
    registers(gpus, "n1")
    plan = plan_committed(PlanRequest(all=True), gpus.world)
    assert plan.nodes["n1"].untaint == [str(STARTUP)]
    assert plan_committed(PlanRequest(all=True, released=True), gpus.world).nodes["n1"].untaint == [str(STARTUP)]

    bound: BoundPlan = plan.bound()
    gpus.relabels("n1", plan=bound)
    assert (gpus.labels("n1"), taints(gpus, "n1")) == ({"rack": "r1"}, (STARTUP, GPU))

    event(gpus, "n1")
    assert taints(gpus, "n1") == (GPU,)


def test_somebody_who_keeps_putting_the_taint_back_is_named_and_not_fought_for_ever(gpus: Fleet) -> None:
    registers(gpus, "n1")
    event(gpus, "n1")
    answers = []
    for _ in range(12):
        gpus.cluster.set_taints("n1", [STARTUP])
        version = gpus.node("n1").resource_version
        change = NodeChange(kind="changed", cluster="default", name="n1", manager="their-operator", resource_version=version)
        answers.append(handle(change, gpus.world, gpus.now))
        gpus.cloud.drain()

    assert answers[-1] == "fought over"
    assert any("their-operator" in told["message"] and STARTUP.key in told["message"] for told in gpus.notices("conflict.detected"))


def times_to_label() -> tuple[float, float]:
    """How many nodes were counted, and their seconds."""
    family = next(family for family in telemetry.metrics() if family.name == "hullmark_time_to_label_seconds")
    values = {sample.suffix: sample.value for sample in family.samples}
    return values["_count"], values["_sum"]


def test_the_event_of_the_labels_write_that_comes_before_the_taint_is_gone_counts_the_node_no_second_time(
    gpus: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    registers(gpus, "n1", age=3)
    remove, told = Simulated.remove_taint, list[Any]()

    def after_the_event(self: Simulated, name: str, uid: str, taint: Taint, labels: dict[str, str]) -> bool:
        if not told:
            told.append(handle(NodeChange(kind="changed", cluster="default", name=name), gpus.world, gpus.now))
        return remove(self, name, uid, taint, labels)

    monkeypatch.setattr(Simulated, "remove_taint", after_the_event)
    count, total = times_to_label()

    event(gpus, "n1")

    assert told == ["repair"]
    assert (taints(gpus, "n1"), times_to_label()) == ((GPU,), (count + 1, total + 3))


def test_the_time_from_creation_to_labelled_and_untainted_is_measured_for_new_nodes_alone(gpus: Fleet) -> None:
    count, total = times_to_label()
    registers(gpus, "n1", age=3)
    event(gpus, "n1")
    registers(gpus, "old", age=25 * 3600)
    event(gpus, "old")
    gpus.has_nodes(unknown={})
    event(gpus, "unknown")
    commits(gpus, value="r2")
    gpus.relabels()

    assert datetime(2026, 11, 21, 3, 0, tzinfo=UTC) == START
    assert times_to_label() == (count + 1, total + 3)


def test_labels_that_change_under_our_hands_again_and_again_leave_the_taint(gpus: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    registers(gpus, "n1")

    def stale(*_: object) -> bool:
        raise Stale("changed")

    monkeypatch.setattr(Simulated, "remove_taint", stale)

    action = gpus.relabels()

    assert gpus.ended(action).outcomes[0].reason == "Stale"
    assert taints(gpus, "n1") == (STARTUP, GPU)


def test_nodes_on_which_a_startup_taint_stays_are_counted(gpus: Fleet) -> None:
    for name in ("n1", "n2"):
        registers(gpus, name)
    commits(gpus, until=False, value="r2")
    gpus.relabels()

    gauges = {family.name: family for family in _gauges(look(gpus.world), 0, gpus.now)}

    assert [(sample.value, sample.labels) for sample in gauges["hullmark_nodes_tainted"].samples] == [(2, {"cluster": "default"})]
