"""Look at the nodes of a rollout's open stage: one listing a cluster in a step, and only while something is open or soaks."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from msgspec import structs

from shared.domain.rollouts.decisions import Facts, needs_a_look
from shared.domain.rollouts.health import Listing, baseline, looked, watched
from shared.domain.rollouts.progress import Progress
from shared.ports import ClusterError, Readiness
from shared.world import World


class Looks:
    """What the clusters say of their nodes in one step: each is asked once at most."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[str, Listing | None] = {}

    def at(self, cluster: str) -> Listing | None:
        """Its nodes, Ready or not; None where it does not say."""
        if cluster not in self._seen:
            self._seen[cluster] = self._ask(cluster)
        return self._seen[cluster]

    def _ask(self, cluster: str) -> Listing | None:
        try:
            asked = self._world.cluster(cluster, self._world.releases.look().committed)
            return asked.readiness() if isinstance(asked, Readiness) else None
        except ClusterError:
            return None


def look(progress: Progress, facts: Facts, looks: Looks, world: World, now: datetime) -> tuple[Progress, Facts]:
    """Look at the open stage where that is due, and keep what was found if it is something new."""
    if not needs_a_look(progress, facts, now):
        return progress, dataclasses.replace(facts, looked=frozenset())
    stage = watched(progress)
    batches = progress.newest_batches(stage)
    behind = {batch.cluster for batch in batches if facts.of(batch).behind}
    clusters = {batch.cluster for batch in batches if not facts.of(batch).behind}
    found = {cluster: looks.at(cluster) for cluster in sorted(clusters)}
    listings = {cluster: listing for cluster, listing in found.items() if listing is not None or cluster not in behind}
    members = {batch.action: world.rollouts.members(progress, batch) for batch in batches if batch.cluster in listings}
    seen = frozenset(batch.action for batch in batches)

    def kept(state: Progress) -> Progress:
        if state.phase != "running" or {batch.action for batch in state.newest_batches(watched(state))} != seen:
            return state  # others went on: the next step looks at what is there then
        health = looked(state, members, listings, now)
        return state if health == state.health else structs.replace(state, health=health)

    return world.rollouts.change(progress.id, kept), dataclasses.replace(facts, looked=frozenset(clusters))


def with_baseline(state: Progress, looks: Looks, world: World) -> Progress:
    """The rollout with how the nodes of a batch that it is about to open are: the look comes before anything is sent."""
    if not state.nodes_ready or not state.batches or state.batches[-1].back or state.batches[-1].before is not None:
        return state
    batch = state.batches[-1]
    before = baseline(world.rollouts.members(state, batch), looks.at(batch.cluster))
    return structs.replace(state, batches=[*state.batches[:-1], structs.replace(batch, before=before)])
