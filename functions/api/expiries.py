"""Which versions expire when, for the page: what the committed CloudProfiles offer, and how many places in the documents run it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from shared.ports import ObjectStore
from shared.revisions import Revision
from shared.wiring import Ports

if TYPE_CHECKING:
    from shared.domain.versions.profiles import Gardener

AHEAD = 90
"""Days to look ahead: the first notice of a version's end comes then."""
_READ: dict[tuple[ObjectStore, int], Gardener] = {}


@dataclass(frozen=True, slots=True)
class Expiring:
    """A version that ends soon, or has ended and is in use. `days` are whole ones, negative after the end."""

    profile: str
    subject: str
    version: str
    expires: str
    days: int
    in_use: int


def expiring(revision: Revision | None, ports: Ports, now: datetime) -> list[Expiring] | None:
    """What ends first comes first. None where the documents hold no profile: then there is nothing to tell about."""
    if revision is None or not (documents := revision.gardener):
        return None
    from shared.domain.versions.plans import offers_json
    from shared.domain.versions.profiles import gardener, merged_profiles
    from shared.fleets import DocumentFleet

    key = (ports.store, revision.number)
    if key not in _READ:
        _READ.clear()
        _READ[key] = gardener(documents)
    fleet = _READ[key]
    clusters = list(DocumentFleet(ports.store, fleet.clusters).clusters())
    found = []
    for name, profile in merged_profiles(fleet).items():
        users = [each for each in clusters if (f"{each.namespace}/" if each.own else "") + each.profile == name]
        found += [
            Expiring(name, offer["subject"], offer["version"], offer["expires"][:10], offer["daysLeft"], offer["inUse"])
            for offer in offers_json(name, profile, users, now)
            if offer["daysLeft"] is not None and offer["daysLeft"] <= AHEAD and (offer["daysLeft"] >= 0 or offer["inUse"])
        ]
    return sorted(found, key=lambda each: (each.days, each.profile, each.subject, each.version))
