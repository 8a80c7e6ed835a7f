"""What the soak checks at its end tells a lost result, a missing notice, a drifted node and a growing process from a run that is sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared import telemetry, wiring
from shared.messages import PartResult
from shared.ports import OWNER
from tests.soak import invariants
from tests.soak.documents import PREFIX
from tests.soak.measures import ALLOWANCE, LONG_SECONDS, Life
from tests.soak.stepped import seconds
from tests.stories.fleet import Fleet

MIB = 1 << 20


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Two nodes, relabelled once."""
    telemetry.write_to(None)
    story = Fleet()
    story.has_nodes(n1={}, n2={})
    story.declares({"n1": {PREFIX + "rack": "a"}, "n2": {PREFIX + "rack": "b"}})
    story.relabels()
    yield story
    wiring.install(None)


def ends(fleet: Fleet) -> list[dict[str, Any]]:
    return [{"data": data} for data in fleet.notices("action.finished")]


def key(fleet: Fleet, name: str) -> str:
    (action,) = fleet.world.actions.ids()
    return f"actions/{action}/{name}"


def test_a_run_that_is_sound_has_no_problem(fleet: Fleet) -> None:
    actions = fleet.world.actions
    assert list(invariants.nothing_open(actions, actions.ids())) == []
    assert list(invariants.no_result_lost(actions)) == []
    assert list(invariants.every_end_told(actions, ends(fleet))) == []
    assert list(invariants.in_sync(fleet.world, fleet.cluster.nodes(), OWNER)) == []


def test_an_action_that_was_confirmed_and_is_unknown_is_told(fleet: Fleet) -> None:
    assert list(invariants.nothing_open(fleet.world.actions, ["01ARZ3NDEKTSV4RRFFQ69G5FAV"])) == [
        "action 01ARZ3NDEKTSV4RRFFQ69G5FAV was confirmed and is unknown"
    ]


def test_an_action_without_an_end_is_told(fleet: Fleet) -> None:
    fleet.world.store.delete(key(fleet, "outcome.json"))
    (problem,) = invariants.nothing_open(fleet.world.actions, [])
    assert "has not ended" in problem


def test_a_result_that_was_lost_or_replaced_is_told(fleet: Fleet) -> None:
    fleet.world.store.delete(key(fleet, "parts/0001.json"))
    assert len(list(invariants.no_result_lost(fleet.world.actions))) == 2

    (action,) = fleet.world.actions.ids()
    ended = fleet.ended(action)
    failed = [told.model_copy(update={"outcome": "failed"}) for told in ended.outcomes]
    fleet.world.actions.record(PartResult(action=action, part=1, outcomes=failed))
    assert [problem.rpartition(": ")[2] for problem in invariants.no_result_lost(fleet.world.actions)] == [
        f"node {name} ended as changed, and its part says failed" for name in ("n1", "n2")
    ]


def test_an_end_that_nobody_was_told_or_that_was_told_in_two_ways_is_a_problem(fleet: Fleet) -> None:
    actions = fleet.world.actions
    assert len(list(invariants.every_end_told(actions, []))) == 1
    (end,) = ends(fleet)
    other = {"data": end["data"] | {"result": "failure"}}
    assert len(list(invariants.every_end_told(actions, [end, end]))) == 0
    assert len(list(invariants.every_end_told(actions, [end, other]))) == 1


@pytest.mark.parametrize("labels", [{PREFIX + "rack": "x"}, {PREFIX + "rack": None}])
def test_a_node_that_drifted_is_told(fleet: Fleet, labels: dict[str, str | None]) -> None:
    fleet.cluster.set_labels("n2", labels)
    (problem,) = invariants.in_sync(fleet.world, fleet.cluster.nodes(), OWNER)
    assert problem.startswith("node n2 carries")


def test_a_process_that_grows_is_told_from_one_that_was_only_young() -> None:
    flat, large = 100 * MIB, 100 * MIB * 2 + ALLOWANCE
    assert Life([(0, flat // 2), (30, flat), (LONG_SECONDS, large)]).grew
    assert not Life([(0, flat // 2), (30, flat), (LONG_SECONDS, flat + 2 * MIB)]).grew
    assert not Life([(0, flat // 2), (30, flat), (LONG_SECONDS - 1, large)]).grew, "it was killed too young to tell"


def test_a_clock_that_was_never_stepped_is_the_systems(tmp_path: Path) -> None:
    assert seconds(tmp_path / "api") == 0.0
    (tmp_path / "api").write_text("-12.5")
    assert seconds(tmp_path / "api") == -12.5
