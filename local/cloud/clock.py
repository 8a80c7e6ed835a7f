"""The clock of a local run: what Cloud Scheduler does with the schedules of `functions/steps.yaml`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from local.steps import Schedule
from shared.messages import Outgoing
from shared.ports import Bus, BusError

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""Minute, hour, day of the month, month, day of the week (0 and 7 are Sunday): the fields of a cron line and their bounds."""


def due(cron: str, at: datetime) -> bool:
    """Whether a cron line of five fields (`*`, `N`, `A-B`, lists, `/STEP`) names this minute. Raises ValueError for another line.

    As in cron, day of the month and day of the week are alternatives where both are restricted.
    """
    fields = cron.split()
    if len(fields) != len(RANGES):
        raise ValueError(f"cron line {cron!r}: five fields, not {len(fields)}")
    now = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7)
    minute, hour, day, month, weekday = (
        value in _values(field, low, high) for field, (low, high), value in zip(fields, RANGES, now, strict=True)
    )
    both = not (fields[2].startswith("*") or fields[4].startswith("*"))
    return minute and hour and month and ((day or weekday) if both else (day and weekday))


def _values(field: str, low: int, high: int) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        values.update(range(int(first), int(last or (high if step else first)) + 1, int(step or 1)))
    if high == RANGES[4][1]:
        values = {value % 7 for value in values}
    if not values or min(values) < low or max(values) > high:
        raise ValueError(f"cron field {field!r}: from {low} to {high}")
    return values


class Clock:
    """Publishes what is due, at the start of each minute, until stopped."""

    def __init__(self, schedules: Iterable[Schedule], bus: Bus, say: Callable[[str], None]) -> None:
        self._schedules = list(schedules)
        self._bus, self._say = bus, say
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def start(self) -> None:
        """Begin with the next minute."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ended.set()
        if self._thread.ident:
            self._thread.join()

    def _run(self) -> None:
        minute = datetime.now(UTC).replace(second=0, microsecond=0)
        while True:
            minute += timedelta(minutes=1)
            if self._ended.wait(max(0.0, (minute - datetime.now(UTC)).total_seconds())):
                return
            self.tick(minute)

    def tick(self, minute: datetime) -> None:
        """Publish what this minute is for; a bus that refuses is told, and the next minute comes."""
        for schedule in self._schedules:
            if due(schedule.cron, minute):
                try:
                    self._bus.publish(schedule.topic, [Outgoing(json.dumps(schedule.body).encode())])
                except BusError as error:
                    self._say(f"clock: {schedule.topic}: {error}")
