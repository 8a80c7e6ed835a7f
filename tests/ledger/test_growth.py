"""What has been costs nothing: the same calls and listed keys for 100 past actions as for 5,000, and they are forgotten in time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import yaml
from ulid import ULID

from functions.api.fleet import look
from functions.result_rollup import main as result_rollup
from functions.result_rollup.main import FORGOTTEN_AT_A_TIME, sweep
from shared.adapters.store import open_store
from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.documents.reading import Source
from shared.ledger.actions import Actions
from shared.ledger.history import DAYS, DONE, History
from shared.ledger.revisions import HEADS, HEADS_KEPT, Revisions, revision_key
from shared.messages import RelabelRequest
from shared.ports import ObjectStore, StoreError
from shared.work.intake import accept
from shared.world import World
from tests.stories.fleet import Fleet, a_policy


class Counting:
    """A store that counts its calls, and the keys that listings answer."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            found = method(*args, **kwargs)
            if name == "keys":
                self.calls["listed"] += len(found)
            return found

        return call


def past(store: ObjectStore, which: range, now: datetime) -> None:
    """Actions on the whole site so many hours ago, all ended."""
    ledger = Actions(store)
    for hours in which:
        at = now - timedelta(hours=hours)
        action = str(ULID.from_datetime(at))
        named = {"id": action, "name": "update_site", "cluster": "default", "revision": 1, "requested_by": "a clock"}
        ledger.accept(ActionRequest.model_validate({**named, "requested_at": at, "deadline": at}))
        ledger.end(action, ActionOutcome(result="success", finished_at=at, revision=1, counts={"changed": 1}))
        ledger.mark_announced(action)


def past_revisions(fleet: Fleet, which: range) -> None:
    """Revisions like the first one, each of documents that were staged for it, each deployed."""
    store, first = fleet.world.store, fleet.world.revisions.get(1).about
    objects = {key: store.get(key) or b"" for key in store.keys(f"revisions/000001/{first.objects}/")}
    staged = store.get(first.collections["site"].staged) or b""
    for number in which:
        taken = {"site": f"staged/site/{number:06}.json"}
        kept = {"site": first.collections["site"].model_copy(update={"staged": taken["site"]})}
        store.create(taken["site"], staged)
        for key, body in objects.items():
            store.create(key.replace("/000001/", f"/{number:06}/"), body)
        about = first.model_copy(update={"number": number, "collections": kept, "seen": taken})
        store.create(revision_key(number), about.to_bytes())
        store.create(f"tags/site-action-success/{number:06}.json", b"{}")
    for number in which[-HEADS_KEPT:]:
        store.create(f"{HEADS}{number:06}", b"")
    fleet.world.revisions.newest()


def costs(fleet: Fleet, work: Callable[[World], object]) -> Counter[str]:
    """The calls of some work in a process that knows the newest revision already, and nothing else."""
    counting: Any = Counting(fleet.world.store)
    world = World(counting, fleet.world.bus, fleet.world.open_cluster, fleet.world.settings, fleet.world.clock, fleet.world.open_fleet)
    world.revisions.newest()
    counting.calls.clear()
    work(world)
    found: Counter[str] = counting.calls
    return found


WORK: dict[str, Callable[[World], object]] = {
    "list": lambda world: world.actions.ids(limit=20),
    "page": look,
    "sweep": lambda world: sweep(world, world.clock()),
    "accept": lambda world: accept(RelabelRequest(target_nodes=["n1"]), str(ULID.from_datetime(world.clock())), world, world.clock()),
}


def recorded_before_entries(store: ObjectStore, action: str, at: datetime) -> None:
    """An action that has ended, object for object as releases wrote it that kept no entries by day."""
    named = {"id": action, "name": "update_site", "cluster": "default", "revision": 1, "requested_by": "a clock", "dry_run": False}
    asked = {**named, "requested_at": at.isoformat(), "deadline": at.isoformat(), "parameters": {}, "context_marker": ""}
    outcome = {"result": "success", "finished_at": at.isoformat(), "revision": 1, "counts": {"changed": 1}, "outcomes": []}
    store.create(f"actions/{action}/request.json", json.dumps(asked).encode())
    store.create(f"actions/{action}/plan.json", json.dumps({"revision": 1, "planned_at": at.isoformat(), "parts": [["n1"]]}).encode())
    store.create(f"actions/{action}/outcome.json", json.dumps(outcome).encode())
    store.create(f"actions/{action}/announced.json", b"{}")


