"""How far revisions have come: what is released in each cluster, and where the newest one waits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from shared.domain.labels.releases import Mark


class ClusterReach(BaseModel):
    """What is released in one cluster."""

    model_config = ConfigDict(frozen=True)
    cluster: str
    base: int | None = None
    """The revision of every node that has nothing of its own; None where there is none."""
    elsewhere: dict[int, int] = {}
    """Revision → how many nodes have it in place of the base."""
    overrides: int = 0
    """Nodes on which a person's labels stand in for a revision's."""
    waits: int | None = None
    """The newest revision, where the base is older; None where nothing waits."""
    since: datetime | None = None
    """When that was committed."""
    trouble: str = ""
    """Why the releases can't be read, where that is so; nothing else is known then."""

    @property
    def newest(self) -> int:
        """The newest revision that is released to any node; 0 where none is."""
        return max((self.base or 0, *self.elsewhere))


class ReleasedIn(BaseModel):
    """Where one revision is in one cluster: with every node that has nothing of its own, and with so many others."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    base: bool
    nodes: int

    def __str__(self) -> str:
        counted = f"{self.nodes} node{'' if self.nodes == 1 else 's'}"
        return "" if self.base and not self.nodes else counted


class Whereabouts(BaseModel):
    """Where one revision is released, by cluster, and in which clusters it waits."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    released: dict[str, ReleasedIn] = {}
    waits: list[str] = []


def cluster_reach(cluster: str, base: int, own: Iterable[Mark], newest: int, since: datetime | None) -> ClusterReach:
    """What one cluster's state comes to. `own`: the releases of the nodes that have something of their own. `newest`: the newest revision
    that may be released; 0 where there is none.
    """
    marks = [mark for mark in own if mark.override or mark.revision != base]
    counts = Counter(mark.revision for mark in marks if not mark.override)
    waits = newest if newest > base else None
    return ClusterReach(
        cluster=cluster,
        base=base or None,
        elsewhere=dict(sorted(counts.items())),
        overrides=sum(bool(mark.override) for mark in marks),
        waits=waits,
        since=since if waits else None,
    )


def whereabouts(number: int, reaches: Iterable[ClusterReach]) -> Whereabouts:
    """Where one revision is."""
    known = [reach for reach in reaches if not reach.trouble]
    there = {reach.cluster: ReleasedIn(base=reach.base == number, nodes=reach.elsewhere.get(number, 0)) for reach in known}
    return Whereabouts(
        released={cluster: where for cluster, where in there.items() if where.base or where.nodes},
        waits=[reach.cluster for reach in known if reach.waits == number],
    )
