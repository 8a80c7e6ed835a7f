"""Rollouts for versions: what their clusters run is kept, decisions are asked of them, and what they let go is written down first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import structs

from shared.domain.documents.access import Outdated
from shared.domain.documents.kinds import RolloutSpec
from shared.domain.rollouts.progress import Progress, Said
from shared.domain.versions.fleets import FleetView, Trouble
from shared.domain.versions.held import Held
from shared.domain.versions.holding import Holding
from shared.domain.versions.identity import DOCUMENTS
from shared.domain.versions.plans import ClusterPlan, Staged, going
from shared.domain.waves.decisions import Ask, means
from shared.domain.waves.sightings import Failure, Known, Look, look_at, seen, unanswered
from shared.domain.waves.staging import Waves
from shared.domain.waves.standing import Wanted, asked, let_go, wanted_of, wave
from shared.ledger.revisions import Revision
from shared.ledger.sightings import Clusters, share_of
from shared.work.standing import started_rollouts, versions_rollouts
from shared.world import World

if TYPE_CHECKING:
    from shared.domain.waves.foreseen import Foreseen

BATCH = 500
"""Clusters that are let go with one write."""
SETTLES = timedelta(hours=1)
"""So long after clusters are looked at for the first time, nobody goes by what is known before all of them have been."""


@dataclass
class Standing:
    """The rollouts for versions of a check, and how far each is."""

    waves: Waves = field(default_factory=Waves)
    started: Mapping[str, Progress] = field(default_factory=dict)
    """By the name of the document."""
    specs: Mapping[str, RolloutSpec] = field(default_factory=dict)
    """Likewise."""

    @property
    def holding(self) -> Holding:
        """What holds decisions back."""
        return self.waves.holding

    @property
    def staged(self) -> Staged:
        """Which versions are taken instead of those that have not qualified."""
        return self.waves.staged

    def wanted(self, plan: ClusterPlan) -> Wanted | None:
        """What one cluster would be let go for; None where it is in no stage, or nothing goes."""
        return wanted_of(plan, self.waves.waves)

    def foreseen(self) -> Foreseen:
        """The same rollouts, as a forecast goes on with them."""
        from shared.domain.waves.foreseen import Foreseen  # no check foretells anything

        known = {name: known for about in self.waves.waves for name, known in about.known.items()}
        return Foreseen(self.specs, dict(self.started), known)

    def let_go(self, wanted: Sequence[Wanted], world: World, now: datetime) -> set[str]:
        """Write down that these clusters go, in every rollout that means them. Those that may go: somebody may have paused it since."""
        going = {each.cluster for each in wanted}
        for about in self.waves.waves:
            progress = self.started.get(about.name)
            mine = [each for each in wanted if each.cluster in going and each.cluster in about.stage_of]
            if progress is None or not mine:
                continue
            said = Said("open", progress.started.by, now, message=f"{len(mine)} clusters")
            after = world.rollouts.change(progress.id, lambda state, about=about, mine=mine, said=said: let_go(state, about, mine, said))  # type: ignore[misc]
            going -= {each.cluster for each in mine if after.phase != "running" or each.cluster not in after.openings}
        return going

    def cleared(self, plans: Iterable[ClusterPlan], world: World, now: datetime, *, forced: bool = False) -> Iterator[ClusterPlan]:
        """These plans, each update that goes now written down as an opening first; one for which there is no room any more is held."""
        iterator = iter(plans)
        while batch := list(islice(iterator, BATCH)):
            wanted = [each for plan in batch if (plan.open or forced) and (each := self.wanted(plan))]
            gone = self.let_go(wanted, world, now) if wanted else set()
            refused = {each.cluster for each in wanted} - gone
            yield from (_held_back(plan) if plan.cluster.full_name in refused else plan for plan in batch)

    def ask(self, world: World, now: datetime) -> None:
        """Keep what people have to say, so that they are told and can say it."""
        by_rollout: dict[str, set[Ask]] = {}
        for ask, name in self.waves.asks.items():
            by_rollout.setdefault(name, set()).add(ask)
        for name, asks in by_rollout.items():
            if progress := self.started.get(name):
                world.rollouts.change(progress.id, lambda state, asks=asks: asked(state, asks, now))  # type: ignore[misc]


def _held_back(plan: ClusterPlan) -> ClusterPlan:
    held = Held("WaitingForStage", "others of its stage went first, or somebody has just paused the rollout")
    going_now = {id(decision) for decision in going(plan.decisions)}
    return replace(plan, decisions=[replace(each, held=held, waived=None) if id(each) in going_now else each for each in plan.decisions])


def standing(
    revision: Revision | None,
    view: FleetView,
    troubles: Iterable[Trouble],
    world: World,
    now: datetime,
    *,
    keep: bool,
    listed: Set[str] | None = None,
) -> Standing:
    """The rollouts in force, about the clusters as they were just seen. `keep`: whether that is written down. `listed`: the fleets that
    answered, where they are not all of the view.
    """
    specs = versions_rollouts(revision)
    if not specs or revision is None:
        return Standing()
    looks = _looks(revision.policies.cluster_labels, view, specs.values())
    answered = view.fleets.keys() if listed is None else listed
    silent = {each.subject: each.message for each in troubles}
    held = {name for name, spec in revision.policies.clusters.items() if not isinstance(spec, Outdated) and spec.provider != "none"}
    update = _Update(looks, answered, {DOCUMENTS, *held}, silent, now)
    sighted = world.sightings.change(update, now) if keep else world.sightings.imagine(update, now)
    started = started_rollouts(world, specs)
    unseen = bool(update.declared - answered - update.silent.keys()) and now - sighted.begun < SETTLES
    waves = [wave(name, spec, started.get(name), sighted.clusters, now, unseen=unseen) for name, spec in sorted(specs.items())]
    return Standing(Waves(waves), started, specs)


@dataclass(frozen=True)
class _Update:
    """What a look at some fleets changes in what is known."""

    looks: Mapping[str, Look]
    listed: Set[str]
    """Fleets that answered."""
    declared: Set[str]
    """Fleets that there are."""
    silent: Mapping[str, str]
    """Fleets that did not answer, and clusters that could not be read, and why."""
    now: datetime

    def __call__(self, clusters: Clusters, share: int) -> Clusters:
        kept = {name: about for name, known in clusters.items() if (about := self._known(name, known))}
        fresh = {name: seen(None, look, self.now) for name, look in self.looks.items() if name not in clusters and share_of(name) == share}
        after = {**kept, **fresh}
        same = after.keys() == clusters.keys() and all(after[name] is known for name, known in clusters.items())
        return clusters if same else after

    def _known(self, name: str, known: Known) -> Known | None:
        """What is known of a cluster now; None where it is gone."""
        fleet = name.rpartition(":")[0]
        if name in self.looks:
            return seen(known, self.looks[name], self.now)
        if why := self.silent.get(name) or self.silent.get(fleet):
            return unanswered(known, why, self.now)
        return known if fleet in self.declared and fleet not in self.listed else None


def begun_now(specs: Mapping[str, RolloutSpec], labels: Mapping[str, Mapping[str, str]], view: FleetView, now: datetime) -> Standing:
    """Rollouts that no store knows, as if somebody started them now and nothing were known of their clusters but what is seen.

    `labels`: of Cluster documents.
    """
    said = Said("start", "nobody", now)
    started = {name: Progress("", name, 0, said, said, [], change="versions") for name in specs}
    known = {name: seen(None, look, now) for name, look in _looks(labels, view, specs.values()).items()}
    return Standing(Waves([wave(name, spec, started[name], known, now) for name, spec in sorted(specs.items())]), started, specs)


def _looks(cluster_labels: Mapping[str, Mapping[str, str]], view: FleetView, rollouts: Collection[RolloutSpec]) -> dict[str, Look]:
    """Every cluster that a rollout means, as it is seen now, with the labels by which stages select it."""
    matches = [match for spec in rollouts for match in (spec.clusters, *(stage.clusters for stage in spec.stages)) if match]
    keys = {key for match in matches for key in match.match_labels or ()}
    found: dict[str, Look] = {}
    for name, cluster in view.clusters.items():
        every = {**cluster_labels.get(cluster.fleet, {}), **cluster.labels}
        labels = {key: every[key] for key in sorted(keys & every.keys())}
        if any(spec.clusters is None or means(spec.clusters, name, labels) for spec in rollouts):
            found[name] = look_at(cluster, labels)
    return found


def tried_and_failed(cluster: str, failures: Mapping[str, Failure], revision: Revision | None, world: World, now: datetime) -> None:
    """Keep that updates of a cluster failed, by line, where a rollout goes by that."""

    def change(clusters: Clusters, _share: int) -> Clusters:
        known = clusters.get(cluster)
        new = {line: failure for line, failure in failures.items() if known and _is_new(known, line, failure)}
        return {**clusters, cluster: structs.replace(known, failures={**known.failures, **new})} if known and new else clusters

    if failures and versions_rollouts(revision):
        world.sightings.change_one(share_of(cluster), change, now)


def _is_new(known: Known, line: str, failure: Failure) -> bool:
    before = known.failures.get(line)
    return line in known.lines and (before is None or (before.version, before.message) != (failure.version, failure.message))
