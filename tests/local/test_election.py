"""Processes that share a Lease: one is active, another takes over, no clock is believed but one's own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from local.cloud.election import Election, Ended, Post
from shared.domain.leases import Lease, Terms
from shared.ports import Refused, Stale, Unavailable

TERMS = Terms(15)


class Shared:
    """A Lease that several hold in turn; `fails` is raised in place of the next answers."""

    def __init__(self) -> None:
        self.lease = Lease()
        self.fails: list[Exception] = []
        self.before_write: Callable[[], None] = lambda: None
        self.writes = 0

    def read(self) -> Lease:
        if self.fails:
            raise self.fails.pop(0)
        return self.lease

    def write(self, lease: Lease) -> Lease:
        self.before_write()
        if lease.version != self.lease.version:
            raise Stale("changed meanwhile")
        self.writes += 1
        self.lease = replace(lease, version=str(self.writes))
        return self.lease


class Clock:
    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


def a_candidate(shared: Shared, me: str, clock: Clock, year: int = 2026) -> Election:
    return Election(shared, me, TERMS, monotonic=clock, now=lambda: datetime(year, 11, 22, tzinfo=UTC))


def test_the_first_one_is_active_and_the_second_stands_by_while_the_first_renews() -> None:
    shared, clock = Shared(), Clock()
    a, b = a_candidate(shared, "a", clock), a_candidate(shared, "b", clock)

    for _ in range(20):
        assert (a.step(), b.step()) == (True, False)
        clock.at += TERMS.retry

    assert (shared.lease.holder, shared.lease.transitions, b.holder) == ("a", 0, "a")


def test_one_that_is_killed_is_followed_when_its_lease_has_run_out_and_not_before() -> None:
    shared, clock = Shared(), Clock()
    a, b = a_candidate(shared, "a", clock), a_candidate(shared, "b", clock)
    a.step()
    b.step()  # sees the lease for the first time now

    clock.at += 14.9
    assert not b.step()
    clock.at += 0.1
    assert b.step()
    assert (shared.lease.holder, shared.lease.transitions) == ("b", 1)
    assert not a.step()


@pytest.mark.parametrize("year", [1999, 2199])
def test_clocks_that_differ_by_centuries_take_no_lease_away(year: int) -> None:
    shared = Shared()
    a, b = a_candidate(shared, "a", Clock(5.0)), a_candidate(shared, "b", Clock(1e6), year)

    assert (a.step(), b.step(), a.step()) == (True, False, True)


def test_of_two_who_see_a_free_lease_one_gets_it() -> None:
    shared, clock = Shared(), Clock()
    a, b = a_candidate(shared, "a", clock), a_candidate(shared, "b", clock)

    def between() -> None:
        shared.before_write = lambda: None
        b.step()

    shared.before_write = between

    assert not a.step()
    assert b.active


def test_one_that_can_not_renew_gives_up_before_anybody_else_may_take_over() -> None:
    shared, clock = Shared(), Clock()
    a = a_candidate(shared, "a", clock)
    a.step()
    shared.fails = [Unavailable("no answer")] * 10
    steps = []

    while a.active:
        clock.at += TERMS.retry
        steps.append(a.step())

    assert TERMS.renew <= clock.at < TERMS.good
    assert steps[0] is True


def test_one_that_leaves_is_followed_at_once() -> None:
    shared, clock = Shared(), Clock()
    a, b = a_candidate(shared, "a", clock), a_candidate(shared, "b", clock)
    a.step()
    b.step()

    a.leave()

    assert b.step()


def test_one_that_leaves_takes_nobody_elses_lease_along() -> None:
    shared, clock = Shared(), Clock()
    a, b = a_candidate(shared, "a", clock), a_candidate(shared, "b", clock)
    b.step()

    a.leave()

    assert shared.lease.holder == "b"


# the post


def a_post(shared: Shared, work: Callable[[], None]) -> Post:
    return Post(Election(shared, "a", Terms(1)), work)


def test_who_loses_the_lease_ends() -> None:
    shared = Shared()
    never = threading.Event()

    def works() -> None:
        never.wait()

    post = a_post(shared, works)

    def taken(active: bool) -> None:
        if active:
            shared.lease = Lease("somebody", 3600, version="x")

    with pytest.raises(Ended, match="somebody"):
        post.keep(taken)
    assert shared.lease.holder == "somebody"
    never.set()


def test_who_is_told_to_end_leaves_the_lease_free() -> None:
    shared = Shared()
    never = threading.Event()

    def works() -> None:
        never.wait()

    post = a_post(shared, works)

    post.keep(lambda active: post.end())

    assert shared.lease.holder == ""
    never.set()


def test_what_the_work_raises_ends_the_process_and_frees_the_lease() -> None:
    shared = Shared()

    def fails() -> None:
        raise Refused("Forbidden", "nodes is forbidden")

    with pytest.raises(Refused, match="nodes is forbidden"):
        a_post(shared, fails).keep()
    assert shared.lease.holder == ""


def test_a_cluster_that_refuses_the_lease_says_so_at_once() -> None:
    shared = Shared()
    shared.fails = [Refused("Forbidden", "leases is forbidden")]

    with pytest.raises(Refused, match="leases"):
        a_post(shared, lambda: None).keep()
