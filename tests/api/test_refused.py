"""Messages that were refused: kept in short, shown on the page, over HTTP and in the metrics."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

from shared import telemetry
from shared.ledger.refusals import KEPT, RefusedRequest
from shared.messages import Outgoing, RelabelRequest
from tests.api.conftest import FrontDoor


def sends(door: FrontDoor, body: bytes | dict[str, Any]) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    door.cloud.publish(RelabelRequest.TOPIC, [Outgoing(data)])
    door.cloud.drain()


def test_a_refused_message_says_who_asked_for_what_when_and_why_not(fleet: FrontDoor) -> None:
    lines = StringIO()
    telemetry.write_to(lines)
    sends(fleet, {"target_nodes": ["n1", "nowhere"], "requested_by": "ada"})
    telemetry.write_to(None)
    (refused,) = fleet.get("/v1.0/refused-requests").json["refused"]
    assert (refused["by"], refused["asked"], refused["reason"]) == ("unverified: ada", "update_labels on n1, nowhere", "UnknownNode")
    assert "nowhere" in refused["message"]
    assert refused["at"].startswith(f"{fleet.now:%Y-%m-%dT%H:%M}")
    assert next(json.loads(line)["severity"] for line in lines.getvalue().splitlines()) == "WARNING"
    assert 'hullmark_requests_refused{reason="UnknownNode"} 1' in fleet.get("/metrics").text
    assert "UnknownNode" in fleet.get("/").text.partition('id="refused"')[2]


def test_what_a_stranger_sent_is_cut_escaped_and_never_kept_whole(fleet: FrontDoor) -> None:
    evil = "<img src=x onerror=alert(1)>\n\x1b[31m" + "x" * 5000
    sends(fleet, {"target_nodes": [evil], "requested_by": evil, "node_filter": None})
    sends(fleet, {"target_nodes": ["n1"], evil: "password=hunter2"})
    sends(fleet, b"password=hunter2 " * 1000)
    kept = b"".join(fleet.world.store.get(key) or b"" for key in fleet.world.store.keys("refusals/"))
    assert len(kept) < 3 * 2500
    assert b"hunter2" not in kept
    assert b"\\u001b" not in kept
    page = fleet.get("/").text
    assert "<img" not in page
    assert len(fleet.get("/v1.0/refused-requests").json["refused"]) == 3


def test_a_message_that_is_delivered_again_is_refused_once(fleet: FrontDoor) -> None:
    fleet.cloud.publish(RelabelRequest.TOPIC, [Outgoing(b"nothing")])
    fleet.cloud._queue.append(fleet.cloud._queue[-1])
    fleet.cloud.drain()
    assert len(fleet.get("/v1.0/refused-requests").json["refused"]) == 1


def test_only_the_newest_are_kept(fleet: FrontDoor) -> None:
    ledger = fleet.world.refused_requests
    for number in range(KEPT + 30):
        at = fleet.now + timedelta(seconds=number)
        ledger.add(f"{number:026}", RefusedRequest(message_id=str(number), at=at, by="ada", asked="", reason="Mal/../formed", message=""))
    assert ledger.counts() == {"Malformed": KEPT}
    assert ledger.newest(1).found[0].message_id == str(KEPT + 29)


def test_a_record_that_cannot_be_read_hides_no_other(fleet: FrontDoor) -> None:
    sends(fleet, b"nothing")
    fleet.world.store.create(f"refusals/{'0' * 26}-Malformed.json", b"{")
    answer = fleet.get("/v1.0/refused-requests").json
    assert (len(answer["refused"]), len(answer["unreadable"])) == (1, 1)
    assert fleet.get("/").status_code == 200
