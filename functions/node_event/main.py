"""Turn a cluster event into a NodeApply where the node is out of sync. It never writes a node: node_apply does.

in   node-events    Knative ApiServerSource CloudEvents, GKE audit LogEntries, NodeChanged
out  node-applies   NodeApply, one node
     notices        conflict detected, where writers fight or policies contradict each other; loss held, where many nodes lose labels
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

import functions_framework
from cloudevents.http import CloudEvent

from shared import telemetry, wiring
from shared.domain.documents.access import Access
from shared.domain.labels.events import Ignored, NodeChange, UnreadableEvent, read_event
from shared.domain.labels.planning import Settled, Write, plan_node
from shared.domain.labels.policies import UNKNOWN_MANAGER
from shared.domain.labels.releases import Mark
from shared.domain.nodes import Node
from shared.domain.notices import CONFLICT_DETECTED
from shared.domain.outcomes import STARTUP_TAINT
from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import InForce
from shared.ledger.repairs import Repairs
from shared.ledger.revisions import Revision
from shared.messages import Delivery, NodeApply, Notice
from shared.ports import Refused
from shared.work.planning import ByRelease
from shared.world import World

TRUSTED_SECONDS = 1.0
"""How long what is released in a cluster is taken as it was read: node_apply looks again before it writes."""


@functions_framework.cloud_event
def node_event(event: CloudEvent) -> None:
    """Entry point: decode, hand over. An event that does not concern us, or can't be read, is logged and ends here,
    and so is one that comes while what is released can't be read: events are hints, and the sweep repairs what they miss.
    """
    delivery = Delivery.from_event(event)
    with telemetry.handling("node_event", delivery) as line:
        try:
            change = read_event(delivery.data, delivery.attributes)
        except UnreadableEvent as unreadable:
            line.warn()
            line.outcome("unreadable", text=str(unreadable))
            return
        if isinstance(change, NodeChange):
            line.subject = change.name
            world = wiring.world()
            try:
                done = handle(change, world, world.clock())
            except RecordUnreadable as torn:
                line.warn()
                line.outcome("no revision to go by", reason=str(torn))
                return
        else:
            done = change
        if isinstance(done, Ignored):
            line.outcome(telemetry.IGNORED, done.code, text=done.reason)
        elif isinstance(done, Waiting):
            line.outcome("waiting", done.code)
        else:
            line.outcome(done)


class Waiting(NamedTuple):
    """The node stays as it is: documents want something else of it that nobody has released to it, it would lose labels beyond the
    limits, or it holds a startup taint that its release does not name.
    """

    code: Literal["NotReleased", "NewerRevisionWaits", "LossLimit", "StartupTaint"]


def handle(change: NodeChange, world: World, now: datetime) -> str | Ignored | Waiting:
    """Compare the node with what is declared for it, and ask for a write where they differ; a word for the log."""
    if change.kind == "deleted":
        return "deleted"
    in_force = world.releases.look(TRUSTED_SECONDS)
    name = cluster_of(change, world, in_force.committed)
    if isinstance(name, Ignored):
        return name
    basis = ByRelease(name, world, in_force)
    node = change.node()
    if node is None or (basis.startup_taints and node.taints is None and (node.may_have_taints or change.kind == "added")):
        node = basis.cluster.node(change.name)  # an admission webhook's taints are in nobody's managedFields
    if node is None:
        return "gone"
    ground = basis.ground(node.name)
    match plan_node(ground.subject(node.name, node), ground.rules):
        case Settled(outcome=outcome):
            if outcome.outcome == "failed":
                tell(world, f"{name}/{node.name}/{ground.rules.revision}", name, node, outcome.message, now)
            if outcome.reason == STARTUP_TAINT:
                return Waiting("StartupTaint")
            newest = in_force.committed.number if in_force.committed else 0
            return waiting(basis.mark(node.name), newest) if outcome.outcome == "unchanged" else outcome.outcome
        case Write() as write:
            if write.changes.remove and not may_lose_it(name, node.name, in_force, world, now):
                return Waiting("LossLimit")
            return repair(write, node, name, basis.released.k, change, world, now)


def waiting(mark: Mark, newest: int) -> str | Waiting:
    """Of a node that is in sync: whether the newest revision waits to be released to it."""
    if mark.released or not newest:
        return Waiting("NewerRevisionWaits") if mark.revision < newest else "unchanged"
    return Waiting("NotReleased")


def may_lose_it(cluster: str, node: str, in_force: InForce, world: World, now: datetime) -> bool:
    """Whether the node may lose labels now: its release takes them, or few nodes of the cluster lose any. Only these events ask more."""
    from shared.work.losses import Cluster, may_lose, unforeseen

    released = in_force.state(cluster)
    among = Cluster(cluster, released.about.bounds.nodes, in_force)
    return not unforeseen([node], released, world) or may_lose([node], among, world, now, single=True)


def cluster_of(change: NodeChange, world: World, revision: Revision | None) -> str | Ignored:
    """The name of the cluster that the event is from. An event from one that nobody declared is no error: logs and watches tell of more."""
    if change.gke is not None:
        declared = revision.clusters if revision else {}
        wanted = change.gke.model_dump()
        gke = {name: access.gke.model_dump() for name, access in declared.items() if isinstance(access, Access) and access.gke}
        same = [name for name, known in sorted(gke.items()) if wanted.items() <= known.items()]
        if same:
            return same[0]
        return Ignored("ClusterUnknown", f"no Cluster document has access.gke {wanted}")
    try:
        name = change.cluster or world.default_cluster(revision)
    except Refused as several:
        return Ignored("ClusterUnknown", f"the event does not say which cluster it is from: {several}")
    if world.knows(name, revision):
        return name
    return Ignored("ClusterUnknown", f"no Cluster document is named {name!r}, and it is not the default cluster")


def repair(write: Write, node: Node, cluster: str, release: int, change: NodeChange, world: World, now: datetime) -> str:
    """Publish the write, unless others keep undoing ours: then the node waits, and one notice names who else writes."""
    if write.contested or change.kind == "changed":
        repairs = Repairs(world.store, cluster, node.name, write)
        if not repairs.may(f"{node.uid}/{node.resource_version or change.resource_version}", now):
            from shared.domain.pools import from_pool  # fights are rare

            changed = (*write.changes.set, *write.changes.remove, *write.changes.untaint)
            others = write.contested or dict.fromkeys(changed, change.manager or UNKNOWN_MANAGER)
            who = ", ".join(f"{key} ({manager})" for key, manager in sorted(others.items()))
            text = f"{node.name}: hullmark and others write the same labels in turn: {who}. {repairs.rule} One of the two must yield."
            text = " ".join(filter(None, (text, from_pool(write.contested, node.labels))))
            tell(world, f"{cluster}/{node.name}/{repairs.window(now)}", cluster, node, text, now)
            return "fought over"
    task = NodeApply(cluster=cluster, revision=write.task.revision or 0, release=release, nodes=[write.task])
    world.bus.publish(NodeApply.TOPIC, [task.outgoing()])
    return "repair"


def tell(world: World, identity: str, cluster: str, node: Node, text: str, now: datetime) -> None:
    """Publish `conflict.detected`, once for one identity."""
    if world.store.get(f"told/{identity}.json") is not None:
        return
    notice = Notice(
        id=CONFLICT_DETECTED.id(identity),
        type=CONFLICT_DETECTED.type,
        subject=f"{cluster}/{node.name}",
        time=now,
        data={"cluster": cluster, "node": node.name, "message": text},
    )
    world.bus.publish(Notice.TOPIC, [notice.outgoing()])
    world.store.create(f"told/{identity}.json", b"{}")
