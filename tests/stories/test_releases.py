"""Which revision holds for a node is asked in one place: relabels, events and late parts all go by its answer, not by the newest commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions.node_event.main import handle
from functions.result_rollup import main as rollup
from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.labels.events import NodeChange
from shared.domain.labels.selection import FilterEntry, NodeFilter
from shared.domain.outcomes import Outcome
from shared.ledger.actions import Seen
from shared.ledger.releases import Newest
from shared.messages import NodeApply, NodeChanged, NodeTask, Outgoing, PartResult, RelabelRequest
from shared.ports import Refused, StoreError
from shared.work.control import control, retried
from shared.work.intake import Rejected, accept
from tests.stories.fleet import START, Fleet


class Ear:
    """A bus that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Outgoing] = []

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        self.heard += messages


@pytest.fixture
def held(fleet: Fleet) -> Fleet:
    """Revision 1 says r1 and is released, revision 2 says r2 and is only committed."""
    fleet.declares({"n1": {"rack": "r1"}, "n2": {"rack": "r1"}})
    fleet.declares({"n1": {"rack": "r2"}, "n2": {"rack": "r2"}}, adopted=False)
    fleet.has_nodes(n1={}, n2={})
    return fleet


def tells(fleet: Fleet, name: str) -> None:
    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged(kind="added", cluster="default", name=name).outgoing()])
    fleet.cloud.drain()


def test_a_relabel_releases_the_newest_revision_to_the_nodes_that_it_names_and_to_no_other(held: Fleet) -> None:
    action = held.relabels("n1")
    tells(held, "n2")
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r2"}, {"rack": "r1"})
    assert held.ended(action).revision == 2


def test_an_event_repairs_a_node_to_its_own_release(held: Fleet) -> None:
    tells(held, "n1")
    assert held.labels("n1") == {"rack": "r1"}


def test_an_event_goes_by_the_nodes_own_release(held: Fleet) -> None:
    held.releases(2, "n2")
    bus = held.world.bus = Ear()
    for name in ("n1", "n2"):
        handle(NodeChange(kind="added", cluster="default", name=name), held.world, START)
    sent = [NodeApply.parse(message.data) for message in bus.heard]
    assert [(task.revision, task.nodes[0].labels) for task in sent] == [(1, {"rack": "r1"}), (2, {"rack": "r2"})]


@pytest.mark.parametrize("revision", [1, 2])
def test_a_part_is_applied_as_its_cluster_is_released_whichever_revision_it_was_made_from(held: Fleet, revision: int) -> None:
    node = held.node("n1")
    task = NodeTask(name="n1", uid=node.uid, labels={"rack": f"r{revision}"})
    held.cloud.publish(NodeApply.TOPIC, [NodeApply(revision=revision, nodes=[task]).outgoing()])
    held.cloud.drain()
    assert held.labels("n1") == {"rack": "r1"}


def test_a_request_travels_flat_and_keeps_its_filter_as_it_is_from_the_message_to_the_record_and_back(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    wanted = NodeFilter(filter_set_type="union", filter_set=[FilterEntry(filter_type="union", node_names=["n1"])])
    action = fleet.sends(node_filter=wanted, dry_run=True)
    fleet.cloud.drain()

    kept = fleet.world.actions.request(action)
    sent = json.loads(RelabelRequest.again(kept).outgoing().data)

    assert kept.node_filter == wanted
    assert RelabelRequest.again(kept).node_filter is kept.node_filter
    assert sent == {
        "version": 1,
        "action": action,
        "name": "update_labels",
        "cluster": "default",
        "node_filter": {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["n1"]}]},
        "requested_by": kept.requested_by,
        "dry_run": True,
    }


