"""An answer comes in time whatever the API server and the store do, and node labels cost no read per binding."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from shared.domain.pods.copying import Additions, copying
from shared.ports import Refused, StoreError, Unavailable
from shared.work.node_cache import NodeCache
from shared.work.pod_topology import PodPolicies, PodTopology
from shared.work.reads import Late, Reads, Refreshed
from tests.pods.reviews import HOST, REGION, ZONE, Fleet, Hang, a_binding, a_policy, placed

DEADLINE = 0.4
SLACK = 2.0
"""Seconds that may pass on a busy machine; what hangs here hangs for 20."""
AT_ONCE = 0.3
"""Less than the deadline: nobody waited for it."""
KEYS = copying([a_policy()], None)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def settle(until: Callable[[], bool]) -> None:
    """Wait for a background read."""
    end = time.monotonic() + 5
    while not until():
        assert time.monotonic() < end, "the background read did not come"
        time.sleep(0.002)


def a_fleet(count: int = 3) -> Fleet:
    return Fleet({f"n{i}": {ZONE: f"z{i % 2}", HOST: f"n{i}", "other": "x"} for i in range(count)})


# bounded reads


def test_a_read_that_hangs_is_late_and_later_ones_do_not_wait_for_it_again() -> None:
    reads = Reads()
    with Hang() as hang:
        with pytest.raises(Late, match=r"slow has taken 0\.[4-9] s"):
            reads.get("slow", lambda: hang("slow"), DEADLINE)
        began = time.monotonic()
        with pytest.raises(Late):
            reads.get("slow", lambda: hang("slow"), DEADLINE)
        assert time.monotonic() - began < AT_ONCE


def test_one_read_serves_all_who_ask_for_it() -> None:
    reads, calls, asking, gate = Reads(), [], threading.Semaphore(0), threading.Event()

    def read() -> str:
        calls.append(1)
        gate.wait(10)
        return "answer"

    got: list[str] = []

    def ask() -> None:
        asking.release()
        got.append(reads.get("k", read, 10))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
        assert asking.acquire(timeout=10)
    time.sleep(0.2)  # the last one is between its word and its question
    gate.set()
    for thread in threads:
        thread.join()
    assert (got, len(calls)) == (["answer"] * 20, 1)


def test_hanging_reads_take_only_their_places_and_no_thread_more() -> None:
    reads = Reads(most=3)
    with Hang() as hang:
        before, began = threading.active_count(), time.monotonic()
        for number in range(20):
            with pytest.raises(Late):
                reads.get(f"k{number}", lambda: hang("k"), 0.06)
        assert threading.active_count() - before == 3
        assert time.monotonic() - began < SLACK
    settle(lambda: threading.active_count() == before)
    assert reads.get("again", lambda: "fine", 1) == "fine"


def test_a_read_waits_for_a_place_while_the_others_are_young() -> None:
    reads = Reads(most=1)
    reads.start("first", lambda: time.sleep(0.05))
    assert reads.get("second", lambda: "fine", 2) == "fine"


def test_what_a_read_raises_goes_to_the_caller_a_timeout_of_its_own_too() -> None:
    def refuse() -> None:
        raise TimeoutError("the socket's")

    with pytest.raises(TimeoutError, match="the socket's"):
        Reads().get("k", refuse, 1)


def test_a_value_is_served_while_it_is_read_again_and_failures_are_not_repeated_by_every_caller() -> None:
    clock, answers = Clock(), ["one", "two"]

    def read() -> str:
        if not answers:
            raise StoreError("gone")
        return answers.pop(0)

    value = Refreshed("v", read, Reads(clock=clock), age=10, retry=1, clock=clock)
    assert [value.get(1), value.get(1)] == ["one", "one"]
    clock.now += 10
    assert value.get(1) == "one"
    settle(lambda: value.get(1) == "two")
    clock.now += 10
    assert value.get(1) == "two"
    settle(lambda: value.get(1) == "two" and value.trouble == "gone")
    assert value.get(1) == "two"


def test_a_first_value_that_fails_is_tried_again_only_after_a_while() -> None:
    clock, tries = Clock(), []

    def read() -> str:
        tries.append(1)
        raise StoreError("gone")

    value = Refreshed("v", read, Reads(clock=clock), age=10, retry=1, clock=clock)
    for _ in range(50):
        with pytest.raises(StoreError, match="gone"):
            value.get(1)
    assert len(tries) == 1
    clock.now += 1
    with pytest.raises(StoreError):
        value.get(1)
    assert len(tries) == 2


# the cache


def a_cache(fleet: Fleet, clock: Clock | None = None, **options: float) -> NodeCache:
    clock = clock or Clock()
    return NodeCache(fleet.as_cluster, Reads(clock=clock), clock=clock, **options)  # type: ignore[arg-type]


def test_a_thousand_bindings_cost_one_listing() -> None:
    fleet = a_fleet()
    cache = a_cache(fleet)
    settle(lambda: cache.warm(KEYS))
    assert [cache.labels(f"n{i % 3}", KEYS, 1) for i in range(1000)][:2] == [{ZONE: "z0", HOST: "n0"}, {ZONE: "z1", HOST: "n1"}]
    assert fleet.reads == ["nodes"]


def test_a_node_that_is_new_is_read_once_directly() -> None:
    fleet = a_fleet()
    cache = a_cache(fleet)
    settle(lambda: cache.warm(KEYS))
    fleet.node_labels["new"] = {ZONE: "z9"}
    assert [cache.labels("new", KEYS, 1) for _ in range(3)] == [{ZONE: "z9"}] * 3
    assert fleet.reads == ["nodes", "node new"]


def test_a_changed_label_is_seen_after_the_age() -> None:
    fleet, clock = a_fleet(), Clock()
    cache = a_cache(fleet, clock, age=30)
    settle(lambda: cache.warm(KEYS))
    fleet.node_labels["n0"] = {ZONE: "moved"}
    assert cache.labels("n0", KEYS, 1) == {ZONE: "z0", HOST: "n0"}
    clock.now += 30
    settle(lambda: cache.labels("n0", KEYS, 1) == {ZONE: "moved"})


def test_absent_nodes_are_remembered_for_a_moment_and_not_without_end() -> None:
    fleet, clock = a_fleet(), Clock()
    cache = a_cache(fleet, clock, absent_for=3, most_absent=10)
    settle(lambda: cache.warm(KEYS))
    for number in range(25):
        assert cache.labels(f"gone{number}", KEYS, 1) is None
    assert cache.labels("gone24", KEYS, 1) is None
    assert fleet.reads.count("node gone24") == 1
    assert len(cache._absent) == 10
    fleet.node_labels["gone24"] = {ZONE: "here"}
    clock.now += 3
    assert cache.labels("gone24", KEYS, 1) == {ZONE: "here"}


def test_new_keys_are_read_directly_until_the_next_listing_has_them() -> None:
    fleet = a_fleet()
    cache = a_cache(fleet)
    settle(lambda: cache.warm(KEYS))
    more = copying([a_policy(topology=["other"])], None)
    with Hang("nodes") as hang:
        fleet.reading = hang
        assert cache.labels("n0", more, 1) == {"other": "x"}
    settle(lambda: cache.warm(more))
    reads = len(fleet.reads)
    assert cache.labels("n1", more, 1) == {"other": "x"}
    assert len(fleet.reads) == reads


def test_many_threads_get_the_right_labels_while_listings_come_and_go() -> None:
    fleet = a_fleet(50)
    cache = NodeCache(fleet.as_cluster, Reads(), age=0.001)
    wrong: list[object] = []

    def ask(seed: int) -> None:
        for step in range(300):
            name = f"n{(seed * 7 + step) % 50}"
            if (got := cache.labels(name, KEYS, 2)) is None or got[HOST] != name:
                wrong.append((name, got))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# the whole answer


def a_topology(fleet: Fleet, *policies: dict[str, object], declared: Callable[[], PodPolicies] | None = None) -> PodTopology:
    made = tuple(a_policy(**policy) for policy in policies or ({},))
    return PodTopology(declared or (lambda: PodPolicies(made, lambda _: fleet.as_cluster())))


def timed(topology: PodTopology, seconds: float = DEADLINE, node: str = "n0") -> tuple[Additions, float]:
    began = time.monotonic()
    found = topology.additions(placed(a_binding(node)), "default", seconds)
    return found, time.monotonic() - began


def test_a_hanging_api_server_costs_the_deadline_once_and_the_labels() -> None:
    fleet = a_fleet()
    topology = a_topology(fleet)
    with Hang() as hang:
        fleet.reading = hang
        found, took = timed(topology)
        assert (found.labels, found.annotations) == ({}, {})
        assert "node n0 can't be read" in found.warnings[0]
        assert took < SLACK
        assert timed(topology)[1] < AT_ONCE, "what is late already is not waited for"
    settle(lambda: timed(topology)[0].labels == {ZONE: "z0", HOST: "n0"})


def test_a_hanging_store_costs_the_deadline_once_and_the_labels() -> None:
    fleet = a_fleet()
    with Hang() as hang:

        def declared() -> PodPolicies:
            hang("store")
            return PodPolicies((a_policy(),), lambda _: fleet.as_cluster())

        topology = a_topology(fleet, declared=declared)
        found, took = timed(topology)
        assert not found.labels
        assert "policies can't be read" in found.warnings[0]
        assert took < SLACK
        assert timed(topology)[1] < AT_ONCE
    settle(lambda: bool(timed(topology)[0].labels))


def test_store_and_server_may_go_away_once_their_answers_are_known() -> None:
    fleet, answers = a_fleet(), iter([1])

    def declared() -> PodPolicies:
        if next(answers, None) is None:
            raise StoreError("the bucket is gone")
        return PodPolicies((a_policy(),), lambda _: fleet.as_cluster())

    topology = PodTopology(declared, policies_age=0, nodes_age=0)
    settle(lambda: bool(timed(topology)[0].labels) and topology.ready("default"))
    with Hang() as hang:
        fleet.reading = hang
        for _ in range(5):
            found, took = timed(topology)
            assert (found.labels, found.warnings) == ({ZONE: "z0", HOST: "n0"}, ())
            assert took < AT_ONCE


def test_labels_that_could_not_be_refreshed_for_long_say_how_old_they_are() -> None:
    fleet, clock = a_fleet(), Clock()
    topology = PodTopology(lambda: PodPolicies((a_policy(),), lambda _: fleet.as_cluster()), clock=clock)
    settle(lambda: topology.ready("default"))

    def fail(what: str) -> None:
        raise Unavailable("connection refused")

    fleet.reading = fail
    clock.now += 400
    topology.additions(placed(a_binding("n0")), "default", 1)
    settle(lambda: bool(topology.additions(placed(a_binding("n0")), "default", 1).warnings))
    found = topology.additions(placed(a_binding("n0")), "default", 1)
    assert found.labels == {ZONE: "z0", HOST: "n0"}
    assert "400 s old: connection refused" in found.warnings[0]


@pytest.mark.parametrize(
    "error", [Unavailable("refused"), Refused("Forbidden", "nodes is forbidden"), StoreError("gone"), TimeoutError("slow")], ids=repr
)
def test_failures_are_warnings_and_come_at_once(error: Exception) -> None:
    fleet = a_fleet()

    def fail(what: str) -> None:
        raise error

    fleet.reading = fail
    topology = a_topology(fleet)
    if isinstance(error, StoreError):
        topology = a_topology(fleet, declared=lambda: fail("store") or PodPolicies((), lambda _: fleet.as_cluster()))  # type: ignore[func-returns-value]
    found, took = timed(topology, 1.5)
    assert str(error) in found.warnings[0]
    assert took < 0.5


def test_extra_on_a_binding_asks_the_pod_and_only_then() -> None:
    fleet = a_fleet()
    fleet.node_labels["n0"]["team"] = "nodes"
    fleet.pod_labels["shop", "web-0"] = {"team": "pods"}
    topology = a_topology(fleet, {"topology": [ZONE], "extra": ["team"]})
    settle(lambda: topology.ready("default"))
    assert timed(topology)[0] == Additions({ZONE: "z0"})
    assert timed(topology, node="n1")[0] == Additions({ZONE: "z1"})
    assert [what for what in fleet.reads if what != "nodes"] == ["pod web-0"]
    fleet.pod_labels["shop", "web-0"] = {}
    assert timed(topology)[0] == Additions({ZONE: "z0", "team": "nodes"})


def test_a_pod_that_hangs_costs_extra_keys_only() -> None:
    fleet = a_fleet()
    fleet.node_labels["n0"]["team"] = "nodes"
    topology = a_topology(fleet, {"extra": ["team"]})
    settle(lambda: topology.ready("default"))
    with Hang("pod") as hang:
        fleet.reading = hang
        found, took = timed(topology)
        assert found.labels == {ZONE: "z0", HOST: "n0"}
        assert "extra keys are not copied" in found.warnings[0]
        assert took < SLACK


def test_enabled_disabled_and_enabled_again_as_the_kep_says() -> None:
    fleet, state = a_fleet(), {"enabled": True, "revision": 0}

    def declared() -> PodPolicies:
        state["revision"] += 1
        return PodPolicies((a_policy(enabled=state["enabled"]),), lambda _: fleet.as_cluster())

    topology = PodTopology(declared, policies_age=0)
    for enabled in (True, False, True):
        state["enabled"] = enabled
        settle(lambda: bool(timed(topology)[0].labels) is state["enabled"])


def test_two_clusters_are_kept_apart() -> None:
    east, west = Fleet({"n0": {REGION: "east"}}), Fleet({"n0": {REGION: "west"}})
    topology = PodTopology(lambda: PodPolicies((a_policy(),), lambda name: {"east": east, "west": west}[name].as_cluster()))
    place = placed(a_binding("n0"))
    assert [topology.additions(place, name, 1).labels for name in ("east", "west")] == [{REGION: "east"}, {REGION: "west"}]
