"""Ten thousand rollouts in a careless world (`make faults`; a sample by default): careless.py says what is looked at after each step."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from msgspec import structs

from shared.domain.documents.kinds import REST, StageSpec
from shared.domain.labels.places import place_of
from shared.domain.rollouts.decisions import Decision, Facts, Wait, decide
from shared.domain.rollouts.progress import Stage
from tests.faults.tally import EVERYTHING
from tests.rollouts.careless import CarelessWorld, Cluster
from tests.rollouts.rolling import Rolling

ROLLOUTS = 10_000 if EVERYTHING else 150
ENDED = ("done", "aborted", "reverted")


@pytest.mark.timeout(7200)
def test_rollouts_reach_only_nodes_whose_stage_is_open_and_always_end_or_say_what_they_wait_for() -> None:
    phases, reasons = Counter[str](), Counter[str]()
    for seed in range(ROLLOUTS):
        world = CarelessWorld(seed)
        for _ in range(30):
            while world.step():
                pass
            if world.rollout.phase in ENDED:
                break
            world.something_happens()
        phases[world.rollout.phase] += 1
        reasons += world.met
    assert all(phases[phase] > ROLLOUTS / 50 for phase in ("done", "reverted", "stopped", "running"))
    waits = {"AwaitingApproval", "Soaking", "ClusterBehind", "RolloutPaused", "BatchRunning", "PlacesUnresolved", "Frozen", "Paused"}
    assert waits | {"HealthUnknown", "NodesNotReady", "TooManyFailures", "ApprovalExpired", "EmptyStage", "NobodyThere"} <= {*reasons}


@pytest.mark.timeout(7200)
def test_whatever_happened_before_a_rollout_ends_once_the_world_calms_down_and_people_say_yes() -> None:
    for seed in range(ROLLOUTS // 10):
        world = CarelessWorld(seed)
        for _ in range(10):
            while world.step():
                pass
            world.something_happens()
        for _ in range(100):
            world.calms_down()
            while world.step():
                pass
            if world.rollout.phase in ENDED:
                break
        assert world.rollout.phase in ENDED, f"seed {seed}: {world.rollout.phase}, {world.rollout.said}"


# --- what it has found


def of_two_clusters(*names: str) -> CarelessWorld:
    """A first stage of these nodes and the rest, in two clusters; nodes have to stay Ready."""
    world = CarelessWorld(0)
    world.chance.random = lambda: 0.99  # type: ignore[method-assign]
    world.clusters = {name: Cluster(dict.fromkeys((*names, "other"), "cpu")) for name in ("c0", "c1")}
    world.specs = [StageSpec.model_validate({"name": "first", "nodes": {"names": [*names]}}), StageSpec(name=REST)]
    stages = [Stage(spec.name) for spec in world.specs]
    world.rollout = structs.replace(world.rollout, stages=stages, failed=0, clusters={"c0": 1, "c1": 1}, nodes_ready=True)
    return world


def next_of(world: CarelessWorld) -> Decision:
    return decide(world.rollout, Facts(dict(world.facts)), world.now)


def finishes_batches(world: CarelessWorld) -> None:
    for batch in world.running():
        world.sends(batch)


def test_a_retry_of_an_earlier_stage_opens_nothing_while_a_node_of_the_newest_one_is_not_ready() -> None:
    world = of_two_clusters("n0")
    while world.step():
        pass
    world.clusters["c1"].answers = False
    finishes_batches(world)
    while world.step():
        pass
    world.clusters["c1"].answers = True
    finishes_batches(world)
    assert {batch.where for batch in world.rollout.batches} >= {(0, "c1", 0), (1, "c0", 0)}
    world.clusters["c0"].down = {"other"}
    world.says("retry")
    opened = len(world.rollout.batches)
    while world.step():
        pass
    waits = next_of(world)
    assert isinstance(waits, Wait)
    assert waits.reason == "NodesNotReady"
    assert len(world.rollout.batches) == opened


def test_a_node_that_is_gone_does_not_hold_the_others_of_its_stage_where_they_are_written_one_by_one(fleet: Rolling) -> None:
    gone = min((f"gone{number}" for number in range(1000)), key=place_of)
    fleet.ten_nodes({"name": "some", "nodes": {"names": [gone, "n0", "n1"]}, "maxInFlight": 1})
    fleet.starts()
    assert [batch.count for batch in fleet.world.rollouts.get(fleet.rollout).batches[:3]] == [1, 1, 1]
    assert (fleet.status.phase, len(fleet.new())) == ("done", 10)


def test_a_second_look_at_a_cluster_that_does_not_answer_is_not_waited_for_until_a_time_that_has_passed() -> None:
    world = of_two_clusters("n0")
    while world.step():
        pass
    finishes_batches(world)
    world.clusters["c0"].down = {"n0"}
    world.step()
    world.clusters["c0"].answers = False
    world.now += timedelta(hours=1)
    world.step()
    waits = next_of(world)
    assert isinstance(waits, Wait)
    assert (waits.reason, waits.until) == ("NodesNotReady", None)


def test_a_stage_with_a_cluster_behind_shows_nothing_where_no_node_of_the_others_is_ready() -> None:
    world = of_two_clusters("n0", "n1")
    world.rollout = structs.replace(world.rollout, stages=[Stage("first", in_flight=1), Stage(REST)])
    world.clusters["c0"].down = {"n0", "n1"}
    world.clusters["c1"].answers = False
    for cluster in world.clusters.values():
        cluster.answers, was = True, cluster.answers
        world._places()
        cluster.answers = was
    for _ in range(6):
        while world.step():
            pass
        finishes_batches(world)
    assert {batch.stage for batch in world.rollout.batches} == {0}
    waits = next_of(world)
    assert isinstance(waits, Wait)
    assert waits.reason == "HealthUnknown"
