"""What will happen to a fleet, and when: time stepped through every window until nothing changes.

A cluster is changed at most once while its window is open: at the first moment in it at which something is due. The functions keep to
that too (a marker per cluster and opening), so a forecast is what they will do as long as documents and fleet stay as they are, people
say nothing, and every update succeeds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from shared.domain.versions.answers import ForecastEntry
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import NEVER, Decision, Stuck, Timeline
from shared.domain.versions.plans import ClusterPlan, Planner, after, going, held_entry, moment_text, step_of

TICK = timedelta(seconds=1)
PASSING = frozenset(["WaitingForStage", "Soaking", "UpdateRunning", "Frozen", "Deferred", "MaintenanceExclusion"])
"""Holds that end by themselves: an event where nothing goes after them, as far as is foretold."""


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
        """Whether the update is stuck until a person acts, or is held back."""
        return isinstance(self.decision.outcome, Stuck) or self.decision.held is not None


class Course(Protocol):
    """Rollouts for versions as they go on in a forecast: what holds clusters back depends on what went before."""

    def means(self, cluster: FleetCluster) -> bool:
        """Whether it has a say about a cluster."""

    def let_go(self, plans: Sequence[ClusterPlan], now: datetime) -> set[str]:
        """Of clusters that could go at a moment, those for which there is room, by full name."""

    def went(self, cluster: FleetCluster, now: datetime) -> None:
        """A cluster is through with its update: this is what it runs."""

    def ahead(self, cluster: FleetCluster, decision: Decision) -> datetime | None:
        """From when on it leaves an expiring version ahead of the later stages."""


def forecast(
    planner: Planner,
    now: datetime,
    clusters: Iterable[FleetCluster] | None = None,
    until: datetime | None = None,
    course: Course | None = None,
) -> list[Event]:
    """Every event of these clusters (all), ordered by time. Without `until`, to the day from which nothing changes any more.

    `course`: the rollouts that the planner's holds come from. What their other clusters do counts too.
    """
    asked = list(planner.fleet.clusters.values() if clusters is None else clusters)
    paths = {each.full_name: path for each in asked if (path := _path(each, planner, course))}
    events: list[Event] = []
    if course and any(course.means(path.cluster) for path in paths.values()):
        others = [each for each in planner.fleet.clusters.values() if course.means(each)]
        together = {each.full_name: path for each in others if (path := _path(each, planner, course))}
        events += [event for event in _Together(course, together, until).events(now) if event.cluster.full_name in paths]
        paths = {name: path for name, path in paths.items() if name not in together}
    for path in paths.values():
        events += path.steps(now, until)
    return sorted(events, key=lambda event: (event.at, event.cluster.full_name))


def _path(cluster: FleetCluster, planner: Planner, course: Course | None) -> _Path | None:
    timeline = None if cluster.deleting else planner.timeline(cluster)
    return None if timeline is None else _Path(cluster, planner, timeline, course)


@dataclass(frozen=True, slots=True)
class _Look:
    """One cluster at the first moment of a window, or within it."""

    at: datetime
    until: datetime
    decisions: list[Decision]


@dataclass
class _Path:
    """One cluster on its way through its windows."""

    cluster: FleetCluster
    planner: Planner
    timeline: Timeline
    course: Course | None = None
    told: set[tuple[str, str, str | None, str]] = field(default_factory=set)
    waiting: dict[tuple[str, str], Event] = field(default_factory=dict)
    """What is held back for a time, by component and subject, as long as it does not go."""
    held: bool = False
    """Whether something was held back at the last look."""

    def steps(self, now: datetime, until: datetime | None) -> Iterator[Event]:
        """Its events, where nothing depends on others."""
        moment: datetime | None = now
        while moment and (at := self.opening(moment)) and (until is None or at <= until):
            look = self.look(at)
            yield from self.dead_ends(look)
            moment = self.next(look)
            if going(look.decisions):
                yield from self.goes(look)
                moment = look.until + TICK
        yield from self.waiting.values()

    def opening(self, moment: datetime) -> datetime | None:
        """The first moment from this one on at which its window is open."""
        opening = next(self.cluster.window.openings(moment), None)
        return max(opening[0], moment) if opening else None

    def look(self, at: datetime) -> _Look:
        """What is decided at a moment at which its window is open."""
        _, end = next(self.cluster.window.openings(at))
        return _Look(at, end, self.planner.decide(self.cluster, at))

    def dead_ends(self, look: _Look) -> Iterator[Event]:
        """What is stuck, or held back until a person acts, once for each cause; what is held for a time is kept in mind."""
        self.held = any(decision.held for decision in look.decisions)
        for decision in look.decisions:
            if not (decision.held or isinstance(decision.outcome, Stuck)):
                continue
            event = Event(self.cluster, look.at, look.until, decision)
            if decision.held and (decision.held.reason in PASSING or decision.held.until):
                self.waiting.setdefault((decision.component, decision.subject), event)
                continue
            cause = decision.held.reason if decision.held else decision.outcome.code
            key = (decision.component, decision.subject, decision.current, cause)
            if key not in self.told:
                self.told.add(key)
                yield event

    def goes(self, look: _Look) -> Iterator[Event]:
        """What is carried out, and the cluster afterwards."""
        updates = going(look.decisions)
        yield from (Event(self.cluster, look.at, look.until, decision) for decision in updates)
        for decision in updates:
            self.waiting.pop((decision.component, decision.subject), None)
        self.cluster = after(self.cluster, updates)

    def next(self, look: _Look) -> datetime | None:
        """When to look again after nothing went: something counts as something else, a hold ends, or an expiry presses."""
        change = self.timeline.changes_after(look.at)
        moments = [change + TICK] if change and change < NEVER else []
        if self.cluster.running:  # by the next window its provider is through
            self.cluster = replace(self.cluster, running="")
            moments.append(look.until + TICK)
        for decision in look.decisions:
            if decision.held and decision.held.until:
                moments.append(decision.held.until)
            moments += self._pressing(decision)
        return min((moment for moment in moments if look.at < moment < NEVER), default=None)

    def _pressing(self, decision: Decision) -> list[datetime]:
        """When its last window before the expiry begins, and when its stage goes ahead of the later ones."""
        if decision.expires is None or decision.expires >= NEVER or decision.forced is None:
            return []
        last = self.cluster.window.last_before(decision.expires)
        ahead = self.course.ahead(self.cluster, decision) if self.course else None
        return [*([last[0]] if last else []), *([ahead] if ahead else [])]


class _Together:
    """Clusters whose windows count for one another: stepped through time together.

    A cluster is through with its update when its window ends. Clusters that wait for others look again then.
    """

    def __init__(self, course: Course, paths: dict[str, _Path], until: datetime | None) -> None:
        self._course = course
        self._paths = paths
        self._until = until
        self._due: dict[str, datetime] = {}
        self._queue: list[tuple[datetime, bool, str]] = []
        """When, whether it is a look (or the end of an update), and at which cluster."""

    def events(self, now: datetime) -> Iterator[Event]:
        """All their events."""
        for name in self._paths:
            self._look_again(name, now)
        while self._queue and (self._until is None or self._queue[0][0] <= self._until):
            yield from self._step(self._queue[0][0])
        for path in self._paths.values():
            yield from path.waiting.values()

    def _step(self, now: datetime) -> Iterator[Event]:
        looks: list[str] = []
        ended: list[str] = []
        while self._queue and self._queue[0][0] == now:
            _, is_look, name = heapq.heappop(self._queue)
            if is_look and self._due.get(name) == now:
                looks.append(name)
                del self._due[name]
            elif not is_look:
                ended.append(name)
        for name in ended:
            self._course.went(self._paths[name].cluster, now)
        if ended:
            for name, path in self._paths.items():
                if path.held:
                    self._look_again(name, now)
        yield from self._look(looks, now)

    def _look(self, names: Sequence[str], now: datetime) -> Iterator[Event]:
        looks = {name: self._paths[name].look(now) for name in names}
        able = {name: look for name, look in looks.items() if going(look.decisions)}
        ready = [ClusterPlan(self._paths[name].cluster, look.decisions, open=True, next=None) for name, look in able.items()]
        gone = self._course.let_go(ready, now) if ready else set()
        for name, look in looks.items():
            path = self._paths[name]
            yield from path.dead_ends(look)
            following = path.next(look)
            if name in gone:
                yield from path.goes(look)
                following = look.until + TICK
                heapq.heappush(self._queue, (look.until + TICK, False, name))
            elif name in able:  # there was no room for it
                following = look.until + TICK
            if following:
                self._look_again(name, following)

    def _look_again(self, name: str, moment: datetime) -> None:
        at = self._paths[name].opening(moment)
        if at and (name not in self._due or at < self._due[name]):
            self._due[name] = at
            heapq.heappush(self._queue, (at, True, name))


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
