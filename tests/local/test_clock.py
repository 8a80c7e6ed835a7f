"""What a cron line means, and what the clock sends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from local import steps
from local.cloud.clock import Clock, due
from shared.messages import DeadlineCheck, Outgoing, RelabelRequest, RolloutStep, VersionCheck
from shared.ports import BusError

SATURDAY = datetime(2026, 11, 21, 3, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "holds"),
    [
        ("* * * * *", True),
        ("*/10 * * * *", True),
        ("*/7 * * * *", False),
        ("20 3 * * *", True),
        ("21 3 * * *", False),
        ("0-30/5 3 * * *", True),
        ("5,20 2-4 * * *", True),
        ("20 3 * * 6", True),
        ("20 3 * * 0,7", False),
        ("20 3 21 * 1", True),
        ("20 3 22 * 1", False),
        ("20 3 21 12 *", False),
        ("5/5 * * * *", True),
    ],
)
def test_a_cron_line_names_its_minutes(cron: str, holds: bool) -> None:
    assert due(cron, SATURDAY) is holds


@pytest.mark.parametrize("cron", ["* * * *", "60 * * * *", "* * 0 * *", "x * * * *", "* * * 13 *"])
def test_what_is_no_cron_line_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match=r"cron|invalid literal"):
        due(cron, SATURDAY)


class Kept:
    """A bus that keeps what it is given, or refuses."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.refuses = refuses

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        if self.refuses:
            raise BusError("no")
        self.sent += [(topic, message.data) for message in messages]


def test_every_schedule_of_the_house_sends_a_message_that_its_function_can_read() -> None:
    bus = Kept()
    clock = Clock(steps.load().schedules.values(), bus, print)
    for minute in range(60):
        clock.tick(SATURDAY.replace(minute=minute))
    readers = {model.TOPIC: model for model in (DeadlineCheck, RelabelRequest, RolloutStep, VersionCheck)}
    for topic, data in bus.sent:
        readers[topic].parse(data)
    assert {topic: sum(sent == topic for sent, _ in bus.sent) for topic in readers} == {
        "action-deadlines": 12,
        "relabel-requests": 1,
        "rollouts": 60,
        "version-checks": 6,
    }
    assert json.loads(next(data for topic, data in bus.sent if topic == "relabel-requests")) == {"name": "drift_sweep"}


def test_a_bus_that_refuses_is_told_and_does_not_stop_the_clock() -> None:
    said: list[str] = []
    Clock(steps.load().schedules.values(), Kept(refuses=True), said.append).tick(SATURDAY)
    assert said == ["clock: version-checks: no", "clock: action-deadlines: no", "clock: rollouts: no"]