def lists_revisions(world: World) -> None:
    listed = world.revisions.listed(20)
    tags = world.revisions.tags_of([about.number for about, _ in listed])
    assert tags[world.revisions.newest()][1:] == ["site-action-success"]
    assert world.revisions.buffers() == {}


def commits(world: World, label: str) -> None:
    text = yaml.safe_dump(a_policy("p", {"names": ["n1"]}, {"rack": label})).encode()
    world.revisions.stage("site", [Source("site.yaml", text)], "eve", world.clock())
    world.revisions.commit("eve", world.clock())


REVISIONS: dict[str, Callable[[World], object]] = {
    "newest, in a new process": lambda world: Revisions(world.store).newest(),
    "list": lists_revisions,
    "tags": lambda world: Revisions(world.store).tags(world.revisions.newest()),
    "any tagged": lambda world: world.revisions.any_tagged(["site-action-failure", "site-action-success"]),
    "none tagged": lambda world: world.revisions.any_tagged(["none"]),
    "commit": lambda world: commits(world, "r2"),
    "restore": lambda world: world.revisions.restore(7, "eve", world.clock()),
    "page": look,
    "sweep": lambda world: sweep(world, world.clock()),
    "accept": WORK["accept"],
}


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    fleet.commits(a_policy("p", {"names": ["n1"]}, {"rack": "r1"}))
    fleet.has_nodes(n1={})
    fleet.world.store.create(DONE, b"")
    sweep(fleet.world, fleet.now)
    return fleet


@pytest.mark.parametrize("work", WORK)
def test_a_long_past_costs_nothing(fleet: Fleet, work: str) -> None:
    fleet.world.settings = fleet.world.settings.model_copy(update={"keep_actions_days": 365})
    past(fleet.world.store, range(1, 101), fleet.now)
    few = costs(fleet, WORK[work])
    past(fleet.world.store, range(101, 5001), fleet.now)
    assert costs(fleet, WORK[work]) == few
    assert sum(few.values()) < 200


@pytest.mark.parametrize("work", REVISIONS)
def test_many_revisions_cost_nothing(work: str) -> None:
    found = []
    for many in (100, 5000):
        fleet = Fleet()
        fleet.commits(a_policy("p", {"names": ["n1"]}, {"rack": "r1"}))
        fleet.has_nodes(n1={})
        past_revisions(fleet, range(2, many + 1))
        fleet.world.store.create(DONE, b"")
        sweep(fleet.world, fleet.now)
        found.append(costs(fleet, REVISIONS[work]))
    assert found[0] == found[1]
    assert sum(found[0].values()) < 200


def test_a_hint_that_is_missing_late_or_wrong_never_hides_a_revision(fleet: Fleet) -> None:
    store = fleet.world.store
    for label in ("r2", "r3", "r4", "r5", "r6"):
        commits(fleet.world, label)
    assert store.keys(HEADS) == ["heads/000004", "heads/000005", "heads/000006"]
    for damage in (["heads/000006"], ["heads/000005"], ["heads/000004"]):
        for key in damage:
            store.delete(key)
        assert Revisions(store).newest() == 6
    store.create("heads/000002", b"garbage")
    assert Revisions(store).newest() == 6
    store.create("heads/000009", b"")
    store.create("heads/of something else", b"")
    assert Revisions(store).newest() == 6


def test_a_commit_whose_hint_cannot_be_written_counts(fleet: Fleet) -> None:
    class NoHints:
        def create(self, key: str, body: bytes) -> bool:
            if key.startswith(HEADS):
                raise StoreError("no space")
            return fleet.world.store.create(key, body)

        def __getattr__(self, name: str) -> Any:
            return getattr(fleet.world.store, name)

    revisions = Revisions(cast("ObjectStore", NoHints()))
    revisions.restore(1, "eve", fleet.now)
    assert revisions.restore(1, "eve", fleet.now)[0].number == 3
    assert Revisions(fleet.world.store).newest() == 3


