"""Losses are counted by cluster and hour, in creations that nobody can undo: all who ask share one count."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.adapters.store import open_store
from shared.ledger.losses import Losses

NOW = datetime(2026, 11, 21, 3, 40, tzinfo=UTC)
HOUR = timedelta(hours=1)


def most(count: int) -> Callable[[int], bool]:
    return lambda asked: asked <= count


def names(*numbers: int) -> list[str]:
    return [f"n{number}" for number in numbers]


def test_so_many_nodes_pass_in_an_hour_and_a_node_counts_once() -> None:
    losses = Losses(open_store("memory:"))
    assert [losses.claim("c", names(n), most(2), NOW, single=True) for n in (1, 1, 2, 3, 2, 4)] == [True, True, True, False, True, False]
    assert losses.claim("other", names(3), most(2), NOW, single=True)


def test_what_a_sweep_asks_for_passes_whole_or_not_at_all() -> None:
    losses = Losses(open_store("memory:"))
    assert losses.claim("c", names(1), most(3), NOW, single=True)
    assert not losses.claim("c", names(2, 3, 4), most(3), NOW, single=False)
    assert losses.claim("c", names(2, 3), most(3), NOW, single=False)


def test_events_wait_for_a_sweep_in_the_hour_after_one_beyond_the_limit() -> None:
    losses = Losses(open_store("memory:"))
    told: list[datetime] = []

    def asks(now: datetime, *numbers: int, single: bool) -> bool:
        return losses.claim("c", names(*numbers), most(2), now, single=single, tell=lambda: told.append(now))

    assert not asks(NOW, 1, 2, 3, single=False)
    assert not asks(NOW, 1, single=True)
    assert not asks(NOW + HOUR, 1, single=True)
    assert not asks(NOW + 2 * HOUR, 1, 2, 3, single=False)
    assert told == [NOW]
    assert asks(NOW + 3 * HOUR, 1, 2, single=False)  # few are left: a sweep sees all, and clears it
    assert asks(NOW + 4 * HOUR, 3, single=True)
    assert not asks(NOW + 4 * HOUR, 4, 5, single=False)
    assert told == [NOW, NOW + 4 * HOUR]


@pytest.mark.parametrize("body", [b"", b'{"nodes": ', b"[]"])
def test_a_count_that_cannot_be_read_lets_nothing_through_until_its_hour_is_over(body: bytes) -> None:
    store = open_store("memory:")
    store.create("budget/c/2026-11-21T03/000001.json", body)
    losses = Losses(store)
    assert not losses.claim("c", names(1), most(9), NOW, single=True)
    assert not losses.claim("c", names(1), most(9), NOW, single=False)
    assert not losses.claim("c", names(1), most(9), NOW + HOUR, single=True)
    assert losses.claim("c", names(1), most(9), NOW + HOUR, single=False)


def test_of_two_who_ask_at_once_no_more_pass_than_may() -> None:
    store = open_store("memory:")
    first, second = Losses(store), Losses(store)
    asked: list[int] = []

    def within(count: int) -> bool:
        if not asked:  # the other one is faster, between the reading and the writing
            asked.append(count)
            assert second.claim("c", names(2), most(1), NOW, single=True)
        return count <= 1

    assert not first.claim("c", names(1), within, NOW, single=True)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=60), st.integers(0, 12))
@settings(max_examples=80, deadline=None)
def test_events_never_pass_more_nodes_in_an_hour_than_may(asked: list[tuple[int, int]], limit: int) -> None:
    losses, passed = Losses(open_store("memory:")), dict[int, set[int]]()
    for node, hour in sorted(asked, key=lambda each: each[1]):
        if losses.claim("c", names(node), most(limit), NOW + hour * HOUR, single=True):
            passed.setdefault(hour, set()).add(node)
    assert all(len(nodes) <= limit for nodes in passed.values())


def test_hours_that_are_over_are_removed() -> None:
    store = open_store("memory:")
    losses = Losses(store)
    for hours in range(5):
        losses.claim("c", names(1), most(9), NOW + hours * HOUR, single=True)
    losses.forget(NOW + 4 * HOUR)
    assert [key.split("/")[2] for key in store.keys("budget/")] == ["2026-11-21T05", "2026-11-21T06", "2026-11-21T07"]
