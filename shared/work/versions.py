"""What is offered, decided and foretold about the versions of a fleet: the command line and the api answer from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from shared.domain.documents.kinds import FreezeSpec, RolloutSpec
from shared.domain.documents.reading import Problem, Source
from shared.domain.versions.answers import (
    DecisionList,
    Explanation,
    ForecastEntry,
    ForecastList,
    ImpactList,
    OfferList,
    ProfileProblem,
    UnknownFleetCluster,
)
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.explanations import explained
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.forecast import event_entry, forecast
from shared.domain.versions.freezes import Freezes
from shared.domain.versions.groups import DOCUMENTS as NAMELESS
from shared.domain.versions.groups import EVERYTHING, ClusterFilter, DecisionFilter, event_groups, grouped, pending
from shared.domain.versions.holding import Holding, any_of, provider_holds
from shared.domain.versions.identity import DOCUMENTS
from shared.domain.versions.plans import Planner, decision_entry, offers_of
from shared.domain.versions.profiles import Gardener, check_gardener, merged_profiles
from shared.ledger.fleets import Fleets
from shared.work.intake import NO_REVISION, Rejected
from shared.work.standing import versions_rollouts
from shared.work.version_holds import VersionHolds, version_holds
from shared.work.waves import Standing, begun_now, standing
from shared.world import World

EVENTS = 20
"""What `why` shows of one cluster's calendar."""


@dataclass(frozen=True)
class FleetVersions:
    """The versions of a fleet as it was seen. `unreachable`: why a part of it was not; `revision`: that of the documents, 0 for files."""

    fleet: FleetView
    unreachable: Sequence[str] = ()
    revision: int = 0
    holding: Holding = provider_holds
    """What keeps updates back; its freezes are in the windows of `fleet` already."""
    waves: Standing | None = None
    """The rollouts for versions, which hold updates back too, and say which versions are taken instead of those that have not qualified."""

    @classmethod
    def of(cls, fleets: Fleets, revision: int = 0, left: Callable[[], float] | None = None) -> FleetVersions:
        """Look at these fleets now; for so many seconds at most, where that is said."""
        return cls(fleets.view(left), fleets.unreachable, revision)

    def held_by(self, holds: VersionHolds) -> FleetVersions:
        """The same fleet, with what holds its updates back."""
        return replace(self, fleet=holds.over(self.fleet), holding=holds)

    def in_waves(self, waves: Standing | None) -> FleetVersions:
        """The same fleet, with what rollouts for versions make of its decisions."""
        return replace(self, waves=waves)

    def planner(self) -> Planner:
        """What is decided now."""
        if self.waves is None:
            return Planner(self.fleet, self.holding)
        return Planner(self.fleet, any_of(self.holding, self.waves.holding), self.waves.staged)

    def foreseen(self, now: datetime, clusters: Sequence[FleetCluster], until: datetime | None = None) -> list[ForecastEntry]:
        """What will happen to these clusters: pauses and deferrals hold, stages open one after the other."""
        course = self.waves.foreseen() if self.waves else None
        planner = Planner(self.fleet, any_of(self.holding, course.holding), course.staged) if course else Planner(self.fleet, self.holding)
        return [event_entry(event) for event in forecast(planner, now, clusters, until, course)]

    def guarded(
        self, freezes: Mapping[str, FreezeSpec], rollouts: Mapping[str, RolloutSpec], labels: Mapping[str, Mapping[str, str]], now: datetime
    ) -> FleetVersions:
        """The same fleet under Freeze and Rollout documents that are in force nowhere yet; rollouts as if they were started now.

        `labels`: of Cluster documents.
        """
        guards = {name: (Freezes(freezes, labels),) for name in self.fleet.fleets} if freezes else {}
        held = self.held_by(VersionHolds(freezes=guards))
        waves = {name: spec for name, spec in rollouts.items() if spec.change == "versions"}
        return held.in_waves(begun_now(waves, labels, held.fleet, now) if waves else None)

    def offers(self, now: datetime) -> OfferList:
        """List every version that the profiles offer: its classification, when it expires, how many run it."""
        entries = [offer for name, profile, users in self.fleet.profiles() for offer in offers_of(name, profile, users, now)]
        return OfferList(versions=entries, unreachable=list(self.unreachable))

    def decisions(self, now: datetime, wanted: DecisionFilter = EVERYTHING, *, stays: bool = True) -> DecisionList:
        """Show what is decided for the clusters that are asked for, whether their windows are open or not; `stays`: what stays, too."""
        clusters = self._asked(wanted)
        plans = self.planner().plan(now, clusters)
        entries = [decision_entry(plan, decision) for plan in plans for decision in plan.decisions]
        kept = [entry for entry in entries if wanted.keeps(entry)]
        due = pending(kept)
        groups = [group for group, _ in grouped(due)]
        return DecisionList(
            decisions=kept if stays else due,
            clusters=len(clusters),
            unchanged=len(kept) - len(due),
            groups=groups,
            unreachable=list(self.unreachable),
        )

    def calendar(self, now: datetime, days: int | None, wanted: ClusterFilter = EVERYTHING) -> ForecastList:
        """What will happen to the clusters that are asked for, so many days ahead or to the day from which nothing changes."""
        until = None if days is None else now + timedelta(days=days)
        clusters = self._asked(wanted)
        events = self.foreseen(now, clusters, until)
        return ForecastList(
            events=events,
            clusters=len(clusters),
            groups=event_groups(events),
            revision=self.revision,
            unreachable=list(self.unreachable),
        )

    def _asked(self, wanted: ClusterFilter) -> list[FleetCluster]:
        return [each for each in self.fleet.clusters.values() if wanted.looks_at(each.full_name, each.fleet, each.profile)]

    def impact(self, edited: Sequence[Source], now: datetime, days: int | None = None, only: str | None = None) -> ImpactList:
        """What these profiles would do to the clusters that use them, in place of the present ones.

        `only`: in that fleet. Raises DocumentsRefused and UnknownFleetCluster.
        """
        from shared.domain.versions.gaps import gaps_of
        from shared.domain.versions.impact import compared, concerned, edited_profiles, impact_groups, users_of, with_profiles

        profiles = edited_profiles(edited)
        fleet = DOCUMENTS if only == NAMELESS else only
        if fleet is not None and fleet not in self.fleet.fleets:
            raise UnknownFleetCluster(f"no fleet {only!r}; known are {', '.join(name or NAMELESS for name in self.fleet.fleets)}")
        after = with_profiles(self.fleet, profiles, fleet)
        clusters = concerned(self.fleet, after)
        moves = compared(self.fleet, after, clusters, now, None if days is None else now + timedelta(days=days))
        judged = list(_judged(profiles, after))
        return ImpactList(
            profiles=sorted(_names(profiles)),
            users=sum(len(users) for _, _, users in judged),
            clusters=len(clusters),
            moves=moves,
            groups=impact_groups(moves),
            gaps=[gap for name, profile, users in judged for gap in gaps_of(name, profile, users_of(users), now)],
            problems=[ProfileProblem(**asdict(problem)) for problem in self._problems(profiles, now)],
            unreachable=list(self.unreachable),
        )

    def _problems(self, edited: Gardener, now: datetime) -> list[Problem]:
        """Why a commit would refuse them. Of a live garden's profile the document is not known: nothing of it counts as new."""
        present = self.fleet.fleets.get(DOCUMENTS, Gardener()).documents
        previous = [present.get(key, document) for key, document in edited.documents.items()]
        others = [document for key, document in present.items() if key not in edited.documents]
        files = {document.file for document in edited.documents.values()}
        wrong = check_gardener([*edited.documents.values(), *others], [*previous, *others], now)
        return [problem for problem in wrong if problem.file in files]

    def why(self, cluster: str, now: datetime) -> Explanation:
        """Everything about one cluster, named as for FleetView.named. Raises UnknownFleetCluster."""
        planner = self.planner()
        (plan,) = planner.plan(now, [self.fleet.named(cluster)])
        timeline = planner.timeline(plan.cluster)
        events = self.foreseen(now, [plan.cluster])
        known = {"events": events[:EVENTS], "unreachable": list(self.unreachable)}
        return explained(plan, timeline.at(now) if timeline else None, now).model_copy(update=known)


