"""Which keys this store has declared for a node: those are ours to remove. What else is held under our field manager may be another
Hullmark's that goes by the same name, and stays until a person adopts it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from shared.ledger.records import RecordUnreadable
from shared.ledger.releases import Released, Releases
from shared.ledger.revisions import Revision, Revisions

LOOKED_BACK = 20
"""Revisions, up to the one that is released to a node, whose keys count as declared for it; and acts whose overrides do."""


class Declared:
    """What was declared for the nodes of one cluster up to a moment. Older revisions are read only for nodes that hold a key which their
    own release does not explain, and what is read of them is kept by the process; ask in order of names.
    """

    def __init__(self, cluster: str, released: Released, releases: Releases, revisions: Revisions) -> None:
        self._cluster = cluster
        self._released = released
        self._releases = releases
        self._revisions = revisions
        self._policies: dict[int, frozenset[str]] = {}
        self._overrides: dict[str, set[str]] | None = None

    def never(self, node: str, keys: Iterable[str]) -> set[str]:
        """Those of the keys that no revision up to the node's release, and no override of it, has declared for it. Raises StoreError."""
        left = set(keys)
        for number in self._numbers(node):
            if not left:
                return left
            left -= self._by_policies(number)
            left -= self._by_design(number, node, left)
        return left - self._by_overrides(node) if left else left

    def _numbers(self, node: str) -> range:
        """The revisions that count, newest first: also those whose release was taken back, because parts of it may have been written. Of a
        release from before releases were kept, all there were: each may be on some node.
        """
        mark = self._released.mark(node)
        newest = max(self._before if mark.revision and not mark.k else mark.revision, self._released.tried)
        return range(newest, max(0, newest - LOOKED_BACK), -1)

    @functools.cached_property
    def _before(self) -> int:
        return self._releases.newest_before()

    def _by_policies(self, number: int) -> frozenset[str]:
        if number not in self._policies:
            revision = self._read(number)
            try:
                self._policies[number] = revision.policies.keys_for(self._cluster) if revision else frozenset()
            except RecordUnreadable:  # what can't be read explains nothing
                self._policies[number] = frozenset()
        return self._policies[number]

    def _by_design(self, number: int, node: str, keys: set[str]) -> set[str]:
        revision = self._read(number)
        if revision is None or (revision.about.label_keys is not None and keys.isdisjoint(revision.about.label_keys)):
            return set()
        try:
            return keys & revision.design_keys(node)
        except RecordUnreadable:
            return set()

    def _read(self, number: int) -> Revision | None:
        try:
            return self._revisions.get(number)
        except RecordUnreadable:
            return None

    def _by_overrides(self, node: str) -> set[str]:
        if self._overrides is None:
            self._overrides = {}
            for override in self._releases.overrides(self._cluster, self._released, LOOKED_BACK):
                self._overrides.setdefault(override.node, set()).update(override.labels)
        found = set(self._overrides.get(node, ()))
        entry = self._released.entry(node)
        while entry is not None:  # its override, and those beneath it
            if entry.override:
                found.update(self._releases.override_of(entry.mark).labels)
            entry = entry.was
        return found
