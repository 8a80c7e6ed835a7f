"""A revision that was taken back is released by nobody until a person lifts that."""

from __future__ import annotations

import pytest

from shared.ledger import revisions
from shared.ledger.revisions import TagStays, UnknownTag
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
