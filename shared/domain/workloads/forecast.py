"""What a change of labels does to pods: DaemonSets, budgets and nodes are gone through first, then the pods pass by one at a time. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from shared.domain.workloads.impact import BudgetTouched, DaemonSetChange, NodeWorkloads, PodGroup, Unseen, WorkloadImpact
from shared.domain.workloads.placement import Daemon, Host, LabelSelector, Placement, PodSpec, daemon, shared_placements, target

LISTED = 100
"""Most owners of pods that are listed."""
EXAMPLES = 3
DAEMON_SET, STATIC = "DaemonSet", "Node"
"""The kinds that control pods of their own: those of a Node are started by its kubelet from files, wherever they fit."""


class DaemonSet(NamedTuple):
    """A DaemonSet: `name` is `NAMESPACE/NAME`; `spec` is that of its pods."""

    uid: str
    name: str
    spec: PodSpec


class Budget(NamedTuple):
    """A PodDisruptionBudget. One without a selector selects nothing."""

    namespace: str
    name: str
    selector: LabelSelector | None
    allowed: int


class Owner(NamedTuple):
    """What controls a pod; all empty where nothing does."""

    kind: str = ""
    name: str = ""
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.kind else ""


class Seen(NamedTuple):
    """A pod that has not ended and is not being deleted."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: PodSpec
    owner: Owner


class Change(NamedTuple):
    """A node before and after."""

    before: Host
    after: Host
    keys: frozenset[str]
    """The label keys that change."""
    taints: bool
    """Whether its taints change."""

    @classmethod
    def of(cls, before: Host, after: Host) -> Change:
        """The change from one to the other."""
        keys = {key for key in before.labels.keys() | after.labels.keys() if before.labels.get(key) != after.labels.get(key)}
        return cls(before, after, frozenset(keys), before.taints != after.taints)

    def concerns(self, placement: Placement) -> bool:
        """Whether anything changes that this placement looks at."""
        return self.taints or not self.keys.isdisjoint(placement.keys)


class _Group:
    """Pods of one owner, as they are counted."""

    def __init__(self) -> None:
        self.placements: set[Placement] = set()
        self.pods = 0
        self.nodes: set[str] = set()
        self.examples: list[str] = []

    def add(self, name: str, placement: Placement) -> None:
        self.pods += 1
        self.placements.add(placement)
        if len(self.examples) < EXAMPLES:
            self.examples.append(name)


