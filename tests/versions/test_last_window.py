"""The last window before an expiry: whatever the window, its time zone, its freezes and the expiry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.versions.windows import ALWAYS, Freeze, Window, parse_window

ZONES = (None, "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns")
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = st.integers(0, 2 * 365 * 24 * 60).map(lambda minutes: START + timedelta(minutes=minutes))
"""Two years: every change of daylight saving twice."""


@st.composite
def windows(draw: st.DrawFn) -> Window:
    begin, length = draw(st.integers(0, 24 * 60 - 1)), draw(st.integers(30, 360))
    end = (begin + length) % (24 * 60)
    spans = draw(st.lists(st.tuples(MINUTES, st.integers(1, 40 * 24 * 60)), max_size=3))
    freezes = tuple(Freeze(at, at + timedelta(minutes=minutes)) for at, minutes in spans)
    zone = draw(st.sampled_from(ZONES))
    return parse_window(f"{begin // 60:02}{begin % 60:02}00+0000", f"{end // 60:02}{end % 60:02}00+0000", zone, freezes)


@given(windows(), MINUTES)
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_it_begins_before_the_expiry_is_open_and_no_later_one_begins_before(window: Window, expiry: datetime) -> None:
    last = window.last_before(expiry)
    assert last is not None
    begin, end = last
    assert begin < expiry
    assert begin <= end
    assert window.open(begin)
    assert window.open(end)
    after = next((opening for opening in window.openings(end + timedelta(seconds=1)) if opening[0] > end), None)
    assert after is None or after[0] >= expiry


@given(windows(), MINUTES, st.integers(1, 10_000))
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
def test_a_later_expiry_has_no_earlier_last_window(window: Window, expiry: datetime, minutes: int) -> None:
    earlier, later = window.last_before(expiry), window.last_before(expiry + timedelta(minutes=minutes))
    assert earlier is not None
    assert later is not None
    assert earlier[0] <= later[0]


def test_a_window_that_is_always_open_gives_the_day_of_the_expiry_or_the_one_before() -> None:
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert ALWAYS.last_before(noon) == (noon.replace(hour=0), noon.replace(hour=23, minute=59, second=59))
    midnight = noon.replace(hour=0)
    found = ALWAYS.last_before(midnight)
    assert found
    assert found[0] == midnight - timedelta(days=1)


def test_where_every_window_is_frozen_there_is_none() -> None:
    frozen = parse_window("220000+0000", "230000+0000", None, (Freeze(START - timedelta(days=2000), START),))
    assert frozen.last_before(START) is None
