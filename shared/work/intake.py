"""Taking a request: what is refused at the door, and the record of what is accepted (docs/documents.md, docs/messages.md, docs/http.md)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.domain.actions import MAX_PARTS, REVISION_REJECTED, ActionRequest
from shared.domain.clusters import EVERY, choose
from shared.domain.labels.releases import Mark
from shared.domain.names import DRIFT_SWEEP, SITE_ACTION_SUCCESS, SITE_TAGS, UPDATE_LABELS, UPDATE_SITE
from shared.ledger.actions import deadline
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce, Released
from shared.ledger.revisions import Revision, UnknownRevision
from shared.messages import RelabelRequest
from shared.ports import Refused
from shared.work.holds import held
from shared.work.planning import Declarations, Observed, unknown_nodes
from shared.world import World


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a request is refused: a CamelCase code and what to do."""

    reason: str
    message: str


NO_REVISION = Refusal("NoCommittedRevision", "no committed documents: `hullmark documents stage -f …`, then `documents commit`")


ROLLOUT_RUNNING = "RolloutRunning"
UNKNOWN_ROLLOUT = "UnknownRollout"


class Rejected(Exception):
    """The request is refused as a whole and nothing is recorded; every problem is in it."""

    def __init__(self, *problems: Refusal) -> None:
        self.problems = problems
        super().__init__("; ".join(problem.message for problem in problems))


def refuse_unknown(names: Sequence[str], declared: Declarations, cluster: Observed, cluster_name: str) -> None:
    """Raises Rejected, naming every node that neither the documents nor the cluster know."""
    documents = f"revision {declared.number}" if declared.number else "the documents"
    where = f"neither in {documents} nor in cluster {cluster_name}"
    if unknown := unknown_nodes(names, declared, cluster):
        raise Rejected(*(Refusal("UnknownNode", f"unknown node {name}: {where}") for name in unknown))


def refuse_rejected(revision: Revision, request: RelabelRequest, world: World) -> None:
    """Raises Rejected for a revision that somebody took back. A sweep releases nothing: it repairs to what was released already."""
    if request.name != DRIFT_SWEEP and (why := world.revisions.rejection(revision.number)):
        raise Rejected(Refusal(REVISION_REJECTED, why))


def _asked_for(request: RelabelRequest, committed: Revision, world: World) -> Revision:
    """The revision that a request is for: the one that it names (a retry, a design_ref), else the newest. Raises Rejected."""
    if request.revision is None:
        return committed
    try:
        return world.revisions.get(request.revision)
    except UnknownRevision as unknown:
        raise Rejected(Refusal("UnknownRevision", str(unknown))) from unknown


def refuse_older(request: RelabelRequest, revision: int, released: Released) -> None:
    """Raises Rejected where a request names a revision that is older than what is released to its nodes: no request takes that back."""
    marks = {name: released.mark(name) for name in request.target_nodes} if request.target_nodes else {"the cluster": Mark(released.base)}
    if newer := [f"{name} (revision {mark.revision})" for name, mark in sorted(marks.items()) if mark.revision > revision]:
        some = ", ".join(newer[:5]) + (f" and {len(newer) - 5} more" if len(newer) > 5 else "")
        way = f"`hullmark documents restore {revision}` commits revision {revision} anew, and that can be released"
        raise Rejected(Refusal("NewerReleased", f"revision {revision} is older than what is released to {some}: {way}"))


NAMED_IN_ERRORS = 10


def clusters_meant(request: RelabelRequest, revision: Revision, world: World) -> list[str]:
    """The clusters that a request is for: the one that it names, or is understood to mean, or several. Raises Rejected."""
    if request.clusters is None:
        try:
            return [request.cluster or world.default_cluster(revision)]
        except Refused as refused:
            every = "" if request.target_nodes else f'; or ask for all of them: `--all-clusters`, in requests `"clusters": "{EVERY}"`'
            raise Rejected(Refusal(refused.reason, f"{refused}{every}")) from refused
    known = world.labelled_clusters(revision)
    clusters, unknown = choose(request.clusters, known, every=revision.clusters or known)
    there = ", ".join(f"{name} ({_in_words(labels)})" for name, labels in sorted(known.items())) or "none"
    if unknown:
        from shared.domain.documents.kinds import did_you_mean

        wrong = unknown[:NAMED_IN_ERRORS]
        raise _unknown(*(f"no cluster {name[:80]!r}{did_you_mean(name, known)} (there: {', '.join(sorted(known))})" for name in wrong))
    if not clusters:
        raise _unknown(f"no cluster has {request.clusters}; there: {there}")
    if len(clusters) > MAX_PARTS:
        too_many = f"{len(clusters)} clusters are meant, and one action takes {MAX_PARTS}: choose some by their labels"
        raise Rejected(Refusal("TooManyClusters", too_many))
    return clusters


def _unknown(*messages: str) -> Rejected:
    return Rejected(*(Refusal("ClusterUnknown", message) for message in messages))


