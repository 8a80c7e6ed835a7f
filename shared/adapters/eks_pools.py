"""The labels of EKS' managed node groups: `shared.ports.NodePools` over boto3. EKS brings them to all nodes, old and new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.adapters.eks_versions import answered
from shared.domain.documents.access import EKS_NAME
from shared.domain.pools import PoolChange, PoolLabels
from shared.ports import Refused


class EksPools:
    """The node groups of one cluster."""

    def __init__(self, cluster: str, client: Callable[[], Any]) -> None:
        self._cluster = cluster
        self._client = client

    def read(self, pool: str) -> PoolLabels:
        if not EKS_NAME.fullmatch(pool):  # it becomes part of a URL
            raise Refused("NotFound", f"{pool[:80]!r} is no name of a node group")
        place = {"clusterName": self._cluster, "nodegroupName": pool}
        answer = answered("describe_nodegroup", lambda: self._client().describe_nodegroup(**place))
        return PoolLabels(pool, dict(answer["nodegroup"].get("labels") or {}))

    def write(self, pool: PoolLabels, change: PoolChange) -> None:
        place = {"clusterName": self._cluster, "nodegroupName": pool.name}
        labels = {"addOrUpdateLabels": dict(change.set)} if change.set else {}
        removed = {"removeLabels": list(change.remove)} if change.remove else {}
        answered("update_nodegroup_config", lambda: self._client().update_nodegroup_config(**place, labels={**labels, **removed}))
