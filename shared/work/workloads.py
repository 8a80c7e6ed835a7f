"""What changes of labels do to the pods of a cluster: look at nodes, DaemonSets and budgets, let the pods pass by, write nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from shared.domain.labels.plans import LabelPlan, NodePlan
from shared.domain.workloads.forecast import Change, Forecast
from shared.domain.workloads.impact import Unseen, WorkloadImpact
from shared.domain.workloads.placement import Host
from shared.ports import Cluster, ClusterError, Scheduling

T = TypeVar("T")
NO_PODS = "NoPods"


def with_workloads(plan: LabelPlan, cluster: Cluster) -> LabelPlan:
    """The plan, with what it does to pods."""
    return plan.model_copy(update={"workloads": workload_impact(plan.cluster, plan.nodes, cluster)})


def workload_impact(name: str, nodes: Mapping[str, NodePlan], cluster: Cluster) -> WorkloadImpact:
    """What these changes do. What the cluster does not show is said in `unseen`, and the rest is judged without it."""
    if not nodes:
        return WorkloadImpact(cluster=name)
    if not isinstance(cluster, Scheduling):
        none = Unseen(what="pods", reason=NO_PODS, message=f"cluster {name} is simulated: it has none")
        return WorkloadImpact(cluster=name, unseen=[none])
    looks = _Looks()
    hosts = looks.listed("nodes", cluster.hosts)
    if looks.unseen:
        return WorkloadImpact(cluster=name, unseen=looks.unseen)
    changes = {host.name: Change.of(host, _after(host, nodes[host.name])) for host in hosts if host.name in nodes}
    sets = looks.listed("daemonsets", cluster.daemon_set_pods)
    budgets = looks.listed("poddisruptionbudgets", cluster.budgets)
    forecast = Forecast(hosts, changes, sets, budgets)
    if looks.each("pods", lambda: cluster.placed(changes.keys()), forecast.add):
        return forecast.result(name, looks.unseen)
    return Forecast(hosts, changes, sets, budgets).result(name, looks.unseen, pods_seen=False)  # some of them may have been counted


class _Looks:
    """Looks at one kind after the other, and remembers which could not be seen."""

    def __init__(self) -> None:
        self.unseen: list[Unseen] = []

    def listed(self, what: str, asked: Callable[[], Iterable[T]]) -> list[T]:
        """All of a kind; none where the cluster does not show all of them."""
        found: list[T] = []
        return found if self.each(what, asked, found.append) else []

    def each(self, what: str, asked: Callable[[], Iterable[T]], taken: Callable[[T], None]) -> bool:
        """Pass each of a kind on. Whether the cluster has shown all of them."""
        try:
            for one in asked():
                taken(one)
        except ClusterError as error:
            self.unseen.append(Unseen(what=what, reason=error.reason, message=str(error), retryable=error.retryable))
            return False
        return True


def _after(host: Host, planned: NodePlan) -> Host:
    gone = set(planned.remove)
    labels = {key: value for key, value in host.labels.items() if key not in gone} | planned.set
    return host._replace(labels=labels, taints=tuple(taint for taint in host.taints if str(taint) not in planned.untaint))