def test_revisions_are_listed_in_pages(fleet: Fleet) -> None:
    for label in ("r2", "r3", "r4", "r5"):
        commits(fleet.world, label)
    fleet.world.revisions.tag(2, "golden", "eve", fleet.now)
    for limit, before, numbers in ((0, 0, [1, 2, 3, 4, 5]), (2, 0, [4, 5]), (2, 4, [2, 3]), (3, 2, [1]), (5, 1, []), (2, 100, [4, 5])):
        listed = [about.number for about, _ in fleet.world.revisions.listed(limit, before)]
        assert listed == numbers
        golden = {2: ["committed", "golden"]}
        one = {1: ["committed", "site-action-success"]}
        assert fleet.world.revisions.tags_of(listed) == {n: (golden | one).get(n, ["committed"]) for n in numbers}


def test_what_ended_long_ago_is_forgotten_a_little_at_each_sweep_and_what_is_open_stays(fleet: Fleet) -> None:
    past(fleet.world.store, range(1, 61), fleet.now - timedelta(days=200))
    past(fleet.world.store, range(1, 4), fleet.now)
    still_open = fleet.world.actions.ids()[0]
    fleet.world.store.create(f"open-actions/{still_open}", b"2099-01-01T00:00:00+00:00")
    fleet.world.store.delete(f"actions/{still_open}/outcome.json")
    before = fleet.world.actions.ids()

    forgotten = fleet.world.actions.forget(fleet.now - timedelta(days=90), FORGOTTEN_AT_A_TIME)

    assert forgotten == FORGOTTEN_AT_A_TIME
    left = fleet.world.actions.ids()
    assert len(left) == len(before) - FORGOTTEN_AT_A_TIME
    assert {still_open, *before[-3:]} <= {*left}
    sweep(fleet.world, fleet.now)  # which ends it, its deadline being long past, and forgets it too
    assert fleet.world.actions.ids() == before[-3:]
    assert len(fleet.world.store.keys(DAYS)) == 3
    assert fleet.world.revisions.newest() == 1


def test_actions_of_one_millisecond_are_listed_by_their_ids_the_last_one_first() -> None:
    history = History(open_store("memory:"))
    for number in (2, 1, 3):
        history.add(f"01KAJ0000000000000000000A{number}", datetime(2026, 11, 21, 3, 0, tzinfo=UTC))
    assert [action[-2:] for action in history.newest_first()] == ["A3", "A2", "A1"]


def test_a_day_of_many_actions_is_listed_from_its_end(fleet: Fleet) -> None:
    ledger, asked = fleet.world.actions, []
    for second in range(1500):
        asked.append(str(ULID()))  # ids that say nothing of when they were asked for
        at = fleet.now + timedelta(seconds=second)
        named = {"id": asked[-1], "name": "update_site", "cluster": "default", "revision": 1, "requested_by": "a clock"}
        ledger.accept(ActionRequest.model_validate({**named, "requested_at": at, "deadline": at}))
    assert ledger.ids(limit=20) == asked[-20:]
    assert ledger.ids() == asked
    assert costs(fleet, lambda world: world.actions.ids(limit=20))["listed"] == 100


@pytest.fixture
def upgraded() -> Fleet:
    """A store of a release that kept no entries by day: 30 actions of 200 days ago, 30 of this month."""
    fleet = Fleet()
    for age in (200, 10):
        for number in range(30):
            at = fleet.now - timedelta(days=age, hours=number)
            recorded_before_entries(fleet.world.store, str(ULID.from_datetime(at)), at)
    return fleet


def test_actions_of_an_earlier_release_are_listed_at_once_among_new_ones(upgraded: Fleet) -> None:
    old = upgraded.world.store.folders("actions/")
    past(upgraded.world.store, range(1, 3), upgraded.now)
    assert upgraded.world.actions.ids()[:-2] == old
    assert upgraded.world.actions.ids(limit=3)[0] == old[-1]
    assert [found.request.name for found in look(upgraded.world).recent[:3]] == ["update_site"] * 3


