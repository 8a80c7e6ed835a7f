"""What is to be done about a fleet's versions now: decisions with their windows, and how each is explained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.classification import Offered
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import Decision, Keep, Rules, Stuck, Timeline, Update, without_profile
from shared.domain.versions.profiles import Gardener
from shared.domain.versions.reasons import REASONS
from shared.domain.versions.windows import Window


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """One cluster's decisions, whether they may be carried out now, and when the window next opens."""

    cluster: FleetCluster
    decisions: list[Decision]
    open: bool
    next: datetime | None


class Planner:
    """Plans the clusters of a fleet; every profile is compiled once for each stretch of time."""

    def __init__(self, fleet: Gardener) -> None:
        self.fleet = fleet
        self._timelines: dict[tuple[str, str, bool], Timeline | None] = {}

    def timeline(self, cluster: FleetCluster) -> Timeline | None:
        """The timeline of the profile that a cluster refers to; None where the fleet has no such profile."""
        key = (cluster.profile, cluster.namespace if cluster.own else "", cluster.own)
        if key not in self._timelines:
            profile = self.fleet.profile_of(cluster)
            self._timelines[key] = None if profile is None else Timeline(profile)
        return self._timelines[key]

    def decide(self, cluster: FleetCluster, now: datetime) -> list[Decision]:
        """The decisions for one cluster, whatever its window says."""
        timeline = self.timeline(cluster)
        if timeline is None:
            return without_profile(cluster)
        decisions = timeline.at(now).decide(cluster)
        if cluster.deleting:
            gone = Keep("ClusterDeleting")
            return [Decision(each.component, each.subject, each.current, gone, each.image) for each in decisions]
        return decisions

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
    return [each for each in decisions if isinstance(each.outcome, Update) and each.outcome.to != each.current]


def after(cluster: FleetCluster, updates: Iterable[Decision]) -> FleetCluster:
    """The cluster when these updates are done."""
    return cluster.with_versions({(each.component, each.subject): each.outcome.to for each in updates if isinstance(each.outcome, Update)})


def time_text(moment: datetime | None) -> str | None:
    """A moment as Kubernetes writes it."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def decision_json(plan: ClusterPlan, decision: Decision) -> dict[str, Any]:
    """One entry of `versions plan` (docs/command-line.md). `reason` is the original's sentence where an update is due, else the code."""
    outcome = decision.outcome
    update = outcome if isinstance(outcome, Update) else None
    return {
        "cluster": plan.cluster.id,
        "component": decision.component,
        "subject": decision.subject,
        "from": decision.current,
        "to": update.to if update else None,
        "kind": update.kind if update else None,
        "trigger": outcome.trigger,
        "error": isinstance(outcome, Stuck),
        "reason": (outcome.reason if isinstance(outcome, Update | Stuck) else "") or outcome.code,
        "code": outcome.code,
        "description": decision.description,
        "window": {"open": plan.open, "next": time_text(plan.next)},
    }


def plan_json(plans: Iterable[ClusterPlan]) -> dict[str, Any]:
    """The whole of `versions plan`."""
    return {"decisions": [decision_json(plan, decision) for plan in plans for decision in plan.decisions]}


# --- what is offered ------------------------------------------------------------------------------------------------------------------


def offers_json(name: str, profile: CloudProfile, clusters: Iterable[FleetCluster], now: datetime) -> list[dict[str, Any]]:
    """Every version of a profile: what it counts as, when it expires, what comes next, and how many places run it."""
    users: dict[tuple[str, str], int] = {}
    for cluster in clusters:
        places = [("kubernetes", cluster.kubernetes), *(("kubernetes", pool.kubernetes) for pool in cluster.pools)]
        for subject, version in [*places, *((pool.image or "", pool.image_version) for pool in cluster.pools)]:
            if version is not None:
                users[subject, version] = users.get((subject, version), 0) + 1

    def entry(subject: str, version: Offered) -> dict[str, Any]:
        following = next((stage for stage in version.stages if stage.start is not None and stage.start >= now), None)
        expires = version.expires
        return {
            "profile": name,
            "subject": subject,
            "version": version.version,
            "classification": version.at(now),
            "expires": time_text(expires),
            "daysLeft": None if expires is None else (expires - now).days,
            "next": {"classification": following.classification, "at": time_text(following.start)} if following else None,
            "inUse": users.get((subject, version.version), 0),
        }

    return [entry("kubernetes", each) for each in profile.kubernetes] + [
        entry(image.name, each) for image in profile.images for each in image.versions
    ]


def why_json(plan: ClusterPlan, rules: Rules | None) -> dict[str, Any]:
    """Everything about one cluster: each decision with its sentence, and every version that was looked at with its verdict."""
    entries = []
    for decision in plan.decisions:
        candidates = (
            []
            if rules is None
            else [{"version": v, "classification": c, "verdict": w} for v, c, w in rules.verdicts(plan.cluster, decision)]
        )
        entries.append({**decision_json(plan, decision), "advice": REASONS[decision.outcome.code], "candidates": candidates})
    return {
        "cluster": plan.cluster.id,
        "profile": plan.cluster.profile,
        "autoUpdate": {"kubernetesVersion": plan.cluster.auto_kubernetes, "machineImageVersion": plan.cluster.auto_image},
        "window": {"open": plan.open, "next": time_text(plan.next)},
        "decisions": entries,
    }
