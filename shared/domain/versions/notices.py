"""What people are told about versions before it is too late: which notices are due, each with an identity of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.domain.exposition import Family, Sample
from shared.domain.notices import UPDATE_SKIPPED, VERSION_EXPIRED, VERSION_EXPIRING
from shared.domain.reasons.versions import sentence
from shared.domain.versions.answers import OfferEntry
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import Stuck
from shared.domain.versions.plans import ClusterPlan, offers_of, time_text
from shared.domain.versions.profiles import Gardener, merged_profiles

DAYS = (1, 7, 14, 30, 60, 90)
"""Days before its end at which a version in use is told of, once each; `0` stands for its having expired."""


@dataclass(frozen=True, slots=True)
class Due:
    """A notice to send unless it was sent before. `key` is its identity, also in the store."""

    key: str
    type: str
    subject: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Expiry:
    """A version in use, and when it ends."""

    cluster: str
    component: str
    subject: str
    version: str
    expires: datetime

    def days_left(self, now: datetime) -> int:
        """Whole days; negative after the end."""
        return (self.expires - now) // timedelta(days=1)


def expiries(plan: ClusterPlan, profile: CloudProfile | None) -> Iterator[Expiry]:
    """Every version that a cluster runs and that has an end."""
    if profile is None:
        return
    for decision in plan.decisions:
        listed: Iterable[Any] = profile.kubernetes
        if decision.subject == "machineImage":
            listed = next((image.versions for image in profile.images if image.name == decision.image), ())
        end = next((each.expires for each in listed if each.version == decision.current), None)
        if end is not None and decision.current is not None:
            yield Expiry(plan.cluster.id, decision.component, decision.subject, decision.current, end)


def due(plan: ClusterPlan, profile: CloudProfile | None, now: datetime) -> Iterator[Due]:
    """The notices that one cluster gives cause for now: versions that end soon or have ended, and updates that are stuck.

    Of several thresholds passed only the nearest counts: who is told of 7 days need not be told of 90.
    """
    for expiry in expiries(plan, profile):
        days = 0 if expiry.expires < now else next((each for each in DAYS if expiry.expires - now <= timedelta(days=each)), None)
        if days is not None:
            kind = VERSION_EXPIRED if days == 0 else VERSION_EXPIRING
            place = f"{expiry.cluster}/{expiry.component}/{expiry.subject}/{expiry.version}"
            data = {
                "cluster": expiry.cluster,
                "component": expiry.component,
                "subject": expiry.subject,
                "version": expiry.version,
                "expires": time_text(expiry.expires),
                "daysLeft": expiry.days_left(now),
            }
            yield Due(kind.id(f"{place}/{time_text(expiry.expires)}/{days}"), kind.type, expiry.cluster, data)
    for decision in plan.decisions:
        if isinstance(decision.outcome, Stuck):
            code = decision.outcome.code
            data = {
                "cluster": plan.cluster.id,
                "component": decision.component,
                "subject": decision.subject,
                "version": decision.current,
                "reason": code,
                "message": decision.description,
                "advice": sentence(code),
            }
            place = f"{plan.cluster.id}/{decision.component}/{decision.subject}/{decision.current}/{code}"
            yield Due(UPDATE_SKIPPED.id(place), UPDATE_SKIPPED.type, plan.cluster.id, data)


def gauges(fleet: Gardener, now: datetime) -> list[Family]:
    """For every version in use, how many places run it, and its days left where it has an end."""
    users: dict[str, list[FleetCluster]] = {}
    for cluster in fleet.clusters.values():
        users.setdefault((f"{cluster.namespace}/" if cluster.own else "") + cluster.profile, []).append(cluster)
    found = [
        each
        for name, profile in merged_profiles(fleet).items()
        for each in offers_of(name, profile, users.get(name, ()), now)
        if each.inUse
    ]
    return [
        Family("hullmark_version_in_use", "Control planes and pools that run a version.", "gauge", _samples(found, "inUse")),
        Family(
            "hullmark_version_days_to_expiry", "Days until a version in use expires; negative after.", "gauge", _samples(found, "daysLeft")
        ),
    ]


def _samples(offers: Iterable[OfferEntry], field: str) -> tuple[Sample, ...]:
    """One for each version that has this number, however often a profile lists it: Prometheus refuses a series that is there twice."""
    series = {(each.profile, each.subject, each.version): value for each in offers if (value := getattr(each, field)) is not None}
    return tuple(Sample(value, dict(zip(("profile", "subject", "version"), names, strict=True))) for names, value in series.items())