def _in_words(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "no labels"


def check_cluster(request: RelabelRequest, cluster: str, revision: Revision, committed: Revision, world: World, *, reach: bool) -> None:
    """Raises Rejected where the cluster can't be opened or a node is unknown, and Refused or Unavailable where it does not answer."""
    try:
        access = world.cluster(cluster, committed)
    except Refused as refused:
        raise Rejected(Refusal(refused.reason, str(refused))) from refused
    if reach:
        access.server_version()
    if request.plan is None:  # of a node that is gone, the plan's own judgement says more
        refuse_unknown(request.target_nodes or (), revision, access, cluster)


def refuse_during_rollout(released: Released, cluster: str, world: World) -> None:
    """Raises Rejected where a rollout is on its way in a cluster that a request means as a whole: it would be overtaken."""
    way = released.about.next
    if way is not None and world.rollouts.get(way.rollout).unfinished:
        how = (
            f"`--supersede` (`supersede` over HTTP and in messages) takes its place, `hullmark rollout abort {way.rollout}` ends it "
            f"where it is, `hullmark rollout revert {way.rollout}` takes it back"
        )
        raise Rejected(Refusal(ROLLOUT_RUNNING, f"rollout {way.rollout} is on its way in cluster {cluster}: {how}"))


def refuse_older_than_rollout(released: Released, revision: int, cluster: str) -> None:
    """Raises Rejected where a request would take the place of a rollout that brought something newer."""
    way = released.about.next
    if way is not None and way.revision > revision:
        how = f"`hullmark documents restore {revision}` commits revision {revision} anew, and that can take its place"
        newer = f"{way.revision}, which rollout {way.rollout} has brought to nodes of cluster {cluster}"
        raise Rejected(Refusal("NewerReleased", f"revision {revision} is older than {newer}: {how}"))


def refuse_held(clusters: Iterable[str], in_force: InForce, world: World, now: datetime) -> None:
    """Raises Rejected where a freeze or a pause holds changes of labels in one of the clusters."""
    if holds := held(clusters, "labels", in_force, world, now):
        raise Rejected(*(Refusal(hold.reason, f"cluster {cluster}: {hold.message}") for cluster, hold in holds.items()))


def batch_of(request: RelabelRequest, action: str, world: World, now: datetime) -> ActionRequest:
    """The action of a rollout's batch, as the rollout recorded it. Raises Rejected for one that it did not record."""
    from shared.ledger.rollouts import UnknownRollout

    try:
        rollout, batch = world.rollouts.batch(request.rollout or "", request.batch or 0)
    except UnknownRollout as unknown:
        raise Rejected(Refusal(UNKNOWN_ROLLOUT, str(unknown))) from unknown
    if batch.action != action:
        raise Rejected(
            Refusal("BatchNotRecorded", f"batch {request.batch} of rollout {rollout.id} is not action {action}: nothing is done")
        )
    return ActionRequest(
        id=action,
        name=UPDATE_LABELS,
        cluster=batch.cluster,
        revision=rollout.revision,
        requested_by=rollout.started.by,
        requested_at=now,
        deadline=deadline(now, world.settings.action_seconds),
        target_nodes=world.rollouts.members(rollout, batch),
        rollout=rollout.id,
        batch=request.batch,
        **rollout.accepted,
    )


def accept(
    request: RelabelRequest,
    action: str,
    world: World,
    now: datetime,
    *,
    parameters: Mapping[str, Any] | None = None,
    context_marker: str = "",
    reach: bool = False,
) -> ActionRequest:
    """Check and record a request under the id `action`; an id that was accepted before is returned as it was recorded.

    `parameters` and `context_marker` are kept as they are, for whoever asked to find them again. With `reach`, a cluster that does not
    answer is told before anything is recorded (somebody waits for the answer).

    Raises Rejected, and Refused or Unavailable where the cluster is asked (about names that no document knows, say) and does not answer.
    """
    known = world.actions.find(action)
    if known:
        return known
    if request.rollout:
        return world.actions.accept(batch_of(request, action, world, now))
    in_force = world.releases.look()
    committed = in_force.committed
    if committed is None:
        raise Rejected(NO_REVISION)
    revision = _asked_for(request, committed, world)
    refuse_rejected(revision, request, world)
    if not request.whole_site and not world.revisions.any_tagged(SITE_TAGS):
        how = f"run {UPDATE_SITE} (`hullmark relabel --all`), or adopt a deployed site: `hullmark documents tag N {SITE_ACTION_SUCCESS}`"
        raise Rejected(Refusal("NoSiteAction", f"no revision has taken part in a site action yet: {how}"))
    clusters = clusters_meant(request, committed, world)
    where: dict[str, Any] = {"cluster": "", "clusters": clusters}
    if len(clusters) == 1:
        where = {"cluster": clusters[0], "clusters": None}
        check_cluster(request, clusters[0], revision, committed, world, reach=reach)
    if revision.number < committed.number:
        for cluster in clusters:
            refuse_older(request, revision.number, in_force.state(cluster))
    if request.name != DRIFT_SWEEP and not request.dry_run:
        refuse_held(clusters, in_force, world, now)
        for cluster in clusters if request.target_nodes is None else ():
            with contextlib.suppress(RecordUnreadable):  # planning meets that too, and the action ends with the cause
                if request.supersede:
                    refuse_older_than_rollout(in_force.state(cluster), revision.number, cluster)
                else:
                    refuse_during_rollout(in_force.state(cluster), cluster, world)
    return world.actions.accept(
        ActionRequest(
            **request.asked() | where,
            id=action,
            revision=revision.number,
            requested_at=now,
            deadline=deadline(now, world.settings.action_seconds),
            parameters=dict(parameters or {}),
            context_marker=context_marker,
        )
    )
