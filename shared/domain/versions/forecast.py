"""What will happen to a fleet, and when: time stepped through every window until nothing changes.

A cluster is changed at most once while its window is open: at the first moment in it at which something is due. The functions keep to
that too (a marker per cluster and opening), so a forecast is what they will do as long as documents and fleet stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from shared.domain.versions.answers import ForecastEntry
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import NEVER, Decision, Stuck, Timeline
from shared.domain.versions.plans import Planner, after, going, held_entry, moment_text, step_of
from shared.domain.versions.skew import within_skew

TICK = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Event:
    """At `at`, in the opening that ends at `until`, this decision is carried out, or turns out to be stuck."""

    cluster: FleetCluster
    """As it is before."""
    at: datetime
    until: datetime
    decision: Decision

    @property
    def stuck(self) -> bool:
        """Whether the update is stuck until a person acts, or held back by another component that moves first."""
        return isinstance(self.decision.outcome, Stuck) or self.decision.held is not None


def forecast(planner: Planner, now: datetime, clusters: Iterable[FleetCluster] | None = None, until: datetime | None = None) -> list[Event]:
    """Every event of these clusters (all), ordered by time. Without `until`, to the day from which nothing changes any more."""
    events: list[Event] = []
    for cluster in planner.fleet.clusters.values() if clusters is None else clusters:
        timeline = planner.timeline(cluster)
        if timeline is not None and not cluster.deleting:
            steps = _steps(cluster, timeline, now)
            events += steps if until is None else takewhile(lambda event: event.at <= until, steps)
    return sorted(events, key=lambda event: (event.at, event.cluster.full_name))


def _steps(cluster: FleetCluster, timeline: Timeline, now: datetime) -> Iterator[Event]:
    known: set[tuple[str, str, str | None, str]] = set()
    moment = now
    while True:
        opening = next(cluster.window.openings(moment), None)
        if opening is None:
            return
        at, until = max(opening[0], moment), opening[1]
        decisions = within_skew(timeline.decide(cluster, at), cluster)
        for decision in decisions:
            cause = decision.held.reason if decision.held else decision.outcome.code
            dead_end = (decision.component, decision.subject, decision.current, cause)
            if (decision.held or isinstance(decision.outcome, Stuck)) and dead_end not in known:
                known.add(dead_end)
                yield Event(cluster, at, until, decision)
        updates = going(decisions)
        if updates:
            yield from (Event(cluster, at, until, decision) for decision in updates)
            cluster = after(cluster, updates)
            moment = until + TICK
            continue
        change = timeline.changes_after(at)
        if change is None or change >= NEVER:
            return
        moment = change + TICK


def event_entry(event: Event) -> ForecastEntry:
    """One entry of `versions calendar`."""
    return ForecastEntry(
        **step_of(event.cluster, event.decision),
        at=moment_text(event.at),
        until=moment_text(event.until),
        stuck=event.stuck,
        held=held_entry(event.decision.held),
        image=event.decision.image or "",
    )
