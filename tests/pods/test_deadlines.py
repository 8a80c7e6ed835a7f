"""An answer comes in time whatever the API server and the store do, and node labels cost no read per binding."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from shared.domain.pods.copying import Additions, copying
from shared.ports import Refused, StoreError, Unavailable
from shared.work.node_cache import NodeCache
from shared.work.pod_topology import PodPolicies, PodTopology
from shared.work.reads import Late, Reads, Refreshed
from tests.pods.reviews import HOST, REGION, ZONE, Fleet, Hang, a_binding, a_policy, placed

SOON = 0.05
"""Seconds to wait for what hangs."""
PATIENCE = 60.0
"""Seconds to wait for what comes, however busy the machine. Longer than a Hang lasts: who waits for it gets an answer, and no Late."""
KEYS = copying([a_policy()], None)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def settle(until: Callable[[], bool]) -> None:
    """Wait for a background read."""
    end = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < end, "the background read did not come"
        time.sleep(0.002)


def a_fleet(count: int = 3) -> Fleet:
    return Fleet({f"n{i}": {ZONE: f"z{i % 2}", HOST: f"n{i}", "other": "x"} for i in range(count)})


# bounded reads


def test_a_read_that_hangs_is_late_and_later_ones_do_not_wait_for_it_again() -> None:
    clock = Clock()
    reads = Reads(clock=clock)
    with Hang() as hang:
        with pytest.raises(Late):
            reads.get("slow", lambda: hang("slow"), SOON)
        clock.now += PATIENCE
        with pytest.raises(Late, match=r"slow has taken 60\.0 s"):
            reads.get("slow", lambda: hang("slow"), PATIENCE)


def test_one_read_serves_all_who_ask_for_it() -> None:
    looks: Counter[int] = Counter()

    def clock() -> float:
        looks[threading.get_ident()] += 1
        return 1000.0

    reads, calls, gate = Reads(clock=clock), [], threading.Event()

    def read() -> str:
        calls.append(1)
        gate.wait(PATIENCE)
        return "answer"

    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.append(reads.get("k", read, PATIENCE))) for _ in range(20)]
    for thread in threads:
        thread.start()
    # Who looks at the clock a third time has the read in hand, and computes how long to wait for it.
    settle(lambda: [count >= 3 for count in list(looks.values())] == [True] * 20)
    gate.set()
    for thread in threads:
        thread.join()
    assert (got, len(calls)) == (["answer"] * 20, 1)


def test_hanging_reads_take_only_their_places_and_no_thread_more() -> None:
    clock = Clock()
    reads = Reads(most=3, clock=clock)
    with Hang() as hang:
        for number in range(3):
            with pytest.raises(Late):
                reads.get(f"hung {number}", lambda: hang("k"), SOON)
        clock.now += PATIENCE
        for number in range(17):
            with pytest.raises(Late, match="was not tried: 3 reads are under way, the oldest for 60"):
                reads.get(f"more {number}", lambda: hang("k"), PATIENCE)
        assert reading() == ["read hung 0", "read hung 1", "read hung 2"]
    settle(lambda: reading() == [])
    assert reads.get("again", lambda: "fine", PATIENCE) == "fine"


def reading() -> list[str]:
    """The threads that read something of the test above."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(("read hung", "read more")))


def test_a_read_waits_for_a_place_while_the_others_are_young() -> None:
    reads = Reads(most=1, clock=Clock())
    reads.start("first", lambda: time.sleep(SOON))
    assert reads.get("second", lambda: "fine", PATIENCE) == "fine"


def test_what_a_read_raises_goes_to_the_caller_a_timeout_of_its_own_too() -> None:
    def refuse() -> None:
        raise TimeoutError("the socket's")

    with pytest.raises(TimeoutError, match="the socket's"):
        Reads().get("k", refuse, PATIENCE)


def test_a_value_is_served_while_it_is_read_again_and_failures_are_not_repeated_by_every_caller() -> None:
    clock, answers = Clock(), ["one", "two"]

    def read() -> str:
        if not answers:
            raise StoreError("gone")
        return answers.pop(0)

    value = Refreshed("v", read, Reads(clock=clock), age=10, retry=1, clock=clock)
    assert [value.get(PATIENCE), value.get(PATIENCE)] == ["one", "one"]
    clock.now += 10
    assert value.get(PATIENCE) == "one"
    settle(lambda: value.get(PATIENCE) == "two")
    clock.now += 10
    assert value.get(PATIENCE) == "two"
    settle(lambda: value.get(PATIENCE) == "two" and value.trouble == "gone")
    assert value.get(PATIENCE) == "two"