def test_actions_of_an_earlier_release_get_their_entries_a_few_at_each_sweep_and_are_forgotten_in_time(
    upgraded: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, old = upgraded.world.store, upgraded.world.store.folders("actions/")
    monkeypatch.setattr(result_rollup, "LISTED_AT_A_TIME", 25)
    sweep(upgraded.world, upgraded.now)
    assert len(store.keys(DAYS)) == 0, "the 25 oldest got their entries, and were forgotten"
    assert upgraded.world.actions.ids() == old[25:]
    for _ in range(3):
        sweep(upgraded.world, upgraded.now)
    assert upgraded.world.actions.ids() == old[30:]
    assert len(store.keys(DAYS)) == 30
    assert store.folders("actions/") == old[30:]


def test_the_store_counts_as_upgraded_two_days_after_the_last_action_without_an_entry_may_have_come(upgraded: Fleet) -> None:
    store = upgraded.world.store
    sweep(upgraded.world, upgraded.now)
    late = str(ULID.from_datetime(upgraded.now))
    recorded_before_entries(store, late, upgraded.now)  # by a function of the earlier release that was still at work
    assert upgraded.world.actions.ids()[-1] == late
    sweep(upgraded.world, upgraded.now + timedelta(days=1))
    assert store.get(DONE) is None
    sweep(upgraded.world, upgraded.now + timedelta(days=2))
    assert store.get(DONE) is not None
    assert Actions(store).ids()[-1] == late


def test_an_old_request_that_cannot_be_read_is_listed_by_its_id_and_a_strange_folder_is_left_alone(upgraded: Fleet) -> None:
    store, torn = upgraded.world.store, str(ULID.from_datetime(upgraded.now - timedelta(days=3)))
    store.create(f"actions/{torn}/request.json", b"{")
    store.create("actions/lost+found/x", b"")
    sweep(upgraded.world, upgraded.now)
    assert upgraded.world.actions.ids()[-1] == torn
    assert store.get("actions/lost+found/x") is not None


def test_an_action_that_lost_the_mark_that_it_is_open_ends_within_the_hour_after_its_deadline(fleet: Fleet) -> None:
    action = fleet.sends(target_nodes=["n1"])
    accept(RelabelRequest(target_nodes=["n1"]), action, fleet.world, fleet.now)
    fleet.cloud._queue.clear()
    fleet.world.store.delete(f"open-actions/{action}")
    for minutes in range(0, 121, 5):
        sweep(fleet.world, fleet.now + timedelta(minutes=minutes))
    assert fleet.ended(action).result == "expired"
    assert fleet.world.actions.open() == []
    assert [notice["result"] for notice in fleet.notices("action.finished")] == ["expired"]


@pytest.mark.parametrize("hours", [3, 50])
def test_the_look_back_goes_on_where_the_last_one_ended(fleet: Fleet, hours: int) -> None:
    action = str(ULID())
    accept(RelabelRequest(target_nodes=["n1"]), action, fleet.world, fleet.now)
    fleet.world.store.delete(f"open-actions/{action}")
    sweep(fleet.world, fleet.now + timedelta(hours=hours))
    assert fleet.ended(action).result == "expired"
    assert len(fleet.world.store.keys("sweeps/")) == 1


def test_more_overdue_actions_than_one_look_takes_are_taken_up_hour_by_hour(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_rollup, "LOOKED_AT_A_TIME", 3)
    lost = []
    for minutes in range(0, 240, 15):
        lost.append(str(ULID()))
        accept(RelabelRequest(target_nodes=["n1"]), lost[-1], fleet.world, fleet.now + timedelta(minutes=minutes))
        fleet.world.store.delete(f"open-actions/{lost[-1]}")
    for ended in (4, 8, 12, 16, 16):
        sweep(fleet.world, fleet.now + timedelta(hours=6))
        assert sum(fleet.world.actions.outcome(action) is not None for action in lost) == ended
