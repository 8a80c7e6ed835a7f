"""The calendar to subscribe to, read back by a library that other calendars are written with (RFC 5545)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from icalendar import Calendar

from shared.domain.versions.answers import ForecastEntry, HeldEntry
from shared.domain.versions.forecast import event_entry
from shared.domain.versions.ics import LINE_BYTES, calendar_bytes, folded, text
from tests.versions.shorthand import NOW, cluster, day, profile
from tests.versions.test_forecast import forecast_of

EVENTS = [event_entry(event) for event in forecast_of(profile(["1.27.3 +30", "1.28.1 +60"]), cluster("1.27.3"))]


def read(events: list[ForecastEntry], now: datetime = NOW, revision: int = 0) -> Any:
    return Calendar.from_ical(calendar_bytes(events, now, revision))


def changed(event: ForecastEntry, **fields: Any) -> ForecastEntry:
    return event.model_copy(update=fields)


def test_each_event_is_an_entry_with_its_window() -> None:
    first, stuck = read(EVENTS).walk("VEVENT")
    assert [str(entry["SUMMARY"]) for entry in (first, stuck)] == [
        "garden/c: Kubernetes 1.27.3 → 1.28.1",
        "garden/c: Kubernetes stuck on 1.28.1",
    ]
    assert first.decoded("DTSTART") == datetime.fromisoformat("2026-12-21T22:00:00Z")
    assert first.decoded("DTEND") == datetime.fromisoformat("2026-12-21T22:45:00Z")
    assert first.decoded("DTSTAMP") == NOW
    assert "the profile has no version in the next minor" in str(stuck["DESCRIPTION"])


def test_an_entry_keeps_its_identity_from_one_export_to_the_next_whatever_it_says_by_then() -> None:
    later = [changed(EVENTS[0], at="2026-12-28T22:00:00Z", until="2026-12-28T22:45:00Z", to="1.28.9"), EVENTS[1]]
    first, second = (read(events, moment, revision).walk("VEVENT") for events, moment, revision in ((EVENTS, NOW, 7), (later, day(1), 8)))
    assert [entry["UID"] for entry in first] == [entry["UID"] for entry in second]
    assert len({str(entry["UID"]) for entry in first}) == 2
    assert [int(entry["SEQUENCE"]) for entry in (first[0], second[0])] == [7, 8]
    assert first[0].decoded("DTSTAMP") < second[0].decoded("DTSTAMP")


@pytest.mark.parametrize(
    "other",
    [{"cluster": "garden/d"}, {"fleet": "far"}, {"component": "worker/a"}, {"from_": "1.27.4"}, {"image": "linux"}, {"stuck": True}],
)
def test_what_is_another_event_has_another_identity(other: dict[str, Any]) -> None:
    assert len(read([EVENTS[0], changed(EVENTS[0], **other)]).walk("VEVENT")) == 2


def test_what_is_held_says_by_what() -> None:
    held = HeldEntry(reason="SkewTooWide", message="pools move first", until=None)
    (entry,) = read([changed(EVENTS[1], held=held)]).walk("VEVENT")
    assert str(entry["DESCRIPTION"]).endswith("pools move first")


def test_a_window_of_no_length_has_no_end_before_its_begin() -> None:
    (entry,) = read([changed(EVENTS[0], until=EVENTS[0].at)]).walk("VEVENT")
    assert "DTEND" not in entry


def test_times_are_utc_wherever_they_were_said() -> None:
    (entry,) = read([changed(EVENTS[0], at="2026-12-21T23:00:00+01:00")]).walk("VEVENT")
    assert b"DTSTART:20261221T220000Z" in entry.to_ical()


def test_a_name_that_looks_like_a_property_stays_a_name() -> None:
    nasty = "a;b,c\\n\r\nATTENDEE:mailto:x@y\nEND:VEVENT"
    calendar = read([changed(EVENTS[0], description=nasty)])
    (entry,) = calendar.walk("VEVENT")
    assert "ATTENDEE" not in entry
    assert str(entry["DESCRIPTION"]).startswith("a;b,c\\n\nATTENDEE:mailto:x@y\nEND:VEVENT")


@given(st.text(max_size=400))
def test_any_text_comes_back_as_it_was_in_lines_that_are_short_enough(value: str) -> None:
    lines = folded(f"SUMMARY:{text(value)}")
    assert all(len(line) <= LINE_BYTES for line in lines.removesuffix(b"\r\n").split(b"\r\n"))
    assert all(line.decode() is not None for line in lines.split(b"\r\n"))
    body = b"BEGIN:VEVENT\r\n" + lines + b"END:VEVENT\r\n"
    plain = "".join(c for c in value.replace("\r\n", "\n").replace("\r", "\n") if c == "\n" or c.isprintable())
    assert str(Calendar.from_ical(body)["SUMMARY"]) == plain


def test_every_line_ends_as_the_format_demands() -> None:
    written = calendar_bytes(EVENTS, NOW)
    assert written.endswith(b"END:VCALENDAR\r\n")
    assert written.count(b"\n") == written.count(b"\r\n")


def test_a_calendar_of_nothing_is_a_calendar() -> None:
    assert read([]).walk("VEVENT") == []
