"""`/pause` and `/freezes` over HTTP."""

from __future__ import annotations

from tests.api.conftest import FrontDoor
from tests.stories.fleet import a_policy
from tests.stories.test_holds import a_freeze


def ready(door: FrontDoor) -> None:
    door.has_nodes(n1={})
    door.commits(a_policy("p", {}, {"rack": "r1"}), a_freeze("later", **{"from": "2026-12-20T00:00:00Z", "until": "2027-01-02T00:00:00Z"}))


def test_the_fleet_is_paused_and_goes_on_again(door: FrontDoor) -> None:
    ready(door)
    answer = door.ask("PUT", "/v1.0/pause", json={"reason": "the network is being moved"})
    assert (answer.status_code, answer.json["paused"], answer.json["reason"]) == (200, True, "the network is being moved")
    refused = door.create("update_site")
    assert refused.status_code == 409
    assert [each["reason"] for each in refused.json["details"]["messageList"]] == ["Paused"]
    put = door.ask("PUT", "/v1.0/node-labels/n1", json={"rack": "r9"})
    assert (put.status_code, door.labels("n1")) == (409, {})
    assert door.get("/v1.0/pause").json["paused"]

    again = door.ask("PUT", "/v1.0/pause", json={"reason": "me too"})
    assert again.status_code == 409
    assert door.ask("PUT", "/v1.0/pause", json={"paused": False}).json["paused"] is False
    assert door.create("update_site").status_code == 201


def test_a_pause_says_why(door: FrontDoor) -> None:
    for body in ({}, {"reason": " "}, {"paused": "yes", "reason": "x"}, {"until": "monday", "reason": "x"}):
        assert door.ask("PUT", "/v1.0/pause", json=body).status_code == 400, body
    assert not door.get("/v1.0/pause").json["paused"]


def test_freezes_are_listed_with_when_and_why(door: FrontDoor) -> None:
    ready(door)
    (listed,) = door.get("/v1.0/freezes").json["freezes"]
    assert {key: listed[key] for key in ("name", "active", "clusters", "change", "reason", "revision")} == {
        "name": "later",
        "active": False,
        "clusters": "every cluster",
        "change": "all",
        "reason": "closing the books",
        "revision": 1,
    }
