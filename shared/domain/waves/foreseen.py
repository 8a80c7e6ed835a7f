"""Rollouts for versions as they go on in a forecast: what is let go counts as run in good health from the end of its window on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.domain.documents.kinds import RolloutSpec
from shared.domain.rollouts.progress import Progress, Said
from shared.domain.versions.clusters import UNKNOWN, FleetCluster
from shared.domain.versions.decisions import Decision, VersionRules
from shared.domain.versions.held import Held
from shared.domain.versions.plans import ClusterPlan
from shared.domain.waves.sightings import Known, look_at, seen
from shared.domain.waves.staging import Waves
from shared.domain.waves.standing import let_go, wanted_of, wave


@dataclass
class Foreseen:
    """A Course (shared.domain.versions.forecast): what is known of the clusters is brought up to what the forecast says of them."""

    specs: Mapping[str, RolloutSpec]
    started: dict[str, Progress]
    known: dict[str, Known]

    def __post_init__(self) -> None:
        self._now: datetime | None = None
        self._waves = Waves()

    def means(self, cluster: FleetCluster) -> bool:
        """Whether a rollout means it."""
        return cluster.full_name in self.known

    def staged(self, cluster: FleetCluster, decisions: Sequence[Decision], rules: VersionRules, now: datetime) -> Sequence[Decision]:
        """What the waves make of a cluster's decisions at a moment."""
        return self._at(now).staged(cluster, decisions, rules, now)

    def holding(self, cluster: FleetCluster, decision: Decision, now: datetime) -> Iterable[Held]:
        """What the waves hold back at a moment."""
        return self._at(now).holding(cluster, decision, now)

    def let_go(self, plans: Sequence[ClusterPlan], now: datetime) -> set[str]:
        """Those of these clusters for which every rollout that means them has room."""
        waves = self._at(now).waves
        gone = {plan.cluster.full_name for plan in plans}
        wanted = [each for plan in plans if (each := wanted_of(plan, waves))]
        for about in waves:
            progress, mine = self.started.get(about.name), [each for each in wanted if each.cluster in about.stage_of]
            if progress is None or not mine:
                continue
            after = let_go(progress, about, mine, Said("open", progress.started.by, now))
            self.started[about.name] = after
            gone -= {each.cluster for each in mine if after.phase != "running" or each.cluster not in after.openings}
        self._now = None
        return gone

    def went(self, cluster: FleetCluster, now: datetime) -> None:
        """A cluster runs what it was let go for, in good health unless nobody can ever say how it is."""
        before = self.known[cluster.full_name]
        healthy = None if cluster.health == UNKNOWN else True
        self.known[cluster.full_name] = seen(before, look_at(cluster, before.labels)._replace(healthy=healthy), now)
        self._now = None

    def ahead(self, cluster: FleetCluster, decision: Decision) -> datetime | None:
        """From when on it leaves an expiring version ahead of the later stages; None where it does not."""
        return self._waves.ahead_from(cluster.full_name, decision)

    def _at(self, now: datetime) -> Waves:
        if self._now != now:
            self._waves = Waves([wave(name, spec, self.started.get(name), self.known, now) for name, spec in sorted(self.specs.items())])
            self._now = now
        return self._waves
