"""When a cluster may be changed: Gardener's maintenance windows (docs/versions.md §7), and Hullmark's own time zones and freezes.

Gardener's window has fixed offsets and is a stretch of the UTC day. With an IANA time zone a window is wall-clock time there,
whatever daylight saving does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from shared.domain.zones import zone as named_zone

DAY = 24 * 3600
MARGIN = timedelta(minutes=15)
"""Cut from the end, so that what is begun has a chance to be done inside."""
SHORTEST, LONGEST = timedelta(minutes=30), timedelta(hours=6)
_SEARCH_DAYS = 800
"""How far ahead the next opening is looked for; freezes may hide windows, but not for years."""

_TIME = re.compile(r"([01]\d|2[0-3])([0-5]\d)([0-5]\d)(?:[.,]\d+)?(?:([+-])(\d\d)(\d\d))?", re.ASCII)


class InvalidWindow(ValueError):
    """A window that cannot be read. The message says why."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """No change from `begin` (inclusive) to `end` (exclusive)."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Window:
    """A daily window. `begin` and `end` are seconds of the day, in UTC or on the clocks of `zone`, before the margin is cut."""

    begin: int
    end: int
    zone: ZoneInfo | None = None
    freezes: tuple[Freeze, ...] = ()
    always: bool = False
    never: bool = False

    @property
    def duration(self) -> timedelta:
        """The length of the given window; equal times mean a whole day."""
        return timedelta(seconds=(self.end - self.begin - 1) % DAY + 1)

    def open(self, now: datetime) -> bool:
        """Whether changes may begin now. Both ends count; fractions of a second don't."""
        now = now.astimezone(UTC)
        return self._contains(now) and not any(freeze.begin <= now < freeze.end for freeze in self.freezes)

    def next(self, now: datetime) -> datetime | None:
        """The next moment strictly after now at which it opens; None for a window that is always open and never frozen."""
        if self.always and not self.freezes:
            return None
        return next((begin for begin, _ in self.openings(now) if begin > now), None)

    def opening(self, now: datetime) -> datetime | None:
        """When the opening that holds now began; None while it is shut."""
        now = now.astimezone(UTC)
        return next((begin for begin, end in self.openings(now) if begin <= now), None) if self.open(now) else None

    def openings(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """First and last second of every opening that ends after now, ascending, freezes cut out."""
        if self.never:
            return
        today = now.astimezone(self.zone or UTC).date()
        for offset in range(-1, _SEARCH_DAYS):
            for begin, end in _thawed(*self._on(today + timedelta(days=offset)), self.freezes):
                if end + timedelta(seconds=1) > now:
                    yield begin, end

    def last_before(self, moment: datetime) -> tuple[datetime, datetime] | None:
        """First and last second of the last opening that begins before a moment, freezes cut out; None where there is none for years."""
        if self.never:
            return None
        today = moment.astimezone(self.zone or UTC).date()
        for offset in range(1, -_SEARCH_DAYS, -1):
            for begin, end in reversed(list(_thawed(*self._on(today + timedelta(days=offset)), self.freezes))):
                if begin < moment:
                    return begin, end
        return None

    def _contains(self, now: datetime) -> bool:
        if self.never:
            return False
        if self.always:
            return True
        if self.zone is None:
            second = now.hour * 3600 + now.minute * 60 + now.second
            end = (self.end - int(MARGIN.total_seconds())) % DAY
            return second <= end or second >= self.begin if end < self.begin else self.begin <= second <= end
        today = now.astimezone(self.zone).date()
        second_now = now.replace(microsecond=0)
        return any(begin <= second_now <= end for begin, end in (self._on(today - timedelta(days=1)), self._on(today)))

    def _on(self, day: date) -> tuple[datetime, datetime]:
        """First and last second of the effective window that begins on this day (of its zone)."""
        if self.always:
            return _at(day, 0, UTC), _at(day, DAY - 1, UTC)
        if self.zone is None:
            begin = _at(day, self.begin, UTC)
            length = ((self.end - int(MARGIN.total_seconds())) % DAY - self.begin) % DAY
            return begin, begin + timedelta(seconds=length)
        last = day if self.end > self.begin else day + timedelta(days=1)
        begin = _at(day, self.begin, self.zone, fold=0)
        return begin, _at(last, self.end, self.zone, fold=1) - MARGIN


def _at(day: date, second: int, zone: tzinfo, fold: int = 0) -> datetime:
    """The moment at which clocks in a zone show this second of this day."""
    hours, rest = divmod(second, 3600)
    local = datetime.combine(day, time(hours, *divmod(rest, 60), fold=fold), tzinfo=zone)
    return local.astimezone(UTC)


def _thawed(begin: datetime, end: datetime, freezes: tuple[Freeze, ...]) -> Iterator[tuple[datetime, datetime]]:
    for freeze in sorted(freezes, key=lambda freeze: freeze.begin):
        if freeze.end <= begin or freeze.begin > end:
            continue
        if freeze.begin > begin:
            yield begin, freeze.begin - timedelta(seconds=1)
        begin = freeze.end
    if begin <= end:
        yield begin, end


ALWAYS = Window(0, DAY - 1, always=True)
"""What holds without a window, or with one that cannot be read."""


NEVER_OPEN = Window(0, DAY - 1, never=True)
"""What holds where updates need a window and there is none."""


def parse_window(begin: str, end: str, zone: str | None = None, freezes: tuple[Freeze, ...] = ()) -> Window:
    """A window from Gardener's `HHMMSS+ZZZZ` texts. With an IANA zone they are that zone's wall-clock time, and an offset is optional
    and ignored (a Shoot must have one to please Gardener). Raises InvalidWindow.
    """
    clock = None if zone is None else read_zone(zone)
    return Window(_second(begin, local=clock is not None), _second(end, local=clock is not None), clock, freezes)


def _second(text: str, *, local: bool) -> int:
    match = _TIME.fullmatch(text)
    if match is None or not (match[4] or local) or int(match[5] or 0) > 24 or int(match[6] or 0) > 60:
        form = "220000 (hour, minute, second on the zone's clocks)" if local else "220000+0100 (hour, minute, second and offset from UTC)"
        raise InvalidWindow(f"{text!r} is not a time such as {form}")
    east = 0 if local else int(match[5]) * 3600 + int(match[6]) * 60
    return (int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) - (east if match[4] == "+" else -east)) % DAY


