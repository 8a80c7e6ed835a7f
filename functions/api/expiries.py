"""Versions for the page: when they expire, how many pools and control planes run them, and what the next windows will change."""

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
"""Days to look ahead: when the first notice about an expiring version is sent."""
COMING = 30
"""Days that the forecast on the page covers."""
FORECAST_CLUSTERS = 500
"""Most clusters that the page forecasts: about a second's work, once an hour."""
_READ: dict[tuple[ObjectStore, int], Gardener] = {}
_COMING: dict[tuple[ObjectStore, int, datetime], list[ForecastEntry]] = {}


@dataclass(frozen=True, slots=True)
class Expiring:
    """A version that expires soon, or has expired and is in use. `days`: whole days left, negative after."""

    profile: str
    subject: str
    version: str
    expires: str
    days: int
    in_use: int


def gardener_of(revision: Revision) -> list[Document]:
    """Return its Gardener documents; none if they can't be read, so that labels are still shown (version_check reports it)."""
    try:
        return revision.gardener
    except RecordUnreadable:
        return []


def expiring(revision: Revision | None, world: World, now: datetime) -> list[Expiring] | None:
    """List expiring versions, soonest first; None if the documents hold no profile."""
    if revision is None or not (documents := gardener_of(revision)):
        return None
    from shared.domain.versions.plans import offers_of
    from shared.domain.versions.profiles import merged_profiles
    from shared.ledger.fleets import DocumentFleet

    fleet = _read(revision, documents, world)
    clusters = list(DocumentFleet(world.store, fleet.clusters).clusters())
    offers = []
    for name, profile in merged_profiles(fleet).items():
        users = [cluster for cluster in clusters if (f"{cluster.namespace}/" if cluster.own else "") + cluster.profile == name]
        offers += [
            Expiring(name, offer.subject, offer.version, (offer.expires or "")[:10], offer.daysLeft, offer.inUse)
            for offer in offers_of(name, profile, users, now)
            if offer.daysLeft is not None and offer.daysLeft <= AHEAD and (offer.daysLeft >= 0 or offer.inUse)
        ]
    return sorted(offers, key=lambda offer: (offer.days, offer.profile, offer.subject, offer.version))


def coming(revision: Revision | None, world: World, now: datetime) -> list[ForecastEntry]:
    """List what the windows of the next COMING days will change, soonest first, stuck updates included."""
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
