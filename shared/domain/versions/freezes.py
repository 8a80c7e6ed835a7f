"""Freeze documents and versions: which of them mean a cluster, and what that does to its window (docs/freezes.md). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from shared.domain.holds import freezes_of, words
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.held import DESPITE_FREEZE, Held
from shared.domain.versions.windows import Freeze

if TYPE_CHECKING:
    from shared.domain.documents.kinds import FreezeSpec


@dataclass(frozen=True)
class Freezes:
    """The Freeze documents of one revision, and the labels of its Cluster documents, by which they choose."""

    documents: Mapping[str, FreezeSpec] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, cluster: FleetCluster) -> list[tuple[str, FreezeSpec]]:
        """Those that mean a cluster, whenever they are.

        They name it, or its fleet; labels are its own, and those of the Cluster document that leads to its fleet where it has none such.
        """
        names = {cluster.fleet, cluster.id, cluster.full_name} - {""}
        return freezes_of(self.documents, names, {**self.labels.get(cluster.fleet, {}), **cluster.labels}, "versions")

    def holds(self, cluster: FleetCluster, now: datetime) -> list[Held]:
        """Those that hold now."""
        return [
            Held("Frozen", words(name, freeze), freeze.span[1], DESPITE_FREEZE if freeze.allow_forced else None)
            for name, freeze in self.of(cluster)
            if freeze.span[0] <= now < freeze.span[1]
        ]


def under(cluster: FleetCluster, guards: Iterable[Freezes]) -> FleetCluster:
    """The cluster with its window shut while it is frozen, so that its next opening, its last one before an expiry and a forecast know.

    A freeze that lets forced updates go leaves the window as it is: each update is held or not.
    """
    shut = tuple(Freeze(*freeze.span) for guard in guards for _, freeze in guard.of(cluster) if not freeze.allow_forced)
    return replace(cluster, window=replace(cluster.window, freezes=(*cluster.window.freezes, *shut))) if shut else cluster
