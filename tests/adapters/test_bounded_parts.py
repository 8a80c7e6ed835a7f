"""What a part asks of an API server that answers badly, over real HTTP: so many requests and so much time, and no more.

Time is counted, not waited for: the clock moves by the pauses that are taken, and by what the server says that an answer took.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest

from functions.node_apply.asking import IN_A_ROW
from functions.node_apply.main import handle
from shared.adapters.apiserver import TRIES, Access
from shared.adapters.kubernetes import Kubernetes
from shared.messages import LAST_ATTEMPT, NodeApply, NodeTask, Outcome, PartResult, TryAgain
from shared.ports import Cluster
from shared.world import World
from tests.adapters.test_apiserver import Answer, Scripted, node, says, status, truncated
from tests.stories.fleet import Fleet

IN_FLIGHT = 8
NODES = 24
AT_ONCE = (IN_FLIGHT - 1 + IN_A_ROW) * TRIES
"""Requests of one delivery where nothing answers: the nodes that fail in a row, and those in flight by then, each at most so often."""


class Part:
    """One part, delivered as Pub/Sub would until it ends, to a function whose cluster is a scripted server."""

    def __init__(self, server: Scripted, nodes: int = NODES, silence: float = 30, **settings: float) -> None:
        self.now = 0.0
        self._lock = threading.Lock()
        self.fleet = Fleet(in_flight=IN_FLIGHT, **settings)
        self.fleet.declares({"n0": {"rack": "r1"}})
        self.world: World = self.fleet.world
        self.world.monotonic = lambda: self.now
        self.cluster = Kubernetes(
            lambda: Access(server.url),
            in_flight=IN_FLIGHT,
            sleep=lambda seconds: self.passes(seconds / IN_FLIGHT),  # so many sleep at a time
            monotonic=lambda: self.now,
            jitter=lambda: 0.5,
            silence_seconds=silence,
        )
        self.world.open_cluster = lambda _access, _name: self.cluster
        tasks = [NodeTask(name=f"n{number}", uid="u1", labels={"rack": "r1"}) for number in range(nodes)]
        self.message = NodeApply(part=1, revision=1, nodes=tasks)
        self.deliveries: list[float] = []
        """How long each took."""

    def passes(self, seconds: float) -> None:
        with self._lock:
            self.now += seconds

    def delivered(self) -> dict[str, Outcome]:
        """What became of each node once the part ended."""
        published: list[tuple[str, bytes]] = []
        self.fleet.cloud.publish = lambda topic, messages: published.extend((topic, each.data) for each in messages)  # type: ignore[method-assign]
        while True:
            for attempt in range(1, LAST_ATTEMPT + 1):
                began = self.now
                try:
                    handle(self.message, self.world, last=attempt == LAST_ATTEMPT)
                except TryAgain:
                    self.deliveries.append(self.now - began)
                    continue
                self.deliveries.append(self.now - began)
                break
            topic, body = published.pop()
            assert not published
            if topic == PartResult.TOPIC:
                return {outcome.subject: outcome for outcome in PartResult.parse(body).outcomes}
            self.message = NodeApply.parse(body)


def takes(seconds: float, part: Callable[[], Part], answer: Answer) -> Answer:
    """The answer, after so much time of the clock that the part goes by."""

    def slow(handler: BaseHTTPRequestHandler) -> None:
        part().passes(seconds)
        answer(handler)

    return slow


def silent(handler: BaseHTTPRequestHandler) -> None:
    """Keep the connection, and say nothing until the other side gives it up."""
    handler.connection.recv(1)
    handler.close_connection = True


NEVER_ANSWERED: dict[str, Callable[[Callable[[], Part]], Answer]] = {
    "500 to everything": lambda _: status(500, "InternalError", "etcdserver: no leader"),
    "429 to everything": lambda _: status(429, "TooManyRequests", "slow down"),
    "bodies that break off": lambda _: truncated,
    "no word": lambda part: takes(30, part, silent),
}


@pytest.mark.parametrize("nodes", [NODES, 200])
@pytest.mark.parametrize("answers", NEVER_ANSWERED)
def test_a_server_that_answers_nothing_is_asked_so_often_whatever_the_number_of_nodes(answers: str, nodes: int) -> None:
    parts: list[Part] = []
    with Scripted(NEVER_ANSWERED[answers](lambda: parts[0])).running() as server:
        part = Part(server, nodes, silence=0.2 if answers == "no word" else 30)
        parts.append(part)
        outcomes = part.delivered()
        asked = len(server.requests)
        part.cluster.server.close()
    assert len(outcomes) == nodes
    assert {outcome.outcome for outcome in outcomes.values()} == {"failed"}
    assert all(outcome.retryable for outcome in outcomes.values())
    assert {outcome.reason for outcome in outcomes.values()} <= {"Unavailable", "NotTried", "TimeBudgetSpent"}
    assert len(part.deliveries) == LAST_ATTEMPT
    assert asked <= AT_ONCE * LAST_ATTEMPT
    # Nothing begins after three quarters of the timeout; the last step of the clock is one for each thread.
    assert max(part.deliveries) <= 90 + 30 * IN_FLIGHT


def test_what_was_not_tried_is_one_cause_with_a_number() -> None:
    with Scripted(status(500, "InternalError", "etcdserver: no leader")).running() as server:
        part = Part(server, 200)
        outcomes = part.delivered()
    untried = {outcome.message for outcome in outcomes.values() if outcome.reason == "NotTried"}
    (cause,) = untried
    number = sum(outcome.reason == "NotTried" for outcome in outcomes.values())
    assert number >= 200 - IN_A_ROW - IN_FLIGHT
    assert cause.startswith(
        f"{number} of 200 nodes were not tried, because {IN_A_ROW} in a row got no answer; the last: PATCH /api/v1/nodes/"
    )
    assert cause.endswith("500 etcdserver: no leader")


def test_after_the_first_wave_nobody_is_asked_twice() -> None:
    with Scripted(says(500)).running() as server:
        part = Part(server, 200)
        with pytest.raises(TryAgain):
            handle(part.message, part.world)
    asked = [path.partition("?")[0] for _, path, _, _ in server.requests]
    several = {path for path in asked if asked.count(path) > 1}
    assert len(several) <= IN_FLIGHT + 1
    assert len(asked) <= (IN_FLIGHT + 1) * TRIES + IN_FLIGHT + IN_A_ROW


def test_a_pool_whose_nodes_all_fail_keeps_nobody_else_from_being_labelled() -> None:
    """A webhook that hangs for one pool answers 500 for it, and the others are fine."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.rpartition("/")[2].partition("?")[0]
        says(500 if int(name[1:]) < 15 else 200, node(name))(handler)

    with Scripted(answer).running() as server:
        outcomes = Part(server, 60).delivered()
    assert {name for name, outcome in outcomes.items() if outcome.outcome != "changed"} == {f"n{number}" for number in range(15)}


