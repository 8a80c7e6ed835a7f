"""What tests of real Pub/Sub share: an emulator of their own for the session, and reading a topic."""

from __future__ import annotations

import functools
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from local.cloud.emulator import Emulator, EmulatorMissing
from shared.adapters import pubsub

PATIENCE = 60.0
"""Seconds until messages that should come count as lost; on a quiet machine they take milliseconds."""


@functools.cache
def the_emulator() -> Emulator:
    """One for the whole run, started when the first test asks for it and stopped when the run ends. Raises EmulatorMissing."""
    return Emulator()


@contextmanager
def real_emulator() -> Iterator[Emulator]:
    """The session's emulator, with PUBSUB_EMULATOR_HOST pointing at it; the test skips where there is none, fails where CI demands one."""
    try:
        running = the_emulator()
    except EmulatorMissing as missing:
        if os.environ.get("HULLMARK_REQUIRE_REAL") == "1":
            raise
        pytest.skip(str(missing))
    before = os.environ.get("PUBSUB_EMULATOR_HOST")
    os.environ["PUBSUB_EMULATOR_HOST"] = running.host
    try:
        yield running
    finally:
        if before is None:
            del os.environ["PUBSUB_EMULATOR_HOST"]
        else:
            os.environ["PUBSUB_EMULATOR_HOST"] = before


def new_project() -> str:
    """A project of its own, so that tests of one emulator don't meet."""
    return f"test-{uuid.uuid4().hex[:8]}"


def pulled(subscription: str, wanted: int) -> list[Any]:
    """Pull and acknowledge until `wanted` messages came, or PATIENCE seconds have passed."""
    client = pubsub._gapic("subscriber")
    found: list[Any] = []
    end = time.monotonic() + PATIENCE
    while len(found) < wanted and time.monotonic() < end:
        answer = client.pull(subscription=subscription, max_messages=1000, timeout=PATIENCE)
        found += [received.message for received in answer.received_messages]
        client.acknowledge(subscription=subscription, ack_ids=[received.ack_id for received in answer.received_messages])
    return found
