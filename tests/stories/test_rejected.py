"""A revision that was taken back is released by nobody until a person lifts that."""

from __future__ import annotations

from typing import NoReturn

import pytest
from ulid import ULID

from functions.relabel_request import main
from shared.domain.names import RelabelName
from shared.ledger import revisions
from shared.ledger.revisions import TagStays, UnknownTag
from shared.messages import RelabelRequest
from shared.work.control import retried
from shared.work.intake import accept
from tests.stories.fleet import Fleet


@pytest.fixture
def restored(fleet: Fleet) -> Fleet:
    """Revision 1 is good, 2 and 3 were mistakes, 4 restores 1."""
    for rack in ("r1", "r2", "r3"):
        fleet.declares({"n1": {"rack": rack}})
    fleet.has_nodes(n1={})
    fleet.world.revisions.restore(1, "ada", fleet.now)
    return fleet


def tags(fleet: Fleet) -> dict[int, list[str]]:
    every = fleet.world.revisions.tags_of(fleet.world.revisions.numbers())
    return {number: [tag for tag in found if tag == "rejected"] for number, found in every.items()}


def test_restoring_a_revision_rejects_those_that_it_replaces_and_nothing_else(restored: Fleet) -> None:
    assert tags(restored) == {1: [], 2: ["rejected"], 3: ["rejected"], 4: []}
    why = restored.world.revisions.rejection(3)
    assert why == "revision 3 was rejected by ada at 2026-11-21T03:00:00: `hullmark documents untag 3 rejected` lifts that"
    assert restored.world.revisions.rejection(4) == ""


def test_a_revision_with_the_same_documents_is_not_rejected(restored: Fleet) -> None:
    restored.declares({"n1": {"rack": "r5"}})
    assert restored.world.revisions.restore(1, "ada", restored.now)[1] == [2, 3, 5]
    assert tags(restored)[4] == [], "it restored revision 1 too"


def test_no_more_are_rejected_than_can_be_waited_for(restored: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "MOST_REJECTED", 2)
    restored.declares({"n1": {"rack": "r5"}})
    restored.declares({"n1": {"rack": "r6"}})
    assert restored.world.revisions.restore(2, "ada", restored.now)[1] == [5, 6], "the newest ones"


def test_nothing_is_asked_for_that_would_release_a_rejected_revision(restored: Fleet) -> None:
    restored.world.revisions.tag(4, "rejected", "ada", restored.now)
    action = restored.relabels()
    assert restored.world.actions.find(action) is None
    (notice,) = restored.notices("request.refused")
    assert "revision 4 was rejected by ada" in str(notice)
    assert restored.labels("n1") == {}

    restored.world.revisions.untag(4, "rejected")
    assert restored.outcome(restored.relabels()) == {"n1": "changed"}
    assert restored.labels("n1") == {"rack": "r1"}


def accepted(fleet: Fleet, request: RelabelRequest) -> str:
    """Accepted, and its message not handled yet; the action's id."""
    action = str(ULID())
    accept(request, action, fleet.world, fleet.now)
    return action


@pytest.mark.parametrize("name", ["update_site", "update_labels"])
def test_what_was_accepted_before_its_revision_was_taken_back_ends_blocked_and_releases_nothing(fleet: Fleet, name: RelabelName) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    fleet.declares({"n1": {"rack": "r2"}}, adopted=False)
    request = RelabelRequest(name=name, requested_by="eve", target_nodes=["n1"] if name == "update_labels" else None)
    action = accepted(fleet, request)
    fleet.world.revisions.restore(1, "ada", fleet.now)
    fleet.cloud.publish(RelabelRequest.TOPIC, [request.model_copy(update={"action": action}).outgoing()])
    fleet.cloud.drain()
    ended = fleet.ended(action)
    assert (ended.result, ended.reason, ended.revision) == ("blocked", "RevisionRejected", 2)
    assert "revision 2 was rejected by ada" in ended.message
    assert (fleet.labels("n1"), fleet.world.releases.look().mark("default", "n1").revision) == ({"rack": "r1"}, 1)
    assert fleet.world.revisions.tags(2) == ["committed", "rejected"]
    assert [notice["result"] for notice in fleet.notices("action.finished")][-1] == "blocked"

    fleet.world.revisions.untag(2, "rejected")
    again = retried(action, "eve", fleet.world)
    assert again.action is not None
    fleet.cloud.publish(RelabelRequest.TOPIC, [again.outgoing()])
    fleet.cloud.drain()
    assert fleet.outcome(again.action) == {"n1": "changed"}


def test_a_plan_that_was_made_before_is_not_released_after(restored: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function died after it had planned; somebody takes the revision back; the message comes again."""
    request = RelabelRequest(name="update_site", requested_by="eve", action=str(ULID()))
    with monkeypatch.context() as dying:
        dying.setattr(main, "release", killed)
        with pytest.raises(KeyboardInterrupt):
            main.handle(request, str(request.action), restored.world, restored.now)
    restored.world.revisions.tag(4, "rejected", "ada", restored.now)
    assert main.handle(request, str(request.action), restored.world, restored.now) == "blocked"
    restored.cloud.drain()
    assert (restored.ended(str(request.action)).reason, restored.labels("n1")) == ("RevisionRejected", {})


def test_what_was_released_before_goes_on(restored: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    request = RelabelRequest(name="update_site", requested_by="eve", action=str(ULID()))
    with monkeypatch.context() as dying:
        dying.setattr(main, "send", killed)
        with pytest.raises(KeyboardInterrupt):
            main.handle(request, str(request.action), restored.world, restored.now)
    restored.world.revisions.tag(4, "rejected", "ada", restored.now)
    main.handle(request, str(request.action), restored.world, restored.now)
    restored.cloud.drain()
    assert restored.outcome(str(request.action)) == {"n1": "changed"}


def test_a_sweep_repairs_what_was_released_before_it_was_rejected(restored: Fleet) -> None:
    restored.relabels()
    restored.world.revisions.tag(4, "rejected", "ada", restored.now)
    restored.cluster.set_labels("n1", {"rack": "drifted"}, "a-colleague")
    assert restored.outcome(restored.relabels(name="drift_sweep")) == {"n1": "changed"}
    assert restored.labels("n1") == {"rack": "r1"}


def killed(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_a_rejection_whose_record_is_torn_still_counts(restored: Fleet) -> None:
    restored.world.store.delete("tags/rejected/000003.json")
    restored.world.store.create("tags/rejected/000003.json", b"{")
    assert "rejected by somebody" in restored.world.revisions.rejection(3)


def test_tags_that_say_what_happened_stay_and_those_of_people_go(restored: Fleet) -> None:
    ledger = restored.world.revisions
    ledger.tag(2, "reviewed", "ada", restored.now)
    ledger.untag(2, "reviewed")
    assert ledger.tags(2) == ["committed", "rejected", "site-action-success"]
    for tag in ("committed", "site-action-success", "site-action-failure"):
        with pytest.raises(TagStays):
            ledger.untag(2, tag)
    with pytest.raises(UnknownTag, match="revision 2 has no tag reviewed; it has: committed, rejected"):
        ledger.untag(2, "reviewed")