def _judged(profiles: Gardener, fleet: FleetView) -> Iterator[tuple[str, CloudProfile, list[FleetCluster]]]:
    """The edited profiles as clusters see them, with these clusters."""
    merged = {name: profile for seen in fleet.fleets.values() for name, profile in merged_profiles(seen).items()}
    for name in sorted(_names(profiles)):
        users = [each for each in fleet.clusters.values() if (f"{each.namespace}/" if each.own else "") + each.profile == name]
        if name in merged:
            yield name, profiles.profiles.get(name, merged[name]), users


def _names(profiles: Gardener) -> set[str]:
    return {*profiles.profiles, *("/".join(key) for key in profiles.namespaced)}


def committed_versions(world: World, *, live: bool) -> FleetVersions:
    """The fleet of the newest revision; with `live`, what its Cluster documents name is asked too. Raises Rejected where there is none."""
    in_force = world.releases.look()
    revision = in_force.committed
    if revision is None:
        raise Rejected(NO_REVISION)
    declared = revision.policies.clusters if live else {}
    fleets = Fleets(world.store, revision.gardener, declared, world.open_fleet, world.workers)
    seen = FleetVersions.of(fleets, revision.number, world.time_left())
    waves = standing(revision, seen.fleet, fleets.troubles, world, world.clock(), keep=False) if versions_rollouts(revision) else None
    return seen.held_by(version_holds(seen.fleet.fleets, in_force, world)).in_waves(waves)
