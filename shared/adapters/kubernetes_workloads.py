"""How a real cluster's pods fare: what `shared.ports.Workloads` asks of the Kubernetes API, and what it makes of the answers.

DaemonSets are few and are read whole, to know which pods they select. Their pods are many and come as tables. A pod that no node was found
for is read whole, because its table does not say whether the scheduler has tried; the server sends only those that no node has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import msgspec

from shared.adapters.kubernetes_tables import ListMetadata

DAEMON_SETS = "/apis/apps/v1/daemonsets"
PODS = "/api/v1/pods"
WITHOUT_NODE = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}
_WORDS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}


class _Requirement(msgspec.Struct):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _Spec(msgspec.Struct):
    selector: _Selector


class _Scheduled(msgspec.Struct, rename="camel"):
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0


class _Name(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    deletion_timestamp: str | None = None


class DaemonSet(msgspec.Struct):
    """What is read of a DaemonSet."""

    metadata: _Name
    spec: _Spec
    status: _Scheduled = msgspec.field(default_factory=_Scheduled)

    @property
    def pods(self) -> str:
        """Where the pods of its namespace are listed."""
        return f"/api/v1/namespaces/{self.metadata.namespace}/pods"

    def asked(self, nodes: Collection[str], page: int) -> list[Mapping[str, str]]:
        """The listings to ask for its pods on these nodes: one for each node, or one of all of them, whichever takes fewer requests."""
        selector = {"labelSelector": self._selector()}
        pages = -(-max(self.status.current_number_scheduled, self.status.desired_number_scheduled) // page)
        if len(nodes) >= max(1, pages):
            return [selector]
        return [{**selector, "fieldSelector": f"spec.nodeName={node}"} for node in sorted(nodes)]

    def _selector(self) -> str:
        labels = [f"{key}={value}" for key, value in (self.spec.selector.match_labels or {}).items()]
        further = self.spec.selector.match_expressions or ()
        return ",".join([*labels, *(_WORDS[each.operator].format(key=each.key, values=",".join(each.values or ())) for each in further)])


class DaemonSets(msgspec.Struct):
    """A page of them."""

    items: list[DaemonSet] | None
    metadata: ListMetadata


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct):
    metadata: _Name
    status: _Status


class Pending(msgspec.Struct):
    """A page of pods that no node has."""

    items: list[_Pod] | None
    metadata: ListMetadata


daemon_sets, pending = msgspec.json.Decoder(DaemonSets), msgspec.json.Decoder(Pending)
_UNSCHEDULABLE = _Condition("PodScheduled", "False", "Unschedulable")


def unschedulable(page: Pending) -> Iterator[str]:
    """The namespace of each pod that the scheduler has tried and found no node for. One that waits behind a gate is somebody's wish."""
    for pod in page.items or ():
        if not pod.metadata.deletion_timestamp and _UNSCHEDULABLE in (pod.status.conditions or ()):
            yield pod.metadata.namespace
