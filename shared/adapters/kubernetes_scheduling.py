"""What decides where a real cluster's pods run: `shared.ports.Scheduling` over the Kubernetes API.

Taints, affinities and tolerations come with no table and no metadata, so objects are read whole, in pages, and all but what is looked at is
skipped while they are decoded. A page is let go before the next one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec.json import Decoder

from shared.adapters.apiserver import PATIENT, ApiServer, Patience, StatusError
from shared.adapters.kubernetes_tables import ListMetadata
from shared.domain.nodes import TaintObject
from shared.domain.workloads.forecast import Budget, DaemonSet, Owner, Seen
from shared.domain.workloads.placement import Host, LabelSelector, PodSpec
from shared.ports import Unavailable

T = TypeVar("T")

PAGE = 500
"""Objects a page: bounds the memory of both ends."""
SINGLY = 32
"""On up to so many nodes pods are listed node by node, which the API server has an index for; beyond that it is one listing of all."""
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
DAEMON_SETS, BUDGETS = "/apis/apps/v1/daemonsets", "/apis/policy/v1/poddisruptionbudgets"
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"


class _Owner(msgspec.Struct):
    kind: str
    name: str
    uid: str
    controller: bool = False


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _NodeSpec(msgspec.Struct):
    taints: list[TaintObject] | None = None
    unschedulable: bool = False


class _Node(msgspec.Struct):
    metadata: _Metadata
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)


class _Template(msgspec.Struct):
    spec: PodSpec


class _DaemonSetSpec(msgspec.Struct):
    template: _Template


class _DaemonSet(msgspec.Struct):
    metadata: _Metadata
    spec: _DaemonSetSpec


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: PodSpec


class _BudgetSpec(msgspec.Struct):
    selector: LabelSelector | None = None


class _BudgetStatus(msgspec.Struct, rename="camel"):
    disruptions_allowed: int = 0


class _Budget(msgspec.Struct):
    metadata: _Metadata
    spec: _BudgetSpec = msgspec.field(default_factory=_BudgetSpec)
    status: _BudgetStatus = msgspec.field(default_factory=_BudgetStatus)


class _Nodes(msgspec.Struct):
    items: list[_Node] | None
    metadata: ListMetadata


class _DaemonSets(msgspec.Struct):
    items: list[_DaemonSet] | None
    metadata: ListMetadata


class _Pods(msgspec.Struct):
    items: list[_Pod] | None
    metadata: ListMetadata


class _Budgets(msgspec.Struct):
    items: list[_Budget] | None
    metadata: ListMetadata


P = TypeVar("P", _Nodes, _DaemonSets, _Pods, _Budgets)
_nodes, _daemon_sets, _pods, _budgets = Decoder(_Nodes), Decoder(_DaemonSets), Decoder(_Pods), Decoder(_Budgets)


class KubernetesScheduling:
    """What is read of one API server to judge placements; what a cluster's adapter is besides its nodes."""

    server: ApiServer
    _patience: Patience = PATIENT

    def hosts(self) -> Iterator[Host]:
        return self._each(NODES, _nodes, _hosts)

    def daemon_set_pods(self) -> Iterator[DaemonSet]:
        return self._each(DAEMON_SETS, _daemon_sets, _sets)

    def budgets(self) -> Iterator[Budget]:
        return self._each(BUDGETS, _budgets, _allowing)

    def placed(self, nodes: Collection[str]) -> Iterator[Seen]:
        if len(nodes) > SINGLY:
            yield from self._each(PODS, _pods, _seen, _RUNNING)
            return
        for node in sorted(nodes):
            yield from self._each(PODS, _pods, _seen, f"spec.nodeName={node},{_RUNNING}")
        yield from self._each(PODS, _pods, _seen, "spec.nodeName=,status.phase=Pending")

    def _each(self, path: str, decoder: Decoder[P], taken: Callable[[P], Iterable[T]], fields: str = "") -> Iterator[T]:
        """What is `taken` from each page, while the next one is not yet asked for."""
        page, which = "", {"fieldSelector": fields} if fields else {}
        while True:
            answer = self._page(path, decoder, {"limit": str(PAGE), **which, **({"continue": page} if page else {})})
            page = answer.metadata.next
            yield from taken(answer)
            del answer
            if not page:
                return

    def _page(self, path: str, decoder: Decoder[P], query: Mapping[str, str]) -> P:
        try:
            return decoder.decode(self.server.request("GET", path, query, patience=self._patience))
        except StatusError as rejected:
            if rejected.code == 410:
                raise Unavailable(f"GET {path}: the listing expired between its pages; ask again") from rejected
            raise rejected.refused() from rejected
        except msgspec.MsgspecError as error:
            raise Unavailable(f"GET {path}: not the answer of a Kubernetes API server: {error}") from error


def _hosts(page: _Nodes) -> Iterator[Host]:
    for node in page.items or ():
        taints = tuple(each.taint for each in node.spec.taints or ())
        yield Host(node.metadata.name, node.metadata.labels or {}, taints, node.spec.unschedulable)


def _sets(page: _DaemonSets) -> Iterator[DaemonSet]:
    for each in page.items or ():
        if not each.metadata.deletion_timestamp:
            yield DaemonSet(each.metadata.uid, f"{each.metadata.namespace}/{each.metadata.name}", each.spec.template.spec)


def _allowing(page: _Budgets) -> Iterator[Budget]:
    for each in page.items or ():
        yield Budget(each.metadata.namespace, each.metadata.name, each.spec.selector, each.status.disruptions_allowed)


def _seen(page: _Pods) -> Iterator[Seen]:
    for pod in page.items or ():
        if not (about := pod.metadata).deletion_timestamp:
            owner = next((Owner(each.kind, each.name, each.uid) for each in about.owner_references or () if each.controller), Owner())
            yield Seen(about.namespace, about.name, about.labels or {}, pod.spec, owner)
