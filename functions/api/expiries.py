"""Versions for the page: when they expire, how many pools and control planes run them, and what the next windows will change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shared.domain.documents.reading import Document
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.ports import ObjectStore
from shared.world import World

if TYPE_CHECKING:
    from shared.domain.versions.answers import EventGroup
    from shared.domain.versions.clusters import FleetCluster
    from shared.domain.versions.forecast import Event
    from shared.domain.versions.plans import Planner
    from shared.domain.versions.profiles import Gardener

AHEAD = 90
"""Days to look ahead: when the first notice about an expiring version is sent."""
COMING = 30
"""Days that the forecast on the page covers."""
FORECAST_CLUSTERS = 500
"""Most clusters that the page forecasts: about a second's work, once an hour; a cluster that changes is forecast anew."""
_READ: dict[tuple[ObjectStore, int], Gardener] = {}
_FORESEEN: dict[tuple[ObjectStore, int, datetime], tuple[Planner, dict[FleetCluster, list[Event]]]] = {}


@dataclass(frozen=True, slots=True)
class Expiring:
    """A version that expires soon, or has expired and is in use. `days`: whole days left, negative after."""

    profile: str
    subject: str
    version: str
    expires: str
    days: int
    in_use: int


@dataclass(frozen=True, slots=True)
class DocumentVersions:
    """The profiles of a revision's documents, and its Shoots as they are by now."""

    key: tuple[ObjectStore, int]
    fleet: Gardener
    clusters: list[FleetCluster]


def gardener_of(revision: Revision) -> list[Document]:
    """Return its Gardener documents; none if they can't be read, so that labels are still shown (version_check reports it)."""
    try:
        return revision.gardener
    except RecordUnreadable:
        return []


def document_versions(revision: Revision | None, world: World) -> DocumentVersions | None:
    """Read the versions of the documents; None if these hold no profile. Updates that were applied since count, freezes too."""
    if revision is None or not (documents := gardener_of(revision)):
        return None
    from shared.domain.versions.identity import DOCUMENTS
    from shared.domain.versions.profiles import gardener
    from shared.ledger.fleets import DocumentFleet
    from shared.work.version_holds import freezes_in

    key = (world.store, revision.number)
    if key not in _READ:
        _READ.clear()
        _READ[key] = gardener(documents)
    frozen = freezes_in([DOCUMENTS], world.releases.look())
    clusters = [frozen.under(cluster) for cluster in DocumentFleet(world.store, _READ[key].clusters).clusters()]
    return DocumentVersions(key, _READ[key], clusters)


def expiring(seen: DocumentVersions | None, now: datetime) -> list[Expiring] | None:
    """List expiring versions, soonest first; None if the documents hold no profile."""
    if seen is None:
        return None
    from shared.domain.versions.plans import offers_of
    from shared.domain.versions.profiles import merged_profiles

    offers = []
    for name, profile in merged_profiles(seen.fleet).items():
        users = [cluster for cluster in seen.clusters if (f"{cluster.namespace}/" if cluster.own else "") + cluster.profile == name]
        offers += [
            Expiring(name, offer.subject, offer.version, (offer.expires or "")[:10], offer.daysLeft, offer.inUse)
            for offer in offers_of(name, profile, users, now)
            if offer.daysLeft is not None and offer.daysLeft <= AHEAD and (offer.daysLeft >= 0 or offer.inUse)
        ]
    return sorted(offers, key=lambda offer: (offer.days, offer.profile, offer.subject, offer.version))


def coming(seen: DocumentVersions | None, now: datetime) -> list[EventGroup]:
    """Group what the windows of the next COMING days will change, soonest first, stuck updates included.

    What was foreseen of a cluster is kept for the hour, as long as the cluster is what it was: applied updates show at once.
    """
    if seen is None:
        return []
    from shared.domain.versions.forecast import event_entry, forecast
    from shared.domain.versions.groups import event_groups
    from shared.domain.versions.plans import Planner

    key = (*seen.key, now.replace(minute=0, second=0, microsecond=0))
    if key not in _FORESEEN:
        _FORESEEN.clear()
        _FORESEEN[key] = Planner(seen.fleet), {}
    planner, known = _FORESEEN[key]
    shown = seen.clusters[:FORECAST_CLUSTERS]
    foreseen = {each: known[each] if each in known else forecast(planner, now, [each], now + timedelta(days=COMING)) for each in shown}
    _FORESEEN[key] = planner, foreseen
    return event_groups(event_entry(event) for events in foreseen.values() for event in events)
