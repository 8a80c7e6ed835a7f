"""What the page and the metrics show, gathered from the ledger."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from functions.api.standing import Standing, recalled
from shared.domain.actions import UNREADABLE
from shared.domain.names import WHOLE_SITE
from shared.domain.overview import NotTrue, counted, not_true
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.world import World

LISTED = 25
"""Actions to show, at least; the page shows so many."""
LOOKED_AT = 200
"""Actions to look at, at most: back to the newest one on the whole site of each cluster (a sweep comes every hour)."""


@dataclass(frozen=True)
class FleetOverview:
    """One look at everything."""

    revision: Revision | None
    """The newest one; None before the first, and where it can't be read."""
    newest: int
    trouble: str
    """Why the newest revision can't be read; empty where it can."""
    clusters: list[str]
    not_true: list[NotTrue]
    running: list[Standing]
    recent: list[Standing]
    """Newest first."""
    results: dict[tuple[str, str], int]

    @property
    def behind(self) -> bool:
        """Whether no action on the whole site has brought the newest revision to the nodes yet."""
        reached = (found.outcome for found in self.recent if speaks_of_all(found))
        return self.newest > 0 and not any(outcome and outcome.revision >= self.newest for outcome in reached)

    @property
    def unreadable(self) -> int:
        """Records in view that can't be read: the newest revision, and what actions ended with."""
        return bool(self.trouble) + sum(bool(found.outcome and found.outcome.reason == UNREADABLE) for found in self.recent)


def speaks_of_all(found: Standing) -> bool:
    """Whether it looked at every node of its cluster: then no older action matters."""
    return found.request.name in WHOLE_SITE and not found.request.dry_run and bool(found.outcome and found.outcome.counts)


def newest_revision(world: World) -> tuple[int, Revision | None, list[str], str]:
    """Its number (0 before the first), the revision and its clusters; where it can't be read, why."""
    try:
        revision = world.releases.look().committed
        return revision.number if revision else 0, revision, [*(revision.clusters if revision else ())], ""
    except RecordUnreadable as torn:
        return world.revisions.newest(), None, [], str(torn)


def look(world: World) -> FleetOverview:
    """Gather it: a listing, and two reads for every action not seen before."""
    number, revision, clusters, trouble = newest_revision(world)
    recent: list[Standing] = []
    known, told = {*clusters}, set[str]()
    newest_first = itertools.islice(world.actions.newest_first(), LOOKED_AT)
    while not (told and known <= told) and (some := list(itertools.islice(newest_first, LISTED))):
        found = recalled(some, world)
        recent += found
        known |= {each.request.cluster for each in found}
        told |= {each.request.cluster for each in found if speaks_of_all(each)}
    ended = [(found.request, found.outcome) for found in recent if found.outcome]
    return FleetOverview(
        revision=revision,
        newest=number,
        trouble=trouble,
        clusters=sorted(known),
        not_true=not_true(ended),
        running=[found for found in recent if not found.outcome],
        recent=recent,
        results=counted(ended),
    )
