"""Node labels without a read per binding: one metadata listing, refreshed by age, and a direct read for a node not in it.

A node's changed label is seen after at most `age` seconds plus one listing; a node that is new at once. Only wanted keys are kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from shared.domain.pods.copying import Copying
from shared.ports import Cluster, Node
from shared.work.reads import Clock, Reads, Refreshed

Labels = Mapping[str, str]


class _Listing(NamedTuple):
    keys: Copying
    """Which keys were kept: good for no others."""
    nodes: dict[str, Labels]


def keep(nodes: Iterable[Node], keys: Copying) -> dict[str, Labels]:
    """Name → the labels that `keys` holds, equal strings stored once (a zone is one string, however many nodes are in it)."""
    pool: dict[str, str] = {}
    one = pool.setdefault
    wanted: dict[str, bool] = {}  # a fleet has few distinct keys: decide each once
    kept: dict[str, Labels] = {}
    for node in nodes:
        for key in node.labels.keys() - wanted.keys():
            wanted[one(key, key)] = key in keys
        kept[one(node.name, node.name)] = {one(k, k): one(v, v) for k, v in node.labels.items() if wanted[k]}
    return kept


class NodeCache:
    """The wanted labels of one cluster's nodes. Safe with many threads; every wait is bounded by the caller."""

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        reads: Reads,
        *,
        age: float = 30.0,
        absent_for: float = 3.0,
        most_absent: int = 1000,
        clock: Clock = time.monotonic,
    ) -> None:
        self._cluster, self._reads, self._clock = cluster, reads, clock
        self._absent_for, self._most_absent = absent_for, most_absent
        self._keys = Copying()
        self._listing = Refreshed("the listing of nodes", self._list, reads, age=age, clock=clock)
        self._lock = threading.Lock()
        self._absent: dict[str, float] = {}
        """Names that had no node, and when: oldest first."""

    def labels(self, name: str, keys: Copying, seconds: float) -> Labels | None:
        """The labels of node `name` that `keys` holds, or None when there is no such node.

        Raises reads.Late after `seconds`, and what the cluster raises (ports.ClusterError).
        """
        listing = self._wanted(keys)
        if listing and (known := listing.nodes.get(name)) is not None:
            return known
        with self._lock:
            if self._clock() - self._absent.get(name, float("-inf")) < self._absent_for:
                return None
        node = self._reads.get(f"node {name}", lambda: self._cluster().node(name), seconds)
        if node is None:
            self._remember_absent(name)
            return None
        known = keep([node], keys)[name]
        with self._lock:
            self._absent.pop(name, None)
            if listing:
                listing.nodes[name] = known
        return known

    def warm(self, keys: Copying) -> bool:
        """Start the listing where it is due; whether there is one for these keys."""
        return self._wanted(keys) is not None

    def seconds_old(self) -> float:
        """The age of the listing; infinite while there is none."""
        return self._listing.seconds_old()

    @property
    def trouble(self) -> str:
        """Why the newest listing failed; empty when it did not."""
        return self._listing.trouble

    def _wanted(self, keys: Copying) -> _Listing | None:
        self._keys = keys
        listing = self._listing.peek()
        if listing is not None and listing.keys is not keys and listing.keys != keys:
            self._listing.refresh()
            return None
        return listing

    def _list(self) -> _Listing:
        keys = self._keys
        return _Listing(keys, keep(self._cluster().nodes(), keys))

    def _remember_absent(self, name: str) -> None:
        with self._lock:
            self._absent.pop(name, None)
            self._absent[name] = self._clock()
            while len(self._absent) > self._most_absent:
                del self._absent[next(iter(self._absent))]
