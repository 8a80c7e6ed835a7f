"""Which revision holds for which node.

A commit is a proposal; what brings a revision to nodes is a release. Access to clusters, maintenance and versions are in force with the
commit itself. Until releases are kept, the newest committed revision holds everywhere: `NewestCommitted` is the one place that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shared.ledger.revisions import Revision, Revisions


class InForce(Protocol):
    """What held at the moment of one look. It stays as it was, so that one piece of work goes by one state."""

    @property
    def committed(self) -> Revision | None:
        """The newest commit, None before the first: clusters' access, maintenance and versions go by it."""
        ...

    def holding(self, cluster: str) -> Revision | None:
        """The revision that holds for a cluster as a whole: its pods' policies, its sweeps. None: none does."""
        ...

    def revision_for(self, cluster: str, node: str) -> Revision | None:
        """The revision that holds for one node; None: the documents have no say about it yet."""
        ...


class Releases(Protocol):
    """The port that everybody asks who brings labels to nodes."""

    def look(self) -> InForce:
        """What holds now. One look costs one short listing. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest committed revision holds for every node of every cluster."""

    committed: Revision | None

    def holding(self, cluster: str) -> Revision | None:
        """See InForce."""
        return self.committed

    def revision_for(self, cluster: str, node: str) -> Revision | None:
        """See InForce."""
        return self.committed


class NewestCommitted:
    """Releases where every commit is released to everybody at once."""

    def __init__(self, revisions: Revisions) -> None:
        self._revisions = revisions

    def look(self) -> InForce:
        """See Releases."""
        number = self._revisions.newest()
        return Newest(self._revisions.get(number) if number else None)
