"""A cluster's pods without a cluster: what `shared.ports.Scheduling` answers, from lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.domain.workloads.forecast import Budget, DaemonSet, Owner, Seen
from shared.domain.workloads.placement import Host, LabelSelector, PodSpec
from shared.ports import Refused


def a_pod(name: str, node: str = "", owner: str = "ReplicaSet/web", labels: dict[str, str] | None = None, **spec: Any) -> Seen:
    """A pod of a controller `KIND/NAME`, whose uid is its name; of nobody where that is empty."""
    kind, _, named = owner.partition("/")
    return Seen("default", name, labels or {}, msgspec.convert({"nodeName": node, **spec}, PodSpec), Owner(kind, named, named))


def a_daemon_set(name: str, **spec: Any) -> DaemonSet:
    """A DaemonSet of the namespace kube-system; its uid is its name."""
    return DaemonSet(name, f"kube-system/{name}", msgspec.convert(spec, PodSpec))


def a_budget(name: str, **labels: str) -> Budget:
    """A budget of the namespace default that allows one disruption."""
    return Budget("default", name, LabelSelector(labels), 1)


@dataclass
class Pods:
    """What a cluster has. `forbidden`: the kinds that we may not list; `after`: so many of them come before that is said."""

    nodes: list[Host] = field(default_factory=list)
    sets: list[DaemonSet] = field(default_factory=list)
    pods: list[Seen] = field(default_factory=list)
    guards: list[Budget] = field(default_factory=list)
    forbidden: tuple[str, ...] = ()
    after: int = 0

    def hosts(self) -> Iterator[Host]:
        return self._listed("nodes", self.nodes)

    def daemon_set_pods(self) -> Iterator[DaemonSet]:
        return self._listed("daemonsets", self.sets)

    def budgets(self) -> Iterator[Budget]:
        return self._listed("poddisruptionbudgets", self.guards)

    def placed(self, nodes: Collection[str]) -> Iterator[Seen]:
        return self._listed("pods", self.pods)

    def _listed(self, what: str, there: list[Any]) -> Iterator[Any]:
        yield from there[: self.after] if what in self.forbidden else there
        if what in self.forbidden:
            raise Refused("Forbidden", f'{what} is forbidden: User "hullmark" cannot list resource "{what}"')
