"""What changes of labels do to pods, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from local.cli.output import grid
from shared.domain.workloads.impact import NodeWorkloads, PodGroup, WorkloadImpact, in_words


def node_lines(impact: WorkloadImpact) -> Iterable[Any]:
    """What happens on each node."""
    if impact.nodes:
        yield grid(("node", "what happens to pods"), [(name, "; ".join(_on(node))) for name, node in impact.nodes.items()])


def sum_lines(impact: WorkloadImpact) -> Iterable[Any]:
    """What happens in sum, what could not be seen, and what is not judged."""
    if impact.daemon_sets:
        rows = [(name, str(each.starts), str(each.stops)) for name, each in impact.daemon_sets.items()]
        yield grid(("daemonset", "starts on", "ends on"), rows)
    if impact.stranded_pods:
        yield _groups(("pods that could not come back", "pods", "nodes", "other nodes that fit"), impact.stranded_pods)
    if impact.fitting_pods:
        yield _groups(("pending pods that may be placed", "pods", "newly fitting nodes", "other nodes that fit"), impact.fitting_pods)
    if impact.budgets:
        rows = [(name, str(each.pods), str(each.allowed)) for name, each in impact.budgets.items()]
        yield grid(("poddisruptionbudget", "pods affected", "disruptions allowed"), rows)
    for each in impact.unseen:
        yield f"{each.what} could not be looked at ({each.reason}): {each.message}"
    yield f"pods: {in_words(impact)} ({impact.not_judged})"


def _on(node: NodeWorkloads) -> Iterator[str]:
    if node.stops:
        yield f"ends {', '.join(node.stops)}"
    if node.starts:
        yield f"starts {', '.join(node.starts)}"
    if node.stranded:
        yield f"{node.stranded} running pod{'s' if node.stranded > 1 else ''} could not come back"
    if node.fits:
        yield f"{node.fits} pending pod{'s' if node.fits > 1 else ''} may be placed"


def _groups(columns: tuple[str, ...], groups: Sequence[PodGroup]) -> Any:
    rows = [(f"{each.namespace} {each.owner or each.examples[0]}", str(each.pods), str(each.nodes), str(each.elsewhere)) for each in groups]
    return grid(columns, rows)
