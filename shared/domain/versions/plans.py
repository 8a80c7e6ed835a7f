"""What is to be done about a fleet's versions now: decisions with their windows, and how each is explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from shared.domain.versions.answers import (
    DecisionEntry,
    HeldEntry,
    NextStage,
    OfferEntry,
    Opening,
    WaivedEntry,
)
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.classification import Offered
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import Decision, Keep, Stuck, Timeline, Update, VersionRules, without_profile
from shared.domain.versions.held import Held
from shared.domain.versions.holding import Holding, provider_holds, with_holds
from shared.domain.versions.own_holds import with_their_kubernetes
from shared.domain.versions.skew import behind, within_skew
from shared.domain.versions.windows import Window


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """One cluster's decisions, whether they may be carried out now, and when the window next opens."""

    cluster: FleetCluster
    decisions: list[Decision]
    open: bool
    next: datetime | None


class Planned(Protocol):
    """Clusters, and the profiles by which they are decided."""

    @property
    def clusters(self) -> Mapping[str, FleetCluster]: ...

    def profile_of(self, cluster: FleetCluster) -> CloudProfile | None: ...

    def profile_key(self, cluster: FleetCluster) -> tuple[str, ...]: ...


Staged = Callable[[FleetCluster, Sequence[Decision], VersionRules, datetime], Sequence[Decision]]
"""(cluster, decisions, rules, now) → the decisions with other versions, where waves say so."""


def as_decided(_cluster: FleetCluster, decisions: Sequence[Decision], _rules: VersionRules, _now: datetime) -> Sequence[Decision]:
    """The rules alone choose."""
    return decisions


class Planner:
    """Plans the clusters of a fleet; every profile is compiled once for each stretch of time."""

    def __init__(self, fleet: Planned, holding: Holding = provider_holds, staged: Staged = as_decided) -> None:
        self.fleet = fleet
        self._holding = holding
        self._staged = staged
        self._timelines: dict[tuple[str, ...], Timeline | None] = {}

    def timeline(self, cluster: FleetCluster) -> Timeline | None:
        """The timeline of the profile that a cluster refers to; None where the fleet has no such profile."""
        key = self.fleet.profile_key(cluster)
        if key not in self._timelines:
            profile = self.fleet.profile_of(cluster)
            self._timelines[key] = None if profile is None else Timeline(profile)
        return self._timelines[key]

    def decide(self, cluster: FleetCluster, now: datetime) -> list[Decision]:
        """The decisions for one cluster, whatever its window says."""
        timeline = self.timeline(cluster)
        if timeline is None:
            return without_profile(cluster)
        decisions = timeline.decide(cluster, now)
        if cluster.deleting:
            gone = Keep("ClusterDeleting")
            return [Decision(decision.component, decision.subject, decision.current, gone, decision.image) for decision in decisions]
        staged = self._staged(cluster, decisions, timeline.at(now), now)
        return with_their_kubernetes(behind(with_holds(within_skew(staged, cluster), cluster, self._holding, now)), cluster)

    def plan(self, now: datetime, clusters: Iterable[FleetCluster] | None = None) -> Iterator[ClusterPlan]:
        """The plan of every cluster, one at a time."""
        windows: dict[Window, tuple[bool, datetime | None]] = {}
        for cluster in self.fleet.clusters.values() if clusters is None else clusters:
            if cluster.window not in windows:
                windows[cluster.window] = (cluster.window.open(now), cluster.window.next(now))
            is_open, following = windows[cluster.window]
            yield ClusterPlan(cluster, self.decide(cluster, now), (is_open or cluster.maintain) and not cluster.deleting, following)


def updates_of(decisions: Iterable[Decision]) -> list[Decision]:
    """The decisions that change something. The cap may yield a pool's own version again, which changes nothing."""
    return [decision for decision in decisions if decision.changes]


def going(decisions: Iterable[Decision]) -> list[Decision]:
    """The decisions that change something and that nothing holds back."""
    return [decision for decision in updates_of(decisions) if decision.held is None]


def after(cluster: FleetCluster, updates: Iterable[Decision]) -> FleetCluster:
    """The cluster when these updates are done."""
    return cluster.with_versions(
        {(update.component, update.subject): update.outcome.to for update in updates if isinstance(update.outcome, Update)}
    )


def moment_text(moment: datetime) -> str:
    """A moment as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def time_text(moment: datetime | None) -> str | None:
    """A moment as Kubernetes writes it, where there is one."""
    return None if moment is None else moment_text(moment)


def decision_entry(plan: ClusterPlan, decision: Decision) -> DecisionEntry:
    """One entry of `versions plan`. `reason` is the original's sentence where an update is due, else the code."""
    return DecisionEntry(
        **step_of(plan.cluster, decision),
        profile=plan.cluster.profile,
        image=decision.image,
        error=isinstance(decision.outcome, Stuck),
        expires=time_text(decision.expires),
        forcedTo=decision.forced.to if decision.forced else None,
        held=held_entry(decision.held),
        waived=WaivedEntry(reason=waived.reason, message=waived.message) if (waived := decision.waived) else None,
        window=Opening(open=plan.open, next=time_text(plan.next)),
    )


def held_entry(held: Held | None) -> HeldEntry | None:
    """What keeps an update back, as it is printed."""
    return None if held is None else HeldEntry(reason=held.reason, message=held.message, until=time_text(held.until))


def step_of(cluster: FleetCluster, decision: Decision) -> dict[str, Any]:
    """What every entry says of a decision: the fields of answers.Step."""
    outcome = decision.outcome
    update = outcome if isinstance(outcome, Update) else None
    return {
        "cluster": cluster.id,
        "fleet": cluster.fleet,
        "component": decision.component,
        "subject": decision.subject,
        "from_": decision.current,
        "to": update.to if update else None,
        "kind": update.kind if update else None,
        "trigger": outcome.trigger,
        "reason": (outcome.reason if isinstance(outcome, Update | Stuck) else "") or outcome.code,
        "code": outcome.code,
        "description": decision.description,
    }


# --- what is offered ------------------------------------------------------------------------------------------------------------------


def offers_of(name: str, profile: CloudProfile, clusters: Iterable[FleetCluster], now: datetime) -> list[OfferEntry]:
    """Every version of a profile: what it counts as, when it expires, what comes next, and how many places run it."""
    users: dict[tuple[str, str], int] = {}
    for cluster in clusters:
        places = [("kubernetes", cluster.kubernetes), *(("kubernetes", pool.kubernetes) for pool in cluster.pools)]
        for subject, version in [*places, *((pool.image or "", pool.image_version) for pool in cluster.pools)]:
            if version is not None:
                users[subject, version] = users.get((subject, version), 0) + 1

    def entry(subject: str, version: Offered) -> OfferEntry:
        following = next((stage for stage in version.stages if stage.start is not None and stage.start >= now), None)
        expires = version.expires
        return OfferEntry(
            profile=name,
            subject=subject,
            version=version.version,
            classification=version.at(now),
            expires=time_text(expires),
            daysLeft=None if expires is None else (expires - now).days,
            next=NextStage(classification=following.classification, at=time_text(following.start)) if following else None,
            inUse=users.get((subject, version.version), 0),
        )

    return [entry("kubernetes", offered) for offered in profile.kubernetes] + [
        entry(image.name, offered) for image in profile.images for offered in image.versions
    ]
