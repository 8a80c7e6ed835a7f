"""What the page and the metrics show, read from the store."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from functions.api.standing import Standing, recalled
from shared.domain.actions import UNREADABLE
from shared.domain.labels.reach import ClusterReach
from shared.domain.names import WHOLE_SITE
from shared.domain.overview import FleetSync, counted, sync_of
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.work.reach import reaches
from shared.world import World

LISTED = 25
"""Actions that the page lists."""
LOOKED_AT = 200
"""Most actions to read: back to the newest one on the whole site of every cluster (a sweep runs every hour)."""


@dataclass(frozen=True)
class FleetOverview:
    """The state of the whole fleet."""

    revision: Revision | None
    """The newest revision; None before the first, or if it can't be read."""
    newest: int
    trouble: str
    """Why the newest revision can't be read; else empty."""
    rejected: str
    """Who took the newest revision back, so that nothing releases it; else empty."""
    clusters: list[str]
    sync: FleetSync
    running: list[Standing]
    recent: list[Standing]
    """Newest first."""
    results: dict[tuple[str, str], int]
    reaches: list[ClusterReach]
    """What is released in each cluster."""

    @property
    def waiting(self) -> list[ClusterReach]:
        """The clusters in which the newest revision waits to be released."""
        return [reach for reach in self.reaches if reach.waits]

    @property
    def unreadable(self) -> int:
        """How many records can't be read: the newest revision, releases, and outcomes of recent actions."""
        outcomes = sum(bool(standing.outcome and standing.outcome.reason == UNREADABLE) for standing in self.recent)
        return bool(self.trouble) + sum(bool(reach.trouble) for reach in self.reaches) + outcomes


def covers_whole_site(standing: Standing) -> bool:
    """Whether it looked at every node of its cluster, so that no older action matters."""
    return standing.request.name in WHOLE_SITE and not standing.request.dry_run and bool(standing.outcome and standing.outcome.counts)


def newest_revision(world: World) -> tuple[int, Revision | None, list[str], str]:
    """Return its number (0 before the first), the revision, its clusters, and why it can't be read."""
    try:
        revision = world.releases.look().committed
        return revision.number if revision else 0, revision, [*(revision.clusters if revision else ())], ""
    except RecordUnreadable as torn:
        return world.revisions.newest(), None, [], str(torn)


def _by_cluster(actions: list[Standing], world: World) -> list[Standing]:
    """The actions, with those of their clusters in place of those over several: these say what became of the nodes."""
    ids = [child for standing in actions for child in standing.request.children.values()]
    children = {standing.request.id: standing for standing in recalled(ids, world)} if ids else {}
    found = [[children.get(child) for child in each.request.children.values()] if each.request.clusters else [each] for each in actions]
    return [standing for standings in found for standing in standings if standing]


def look(world: World) -> FleetOverview:
    """Read the state of the fleet: a listing, and two reads for every action not seen before."""
    number, revision, clusters, trouble = newest_revision(world)
    recent, looked_at = list[Standing](), list[Standing]()
    known, told = {*clusters}, set[str]()
    newest_first = itertools.islice(world.actions.newest_first(), LOOKED_AT)
    while not (told and known <= told) and (some := list(itertools.islice(newest_first, LISTED))):
        batch = recalled(some, world)
        recent += batch
        batch = _by_cluster(batch, world)
        looked_at += batch
        known |= {standing.request.cluster for standing in batch}
        told |= {standing.request.cluster for standing in batch if covers_whole_site(standing)}
    ended = [(standing.request, standing.outcome) for standing in recent if standing.outcome]
    of_nodes = [(standing.request, standing.outcome) for standing in looked_at if standing.outcome]
    return FleetOverview(
        revision=revision,
        newest=number,
        trouble=trouble,
        rejected=world.revisions.rejection(number) if revision else "",
        clusters=sorted(known),
        sync=sync_of(of_nodes),
        running=[standing for standing in recent if not standing.outcome],
        recent=recent,
        results=counted(ended),
        reaches=reaches(world),
    )
