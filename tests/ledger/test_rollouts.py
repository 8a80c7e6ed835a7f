"""What a process remembers of rollouts: it saves reads, and never hides what somebody else has written since."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs
from ulid import ULID

from shared.adapters.store import open_store
from shared.domain.rollouts.progress import Batch, Progress, Said, Stage, given
from shared.ledger import rollouts as ledger
from shared.ledger.places import Places
from shared.ledger.records import RecordUnreadable
from shared.ledger.rollouts import Rollouts
from shared.ports import ObjectStore
from tests.counting import Counting

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SAID = Said("start", "ada", NOW)


def a_process(store: Any) -> Rollouts:
    return Rollouts(store, Places(store))


def a_rollout(store: ObjectStore, states: int = 5) -> str:
    """A rollout that has gone through so many states, the last of which opened a batch."""
    rollout = str(ULID())
    process = a_process(store)
    process.start(Progress(id=rollout, name="careful", revision=2, said=SAID, started=SAID, stages=[Stage("rest")]))
    for number in range(states - 1):
        batch = Batch(0, "c", number, 1, f"a{number}", NOW)
        process.change(rollout, lambda state, batch=batch: structs.replace(state, batches=[*state.batches, batch]))  # type: ignore[misc]
    return rollout


def test_that_nothing_is_newer_costs_one_read_and_no_listing_however_long_the_chain() -> None:
    store = open_store("memory:")
    rollout = a_rollout(store, states=50)
    counting = Counting(store)
    process = a_process(counting)
    first = process.get(rollout)
    counting.clear()
    assert process.get(rollout) is first
    assert counting.calls == {"get": 1}


def test_a_pause_of_another_process_is_seen_by_one_that_remembers_an_older_state() -> None:
    store = open_store("memory:")
    rollout = a_rollout(store)
    process = a_process(store)
    assert process.get(rollout).phase == "running"
    a_process(store).change(rollout, lambda state: given(state, Said("pause", "bob", NOW, message="wait")))
    assert process.get(rollout).phase == "paused"


def test_a_change_decided_on_a_remembered_state_is_decided_anew_where_somebody_was_faster() -> None:
    store = open_store("memory:")
    rollout = a_rollout(store)
    process, seen = a_process(store), list[str]()
    process.get(rollout)

    def opens(state: Progress) -> Progress:
        if not seen:
            a_process(store).change(rollout, lambda other: given(other, Said("pause", "bob", NOW, message="wait")))
        seen.append(state.phase)
        return state if state.phase == "paused" else structs.replace(state, batches=[*state.batches, Batch(0, "c", 9, 1, "late", NOW)])

    assert process.change(rollout, opens).phase == "paused"
    assert seen == ["running", "paused"]
    assert "late" not in {batch.action for batch in a_process(store).get(rollout).batches}


def test_a_batch_that_is_known_is_read_from_memory_and_one_that_is_not_is_looked_up() -> None:
    store = open_store("memory:")
    rollout = a_rollout(store, states=3)
    counting = Counting(store)
    process = a_process(counting)
    process.get(rollout)
    counting.clear()
    assert process.opened(rollout, 2)[1].action == "a1"
    assert not counting.calls
    a_process(store).change(rollout, lambda state: structs.replace(state, batches=[*state.batches, Batch(0, "c", 2, 1, "a2", NOW)]))
    assert process.opened(rollout, 3)[1].action == "a2"


def test_a_newest_state_that_can_not_be_read_is_not_replaced_by_a_remembered_one() -> None:
    store = open_store("memory:")
    rollout = a_rollout(store, states=3)
    process = a_process(store)
    process.get(rollout)
    store.create(f"rollouts/{rollout}/000004.json", b"{")
    for _ in range(2):
        with pytest.raises(RecordUnreadable):
            process.get(rollout)


def test_no_more_rollouts_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "HEADS_KEPT", 2)
    store = open_store("memory:")
    process = a_process(store)
    for rollout in [a_rollout(store, states=1) for _ in range(7)]:
        assert process.get(rollout).id == rollout
        assert len(process._heads) <= 2


def test_a_rollout_that_had_ended_is_open_again_once_it_is_taken_back() -> None:
    store = open_store("memory:")
    rollout = a_rollout(store)
    process = a_process(store)
    process.change(rollout, lambda state: structs.replace(state, phase="done"))
    assert process.open() == []
    process.change(rollout, lambda state: given(state, Said("revert", "ada", NOW)))
    assert process.open() == [rollout]
