"""What is known of the clusters that rollouts for versions mean: kept in a few shares, each a chain of whole states.

sightings/<i>/<n>.json    the n-th state of share i: its clusters by their full names; written when something about one of them changes
sighting-heads/<i>/<n>    a hint that it happened

The last states tell all, so that the ones before go. A share that can't be read is begun anew, and so is the time of its clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.domain.labels.places import place_of
from shared.domain.waves.sightings import Known
from shared.ledger.chains import Chain, Link
from shared.ledger.records import RecordUnreadable, read_as
from shared.ports import ObjectStore

SHARES = 8
"""Over how many chains the clusters are spread: 1,250 clusters each, about 250 kB, where there are 10,000."""
KEPT = 8
"""States of a share that stay: whoever has found the newest still reads it when others have gone on."""

Clusters = Mapping[str, Known]
Change = Callable[[Clusters, int], Clusters]
"""(the clusters of a share, its number) → what is known of them now; the same object where that is nothing new."""


class Share(msgspec.Struct, frozen=True):
    """The state of one share."""

    begun: datetime
    """Since when it is kept: what a cluster ran before that, nobody knows."""
    clusters: dict[str, Known] = {}


class Sighted(NamedTuple):
    """All of them. `begun`: since when the youngest share is kept."""

    clusters: Clusters
    begun: datetime


class Sightings:
    """The ledger of sightings in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, now: datetime) -> Sighted:
        """What is known."""
        return _together([self._there(number, now)[1] for number in range(SHARES)])

    def change(self, change: Change, now: datetime) -> Sighted:
        """Bring what is known up to date, share by share."""
        return _together([self.change_one(number, change, now) for number in range(SHARES)])

    def imagine(self, change: Change, now: datetime) -> Sighted:
        """What would be known after that; nothing is written."""
        shares = [self._there(number, now)[1] for number in range(SHARES)]
        return _together([Share(share.begun, dict(change(share.clusters, number))) for number, share in enumerate(shares)])

    def change_one(self, number: int, change: Change, now: datetime) -> Share:
        """Bring one share up to date."""
        while True:
            k, share = self._there(number, now)
            clusters = change(share.clusters, number)
            if clusters is share.clusters and k:
                return share
            after = Share(share.begun, dict(clusters))
            if self._chain(number).append(k + 1, msgspec.json.encode(after)):
                if k - KEPT > 1:  # the first one stays: it says that there is a chain
                    self._store.delete(self._chain(number).key(k - KEPT))
                return after

    def _there(self, number: int, now: datetime) -> tuple[int, Share]:
        """The newest state of a share, or a new one. A state that is gone because others have gone on meanwhile is looked for again."""
        unreadable = ""
        while True:
            try:
                k, share = self._newest(number)
            except RecordUnreadable as torn:
                if torn.key != unreadable:
                    unreadable = torn.key
                    continue
                k, share = self._link(number).k, None
            return k, share or Share(now)

    def _newest(self, number: int) -> tuple[int, Share | None]:
        link = self._link(number)
        if not link.k:
            return 0, None
        return link.k, read_as(self._chain(number).key(link.k), link.body, lambda text: msgspec.json.decode(text, type=Share))

    def _link(self, number: int) -> Link:
        return self._chain(number).newer()

    def _chain(self, number: int) -> Chain:
        return Chain(self._store, f"sightings/{number}/", f"sighting-heads/{number}/")


def _together(shares: list[Share]) -> Sighted:
    clusters = {name: known for share in shares for name, known in share.clusters.items()}
    return Sighted(clusters, max(share.begun for share in shares))


def share_of(cluster: str) -> int:
    """In which share a cluster is, by its full name."""
    return place_of(cluster) % SHARES
