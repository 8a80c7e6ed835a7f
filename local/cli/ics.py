"""The forecast as an iCalendar file: one entry per update or dead end, with identities that stay the same from one export to the next."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

from icalendar import Calendar
from icalendar import Event as Entry

from shared.domain.versions.decisions import Update
from shared.domain.versions.forecast import Event
from shared.domain.versions.reasons import REASONS


def calendar_bytes(events: Iterable[Event], now: datetime) -> bytes:
    """The calendar, RFC 5545."""
    calendar = Calendar()
    calendar.add("prodid", "-//Hullmark//versions//EN")
    calendar.add("version", "2.0")
    calendar.add("x-wr-calname", "Hullmark versions")
    for event in events:
        calendar.add_component(_entry(event, now))
    written: bytes = calendar.to_ical()
    return written


def _entry(event: Event, now: datetime) -> Entry:
    decision, outcome = event.decision, event.decision.outcome
    what = decision.image or "Kubernetes"
    where = event.cluster if decision.component == "controlPlane" else f"{event.cluster} {decision.component}"
    step = f"{decision.current} → {outcome.to}" if isinstance(outcome, Update) else f"stuck on {decision.current}"
    identity = "|".join([event.cluster, decision.component, decision.subject, decision.current or "", step, event.at.isoformat()])
    entry = Entry()
    entry.add("uid", f"{sha256(identity.encode()).hexdigest()[:32]}@hullmark.dev")
    entry.add("dtstamp", now)
    entry.add("dtstart", event.at)
    entry.add("dtend", event.until)
    entry.add("summary", f"{where}: {what} {step}")
    entry.add("description", f"{decision.description}\n{REASONS[outcome.code]}")
    entry.add("categories", ["stuck" if event.stuck else outcome.kind if isinstance(outcome, Update) else outcome.code])
    entry.add("transp", "TRANSPARENT")
    return entry
