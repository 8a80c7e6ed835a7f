"""What an edited profile would do to the clusters that use it: their calendars with it, beside their calendars without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from shared.domain.documents.reading import Document, DocumentsRefused, Source, read
from shared.domain.versions.answers import ForecastEntry, ImpactEntry, ImpactGroup, ImpactMoment
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.forecast import Event, event_entry, forecast
from shared.domain.versions.groups import EXAMPLES
from shared.domain.versions.identity import DOCUMENTS
from shared.domain.versions.plans import Planner
from shared.domain.versions.profiles import Gardener, gardener

Place = tuple[str, str, str, str]
"""A cluster's full name, a component, a subject, and the version that is left."""


def edited_profiles(sources: Iterable[Source]) -> Gardener:
    """The profiles of edited files. Raises DocumentsRefused where one cannot be read, and where there is none."""
    documents, problems = read(sources)
    edited = gardener(documents)
    if problems or edited.problems:
        raise DocumentsRefused([*problems, *edited.problems])
    if not (edited.profiles or edited.namespaced):
        whole = documents[0] if documents else Document("-", 0, 1, "", "", {})
        raise DocumentsRefused([whole.problem(("kind",), "Required", "there is no CloudProfile or NamespacedCloudProfile to compare with")])
    return edited


def with_profiles(fleet: FleetView, edited: Gardener, only: str | None = None) -> FleetView:
    """The fleets with the edited profiles in place of those of the same name, wherever there are such; else among the documents.

    `only`: in this fleet alone.
    """
    chosen = {name: seen for name, seen in fleet.fleets.items() if only in (None, name)}
    homes = {key: [name for name, seen in chosen.items() if key in seen.profiles] or [only or DOCUMENTS] for key in edited.profiles}
    own = {key: [name for name, seen in chosen.items() if key in seen.namespaced] or [only or DOCUMENTS] for key in edited.namespaced}
    return FleetView(
        {
            name: replace(
                seen,
                profiles={**seen.profiles, **{key: profile for key, profile in edited.profiles.items() if name in homes[key]}},
                namespaced={**seen.namespaced, **{key: profile for key, profile in edited.namespaced.items() if name in own[key]}},
            )
            for name, seen in fleet.fleets.items()
        }
    )


def concerned(before: FleetView, after: FleetView) -> list[FleetCluster]:
    """The clusters whose profile is another one now."""
    same: dict[tuple[tuple[str, ...], tuple[str, ...]], bool] = {}
    found = []
    for cluster in before.clusters.values():
        key = (before.profile_key(cluster), after.profile_key(cluster))
        if key not in same:
            same[key] = before.profile_of(cluster) == after.profile_of(cluster)
        if not same[key]:
            found.append(cluster)
    return found


def compared(before: FleetView, after: FleetView, clusters: list[FleetCluster], now: datetime, until: datetime | None) -> list[ImpactEntry]:
    """Every step of these clusters that comes, goes, or is another one, in order of time and names."""
    old, new = (_steps(forecast(Planner(fleet), now, clusters, until)) for fleet in (before, after))
    entries = [
        _entry(step, old.get(place), new.get(place))
        for place, step in {**old, **new}.items()
        if _said(old.get(place)) != _said(new.get(place))
    ]
    return sorted(entries, key=lambda entry: ((entry.after or entry.before or _NEVER).at, entry.full_name))


_NEVER = ImpactMoment(at="", to=None, kind=None, stuck=False, code="")


def _steps(events: Iterable[Event]) -> Mapping[Place, ForecastEntry]:
    """By what is left. Where a version is stuck first and left later, the leaving counts."""
    steps: dict[Place, ForecastEntry] = {}
    for event in events:
        entry = event_entry(event)
        steps[entry.full_name, entry.component, entry.subject, entry.from_ or ""] = entry
    return steps


def _said(step: ForecastEntry | None) -> ImpactMoment | None:
    if step is None:
        return None
    code = step.held.reason if step.held else step.code
    return ImpactMoment(at=step.at, to=None if step.stuck else step.to, kind=step.kind, stuck=step.stuck, code=code)


def _entry(step: ForecastEntry, old: ForecastEntry | None, new: ForecastEntry | None) -> ImpactEntry:
    return ImpactEntry(
        cluster=step.cluster,
        fleet=step.fleet,
        component=step.component,
        subject=step.subject,
        image=step.image,
        from_=step.from_,
        before=_said(old),
        after=_said(new),
    )


def impact_groups(entries: Iterable[ImpactEntry]) -> list[ImpactGroup]:
    """The entries by what changes, to the day; what gets stuck first, then by day."""
    groups: dict[tuple[object, ...], list[ImpactEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.subject, entry.image, entry.from_, _day(entry.before), _day(entry.after)), []).append(entry)
    return sorted(map(_group, groups.values()), key=lambda group: (not group.newly_stuck, (group.after or group.before or _NEVER).at))


def _day(moment: ImpactMoment | None) -> ImpactMoment | None:
    return moment and moment.model_copy(update={"at": moment.at[:10]})


def _group(members: list[ImpactEntry]) -> ImpactGroup:
    first = members[0]
    names = sorted({member.full_name for member in members})
    return ImpactGroup(
        subject=first.subject,
        image=first.image,
        from_=first.from_,
        before=_day(first.before),
        after=_day(first.after),
        clusters=len(names),
        places=len(members),
        examples=names[:EXAMPLES],
    )


def users_of(clusters: Iterable[FleetCluster]) -> dict[tuple[str, str], int]:
    """How many control planes and pools run each version of `kubernetes` and of each machine image."""
    users: dict[tuple[str, str], int] = {}
    for cluster in clusters:
        for place in _places(cluster):
            users[place] = users.get(place, 0) + 1
    return users


def _places(cluster: FleetCluster) -> Iterator[tuple[str, str]]:
    kubernetes = [cluster.kubernetes, *(pool.kubernetes for pool in cluster.pools)]
    yield from (("kubernetes", version) for version in kubernetes if version is not None)
    yield from ((pool.image or "", pool.image_version) for pool in cluster.pools if pool.image_version is not None)
