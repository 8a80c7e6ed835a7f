"""What was asked while something newer was being written is not forgotten where that is taken back."""

from __future__ import annotations

import pytest
from ulid import ULID

from local.cloud.embedded import Waiting
from shared.messages import RelabelRequest
from shared.work.intake import accept
from tests.stories.fleet import Fleet


@pytest.fixture
def held(fleet: Fleet) -> Fleet:
    """Revision 1 is everybody's, and revision 2 is committed."""
    fleet.has_nodes(n1={}, n2={})
    fleet.declares({"n1": {"rack": "r1"}, "n2": {"rack": "r1"}})
    fleet.relabels()
    fleet.declares({"n1": {"rack": "r2"}, "n2": {"rack": "r2"}}, adopted=False)
    return fleet


def parts(fleet: Fleet) -> list[Waiting]:
    """Deliver what is on the bus but for the parts, which are held back."""
    kept: list[Waiting] = []
    while fleet.cloud._queue:
        waiting = fleet.cloud._queue.pop(0)
        if waiting.topic == "node-applies":
            kept.append(waiting)
        else:
            fleet.cloud._deliver(waiting)
    return kept


def asks(fleet: Fleet, request: RelabelRequest) -> str:
    """Have a request accepted, for the newest revision of now; its message comes later."""
    return accept(request, str(ULID()), fleet.world, fleet.now).id


def goes_on(fleet: Fleet, action: str) -> None:
    fleet.cloud.publish(RelabelRequest.TOPIC, [RelabelRequest.again(fleet.world.actions.request(action)).outgoing()])


def racks(fleet: Fleet) -> dict[str, str]:
    return {name: fleet.labels(name).get("rack", "") for name in ("n1", "n2")}


def test_a_site_action_asked_under_a_newer_one_holds_once_that_is_stopped(held: Fleet) -> None:
    older = asks(held, RelabelRequest(name="update_site"))
    held.declares({"n1": {"rack": "r3"}, "n2": {"rack": "r3"}}, adopted=False)
    newer = held.sends(name="update_site")
    unsent = parts(held)
    goes_on(held, older)
    held.cloud.drain()
    assert held.ended(older).result == "success"
    held.cloud.control(newer, "stop", "ada", held.now)
    held.cloud._queue.extend(unsent)
    held.cloud.drain()
    held.sends(name="drift_sweep")
    held.cloud.drain()
    assert held.world.releases.head("default").base == 2
    assert racks(held) == {"n1": "r2", "n2": "r2"}


def test_named_nodes_asked_under_a_newer_site_action_have_theirs_once_that_is_stopped(held: Fleet) -> None:
    older = asks(held, RelabelRequest(target_nodes=["n1"]))
    held.declares({"n1": {"rack": "r3"}, "n2": {"rack": "r3"}}, adopted=False)
    newer = held.sends(name="update_site")
    unsent = parts(held)
    goes_on(held, older)
    held.cloud.drain()
    held.cloud.control(newer, "stop", "ada", held.now)
    held.cloud._queue.extend(unsent)
    held.cloud.drain()
    held.sends(name="drift_sweep")
    held.cloud.drain()
    assert racks(held) == {"n1": "r2", "n2": "r1"}


def test_what_is_stopped_beneath_a_newer_one_is_gone_with_that(held: Fleet) -> None:
    older = asks(held, RelabelRequest(name="update_site"))
    held.declares({"n1": {"rack": "r3"}, "n2": {"rack": "r3"}}, adopted=False)
    newer = held.sends(name="update_site")
    unsent = parts(held)
    goes_on(held, older)
    sent = parts(held)
    held.cloud.control(older, "stop", "ada", held.now)
    held.cloud._queue.extend(sent)
    held.cloud.drain()
    assert held.ended(older).result == "stopped"
    held.cloud.control(newer, "stop", "ada", held.now)
    held.cloud._queue.extend(unsent)
    held.cloud.drain()
    held.sends(name="drift_sweep")
    held.cloud.drain()
    assert held.world.releases.head("default").base == 1
    assert racks(held) == {"n1": "r1", "n2": "r1"}


def test_what_is_released_beneath_a_newer_one_changes_nothing_where_that_ends_well(held: Fleet) -> None:
    older = asks(held, RelabelRequest(name="update_site"))
    held.declares({"n1": {"rack": "r3"}, "n2": {"rack": "r3"}}, adopted=False)
    held.sends(name="update_site")
    unsent = parts(held)
    goes_on(held, older)
    held.cloud.drain()
    held.cloud._queue.extend(unsent)
    held.cloud.drain()
    assert held.world.releases.head("default").base == 3
    assert racks(held) == {"n1": "r3", "n2": "r3"}