def test_a_record_that_an_earlier_version_kept_is_read() -> None:
    kept = {
        "id": "01K9QJ5Y4M0000000000000001",
        "name": "relabel_nodes",
        "cluster": "default",
        "revision": 3,
        "requested_by": "ada",
        "requested_at": START.isoformat(),
        "deadline": START.isoformat(),
        "node_filter": {"filter_set_type": "union", "filter_set": [{"filter_type": "intersection", "node_tags": ["gpu"]}]},
        "dry_run": False,
        "parameters": {"node_filter": None},
        "context_marker": "",
        "of_a_later_version": 1,
    }
    read = ActionRequest.model_validate_json(json.dumps(kept))
    assert read.node_filter
    assert read.node_filter.filter_set == [FilterEntry(filter_type="intersection", node_tags=["gpu"])]
    assert json.loads(read.to_bytes()).items() >= {"name": "relabel_nodes", "cluster": "default", "revision": 3}.items()


# --- what waits, what is stopped, what a person sets


def works_it_off_without(fleet: Fleet, lost: str) -> None:
    """Everything that waits is worked off, and what is published on this topic meanwhile is lost."""
    publish = fleet.cloud.publish

    def loses(topic: str, messages: Sequence[Outgoing]) -> None:
        if topic != lost:
            publish(topic, messages)

    fleet.world.bus.publish = loses  # type: ignore[method-assign]
    fleet.cloud.drain()
    fleet.world.bus.publish = publish  # type: ignore[method-assign]


def sweeps(fleet: Fleet) -> str:
    action = fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    return action


def test_a_sweep_repairs_to_what_is_released_and_never_further(held: Fleet) -> None:
    sweeps(held)
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r1"}, {"rack": "r1"})
    held.cluster.set_labels("n1", {"rack": "mine"}, "a-colleague")
    sweeps(held)
    assert held.labels("n1") == {"rack": "r1"}


def test_a_sweep_keeps_what_single_nodes_were_released(held: Fleet) -> None:
    held.relabels("n1")
    sweeps(held)
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r2"}, {"rack": "r1"})


def test_a_node_that_joins_while_a_newer_revision_waits_gets_the_released_one(held: Fleet) -> None:
    held.declares({"n3": {"rack": "r3"}}, adopted=False)
    held.has_nodes(n3={})
    tells(held, "n3")
    assert held.labels("n3") == {}


def test_a_site_action_releases_to_every_node_and_to_those_that_join_later(held: Fleet) -> None:
    held.declares({name: {"rack": "r3"} for name in ("n1", "n2", "n3")}, adopted=False)
    held.relabels()
    held.has_nodes(n3={})
    tells(held, "n3")
    assert {held.labels(name)["rack"] for name in ("n1", "n2", "n3")} == {"r3"}


def test_what_is_accepted_is_applied_whatever_is_committed_before_it_is_planned(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={})
    accepted = accept(RelabelRequest(target_nodes=["n1"]), "01K9QJ5Y4M0000000000000001", fleet.world, fleet.now)
    fleet.declares({"n1": {"rack": "r2"}}, adopted=False)
    fleet.cloud.publish(RelabelRequest.TOPIC, [RelabelRequest.again(accepted).outgoing()])
    fleet.cloud.drain()
    assert fleet.labels("n1") == {"rack": "r1"}
    assert fleet.ended(accepted.id).revision == 1


def test_a_dry_run_releases_nothing(held: Fleet) -> None:
    held.relabels(dry_run=True)
    sweeps(held)
    assert held.labels("n1") == {"rack": "r1"}


def test_an_action_that_can_not_be_planned_releases_nothing(held: Fleet) -> None:
    def is_away(call: str, _node: str) -> None:
        raise Refused("Forbidden", "nobody may list nodes")

    held.cluster.before = is_away
    held.relabels()
    held.cluster.before = lambda call, node: None
    sweeps(held)
    assert held.labels("n1") == {"rack": "r1"}


@pytest.mark.parametrize("whole", [True, False])
def test_a_sweep_does_not_finish_what_a_person_stopped(held: Fleet, whole: bool) -> None:
    """The part is parked while the action is paused; stopped, its nodes are what they were."""
    sweeps(held)
    action = held.sends(**({"name": "update_site"} if whole else {"target_nodes": ["n1", "n2"]}))
    paused: list[str] = []

    def pauses(call: str, _node: str) -> None:
        if call in ("nodes", "node") and not paused:
            paused.append(call)
            held.world.actions.control(action, "pause", "an operator", held.now)

    held.cluster.before = pauses
    held.cloud.drain()
    assert held.world.releases.head("default").mark("n1").revision == 2
    control(action, "stop", "an operator", held.world, held.now)
    assert held.world.releases.head("default").mark("n1").revision == 1
    held.cloud.drain()

    sweeps(held)
    tells(held, "n2")
    assert held.ended(action).result == "stopped"
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r1"}, {"rack": "r1"})