def test_a_conflict_at_every_try_is_reread_a_few_times_at_each_delivery() -> None:
    with Scripted(status(409, "Conflict", "the object has been modified")).running() as server:
        outcomes = Part(server).delivered()
    assert {outcome.reason for outcome in outcomes.values()} == {"Stale"}
    assert len(server.requests) == NODES * 3 * LAST_ATTEMPT


def test_a_slow_server_gets_done_in_several_messages_and_no_node_is_written_twice() -> None:
    parts: list[Part] = []

    def slow(handler: BaseHTTPRequestHandler) -> None:
        parts[0].passes(1)
        says(200, node(handler.path.rpartition("/")[2].partition("?")[0]))(handler)

    with Scripted(slow).running() as server:
        part = Part(server, 200)
        parts.append(part)
        outcomes = part.delivered()
    assert {outcome.outcome for outcome in outcomes.values()} == {"changed"}
    assert len(outcomes) == 200
    assert len(part.deliveries) == 3
    written = [path for method, path, _, _ in server.requests if method == "PATCH"]
    assert len(written) - len(set(written)) <= (len(part.deliveries) - 1) * IN_FLIGHT  # those in flight when time ran out
    assert max(part.deliveries) <= 90 + IN_FLIGHT


def test_a_node_that_was_not_reached_at_the_last_delivery_has_failed_with_the_cause() -> None:
    parts: list[Part] = []
    with Scripted(takes(50, lambda: parts[0], silent)).running() as server:
        part = Part(server, silence=0.2)
        parts.append(part)
        outcomes = part.delivered()
        part.cluster.server.close()
    unreached = [outcome for outcome in outcomes.values() if outcome.reason == "TimeBudgetSpent"]
    assert unreached
    assert len({outcome.message for outcome in unreached}) == 1
    assert f"{len(unreached)} of {NODES} nodes were not reached in the time that a part has; the last: PATCH" in unreached[0].message
    assert "timed out" in unreached[0].message


def test_a_shorter_timeout_of_the_function_shortens_the_part() -> None:
    parts: list[Part] = []
    with Scripted(takes(1, lambda: parts[0], says(200, node()))).running() as server:
        part = Part(server, 40, timeout_seconds=20)
        parts.append(part)
        part.delivered()
    assert max(part.deliveries) <= 15 + IN_FLIGHT


def test_a_limited_cluster_shares_the_connections_and_ends_its_calls_in_time() -> None:
    with Scripted(says(200, node())).running() as server:
        part = Part(server)
        limited: Cluster = part.cluster.within(lambda: 5.0)
        part.cluster.node("n1")
        limited.node("n1")
        assert len(server.connections) == 1
