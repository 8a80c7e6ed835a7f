"""`hullmark nodes`: what is released to each node, whether it is in sync, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import click

from local.cli.cloud import service
from local.cli.completion import node_names
from local.cli.output import Failure, counted, emit, grid, grouped, output_option_and
from shared.domain.labels.node_states import NodesRequest, NodeState, NodeStates
from shared.domain.labels.selection import names_listed


@click.command()
@click.argument("names", nargs=-1, shell_complete=node_names)
@click.option("--cluster", help="The cluster, if there are several.")
@click.option("--out-of-sync", is_flag=True, help="Only nodes that are out of sync.")
@click.option("--labels", is_flag=True, help="Show every label with who holds it, too; JSON always has them.")
@output_option_and("name", "wide")
def nodes(names: tuple[str, ...], cluster: str | None, out_of_sync: bool, labels: bool, form: str) -> None:
    """Show what is released to each node, whether it is in sync, and why not.

    Sweeps and events bring nodes to their release, never further: a newer revision waits until somebody relabels.
    """
    wanted = names_listed(",".join(names))
    if names and not wanted:
        raise Failure("Usage", "the arguments name no nodes")
    states = service().nodes.states(NodesRequest(names=wanted, cluster=cluster, out_of_sync=out_of_sync))
    answer = states.model_dump(mode="json", exclude={"next"})
    emit(form, answer, lambda: lines(states, labels=labels, wide=form == "wide"), states.nodes)


def lines(states: NodeStates, *, labels: bool, wide: bool = False) -> Iterable[Any]:
    """The nodes for people, and one line that sums them up. `wide` adds every label, as `kubectl get nodes --show-labels` does."""
    if states.nodes:
        rows = [(*_row(name, state), *((_labels(state),) if wide else ())) for name, state in states.nodes.items()]
        columns = ("node", "release", "in sync", "reason", *(("labels",) if wide else ()))
        yield from [grid(columns, rows)] if wide else grouped(columns, rows, (1, 2, 3))
    for name, state in states.nodes.items() if labels else ():
        yield grid(
            ("label", "value", "held by"),
            [(key, value, ", ".join(state.holders.get(key, ()))) for key, value in state.labels.items()],
            name,
        )
    yield summary(states)


def _row(name: str, state: NodeState) -> tuple[str, str, str, str]:
    why = ": ".join(filter(None, (state.reason, state.message)))
    return name, str(state.release), "yes" if state.in_sync else "no", why


def _labels(state: NodeState) -> str:
    return ",".join(f"{key}={value}" for key, value in state.labels.items())


def summary(states: NodeStates) -> str:
    """How many there are, and how many of them are not as they should be."""
    counts = Counter(state.reason for state in states.nodes.values() if state.reason)
    told = "".join(f", {count} {reason}" for reason, count in sorted(counts.items()))
    in_sync = sum(state.in_sync for state in states.nodes.values())
    return f"cluster {states.cluster}: {counted(len(states.nodes), 'node')}, {in_sync} in sync{told}"