def test_a_sweep_does_not_finish_what_expired(held: Fleet) -> None:
    sweeps(held)
    action = held.sends(name="update_site")
    works_it_off_without(held, NodeApply.TOPIC)
    expires(held)
    assert held.ended(action).result == "expired"
    sweeps(held)
    assert held.labels("n1") == {"rack": "r1"}


def test_a_part_that_is_being_written_when_its_action_is_stopped_puts_its_nodes_back(held: Fleet) -> None:
    sweeps(held)
    action = held.sends(name="update_site")

    def stops(call: str, _node: str) -> None:
        if call == "apply_labels" and not held.world.actions.stopped(action):
            control(action, "stop", "an operator", held.world, held.now)

    held.cluster.before = stops
    held.cloud.drain()
    assert held.ended(action).counts == {"stopped": 2}
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r1"}, {"rack": "r1"})


def test_an_action_stopped_before_it_is_planned_releases_nothing(held: Fleet) -> None:
    sweeps(held)
    action = held.sends(name="update_site")
    accept(RelabelRequest(name="update_site"), action, held.world, held.now)
    control(action, "stop", "an operator", held.world, held.now)
    held.cloud.drain()
    sweeps(held)
    assert held.world.releases.head("default").base == 1
    assert held.labels("n1") == {"rack": "r1"}


def test_where_nothing_is_released_documents_have_no_say_and_what_we_hold_stays(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}}, adopted=False)
    fleet.has_nodes(n1={"beta.kubernetes.io/os": "linux", "kubernetes.io/os": "windows"})
    fleet.cluster.apply_labels("n1", fleet.node("n1").uid, {"pool": "blue"})
    tells(fleet, "n1")
    assert fleet.outcome(sweeps(fleet)) == {"n1": "unchanged"}
    labels = fleet.labels("n1")
    assert labels["pool"] == "blue"
    assert "rack" not in labels
    assert labels["beta.kubernetes.io/os"] == "windows"


def test_a_retry_keeps_the_revision_that_its_action_was_accepted_for(held: Fleet) -> None:
    action = held.relabels("n1")
    held.world.actions._store.delete(f"actions/{action}/outcome.json")
    held.world.actions.end(
        action,
        ActionOutcome(
            result="failure", finished_at=held.now, revision=2, counts={"failed": 1}, outcomes=[Outcome(subject="n1", outcome="failed")]
        ),
    )
    held.declares({"n1": {"rack": "r3"}}, adopted=False)
    again = retried(action, "an operator", held.world)
    assert again.revision == 2


def test_a_revision_older_than_what_is_released_to_a_node_is_refused(held: Fleet) -> None:
    held.relabels("n1")
    with pytest.raises(Rejected) as refused:
        accept(RelabelRequest(target_nodes=["n1", "n2"], revision=1), "01K9QJ5Y4M0000000000000001", held.world, held.now)
    (problem,) = refused.value.problems
    assert problem.reason == "NewerReleased"
    assert "n1 (revision 2)" in problem.message
    assert "n2" not in problem.message


def test_a_store_from_before_releases_reads_as_if_the_newest_site_action_were_everybodys_release(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}}, adopted=False)
    fleet.world.revisions.tag(1, "site-action-failure", "an operator", fleet.now)
    fleet.declares({"n1": {"rack": "r2"}}, adopted=False)
    fleet.has_nodes(n1={})
    tells(fleet, "n1")
    assert fleet.labels("n1") == {"rack": "r1"}