def read_zone(name: str) -> ZoneInfo:
    """An IANA time zone such as `Europe/Berlin`. Raises InvalidWindow."""
    try:
        return named_zone(name)
    except ValueError as error:
        raise InvalidWindow(str(error)) from error


def check_duration(window: Window) -> str | None:
    """What is wrong with the given window's length, if anything."""
    if window.duration > LONGEST:
        return f"time window must not be greater than 6h (is {window.duration})"
    if window.duration < SHORTEST:
        return f"time window must not be smaller than 30m (is {window.duration})"
    return None


def parse_freezes(text: str, zone: str | None = None) -> tuple[Freeze, ...]:
    """Freezes such as `2026-12-20/2027-01-02, 2027-03-01`: whole days, the last one included, in a zone (UTC). Raises InvalidWindow."""
    clock = UTC if zone is None else read_zone(zone)
    freezes = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, _, last = part.partition("/")
        try:
            begin, end = date.fromisoformat(first.strip()), date.fromisoformat((last or first).strip())
        except ValueError as error:
            raise InvalidWindow(f"{part!r} is not a date, or two with a `/` between (2026-12-20/2027-01-02)") from error
        if end < begin:
            raise InvalidWindow(f"{part!r} ends before it begins")
        freezes.append(Freeze(_at(begin, 0, clock), _at(end + timedelta(days=1), 0, clock)))
    return tuple(freezes)
