"""Start the rollouts that a commit starts, once: whoever commits does it, and the clock where that was cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.domain.actions import action_id
from shared.domain.documents.access import Access, Outdated
from shared.domain.documents.kinds import RolloutSpec
from shared.domain.labels.policies import Policies
from shared.domain.names import REJECTED
from shared.domain.rollouts.on_commit import OnCommit, content_of, needless, starting
from shared.domain.rollouts.progress import Said
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import Released
from shared.ledger.revisions import Revision, UnknownRevision
from shared.ledger.rollouts import UnknownRollout
from shared.ports import StoreError
from shared.work.rollouts import begin, clusters_meant, nudge
from shared.world import World

REJECTED_LOOKED_AT = 10
"""The newest rejected revisions that a commit is compared with."""


class Committing(Protocol):
    """Documents that are committed, or would be."""

    @property
    def policies(self) -> Policies: ...
    @property
    def clusters(self) -> Mapping[str, Access | Outdated]: ...


class Documents(NamedTuple):
    """Documents, and a digest of the nodes that they name."""

    declared: Committing
    design: str


def would_start(documents: Documents, world: World) -> list[OnCommit]:
    """What a commit of these documents would start. Where the store is away, nobody can say why one would not."""
    every = starting(documents.declared.policies)
    try:
        return [_judged(name, spec, documents, world) for name, spec in every]
    except StoreError:
        return [OnCommit(name=name, clusters=clusters_meant(spec, documents.declared, world)) for name, spec in every]


def start_with_commit(revision: Revision, world: World, now: datetime) -> list[OnCommit]:
    """Start what the commit of a revision starts, unless that was done, or a newer revision is there. Said again, it starts nothing twice.

    Where the store is away it is the clock's to do: then the ids that it will use are told.
    """
    every = starting(revision.policies)
    if not every:
        return []
    try:
        if world.rollouts.begun_with(revision.number) or world.revisions.newest() != revision.number:
            return [_known(name, spec, revision, world) for name, spec in every]
        started = [_start(name, spec, revision, world, now) for name, spec in every]
        world.rollouts.mark_begun(revision.number)
    except StoreError:
        return [_known(name, spec, revision, world) for name, spec in every]
    return started


def catch_up(world: World, now: datetime) -> None:
    """Start what the newest commit starts, where whoever committed was cut off."""
    with suppress(RecordUnreadable, UnknownRevision):
        if newest := world.revisions.newest():
            start_with_commit(world.revisions.get(newest), world, now)


def _known(name: str, spec: RolloutSpec, revision: Revision, world: World) -> OnCommit:
    if spec.change == "versions":
        return OnCommit(name=name)
    return OnCommit(name=name, id=_id(name, revision), clusters=clusters_meant(spec, revision, world))


def _id(name: str, revision: Revision) -> str:
    """The id of the rollout that a commit starts by one of its documents: the same, whoever starts it and however often."""
    return action_id(f"{revision.about.objects}/{name}", revision.about.at)


def _start(name: str, spec: RolloutSpec, revision: Revision, world: World, now: datetime) -> OnCommit:
    if spec.change == "versions":
        return _stand(name, revision, world, now)
    found = _judged(name, spec, Documents(revision, revision.about.design), world)
    if found.reason:
        return found
    rollout = _id(name, revision)
    with suppress(UnknownRollout):
        world.rollouts.get(rollout)
        return found.model_copy(update={"id": rollout})
    said = Said("start", revision.about.by, now, message=f"with the commit of revision {revision.number}")
    progress = begin(rollout, name, spec, revision.number, said, {cluster: world.releases.head(cluster).k for cluster in found.clusters})
    world.rollouts.start(progress)
    nudge(rollout, world)
    return found.model_copy(update={"id": rollout})


def _stand(name: str, revision: Revision, world: World, now: datetime) -> OnCommit:
    """Start a rollout for versions, which stands from one commit to the next."""
    from shared.work.standing import start  # few rollouts are for versions

    return OnCommit(name=name, id=start(name, revision.number, revision.about.by, world, now).id)


def _judged(name: str, spec: RolloutSpec, documents: Documents, world: World) -> OnCommit:
    """Where a document's rollout would go, and why it does not start by itself, if that is so."""
    if spec.change == "versions":
        return OnCommit(name=name)
    clusters = clusters_meant(spec, documents.declared, world)
    found = OnCommit(name=name, clusters=clusters)
    if not clusters:
        return found.model_copy(update={"reason": "NoClusterMeant", "message": "its `clusters` mean none of the documents' clusters"})
    new = {cluster: content_of(documents.declared.policies, documents.design, cluster) for cluster in clusters}
    states = {cluster: world.releases.head(cluster) for cluster in clusters}
    there = {cluster: _contents(_on_nodes(state, world), cluster, world) for cluster, state in states.items()}
    rejected = {cluster: _contents(_rejected(state.base, world), cluster, world) for cluster, state in states.items()}
    why = needless(new, there, rejected)
    return found.model_copy(update=dict(zip(("reason", "message"), why, strict=True))) if why else found


def _on_nodes(released: Released, world: World) -> set[int]:
    """The revisions that nodes of a cluster have, or will have once the rollout that is on its way there has ended."""
    own = {entry.revision for entry in released.names().values() if entry.revision}
    way = released.about.next
    if way is None:
        return {released.base} | own
    with suppress(UnknownRollout):
        if world.rollouts.get(way.rollout).unfinished:
            return {way.revision} | own
    return {released.base, way.revision} | own


def _rejected(base: int, world: World) -> Sequence[int]:
    return [number for number in world.revisions.tagged(REJECTED) if number > base][-REJECTED_LOOKED_AT:]


def _contents(revisions: Sequence[int] | set[int], cluster: str, world: World) -> list[str]:
    """What these revisions bring to a cluster. One that says no digest of its nodes is like no other."""
    return [_content(number, cluster, world) for number in sorted(revisions)]


def _content(number: int, cluster: str, world: World) -> str:
    if not number:
        return ""
    try:
        revision = world.revisions.get(number)
        return content_of(revision.policies, revision.about.design, cluster) if revision.about.design else ""
    except (RecordUnreadable, UnknownRevision):
        return ""
