"""The forecast as a calendar to subscribe to (RFC 5545): an entry for each update or dead end.

An entry is known by what it is about (the cluster, the component, the version that is left), so that an export with another date or
target changes it in people's calendars and doesn't add a second one. Written here, because the library for it takes a third of a second
to import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256

from shared.domain.reasons.versions import sentence
from shared.domain.versions.answers import ForecastEntry

LINE_BYTES = 75
"""Longer lines are folded (RFC 5545, 3.1)."""
HEAD = (
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//Hullmark//versions//EN",
    "CALSCALE:GREGORIAN",
    "METHOD:PUBLISH",
    "X-WR-CALNAME:Hullmark versions",
    "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
    "X-PUBLISHED-TTL:PT1H",
)
_ESCAPED = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def calendar_bytes(events: Iterable[ForecastEntry], now: datetime, revision: int = 0) -> bytes:
    """The calendar. `revision`, that of the documents, is every entry's SEQUENCE: a later one's entry replaces an earlier one's."""
    lines = [*HEAD]
    seen: set[str] = set()
    for event in events:
        if (uid := _uid(event)) not in seen:
            seen.add(uid)
            lines += _entry(event, uid, now, revision)
    lines.append("END:VCALENDAR")
    return b"".join(folded(line) for line in lines)


def _uid(event: ForecastEntry) -> str:
    what = [event.full_name, event.component, event.subject, event.image, event.from_ or "", _cause(event) if event.stuck else ""]
    return f"{sha256('|'.join(what).encode()).hexdigest()[:32]}@hullmark.dev"


def _cause(event: ForecastEntry) -> str:
    return event.held.reason if event.held else event.code


def _entry(event: ForecastEntry, uid: str, now: datetime, revision: int) -> Iterator[str]:
    what = event.image or "Kubernetes"
    where = event.full_name if event.component == "controlPlane" else f"{event.full_name} {event.component}"
    step = f"stuck on {event.from_}" if event.stuck else f"{event.from_} → {event.to}"
    at, until = datetime.fromisoformat(event.at), datetime.fromisoformat(event.until)
    why = "\n".join([event.description, event.held.message if event.held else sentence(event.code)]).rstrip()
    yield "BEGIN:VEVENT"
    yield f"UID:{uid}"
    yield f"DTSTAMP:{_utc(now)}"
    yield f"SEQUENCE:{revision}"
    yield f"DTSTART:{_utc(at)}"
    if until > at:
        yield f"DTEND:{_utc(until)}"
    yield f"SUMMARY:{text(f'{where}: {what} {step}')}"
    yield f"DESCRIPTION:{text(why)}"
    yield f"CATEGORIES:{text('stuck' if event.stuck else event.kind or event.code)}"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def text(value: str) -> str:
    """A text as iCalendar wants it: separators and line ends escaped, other control characters left out."""
    lines = value.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(character for character in lines if character == "\n" or character.isprintable()).translate(_ESCAPED)


def folded(line: str) -> bytes:
    """A content line in pieces of at most LINE_BYTES bytes, no character cut in two, each but the first after a blank."""
    pieces, rest, room = [], line.encode(), LINE_BYTES
    while len(rest) > room:
        cut = room
        while rest[cut] & 0xC0 == 0x80:
            cut -= 1
        pieces.append(rest[:cut])
        rest, room = rest[cut:], LINE_BYTES - 1
    return b"\r\n ".join([*pieces, rest]) + b"\r\n"
