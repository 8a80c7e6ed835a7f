"""Whether what a rollout's open stage has reached is as well as it was: its nodes, the pods of DaemonSets on them, how pods are scheduled.

Something that was not in order before its batch was sent says nothing about the change, and neither does a node or a DaemonSet that is
gone. What was in order and is not in two looks at least AGAIN apart has turned. What is not known is neither healthy nor a failure.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.domain.rollouts.progress import Baseline, Batch, Doubts, Health, Progress

Listing = Mapping[str, bool | None]
"""A cluster's nodes by name: Ready or not; None where a node reports no such condition."""
DaemonSets = Mapping[str, Collection[str]]
"""By DaemonSet, `NAMESPACE/NAME`, the nodes on which a pod of it is available."""
AGAIN = timedelta(seconds=30)
"""Between two looks: deliveries of the same moment are one."""
NAMED = 10
"""What a message names of many."""
KEPT = 1000
"""What is kept of much that is in doubt. A single one holds and stops as much as all of them."""
ALL = "*"
"""What stands for the bits of every node of a batch."""


class Seen(NamedTuple):
    """What one look at a cluster found; None is what it did not say. What nobody asked for is empty."""

    nodes: Listing | None = None
    daemon_sets: DaemonSets | None = None
    """Every DaemonSet, with those of the stage's nodes that were asked for."""
    unschedulable: Mapping[str, int] | None = None
    """By namespace, how many pods the scheduler has no node for."""
    error: str = ""
    """The code of why it did not say."""
    refused: bool = False
    """Whether it will not say later either, unless somebody does something."""

    @property
    def whole(self) -> bool:
        """Whether the cluster said all that it was asked."""
        return self.nodes is not None and self.daemon_sets is not None and self.unschedulable is not None

    @property
    def unsaid(self) -> str:
        """What it did not say, and why."""
        what = "whether the pods of its DaemonSets are available"
        if self.nodes is None:
            what = "which nodes are Ready"
        elif self.unschedulable is None:
            what = "how many pods can't be scheduled"
        return f"did not say {what}" + (f" ({self.error})" if self.error else "")


class Inherited(NamedTuple):
    """How nodes of a cluster were before rollouts reached them whose place this one takes: harm that those did is no baseline."""

    ready: Mapping[str, bool | None] = {}
    daemon_sets: Mapping[str, frozenset[str]] = {}
    """By node, the DaemonSets that had an available pod there."""
    unschedulable: Mapping[str, int] | None = None


NOTHING_INHERITED = Inherited()


class Member(NamedTuple):
    """A node of the stage, what was known of it before it got the change, and whether it is Ready now."""

    where: str
    """Cluster and name."""
    before: Baseline
    name: str
    ready: bool | None
    there: bool

    @property
    def counts(self) -> bool:
        """Whether it was Ready, or may have been."""
        return self.there and self.name not in self.before.others

    @property
    def down(self) -> bool:
        """Whether it was Ready, and is not."""
        return self.counts and self.ready is False and not (self.before.unanswered or self.name in self.before.unknown)

    @property
    def unknown(self) -> bool:
        """Whether nobody can say that it is as Ready as it was."""
        return self.counts and not self.ready and not self.down


# --- before a batch is sent


def baseline(names: Sequence[str], seen: Seen, inherited: Inherited = NOTHING_INHERITED) -> Baseline:
    """What is known of a cluster and of a batch's nodes before they get the change."""
    if seen.nodes is None:
        return Baseline(unanswered=True)
    listing = {name: seen.nodes.get(name, False) for name in names} | {
        name: inherited.ready[name] for name in names if name in inherited.ready
    }
    return Baseline(
        others=[name for name in names if listing[name] is False],
        unknown=[name for name in names if listing[name] is None],
        daemon_sets=_daemon_sets(names, seen.daemon_sets or {}, inherited.daemon_sets),
        unschedulable=dict(seen.unschedulable or {} if inherited.unschedulable is None else inherited.unschedulable),
    )


