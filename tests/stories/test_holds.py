"""What is held back is not written, whoever asks; what is not held goes on; a person's way back passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from shared.ledger.actions import WrongState
from shared.ledger.pauses import Pauses
from shared.messages import NodeApply, NodeChanged, Outgoing, RelabelRequest
from shared.work.control import control
from shared.work.holds import PauseStatus, freezes, pause, resume, status
from shared.work.intake import Rejected, accept
from tests.stories.fleet import START, Fleet, a_policy

ID = "01K9QJ5Y4M0000000000000001"


def a_freeze(name: str = "quiet", **spec: Any) -> dict[str, Any]:
    times = {"from": "2026-11-21T02:00:00Z", "until": "2026-11-21T06:00:00+01:00", "reason": "closing the books"}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Freeze", "metadata": {"name": name}, "spec": times | spec}


def rack(value: str) -> dict[str, Any]:
    return a_policy("p", {}, {"rack": value})


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    """One node that has what is released, and a newer revision that waits."""
    fleet.has_nodes(n1={})
    fleet.commits(rack("r1"))
    fleet.relabels()
    fleet.commits(rack("r2"), adopted=False)
    return fleet


def drifts(fleet: Fleet) -> None:
    """A colleague changes the node, and the event of that arrives."""
    fleet.cluster.set_labels("n1", {"rack": "mine"}, "a-colleague")
    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged(kind="changed", cluster="default", name="n1").outgoing()])
    fleet.cloud.drain()


def sweeps(fleet: Fleet) -> None:
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()


def once_sent(fleet: Fleet, then: Callable[[], object], parts: int = 1) -> None:
    """Do this when so many parts are on their way."""
    publish, seen = fleet.cloud.publish, list[str]()

    def watched(topic: str, messages: Sequence[Outgoing]) -> None:
        publish(topic, messages)
        if topic == NodeApply.TOPIC:
            seen.append(topic)
            if len(seen) == parts:
                then()

    fleet.world.bus.publish = watched  # type: ignore[method-assign]


def refused(fleet: Fleet, **request: Any) -> str:
    with pytest.raises(Rejected) as error:
        accept(RelabelRequest(**request), ID, fleet.world, fleet.now)
    (problem,) = error.value.problems
    return f"{problem.reason}: {problem.message}"


# --- freezes


@pytest.mark.parametrize("request_", [{"name": "update_site"}, {"target_nodes": ["n1"]}, {"node_filter": {}}])
def test_a_freeze_refuses_every_relabel_and_says_until_when_and_why(fleet: Fleet, request_: dict[str, Any]) -> None:
    fleet.commits(rack("r2"), a_freeze(), adopted=False)
    said = refused(fleet, **request_)
    assert said.startswith("Frozen: cluster default: Freeze/quiet holds changes until 2026-11-21 05:00 UTC: closing the books")
    assert fleet.notices("request.refused") == []


def test_a_freeze_lets_sweeps_events_and_dry_runs_through(fleet: Fleet) -> None:
    fleet.commits(rack("r2"), a_freeze(), adopted=False)
    drifts(fleet)
    assert fleet.labels("n1")["rack"] == "r1"
    assert fleet.ended(fleet.relabels("n1", dry_run=True)).result == "success"


@pytest.mark.parametrize("spec", [{"change": "versions"}, {"clusters": {"names": ["another"]}}, {"from": "2026-11-21T03:00:01Z"}])
def test_a_freeze_of_something_else_holds_nothing(fleet: Fleet, spec: dict[str, Any]) -> None:
    fleet.commits(rack("r2"), a_freeze(**spec), adopted=False)
    assert fleet.ended(fleet.relabels("n1")).result == "success"


def test_a_freeze_ends_by_itself(fleet: Fleet) -> None:
    fleet.commits(rack("r2"), a_freeze(), adopted=False)
    fleet.now = START + timedelta(hours=2) - timedelta(seconds=1)
    refused(fleet, target_nodes=["n1"])
    fleet.now = START + timedelta(hours=2)
    assert fleet.ended(fleet.relabels("n1")).result == "success"


def test_a_commit_does_not_take_its_own_freeze_away(fleet: Fleet) -> None:
    fleet.commits(rack("r2"), a_freeze())
    fleet.commits(rack("r3"), adopted=False)
    assert refused(fleet, target_nodes=["n1"]).startswith("Frozen")
    assert [(entry.name, entry.active) for entry in freezes(fleet.world, fleet.now).freezes] == [("quiet", True)]


# --- pauses


def test_a_pause_holds_relabels_sweeps_and_events_until_somebody_resumes(fleet: Fleet) -> None:
    assert pause("the network is being moved", "ada", fleet.world, fleet.now).paused
    assert "ada paused the fleet" in refused(fleet, name="update_site")
    drifts(fleet)
    sweeps(fleet)
    assert fleet.labels("n1")["rack"] == "mine"
    assert fleet.notices("request.refused") == []

    assert not resume("ada", fleet.world, fleet.now).paused
    sweeps(fleet)
    assert fleet.labels("n1")["rack"] == "r1"


def test_parts_of_an_action_that_was_under_way_wait_and_go_on(fleet: Fleet) -> None:
    once_sent(fleet, lambda: pause("wait", "ada", fleet.world, fleet.now))
    action = fleet.relabels("n1")
    assert fleet.labels("n1")["rack"] == "r1"
    assert (status(fleet.world).writing, status(fleet.world).parked) == (0, 1)

    resume("ada", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.labels("n1")["rack"] == "r2"
    assert fleet.ended(action).result == "success"


def test_the_answer_to_a_pause_counts_the_parts_that_are_still_being_written(fleet: Fleet) -> None:
    said: list[PauseStatus] = []

    def pauses(call: str, _node: str) -> None:
        if call == "apply_labels" and not said:
            said.append(pause("wait", "ada", fleet.world, fleet.now))

    fleet.cluster.before = pauses
    fleet.relabels("n1")
    assert [(each.writing, each.parked) for each in said] == [(1, 0)]


def test_an_action_that_is_paused_itself_stays_so_when_the_fleet_goes_on(fleet: Fleet) -> None:
    action = fleet.sends(target_nodes=["n1"])
    once_sent(fleet, lambda: fleet.world.actions.control(action, "pause", "ada", fleet.now))
    fleet.cloud.drain()
    pause("wait", "ada", fleet.world, fleet.now)
    resume("ada", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.labels("n1")["rack"] == "r1"

    pause("wait", "ada", fleet.world, fleet.now)
    control(action, "unpause", "ada", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.labels("n1")["rack"] == "r1"
    resume("ada", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.labels("n1")["rack"] == "r2"


def test_a_pause_and_a_resume_that_say_nothing_new_are_told_so(fleet: Fleet) -> None:
    with pytest.raises(WrongState, match="not paused"):
        resume("ada", fleet.world, fleet.now)
    pause("wait", "ada", fleet.world, fleet.now)
    with pytest.raises(WrongState, match="paused already by ada"):
        pause("me too", "bob", fleet.world, fleet.now)


def test_who_resumes_again_sends_what_a_resume_that_broke_off_left_parked(fleet: Fleet) -> None:
    once_sent(fleet, lambda: pause("wait", "ada", fleet.world, fleet.now))
    fleet.relabels("n1")
    fleet.world.pauses.say("resume", "ada", fleet.now)  # and then it died
    assert not resume("ada", fleet.world, fleet.now).paused
    fleet.cloud.drain()
    assert fleet.labels("n1")["rack"] == "r2"


def test_a_part_of_nobodys_action_is_held_too(fleet: Fleet) -> None:
    pause("wait", "ada", fleet.world, fleet.now)
    node = fleet.node("n1")
    task = {"name": "n1", "uid": node.uid, "labels": {"rack": "r9"}}
    fleet.cloud.publish(NodeApply.TOPIC, [NodeApply.model_validate({"revision": 1, "nodes": [task]}).outgoing()])
    fleet.cloud.drain()
    assert fleet.labels("n1")["rack"] == "r1"


def test_a_word_that_can_not_be_read_counts_as_a_pause_until_somebody_resumes(fleet: Fleet) -> None:
    pause("wait", "ada", fleet.world, fleet.now)
    resume("ada", fleet.world, fleet.now)
    fleet.world.store.delete("pauses/000002.json")
    fleet.world.store.create("pauses/000002.json", b"{torn")
    fleet.world.pauses = Pauses(fleet.world.store)
    assert "pauses/000002.json in the store can't be read" in refused(fleet, target_nodes=["n1"])
    assert not resume("ada", fleet.world, fleet.now).paused
    assert fleet.ended(fleet.relabels("n1")).result == "success"


# --- torn records


def tear(fleet: Fleet, key: str) -> None:
    """Half of an object is left."""
    body = fleet.world.store.get(key)
    assert body is not None
    fleet.world.store.delete(key)
    fleet.world.store.create(key, body[: len(body) // 2])


def test_a_released_revision_that_cant_be_read_takes_no_freeze_of_the_newest_one_away(fleet: Fleet) -> None:
    fleet.commits(rack("r2"), a_freeze(), adopted=False)
    tear(fleet, next(key for key in fleet.world.store.keys("revisions/000001/") if key.endswith("/policies.json")))
    for known in ("revisions", "releases"):
        fleet.world.__dict__.pop(known)  # as another process would find it
    assert refused(fleet, name="update_site").startswith("Frozen")
    assert [entry.name for entry in freezes(fleet.world, fleet.now).freezes] == ["quiet"]


def test_an_action_whose_plan_cant_be_read_holds_up_neither_a_pause_nor_the_others(fleet: Fleet) -> None:
    fleet.has_nodes(n2={})
    once_sent(fleet, lambda: pause("wait", "ada", fleet.world, fleet.now), parts=2)
    torn, going = fleet.sends(target_nodes=["n1"]), fleet.sends(target_nodes=["n2"])
    fleet.cloud.drain()
    tear(fleet, f"actions/{torn}/plan.json")
    tear(fleet, f"actions/{torn}/parked/0001.json")
    said = status(fleet.world)
    assert (said.paused, said.parked, said.unreadable) == (True, 2, 1)

    resume("ada", fleet.world, fleet.now)
    fleet.cloud.drain()
    assert fleet.ended(going).result == "success"
    assert fleet.labels("n2")["rack"] == "r2"
