"""Where each node stands in a rollout, as it was resolved when the rollout began, and kept.

rollouts/<id>/places/<cluster>/index.json   how many shares there are, how many nodes of each stage they hold, where later nodes stand
rollouts/<id>/places/<cluster>/<i>.json     a share: the stages of the nodes whose places lie in its range, in the order of the places
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from shared.domain.labels.places import LAST, place_of
from shared.ledger.records import read_there
from shared.ports import ObjectStore

SHARE_SIZE = 2000
"""Nodes of one share: about 60 kB."""
SHARES_KEPT = 128
"""Shares that a process remembers."""

T = TypeVar("T")


class Later(msgspec.Struct, frozen=True):
    """Nodes that come later and have a place below this one stand in this stage."""

    stage: int
    below: int


class Index(msgspec.Struct, frozen=True):
    """What is known of a cluster's places without reading them."""

    counts: list[list[int]]
    """For each share, how many of its nodes are in each stage."""
    later: list[Later]
    """In order; whoever is in none of these is in the last stage."""

    @property
    def stages(self) -> list[int]:
        """How many nodes each stage has."""
        return [sum(share[stage] for share in self.counts) for stage in range(len(self.counts[0]))]


class Places:
    """All of them, in one store. They never change."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._share = functools.lru_cache(SHARES_KEPT)(self._read_share)
        self._index = functools.lru_cache(SHARES_KEPT)(self._read_index)

    def keep(self, rollout: str, cluster: str, stages: Mapping[str, int], count: int, later: list[Later]) -> Index:
        """Keep each node's stage, of `count` stages; where that was done before, the first ones count."""
        shares = max(1, -(-len(stages) // SHARE_SIZE))
        held: list[dict[str, int]] = [{} for _ in range(shares)]
        counts = [[0] * count for _ in range(shares)]
        for name in sorted(stages, key=place_of):
            number = place_of(name) * shares // LAST
            held[number][name] = stages[name]
            counts[number][stages[name]] += 1
        if self._store.get(_index_key(rollout, cluster)) is None:
            folder = f"rollouts/{rollout}/places/{cluster}/"
            for key in self._store.keys(folder):  # somebody was cut off, and the cluster may look different by now
                self._store.delete(key)
            for number, share in enumerate(held):
                self._store.create(f"{folder}{number:05}.json", msgspec.json.encode(share))
            self._store.create(_index_key(rollout, cluster), msgspec.json.encode(Index(counts, later)))
        return self._read_index(rollout, cluster)

    def index(self, rollout: str, cluster: str) -> Index:
        """What is known of a cluster's places. Raises RecordUnreadable."""
        return self._index(rollout, cluster)

    def stage_of(self, cluster: str, rollout: str, node: str) -> int:
        """The stage of a node. Raises RecordUnreadable."""
        index, place = self._index(rollout, cluster), place_of(node)
        stage = self._share(rollout, cluster, place * len(index.counts) // LAST).get(node)
        if stage is not None:
            return stage
        last = len(index.counts[0]) - 1
        return next((later.stage for later in index.later if place < later.below), last)

    def members(self, rollout: str, cluster: str, stage: int, start: int = 0, count: int | None = None) -> list[str]:
        """The nodes of a stage in the order of their places: `count` of them from `start` on. Raises RecordUnreadable."""
        end = start + count if count is not None else None
        return list(self._members(rollout, cluster, stage, start, end))

    def _members(self, rollout: str, cluster: str, stage: int, start: int, end: int | None) -> Iterator[str]:
        passed = 0
        for number, counts in enumerate(self._index(rollout, cluster).counts):
            first, passed = passed, passed + counts[stage]
            if passed <= start:
                continue
            if end is not None and first >= end:
                return
            names = [name for name, found in self._share(rollout, cluster, number).items() if found == stage]
            yield from names[max(0, start - first) : None if end is None else end - first]

    def _read_index(self, rollout: str, cluster: str) -> Index:
        return read_there(self._store, _index_key(rollout, cluster), lambda body: msgspec.json.decode(body, type=Index))

    def _read_share(self, rollout: str, cluster: str, number: int) -> dict[str, int]:
        key = f"rollouts/{rollout}/places/{cluster}/{number:05}.json"
        return read_there(self._store, key, lambda body: msgspec.json.decode(body, type=dict[str, int]))


def _index_key(rollout: str, cluster: str) -> str:
    return f"rollouts/{rollout}/places/{cluster}/index.json"
