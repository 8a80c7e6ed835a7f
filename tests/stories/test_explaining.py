"""Why does this node have this label, and what was there before? Asked weeks later, of what the store keeps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from ulid import ULID

from shared.domain.labels.explanations import LabelExplanation, NodeExplanation, NodeHistory
from shared.domain.outcomes import Outcome
from shared.work.explaining import explain, history
from shared.work.intake import Rejected
from shared.work.rollouts import control, start
from tests.rollouts.rolling import CANARY, a_rollout
from tests.stories.fleet import Fleet, a_policy


def past(fleet: Fleet, node: str, **asked: Any) -> NodeHistory:
    return history(node, None, fleet.world, **asked)


def of(fleet: Fleet, node: str, key: str = "") -> NodeExplanation:
    return explain(node, key, None, fleet.world)[0]


def label(fleet: Fleet, node: str, key: str) -> LabelExplanation:
    return of(fleet, node, key).labels[key]


def told(fleet: Fleet, node: str) -> Sequence[str]:
    """The past of a node, oldest first."""
    return [event.release_in_words or str(event.outcome) for event in reversed(past(fleet, node).events)]


@pytest.fixture
def racks(fleet: Fleet) -> Fleet:
    """n1 and n2 in rack r1 by revision 1, which a site action released."""
    fleet.has_nodes(n1={"zone": "a"}, n2={"rack": "mine"})
    fleet.commits(a_policy("others", {"names": ["n9"]}, {"row": "x"}), a_policy("racks", {}, {"rack": "r1"}), adopted=False)
    fleet.relabels()
    return fleet


def test_a_label_is_explained_by_its_document_its_line_its_revision_and_its_action(racks: Fleet) -> None:
    found = of(racks, "n1", "rack")
    rack = found.labels["rack"]
    assert (rack.value, rack.holders, rack.declared, rack.document) == ("r1", ["hullmark"], "r1", "NodeLabelPolicy/racks")
    text = racks.world.revisions.files(1)["site"][0].data.decode().splitlines()
    assert rack.place is not None
    assert (rack.place.collection, rack.place.file, text[rack.place.line - 1].strip()) == ("site", "site.yaml", "rack: r1")
    assert rack.written is not None
    assert (rack.written.name, rack.written.by, rack.written.revision) == ("update_site", "unverified: an operator", 1)
    assert (found.revision and found.revision.number, str(found.release), found.in_sync) == (1, "revision 1", True)
    assert found.released is not None
    assert found.released.action == rack.written.action


def test_a_label_of_somebody_else_says_who_holds_it_and_that_nothing_declares_it(racks: Fleet) -> None:
    zone = label(racks, "n1", "zone")
    assert (zone.value, zone.declared, zone.place, zone.written) == ("a", None, None, None)
    assert zone.holders


def test_what_was_taken_from_somebody_is_told_with_its_holder(racks: Fleet) -> None:
    written = label(racks, "n2", "rack").written
    assert written is not None
    assert (written.known, written.before) == (True, "mine")
    assert written.holders


def test_what_our_own_write_replaced_is_known_from_the_write_before_it(racks: Fleet) -> None:
    racks.now += timedelta(days=21)
    racks.commits(a_policy("racks", {}, {"rack": "r2"}), adopted=False)
    racks.relabels()
    written = label(racks, "n1", "rack").written
    assert written is not None
    assert (written.before, written.revision, written.at) == ("r1", 2, racks.now)


def test_a_value_that_somebody_changed_since_has_no_write_of_ours(racks: Fleet) -> None:
    racks.cluster.set_labels("n1", {"rack": "theirs"}, manager="a-colleague")
    rack = label(racks, "n1", "rack")
    assert (rack.value, rack.declared, rack.written) == ("theirs", "r1", None)
    assert not of(racks, "n1").in_sync


def test_a_label_that_was_removed_says_by_which_action(racks: Fleet) -> None:
    racks.commits(a_policy("racks", {}, {"row": "w1"}), adopted=False)
    racks.relabels()
    rack = label(racks, "n1", "rack")
    assert (rack.value, rack.declared, rack.written and rack.written.before) == (None, None, "r1")


def test_the_past_of_a_node_has_releases_writes_stops_overrides_and_a_rollouts_way_back(racks: Fleet) -> None:
    racks.now += timedelta(hours=1)
    racks.world.releases.override("default", "n1", {"rack": "by-hand"}, "ada", racks.now)
    racks.now += timedelta(hours=1)
    racks.commits(a_policy("racks", {}, {"rack": "r2"}), a_rollout({**CANARY, "nodes": {"names": ["n1"]}}), adopted=False)
    rollout = start("careful", "ada", racks.world, racks.now).id
    racks.cloud.drain()
    racks.now += timedelta(minutes=1)
    control(rollout, "revert", "ada", racks.world, racks.now)
    racks.cloud.drain()
    assert told(racks, "n1") == [
        "revision 1 released",
        "labels put on it by hand",
        f"revision 2 released by rollout {rollout}",
        f"back to revision 1: rollout {rollout} was reverted",
        "changed",
    ]
    assert told(racks, "n2") == ["revision 1 released"]
    by_hand = past(racks, "n1").events[-2]
    assert (by_hand.by, by_hand.labels) == ("ada", {"rack": "by-hand"})


def test_an_override_says_who_put_it_there_and_has_no_document(racks: Fleet) -> None:
    racks.world.releases.override("default", "n1", {"rack": "r1"}, "ada", racks.now)
    rack = label(racks, "n1", "rack")
    assert (rack.declared, rack.document, rack.place) == ("r1", "override by ada", None)


def test_a_stopped_actions_release_is_told_as_taken_back(racks: Fleet) -> None:
    racks.commits(a_policy("racks", {}, {"rack": "r2"}), adopted=False)
    action = racks.sends(name="update_site")
    racks.world.releases.to_all("default", action, 2, since=racks.world.releases.head("default").k, by="ada", at=racks.now)
    racks.now += timedelta(minutes=1)
    racks.world.releases.take_back("default", action, (), since=0, by="ada", at=racks.now)
    assert told(racks, "n1")[-1] == f"back to revision 1: action {action} was stopped"


def test_a_dry_run_is_not_its_past(racks: Fleet) -> None:
    before = past(racks, "n1").events
    racks.commits(a_policy("racks", {}, {"rack": "r2"}), adopted=False)
    racks.relabels(dry_run=True)
    assert past(racks, "n1").events == before


def test_what_an_action_did_to_its_namesake_in_another_cluster_is_not_its_past(racks: Fleet) -> None:
    before = past(racks, "n1").events
    (action,) = racks.world.actions.ids()
    request, outcome = racks.world.actions.request(action), racks.ended(action)
    elsewhere = request.model_copy(update={"id": str(ULID()), "cluster": "elsewhere"})
    racks.world.actions.accept(elsewhere)
    racks.world.actions.end(elsewhere.id, outcome)
    assert past(racks, "n1").events == before


def test_what_the_action_of_its_cluster_did_in_an_action_over_several_is_its_past(racks: Fleet) -> None:
    (action,) = racks.world.actions.ids()
    request, outcome = racks.world.actions.request(action), racks.ended(action)
    both = request.model_copy(update={"id": str(ULID()), "cluster": "", "clusters": ["default", "elsewhere"]})
    racks.world.actions.accept(both)
    racks.world.actions.end(both.id, outcome.model_copy(update={"outcomes": [Outcome(subject="default", outcome="changed")]}))
    child = both.children["default"]
    racks.world.actions.accept(request.model_copy(update={"id": child, "parent": both.id}))
    racks.world.actions.end(child, outcome)
    assert [event.action for event in past(racks, "n1").events] == [child, action]


def test_a_node_that_is_gone_has_its_past_and_one_that_never_was_is_refused(racks: Fleet) -> None:
    racks.cluster.delete("n1")
    assert told(racks, "n1") == ["revision 1 released"]
    with pytest.raises(Rejected, match="unknown node nobody"):
        explain("nobody", "", None, racks.world)
    with pytest.raises(Rejected):
        history("n1", "nowhere", racks.world)


def test_what_cannot_be_read_is_named_and_hides_nothing_else(racks: Fleet) -> None:
    racks.commits(a_policy("racks", {}, {"rack": "r2"}), adopted=False)
    action = racks.relabels()
    key = f"actions/{action}/outcome.json"
    racks.world.store.delete(key)
    racks.world.store.create(key, b'{"n1": "n1", "default"')
    found = past(racks, "n1")
    assert key in found.unreadable[0]
    assert [event.release and str(event.release) for event in found.events] == ["revision 2", "revision 1"]


def test_looking_back_is_bounded_and_says_how_far_it_went(racks: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2, 8):
        racks.now += timedelta(days=1)
        racks.commits(a_policy("racks", {}, {"rack": f"r{number}"}), adopted=False)
        racks.relabels()
    reads: list[str] = []
    get = racks.world.store.get

    def counted(key: str) -> bytes | None:
        reads.append(key)
        return get(key)

    monkeypatch.setattr(racks.world.store, "get", counted)
    short = past(racks, "n1", look_back=3)
    assert [event.revision and event.revision.number for event in short.events] == [7, 6, 5]
    assert short.looked_back_to is not None
    assert len([key for key in reads if key.startswith(("releases/", "actions/"))]) <= 3 * 3 + 4
    assert past(racks, "n1").looked_back_to is None
