"""What is released in each cluster, read for people: the page, the list of revisions, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.domain.labels.reach import ClusterReach, cluster_reach
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce
from shared.ledger.revisions import Revision
from shared.work.limits import clusters_of
from shared.world import World


def reaches(world: World) -> list[ClusterReach]:
    """What is released in each cluster; nothing before the first commit, and where the newest revision can't be read."""
    in_force = world.releases.look()
    try:
        committed = in_force.committed
        clusters = clusters_of(committed, world) if committed else []
    except RecordUnreadable:
        return []
    return reaches_of(clusters, committed, in_force, world) if committed else []


def reaches_of(clusters: Sequence[str], committed: Revision, in_force: InForce, world: World) -> list[ClusterReach]:
    """What is released in each of these clusters, where this revision is the newest. One that a person rejected does not wait."""
    newest = 0 if world.revisions.rejection(committed.number) else committed.number

    return world.workers.each(lambda cluster: _reach(cluster, in_force, newest, committed.about.at), clusters)


def _reach(cluster: str, in_force: InForce, newest: int, since: datetime) -> ClusterReach:
    try:
        state = in_force.state(cluster)
        return cluster_reach(cluster, state.base, [state.mark(node) for node in state.names()], newest, since)
    except RecordUnreadable as torn:
        return ClusterReach(cluster=cluster, trouble=str(torn))
