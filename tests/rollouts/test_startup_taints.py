"""Startup taints under a rollout: a node loses its own with its stage's labels; what holds the labels holds the taint, and says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions.node_event.main import Waiting, handle
from shared.domain.labels.events import NodeChange
from shared.domain.labels.node_states import NodesRequest, NodeState
from shared.ports import Taint
from shared.work.holds import pause, resume
from shared.work.nodes import node_states
from tests.rollouts.rolling import CANARY, HALF, Rolling, a_rollout
from tests.stories.fleet import a_policy
from tests.stories.test_holds import a_freeze

STARTUP = Taint("hullmark.dev/unlabelled", "NoSchedule")
OLDER = Taint("hullmark.dev/registered", "NoExecute", "true")
NODES = [f"n{number}" for number in range(10)]
UNNAMED = f"the startup taint {STARTUP} stays: nothing that is released to the node names it"


def a_tier(tier: str, taint: Taint | None = None) -> dict[str, Any]:
    """A policy for every node, with a startup taint or without."""
    until = {"until": {"taint": {"key": taint.key, "value": taint.value, "effect": taint.effect}}} if taint else {}
    return a_policy("tiers", {}, {"tier": tier}, **until)


def ten_tainted(fleet: Rolling, *stages: dict[str, Any], first: Taint | None = None, second: Taint | None = STARTUP, **spec: Any) -> None:
    """Ten nodes of revision 1 whose templates were changed first: kubelets registered them with the startup taint of revision 2."""
    fleet.has_nodes(**{name: {} for name in NODES})
    fleet.commits(a_tier("old", first))
    fleet.relabels()
    fleet.commits(a_tier("new", second), a_rollout(*stages, **spec), adopted=False)
    registers(fleet, *NODES)


def registers(fleet: Rolling, *names: str) -> None:
    """Kubelets put the startup taint on these nodes: it is the node's machine that is new, and its labels were brought."""
    for name in names:
        fleet.cluster.set_taints(name, [STARTUP])


def tainted(fleet: Rolling) -> list[str]:
    """The nodes that hold a startup taint."""
    return sorted(node.name for node in fleet.cluster.with_taints().nodes() if node.taints)


def state(fleet: Rolling, name: str) -> NodeState:
    return node_states(NodesRequest(names=[name]), fleet.world).nodes[name]


def event(fleet: Rolling, name: str) -> Any:
    answer = handle(NodeChange(kind="added", cluster="default", name=name), fleet.world, fleet.now)
    fleet.cloud.drain()
    return answer


def test_a_stages_nodes_lose_the_taint_with_their_labels_and_the_others_hold_it_and_say_why(fleet: Rolling) -> None:
    ten_tainted(fleet, CANARY, HALF | {"soak": "10m"})

    fleet.starts()

    assert (fleet.new(), tainted(fleet)) == (["n0"], NODES[1:])
    assert state(fleet, "n0").in_sync
    assert (state(fleet, "n5").in_sync, state(fleet, "n5").reason, state(fleet, "n5").message) == (False, "StartupTaint", UNNAMED)

    fleet.later(minutes=11)
    fleet.says("approve", "half")
    assert len(fleet.new()) == 5
    assert tainted(fleet) == sorted(set(NODES) - set(fleet.new()))

    for _ in range(3):
        fleet.later(minutes=11)
    assert (fleet.status.phase, len(fleet.new()), tainted(fleet)) == ("done", 10, [])


def test_neither_an_event_nor_a_sweep_takes_the_taint_off_before_its_stage(fleet: Rolling) -> None:
    ten_tainted(fleet, CANARY, HALF)
    fleet.starts()

    assert event(fleet, "n5") == Waiting("StartupTaint")
    sweep = fleet.relabels(name="drift_sweep")

    assert (fleet.labels("n5"), "n5" in tainted(fleet)) == ({"tier": "old"}, True)
    told = next(told for told in fleet.ended(sweep).outcomes if told.subject == "n5")
    assert (told.outcome, told.reason, told.message) == ("skipped", "StartupTaint", UNNAMED)


def test_a_node_that_registers_in_an_open_stage_loses_its_taint_by_the_event(fleet: Rolling) -> None:
    ten_tainted(fleet, CANARY, HALF)
    fleet.starts()
    registers(fleet, "n0")

    assert event(fleet, "n0") == "repair"

    assert "n0" not in tainted(fleet)


