"""No schedule of messages and faults breaks a relabel: people and other processes act in between, at every single call.

An action ends exactly once with the right counts; what we own on a node is what the newest revision declares; no label of others
changes; nothing is left waiting. What may happen to any story is in test_matrix.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.domain import actions
from shared.messages import NodeChanged, Outgoing
from shared.ports import Unavailable
from shared.work.control import control
from tests.faults.harness import ACTION, SECOND, WRITES, Call, Fault, Finding, Interference, Site, applies, at, inflict
from tests.faults.site import LABELS_1, LABELS_2, OUTCOMES_1, REVISION_2, a_site
from tests.faults.tally import EVERYTHING, TALLY, thinned


def undisturbed() -> Site:
    world = a_site(Site())
    world.ask()
    world.drain()
    return world


def right(found: Finding, world: Site, labels: dict[str, dict[str, str]] = LABELS_1, *ended: str) -> None:
    """The invariants of a run that faults must not have changed."""
    world.ended_once(found, *(ended or (ACTION,)))
    for name, wanted in labels.items():
        found.expect(world.labels()[name] == wanted, f"{name} has {world.labels()[name]}, not {wanted}")


def told_of_each(found: Finding, world: Site) -> None:
    outcome = world.untouched.actions.outcome(ACTION)
    if outcome:
        told = {one.subject: one.outcome for one in outcome.outcomes} | dict.fromkeys(outcome.unchanged, "unchanged")
        found.expect(told == OUTCOMES_1, f"told {told}")
        found.expect(outcome.counts == {"changed": 5, "missing": 1, "unchanged": 1}, f"counted {outcome.counts}")
        found.expect(outcome.result == "partial_success", f"ended {outcome.result}")
        found.expect(world.untouched.revisions.tags(1) == ["committed", "site-action-failure"], f"tags {world.untouched.revisions.tags(1)}")


def every(kind: str, schedules: list[tuple[str, Callable[[Finding], Site]]]) -> None:
    """Run each (one in seven of them by default); fail with every schedule that broke something."""
    broken = []
    schedules = [*thinned(schedules, 7)]
    for name, run in schedules:
        found = Finding()
        world = run(found)
        TALLY.count(kind, name)
        if found.broken:
            broken.append(f"{name} ({world.deaths} deaths): " + "; ".join(found.broken))
    assert not broken, f"{len(broken)} of {len(schedules)} schedules:\n" + "\n".join(broken[:20])


def numbered(calls: list[Call]) -> list[Call]:
    assert len(calls) > 40, "the run is shorter than it can be: is anything watched?"
    return calls


def test_without_faults_the_site_is_brought_to_its_documents() -> None:
    world, found = undisturbed(), Finding()
    right(found, world)
    told_of_each(found, world)
    assert not found.broken


def meanwhile(number: int, act: Callable[[Site], None], then: Fault | None = None) -> Interference:
    """Somebody else acts before call `number`; then the call is made, or goes wrong."""

    def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number != number:
            return do()
        mine, world.calls = world.calls, []  # what others call is not numbered
        world._interfere = None
        act(world)
        world.calls, world._interfere = mine, interfere
        return inflict(then, world, call, do) if then else do()

    return interfere


@pytest.mark.parametrize("then", [None, Fault.dies_before, Fault.dies_after])
@pytest.mark.parametrize("only", ["", SECOND], ids=["all", "second-only"])
def test_a_newer_revision_applied_in_between_is_never_undone(only: str, then: Fault | None) -> None:
    def others(world: Site) -> None:
        world.commit(REVISION_2)
        world.ask(SECOND)
        world.drain(only)

    def run(call: Call) -> Callable[[Finding], Site]:
        def one(found: Finding) -> Site:
            world = a_site(Site(interfere=meanwhile(call.number, others, then)))
            world.ask()
            world.drain()
            right(found, world, LABELS_2, ACTION, SECOND)
            return world

        return one

    calls = [call for call in numbered(undisturbed().calls) if then is None or applies(then, call)]
    every("newer revision", [(f"revision 2 before {call}, then {then}", run(call)) for call in calls])


def test_every_message_may_be_handled_twice_at_the_same_time() -> None:
    def run(call: Call) -> Callable[[Finding], Site]:
        def one(found: Finding) -> Site:
            world = a_site(Site(interfere=meanwhile(call.number, Site.drain), copies=lambda: 1))
            world.ask()
            world.drain()
            right(found, world)
            told_of_each(found, world)
            return world

        return one

    world = a_site(Site(copies=lambda: 1))
    world.ask()
    world.drain()
    every("twice at once", [(f"copies before {call}", run(call)) for call in numbered(world.calls)])


def test_an_action_may_be_stopped_before_every_single_call() -> None:
    def stop(world: Site) -> None:
        if world.untouched.actions.find(ACTION) and not world.untouched.actions.outcome(ACTION):
            control(ACTION, "stop", "test", world.untouched, world.now())

    def run(call: Call) -> Callable[[Finding], Site]:
        def one(found: Finding) -> Site:
            world = a_site(Site(interfere=meanwhile(call.number, stop)))
            world.ask()
            world.drain()
            world.ended_once(found, ACTION)
            ended = world.outcome()
            stopped = {o.subject for o in ended.outcomes if o.outcome == "stopped"}
            found.expect((ended.result == "stopped") == bool(stopped), f"{ended.result} with {stopped} stopped")
            before = undisturbed_before
            for name, labels in world.labels().items():
                wanted = before[name] if name in stopped else LABELS_1[name]
                found.expect(labels == wanted, f"{name} has {labels}, not {wanted}")
                revision, _ = world.judge.mark("default", name)
                may_be = (
                    {0} if name in stopped else {0, 1} if name == "a-true" else {1}
                )  # one in sync may be told before anything is released
                found.expect(revision in may_be, f"{name} is released revision {revision}")
            return world

        return one

    undisturbed_before = a_site(Site()).labels()
    every("stopped", [(f"stop before {call}", run(call)) for call in numbered(undisturbed().calls)])


def test_an_action_may_be_paused_and_go_on_at_every_single_call() -> None:
    def pause(world: Site) -> None:
        if world.untouched.actions.find(ACTION) and not world.untouched.actions.outcome(ACTION):
            control(ACTION, "pause", "test", world.untouched, world.now())

    def go_on(world: Site) -> None:
        if world.untouched.actions.find(ACTION) and world.untouched.actions.paused(ACTION) and not world.untouched.actions.outcome(ACTION):
            control(ACTION, "unpause", "test", world.untouched, world.now())

    def both(first: int, later: int) -> Interference:
        def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
            if call.number == first:
                pause(world)
            if call.number == later:
                go_on(world)
            return do()

        return interfere

    def run(first: int, later: int) -> Callable[[Finding], Site]:
        def one(found: Finding) -> Site:
            world = a_site(Site(interfere=both(first, later)))
            world.ask()
            world.drain()
            go_on(world)
            world.drain()
            right(found, world)
            told_of_each(found, world)
            return world

        return one

    count = len(numbered(undisturbed().calls))
    pairs = [(first, later) for first in range(1, count + 1) for later in (*range(first + 1, count + 1, 7), count + 100)]
    every("paused", [(f"pause before call {first}, unpause before {later}", run(first, later)) for first, later in pairs])


@pytest.mark.parametrize("later", [0.0, 4000.0], ids=["in time", "after the deadline"])
def test_the_clock_may_sweep_before_every_single_call(later: float) -> None:
    def sweep(world: Site) -> None:
        waiting, world._queue = world._queue, []  # the sweep is all that is delivered now
        world.sweep(later)
        world._queue = [*waiting, *world._queue]

    def run(call: Call) -> Callable[[Finding], Site]:
        def one(found: Finding) -> Site:
            world = a_site(Site(interfere=meanwhile(call.number, sweep)))
            world.ask()
            world.drain()
            if not later:
                right(found, world)
                told_of_each(found, world)
                return world
            world.ended_once(found, ACTION)
            found.expect(world.outcome().result in ("expired", "partial_success"), f"ended {world.outcome().result}")
            for name, labels in world.labels().items():
                found.expect(labels in (LABELS_1[name], begin[name]), f"{name} has {labels}")
            return world

        return one

    begin = a_site(Site()).labels()
    every("swept", [(f"sweep before {call}", run(call)) for call in numbered(undisturbed().calls)])


@pytest.mark.parametrize("fault", [Fault.dies_before, Fault.dies_after])
def test_a_request_without_an_id_is_one_action_however_often_it_is_delivered(fault: Fault) -> None:
    def asked(interfere: Interference | None = None) -> Site:
        world = a_site(Site(interfere=interfere))
        world.publish("relabel-requests", [Outgoing(b'{"name": "update_site", "adopt": true}')])
        world.drain()
        return world

    def run(call: Call) -> Callable[[Finding], Site]:
        def one(found: Finding) -> Site:
            world = asked(at(call.number, fault))
            actions = world.untouched.actions.ids()
            found.expect(len(actions) == 1, f"actions {actions}")
            right(found, world, LABELS_1, *actions)
            return world

        return one

    calls = [call for call in numbered(asked().calls) if applies(fault, call)]
    every("no id", [(f"{fault.name} at {call}", run(call)) for call in calls])


def repaired(interfere: Interference | None = None) -> Site:
    """The site brought to revision 1; then somebody changes a label of ours, and an event tells."""
    world = undisturbed()
    world.nodes.set_labels("b-new", {"ex.io/rack": "moved"}, "someone")
    world.calls, world._interfere = [], interfere
    world.publish(NodeChanged.TOPIC, [NodeChanged(name="b-new", kind="changed").outgoing()])
    world.drain()
    return world


def test_a_repair_never_undoes_a_newer_revision_applied_in_between() -> None:
    def others(world: Site) -> None:
        world.commit(REVISION_2)
        world.ask(SECOND)
        world.drain()

    def run(call: Call) -> Callable[[Finding], Site]:
        def one(found: Finding) -> Site:
            world = repaired(meanwhile(call.number, others))
            right(found, world, LABELS_2, ACTION, SECOND)
            return world

        return one

    every("drift", [(f"revision 2 before {call}", run(call)) for call in repaired().calls])


def test_a_retry_asks_again_for_the_nodes_that_failed_and_no_others() -> None:
    down = {"b-new", "e-pruned"}

    def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.method == "apply_labels" and call.argument in down:
            raise Unavailable("connection refused")
        return do()

    world = a_site(Site(interfere=interfere))
    world.ask()
    world.drain()
    failed = world.outcome().unsuccessful
    assert failed == ["b-new", "e-pruned", "g-gone"]
    down.clear()
    before = len(world.calls)
    world.ask(SECOND, name="update_labels", target_nodes=failed, retry_of=ACTION)
    world.drain()
    assert {o.subject: o.outcome for o in world.outcome(SECOND).outcomes} == {
        "b-new": "changed",
        "e-pruned": "changed",
        "g-gone": "missing",
    }
    assert {call.argument for call in world.calls[before:] if call.method == "apply_labels"} == {"b-new", "e-pruned"}
    assert world.labels() == LABELS_1


def test_a_part_that_kills_its_process_every_time_becomes_recorded_failures_of_its_nodes() -> None:
    def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.method == "apply_labels" and call.argument == "b-new":
            world.die()
        return do()

    world = a_site(Site(interfere=interfere))
    world.ask()
    world.drain()
    outcome = world.outcome()
    failed = {o.subject: o.reason for o in outcome.outcomes if o.outcome == "failed"}
    assert failed == {"b-new": "DeadLettered", "c-drops": "DeadLettered"}
    assert outcome.result == "partial_success"
    assert [dead.step for dead in world.dead] == ["node_apply"]
    assert world.untouched.actions.open() == []


def test_an_api_server_that_stays_away_is_told_as_such_for_each_node() -> None:
    def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.method == "apply_labels":
            raise Unavailable("connection refused")
        return do()

    world = a_site(Site(interfere=interfere))
    world.ask()
    world.drain()
    told = {o.subject: (o.outcome, o.reason, o.retryable) for o in world.outcome().outcomes}
    assert told["b-new"] == ("failed", "Unavailable", True)
    assert told["g-gone"] == ("missing", "NodeNotFound", False)
    assert not world.dead


def test_an_action_whose_records_are_broken_does_not_keep_others_from_ending() -> None:
    world = a_site(Site(interfere=lambda world, call, do: world.die() if call.method == "nodes" else do()))
    world.ask(ACTION)
    world.ask(SECOND)
    world.drain()
    for action in (ACTION, SECOND):
        world.truth.delete(f"actions/{action}/outcome.json")
        world.truth.delete(f"actions/{action}/announced.json")
        world.truth.create(f"open-actions/{action}", b"2026-11-21T07:00:00+00:00")
    world.truth.create(f"actions/{ACTION}/plan.json", b"{")
    world.sweep(later=4000)
    torn = world.outcome(ACTION)
    assert (torn.result, torn.reason) == ("failure", "RecordUnreadable")
    assert f"actions/{ACTION}/plan.json" in torn.message
    assert world.outcome(SECOND).result == "expired"
    assert world.untouched.actions.open() == []


odds = st.sampled_from([0.0, 0.05, 0.2])


@settings(
    max_examples=150 if EVERYTHING else 20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(random=st.randoms(use_true_random=False), faulty=odds, doubled=odds, shuffled=st.booleans(), second=st.integers(0, 80))
def test_any_mixture_of_disorder_repeats_and_faults_ends_right(
    random: Any, faulty: float, doubled: float, shuffled: bool, second: int
) -> None:
    def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number == second:
            world.commit(REVISION_2)
            world.ask(SECOND)
        # Faults end in time: five deliveries of one message in a row that all fail are another story, told above.
        if world.elapsed < 0.3 and random.random() < faulty / 4:
            fault = random.choice(list(Fault))
            if applies(fault, call):
                return inflict(fault, world, call, do)
        return do()

    world = a_site(
        Site(
            interfere=interfere,
            pick=(lambda waiting: random.randrange(len(waiting))) if shuffled else None,
            copies=lambda: random.random() < doubled,
        )
    )
    world.ask()
    world.drain()
    found = Finding()
    if world.untouched.revisions.newest() == 2:
        right(found, world, LABELS_2, ACTION, SECOND)
    else:
        right(found, world)
        told_of_each(found, world)
    assert not found.broken


def test_ten_thousand_nodes_with_repeats_and_crashes_end_in_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 % of the messages come twice, 2 % of the deliveries die at some call, in any order."""
    import random as randomness

    random = randomness.Random(20261121)
    monkeypatch.setattr(actions, "PART_SIZE", 40)
    last_words: dict[str, int] = {"at": -1}

    def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
        if call.number == last_words["at"]:
            fault = random.choice([Fault.dies_before, Fault.dies_after])
            return inflict(fault if applies(fault, call) else Fault.dies_before, world, call, do)
        return do()

    class Mortal(Site):
        def _deliver(self, waiting: Any) -> None:
            last_words["at"] = len(self.calls) + random.randrange(1, 45) if random.random() < 0.02 else -1
            super()._deliver(waiting)

    world = Mortal(interfere=interfere, pick=lambda waiting: random.randrange(len(waiting)), copies=lambda: random.random() < 0.05)
    names = [f"node-{number:05}" for number in range(10_000)]
    for name in names:
        world.nodes.create(name, {"vendor.io/gpu": "a100"})
    document = "apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: all}\nspec: {labels: {ex.io/site: s1}}\n"
    world.commit(document)
    world.ask()
    world.drain()
    found = Finding()
    world.ended_once(found, ACTION)
    assert not found.broken
    assert (world.outcome().result, world.outcome().counts) == ("success", {"changed": 10_000})
    assert world.labels() == {name: {"vendor.io/gpu": "a100", "ex.io/site": "s1"} for name in names}
    assert world.deaths >= 3
    assert world.delivered > 520
    assert {call.method for call in world.calls} & WRITES == {"create", "delete", "publish", "apply_labels"}
