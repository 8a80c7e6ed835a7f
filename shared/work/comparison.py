"""Compare two revisions: what they declare for the nodes of the design and of the clusters, and their text. Writes nothing."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping
from operator import itemgetter

from shared.domain.labels.comparison import Compared, Differences, RevisionDiff, text_difference
from shared.domain.labels.policies import DeclaredLabels, declare
from shared.domain.nodes import Node, Owner
from shared.ledger.revisions import Revision
from shared.ports import ClusterError
from shared.work.intake import Refusal, Rejected
from shared.work.planning import everything
from shared.world import World

Labels = Mapping[str, str]


def compare(older: int, newer: int, world: World, *, cluster: str = "", collection: str = "") -> RevisionDiff:
    """What the newer revision declares that the older did not, for each node of the design and of the clusters as they are now.

    `cluster`: of that one only. `collection`: the text of that one only. A cluster that does not answer is compared by the documents
    alone. Raises UnknownRevision, UnknownCollection, and Rejected for an unknown cluster.
    """
    revisions = (world.revisions.get(older), world.revisions.get(newer))
    texts = [world.revisions.files(number) for number in (older, newer)]
    if collection and not any(collection in files for files in texts):
        world.revisions.files(newer, collection)
    chosen = [{name: files for name, files in text.items() if collection in ("", name)} for text in texts]
    names = _clusters(revisions, cluster, world)
    live, unseen = _seen(names, world)
    counted, nowhere = Differences(), set[str]()
    for name in names:
        for node in _compared(name, revisions, live, world.settings.field_managers):
            if node.name not in live.get(name, {}):  # of the design, and in no cluster that answers: counts once
                if node.before == node.after or node.name in nowhere:
                    continue
                nowhere.add(node.name)
            counted.add(node._replace(name=f"{name}/{node.name}") if len(names) > 1 else node)
    return RevisionDiff(
        labels=dict(sorted(counted.labels.items())),
        nodes=counted.nodes,
        more_nodes=counted.more_nodes,
        unseen=unseen,
        diff=list(text_difference(chosen[0], chosen[1], (older, newer))),
    )


def _clusters(revisions: tuple[Revision, Revision], cluster: str, world: World) -> list[str]:
    """The clusters that either revision declares, and the one of the settings."""
    declared = sorted({name for revision in revisions for name in revision.clusters})
    every = [*declared, *(["default"] if world.settings.cluster or not declared else [])]
    if cluster and cluster not in every:
        raise Rejected(Refusal("ClusterUnknown", f"neither revision declares a cluster {cluster[:80]!r} (there: {', '.join(every)})"))
    return [cluster] if cluster else every


def _seen(names: list[str], world: World) -> tuple[dict[str, dict[str, Node]], dict[str, str]]:
    """The nodes of each cluster that answers, and why the others don't. Clusters are reached as the newest revision says."""
    live: dict[str, dict[str, Node]] = {}
    unseen: dict[str, str] = {}
    committed = world.releases.look().committed
    world = world.within(world.time_left())
    for name in names:
        try:
            live[name] = {node.name: node for node in world.cluster(name, committed).nodes()}
        except ClusterError as error:
            unseen[name] = str(error)
    return live, unseen


def _compared(
    cluster: str, revisions: tuple[Revision, Revision], live: Mapping[str, Mapping[str, Node]], owner: Owner
) -> Iterator[Compared]:
    """Every node that concerns this cluster, in order of names. One that another cluster has is that cluster's."""
    own = live.get(cluster, {})
    elsewhere = {name for other, nodes in live.items() if other != cluster for name in nodes}
    sides = [_declared(cluster, revision, own, owner) for revision in revisions]
    for name, found in itertools.groupby(heapq.merge(*sides, key=itemgetter(0)), key=itemgetter(0)):
        labels = {revision: said for _, revision, said in found}
        if name in own or name not in elsewhere:
            yield Compared(name, *(labels.get(revision) for revision in revisions))


def _declared(cluster: str, revision: Revision, live: Mapping[str, Node], owner: Owner) -> Iterator[tuple[str, Revision, Labels]]:
    """What a revision declares for each node; the design's labels alone where its policies contradict each other."""
    policies = revision.policies
    for name, design, node in everything(revision.nodes(), live, policies, cluster):
        declared = declare(name, design, node, policies, cluster, owner)
        if isinstance(declared, DeclaredLabels):
            yield name, revision, declared.labels
        else:
            yield name, revision, design.labels if design else {}