def test_each_stage_takes_off_the_taint_that_its_own_release_names(fleet: Rolling) -> None:
    """Revision 1 names another taint: until their stage comes, nodes lose that one."""
    ten_tainted(fleet, CANARY, HALF, first=OLDER)
    for name in NODES:
        fleet.cluster.set_taints(name, [OLDER, STARTUP])

    fleet.starts()
    fleet.relabels(name="drift_sweep")

    taints = {node.name: node.taints for node in fleet.cluster.with_taints().nodes()}
    assert (taints["n0"], taints["n5"]) == ((OLDER,), (STARTUP,))
    assert (state(fleet, "n0").reason, str(OLDER) in state(fleet, "n0").message) == ("StartupTaint", True)


def test_after_a_revert_a_node_that_holds_the_taint_is_told_of_and_never_silent(fleet: Rolling) -> None:
    ten_tainted(fleet, CANARY, HALF)
    fleet.starts()
    registers(fleet, "n0")

    fleet.says("revert")

    assert (fleet.new(), "n0" in tainted(fleet)) == ([], True)
    assert (state(fleet, "n0").reason, state(fleet, "n0").message) == ("StartupTaint", UNNAMED)
    back = fleet.ended(max(fleet.world.actions.ids()))
    assert next(told.message for told in back.outcomes if told.subject == "n0").endswith(UNNAMED)
    assert event(fleet, "n0") == Waiting("StartupTaint")
    sweep = fleet.relabels(name="drift_sweep")
    assert {told.subject: told.reason for told in fleet.ended(sweep).outcomes}["n0"] == "StartupTaint"


def test_a_revert_to_a_release_that_names_the_taint_takes_it_off(fleet: Rolling) -> None:
    """Revision 2 left the taint out, and templates still put it on."""
    ten_tainted(fleet, CANARY, HALF, first=STARTUP, second=None)
    fleet.starts()
    assert (state(fleet, "n0").reason, "n0" in tainted(fleet)) == ("StartupTaint", True)

    fleet.says("revert")

    assert (fleet.new(), "n0" in tainted(fleet)) == ([], False)


def test_a_freeze_holds_the_next_stage_and_its_taints_and_a_new_node_of_an_open_one_loses_its_own(fleet: Rolling) -> None:
    ten_tainted(fleet, CANARY, HALF)
    freeze = a_freeze(**{"from": f"{fleet.now + timedelta(minutes=1):%FT%TZ}"})
    fleet.commits(a_tier("new", STARTUP), a_rollout(CANARY), freeze, adopted=False)
    fleet.starts()
    fleet.later(minutes=20)
    assert (fleet.status.reason, tainted(fleet)) == ("Frozen", NODES[1:])
    assert state(fleet, "n5").message == UNNAMED

    registers(fleet, "n0")
    event(fleet, "n0")
    assert tainted(fleet) == NODES[1:]

    fleet.later(hours=3)
    assert (fleet.status.phase, tainted(fleet)) == ("done", [])


@pytest.mark.parametrize("whole", [True, False], ids=["the fleet", "the rollout"])
def test_a_pause_holds_the_taints_and_says_so_until_it_is_over(fleet: Rolling, whole: bool) -> None:
    ten_tainted(fleet, CANARY)
    fleet.starts()
    if whole:
        pause("wait", "ada", fleet.world, fleet.now)
    else:
        fleet.says("pause")
    fleet.later(hours=1)
    assert (fleet.status.reason if whole else fleet.status.phase, tainted(fleet)) == ("Paused" if whole else "paused", NODES[1:])
    registers(fleet, "n0")
    event(fleet, "n0")
    assert ("n0" in tainted(fleet)) == whole, "the fleet's pause holds repairs as well"
    if whole:
        assert (state(fleet, "n0").reason, "waits to be taken off" in state(fleet, "n0").message) == ("Drift", True)
    assert state(fleet, "n5").message == UNNAMED

    if whole:
        resume("ada", fleet.world, fleet.now)
    else:
        fleet.says("resume")
    fleet.later(minutes=1)
    fleet.later(minutes=1)
    fleet.relabels(name="drift_sweep")
    assert (len(fleet.new()), tainted(fleet)) == (10, [])
