"""The forecast as an iCalendar file: one entry per update or dead end, with identities that stay the same from one export to the next."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

from icalendar import Calendar
from icalendar import Event as Entry

from shared.domain.reasons.versions import sentence
from shared.domain.versions.answers import ForecastEntry


def calendar_bytes(events: Iterable[ForecastEntry], now: datetime) -> bytes:
    """The calendar, RFC 5545."""
    calendar = Calendar()
    calendar.add("prodid", "-//Hullmark//versions//EN")
    calendar.add("version", "2.0")
    calendar.add("x-wr-calname", "Hullmark versions")
    for event in events:
        calendar.add_component(_entry(event, now))
    written: bytes = calendar.to_ical()
    return written


def _entry(event: ForecastEntry, now: datetime) -> Entry:
    at, until = datetime.fromisoformat(event.at), datetime.fromisoformat(event.until)
    what = event.image or "Kubernetes"
    where = event.full_name if event.component == "controlPlane" else f"{event.full_name} {event.component}"
    step = f"stuck on {event.from_}" if event.stuck else f"{event.from_} → {event.to}"
    identity = "|".join([event.full_name, event.component, event.subject, event.from_ or "", step, at.isoformat()])
    entry = Entry()
    entry.add("uid", f"{sha256(identity.encode()).hexdigest()[:32]}@hullmark.dev")
    entry.add("dtstamp", now)
    entry.add("dtstart", at)
    entry.add("dtend", until)
    entry.add("summary", f"{where}: {what} {step}")
    entry.add("description", f"{event.description}\n{sentence(event.code)}".rstrip())
    entry.add("categories", ["stuck" if event.stuck else event.kind or event.code])
    entry.add("transp", "TRANSPARENT")
    return entry
