"""Maintenance windows (rules §7), time zones across daylight saving, freezes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.versions.windows import ALWAYS, Freeze, InvalidWindow, Window, check_duration, parse_freezes, parse_window


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("220000+0000", "22:00:00"),
        ("220000+0100", "21:00:00"),
        ("003000+0100", "23:30:00"),
        ("220000.5+0000", "22:00:00"),
        ("220000,123456789012+0000", "22:00:00"),
        ("000000-0530", "05:30:00"),
        ("100000+2400", "10:00:00"),
        ("100000+0060", "09:00:00"),
    ],
)
def test_a_time_is_read_with_its_offset(text: str, clock: str) -> None:
    begin = parse_window(text, "000000+0000").begin
    assert str(timedelta(seconds=begin)).zfill(8) == clock


@pytest.mark.parametrize(
    "text",
    [
        "",
        "22:00+0000",
        "220000",
        "220000Z",
        "240000+0000",
        "226000+0000",
        "220060+0000",
        "220000+2500",
        "220000+0061",
        "220000 +0000",
        "220000+01:00",
        "220000.+0000",
        "20000+0000",
        "220000+0000\n",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidWindow):
        parse_window("220000+0000", text)


@pytest.mark.parametrize(
    ("begin", "end", "hours", "wrong"),
    [
        ("2200", "2300", 1, None),
        ("2200", "2230", 0.5, None),
        ("2200", "2229", 29 / 60, "smaller"),
        ("2200", "0400", 6, None),
        ("2200", "0401", 361 / 60, "greater"),
        ("2200", "2200", 24, "greater"),
    ],
)
def test_a_window_lasts_from_half_an_hour_to_six(begin: str, end: str, hours: float, wrong: str | None) -> None:
    window = parse_window(f"{begin}00+0000", f"{end}00+0000")
    assert window.duration == timedelta(hours=hours)
    told = check_duration(window)
    assert (told is None) if wrong is None else (told is not None and wrong in told)


@pytest.mark.parametrize(
    ("begin", "end", "now", "is_open"),
    [
        ("220000+0000", "230000+0000", "2026-11-21T21:59:59Z", False),
        ("220000+0000", "230000+0000", "2026-11-21T22:00:00Z", True),
        ("220000+0000", "230000+0000", "2026-11-21T22:45:00Z", True),
        ("220000+0000", "230000+0000", "2026-11-21T22:45:00.9Z", True),
        ("220000+0000", "230000+0000", "2026-11-21T22:45:01Z", False),
        ("233000+0000", "003000+0000", "2026-11-21T23:45:00Z", True),
        ("233000+0000", "003000+0000", "2026-11-22T00:15:00Z", True),
        ("233000+0000", "003000+0000", "2026-11-22T00:16:00Z", False),
        ("220000+0100", "230000+0100", "2026-11-21T21:10:00Z", True),
        ("220000+0100", "230000+0100", "2026-07-21T21:10:00Z", True),
        ("000000+0000", "001000+0000", "2026-11-21T12:00:00Z", True),
    ],
)
def test_a_window_is_open_from_its_begin_to_a_quarter_of_an_hour_before_its_end(begin: str, end: str, now: str, is_open: bool) -> None:
    assert parse_window(begin, end).open(at(now)) is is_open


def test_without_a_window_it_is_always_open_and_there_is_no_next() -> None:
    now = at("2026-11-21T12:00:00Z")
    assert ALWAYS.open(now)
    assert ALWAYS.next(now) is None
    assert ALWAYS.opening(now) == at("2026-11-21T00:00:00Z")


@pytest.mark.parametrize(
    ("now", "following"),
    [
        ("2026-11-21T21:00:00Z", "2026-11-21T22:00:00Z"),
        ("2026-11-21T22:00:00Z", "2026-11-22T22:00:00Z"),
        ("2026-11-21T22:10:00Z", "2026-11-22T22:00:00Z"),
        ("2026-11-21T23:00:00Z", "2026-11-22T22:00:00Z"),
    ],
)
def test_the_next_begin_is_after_now(now: str, following: str) -> None:
    assert parse_window("220000+0000", "230000+0000").next(at(now)) == at(following)


BERLIN = [
    # begin and end on Berlin's clocks, now, open
    ("220000", "230000", "2026-11-21T21:00:00Z", True),
    ("220000", "230000", "2026-11-21T20:30:00Z", False),
    ("220000", "230000", "2026-07-21T20:00:00Z", True),
    ("220000", "230000", "2026-07-21T21:00:00Z", False),
    # the last Sunday of March has no 02:30, the last one of October has it twice
    ("010000", "050000", "2026-03-29T00:00:00Z", True),
    ("010000", "050000", "2026-03-29T02:45:00Z", True),
    ("010000", "050000", "2026-03-29T02:46:00Z", False),
    ("020000", "030000", "2026-03-29T01:00:00Z", False),
    ("010000", "050000", "2026-10-25T03:45:00Z", True),
    ("010000", "050000", "2026-10-25T03:46:00Z", False),
    ("020000", "030000", "2026-10-25T00:00:00Z", True),
    ("020000", "030000", "2026-10-25T01:45:00Z", True),
    ("020000", "030000", "2026-10-25T01:46:00Z", False),
    ("233000", "003000", "2026-11-21T23:15:00Z", True),
]


@pytest.mark.parametrize(("begin", "end", "now", "is_open"), BERLIN)
def test_a_zones_window_follows_its_clocks_across_daylight_saving(begin: str, end: str, now: str, is_open: bool) -> None:
    assert parse_window(begin, end, "Europe/Berlin").open(at(now)) is is_open


def test_a_zones_next_begin_is_at_the_same_wall_clock_time_after_the_change() -> None:
    window = parse_window("220000", "230000", "Europe/Berlin")
    assert window.next(at("2026-03-28T22:00:00Z")) == at("2026-03-29T20:00:00Z")
    assert window.next(at("2026-10-24T21:00:00Z")) == at("2026-10-25T21:00:00Z")


def test_a_day_on_which_the_whole_window_is_skipped_has_no_opening() -> None:
    assert parse_window("020000", "030000", "Europe/Berlin").next(at("2026-03-28T12:00:00Z")) == at("2026-03-30T00:00:00Z")


def test_an_offset_beside_a_zone_is_ignored_so_that_a_shoot_stays_valid_elsewhere() -> None:
    assert parse_window("220000+0100", "230000+0100", "Europe/Berlin") == parse_window("220000", "230000", "Europe/Berlin")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidWindow):
        parse_window("220000", "230000", zone)


def test_nothing_changes_in_a_freeze_and_the_next_opening_is_after_it() -> None:
    freezes = parse_freezes("2026-12-20/2027-01-02, 2027-01-04")
    window = parse_window("220000+0000", "230000+0000", None, freezes)
    assert not window.open(at("2026-12-24T22:10:00Z"))
    assert window.next(at("2026-12-20T12:00:00Z")) == at("2027-01-03T22:00:00Z")
    assert window.next(at("2027-01-03T23:00:00Z")) == at("2027-01-05T22:00:00Z")


def test_a_freeze_that_ends_inside_a_window_lets_the_rest_of_it_open() -> None:
    window = Window(22 * 3600, 3 * 3600, freezes=(Freeze(at("2026-12-20T00:00:00Z"), at("2026-12-21T00:00:00Z")),))
    assert window.next(at("2026-12-20T12:00:00Z")) == at("2026-12-21T00:00:00Z")
    assert window.opening(at("2026-12-21T01:00:00Z")) == at("2026-12-21T00:00:00Z")
    assert not window.open(at("2026-12-20T23:00:00Z"))


def test_freezes_count_days_in_the_zone() -> None:
    (freeze,) = parse_freezes("2026-12-24", "Europe/Berlin")
    assert (freeze.begin, freeze.end) == (at("2026-12-23T23:00:00Z"), at("2026-12-24T23:00:00Z"))


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", "2027-01-02/2026-12-20", "2026-12-20/x"])
def test_what_is_no_freeze_is_refused(text: str) -> None:
    with pytest.raises(InvalidWindow):
        parse_freezes(text)


moments = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001
windows = st.builds(
    lambda begin, minutes, zone: parse_window(
        f"{begin // 60:02}{begin % 60:02}00+0000", f"{(begin + minutes) // 60 % 24:02}{(begin + minutes) % 60:02}00+0000", zone
    ),
    st.integers(0, 1439),
    st.integers(30, 360),
    st.sampled_from([None, "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"]),
)


@given(windows, moments)
def test_every_opening_is_open_from_first_to_last_second_and_shut_around(window: Window, now: datetime) -> None:
    following = window.next(now)
    assert following is not None
    assert following > now
    assert following - now < timedelta(days=2, hours=2)
    begin, end = next(stretch for stretch in window.openings(following) if stretch[0] == following)
    assert window.open(begin)
    assert window.open(end)
    assert not window.open(begin - timedelta(seconds=1))
    assert not window.open(end + timedelta(seconds=1))
    assert window.opening(end) == begin
    if window.open(now):
        opening = window.opening(now)
        assert opening is not None
        assert opening <= now
