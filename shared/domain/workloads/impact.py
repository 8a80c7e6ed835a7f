"""What a change of labels does to the pods of a cluster, as it is told to people. Pure (docs/impact.md)."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

NOT_JUDGED = "room, ports, volumes, pod affinity and spreading are not judged"


class _Told(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class NodeWorkloads(_Told):
    """What happens on one node. DaemonSets are `NAMESPACE/NAME`."""

    starts: list[str] = Field(default=[], description="DaemonSets that start a pod here.")
    stops: list[str] = Field(default=[], description="DaemonSets whose pod here is ended.")
    stranded: int = Field(default=0, description="Other pods that run here and could not come back.")
    fits: int = Field(default=0, description="Pending pods that may be placed here and could not be before.")


class DaemonSetChange(_Told):
    """On how many nodes a DaemonSet starts and ends a pod."""

    starts: int = 0
    stops: int = 0


class PodGroup(_Told):
    """Pods of one owner."""

    namespace: str
    owner: str = Field(description="KIND/NAME of what controls them; empty for pods that nothing controls.")
    pods: int
    nodes: int = Field(description="Of pods that run: on how many nodes. Of pending ones: how many nodes may newly have them.")
    elsewhere: int = Field(description="How many other nodes may have them, by name, labels and taints.")
    examples: list[str] = []


class BudgetTouched(_Told):
    """A PodDisruptionBudget, `NAMESPACE/NAME`, that selects pods which are ended or could not come back."""

    pods: int
    allowed: int = Field(description="How many disruptions it allows now. The DaemonSet controller ends pods without asking it.")


class Unseen(_Told):
    """What could not be looked at, so that nothing is said of it."""

    what: str
    reason: str
    message: str
    retryable: bool = Field(default=False, description="Whether asking again may show it.")


class WorkloadImpact(_Told):
    """What a change of labels does to pods: on each node where something happens, and in sum."""

    cluster: str
    starts: int = Field(default=0, description="Pods that DaemonSets start.")
    stops: int = Field(default=0, description="Pods that DaemonSets end.")
    stranded: int = Field(default=0, description="Other pods that run on changed nodes and could not come back there.")
    fits: int = Field(default=0, description="Pending pods that may be placed on nodes where they could not be before.")
    nodes: dict[str, NodeWorkloads] = {}
    daemon_sets: dict[str, DaemonSetChange] = {}
    stranded_pods: list[PodGroup] = Field(default=[], description="By owner, most pods first, the first 100.")
    fitting_pods: list[PodGroup] = Field(default=[], description="By owner, most pods first, the first 100.")
    budgets: dict[str, BudgetTouched] = {}
    unseen: list[Unseen] = []
    not_judged: str = NOT_JUDGED

    @property
    def nothing(self) -> bool:
        """Whether no pod is known to be affected."""
        return not (self.starts or self.stops or self.stranded or self.fits)


def in_words(impact: WorkloadImpact) -> str:
    """One line for people."""
    return "; ".join(_said(impact)) or "no pod starts, ends or is stranded"


def _said(impact: WorkloadImpact) -> Iterator[str]:
    starts, stops = (
        {name: getattr(each, what) for name, each in impact.daemon_sets.items() if getattr(each, what)} for what in ("starts", "stops")
    )
    if stops:
        yield f"DaemonSets end {_pods(impact.stops)} ({_counted(stops)})"
    if starts:
        yield f"DaemonSets start {_pods(impact.starts)} ({_counted(starts)})"
    if impact.stranded:
        yield f"{_pods(impact.stranded)} could not come back"
    if impact.fits:
        yield f"{_pods(impact.fits)} that {'wait' if impact.fits > 1 else 'waits'} may be placed"
    if impact.budgets:
        yield f"PodDisruptionBudgets touched: {', '.join(list(impact.budgets)[:_NAMED])}{_more(len(impact.budgets))}"
    if impact.unseen:
        yield f"not seen: {', '.join(each.what for each in impact.unseen)}"


_NAMED = 3


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"


def _counted(by_name: dict[str, int]) -> str:
    most = sorted(by_name.items(), key=lambda each: (-each[1], each[0]))[:_NAMED]
    return ", ".join(f"{name} on {count}" for name, count in most) + _more(len(by_name))


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""
