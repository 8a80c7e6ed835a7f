"""What was written once and is asked for no more goes; what somebody may still ask for stays."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
import yaml

from functions.result_rollup.main import sweep
from shared.adapters.store import open_store
from shared.domain.documents.reading import Source, read
from shared.domain.versions.clusters import VersionStep
from shared.domain.versions.profiles import gardener
from shared.ledger.fleets import KEPT, DocumentFleet
from shared.ledger.notices import SENT, Sent, mark
from shared.ledger.repairs import WINDOW_SECONDS
from shared.ledger.revisions import Revisions
from shared.ports import ObjectStore, Stale
from tests.stories.fleet import Fleet, a_policy
from tests.versions.test_functions import shoot


def stages(fleet: Fleet, label: str, collection: str = "site") -> None:
    text = yaml.safe_dump(a_policy(f"p-{collection}", {"names": ["n1"]}, {f"rack-{collection}": label})).encode()
    fleet.world.revisions.stage(collection, [Source("site.yaml", text)], "eve", fleet.now)


def staged(fleet: Fleet) -> list[str]:
    return [key.removeprefix("staged/").removesuffix(".json") for key in fleet.world.store.keys("staged/")]


def test_buffers_that_were_passed_over_go_after_the_days_that_actions_are_kept(fleet: Fleet) -> None:
    for labels in (("a", "b", "c"), ("d", "e"), ("f",), ("g", "h")):
        for label in labels:
            stages(fleet, label)
        fleet.world.revisions.commit("eve", fleet.now)
        fleet.now += timedelta(days=30)
    stages(fleet, "i")
    stages(fleet, "k")
    stages(fleet, "x", "another")
    every = staged(fleet)
    assert len(every) == 11

    sweep(fleet.world, fleet.now - timedelta(days=29))  # 91 days after the first commit, 61 after the second
    assert set(every) - set(staged(fleet)) == {"site/000001", "site/000002"}
    sweep(fleet.world, fleet.now + timedelta(days=365))
    kept = ["another/000001", *(f"site/00000{number}" for number in (3, 5, 6, 8, 9)), "site/000010"]
    assert staged(fleet) == kept
    assert all(Revisions(fleet.world.store).sources(number) for number in (1, 2, 3, 4))
    fleet.world.revisions.restore(1, "eve", fleet.now)
    stages(fleet, "m")
    assert staged(fleet)[-1] == "site/000011"
    sweep(fleet.world, fleet.now + timedelta(days=999))
    assert staged(fleet) == [*kept, "site/000011"]
    assert len(fleet.world.store.keys("staged-cleared/")) == 1


def test_what_a_revision_that_cannot_be_read_names_stays(fleet: Fleet) -> None:
    for label in ("a", "b", "c"):
        stages(fleet, label)
        fleet.world.revisions.commit("eve", fleet.now)
    fleet.world.store.delete("revisions/000002/revision.json")
    sweep(fleet.world, fleet.now + timedelta(days=999))
    assert staged(fleet) == ["site/000001", "site/000002", "site/000003"]


def test_repairs_and_marks_go_when_their_window_or_their_revision_is_over(fleet: Fleet) -> None:
    stages(fleet, "a")
    fleet.world.revisions.commit("eve", fleet.now)
    stages(fleet, "b")
    fleet.world.revisions.commit("eve", fleet.now)
    window = int(fleet.now.timestamp()) // WINDOW_SECONDS
    over = [f"told/c/n/{window - 2}.json", "told/c/n/1.json", f"drift/c/n/{window - 2}/contested/1.json"]
    kept = [f"told/c/n/{window}.json", "told/c/n/2.json", f"drift/c/n/{window}/contested/1.json", "told/c/n/notes.txt", "drift/strange"]
    for key in (*over, *kept):
        fleet.world.store.create(key, b"{}")
    sweep(fleet.world, fleet.now)
    assert [*fleet.world.store.keys("drift/"), *fleet.world.store.keys("told/")] == sorted(kept)


def test_a_mark_lives_while_its_notice_is_due_and_goes_a_month_after() -> None:
    store, now = open_store("memory:"), datetime.fromisoformat("2026-01-31T22:00:00Z")
    Sent(store, now).add("due for long", "")
    Sent(store, now).add("due once", "")
    for days in range(0, 200, 7):
        sent = Sent(store, now + timedelta(days=days))
        assert sent.knows("due for long", "")
        assert not sent.knows("never sent", "")
        sent.forget()
    assert not Sent(store, now + timedelta(days=200)).knows("due once", "")
    assert len(store.keys(SENT)) == 2, "one a month, and that of the month before"


def test_marks_of_an_earlier_release_count_and_are_put_into_a_month() -> None:
    store, now = open_store("memory:"), datetime.fromisoformat("2026-01-31T22:00:00Z")
    store.create(f"{SENT}{mark('old')}", b"old")
    for _ in range(2):
        sent = Sent(store, now)
        assert sent.knows("old", "")
        sent.forget()
    assert store.keys(SENT) == [f"{SENT}00/2026-01/{mark('old')}", f"{SENT}2026-01/{mark('old')}"]


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory:")


def fleet_of(store: ObjectStore, kubernetes: str = "1.0.0") -> DocumentFleet:
    documents, _ = read([Source("f.yaml", yaml.safe_dump(shoot("s", kubernetes)).encode())])
    return DocumentFleet(store, gardener(documents).clusters)


def moves(fleet: DocumentFleet, current: str, to: str) -> None:
    fleet.apply("garden/s", VersionStep("controlPlane", "kubernetes", current, to))


def runs(fleet: DocumentFleet) -> str | None:
    cluster = fleet.cluster("garden/s")
    return cluster.kubernetes if cluster else None


def test_many_changes_of_a_cluster_leave_a_few_objects_and_the_version_of_the_last(store: ObjectStore) -> None:
    for number in range(40):
        moves(fleet_of(store), f"1.{number}.0", f"1.{number + 1}.0")
        assert runs(fleet_of(store)) == f"1.{number + 1}.0"
    assert store.keys("fleet/")[-1] == "fleet/garden/s/000040.json"
    assert len(store.keys("fleet/")) == KEPT
    assert runs(fleet_of(store, "1.30.0")) == "1.40.0", "a commit of a version on the way goes on from there"
    assert runs(fleet_of(store, "1.50.0")) == "1.50.0", "a commit of another version makes all of them moot"
    moves(fleet_of(store, "1.50.0"), "1.50.0", "1.51.0")
    assert len(json.loads(store.get("fleet/garden/s/000041.json") or b"")["before"]) == 0
    assert runs(fleet_of(store, "1.50.0")) == "1.51.0"


def test_changes_that_an_earlier_release_wrote_count(store: ObjectStore) -> None:
    def written_before(number: int) -> None:
        change = {"component": "controlPlane", "subject": "kubernetes", "from": f"1.{number - 1}.0", "to": f"1.{number}.0"}
        store.create(f"fleet/garden/s/{number:06}.json", json.dumps(change).encode())

    for number in (1, 2, 3):
        written_before(number)
    assert runs(fleet_of(store)) == "1.3.0"
    moves(fleet_of(store), "1.3.0", "1.4.0")
    written_before(5)  # by a function of that release that was still at work
    assert runs(fleet_of(store)) == "1.5.0"
    moves(fleet_of(store), "1.5.0", "1.6.0")
    for number in range(1, 6):
        store.delete(f"fleet/garden/s/{number:06}.json")
    assert runs(fleet_of(store)) == "1.6.0"


def test_a_writer_whose_number_is_free_again_takes_its_change_back(store: ObjectStore) -> None:
    class Slow:
        """A store on which others change the cluster many times before the write."""

        def create(self, key: str, body: bytes) -> bool:
            for number in range(1, 20):
                moves(fleet_of(store), f"1.{number}.0", f"1.{number + 1}.0")
            return store.create(key, body)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    moves(fleet_of(store), "1.0.0", "1.1.0")
    with pytest.raises(Stale, match=r"not 1[.]1[.]0"):
        moves(fleet_of(cast("ObjectStore", Slow())), "1.1.0", "1.2.0")
    assert runs(fleet_of(store)) == "1.20.0"
    assert len(store.keys("fleet/")) == KEPT
