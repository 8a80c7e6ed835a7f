"""Whether the nodes of the stage that is on its way are Ready, from what listings of their clusters say. Pure.

A node that was not Ready before its batch was sent says nothing about the change, and neither does one that is gone. One that was Ready
and is not Ready in two looks at least AGAIN apart has turned. What is not known is neither healthy nor a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.domain.rollouts.progress import Baseline, Health, Progress

Listing = Mapping[str, bool | None]
"""A cluster's nodes by name: Ready or not; None where a node reports no such condition."""
AGAIN = timedelta(seconds=30)
"""Between two looks: deliveries of the same moment are one."""
NAMED = 10
"""Nodes that a message names."""


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


def baseline(names: Sequence[str], listing: Listing | None) -> Baseline:
    """What is known of nodes before they get the change; `listing` is None where the cluster did not answer."""
    if listing is None:
        return Baseline(unanswered=True)
    others = [name for name in names if listing.get(name, False) is False]
    return Baseline(others, [name for name in names if name in listing and listing[name] is None])


def newest_stage(rollout: Progress) -> int:
    """The newest stage that has opened; -1 where none has."""
    return max((batch.stage for batch in rollout.batches if not batch.back), default=-1)


def watched(rollout: Progress) -> int:
    """The stage whose nodes are looked at; -1 where none are."""
    return newest_stage(rollout) if rollout.nodes_ready else -1


def looked(rollout: Progress, members: Mapping[str, Sequence[str]], listings: Mapping[str, Listing | None], now: datetime) -> Health:
    """The health of the watched stage after a look. `members`: the nodes of its batches, by action; `listings`: by cluster."""
    found = list(_members(rollout, members, listings))
    was = rollout.health
    silent = sorted(cluster for cluster, listing in listings.items() if listing is None)
    unsure = [member for member in found if member.unknown and listings[_cluster(member)] is not None]
    suspects = {member.where: min(now, was.suspects.get(member.where, now)) for member in found if member.down}
    suspects |= {where: since for where, since in was.suspects.items() if where.partition("/")[0] in silent}
    why = _unknown(silent, unsure, found)
    return Health(
        suspects=suspects,
        turned=sorted(member.where for member in found if member.down and now >= suspects[member.where] + AGAIN),
        unknown=why,
        since=(was.since or now) if why else None,
    )


def _unknown(silent: Sequence[str], unsure: Sequence[Member], found: Sequence[Member]) -> str:
    """Why nothing can be said about the stage; empty where something can. A cluster that does not answer holds the others up only where
    none of them has a Ready node to show.
    """
    if silent and not any(member.ready for member in found):
        return f"{', '.join(silent[:NAMED])} did not say which nodes are Ready"
    if unsure:
        return f"it is not known whether {named([member.where for member in unsure])} may be called Ready"
    if found and not any(member.ready or member.down for member in found):
        return "none of its nodes is Ready, so they show nothing"
    return ""


def named(nodes: Sequence[str]) -> str:
    """The first nodes by name, and how many more there are."""
    more = len(nodes) - NAMED
    return ", ".join(sorted(nodes)[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _cluster(member: Member) -> str:
    return member.where.partition("/")[0]


def _members(rollout: Progress, members: Mapping[str, Sequence[str]], listings: Mapping[str, Listing | None]) -> Iterator[Member]:
    for batch in rollout.newest_batches(watched(rollout)):
        if batch.cluster in listings:
            yield from _of(batch.cluster, batch.before or Baseline(unanswered=True), members[batch.action], listings[batch.cluster])


def _of(cluster: str, before: Baseline, names: Iterable[str], listing: Listing | None) -> Iterator[Member]:
    others, unknown = frozenset(before.others), frozenset(before.unknown)
    known = Baseline(others, unknown, before.unanswered)
    for name in names:
        ready = listing.get(name) if listing is not None else None
        yield Member(f"{cluster}/{name}", known, name, ready, listing is None or name in listing)
