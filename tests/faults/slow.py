"""A provider that carries updates out after it has accepted them, one at a time, as EKS and GKE do.

Limits: an update takes a quarter of an hour and never fails; of rights, quotas and what is offered it knows nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile
from shared.domain.versions.clusters import FleetCluster, Health, VersionStep
from shared.domain.versions.ends import UNSAID, Progress
from shared.ports import ObjectStore, Stale, Unavailable

TAKES = timedelta(minutes=15)
UPDATES = "updates/"


class SlowFleet:
    """Clusters whose updates are kept in a store, by the tokens that they were asked for with."""

    def __init__(self, store: ObjectStore, clusters: Mapping[str, FleetCluster], now: Callable[[], datetime]) -> None:
        self._store, self._clusters, self._now = store, clusters, now

    def clusters(self) -> Iterator[FleetCluster]:
        for name in self._clusters:
            cluster = self.cluster(name)
            assert cluster
            yield cluster

    def cluster(self, name: str) -> FleetCluster | None:
        cluster = self._clusters.get(name)
        if cluster is None:
            return None
        updates = list(self._updates())
        done = {(step.component, step.subject): step.to for begun, step in updates if self._through(begun)}
        running = ", ".join(step.key for begun, step in updates if not self._through(begun))
        return replace(cluster.with_versions(done), running=running, health=Health(None if running else True))

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        return [], []

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        cluster = self.cluster(name)
        assert cluster
        if step.version_in(cluster) == step.to:
            return False
        if step.version_in(cluster) != step.current:
            raise Stale(f"{step.key} is {step.version_in(cluster)} now")
        if not dry_run and self._store.get(f"{UPDATES}{step.token}") is not None:
            return True
        if cluster.running or (step.pool and step.to > (cluster.kubernetes or "")):
            busy = Unavailable(f"{name} is busy")
            busy.reason = "UpdateRunning"
            raise busy
        if not dry_run:
            told = {"at": self._now().isoformat(), "step": [step.component, step.subject, step.current, step.to]}
            self._store.create(f"{UPDATES}{step.token}", json.dumps(told).encode())
        return True

    def progress(self, name: str, step: VersionStep) -> Progress:
        for begun, other in self._updates():
            if (other.key, other.to) == (step.key, step.to):
                return Progress("done" if self._through(begun) else "running")
        return UNSAID

    def _through(self, begun: datetime) -> bool:
        return self._now() >= begun + TAKES

    def _updates(self) -> Iterator[tuple[datetime, VersionStep]]:
        for key in self._store.keys(UPDATES):
            told = json.loads(self._store.get(key) or b"{}")
            yield datetime.fromisoformat(told["at"]), VersionStep(*told["step"])
