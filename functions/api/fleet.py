"""What the page and the metrics show, gathered from the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from functions.api.actions import Standing, remembered
from shared.domain.overview import WHOLE_SITE, NotTrue, counted, not_true
from shared.revisions import Revision
from shared.wiring import Ports

LISTED = 25
"""Actions to show, at least; the page shows so many."""
LOOKED_AT = 200
"""Actions to look at, at most: back to the newest one on the whole site of each cluster (a sweep comes every hour)."""


@dataclass(frozen=True)
class Fleet:
    """One look at everything."""

    revision: Revision | None
    clusters: list[str]
    not_true: list[NotTrue]
    running: list[Standing]
    recent: list[Standing]
    """Newest first."""
    results: dict[tuple[str, str], int]

    @property
    def behind(self) -> bool:
        """Whether no action on the whole site has brought the newest revision to the nodes yet."""
        if self.revision is None:
            return False
        reached = (found.outcome for found in self.recent if found.request.name in WHOLE_SITE and not found.request.dry_run)
        return not any(outcome and outcome.counts and outcome.revision >= self.revision.number for outcome in reached)


def look(ports: Ports) -> Fleet:
    """Gather it: a listing, and two reads for every action not seen before."""
    number = ports.revisions.newest()
    revision = ports.revisions.get(number) if number else None
    recent: list[Standing] = []
    known, told = {*(revision.clusters if revision else {})}, set[str]()
    for action in reversed(ports.actions.ids(limit=LOOKED_AT)):
        if len(recent) >= LISTED and told and known <= told:
            break
        found = remembered(action, ports)
        if found:
            recent.append(found)
            known.add(found.request.cluster)
            if found.request.name in WHOLE_SITE and found.outcome and found.outcome.counts and not found.request.dry_run:
                told.add(found.request.cluster)
    ended = [(found.request, found.outcome) for found in recent if found.outcome]
    return Fleet(
        revision=revision,
        clusters=sorted(known),
        not_true=not_true(ended),
        running=[found for found in recent if not found.outcome],
        recent=recent,
        results=counted(ended),
    )