def test_a_first_value_that_fails_is_tried_again_only_after_a_while() -> None:
    clock, tries = Clock(), []

    def read() -> str:
        tries.append(1)
        raise StoreError("gone")

    value = Refreshed("v", read, Reads(clock=clock), age=10, retry=1, clock=clock)
    for _ in range(50):
        with pytest.raises(StoreError, match="gone"):
            value.get(PATIENCE)
    assert len(tries) == 1
    clock.now += 1
    with pytest.raises(StoreError):
        value.get(PATIENCE)
    assert len(tries) == 2


# the cache


def a_cache(fleet: Fleet, clock: Clock | None = None, **options: float) -> NodeCache:
    clock = clock or Clock()
    return NodeCache(fleet.as_cluster, Reads(clock=clock), clock=clock, **options)  # type: ignore[arg-type]


def test_a_thousand_bindings_cost_one_listing() -> None:
    fleet = a_fleet()
    cache = a_cache(fleet)
    settle(lambda: cache.warm(KEYS))
    assert [cache.labels(f"n{i % 3}", KEYS, PATIENCE) for i in range(1000)][:2] == [{ZONE: "z0", HOST: "n0"}, {ZONE: "z1", HOST: "n1"}]
    assert fleet.reads == ["nodes"]


def test_a_node_that_is_new_is_read_once_directly() -> None:
    fleet = a_fleet()
    cache = a_cache(fleet)
    settle(lambda: cache.warm(KEYS))
    fleet.node_labels["new"] = {ZONE: "z9"}
    assert [cache.labels("new", KEYS, PATIENCE) for _ in range(3)] == [{ZONE: "z9"}] * 3
    assert fleet.reads == ["nodes", "node new"]


def test_a_changed_label_is_seen_after_the_age() -> None:
    fleet, clock = a_fleet(), Clock()
    cache = a_cache(fleet, clock, age=30)
    settle(lambda: cache.warm(KEYS))
    fleet.node_labels["n0"] = {ZONE: "moved"}
    assert cache.labels("n0", KEYS, PATIENCE) == {ZONE: "z0", HOST: "n0"}
    clock.now += 30
    settle(lambda: cache.labels("n0", KEYS, PATIENCE) == {ZONE: "moved"})


def test_absent_nodes_are_remembered_for_a_moment_and_not_without_end() -> None:
    fleet, clock = a_fleet(), Clock()
    cache = a_cache(fleet, clock, absent_for=3, most_absent=10)
    settle(lambda: cache.warm(KEYS))
    for number in range(25):
        assert cache.labels(f"gone{number}", KEYS, PATIENCE) is None
    assert cache.labels("gone24", KEYS, PATIENCE) is None
    assert fleet.reads.count("node gone24") == 1
    assert len(cache._absent) == 10
    fleet.node_labels["gone24"] = {ZONE: "here"}
    clock.now += 3
    assert cache.labels("gone24", KEYS, PATIENCE) == {ZONE: "here"}


def test_new_keys_are_read_directly_until_the_next_listing_has_them() -> None:
    fleet = a_fleet()
    cache = a_cache(fleet)
    settle(lambda: cache.warm(KEYS))
    more = copying([a_policy(topology=["other"])], None)
    with Hang("nodes") as hang:
        fleet.reading = hang
        assert cache.labels("n0", more, PATIENCE) == {"other": "x"}
    settle(lambda: cache.warm(more))
    reads = len(fleet.reads)
    assert cache.labels("n1", more, PATIENCE) == {"other": "x"}
    assert len(fleet.reads) == reads


def test_many_threads_get_the_right_labels_while_listings_come_and_go() -> None:
    fleet = a_fleet(50)
    cache = NodeCache(fleet.as_cluster, Reads(), age=0.001)
    wrong: list[object] = []

    def ask(seed: int) -> None:
        for step in range(300):
            name = f"n{(seed * 7 + step) % 50}"
            if (got := cache.labels(name, KEYS, PATIENCE)) is None or got[HOST] != name:
                wrong.append((name, got))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# the whole answer


def a_topology(
    fleet: Fleet, *policies: dict[str, object], declared: Callable[[], PodPolicies] | None = None, **options: Any
) -> PodTopology:
    made = tuple(a_policy(**policy) for policy in policies or ({},))
    return PodTopology(declared or (lambda: PodPolicies(made, lambda _: fleet.as_cluster())), **options)


def additions(topology: PodTopology, seconds: float = PATIENCE, node: str = "n0", cluster: str = "default") -> Additions:
    return topology.additions(placed(a_binding(node)), cluster, seconds)


def test_a_hanging_api_server_costs_the_deadline_once_and_the_labels() -> None:
    fleet, clock = a_fleet(), Clock()
    topology = a_topology(fleet, clock=clock)
    assert additions(topology, cluster="another").labels, "from here on the policies are known"
    with Hang() as hang:
        fleet.reading = hang
        found = additions(topology, SOON)
        assert (found.labels, found.annotations) == ({}, {})
        assert "node n0 can't be read" in found.warnings[0]
        clock.now += PATIENCE
        assert not additions(topology).labels, "what is late already is not waited for"
    settle(lambda: additions(topology).labels == {ZONE: "z0", HOST: "n0"})


