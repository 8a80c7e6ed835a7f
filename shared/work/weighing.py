"""Count what the labels of a rollout's stage do to pods, before it opens, where its document asks for that (docs/impact.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import structs

from shared.domain.labels.plans import label_plan
from shared.domain.rollouts.progress import Progress, Weighed
from shared.domain.workloads.impact import DaemonSetChange, Unseen, WorkloadImpact, in_words
from shared.ports import ClusterError
from shared.work.approvals import members, of_stages
from shared.work.workloads import NO_PODS, workload_impact
from shared.world import World

NEEDED = frozenset({"nodes", "daemonsets", "pods"})
"""What has to be seen to know how many pods of DaemonSets end."""


def weigh(progress: Progress, stage: int, world: World, now: datetime) -> Progress:
    """The rollout with what a stage's labels do to pods, which is kept."""
    clusters = sorted(name for name, sizes in progress.placed.items() if sizes[stage])
    weighed = _weighed(stage, [_impact(progress, stage, cluster, world) for cluster in clusters], now)

    def kept(state: Progress) -> Progress:
        before = state.weighed_for(stage)
        found = structs.replace(weighed, accepted=before.accepted if before else 0)
        if before and weighed.unseen and structs.replace(found, at=before.at) == before:
            return state  # nothing new is known
        return structs.replace(state, weighed=[*(each for each in state.weighed if each.stage != stage), found])

    return world.rollouts.change(progress.id, kept)


def _impact(progress: Progress, stage: int, name: str, world: World) -> WorkloadImpact:
    try:
        cluster = world.cluster(name, world.releases.look().committed)
        decided = of_stages(progress, name, members(progress, name, [stage], world), world)
        plan = label_plan(decided, revision=progress.revision, cluster=name, server_version="")
        return workload_impact(name, plan.nodes, cluster)
    except ClusterError as error:
        return WorkloadImpact(
            cluster=name, unseen=[Unseen(what="nodes", reason=error.reason, message=str(error), retryable=error.retryable)]
        )


def _weighed(stage: int, impacts: Sequence[WorkloadImpact], now: datetime) -> Weighed:
    unseen = [(impact.cluster, each) for impact in impacts for each in impact.unseen if each.what in NEEDED and each.reason != NO_PODS]
    together = WorkloadImpact(
        cluster="",
        starts=sum(impact.starts for impact in impacts),
        stops=sum(impact.stops for impact in impacts),
        stranded=sum(impact.stranded for impact in impacts),
        fits=sum(impact.fits for impact in impacts),
        daemon_sets=dict(_daemon_sets(impacts)),
    )
    return Weighed(
        stage,
        now,
        starts=together.starts,
        ends=together.stops,
        stranded=together.stranded,
        fits=together.fits,
        words=in_words(together),
        unseen="; ".join(f"{each.what} of cluster {cluster}: {each.message}" for cluster, each in unseen[:3]),
        refused=any(not each.retryable for _, each in unseen),
    )


def _daemon_sets(impacts: Sequence[WorkloadImpact]) -> Iterator[tuple[str, DaemonSetChange]]:
    """Those of all clusters; one of a name in several clusters counts as one."""
    starts, stops = Counter[str](), Counter[str]()
    for impact in impacts:
        starts.update({name: each.starts for name, each in impact.daemon_sets.items()})
        stops.update({name: each.stops for name, each in impact.daemon_sets.items()})
    return ((name, DaemonSetChange(starts=starts[name], stops=stops[name])) for name in sorted(starts.keys() | stops.keys()))
