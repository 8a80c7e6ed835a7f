"""Nodes that turn NotReady while a rollout is on its way: one look is a doubt, two are a stop, and what is not known opens nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs
from pydantic import ValidationError

from shared.domain.documents.kinds import REST, RolloutSpec
from shared.domain.names import REJECTED
from shared.domain.rollouts.decisions import Done, Facts, Open, Stop, Wait, after, decide
from shared.domain.rollouts.health import AGAIN, Listing, baseline, looked
from shared.domain.rollouts.progress import Fact, Health, Progress, Said, Stage
from shared.ports import Unavailable
from tests.rollouts.rolling import CANARY, HALF, Rolling

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
EVERY = [f"n{number}" for number in range(10)]
SOME = {"name": "some", "nodes": {"names": ["n0", "n1", "n2"]}, "soak": "10m"}


# --- a story


def test_a_node_that_turns_not_ready_in_the_soak_stops_the_rollout_at_the_second_look(fleet: Rolling) -> None:
    fleet.ten_nodes(SOME)
    fleet.starts()
    fleet.cluster.set_ready("n1", False)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "NodesNotReady")
    fleet.later(seconds=1)
    assert fleet.status.phase == "running"
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "NodesNotReady")
    assert fleet.status.message == "stage some: default/n1 turned NotReady"
    fleet.later(hours=1)
    assert fleet.new() == ["n0", "n1", "n2"]


def test_a_node_that_is_not_ready_for_one_look_only_stops_nothing(fleet: Rolling) -> None:
    fleet.ten_nodes(SOME)
    fleet.starts()
    for ready in (False, True, False, True):
        fleet.cluster.set_ready("n1", ready)
        fleet.later(minutes=1)
    assert fleet.status.reason == "Soaking"
    fleet.later(minutes=10)
    assert fleet.status.phase == "done"


def test_a_canary_that_turns_not_ready_reverts_itself_with_every_label_and_holder_as_before(fleet: Rolling) -> None:
    fleet.ten_nodes(SOME, onStop="revert")
    before = {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()}
    fleet.starts()
    fleet.cluster.set_ready("n0", False)
    fleet.later(minutes=9, seconds=50)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("reverted", "NodesNotReady")
    assert {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()} == before
    assert REJECTED in fleet.world.revisions.tags(2)


def test_a_node_that_was_not_ready_before_its_batch_does_not_count_and_one_that_is_gone_neither(fleet: Rolling) -> None:
    fleet.ten_nodes(SOME)
    fleet.cluster.set_ready("n1", False)
    fleet.starts()
    fleet.cluster.delete("n2")
    fleet.later(minutes=5)
    fleet.later(minutes=5)
    assert fleet.status.phase == "done"


def test_a_stage_none_of_whose_nodes_is_ready_shows_nothing_until_one_is(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.cluster.set_ready("n0", False)
    fleet.starts()
    fleet.later(hours=1)
    assert (fleet.status.reason, fleet.new()) == ("HealthUnknown", ["n0"])
    assert fleet.status.message == "stage canary: none of its nodes is Ready, so they show nothing"
    fleet.cluster.set_ready("n0", True)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.new()) == ("done", EVERY)


def test_a_node_without_the_condition_is_never_healthy_and_no_failure(fleet: Rolling) -> None:
    fleet.ten_nodes(SOME)
    fleet.cluster.delete("n1")
    fleet.cluster.create("n1", {}, ready=None)
    fleet.starts()
    fleet.later(hours=1)
    fleet.later(hours=1)
    assert (fleet.status.reason, fleet.status.message) == (
        "HealthUnknown",
        "stage some: it is not known whether default/n1 may be called Ready",
    )
    fleet.cluster.set_ready("n1", True)
    fleet.later(minutes=1)
    assert fleet.status.phase == "done"


def test_a_cluster_that_does_not_answer_in_the_soak_holds_the_rollout_without_stopping_it(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    since = fleet.now + timedelta(hours=1)

    def silent(call: str, _node: str) -> None:
        if call == "readiness":
            raise Unavailable("no answer")

    fleet.cluster.before = silent
    for _ in range(3):
        fleet.later(hours=1)
    assert (fleet.status.phase, fleet.status.reason, fleet.status.since) == ("running", "HealthUnknown", since)
    assert len(fleet.notices("rollout.waits")) == 1
    fleet.cluster.before = lambda _call, _node: None
    fleet.later(minutes=1)
    assert fleet.status.phase == "done"


def test_a_retry_looks_anew_and_measures_by_how_the_nodes_were_before_the_first_try(fleet: Rolling) -> None:
    fleet.ten_nodes(SOME, stopWhen={"failed": 1})
    fleet.starts()
    fleet.cluster.set_ready("n1", False)
    fleet.later(minutes=1)
    fleet.later(minutes=1)
    fleet.says("retry")
    retried = fleet.status
    assert (retried.phase, retried.reason) == ("running", "NodesNotReady")
    fleet.later(minutes=1)
    stopped = fleet.status
    assert (stopped.phase, stopped.reason) == ("stopped", "NodesNotReady")
    fleet.cluster.set_ready("n1", True)
    fleet.says("retry")
    fleet.later(minutes=10)
    assert fleet.status.phase == "done"


def test_a_node_that_turns_while_a_person_is_waited_for_is_seen_before_the_next_stage_opens(fleet: Rolling) -> None:
    fleet.ten_nodes({**CANARY, "soak": "0s"}, HALF)
    fleet.starts()
    assert fleet.status.reason == "AwaitingApproval"
    fleet.cluster.set_ready("n0", False)
    fleet.says("approve", "half")
    assert fleet.new() == ["n0"]
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "NodesNotReady")


def test_nodes_are_listed_once_a_step_and_not_while_a_person_is_waited_for_or_when_it_is_off(fleet: Rolling) -> None:
    calls = Counter[str]()
    fleet.ten_nodes(CANARY, HALF)
    fleet.cluster.before = lambda call, _node: calls.update([call])
    fleet.starts()
    calls.clear()
    fleet.later(minutes=5)
    assert calls["readiness"] == 1
    fleet.later(minutes=6)
    assert fleet.status.reason == "AwaitingApproval"
    calls.clear()
    fleet.later(minutes=1)
    assert [notice["reason"] for notice in fleet.notices("rollout.waits")] == ["AwaitingApproval"]
    for _ in range(3):
        fleet.later(hours=1)
    assert calls["readiness"] == 0


def test_a_rollout_that_is_not_to_look_at_nodes_asks_no_cluster(fleet: Rolling) -> None:
    calls = Counter[str]()
    fleet.ten_nodes(CANARY, health={"nodesReady": False})
    fleet.cluster.before = lambda call, _node: calls.update([call])
    fleet.starts()
    fleet.cluster.set_ready("n0", False)
    fleet.later(minutes=10)
    assert (fleet.status.phase, calls["readiness"]) == ("done", 0)


def test_a_look_that_finds_nothing_new_writes_nothing(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.starts()
    fleet.later(minutes=1)
    before = len(fleet.world.rollouts.past(fleet.rollout))
    for _ in range(5):
        fleet.later(minutes=1)
    assert len(fleet.world.rollouts.past(fleet.rollout)) == before


@pytest.mark.parametrize("health", [{"nodesReady": "perhaps"}, {"daemonSets": True}, {"nodes": True}])
def test_health_takes_what_is_looked_at_and_nothing_else(health: Mapping[str, object]) -> None:
    with pytest.raises(ValidationError):
        RolloutSpec.model_validate({"health": health})


# --- a careless world


def a_rollout_of(stages: int, clusters: int, soak: int) -> Progress:
    said = Said("start", "ada", NOW)
    nodes = {f"c{number}": [3] * (stages + 1) for number in range(clusters)}
    about = [*(Stage(f"s{number}", soak=soak) for number in range(stages)), Stage(REST)]
    return Progress("r", "careful", 2, said, said, about, clusters=dict.fromkeys(nodes, 0), placed=nodes, meant=nodes, nodes_ready=True)


def members(rollout: Progress) -> dict[str, Sequence[str]]:
    return {batch.action: [f"s{batch.stage}-n{number}" for number in range(batch.count)] for batch in rollout.batches}


def some_listing(chance: random.Random, stages: int, was: Listing | None) -> Listing | None:
    if chance.random() < 0.1:
        return None
    names = [f"s{stage}-n{number}" for stage in range(stages + 1) for number in range(3)]
    old = was or dict.fromkeys(names, True)
    changed = {name: chance.choices([True, False, None], [80, 15, 5])[0] for name in names if chance.random() < 0.15}
    return {name: ready for name, ready in (dict(old) | changed).items() if chance.random() < 0.98}


def test_no_stage_opens_and_nothing_ends_while_a_node_of_the_one_before_it_turned_or_is_not_known() -> None:
    seen = Counter[str]()
    for seed in range(400):
        chance = random.Random(seed)
        stages = chance.randint(1, 3)
        rollout, now = a_rollout_of(stages, chance.randint(1, 2), chance.choice([0, 120])), NOW
        listings: dict[str, Listing | None] = dict.fromkeys(rollout.clusters)
        for number in range(60):
            listings = {cluster: some_listing(chance, stages, was) for cluster, was in listings.items()}
            facts = Facts({batch.action: Fact(batch.at) for batch in rollout.batches}, looked=frozenset(listings))
            there = {batch.cluster for batch in rollout.batches}
            if rollout.batches:
                health = looked(rollout, members(rollout), {name: listings[name] for name in there}, now)
                rollout = structs.replace(rollout, health=health)
            decision = decide(rollout, facts, now)
            seen[getattr(decision, "reason", type(decision).__name__)] += 1
            if isinstance(decision, Open | Done):
                holds(rollout, listings)
            if isinstance(decision, Stop):
                assert rollout.health.turned
                assert all(now - rollout.health.suspects[where] >= AGAIN for where in rollout.health.turned)
            rollout = after(rollout, decision, facts, now, f"a{number}")
            if isinstance(decision, Open):
                last = rollout.batches[-1]
                before = baseline(members(rollout)[last.action], listings[last.cluster])
                rollout = structs.replace(rollout, batches=[*rollout.batches[:-1], structs.replace(last, before=before)])
            if rollout.phase != "running":
                break
            now += timedelta(seconds=chance.choice([1, 20, 60]))
    assert {"Open", "Done", "NodesNotReady", "HealthUnknown", "Soaking"} <= set(seen)


def holds(rollout: Progress, listings: Mapping[str, Listing | None]) -> None:
    """What must be so of the nodes that have the change newest, where more of them are to get it."""
    newest = max((batch.stage for batch in rollout.batches), default=-1)
    batches = [batch for batch in rollout.batches if batch.stage == newest]
    answering = [(batch, listing) for batch in batches if (listing := listings[batch.cluster]) is not None]
    if len(answering) < len(batches):
        assert any(listing.get(name) for batch, listing in answering for name in members(rollout)[batch.action])
    for batch, listing in answering:
        before = batch.before
        assert before is not None
        for name in members(rollout)[batch.action]:
            if name not in before.others and name in listing:
                assert listing[name], f"{name} was not known to be Ready, and more opened"


def test_what_is_kept_of_a_look_survives_a_restart_and_what_counts_is_the_time_between_two_looks() -> None:
    rollout = a_rollout_of(1, 1, 600)
    rollout = after(rollout, Open(0, "c0", 0, 3), Facts(), NOW, "a1")
    rollout = structs.replace(rollout, batches=[structs.replace(rollout.batches[0], before=baseline([], {}))])
    down = {"c0": {"s0-n0": False, "s0-n1": True, "s0-n2": True}}
    once = looked(rollout, members(rollout), down, NOW)
    assert once == Health(suspects={"c0/s0-n0": NOW})
    again = structs.replace(rollout, health=once)
    assert looked(again, members(rollout), down, NOW + timedelta(seconds=5)).turned == []
    assert looked(again, members(rollout), down, NOW + AGAIN).turned == ["c0/s0-n0"]
    silent = looked(again, members(rollout), {"c0": None}, NOW + AGAIN)
    assert (silent.turned, silent.suspects) == ([], once.suspects)


def test_a_batch_that_was_opened_without_a_look_may_not_pass_before_there_was_one() -> None:
    rollout = after(a_rollout_of(1, 1, 0), Open(0, "c0", 0, 3), Facts(), NOW, "a1")
    ended = Facts({"a1": Fact(NOW)}, looked=frozenset())
    decision = decide(rollout, ended, NOW)
    assert isinstance(decision, Wait)
    assert decision.reason == "HealthUnknown"