class Forecast:
    """Counts what happens. `pods` passes each pod once; `result` says what was counted."""

    def __init__(
        self, hosts: Collection[Host], changes: Mapping[str, Change], daemon_sets: Iterable[DaemonSet], budgets: Iterable[Budget]
    ) -> None:
        self._hosts, self._changes = hosts, changes
        self._placement: Callable[[PodSpec], Placement] = shared_placements()
        self._turns = {each.uid: turns for each in daemon_sets if (turns := _Turns.of(each, changes.values()))}
        self._budgets: dict[str, list[Budget]] = defaultdict(list)
        for budget in budgets:
            self._budgets[budget.namespace].append(budget)
        self._running_pods: dict[tuple[str, str], _Group] = defaultdict(_Group)
        self._pending_pods: dict[tuple[str, str], _Group] = defaultdict(_Group)
        self._stranded: Counter[str] = Counter()
        self._touched: Counter[tuple[str, str]] = Counter()
        self._allowed: dict[tuple[str, str], int] = {}
        self._new: dict[Placement, list[str]] = {}
        self._waiting: Counter[Placement] = Counter()
        self._fitting: dict[Placement, frozenset[str]] = {}

    def add(self, pod: Seen) -> None:
        """Count a pod."""
        if pod.owner.kind == DAEMON_SET:
            self._daemon_pod(pod)
        elif pod.owner.kind != STATIC:
            (self._running if pod.spec.node_name else self._pending)(pod)

    def _daemon_pod(self, pod: Seen) -> None:
        turns, node = self._turns.get(pod.owner.uid), target(pod.spec)
        if turns is None or node not in turns.nodes or node in turns.there:
            return
        turns.there.add(node)
        if turns.ends(node):
            self._touch(pod)

    def _running(self, pod: Seen) -> None:
        change = self._changes.get(pod.spec.node_name)
        if change is None or not (pod.spec.chooses or change.taints):
            return
        placement = self._placement(pod.spec)
        if change.concerns(placement) and placement.fits(change.before) and not placement.fits(change.after):
            group = self._running_pods[pod.namespace, str(pod.owner)]
            group.add(pod.name, placement)
            group.nodes.add(change.after.name)
            self._stranded[change.after.name] += 1
            self._touch(pod)

    def _pending(self, pod: Seen) -> None:
        if pod.spec.scheduling_gates:
            return
        placement = self._placement(pod.spec)
        if placement not in self._new:
            self._new[placement] = [name for name, change in self._changes.items() if _newly_fits(placement, change)]
        if self._new[placement]:
            self._waiting[placement] += 1
            self._pending_pods[pod.namespace, str(pod.owner)].add(pod.name, placement)

    def _touch(self, pod: Seen) -> None:
        for budget in self._budgets.get(pod.namespace, ()):
            if budget.selector is not None and budget.selector.selects(pod.labels):
                self._touched[budget.namespace, budget.name] += 1
                self._allowed[budget.namespace, budget.name] = budget.allowed

    def result(self, cluster: str, unseen: Iterable[Unseen] = (), *, pods_seen: bool = True) -> WorkloadImpact:
        """What was counted. Where no pods were seen, DaemonSets are taken to have theirs wherever they start them."""
        starts = {turns.name: turns.begins() for turns in self._turns.values()}
        stops = {turns.name: turns.ended(pods_seen=pods_seen) for turns in self._turns.values()}
        fits = Counter[str]()
        for placement, pods in self._waiting.items():
            fits.update(dict.fromkeys(self._new[placement], pods))
        for group in self._pending_pods.values():
            group.nodes.update(name for placement in group.placements for name in self._new[placement])
        return WorkloadImpact(
            cluster=cluster,
            starts=sum(map(len, starts.values())),
            stops=sum(map(len, stops.values())),
            stranded=self._stranded.total(),
            fits=self._waiting.total(),
            nodes=_by_node(starts, stops, self._stranded, fits),
            daemon_sets={
                name: DaemonSetChange(starts=len(starts[name]), stops=len(stops[name]))
                for name in sorted(starts)
                if starts[name] or stops[name]
            },
            stranded_pods=self._listed(self._running_pods),
            fitting_pods=self._listed(self._pending_pods),
            budgets={
                "/".join(name): BudgetTouched(pods=count, allowed=self._allowed[name]) for name, count in sorted(self._touched.items())
            },
            unseen=list(unseen),
        )

    def _listed(self, groups: Mapping[tuple[str, str], _Group]) -> list[PodGroup]:
        most = sorted(groups.items(), key=lambda each: (-each[1].pods, each[0]))[:LISTED]
        return [
            PodGroup(
                namespace=namespace,
                owner=owner,
                pods=group.pods,
                nodes=len(group.nodes),
                elsewhere=len(set().union(*map(self._taking, group.placements)) - group.nodes),
                examples=group.examples,
            )
            for (namespace, owner), group in most
        ]

    def _taking(self, placement: Placement) -> frozenset[str]:
        """The nodes that fit afterwards."""
        if placement not in self._fitting:
            after = (self._changes[host.name].after if host.name in self._changes else host for host in self._hosts)
            self._fitting[placement] = frozenset(host.name for host in after if placement.fits(host))
        return self._fitting[placement]


class _Turns(NamedTuple):
    """On which changed nodes the controller decides otherwise for a DaemonSet, and where a pod of it is there."""

    name: str
    nodes: dict[str, tuple[Daemon, Daemon]]
    there: set[str]

    @classmethod
    def of(cls, about: DaemonSet, changes: Iterable[Change]) -> _Turns | None:
        placement, node_name = Placement(about.spec, daemon=True), about.spec.node_name
        nodes = {
            change.after.name: (daemon(placement, change.before, node_name), daemon(placement, change.after, node_name))
            for change in changes
            if change.concerns(placement)
        }
        nodes = {name: each for name, each in nodes.items() if each[0] != each[1]}
        return cls(about.name, nodes, set()) if nodes else None

    def begins(self) -> list[str]:
        """Where a pod is created because of the change."""
        return [node for node, (before, after) in self.nodes.items() if after.starts and not before.starts and node not in self.there]

    def ended(self, *, pods_seen: bool) -> list[str]:
        """Where the pod is deleted because of the change."""
        return [
            node for node, (before, _) in self.nodes.items() if self.ends(node) and (node in self.there if pods_seen else before.starts)
        ]

    def ends(self, node: str) -> bool:
        """Whether a pod that is there is deleted because of the change."""
        before, after = self.nodes[node]
        return before.stays and not after.stays


def _newly_fits(placement: Placement, change: Change) -> bool:
    return change.concerns(placement) and placement.fits(change.after) and not placement.fits(change.before)


def _by_node(
    starts: Mapping[str, Iterable[str]], stops: Mapping[str, Iterable[str]], stranded: Mapping[str, int], fits: Mapping[str, int]
) -> dict[str, NodeWorkloads]:
    here, gone = _turned(starts), _turned(stops)
    return {
        name: NodeWorkloads(starts=here.get(name, []), stops=gone.get(name, []), stranded=stranded.get(name, 0), fits=fits.get(name, 0))
        for name in sorted({*here, *gone, *stranded, *fits})
    }


def _turned(by_name: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, nodes in sorted(by_name.items()):
        for node in nodes:
            found[node].append(name)
    return found
