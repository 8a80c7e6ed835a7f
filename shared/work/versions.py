"""What is offered, decided and foretold about the versions of a fleet: the command line and the api answer from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from shared.domain.versions.answers import DecisionList, Explanation, ForecastList, OfferList
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.explanations import explained
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.forecast import event_entry, forecast
from shared.domain.versions.groups import EVERYTHING, ClusterFilter, DecisionFilter, event_groups, grouped, pending
from shared.domain.versions.holding import Holding, nothing_holds
from shared.domain.versions.plans import Planner, decision_entry, offers_of
from shared.ledger.fleets import Fleets, fleets_of
from shared.work.intake import NO_REVISION, Rejected
from shared.work.version_holds import VersionHolds, version_holds
from shared.world import World

EVENTS = 20
"""What `why` shows of one cluster's calendar."""


@dataclass(frozen=True)
class FleetVersions:
    """The versions of a fleet as it was seen. `unreachable`: why a part of it was not; `revision`: that of the documents, 0 for files."""

    fleet: FleetView
    unreachable: Sequence[str] = ()
    revision: int = 0
    holding: Holding = nothing_holds
    """What keeps updates back; its freezes are in the windows of `fleet` already."""

    @classmethod
    def of(cls, fleets: Fleets, revision: int = 0) -> FleetVersions:
        """Look at these fleets now."""
        return cls(fleets.view(), fleets.unreachable, revision)

    def held_by(self, holds: VersionHolds) -> FleetVersions:
        """The same fleet, with what holds its updates back."""
        return replace(self, fleet=holds.over(self.fleet), holding=holds)

    def offers(self, now: datetime) -> OfferList:
        """List every version that the profiles offer: its classification, when it expires, how many run it."""
        entries = [offer for name, profile, users in self.fleet.profiles() for offer in offers_of(name, profile, users, now)]
        return OfferList(versions=entries, unreachable=list(self.unreachable))

    def decisions(self, now: datetime, wanted: DecisionFilter = EVERYTHING, *, stays: bool = True) -> DecisionList:
        """Show what is decided for the clusters that are asked for, whether their windows are open or not; `stays`: what stays, too."""
        plans = Planner(self.fleet, self.holding).plan(now, self._asked(wanted))
        entries = [decision_entry(plan, decision) for plan in plans for decision in plan.decisions]
        kept = [entry for entry in entries if wanted.keeps(entry)]
        due = pending(kept)
        groups = [group for group, _ in grouped(due)]
        return DecisionList(
            decisions=kept if stays else due, unchanged=len(kept) - len(due), groups=groups, unreachable=list(self.unreachable)
        )

    def calendar(self, now: datetime, days: int | None, wanted: ClusterFilter = EVERYTHING) -> ForecastList:
        """What will happen to the clusters that are asked for, so many days ahead or to the day from which nothing changes."""
        until = None if days is None else now + timedelta(days=days)
        events = [event_entry(event) for event in forecast(Planner(self.fleet), now, self._asked(wanted), until)]
        return ForecastList(events=events, groups=event_groups(events), revision=self.revision, unreachable=list(self.unreachable))

    def _asked(self, wanted: ClusterFilter) -> list[FleetCluster]:
        return [each for each in self.fleet.clusters.values() if wanted.looks_at(each.full_name, each.fleet, each.profile)]

    def why(self, cluster: str, now: datetime) -> Explanation:
        """Everything about one cluster, named as for FleetView.named. Raises UnknownFleetCluster."""
        planner = Planner(self.fleet, self.holding)
        (plan,) = planner.plan(now, [self.fleet.named(cluster)])
        timeline = planner.timeline(plan.cluster)
        events = [event_entry(event) for event in islice(forecast(planner, now, [plan.cluster]), EVENTS)]
        known = {"events": events, "unreachable": list(self.unreachable)}
        return explained(plan, timeline.at(now) if timeline else None, now).model_copy(update=known)


def committed_versions(world: World, *, live: bool) -> FleetVersions:
    """The fleet of the newest revision; with `live`, what its Cluster documents name is asked too. Raises Rejected where there is none."""
    in_force = world.releases.look()
    revision = in_force.committed
    if revision is None:
        raise Rejected(NO_REVISION)
    declared = revision.policies.clusters if live else {}
    seen = FleetVersions.of(fleets_of(world.store, revision.gardener, declared, world.open_fleet), revision.number)
    return seen.held_by(version_holds(seen.fleet.fleets, in_force, world))