def _daemon_sets(names: Sequence[str], seen: DaemonSets, inherited: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """By DaemonSet, on which of the nodes a pod of it is available, or was when they were reached first; those with none are left out."""
    had = {name: inherited[name] for name in names if name in inherited}
    known = seen.keys() | frozenset[str]().union(*had.values())
    found = {each: _bits([each in had[name] if name in had else name in seen.get(each, ()) for name in names]) for each in known}
    return {each: bits for each, bits in sorted(found.items()) if bits}


def _bits(flags: Sequence[bool]) -> str:
    """The flags as a hexadecimal number whose lowest bit is the first; ALL for all of them, nothing for none."""
    if not any(flags):
        return ""
    return ALL if all(flags) else f"{int(''.join('1' if flag else '0' for flag in reversed(flags)), 2):x}"


def _chosen(bits: str, names: Sequence[str]) -> Iterator[str]:
    """The names whose bits are set."""
    if bits == ALL:
        return iter(names)
    number = int(bits, 16)
    return (name for place, name in enumerate(names) if number >> place & 1)


def inherited(cluster: str, before: Iterable[Progress], members: Mapping[str, Sequence[str]]) -> Inherited:
    """How a cluster and its nodes were before the rollouts whose place another one takes, the newest of them first. `members`: the nodes
    of their batches, by action.
    """
    ready: dict[str, bool | None] = {}
    daemon_sets: dict[str, frozenset[str]] = {}
    unschedulable: Mapping[str, int] | None = None
    for rollout in before:  # what the newest has recorded goes back to the first that reached the node
        batches = [batch for batch in rollout.batches if batch.cluster == cluster and not batch.back and not batch.unsent]
        for batch in batches:
            if rollout.nodes_ready:
                ready = _were_ready(batch, members[batch.action]) | ready
            if rollout.daemon_sets:
                daemon_sets = _had_available(batch, members[batch.action]) | daemon_sets
        if rollout.unschedulable_pods and unschedulable is None:
            newest = max((batch.stage for batch in batches), default=-1)
            unschedulable = _unschedulable([batch for batch in batches if batch.stage == newest])
    return Inherited(ready, daemon_sets, unschedulable)


def _were_ready(batch: Batch, names: Sequence[str]) -> dict[str, bool | None]:
    before = batch.before or Baseline(unanswered=True)
    if before.unanswered:
        return dict.fromkeys(names)
    return dict.fromkeys(names, True) | dict.fromkeys(before.others, False) | dict.fromkeys(before.unknown)


def _had_available(batch: Batch, names: Sequence[str]) -> dict[str, frozenset[str]]:
    had: dict[str, set[str]] = {name: set() for name in names}
    for each, bits in (batch.before or Baseline()).daemon_sets.items():
        for name in _chosen(bits, names):
            had[name].add(each)
    return {name: frozenset(found) for name, found in had.items()}


def _unschedulable(batches: Iterable[Batch]) -> Mapping[str, int] | None:
    """How many pods could not be scheduled when the first of a cluster's batches of a stage was sent."""
    known = (batch.before.unschedulable for batch in batches if batch.before)
    return next((counts for counts in known if counts is not None), None)


# --- a look


def newest_stage(rollout: Progress) -> int:
    """The newest stage that has opened; -1 where none has."""
    return max((batch.stage for batch in rollout.batches if not batch.back), default=-1)


def watched(rollout: Progress) -> int:
    """The stage that is looked at; -1 where none is."""
    return newest_stage(rollout) if rollout.looks else -1


def looked(rollout: Progress, members: Mapping[str, Sequence[str]], seen: Mapping[str, Seen], now: datetime) -> Health:
    """The health of the watched stage after a look. `members`: the nodes of its batches, by action; `seen`: by cluster."""
    was = rollout.health
    batches = [batch for batch in rollout.newest_batches(watched(rollout)) if batch.cluster in seen and not batch.unsent]
    found = [member for batch in batches for member in _members(batch, members[batch.action], seen[batch.cluster].nodes)]
    without = (where for batch in batches for where in _without_pods(batch, members[batch.action], seen[batch.cluster]))
    why = _unknown(seen, found, whole=_opened(rollout, seen.keys()))
    return Health(
        nodes=_doubts(was.nodes, (member.where for member in found if member.down), _silent(seen, "nodes"), now),
        daemon_sets=_doubts(was.daemon_sets, without, _silent(seen, "nodes", "daemon_sets"), now),
        pods=_doubts(was.pods, _more_pods(batches, seen), _silent(seen, "unschedulable"), now),
        unknown=why,
        since=(was.since or now) if why else None,
    )


def _silent(seen: Mapping[str, Seen], *asked: str) -> list[str]:
    """The clusters that did not say one of these."""
    return sorted(cluster for cluster, found in seen.items() if any(getattr(found, each) is None for each in asked))


def _doubts(was: Doubts, down: Iterable[str], silent: Collection[str], now: datetime) -> Doubts:
    """What is not as it was, since when, and what a second look has shown. A cluster that says nothing takes no doubt away."""
    current = sorted(down, key=lambda where: (where not in was.suspects, where))[:KEPT]
    suspects = {where: min(now, was.suspects.get(where, now)) for where in current}
    turned = sorted(where for where, since in suspects.items() if now >= since + AGAIN)
    return Doubts(suspects | {where: since for where, since in was.suspects.items() if _cluster(where) in silent}, turned)


def _without_pods(batch: Batch, names: Sequence[str], seen: Seen) -> Iterator[str]:
    """Nodes of a batch, and the DaemonSets that had an available pod there and have none."""
    if batch.before is None or seen.nodes is None or seen.daemon_sets is None:
        return
    for each, bits in batch.before.daemon_sets.items():
        if (there := seen.daemon_sets.get(each)) is not None:
            yield from (f"{batch.cluster}/{name} {each}" for name in _chosen(bits, names) if name in seen.nodes and name not in there)


def _more_pods(batches: Sequence[Batch], seen: Mapping[str, Seen]) -> Iterator[str]:
    """Namespaces with more unschedulable pods than when the stage began in the cluster."""
    for cluster, found in seen.items():
        before = _unschedulable(batch for batch in batches if batch.cluster == cluster)
        if before is not None and found.unschedulable is not None:
            yield from (f"{cluster}/{namespace}" for namespace, count in found.unschedulable.items() if count > before.get(namespace, 0))


def _opened(rollout: Progress, answering: Collection[str]) -> bool:
    """Whether the watched stage has opened as far as it can without clusters that are behind: nodes that come next may still show it."""
    stage, counts = watched(rollout), Counter[str]()
    for batch in rollout.newest_batches(stage):
        counts[batch.cluster] += batch.count
    return all(counts[name] == sizes[stage] for name, sizes in rollout.placed.items() if name in answering or name not in counts)


def _unknown(seen: Mapping[str, Seen], found: Sequence[Member], *, whole: bool) -> str:
    """Why nothing can be said about the stage; empty where something can. A cluster that does not answer holds the others up only where
    none of them has a Ready node to show. That no node shows anything counts once the stage is open as a whole.
    """
    silent = {cluster for cluster, each in seen.items() if not each.whole}
    shows = any(member.ready for member in found if _cluster(member.where) not in silent)
    unsure = [member.where for member in found if member.unknown and seen[_cluster(member.where)].nodes is not None]
    if silent and not shows:
        return "; ".join(f"{cluster} {seen[cluster].unsaid}" for cluster in sorted(silent)[:NAMED])
    if unsure:
        return f"it is not known whether {named(unsure)} may be called Ready"
    if whole and found and not any(member.ready or member.down for member in found):
        return "none of its nodes is Ready, so they show nothing"
    return ""


def named(nodes: Sequence[str]) -> str:
    """The first nodes by name, and how many more there are."""
    more = len(nodes) - NAMED
    return ", ".join(sorted(nodes)[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _cluster(where: str) -> str:
    return where.partition("/")[0]


def _members(batch: Batch, names: Iterable[str], listing: Listing | None) -> Iterator[Member]:
    before = batch.before or Baseline(unanswered=True)
    known = Baseline(frozenset(before.others), frozenset(before.unknown), before.unanswered)
    for name in names:
        ready = listing.get(name) if listing is not None else None
        yield Member(f"{batch.cluster}/{name}", known, name, ready, listing is None or name in listing)
