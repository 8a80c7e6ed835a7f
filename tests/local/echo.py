"""A function for tests of the transport: writes down every delivery, fails as its message says, answers on a topic.

in   echo-requests   {"name", "fails": deliveries that it refuses, "reply": bool, "seconds": to take}
out  echo-replies    the same body
"""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path

import flask
import functions_framework
from cloudevents.http import CloudEvent

from shared import telemetry, wiring
from shared.messages import Delivery, Outgoing


class Refusing(Exception):
    """Asked for by the message."""


@functions_framework.cloud_event
def echo(event: CloudEvent) -> None:
    delivery = Delivery.from_event(event)
    with telemetry.handling("echo", delivery):
        body = json.loads(delivery.data)
        seen = {
            "id": delivery.id,
            "attempt": delivery.attempt,
            "topic": delivery.topic,
            "attributes": dict(delivery.attributes),
            "published": str(delivery.published),
            "authorization": flask.request.headers.get("authorization", ""),
            "pid": os.getpid(),
            **body,
        }
        folder = Path(os.environ["HULLMARK_STORE"].removeprefix("file:"))
        (folder / f"{time.time_ns()}-{uuid.uuid4().hex}.json").write_text(json.dumps(seen))
        time.sleep(body.get("seconds", 0))
        if delivery.attempt <= body.get("fails", 0):
            raise Refusing(body["name"])
        if body.get("reply"):
            wiring.world().bus.publish("echo-replies", [Outgoing(delivery.data)])
