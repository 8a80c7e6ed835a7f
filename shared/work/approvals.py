"""Bind an approval to the impact that was shown: count it when a rollout begins to wait for it, and again when somebody approves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import structs

from shared.domain.labels.impact import Impact
from shared.domain.labels.planning import Settled, Write
from shared.domain.labels.selection import Selection
from shared.domain.labels.tally import impact_of
from shared.domain.rollouts.approvals import differences, digest_of, let_open
from shared.domain.rollouts.progress import Asked, Progress, When
from shared.ledger.records import RecordUnreadable
from shared.ports import ClusterError, StoreError
from shared.work.intake import Refusal, Rejected
from shared.work.limits import LISTED, LOOK_SECONDS
from shared.work.planning import ByRelease, decisions
from shared.world import World

IMPACT_CHANGED = "ImpactChanged"


def ask(progress: Progress, wanted: tuple[int, When], world: World, now: datetime) -> Progress:
    """Count what the approval that a rollout waits for would let happen, and keep that."""
    return _asked(progress, wanted, counted(progress, *wanted, world), world, now)


def bind(progress: Progress, wanted: tuple[int, When], named: str, world: World, now: datetime) -> None:
    """Raises Rejected where an approval names no impact, one that is not the one shown, or where it is another by now."""
    name = progress.stages[wanted[0]].name
    if not named:
        how = f"`hullmark rollout approve {progress.id} {name}` shows it; over HTTP it is `impact.digest` of the rollout"
        raise Rejected(Refusal("ImpactRequired", f"say which impact is approved: {how}"))
    impacts = counted(progress, *wanted, world)
    digest = digest_of(progress.id, *wanted, impacts)
    if named == digest:
        return
    changed = differences(_shown(progress.id, named, world), impacts)
    _asked(progress, wanted, impacts, world, now)
    how = f"look at it (`hullmark rollout status {progress.id}`), then `hullmark rollout approve {progress.id} {name} --impact {digest}`"
    said = f"nothing was approved: what stage {name} lets happen is not what impact {named} says: {changed}; {how}"
    raise Rejected(Refusal(IMPACT_CHANGED, said))


def _shown(rollout: str, digest: str, world: World) -> dict[str, Impact]:
    try:
        return world.rollouts.asked(rollout, digest) if digest.isalnum() else {}
    except RecordUnreadable:
        return {}


def _asked(progress: Progress, wanted: tuple[int, When], impacts: dict[str, Impact], world: World, now: datetime) -> Progress:
    digest = digest_of(progress.id, *wanted, impacts)
    world.rollouts.ask(progress.id, digest, impacts)

    def noted(state: Progress) -> Progress:
        known = state.asked_for(*wanted)
        return state if known and known.digest == digest else structs.replace(state, asked=Asked(*wanted, digest, now))

    return world.rollouts.change(progress.id, noted)


def counted(progress: Progress, stage: int, when: When, world: World) -> dict[str, Impact]:
    """What an approval lets happen in each cluster, as its nodes are now."""
    stages = let_open(progress, stage, when)
    clusters = sorted(name for name, sizes in progress.placed.items() if any(sizes[each] for each in stages))
    left, end = world.time_left(), world.monotonic() + LOOK_SECONDS
    world = world.within(lambda: min(left(), end - world.monotonic()))
    impacts = world.workers.each(lambda name: _impact(progress, name, stages, world), clusters, LISTED)
    return dict(zip(clusters, impacts, strict=True))


def _impact(progress: Progress, cluster: str, stages: Sequence[int], world: World) -> Impact:
    try:
        names = members(progress, cluster, stages, world)
        return impact_of(cluster, len(names), of_stages(progress, cluster, names, world), whole=False)
    except (ClusterError, StoreError) as error:
        return Impact(cluster=cluster, unseen=str(error))


def members(progress: Progress, cluster: str, stages: Sequence[int], world: World) -> list[str]:
    """The nodes of some stages in one cluster."""
    return [name for stage in stages for name in world.rollouts.places.members(progress.id, cluster, stage)]


def of_stages(progress: Progress, cluster: str, names: Sequence[str], world: World) -> Iterator[tuple[str, Settled | Write]]:
    """What the rollout's revision would do to these nodes, as they are now. Raises what the cluster and the store raise."""
    basis = ByRelease(cluster, world, world.releases.look(), asked=progress.revision)
    return decisions(Selection(target_nodes=names), basis)
