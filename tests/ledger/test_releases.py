"""The chain of a cluster's releases as it is kept: numbers without gaps, hints that may be lost, shares of many names, torn objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.adapters.store import open_store
from shared.ledger import releases
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import Newest, Releases
from shared.ledger.revisions import Revisions
from tests.counting import Counting

AT = datetime(2026, 11, 21, tzinfo=UTC)
HOW: dict[str, Any] = {"by": "an operator", "at": AT}


@pytest.fixture
def store() -> Any:
    return Counting(open_store("memory:"))


def chain(store: Any, *running: str) -> Releases:
    """The chains as a process sees them that knows nothing yet; all actions but these have ended."""
    return Releases(store, Revisions(store), lambda action: action not in running, lambda: 0.0)


def marks(kept: Releases, *names: str) -> list[int]:
    return [kept.head("c").mark(name).revision for name in names]


def grown(store: Any, acts: int) -> Releases:
    kept = chain(store)
    for number in range(1, acts + 1):
        kept.to_all("c", f"a{number}", number, since=number - 1, **HOW)
    return kept


def test_a_process_that_knows_nothing_finds_the_newest_act_by_a_short_listing_however_long_the_chain_is(store: Any) -> None:
    grown(store, 60)
    store.clear()
    assert chain(store).head("c").k == 60
    assert store.calls == {"keys": 1, "get": 2}


def test_an_act_that_another_process_made_is_seen_at_the_next_look(store: Any) -> None:
    kept = grown(store, 3)
    assert marks(kept, "n1") == [3]
    chain(store).to_all("c", "other", 9, since=3, **HOW)
    store.clear()
    assert marks(kept, "n1") == [9]
    assert store.calls == {"get": 2}


def test_hints_that_are_lost_hide_nothing_and_cost_no_read_of_every_act(store: Any) -> None:
    grown(store, 60)
    for key in store.keys("release-heads/"):
        store.delete(key)
    store.clear()
    assert chain(store).head("c").k == 60
    assert store.calls["get"] < 5


def test_of_two_processes_that_release_at_once_neither_loses_its_act(store: Any) -> None:
    first, second = chain(store), chain(store)
    first.to_all("c", "a1", 1, since=0, **HOW)
    create = store.inner.create

    def let_in(key: str, body: bytes) -> bool:
        if key == "releases/c/000002.json":
            store.inner = Original(create, store.inner)
            second.to_names("c", "a2", 2, ["n2"], since=1, **HOW)
        return bool(create(key, body))

    store.inner = Original(let_in, store.inner)
    made = first.to_names("c", "a3", 3, ["n3"], since=1, **HOW)
    assert (made.k, made.made) == (3, True)
    assert marks(chain(store), "n1", "n2", "n3") == [1, 2, 3]


class Original:
    """A store with another way to create."""

    def __init__(self, create: Any, inner: Any) -> None:
        self.create, self._inner = create, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_release_that_is_asked_for_again_changes_nothing_and_ends_no_override(store: Any) -> None:
    kept = chain(store)
    releasing: tuple[Callable[[], Newest], ...] = (
        lambda: kept.to_all("c", "a1", 1, since=0, **HOW),
        lambda: kept.to_names("c", "a2", 2, ["n1"], since=0, **HOW),
    )
    for release in releasing:
        assert release().made
        kept.override("c", "n1", {"rack": "mine"}, "a person", AT)
        before = kept.head("c")
        assert not release().made
        assert kept.head("c").k == before.k
        assert kept.head("c").mark("n1").override


def test_many_names_are_kept_in_shares_and_an_act_writes_those_that_it_changes(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "NAMES_INLINE", 10)
    names = [f"n{number}" for number in range(100)]
    kept = chain(store)
    kept.to_names("c", "a1", 1, names, since=0, **HOW)
    before = {*store.keys("releases/c/names/")}
    kept.to_names("c", "a2", 2, ["n7"], since=1, **HOW)
    assert len({*store.keys("releases/c/names/")} - before) == 1
    cold = chain(store)
    assert marks(cold, *names) == [2 if name == "n7" else 1 for name in names]
    assert {name: entry.revision for name, entry in cold.head("c").names().items()} == dict.fromkeys(names, 1) | {"n7": 2}
    cold.to_all("c", "a3", 3, since=2, **HOW)
    assert chain(store).head("c").names() == {}


def test_the_first_of_two_site_actions_is_stopped_and_the_second_one_after_it(store: Any) -> None:
    running = chain(store, "a2", "a3")
    for number in (1, 2, 3):
        running.to_all("c", f"a{number}", number, since=number - 1, **HOW)
    running.take_back("c", "a2", ["n2"], since=1, **HOW)
    assert marks(running, "n1", "n2") == [3, 3]
    running.take_back("c", "a3", ["n1"], since=2, **HOW)
    assert marks(chain(store), "n1", "n2", "n3") == [3, 2, 1]


def torn(store: Any, folder: str, damage: str) -> tuple[str, bytes]:
    """Damage the newest object of a folder."""
    key = store.keys(folder)[-1]
    body = store.get(key)
    store.delete(key)
    if damage == "truncated":
        store.create(key, body[: len(body) // 2])
    return key, body


DAMAGED = pytest.mark.parametrize("damage", ["truncated", "missing"])


@DAMAGED
def test_a_torn_head_is_said_with_its_key_and_the_state_before_it_never_takes_its_place(store: Any, damage: str) -> None:
    kept = grown(store, 2)
    for key in ("a3", "a4"):
        kept.to_names("c", key, int(key[1]), ["n1"], since=2, **HOW)
    key, body = torn(store, "releases/c/", damage)
    there = store.keys("")
    for look in (
        lambda: chain(store).head("c"),
        lambda: chain(store).to_all("c", "a5", 5, since=4, **HOW),
        lambda: chain(store).take_back("c", "a3", [], since=2, **HOW),
        lambda: chain(store).override("c", "n1", {}, "a person", AT),
    ):
        with pytest.raises(RecordUnreadable, match=key):
            look()
    assert [each for each in store.keys("") if not each.startswith("overrides/")] == there

    store.delete(key)
    store.create(key, body)
    assert marks(chain(store), "n1", "n2") == [4, 2]


@DAMAGED
def test_a_torn_share_concerns_its_own_names_and_whoever_would_write_the_state(
    store: Any, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "NAMES_INLINE", 1)
    names = ["n1", "n2", "n3", "n4"]
    chain(store).to_names("c", "a1", 1, names, since=0, **HOW)
    whole = {name: entry.revision for name, entry in chain(store).head("c").names().items()}
    shares = {key: json.loads(store.get(key)) for key in store.keys("releases/c/names/")}
    key, body = torn(store, "releases/c/names/", damage)
    lost = {*shares[key]}
    for name in names:
        if name in lost:
            with pytest.raises(RecordUnreadable, match=key):
                chain(store).head("c").mark(name)
        else:
            assert marks(chain(store), name) == [1]
    with pytest.raises(RecordUnreadable, match=key):
        chain(store).to_names("c", "a2", 2, names, since=1, **HOW)

    store.delete(key)
    store.create(key, body)
    assert {name: entry.revision for name, entry in chain(store).head("c").names().items()} == whole


@DAMAGED
def test_what_lies_under_a_stopped_site_action_is_not_guessed_where_it_is_torn(store: Any, damage: str) -> None:
    running = chain(store, "a2", "a3")
    for number in (1, 2, 3):
        running.to_all("c", f"a{number}", number, since=number - 1, **HOW)
    running.take_back("c", "a2", [], since=1, **HOW)
    key, body = torn(store, "releases/c/under/", damage)
    there = store.keys("")
    with pytest.raises(RecordUnreadable, match=key):
        chain(store, "a3").take_back("c", "a3", [], since=2, **HOW)
    assert store.keys("") == there
    assert marks(chain(store), "n1") == [3]

    store.delete(key)
    store.create(key, body)
    chain(store, "a3").take_back("c", "a3", [], since=2, **HOW)
    assert marks(chain(store), "n1") == [1]


def test_an_adoption_counts_only_where_nothing_is_released(store: Any) -> None:
    kept = chain(store)
    kept.adopt("c", 1, "a person", AT)
    kept.adopt("c", 2, "a person", AT)
    assert marks(kept, "n1") == [1]


def test_a_message_of_a_release_that_the_process_has_not_seen_is_looked_up(store: Any) -> None:
    kept = chain(store)
    kept.to_all("c", "a1", 1, since=0, **HOW)
    assert kept.find("c", "a1", 0) == (1, 1, "a1")
    assert kept.find("c", "a1", 1) is None
    assert kept.find("c", "a2", 0) is None
