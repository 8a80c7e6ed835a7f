"""Look at what a rollout's open stage has reached: each cluster is asked once in a step, and only while something is open or soaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from datetime import datetime

from msgspec import structs

from shared.domain.labels.releases import Next
from shared.domain.rollouts.decisions import Facts, needs_a_look
from shared.domain.rollouts.health import NOTHING_INHERITED, DaemonSets, Inherited, Listing, Seen, baseline, inherited, looked, watched
from shared.domain.rollouts.progress import Batch, Fact, Progress
from shared.ledger.records import RecordUnreadable
from shared.ledger.rollouts import UnknownRollout
from shared.ports import ClusterError, Readiness, Workloads
from shared.world import World


class Looks:
    """What the clusters say in one step, of what a rollout looks at: nothing is asked twice."""

    def __init__(self, rollout: Progress, world: World, *, last: bool = True) -> None:
        self._rollout, self._world, self._last = rollout, world, last
        self._seen: dict[str, Seen] = {}
        self._names: dict[str, set[str]] = {}
        self._errors: dict[str, ClusterError] = {}

    def before_it_opens(self, cluster: str, names: Collection[str]) -> Seen:
        """The look that a batch is opened on. Raises ClusterError where the next delivery may get an answer: one busy moment of the API
        server must not leave a cluster behind.
        """
        seen = self.at(cluster, names)
        error = self._errors.get(cluster)
        if error is not None and error.retryable and not self._last:
            raise error
        return seen

    def at(self, cluster: str, names: Collection[str]) -> Seen:
        """What it says of itself, and of the pods of DaemonSets on these nodes."""
        known, before = self._names.setdefault(cluster, set()), self._seen.get(cluster)
        further = set(names) - known
        if before is None or (further and before.whole and self._rollout.daemon_sets):
            known |= further
            self._seen[cluster] = self._asked(cluster, further, before)
        return self._seen[cluster]

    def _asked(self, cluster: str, names: Collection[str], before: Seen | None) -> Seen:
        """What it says now, and said before. The first thing that it does not say is the last that it is asked."""
        about = self._rollout
        seen = before or Seen(None, None if about.daemon_sets else {}, None if about.unschedulable_pods else {})
        try:
            asked = self._world.cluster(cluster, self._world.releases.look().committed)
            if seen.nodes is None and isinstance(asked, Readiness):
                seen = seen._replace(nodes=_there(asked.readiness(), about))
            if seen.unschedulable is None and isinstance(asked, Workloads):
                seen = seen._replace(unschedulable=asked.unschedulable())
            if about.daemon_sets and isinstance(asked, Workloads):
                seen = seen._replace(daemon_sets=_joined(seen.daemon_sets or {}, asked.daemon_sets(names)))
        except ClusterError as error:
            self._errors[cluster] = error
            return seen._replace(daemon_sets=None if about.daemon_sets else {}, error=error.reason, refused=not error.retryable)
        return seen._replace(refused=not seen.whole)


def _there(listing: Listing, rollout: Progress) -> Listing:
    """The nodes, Ready or not; where that is not looked at, every one that is there is as good as Ready."""
    return listing if rollout.nodes_ready else dict.fromkeys(listing, True)


def _joined(some: DaemonSets, more: DaemonSets) -> DaemonSets:
    """Both, of other nodes each."""
    return {each: {*some.get(each, ()), *more.get(each, ())} for each in some.keys() | more.keys()}


def look(progress: Progress, facts: Facts, looks: Looks, world: World, now: datetime) -> tuple[Progress, Facts]:
    """Look at the open stage where that is due, and keep what was found if it is something new."""
    if not needs_a_look(progress, facts, now):
        return progress, dataclasses.replace(facts, looked=frozenset())
    batches = progress.newest_batches(watched(progress))
    sent = [batch for batch in batches if not batch.unsent]
    members = {batch.action: world.rollouts.members(progress, batch) for batch in sent}
    behind = {batch.cluster for batch in sent if facts.of(batch).behind}
    clusters = {batch.cluster for batch in sent if not facts.of(batch).behind}
    names = {cluster: [name for batch in sent if batch.cluster == cluster for name in members[batch.action]] for cluster in clusters}
    found = {cluster: looks.at(cluster, names[cluster]) for cluster in sorted(clusters)}
    found = {cluster: seen for cluster, seen in found.items() if seen.nodes is not None or cluster not in behind}
    tries = {batch.action for batch in batches}

    def kept(state: Progress) -> Progress:
        if state.phase != "running" or {batch.action for batch in state.newest_batches(watched(state))} != tries:
            return state  # others went on: the next step looks at what is there then
        health = looked(state, members, found, now)
        return state if health == state.health else structs.replace(state, health=health)

    return world.rollouts.change(progress.id, kept), dataclasses.replace(facts, looked=frozenset(clusters))


def with_baseline(state: Progress, looks: Looks, world: World) -> Progress:
    """The rollout with how the cluster and the nodes of a batch are that it is about to open: the look comes before anything is sent. To a
    cluster that does not say that nothing is sent. Raises ClusterError where the next delivery may see more.
    """
    if not state.looks or not state.batches or state.batches[-1].back or state.batches[-1].before is not None:
        return state
    batch = state.batches[-1]
    names = world.rollouts.members(state, batch)
    seen = looks.before_it_opens(batch.cluster, names)
    if seen.whole:
        opened = structs.replace(batch, before=baseline(names, seen, _inherited(state, batch, names, world)))
    else:
        reason = seen.error if seen.refused else ""
        opened = structs.replace(batch, unsent=True, fact=Fact(batch.at, behind=True, reason=reason, message=seen.unsaid))
    return structs.replace(state, batches=[*state.batches[:-1], opened])


def _inherited(state: Progress, batch: Batch, names: Collection[str], world: World) -> Inherited:
    """How nodes were before rollouts reached them whose place this one takes. All of those are in the first stage."""
    if batch.stage:
        return NOTHING_INHERITED
    released = world.releases.look().state(batch.cluster)
    way = released.about.next
    if way is None or way.rollout != state.id:
        return NOTHING_INHERITED
    before, unreadable = list[Progress](), list[Next]()
    for each in way.replaced():
        try:
            before.append(world.rollouts.get(each.rollout))
        except (RecordUnreadable, UnknownRollout):
            unreadable.append(each)
    sent = [(rollout, each) for rollout in before for each in rollout.batches if each.cluster == batch.cluster and not each.unsent]
    found = inherited(batch.cluster, before, {each.action: world.rollouts.members(rollout, each) for rollout, each in sent})
    lost = {name: None for name in names if any(each.reached(name, released.stage_of) for each in unreadable)}
    return found._replace(ready=lost | dict(found.ready))
