"""The labels of GKE's node pools: `shared.ports.NodePools` over google-cloud-container. GKE brings them to the nodes that there are, and to
new ones.

An update replaces all labels of a pool, so it is based on what was read: with the pool's etag, GKE refuses it where the pool has changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from shared.adapters.gke_versions import SECONDS, answered
from shared.domain.pools import PoolChange, PoolLabels
from shared.ports import Refused, Stale

POOL_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
CHANGED = frozenset(["Conflict", "Aborted"])
"""What the client calls an answer ABORTED, over REST and over gRPC."""


class GkePools:
    """The node pools of one cluster. `cluster`: projects/P/locations/L/clusters/C."""

    def __init__(self, cluster: str, client: Callable[[], Any]) -> None:
        self._cluster = cluster
        self._client = client

    def read(self, pool: str) -> PoolLabels:
        place = self._place(pool)
        about = answered("get_node_pool", lambda: self._client().get_node_pool(request={"name": place}, timeout=SECONDS, retry=None))
        return PoolLabels(pool, dict(about.config.labels), about.etag)

    def write(self, pool: PoolLabels, change: PoolChange) -> None:
        labels = {key: value for key, value in {**pool.labels, **change.set}.items() if key not in change.remove}
        request = {"name": self._place(pool.name), "labels": {"labels": labels}, "etag": pool.version}
        try:
            answered("update_node_pool", lambda: self._client().update_node_pool(request=request, timeout=SECONDS, retry=None))
        except Refused as refused:
            if refused.reason in CHANGED:
                raise Stale(f"node pool {pool.name} changed meanwhile: look again") from refused
            raise

    def _place(self, pool: str) -> str:
        if not POOL_NAME.fullmatch(pool):  # it becomes part of a URL
            raise Refused("NotFound", f"{pool[:80]!r} is no name of a node pool")
        return f"{self._cluster}/nodePools/{pool}"
