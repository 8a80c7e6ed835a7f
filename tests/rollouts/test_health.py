"""Nodes that turn NotReady while a rollout is on its way: one look is a doubt, two are a stop, and what is not known opens nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import structs
from pydantic import ValidationError

from shared.domain.documents.kinds import REST, RolloutSpec
from shared.domain.names import REJECTED
from shared.domain.rollouts.decisions import Done, Facts, Open, Stop, Wait, after, decide
from shared.domain.rollouts.health import AGAIN, KEPT, Seen, baseline, inherited, looked
from shared.domain.rollouts.progress import Baseline, Batch, Doubts, Fact, Health, Progress, Said, Stage, given
from shared.ports import Refused, Unavailable
from tests.rollouts.rolling import CANARY, HALF, Rolling, a_rollout
from tests.stories.fleet import a_policy

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


# --- DaemonSets and unschedulable pods

CNI = "kube-system/cni"
ALL_OF_IT = {"nodesReady": True, "daemonSets": True, "unschedulablePods": True}


def with_pods(fleet: Rolling, *stages: Mapping[str, Any], health: Mapping[str, bool] = ALL_OF_IT, **spec: Any) -> None:
    """Ten nodes, each with an available pod of a DaemonSet, and two pods that no node was found for."""
    fleet.ten_nodes(*stages, health=dict(health), **spec)
    for number in range(10):
        fleet.cluster.set_daemon_set(f"n{number}", CNI, True)
    fleet.cluster.set_unschedulable("shop", 2)


def test_a_daemon_set_that_loses_its_pod_on_a_canary_takes_the_rollout_back_at_the_second_look(fleet: Rolling) -> None:
    with_pods(fleet, SOME, onStop="revert")
    before = {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()}
    fleet.starts()
    fleet.cluster.set_daemon_set("n1", CNI, False)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "DaemonSetsUnavailable")
    assert fleet.status.message == "stage some: default/n1 kube-system/cni had an available pod, and has none; a second look decides"
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("reverted", "DaemonSetsUnavailable")
    assert fleet.status.message == "stage some: default/n1 kube-system/cni had an available pod, and has none"
    assert {node.name: (node.labels, node.owners) for node in fleet.cluster.nodes()} == before


def test_pods_that_can_not_be_scheduled_any_more_stop_the_rollout_at_the_second_look(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.starts()
    fleet.cluster.set_unschedulable("shop", 3)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "PodsUnschedulable")
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "PodsUnschedulable")
    assert fleet.status.message == "stage some: default/shop has more unschedulable pods than before"
    assert fleet.new() == ["n0", "n1", "n2"]


def test_what_was_so_before_the_canary_and_what_is_elsewhere_stops_nothing(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.cluster.set_daemon_set("n1", CNI, False)
    fleet.starts()
    fleet.cluster.set_daemon_set("n7", CNI, False)
    fleet.cluster.set_unschedulable("shop", 1)
    fleet.later(minutes=5)
    fleet.later(minutes=5)
    assert fleet.status.phase == "done"


@pytest.mark.parametrize("health", [{}, {"daemonSets": True}, {"unschedulablePods": True}])
def test_only_what_is_asked_for_is_looked_at(fleet: Rolling, health: Mapping[str, bool]) -> None:
    calls = Counter[str]()
    with_pods(fleet, SOME, health=health)
    fleet.cluster.before = lambda call, _node: calls.update([call])
    fleet.starts()
    fleet.cluster.set_daemon_set("n1", CNI, False)
    fleet.cluster.set_unschedulable("shop", 9)
    fleet.later(minutes=1)
    fleet.later(minutes=1)
    reason = {"daemonSets": "DaemonSetsUnavailable", "unschedulablePods": "PodsUnschedulable"}.get(next(iter(health), ""), "Soaking")
    assert fleet.status.reason == reason
    assert bool(calls["daemon_sets"]) is ("daemonSets" in health)
    assert bool(calls["unschedulable"]) is ("unschedulablePods" in health)


def test_nodes_that_are_not_to_stay_ready_stop_nothing_where_their_daemon_sets_are_looked_at(fleet: Rolling) -> None:
    with_pods(fleet, SOME, health={"nodesReady": False, "daemonSets": True})
    fleet.starts()
    fleet.cluster.set_ready("n0", False)
    fleet.cluster.delete("n2")
    fleet.later(minutes=5)
    fleet.later(minutes=5)
    assert fleet.status.phase == "done"


def refusing(*calls: str) -> Callable[[str, str], None]:
    def refuse(call: str, _node: str) -> None:
        if call in calls:
            raise Refused("Forbidden", "pods is forbidden")

    return refuse


@pytest.mark.parametrize(
    ("call", "what"),
    [("daemon_sets", "whether the pods of its DaemonSets are available"), ("unschedulable", "how many pods can't be scheduled")],
)
def test_a_cluster_that_does_not_say_how_its_pods_are_gets_nothing_and_is_tried_again_by_a_person(
    fleet: Rolling, call: str, what: str
) -> None:
    with_pods(fleet, SOME)
    fleet.cluster.before = refusing(call)
    fleet.starts()
    fleet.later(hours=1)
    assert (fleet.new(), fleet.status.reason) == ([], "ClusterBehind")
    assert fleet.status.message == f"stage some: default did not say {what} (Forbidden)"
    assert (fleet.status.stages[0].behind, fleet.status.stages[0].actions) == (3, [])
    fleet.cluster.before = lambda _call, _node: None
    fleet.cluster.set_daemon_set("n0", CNI, False)
    fleet.says("retry")
    assert fleet.new() == ["n0", "n1", "n2"]
    fleet.later(minutes=10)
    assert fleet.status.phase == "done"


def test_one_busy_moment_of_the_api_server_leaves_no_cluster_behind(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    refused: list[str] = []

    def busy_once(call: str, _node: str) -> None:
        if call == "readiness" and not refused:
            refused.append(call)
            raise Unavailable("429: too many requests")

    fleet.cluster.before = busy_once
    fleet.starts()
    assert refused
    assert fleet.new() == ["n0", "n1", "n2"]


def test_what_counts_is_how_it_was_before_the_first_try_that_was_sent(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.cluster.before = refusing("daemon_sets")
    fleet.starts()
    fleet.fails("n2")
    fleet.says("retry")
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "TooManyFailures")
    fleet.cluster.set_daemon_set("n0", CNI, False)
    fleet.cluster.before = lambda _call, _node: None
    fleet.says("retry")
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "DaemonSetsUnavailable")
    assert fleet.new() == ["n0", "n1"]
    fleet.says("revert")
    assert set(fleet.tiers().values()) == {"old"}


def test_a_cluster_that_gets_nothing_because_it_says_nothing_is_taken_back_without_a_trace(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.cluster.before = refusing("daemon_sets")
    fleet.starts()
    fleet.says("revert")
    state = fleet.world.rollouts.get(fleet.rollout)
    assert (fleet.status.phase, state.pending, len(state.batches)) == ("reverted", "", 1)
    assert set(fleet.tiers().values()) == {"old"}


def test_a_cluster_that_stops_saying_how_its_pods_are_holds_the_rollout_and_its_nodes_stop_it_all_the_same(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.starts()
    fleet.cluster.before = refusing("daemon_sets")
    fleet.later(hours=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "HealthUnknown")
    assert fleet.status.message == "stage some: default did not say whether the pods of its DaemonSets are available (Forbidden)"
    fleet.cluster.set_ready("n0", False)
    fleet.later(minutes=1)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "NodesNotReady")


def test_each_of_these_is_asked_for_once_in_a_step_in_which_nothing_opens(fleet: Rolling) -> None:
    calls = Counter[str]()
    with_pods(fleet, SOME)
    fleet.starts()
    fleet.cluster.before = lambda call, _node: calls.update([call])
    fleet.later(minutes=1)
    assert (calls["readiness"], calls["daemon_sets"], calls["unschedulable"]) == (1, 1, 1)


@pytest.mark.parametrize("health", [{"nodesReady": "perhaps"}, {"daemonSets": 3}, {"nodes": True}])
def test_health_takes_what_is_looked_at_and_nothing_else(health: Mapping[str, object]) -> None:
    with pytest.raises(ValidationError):
        RolloutSpec.model_validate({"health": health})


# --- a careless world

AGENTS = ("kube-system/cni", "monitoring/exporter")


def a_rollout_of(stages: int, clusters: int, soak: int) -> Progress:
    said = Said("start", "ada", NOW)
    nodes = {f"c{number}": [3] * (stages + 1) for number in range(clusters)}
    about = [*(Stage(f"s{number}", soak=soak) for number in range(stages)), Stage(REST)]
    rollout = Progress("r", "careful", 2, said, said, about, clusters=dict.fromkeys(nodes, 0), placed=nodes, meant=nodes)
    return structs.replace(rollout, nodes_ready=True, daemon_sets=True, unschedulable_pods=True)


def members(rollout: Progress) -> dict[str, Sequence[str]]:
    return {batch.action: [f"s{batch.stage}-n{number}" for number in range(batch.count)] for batch in rollout.batches}


def opened(rollout: Progress, seen: Seen, number: int = 0) -> Progress:
    """The rollout, whose newest batch begins with what was seen."""
    batch = rollout.batches[-1]
    if seen.whole:
        return structs.replace(
            rollout, batches=[*rollout.batches[:-1], structs.replace(batch, before=baseline(members(rollout)[batch.action], seen))]
        )
    unsent = structs.replace(batch, unsent=True, fact=Fact(batch.at, behind=True, message=seen.unsaid))
    return structs.replace(rollout, batches=[*rollout.batches[:-1], unsent])


def some_seen(chance: random.Random, stages: int, was: Seen) -> Seen:
    """What a cluster says next, in which nodes, pods and DaemonSets come and go; now and then it says nothing, or half of it."""
    names = [f"s{stage}-n{number}" for stage in range(stages + 1) for number in range(3)]
    old = was.nodes or dict.fromkeys(names, True)
    nodes = dict(old) | {name: chance.choices([True, False, None], [80, 15, 5])[0] for name in names if chance.random() < 0.1}
    pods = (
        {each: set(names) for each in AGENTS} if was.daemon_sets is None else {each: set(there) for each, there in was.daemon_sets.items()}
    )
    for there in pods.values():
        there ^= {name for name in names if chance.random() < (0.03 if name in there else 0.5)}
    kept = {each: there for each, there in pods.items() if chance.random() < 0.99}
    pending = {"shop": chance.choices([2, 1, 3], [90, 5, 5])[0]} if chance.random() < 0.95 else {}
    said = Seen({name: ready for name, ready in nodes.items() if chance.random() < 0.98}, kept, pending)
    silent = [said, said._replace(nodes=None), said._replace(daemon_sets=None), said._replace(unschedulable=None)]
    return chance.choices(silent, [85, 5, 5, 5])[0]


def test_no_stage_opens_and_nothing_ends_while_what_the_one_before_it_reached_is_worse_than_it_was_or_not_known() -> None:
    told = Counter[str]()
    for seed in range(600):
        chance = random.Random(seed)
        stages = chance.randint(1, 3)
        rollout, now = a_rollout_of(stages, chance.randint(1, 2), chance.choice([0, 120])), NOW
        seen: dict[str, Seen] = dict.fromkeys(rollout.clusters, Seen())
        for number in range(60):
            seen = {cluster: some_seen(chance, stages, was) for cluster, was in seen.items()}
            facts = Facts({batch.action: Fact(batch.at) for batch in rollout.batches}, looked=frozenset(seen))
            there = {batch.cluster for batch in rollout.batches}
            if rollout.batches:
                health = looked(rollout, members(rollout), {name: seen[name] for name in there}, now)
                rollout = structs.replace(rollout, health=health)
            decision = decide(rollout, facts, now)
            told[getattr(decision, "reason", type(decision).__name__)] += 1
            if isinstance(decision, Open | Done):
                as_well_as_before(rollout, seen)
            if isinstance(decision, Stop):
                found = next(each for each in (rollout.health.nodes, rollout.health.daemon_sets, rollout.health.pods) if each.turned)
                assert all(now - found.suspects[where] >= AGAIN for where in found.turned)
            rollout = after(rollout, decision, facts, now, f"a{number}")
            if isinstance(decision, Open):
                rollout = opened(rollout, seen[decision.cluster])
            if rollout.phase != "running":
                break
            now += timedelta(seconds=chance.choice([1, 20, 60]))
    reasons = {"NodesNotReady", "DaemonSetsUnavailable", "PodsUnschedulable", "HealthUnknown", "ClusterBehind", "Soaking"}
    assert {"Open", "Done", *reasons} <= set(told)


def as_well_as_before(rollout: Progress, seen: Mapping[str, Seen]) -> None:
    """What must be so of whatever has the change newest, where more is to get it."""
    newest = max((batch.stage for batch in rollout.batches), default=-1)
    batches = [batch for batch in rollout.batches if batch.stage == newest and not batch.unsent]
    whole = [batch for batch in batches if seen[batch.cluster].whole]
    if len(whole) < len(batches):
        assert any((seen[batch.cluster].nodes or {}).get(name) for batch in whole for name in members(rollout)[batch.action])
    for batch in whole:
        before, now, names = batch.before, seen[batch.cluster], members(rollout)[batch.action]
        assert before is not None
        assert now.nodes is not None
        assert now.daemon_sets is not None
        assert now.unschedulable is not None
        for place, name in enumerate(names):
            if name not in before.others and name in now.nodes:
                assert now.nodes[name], f"{name} was not known to be Ready, and more opened"
            for each, bits in before.daemon_sets.items():
                had = bits == "*" or int(bits, 16) & 1 << place
                if had and name in now.nodes and each in now.daemon_sets:
                    assert name in now.daemon_sets[each], f"{each} has no pod on {name}, and more opened"
        assert before.unschedulable is not None
        first = next(each.before for each in rollout.batches if (each.stage, each.cluster) == (newest, batch.cluster) and each.before)
        for namespace, count in now.unschedulable.items():
            assert count <= (first.unschedulable or {}).get(namespace, 0), f"more pods of {namespace} are unschedulable, and more opened"


def test_what_is_kept_of_a_look_survives_a_restart_and_what_counts_is_the_time_between_two_looks() -> None:
    rollout = opened(after(a_rollout_of(1, 1, 600), Open(0, "c0", 0, 3), Facts(), NOW, "a1"), healthy())
    down = {"c0": healthy()._replace(nodes={"s0-n0": False, "s0-n1": True, "s0-n2": True})}
    once = looked(rollout, members(rollout), down, NOW)
    assert once == Health(nodes=Doubts({"c0/s0-n0": NOW}))
    again = structs.replace(rollout, health=once)
    assert looked(again, members(rollout), down, NOW + timedelta(seconds=5)).nodes.turned == []
    assert looked(again, members(rollout), down, NOW + AGAIN).nodes.turned == ["c0/s0-n0"]
    silent = looked(again, members(rollout), {"c0": Seen()}, NOW + AGAIN)
    assert (silent.nodes.turned, silent.nodes.suspects) == ([], once.nodes.suspects)


def healthy() -> Seen:
    names = ("s0-n0", "s0-n1", "s0-n2")
    return Seen(dict.fromkeys(names, True), dict.fromkeys(AGENTS, names), {"shop": 2})


@pytest.mark.parametrize(
    ("worse", "kept"),
    [
        (
            {"daemon_sets": {AGENTS[0]: ["s0-n0", "s0-n1"], AGENTS[1]: ["s0-n0", "s0-n1", "s0-n2"]}},
            ("daemon_sets", "c0/s0-n2 kube-system/cni"),
        ),
        ({"unschedulable": {"shop": 3}}, ("pods", "c0/shop")),
        ({"unschedulable": {"shop": 0, "bank": 1}}, ("pods", "c0/bank")),
    ],
)
def test_what_is_worse_than_before_is_in_doubt_at_one_look_and_has_turned_at_two(worse: dict[str, Any], kept: tuple[str, str]) -> None:
    rollout = opened(after(a_rollout_of(1, 1, 600), Open(0, "c0", 0, 3), Facts(), NOW, "a1"), healthy())
    kind, where = kept
    for seconds, turned in ((0, []), (30, [where]), (60, [where])):
        rollout = structs.replace(
            rollout, health=looked(rollout, members(rollout), {"c0": healthy()._replace(**worse)}, NOW + timedelta(seconds=seconds))
        )
        doubts: Doubts = getattr(rollout.health, kind)
        assert (doubts.suspects, doubts.turned) == ({where: NOW}, turned)
    assert looked(rollout, members(rollout), {"c0": healthy()}, NOW + timedelta(seconds=90)) == Health()


@pytest.mark.parametrize(
    "no_worse",
    [
        {"daemon_sets": {AGENTS[0]: ["s0-n0", "s0-n1", "s0-n2"]}},
        {"daemon_sets": {}},
        {"nodes": {"s0-n0": True, "s0-n1": True}, "daemon_sets": {each: ["s0-n0", "s0-n1"] for each in AGENTS}},
        {"unschedulable": {}},
        {"unschedulable": {"shop": 2}},
    ],
    ids=["a DaemonSet is gone", "all are gone", "a node is gone", "all pods are scheduled", "as many as before"],
)
def test_what_is_gone_and_what_is_no_worse_is_in_no_doubt(no_worse: dict[str, Any]) -> None:
    rollout = opened(after(a_rollout_of(1, 1, 600), Open(0, "c0", 0, 3), Facts(), NOW, "a1"), healthy())
    assert looked(rollout, members(rollout), {"c0": healthy()._replace(**no_worse)}, NOW) == Health()


def test_what_was_not_available_before_is_nobodys_harm() -> None:
    before = healthy()._replace(daemon_sets={AGENTS[0]: ["s0-n1"], AGENTS[1]: []})
    rollout = opened(after(a_rollout_of(1, 1, 600), Open(0, "c0", 0, 3), Facts(), NOW, "a1"), before)
    assert rollout.batches[0].before == Baseline(others=[], unknown=[], daemon_sets={AGENTS[0]: "2"}, unschedulable={"shop": 2})
    assert looked(rollout, members(rollout), {"c0": before}, NOW) == Health()
    worse = before._replace(daemon_sets={AGENTS[0]: [], AGENTS[1]: []})
    assert list(looked(rollout, members(rollout), {"c0": worse}, NOW).daemon_sets.suspects) == ["c0/s0-n1 kube-system/cni"]


def test_the_second_batch_of_a_stage_is_measured_by_how_many_pods_waited_before_the_first() -> None:
    rollout = after(a_rollout_of(1, 1, 600), Open(0, "c0", 0, 2), Facts(), NOW, "a1")
    rollout = after(opened(rollout, healthy()), Open(0, "c0", 2, 1), Facts(), NOW, "a2")
    rollout = opened(rollout, healthy()._replace(unschedulable={"shop": 9}))
    found = looked(rollout, members(rollout), {"c0": healthy()._replace(unschedulable={"shop": 5})}, NOW)
    assert list(found.pods.suspects) == ["c0/shop"]


def test_of_very_much_that_is_in_doubt_a_part_is_kept_and_what_lasts_of_it_stops_the_rollout() -> None:
    rollout = structs.replace(a_rollout_of(1, 1, 600), placed={"c0": [5000, 0]})
    rollout = after(rollout, Open(0, "c0", 0, 5000), Facts(), NOW, "a1")
    names = {"a1": [f"n{number}" for number in range(5000)]}
    before = Seen(dict.fromkeys(names["a1"], True), {AGENTS[0]: names["a1"]}, {})
    rollout = structs.replace(rollout, batches=[structs.replace(rollout.batches[0], before=baseline(names["a1"], before))])
    assert rollout.batches[0].before is not None
    assert rollout.batches[0].before.daemon_sets == {AGENTS[0]: "*"}
    for seconds in (0, 60):
        found = looked(rollout, names, {"c0": before._replace(daemon_sets={AGENTS[0]: []})}, NOW + timedelta(seconds=seconds))
        rollout = structs.replace(rollout, health=found)
    assert len(rollout.health.daemon_sets.suspects) == KEPT
    assert isinstance(decide(rollout, Facts(), NOW), Stop)


@pytest.mark.parametrize(("reason", "ends"), [("Forbidden", False), ("", True)])
def test_a_cluster_that_will_not_say_how_it_is_holds_the_end_and_one_that_is_away_does_not(reason: str, ends: bool) -> None:
    rollout = a_rollout_of(1, 2, 0)
    away = Fact(NOW, behind=True, reason=reason, message="did not say how many pods can't be scheduled")
    for stage in (0, 1):
        for cluster in ("c0", "c1"):
            decision = decide(rollout, Facts({batch.action: Fact(NOW) for batch in rollout.batches}), NOW)
            assert decision == Open(stage, cluster, 0, 3)
            rollout = after(rollout, decision, Facts(), NOW, f"{stage}{cluster}")
            rollout = opened(rollout, healthy() if cluster == "c0" else Seen())
            if rollout.batches[-1].unsent:
                last = structs.replace(rollout.batches[-1], fact=away)
                rollout = structs.replace(rollout, batches=[*rollout.batches[:-1], last])
    facts = Facts({batch.action: Fact(NOW) for batch in rollout.batches})
    decision = decide(rollout, facts, NOW)
    assert isinstance(decision, Done if ends else Wait)
    if isinstance(decision, Wait):
        assert (decision.reason, decision.message) == (
            "ClusterBehind",
            "all else is through; c1 did not say how many pods can't be scheduled, and got nothing",
        )
        assert decide(given(rollout, Said("retry", "ada", NOW)), facts, NOW) == Open(0, "c1", 0, 3)


def test_a_batch_that_was_opened_without_a_look_may_not_pass_before_there_was_one() -> None:
    rollout = after(a_rollout_of(1, 1, 0), Open(0, "c0", 0, 3), Facts(), NOW, "a1")
    ended = Facts({"a1": Fact(NOW)}, looked=frozenset())
    decision = decide(rollout, ended, NOW)
    assert isinstance(decision, Wait)
    assert decision.reason == "HealthUnknown"


# --- a rollout that takes the place of another


def takes_its_place(fleet: Rolling, *stages: Mapping[str, Any], **spec: Any) -> None:
    fleet.commits(a_policy("tiers", {}, {"tier": f"newer-{fleet.now:%H%M}", "lane": "fast"}), a_rollout(*stages, **spec), adopted=False)
    fleet.starts(supersede=True)


def test_harm_that_a_rollout_did_is_no_baseline_of_the_one_that_takes_its_place(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.starts()
    fleet.cluster.set_ready("n0", False)
    fleet.cluster.set_daemon_set("n1", CNI, False)
    fleet.cluster.set_unschedulable("shop", 3)
    takes_its_place(fleet, SOME, health=ALL_OF_IT)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "NodesNotReady")
    health = fleet.world.rollouts.get(fleet.rollout).health
    assert [each.turned for each in (health.nodes, health.daemon_sets, health.pods)] == [
        ["default/n0"],
        ["default/n1 kube-system/cni"],
        ["default/shop"],
    ]


def test_what_was_so_before_the_first_of_several_rollouts_is_what_counts_and_what_joins_is_looked_at_now(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.cluster.set_ready("n1", False)
    fleet.starts()
    fleet.cluster.set_daemon_set("n0", CNI, False)
    takes_its_place(fleet, CANARY | {"approval": "before"}, health=ALL_OF_IT)  # it never opens
    takes_its_place(fleet, {"name": "more", "nodes": {"names": ["n5"]}, "soak": "10m"}, health=ALL_OF_IT)
    (batch,) = fleet.world.rollouts.get(fleet.rollout).batches
    names = fleet.world.rollouts.members(fleet.world.rollouts.get(fleet.rollout), batch)
    assert sorted(names) == ["n0", "n1", "n2", "n5"]
    assert batch.before is not None
    assert (list(batch.before.others), batch.before.daemon_sets) == (["n1"], {CNI: "*"})
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "DaemonSetsUnavailable")


def test_a_rollout_that_takes_the_place_of_an_aborted_one_goes_by_what_was_before_that(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.starts()
    fleet.cluster.set_ready("n0", False)
    fleet.says("abort")
    fleet.commits(a_policy("tiers", {}, {"tier": "newest", "lane": "fast"}), a_rollout(SOME), adopted=False)
    fleet.starts()
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("stopped", "NodesNotReady")


def test_after_a_rollout_was_taken_back_what_there_is_counts_again(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    fleet.starts()
    fleet.says("revert")
    fleet.cluster.set_ready("n0", False)
    fleet.commits(a_policy("tiers", {}, {"tier": "newest", "lane": "fast"}), a_rollout(SOME), adopted=False)
    fleet.starts()
    fleet.later(minutes=5)
    fleet.later(minutes=5)
    assert fleet.status.phase == "done"


def test_what_nobody_can_read_any_more_of_the_rollout_before_is_not_known(fleet: Rolling) -> None:
    with_pods(fleet, SOME)
    first = fleet.starts()
    fleet.cluster.set_ready("n0", False)
    states = [key for key in fleet.world.store.keys(f"rollouts/{first.id}/") if key.count("/") == 2]
    fleet.world.store.create(f"rollouts/{first.id}/{len(states) + 1:06}.json", b"{")
    takes_its_place(fleet, SOME)
    fleet.later(minutes=1)
    assert (fleet.status.phase, fleet.status.reason) == ("running", "HealthUnknown")
    assert fleet.status.message == "stage some: it is not known whether default/n0 may be called Ready"


@hypothesis.given(st.data())
@settings(max_examples=200, deadline=None)
def test_whatever_rollouts_follow_each_other_each_node_is_measured_by_how_it_was_before_the_first_that_reached_it(
    data: st.DataObject,
) -> None:
    names = [f"n{number}" for number in range(6)]
    truth, before = dict[str, tuple[bool | None, bool]](), list[Progress]()
    for number in range(data.draw(st.integers(1, 4))):
        reached = [name for name in names if name in truth] + data.draw(
            st.lists(st.sampled_from([n for n in names if n not in truth]), unique=True) if len(truth) < 6 else st.just([])
        )
        reached = reached if data.draw(st.booleans()) else []  # one that never opens
        ready = {name: data.draw(st.sampled_from([True, False, None])) for name in names}
        pods = {name for name in names if data.draw(st.booleans())}
        pending = data.draw(st.integers(0, 3))
        seen = Seen(ready, {CNI: pods}, {"shop": pending} if pending else {})
        members = {batch.action: list(names_of(batch)) for rollout in before for batch in rollout.batches}
        known = baseline(reached, seen, inherited("c0", reversed(before), members))
        for name in reached:
            truth.setdefault(name, (ready[name], name in pods))
        expected = {name: truth[name] for name in reached}
        assert {name for name, (was, _) in expected.items() if was is False} == set(known.others)
        assert {name for name, (was, _) in expected.items() if was is None} == set(known.unknown)
        bits = known.daemon_sets.get(CNI, "0")
        assert [name for place, name in enumerate(reached) if bits == "*" or int(bits, 16) >> place & 1] == [
            name for name in reached if truth[name][1]
        ]
        if reached:
            first = next((rollout.batches[0].before for rollout in before if rollout.batches), known)
            assert first is not None
            assert known.unschedulable == first.unschedulable
        rollout = a_rollout_of(1, 1, 0)
        opened_by = [Batch(0, "c0", 0, len(reached), "+".join([f"a{number}", *reached]), NOW, before=known)] if reached else []
        before.append(structs.replace(rollout, id=f"r{number}", batches=opened_by))


def names_of(batch: Batch) -> Sequence[str]:
    return batch.action.split("+")[1:]