def test_a_hanging_store_costs_the_deadline_once_and_the_labels() -> None:
    fleet, clock = a_fleet(), Clock()
    with Hang() as hang:

        def declared() -> PodPolicies:
            hang("store")
            return PodPolicies((a_policy(),), lambda _: fleet.as_cluster())

        topology = a_topology(fleet, declared=declared, clock=clock)
        found = additions(topology, SOON)
        assert not found.labels
        assert "policies can't be read" in found.warnings[0]
        clock.now += PATIENCE
        assert not additions(topology).labels, "what is late already is not waited for"
    settle(lambda: bool(additions(topology).labels))


def test_store_and_server_may_go_away_once_their_answers_are_known() -> None:
    fleet, answers = a_fleet(), iter([1])

    def declared() -> PodPolicies:
        if next(answers, None) is None:
            raise StoreError("the bucket is gone")
        return PodPolicies((a_policy(),), lambda _: fleet.as_cluster())

    topology = PodTopology(declared, policies_age=0, nodes_age=0)
    settle(lambda: bool(additions(topology).labels) and topology.ready("default"))
    with Hang() as hang:
        fleet.reading = hang
        for _ in range(5):
            found = additions(topology, seconds=0)
            assert (found.labels, found.warnings) == ({ZONE: "z0", HOST: "n0"}, ())


def test_labels_that_could_not_be_refreshed_for_long_say_how_old_they_are() -> None:
    fleet, clock = a_fleet(), Clock()
    topology = PodTopology(lambda: PodPolicies((a_policy(),), lambda _: fleet.as_cluster()), clock=clock)
    settle(lambda: topology.ready("default"))

    def fail(what: str) -> None:
        raise Unavailable("connection refused")

    fleet.reading = fail
    clock.now += 400
    topology.additions(placed(a_binding("n0")), "default", PATIENCE)
    settle(lambda: bool(topology.additions(placed(a_binding("n0")), "default", PATIENCE).warnings))
    found = topology.additions(placed(a_binding("n0")), "default", PATIENCE)
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
    began = time.monotonic()
    assert str(error) in additions(topology, 2 * PATIENCE).warnings[0]
    assert time.monotonic() - began < PATIENCE


def test_extra_on_a_binding_asks_the_pod_and_only_then() -> None:
    fleet = a_fleet()
    fleet.node_labels["n0"]["team"] = "nodes"
    fleet.pod_labels["shop", "web-0"] = {"team": "pods"}
    topology = a_topology(fleet, {"topology": [ZONE], "extra": ["team"]})
    settle(lambda: topology.ready("default"))
    assert additions(topology) == Additions({ZONE: "z0"})
    assert additions(topology, node="n1") == Additions({ZONE: "z1"})
    assert [what for what in fleet.reads if what != "nodes"] == ["pod web-0"]
    fleet.pod_labels["shop", "web-0"] = {}
    assert additions(topology) == Additions({ZONE: "z0", "team": "nodes"})


def test_a_pod_that_hangs_costs_extra_keys_only() -> None:
    fleet = a_fleet()
    fleet.node_labels["n0"]["team"] = "nodes"
    topology = a_topology(fleet, {"extra": ["team"]})
    settle(lambda: topology.ready("default"))
    with Hang("pod") as hang:
        fleet.reading = hang
        found = additions(topology, SOON)
        assert found.labels == {ZONE: "z0", HOST: "n0"}
        assert "extra keys are not copied" in found.warnings[0]


def test_enabled_disabled_and_enabled_again_as_the_kep_says() -> None:
    fleet, state = a_fleet(), {"enabled": True, "revision": 0}

    def declared() -> PodPolicies:
        state["revision"] += 1
        return PodPolicies((a_policy(enabled=state["enabled"]),), lambda _: fleet.as_cluster())

    topology = PodTopology(declared, policies_age=0)
    for enabled in (True, False, True):
        state["enabled"] = enabled
        settle(lambda: bool(additions(topology).labels) is state["enabled"])


def test_two_clusters_are_kept_apart() -> None:
    east, west = Fleet({"n0": {REGION: "east"}}), Fleet({"n0": {REGION: "west"}})
    topology = PodTopology(lambda: PodPolicies((a_policy(),), lambda name: {"east": east, "west": west}[name].as_cluster()))
    place = placed(a_binding("n0"))
    assert [topology.additions(place, name, PATIENCE).labels for name in ("east", "west")] == [{REGION: "east"}, {REGION: "west"}]