def test_in_a_new_store_a_cluster_is_released_by_its_own_actions_only(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}}, adopted=False)
    fleet.has_nodes(n1={})
    fleet.relabels()
    assert fleet.world.releases.head("default").base == 1
    assert fleet.world.releases.head("another").base == 0


def test_what_an_action_released_whose_records_are_forgotten_is_released_for_good(held: Fleet) -> None:
    action = held.relabels("n1")
    assert held.world.has_ended(action)
    held.now += timedelta(days=200)
    held.world.actions.forget(held.now, most=10)
    assert held.world.actions.find(action) is None
    assert held.world.has_ended(action)
    running = accept(RelabelRequest(target_nodes=["n1"]), "01K9QJ5Y4M0000000000000009", held.world, held.now)
    assert not held.world.has_ended(running.id)


def test_the_tag_of_a_first_site_action_that_was_stopped_releases_nothing(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}}, adopted=False)
    fleet.has_nodes(n1={})
    action = fleet.sends(name="update_site")
    accept(RelabelRequest(name="update_site"), action, fleet.world, fleet.now)
    control(action, "stop", "an operator", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.world.revisions.tags(1) == ["committed", "site-action-failure"]
    sweeps(fleet)
    assert fleet.labels("n1") == {}


def expires(fleet: Fleet) -> None:
    """Two hours pass, and the clock looks."""
    fleet.now += timedelta(hours=2)
    rollup.sweep(fleet.world, fleet.now)


def test_an_action_that_expires_while_it_is_planned_releases_nothing(held: Fleet) -> None:
    def is_slow(call: str, _node: str) -> None:
        if call == "nodes" and held.now == START:
            expires(held)

    sweeps(held)
    held.cluster.before = is_slow
    action = held.relabels()
    assert held.ended(action).result == "expired"
    assert held.world.releases.head("default").base == 1
    assert held.labels("n1") == {"rack": "r1"}


def test_what_an_expired_action_released_before_its_process_died_is_taken_back_when_its_request_comes_again(held: Fleet) -> None:
    sweeps(held)
    action = held.sends(name="update_site")
    release = held.world.releases.to_all

    def dies(*args: Any, **more: Any) -> Newest:
        expires(held)
        release(*args, **more)
        raise StoreError("the process dies")

    held.world.releases.to_all = dies  # type: ignore[method-assign]
    held.cloud.drain()
    assert held.ended(action).result == "expired"
    assert held.world.releases.head("default").base == 1


def test_nodes_that_were_all_reached_before_a_stop_keep_what_they_got(held: Fleet) -> None:
    sweeps(held)
    action = held.sends(name="update_site")
    for _ in ("request", "part"):
        held.cloud._deliver(held.cloud._queue.pop())
    control(action, "stop", "an operator", held.world, held.now)
    held.cloud.drain()
    assert held.ended(action).result == "success"
    sweeps(held)
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r2"}, {"rack": "r2"})


def test_a_node_that_was_written_when_a_first_action_was_stopped_keeps_its_labels_and_is_told_as_changed(fleet: Fleet) -> None:
    """There is nothing to bring it back to."""
    fleet.declares({"n1": {"rack": "r1"}, "n2": {"rack": "r1"}}, adopted=False)
    fleet.world.revisions.tag(1, "site-action-failure", "an operator", fleet.now)
    fleet.world.releases._store.create("upgrades/releases", b"{}")
    fleet.has_nodes(n1={}, n2={})
    action = fleet.sends(name="update_site")
    written: list[str] = []

    def stops(call: str, node: str) -> None:
        written.extend([node] if call == "apply_labels" else [])
        if len(written) == 2 and not fleet.world.actions.stopped(action):
            control(action, "stop", "an operator", fleet.world, fleet.now)

    fleet.cluster.before = stops
    fleet.cloud.drain()
    assert fleet.ended(action).counts == {"changed": 2}
    assert fleet.labels("n1") == {"rack": "r1"}
    assert fleet.world.releases.head("default").mark("n1").revision == 1


def test_a_node_not_yet_written_when_a_first_action_was_stopped_is_told_as_stopped(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}}, adopted=False)
    fleet.has_nodes(n1={})
    action = fleet.sends(name="update_site")
    fleet.cloud._deliver(fleet.cloud._queue.pop())
    parked = fleet.world.actions.seen

    def stopped_by_now(action: str) -> Seen:
        control(action, "stop", "an operator", fleet.world, fleet.now)
        return parked(action)

    fleet.world.actions.seen = stopped_by_now  # type: ignore[method-assign]
    fleet.cloud.drain()
    assert fleet.ended(action).counts == {"stopped": 1}
    assert fleet.labels("n1") == {}


