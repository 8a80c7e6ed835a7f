"""Pause and unpause, given by several people at one moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from shared.adapters.store import open_store
from shared.domain.actions import ActionRequest
from shared.ledger.actions import Actions, WrongState
from shared.ports import ObjectStore
from shared.work.control import control
from tests.stories.fleet import START, Fleet

ACTION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class Interrupted:
    """A store in which others act once, right after the control verbs of an action were listed for the first time."""

    def __init__(self, store: ObjectStore, meanwhile: Callable[[], None]) -> None:
        self._store, self._meanwhile = store, [meanwhile]

    def keys(self, prefix: str, after: str = "") -> list[str]:
        found = self._store.keys(prefix, after)
        if prefix.endswith("/control/") and self._meanwhile:
            self._meanwhile.pop()()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def store() -> ObjectStore:
    store = open_store("memory:")
    Actions(store).accept(
        ActionRequest(
            id=ACTION,
            name="update_labels",
            cluster="default",
            revision=1,
            requested_by="eve",
            requested_at=START,
            deadline=START + timedelta(hours=1),
            target_nodes=["n1"],
        )
    )
    return store


@pytest.mark.parametrize("before", [[], ["pause"]])
@pytest.mark.parametrize("meanwhile", [1, 2, 3])
def test_who_acts_on_an_older_state_than_somebody_else_left_is_refused(store: ObjectStore, before: list[str], meanwhile: int) -> None:
    turns = [*before, *itertools.islice(itertools.cycle(["unpause", "pause"] if before else ["pause", "unpause"]), meanwhile)]
    others = Actions(store)
    for verb in before:
        others.control(ACTION, verb, "adam", START)

    def act() -> None:
        for verb in turns[len(before) :]:
            others.control(ACTION, verb, "adam", START)

    slow = Actions(cast("ObjectStore", Interrupted(store, act)))
    with pytest.raises(WrongState, match="by somebody else at this moment"):
        slow.control(ACTION, turns[len(before)], "eve", START)
    assert [(each.verb, each.by) for each in others.commands(ACTION)] == [(verb, "adam") for verb in turns]
    assert others.paused(ACTION) == (turns[-1] == "pause")


def test_an_unpause_that_died_before_its_parts_were_sent_may_be_said_again() -> None:
    fleet = Fleet()
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={})
    action = fleet.sends(name="update_site")
    fleet.cluster.before = lambda call, _: (
        control(action, "pause", "an operator", fleet.world, fleet.now)
        if call == "nodes" and fleet.world.actions.lifecycle(action) == "Pending"
        else None
    )
    fleet.cloud.drain()
    assert fleet.world.actions.lifecycle(action) == "Paused"

    fleet.world.actions.control(action, "unpause", "an operator", fleet.now)  # and whoever gave it is gone
    control(action, "unpause", "an operator", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.ended(action).result == "success"
    with pytest.raises(WrongState):
        control(action, "unpause", "an operator", fleet.world, fleet.now)
