"""Notices about versions: which are due, each with its own identity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.domain.exposition import Family, Sample
from shared.domain.notices import FLEET_UNREADABLE, UPDATE_SKIPPED, VERSION_EXPIRED, VERSION_EXPIRING
from shared.domain.reasons.versions import sentence
from shared.domain.versions.answers import OfferEntry
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import Decision, Stuck
from shared.domain.versions.fleets import FleetView, Trouble
from shared.domain.versions.holding import is_forced
from shared.domain.versions.plans import ClusterPlan, offers_of, time_text

DAYS = (1, 7, 14, 30, 60, 90)
"""Days before expiry at which a notice about a version in use is sent, once each; `0` means that it has expired."""

PASSING = frozenset(["UpdateRunning", "ControlPlaneBehind", "ComesWithKubernetes"])
"""Holds that end by themselves, or whose cause is announced by itself."""


@dataclass(frozen=True, slots=True)
class Due:
    """A notice to send unless it was sent before. `key` is its identity, also in the store."""

    key: str
    type: str
    subject: str
    data: dict[str, Any]

    @property
    def fleet(self) -> str:
        """The fleet that it is about."""
        fleet: str = self.data["fleet"]
        return fleet


@dataclass(frozen=True, slots=True)
class Expiry:
    """A version in use, and when it ends."""

    cluster: FleetCluster
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
        end = next((version.expires for version in listed if version.version == decision.current), None)
        if end is not None and decision.current is not None:
            yield Expiry(plan.cluster, decision.component, decision.subject, decision.current, end)


def due(plan: ClusterPlan, profile: CloudProfile | None, now: datetime) -> Iterator[Due]:
    """The notices that one cluster gives cause for now: versions that end soon or have ended, and updates that are stuck.

    Of several thresholds passed only the nearest counts: a notice at 7 days replaces the one at 90.
    """
    for expiry in expiries(plan, profile):
        days = (
            0
            if expiry.expires < now
            else next((threshold for threshold in DAYS if expiry.expires - now <= timedelta(days=threshold)), None)
        )
        if days is not None:
            kind = VERSION_EXPIRED if days == 0 else VERSION_EXPIRING
            place = f"{expiry.cluster.full_name}/{expiry.component}/{expiry.subject}/{expiry.version}"
            data = {
                "cluster": expiry.cluster.id,
                "fleet": expiry.cluster.fleet,
                "component": expiry.component,
                "subject": expiry.subject,
                "version": expiry.version,
                "expires": time_text(expiry.expires),
                "daysLeft": expiry.days_left(now),
            }
            yield Due(kind.id(f"{place}/{time_text(expiry.expires)}/{days}"), kind.type, expiry.cluster.full_name, data)
    for decision in plan.decisions:
        cause = _cause(decision)
        if cause is not None:
            code, message = cause
            data = {
                "cluster": plan.cluster.id,
                "fleet": plan.cluster.fleet,
                "component": decision.component,
                "subject": decision.subject,
                "version": decision.current,
                "reason": code,
                "message": message,
                "advice": sentence(code),
            }
            place = f"{plan.cluster.full_name}/{decision.component}/{decision.subject}/{decision.current}/{code}"
            yield Due(UPDATE_SKIPPED.id(place), UPDATE_SKIPPED.type, plan.cluster.full_name, data)


def told_of(trouble: Trouble, now: datetime) -> Due:
    """The notice of what cannot be read: one a day, so that neither a check every ten minutes nor a month of silence hides it."""
    data = {"fleet": trouble.fleet, "part": trouble.part, "reason": trouble.reason, "message": trouble.message}
    return Due(FLEET_UNREADABLE.id(f"{trouble.subject}/{trouble.reason}/{now:%Y-%m-%d}"), FLEET_UNREADABLE.type, trouble.subject, data)


def _cause(decision: Decision) -> tuple[str, str] | None:
    """Why an update can't happen that somebody has to know of: it is stuck, or it is held although its version has expired."""
    if isinstance(decision.outcome, Stuck):
        return decision.outcome.code, decision.description
    held = decision.held
    if held is None or held.reason in PASSING or not (is_forced(decision) or held.reason == "SkewTooWide"):
        return None
    return held.reason, held.message


def gauges(fleet: FleetView, now: datetime) -> list[Family]:
    """For every version in use, how many places run it, and its days left where it has an end."""
    offers = [offer for name, profile, users in fleet.profiles() for offer in offers_of(name, profile, users, now) if offer.inUse]
    return [
        Family("hullmark_version_in_use", "Control planes and pools that run a version.", "gauge", _samples(offers, "inUse")),
        Family(
            "hullmark_version_days_to_expiry", "Days until a version in use expires; negative after.", "gauge", _samples(offers, "daysLeft")
        ),
    ]


def _samples(offers: Iterable[OfferEntry], field: str) -> tuple[Sample, ...]:
    """One for each version that has this number, however often a profile lists it: Prometheus refuses a series that is there twice."""
    series = {(offer.profile, offer.subject, offer.version): value for offer in offers if (value := getattr(offer, field)) is not None}
    return tuple(Sample(value, dict(zip(("profile", "subject", "version"), names, strict=True))) for names, value in series.items())