def test_a_label_that_only_a_stopped_action_brought_goes_when_its_nodes_are_put_back(held: Fleet) -> None:
    held.declares({"n1": {"rack": "r3", "row": "w3"}, "n2": {"rack": "r3", "row": "w3"}}, adopted=False)
    sweeps(held)
    action = held.sends(name="update_site")

    def stops(call: str, _node: str) -> None:
        if call == "apply_labels" and not held.world.actions.stopped(action):
            control(action, "stop", "an operator", held.world, held.now)

    held.cluster.before = stops
    held.cloud.drain()
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r1"}, {"rack": "r1"})


def old_part(fleet: Fleet, **of: Any) -> None:
    """A part that brings r2 to a node which is released revision 1."""
    task = NodeTask(name="n1", uid=fleet.node("n1").uid, labels={"rack": "r2"}, revision=2)
    fleet.cloud.publish(NodeApply.TOPIC, [NodeApply(revision=2, nodes=[task], **of).outgoing()])
    fleet.cloud.drain()


def test_a_part_that_names_an_older_release_is_looked_up_anew(held: Fleet) -> None:
    made = held.world.releases.head("default").k
    held.releases(1, "n2")
    held.world.releases.override("default", "n2", {}, "a person", held.now)
    old_part(held, release=made)
    assert held.labels("n1") == {"rack": "r1"}


def test_a_part_of_a_release_that_is_not_there_writes_nothing(held: Fleet) -> None:
    old_part(held, release=99)
    assert held.labels("n1") == {}


def test_what_is_stopped_while_it_is_being_released_is_taken_back_at_once(held: Fleet) -> None:
    sweeps(held)
    action = held.sends(name="update_site")
    release = held.world.releases.to_all

    def meanwhile(*args: Any, **more: Any) -> Newest:
        held.world.actions.control(action, "stop", "an operator", held.now)
        return release(*args, **more)

    held.world.releases.to_all = meanwhile  # type: ignore[method-assign]
    held.cloud._deliver(held.cloud._queue.pop())
    assert held.world.releases.head("default").base == 1
    held.cloud.drain()
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r1"}, {"rack": "r1"})


def test_a_sweep_finds_nodes_in_sync_that_have_what_is_released_though_a_newer_commit_waits(held: Fleet) -> None:
    sweeps(held)
    assert held.ended(sweeps(held)).counts == {"unchanged": 2}


def test_what_an_action_left_on_nodes_of_which_nobody_heard_stays_where_nothing_is_released(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}}, adopted=False)
    fleet.has_nodes(n1={})
    action = fleet.sends(name="update_site")
    works_it_off_without(fleet, PartResult.TOPIC)
    expires(fleet)
    assert fleet.ended(action).result == "expired"
    assert not fleet.world.releases.head("default").mark("n1").released
    tells(fleet, "n1")
    sweeps(fleet)
    assert fleet.labels("n1") == {"rack": "r1"}


def test_a_request_that_is_delivered_again_after_its_release_leaves_an_override_alone_that_came_in_between(held: Fleet) -> None:
    sweeps(held)
    action = held.sends(name="update_site")
    request = held.cloud._queue[0]
    held.cloud._deliver(held.cloud._queue.pop())
    held.cloud._queue.clear()  # its part is on its way
    held.world.releases.override("default", "n1", {"rack": "mine"}, "a person", held.now)
    held.cloud.publish(RelabelRequest.TOPIC, [request.message])
    held.cloud.drain()
    assert held.ended(action).result == "success"
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "mine"}, {"rack": "r2"})
