"""Versions for the page: which expire when and how many places in the documents run them, and what the next windows will bring."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shared.domain.documents.reading import Document
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.ports import ObjectStore
from shared.world import World

if TYPE_CHECKING:
    from shared.domain.versions.answers import ForecastEntry
    from shared.domain.versions.profiles import Gardener

AHEAD = 90
"""Days to look ahead: the first notice of a version's end comes then."""
COMING = 30
"""Days that the forecast on the page reaches."""
FORECAST_CLUSTERS = 500
"""Clusters that the page forecasts at most: about a second's work, once an hour."""
_READ: dict[tuple[ObjectStore, int], Gardener] = {}
_COMING: dict[tuple[ObjectStore, int, datetime], list[ForecastEntry]] = {}


@dataclass(frozen=True, slots=True)
class Expiring:
    """A version that ends soon, or has ended and is in use. `days` are whole ones, negative after the end."""

    profile: str
    subject: str
    version: str
    expires: str
    days: int
    in_use: int


def gardener_of(revision: Revision) -> list[Document]:
    """Its Gardener documents; none where they can't be read, so that labels are shown all the same (version_check tells of it)."""
    try:
        return revision.gardener
    except RecordUnreadable:
        return []


def expiring(revision: Revision | None, world: World, now: datetime) -> list[Expiring] | None:
    """What ends first comes first. None where the documents hold no profile: then there is nothing to tell about."""
    if revision is None or not (documents := gardener_of(revision)):
        return None
    from shared.domain.versions.plans import offers_of
    from shared.domain.versions.profiles import merged_profiles
    from shared.ledger.fleets import DocumentFleet

    fleet = _read(revision, documents, world)
    clusters = list(DocumentFleet(world.store, fleet.clusters).clusters())
    found = []
    for name, profile in merged_profiles(fleet).items():
        users = [each for each in clusters if (f"{each.namespace}/" if each.own else "") + each.profile == name]
        found += [
            Expiring(name, offer.subject, offer.version, (offer.expires or "")[:10], offer.daysLeft, offer.inUse)
            for offer in offers_of(name, profile, users, now)
            if offer.daysLeft is not None and offer.daysLeft <= AHEAD and (offer.daysLeft >= 0 or offer.inUse)
        ]
    return sorted(found, key=lambda each: (each.days, each.profile, each.subject, each.version))


def coming(revision: Revision | None, world: World, now: datetime) -> list[ForecastEntry]:
    """What the next COMING days' windows will bring to the clusters of the documents, soonest first; stuck ones among them."""
    if revision is None or not (documents := gardener_of(revision)):
        return []
    key = (world.store, revision.number, now.replace(minute=0, second=0, microsecond=0))
    if key not in _COMING:
        from itertools import islice

        from shared.domain.versions.forecast import event_entry, forecast
        from shared.domain.versions.plans import Planner
        from shared.ledger.fleets import DocumentFleet

        fleet = _read(revision, documents, world)
        clusters = list(islice(DocumentFleet(world.store, fleet.clusters).clusters(), FORECAST_CLUSTERS))
        events = forecast(Planner(fleet), now, clusters, now + timedelta(days=COMING))
        _COMING.clear()
        _COMING[key] = [event_entry(event) for event in events]
    return _COMING[key]


def _read(revision: Revision, documents: list[Any], world: World) -> Gardener:
    from shared.domain.versions.profiles import gardener

    key = (world.store, revision.number)
    if key not in _READ:
        _READ.clear()
        _READ[key] = gardener(documents)
    return _READ[key]
