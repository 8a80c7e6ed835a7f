"""What holds updates of versions back now: the pause, freezes, deferrals, what the providers say (docs/versions.md, Held)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.domain.actions import UNREADABLE
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import Decision
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.freezes import Freezes, under
from shared.domain.versions.held import BEFORE_DEFERRAL_ENDS, Held
from shared.domain.versions.holding import provider_holds
from shared.domain.versions.identity import DOCUMENTS
from shared.ledger.deferrals import Deferral
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce
from shared.ledger.revisions import Revision
from shared.ports import ONE_BY_ONE, Workers
from shared.work.holds import paused
from shared.world import World

DEFAULT = "default"
"""The cluster whose releases guard the freezes of Shoot documents, which belong to none."""


@dataclass(frozen=True)
class VersionHolds:
    """Everything that holds updates back, gathered once for many clusters. It is a Holding."""

    pause: Held | None = None
    freezes: Mapping[str, tuple[Freezes, ...]] = field(default_factory=dict)
    """By fleet."""
    unreadable: Mapping[str, Held] = field(default_factory=dict)
    """The fleets whose freezes nobody can read."""
    deferrals: Mapping[str, Deferral] = field(default_factory=dict)
    """The last word about clusters that somebody spoke of, by full name."""

    def __call__(self, cluster: FleetCluster, decision: Decision, now: datetime) -> list[Held]:
        fixed = (self.pause, self.unreadable.get(cluster.fleet), _deferred(self.deferrals.get(cluster.full_name), now))
        frozen = [held for guard in self.freezes.get(cluster.fleet, ()) for held in guard.holds(cluster, now)]
        return [*filter(None, fixed), *frozen, *provider_holds(cluster, decision, now)]

    def under(self, cluster: FleetCluster) -> FleetCluster:
        """The cluster with its window shut while it is frozen."""
        return under(cluster, self.freezes.get(cluster.fleet, ()))

    def over(self, view: FleetView) -> FleetView:
        """The fleets with the windows of their clusters shut while they are frozen."""
        if not any(self.freezes.values()):
            return view
        fleets = {
            name: replace(seen, clusters={each: self.under(cluster) for each, cluster in seen.clusters.items()})
            for name, seen in view.fleets.items()
        }
        return FleetView(fleets)


def version_holds(fleets: Iterable[str], in_force: InForce, world: World) -> VersionHolds:
    """What holds updates of the clusters of these fleets back."""
    pause = paused(world)
    held = Held(pause.reason, pause.message) if pause else None
    return replace(freezes_in(fleets, in_force, world.workers), pause=held, deferrals=world.deferrals.newest())


def _deferred(word: Deferral | None, now: datetime) -> Held | None:
    if word is None or not word.holds(now):
        return None
    return Held("Deferred", f"{word.by} put it off: {word.reason}", word.until, BEFORE_DEFERRAL_ENDS)


def freezes_in(fleets: Iterable[str], in_force: InForce, workers: Workers = ONE_BY_ONE) -> VersionHolds:
    """The freezes of these fleets alone."""
    found = dict(zip(names := list(fleets), workers.each(lambda fleet: _of_fleet(fleet, in_force), names), strict=True))
    freezes = {fleet: guards for fleet, guards in found.items() if isinstance(guards, tuple)}
    unreadable = {fleet: held for fleet, held in found.items() if isinstance(held, Held)}
    return VersionHolds(freezes=freezes, unreadable=unreadable)


def _of_fleet(fleet: str, in_force: InForce) -> tuple[Freezes, ...] | Held:
    try:
        return tuple(_freezes(revision) for revision in _guarding(fleet, in_force) if revision.policies.freezes)
    except RecordUnreadable as torn:
        return Held(UNREADABLE, f"nobody can say whether it is frozen: {torn}")


def _guarding(fleet: str, in_force: InForce) -> list[Revision]:
    """The revisions whose freezes count in a fleet: a commit cannot take its own guard away.

    What was released counts where something was: a fleet whose nodes nobody labels would keep its first revision for good.
    """
    place = DEFAULT if fleet == DOCUMENTS else fleet
    counting = (in_force.committed, in_force.holding(place) if in_force.state(place).k else None)
    return list({revision.number: revision for revision in counting if revision}.values())


def _freezes(revision: Revision) -> Freezes:
    return Freezes(revision.policies.freezes, revision.policies.cluster_labels)
