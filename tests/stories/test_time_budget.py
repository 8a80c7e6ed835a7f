"""A function that stops before it is cut off: what was done stays, what was not reached goes on, and every part ends once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from functions.relabel_request.main import handle as plan
from functions.result_rollup.main import SOURCE, bury
from functions.version_apply.main import carry_out
from shared.domain.actions import action_id
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.messages import Delivery, NodeApply, Outgoing, RelabelRequest
from shared.ports import Unavailable
from tests.stories.fleet import START, Fleet, a_policy

WRITES = "apply_labels"


@pytest.fixture
def slow() -> Fleet:
    """A cluster of eight nodes in which every write takes 40 seconds of the 90 that a part has."""
    fleet = Fleet()
    fleet.commits(a_policy("all", {"matchLabels": {"zone": "a"}}, {"rack": "r1"}))
    fleet.has_nodes(**{f"n{number}": {"zone": "a"} for number in range(8)})
    passes(fleet, {WRITES: 40})
    return fleet


def passes(fleet: Fleet, seconds: dict[str, float]) -> list[tuple[str, str]]:
    """Let calls of the cluster take time; the calls that were made."""
    calls: list[tuple[str, str]] = []
    clock = [0.0]
    fleet.world.monotonic = lambda: clock[0]

    def before(call: str, node: str) -> None:
        calls.append((call, node))
        clock[0] += seconds.get(call, 0)

    fleet.cluster.before = before
    return calls


@contextmanager
def parts_of(fleet: Fleet, at_most: int = 100) -> Iterator[list[NodeApply]]:
    """The parts that are published meanwhile; those beyond `at_most` get lost."""
    publish, sent = fleet.cloud.publish, list[NodeApply]()

    def seen(topic: str, messages: list[Outgoing]) -> None:
        sent.extend(NodeApply.parse(each.data) for each in messages if topic == NodeApply.TOPIC)
        if topic != NodeApply.TOPIC or len(sent) <= at_most:
            publish(topic, messages)

    fleet.cloud.publish = seen  # type: ignore[method-assign, assignment]
    yield sent
    fleet.cloud.publish = publish  # type: ignore[method-assign]


def test_a_part_goes_on_in_another_message_and_writes_each_node_once(slow: Fleet) -> None:
    calls = passes(slow, {WRITES: 40})
    with parts_of(slow) as parts:
        action = slow.relabels()
    assert slow.ended(action).counts == {"changed": 8}
    assert sorted(node for call, node in calls if call == WRITES) == [f"n{number}" for number in range(8)]
    assert [sum(node.settled is not None for node in part.nodes) for part in parts] == [0, 3, 6]
    assert slow.world.actions.recorded(action) == {1}


def test_a_message_that_goes_on_twice_ends_the_same(slow: Fleet) -> None:
    with parts_of(slow) as parts:
        action = slow.relabels()
    before = slow.ended(action)
    slow.cloud.publish(NodeApply.TOPIC, [parts[1].outgoing()])
    slow.cloud.drain()
    assert slow.ended(action) == before


def stops_at_the_first_write(slow: Fleet, action: str) -> None:
    timed = slow.cluster.before

    def stops(call: str, node: str) -> None:
        timed(call, node)
        if call == WRITES and not slow.world.actions.stopped(action):
            slow.world.actions.control(action, "stop", "an operator", START)

    slow.cluster.before = stops


def test_an_action_that_is_stopped_meanwhile_keeps_what_was_done(slow: Fleet) -> None:
    action = slow.sends(name="update_site")
    stops_at_the_first_write(slow, action)
    slow.cloud.drain()
    assert slow.ended(action).counts == {"changed": 3, "stopped": 5}


def test_the_nodes_that_a_stopped_action_had_reached_keep_its_release_and_the_others_do_not(slow: Fleet) -> None:
    newer = slow.commits(a_policy("all", {"matchLabels": {"zone": "a"}}, {"rack": "r2"}), adopted=False)
    action = slow.sends(name="update_site")
    stops_at_the_first_write(slow, action)
    slow.cloud.drain()
    reached = {told.subject for told in slow.ended(action).outcomes if told.outcome == "changed"}
    released = slow.world.releases.head("default")
    assert len(reached) == 3
    assert {name for name in (f"n{number}" for number in range(8)) if released.mark(name).revision == newer} == reached
    assert released.mark("one that joins later").revision == newer - 1


def test_what_is_released_meanwhile_is_applied_to_all_nodes(slow: Fleet) -> None:
    action = slow.sends(name="update_site")
    written: list[str] = []
    timed = slow.cluster.before

    def commits(call: str, node: str) -> None:
        timed(call, node)
        written.extend([node] if call == WRITES else [])
        if len(written) == 5 and call == WRITES:
            slow.commits(a_policy("all", {"matchLabels": {"zone": "a"}}, {"rack": "r2"}))

    slow.cluster.before = commits
    slow.cloud.drain()
    assert slow.ended(action).counts == {"changed": 8}
    assert {slow.labels(f"n{number}")["rack"] for number in range(8)} == {"r2"}


def test_a_part_whose_action_has_ended_does_not_go_on(slow: Fleet) -> None:
    with parts_of(slow) as parts:
        slow.relabels()
    calls = passes(slow, {})
    slow.cloud.publish(NodeApply.TOPIC, [parts[1].outgoing()])
    slow.cloud.drain()
    assert calls == []


def test_what_was_done_by_a_part_that_is_given_up_stays_done(slow: Fleet) -> None:
    with parts_of(slow, at_most=1) as parts:
        action = slow.relabels()
    dead = Delivery("1", parts[1].outgoing().data, {"type": "NodeApply", SOURCE: "node-applies--node_apply"})
    bury(dead, slow.world, START)
    assert slow.ended(action).counts == {"changed": 3, "failed": 5}


def test_a_listing_that_does_not_end_in_time_ends_the_request_with_its_cause() -> None:
    fleet = Fleet()
    fleet.commits(a_policy("all", {"matchLabels": {"zone": "a"}}, {"rack": "r1"}))
    given: list[float] = []

    class Slow:
        """The cluster, as one that is limited."""

        owner = fleet.cluster.owner

        def within(self, left: object, tries: int = 5) -> Slow:
            given.append(left())  # type: ignore[operator]
            return self

        def server_version(self) -> str:
            raise Unavailable("GET /version: not sent, no time was left")

    fleet.world.open_cluster = lambda _access, _name: Slow()  # type: ignore[assignment, return-value]
    request = RelabelRequest(name="update_site")
    action = action_id("1", START)
    plan(request, action, fleet.world, START, last=True)
    fleet.cloud.drain()
    assert fleet.ended(action).message == "GET /version: not sent, no time was left"
    assert 80 < min(given) <= max(given) <= 90


class Provider:
    """A fleet in which the first step takes all the time."""

    def __init__(self) -> None:
        self.left = 90.0
        self.asked: list[str] = []

    def apply(self, _cluster: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        self.asked += [] if dry_run else [step.key]
        self.left -= 50
        return True


def test_a_step_that_its_time_does_not_reach_is_not_begun() -> None:
    provider = Provider()
    steps = [VersionStep("controlPlane", "kubernetes", "1.30.1", "1.30.2"), VersionStep("worker/a", "kubernetes", "1.30.1", "1.30.2")]
    cluster = FleetCluster("garden/one", kubernetes="1.30.1")
    outcomes = list(carry_out(steps, provider, cluster, lambda: provider.left))  # type: ignore[arg-type]
    assert [(each.outcome, each.reason, each.retryable) for each in outcomes] == [
        ("changed", "", False),
        ("failed", "TimeBudgetSpent", True),
    ]
    assert provider.asked == [steps[0].key]
