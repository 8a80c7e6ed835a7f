"""Every action ends: stopped, paused and taken up again, expired, dead-lettered, delivered twice."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.result_rollup.main import SOURCE, bury, sweep
from shared import telemetry
from shared.domain import actions
from shared.domain.actions import ActionOutcome, Plan
from shared.ledger.actions import WrongState
from shared.messages import (
    ComponentUpdate,
    DeadlineCheck,
    Delivery,
    NodeApply,
    NodeTask,
    Outcome,
    Outgoing,
    PartResult,
    RelabelRequest,
    VersionUpdate,
)
from shared.ports import Refused, StoreError
from shared.work.control import control, parked
from shared.work.intake import accept
from tests.stories.fleet import START, Fleet, a_policy

NOBODYS = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def a_site_of(fleet: Fleet, count: int) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1"}))
    fleet.has_nodes(**{f"n{number:03}": {} for number in range(count)})


def when_planned(fleet: Fleet, action: str, verb: str) -> None:
    """Give the verb at the first write of the action."""
    given: list[str] = []

    def give(call: str, _node: str) -> None:
        if call == "apply_labels" and not given:
            given.append(verb)
            control(action, verb, "an operator", fleet.world, fleet.now)

    fleet.cluster.before = give


def test_a_stopped_action_leaves_the_parts_that_were_not_applied_and_says_so(fleet: Fleet) -> None:
    a_site_of(fleet, 450)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "stop")
    fleet.cloud.drain()

    ended = fleet.ended(action)
    assert ended.result == "stopped"
    assert ended.counts == {"changed": 200, "stopped": 250}
    assert sum("rack" in node.labels for node in fleet.cluster.nodes()) == 200


def test_a_paused_action_waits_and_goes_on_when_it_is_unpaused(fleet: Fleet) -> None:
    a_site_of(fleet, 450)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "pause")
    fleet.cloud.drain()
    assert fleet.world.actions.lifecycle(action) == "Paused"
    assert sum("rack" in node.labels for node in fleet.cluster.nodes()) == 200

    control(action, "unpause", "an operator", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.ended(action).counts == {"changed": 450}
    assert fleet.world.actions.lifecycle(action) == "Complete"


def test_a_paused_action_that_is_stopped_ends(fleet: Fleet) -> None:
    a_site_of(fleet, 450)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "pause")
    fleet.cloud.drain()
    control(action, "stop", "an operator", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.ended(action).counts == {"changed": 200, "stopped": 250}


@pytest.mark.parametrize("verb", ["stop", "pause", "unpause"])
def test_an_action_that_has_ended_takes_no_control(fleet: Fleet, verb: str) -> None:
    a_site_of(fleet, 1)
    action = fleet.relabels()
    with pytest.raises(WrongState, match="is Complete"):
        control(action, verb, "an operator", fleet.world, fleet.now)


def test_an_action_whose_results_never_come_expires_and_names_the_nodes(fleet: Fleet) -> None:
    a_site_of(fleet, 250)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "pause")
    fleet.cloud.drain()
    fleet.now += timedelta(hours=2)
    fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
    fleet.cloud.drain()

    ended = fleet.ended(action)
    assert ended.result == "expired"
    assert ended.counts == {"changed": 200, "failed": 50}
    assert {told.reason for told in ended.outcomes if told.outcome == "failed"} == {"Expired"}
    assert [notice["result"] for notice in fleet.notices("action.finished")] == ["expired"]
    assert fleet.world.actions.open() == []


def test_a_deadline_that_has_not_passed_leaves_an_action_alone(fleet: Fleet) -> None:
    a_site_of(fleet, 250)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "pause")
    fleet.cloud.drain()
    fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
    fleet.cloud.drain()
    assert fleet.world.actions.outcome(action) is None


def test_everything_delivered_twice_ends_once(fleet: Fleet) -> None:
    a_site_of(fleet, 250)
    inner = fleet.cloud.publish
    fleet.world.bus.publish = lambda topic, messages: inner(topic, [*messages, *messages])  # type: ignore[method-assign]
    action = fleet.sends(name="update_site")
    fleet.cloud.drain()

    assert fleet.ended(action).counts == {"changed": 250}
    assert {notice["id"] for notice in fleet.notices("action.finished")} == {action}
    assert fleet.cloud.dead == []


def test_the_first_result_of_a_part_stands(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "PART_SIZE", 1)
    a_site_of(fleet, 2)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "pause")
    fleet.cloud.drain()
    late = PartResult(action=action, part=1, revision=1, outcomes=[Outcome(subject="n000", outcome="failed")])
    fleet.cloud.publish(PartResult.TOPIC, [late.outgoing()])
    control(action, "unpause", "an operator", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.outcome(action) == {"n000": "changed", "n001": "changed"}


def test_a_result_that_comes_after_the_end_is_not_announced_again(fleet: Fleet) -> None:
    a_site_of(fleet, 1)
    action = fleet.relabels()
    again = PartResult(action=action, part=1, revision=1, outcomes=[Outcome(subject="n000", outcome="changed")])
    fleet.cloud.publish(PartResult.TOPIC, [again.outgoing()])
    fleet.cloud.drain()
    assert len(fleet.notices("action.finished")) == 1


def test_an_end_that_the_bus_did_not_take_is_announced_with_the_next_delivery(fleet: Fleet) -> None:
    a_site_of(fleet, 1)
    lost = fleet.loses_the_first_notice()
    fleet.relabels()
    assert lost
    assert len(fleet.notices("action.finished")) == 1


def test_an_action_that_can_not_be_ended_keeps_no_other_from_ending(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    a_site_of(fleet, 1)
    later = "01BX5ZZKBKACTAV9WEVGEMMVRZ"
    for action in (NOBODYS, later):
        accept(RelabelRequest(name="update_site"), action, fleet.world, fleet.now)
    expire = fleet.world.actions.expire

    def fails_for_the_first(action: str, now: datetime) -> ActionOutcome | None:
        if action == NOBODYS:
            raise StoreError("this object's disk is broken")
        return expire(action, now)

    monkeypatch.setattr(fleet.world.actions, "expire", fails_for_the_first)
    with pytest.raises(StoreError, match="disk"):
        sweep(fleet.world, fleet.now + timedelta(hours=2))
    assert fleet.ended(later).result == "expired"
    assert fleet.world.actions.open() == [NOBODYS]


def test_a_part_whose_result_can_not_be_read_has_failed_with_that_cause(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "PART_SIZE", 1)
    a_site_of(fleet, 2)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "pause")
    fleet.cloud.drain()
    (torn,) = fleet.world.store.keys(f"actions/{action}/parts/")
    fleet.world.store.delete(torn)
    fleet.world.store.create(torn, b'{"version": 1, "outco')
    control(action, "unpause", "an operator", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert {told.subject: (told.outcome, told.reason) for told in fleet.ended(action).outcomes} == {
        "n000": ("failed", "RecordUnreadable"),
        "n001": ("changed", ""),
    }


def test_a_part_that_is_parked_in_the_moment_of_the_unpause_is_not_left_behind(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    a_site_of(fleet, 1)
    accept(RelabelRequest(name="update_site"), NOBODYS, fleet.world, fleet.now)
    control(NOBODYS, "pause", "an operator", fleet.world, fleet.now)
    park = fleet.world.actions.park

    def unpaused_before(action: str, part: int, message: bytes) -> None:
        control(action, "unpause", "an operator", fleet.world, fleet.now)
        park(action, part, message)

    monkeypatch.setattr(fleet.world.actions, "park", unpaused_before)
    assert not parked(NodeApply(action=NOBODYS, part=1, revision=1, nodes=[]), fleet.world)


def test_of_two_plans_of_one_action_the_first_stands(fleet: Fleet) -> None:
    first, second = (Plan(revision=1, planned_at=fleet.now, parts=[[name]]) for name in ("n000", "n001"))
    assert [fleet.world.actions.settle_plan(NOBODYS, plan) for plan in (first, second)] == [first, first]
    assert fleet.world.actions.plan(NOBODYS) == first


def sweeps(fleet: Fleet, now: datetime) -> None:
    fleet.now = now
    fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
    fleet.cloud.drain()


def test_the_mark_of_an_action_that_is_being_accepted_stays_until_its_deadline(fleet: Fleet) -> None:
    deadline = fleet.now + timedelta(hours=1)
    fleet.world.store.create(f"open-actions/{NOBODYS}", deadline.isoformat().encode())
    sweeps(fleet, deadline - timedelta(seconds=1))
    assert fleet.world.actions.open() == [NOBODYS]
    sweeps(fleet, deadline)
    assert fleet.world.actions.open() == []


def test_an_action_expires_at_its_deadline_and_not_before(fleet: Fleet) -> None:
    a_site_of(fleet, 1)
    accepted = accept(RelabelRequest(name="update_site"), NOBODYS, fleet.world, fleet.now)
    sweeps(fleet, accepted.deadline - timedelta(microseconds=1))
    assert fleet.world.actions.outcome(NOBODYS) is None
    sweeps(fleet, accepted.deadline)
    assert fleet.ended(NOBODYS).result == "expired"


def test_a_request_without_an_id_is_one_action_however_often_it_is_delivered(fleet: Fleet) -> None:
    a_site_of(fleet, 1)
    fleet.cloud.publish(RelabelRequest.TOPIC, [Outgoing(b'{"target_nodes": "n000"}')])
    fleet.cloud.drain()
    (action,) = fleet.world.actions.ids()
    assert fleet.ended(action).counts == {"changed": 1}


def test_an_empty_request_is_refused_with_a_notice_and_not_delivered_again(fleet: Fleet) -> None:
    fleet.cloud.publish(RelabelRequest.TOPIC, [Outgoing(b"{}")])
    fleet.cloud.drain()
    (refused,) = fleet.notices("request.refused")
    assert "no nodes" in refused["problems"][0]["message"]
    assert fleet.cloud.delivered == 1


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'{"target_nodes": 5}', b'{"target_node": ["n1"]}', b'{"target_nodes":["n1"],"version":2}']
)
def test_what_is_no_request_is_refused_and_never_means_every_node(fleet: Fleet, body: bytes) -> None:
    a_site_of(fleet, 1)
    fleet.cloud.publish(RelabelRequest.TOPIC, [Outgoing(body)])
    fleet.cloud.drain()
    assert len(fleet.notices("request.refused")) == 1
    assert fleet.labels("n000") == {}


def test_a_part_that_its_function_can_never_take_becomes_failures_of_its_nodes(fleet: Fleet) -> None:
    a_site_of(fleet, 250)
    action = fleet.sends(name="update_site")

    def broken(call: str, node: str) -> None:
        if call == "apply_labels" and node == "n210":
            raise RuntimeError("a bug")

    fleet.cluster.before = broken
    fleet.cloud.drain()

    ended = fleet.ended(action)
    assert ended.counts == {"changed": 200, "failed": 50}
    assert {told.reason for told in ended.outcomes if told.outcome == "failed"} == {"DeadLettered"}
    assert [letter.topic for letter in fleet.cloud.dead] == [NodeApply.TOPIC]


def test_a_message_that_nobody_can_read_becomes_a_notice(fleet: Fleet) -> None:
    fleet.cloud.publish(PartResult.TOPIC, [Outgoing(b"\xff\xfe garbage")])
    fleet.cloud.drain()
    (lost,) = fleet.notices("message.lost")
    assert "garbage" in lost["body"]


FORGED = [Outcome(subject="n000", outcome="changed"), Outcome(subject="n001", outcome="failed")]


def keys_of(fleet: Fleet) -> list[str]:
    return [*fleet.world.store.keys("actions/"), *fleet.world.store.keys("open-actions/")]


@pytest.mark.parametrize("part", [0, 1, 256])
def test_a_result_of_an_action_that_nobody_asked_for_is_refused_and_recorded_nowhere(
    fleet: Fleet, part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    a_site_of(fleet, 2)
    telemetry.write_to(sys.stdout)
    fleet.cloud.publish(PartResult.TOPIC, [PartResult(action=NOBODYS, part=part, revision=1, outcomes=FORGED).outgoing()])
    fleet.cloud.drain()
    assert (keys_of(fleet), fleet.cloud.delivered) == ([], 1)
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["severity"], line["outcome"], line["reason"], line["action"]) == ("WARNING", "refused", "NeverPlanned", NOBODYS)
    assert "never accepted" in line["message"]


@pytest.mark.parametrize("part", [2, 256])
def test_a_result_of_a_part_that_the_plan_does_not_have_is_refused(fleet: Fleet, part: int) -> None:
    a_site_of(fleet, 2)
    action = fleet.relabels()
    before = keys_of(fleet)
    fleet.cloud.publish(PartResult.TOPIC, [PartResult(action=action, part=part, revision=1, outcomes=FORGED).outgoing()])
    fleet.cloud.drain()
    assert keys_of(fleet) == before
    assert fleet.outcome(action) == {"n000": "changed", "n001": "changed"}


def test_a_result_that_comes_before_any_plan_is_refused(fleet: Fleet) -> None:
    a_site_of(fleet, 2)
    accepted = accept(RelabelRequest(name="update_site"), NOBODYS, fleet.world, fleet.now)
    before = keys_of(fleet)
    fleet.cloud.publish(PartResult.TOPIC, [PartResult(action=accepted.id, part=1, outcomes=FORGED).outgoing()])
    fleet.cloud.drain()
    assert keys_of(fleet) == before


@pytest.mark.parametrize("wrong", [{"part": -5}, {"part": 257}, {"action": "../revisions"}, {"revision": -1}])
def test_a_result_with_numbers_that_none_has_becomes_a_notice_and_is_recorded_nowhere(fleet: Fleet, wrong: dict[str, Any]) -> None:
    a_site_of(fleet, 2)
    action = fleet.relabels()
    before = keys_of(fleet)
    body = json.dumps({"action": action, "part": 1, "revision": 1, "outcomes": []} | wrong)
    fleet.cloud.publish(PartResult.TOPIC, [Outgoing(body.encode(), {"type": "PartResult"})])
    fleet.cloud.drain()
    assert keys_of(fleet) == before
    assert len(fleet.notices("message.lost")) == 1


def test_a_part_of_an_action_that_nobody_asked_for_is_refused_and_written_nowhere(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    a_site_of(fleet, 1)
    task = NodeApply(action=NOBODYS, part=1, revision=1, nodes=[NodeTask(name="n000", uid=fleet.node("n000").uid, labels={"rack": "x"})])
    calls: list[str] = []
    fleet.cluster.before = lambda call, _node: calls.append(call)
    telemetry.write_to(sys.stdout)
    fleet.cloud.publish(NodeApply.TOPIC, [task.outgoing()])
    fleet.cloud.drain()
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["severity"], line["outcome"], line["reason"], line["action"]) == ("WARNING", "refused", "NeverPlanned", NOBODYS)
    assert (calls, keys_of(fleet), fleet.cloud.delivered) == ([], [], 1)


def test_a_part_is_applied_though_a_listing_of_its_action_lags_behind(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    a_site_of(fleet, 1)
    listed = fleet.world.store.keys

    def late(prefix: str, after: str = "") -> list[str]:
        return [key for key in listed(prefix, after) if not key.endswith(("/request.json", "/plan.json"))]

    monkeypatch.setattr(fleet.world.store, "keys", late)
    action = fleet.relabels()
    assert fleet.outcome(action) == {"n000": "changed"}


def test_a_version_update_that_nobody_asked_for_is_refused(fleet: Fleet) -> None:
    step = {"component": "controlPlane", "subject": "kubernetes", "from": "1.0.0", "to": "1.0.1", "kind": "auto"}
    update = VersionUpdate(action=NOBODYS, part=1, cluster="garden/s", updates=[ComponentUpdate.model_validate(step)])
    fleet.cloud.publish(VersionUpdate.TOPIC, [update.outgoing()])
    fleet.cloud.drain()
    assert (keys_of(fleet), fleet.cloud.delivered, list(fleet.cloud.notices)) == ([], 1, [])


def test_a_part_that_is_given_up_of_an_action_that_nobody_asked_for_becomes_a_notice(fleet: Fleet) -> None:
    task = NodeApply(action=NOBODYS, part=1, revision=1, nodes=[NodeTask(name="n000", uid="u", labels={"rack": "x"})])
    dead = Delivery("1", task.outgoing().data, {"type": "NodeApply", SOURCE: "node-applies--node_apply"})
    assert bury(dead, fleet.world, START) == "lost"
    (lost,) = fleet.notices("message.lost")
    assert "never accepted" in lost["message"]
    assert keys_of(fleet) == []


def test_a_retry_takes_only_the_nodes_that_failed(fleet: Fleet) -> None:
    a_site_of(fleet, 3)

    def forbidden(call: str, node: str) -> None:
        if call == "apply_labels" and node == "n001":
            raise Refused("Forbidden", "not this one")

    fleet.cluster.before = forbidden
    first = fleet.relabels()
    fleet.cluster.before = lambda _call, _node: None

    again = fleet.relabels(*fleet.ended(first).unsuccessful, retry_of=first)

    assert fleet.outcome(again) == {"n001": "changed"}
    assert fleet.world.actions.request(again).retry_of == first


def test_an_action_that_a_process_left_open_goes_on_from_the_store(fleet: Fleet) -> None:
    a_site_of(fleet, 250)
    action = fleet.sends(name="update_site")
    when_planned(fleet, action, "stop")
    fleet.cluster.before = lambda _call, _node: None
    fleet.cloud._queue.clear()  # the process ends before anything is delivered
    from shared.work.intake import accept

    accept(RelabelRequest(name="update_site"), action, fleet.world, fleet.now)

    assert fleet.cloud.resume() == [action]
    fleet.cloud.drain()
    assert fleet.ended(action).counts == {"changed": 250}


def test_an_action_whose_process_ended_between_the_last_result_and_the_outcome_ends_when_it_goes_on(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_site_of(fleet, 250)
    with monkeypatch.context() as cut_off:
        cut_off.setattr(fleet.world.actions, "close_if_complete", lambda _action, _now: None)
        action = fleet.sends(name="update_site")
        fleet.cloud.drain()
    assert fleet.world.actions.outcome(action) is None

    fleet.cloud.resume(action)
    fleet.cloud.drain()
    assert fleet.ended(action).counts == {"changed": 250}


def test_the_next_request_finishes_what_a_process_left_unfinished(fleet: Fleet) -> None:
    """A process of the command was killed after the outcome was written and before it was told."""
    a_site_of(fleet, 1)
    told = fleet.world.actions.mark_announced
    fleet.world.actions.mark_announced = lambda action: None  # type: ignore[method-assign]
    first = fleet.relabels()
    fleet.world.actions.mark_announced = told  # type: ignore[method-assign]
    assert fleet.world.actions.open() == [first]

    fleet.cloud.submit(RelabelRequest(target_nodes=["n000"]))
    fleet.cloud.drain()

    assert fleet.world.actions.open() == []


def test_an_action_that_ends_while_somebody_looks_at_it_is_shown_as_it_ended(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])
    read = fleet.world.store.get
    looked: list[str] = []

    def ends_between_the_looks(key: str) -> bytes | None:
        if key == f"actions/{action}/announced.json" and not looked:
            looked.append(key)
            fleet.cloud.drain()
        return read(key)

    fleet.world.store.get = ends_between_the_looks  # type: ignore[method-assign]
    shown = fleet.world.actions.ended(action)
    assert shown is not None
    assert shown.result == "success"
