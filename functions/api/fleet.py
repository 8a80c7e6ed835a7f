"""What the page and the metrics show: gathered from the ledger, with ended actions remembered, because they never change."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from functions.api.actions import Standing, gather
from shared.domain.overview import NotTrue, counted, not_true
from shared.ports import ObjectStore
from shared.revisions import Revision
from shared.wiring import Ports

LOOKED_AT = 200
"""The newest so many actions are looked at. The newest action on the whole site (hourly) is among them, or nodes are few."""
_KEPT: OrderedDict[tuple[ObjectStore, str], Standing] = OrderedDict()
_lock = Lock()


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
        reached = (
            found.outcome for found in self.recent if found.request.name in ("update_site", "drift_sweep") and not found.request.dry_run
        )
        return not any(outcome and outcome.counts and outcome.revision >= self.revision.number for outcome in reached)


def look(ports: Ports) -> Fleet:
    """Gather it: a listing, and two reads for every action not seen before."""
    number = ports.revisions.newest()
    revision = ports.revisions.get(number) if number else None
    recent = [found for action in reversed(ports.actions.ids(limit=LOOKED_AT)) if (found := _remembered(action, ports))]
    ended = [(found.request, found.outcome) for found in recent if found.outcome]
    return Fleet(
        revision=revision,
        clusters=sorted(revision.clusters) if revision else [],
        not_true=not_true(ended),
        running=[found for found in recent if not found.outcome],
        recent=recent,
        results=counted(ended),
    )


def _remembered(action: str, ports: Ports) -> Standing | None:
    key = (ports.store, action)
    with _lock:
        if key in _KEPT:
            return _KEPT[key]
    found = gather(action, ports)
    if found and found.outcome:
        with _lock:
            _KEPT[key] = found
            while len(_KEPT) > LOOKED_AT:
                _KEPT.popitem(last=False)
    return found
