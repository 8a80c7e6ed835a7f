"""`hullmark plan`: what a relabel would change, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from local.cli.cloud import service
from local.cli.impact import node_lines, sum_lines
from local.cli.inputs import LISTING_BYTES, ListedNodes, documents_option, read_bytes, read_files, read_filter
from local.cli.output import BLOCKED, PENDING, Failure, emit, grid, grouped, output_option_and
from local.cli.stages import at
from shared.domain.documents.reading import Source, read_nodes
from shared.domain.labels.plans import LabelPlan, NodePlan, PlanRequest
from shared.domain.labels.selection import names_listed
from shared.domain.site import DeclaredSite, Site, load
from shared.work.plans import plan_nodes
from shared.world import Settings


@click.command()
@documents_option
@click.option("--nodes", "nodes_file", metavar="FILE", help="`kubectl get nodes -o json --show-managed-fields`, in place of a cluster.")
@click.option("--cluster", help="The cluster, if there are several.")
@click.option("--server-version", metavar="V", help="The cluster's version. Default: the API server's, else that of the oldest kubelet.")
@click.option("--target", metavar="N1,N2", help="Only these nodes, comma-separated.")
@click.option("--filter", "filter_file", metavar="FILE", help="Only nodes that this filter selects (docs/labels.md).")
@click.option("--released", is_flag=True, help="Drift alone: each node against what is released to it, not the newest revision.")
@click.option("--adopt", is_flag=True, help="Plan what `hullmark relabel --adopt` would do.")
@click.option("--impact", is_flag=True, help="Say what the changes do to pods, too (docs/impact.md).")
@click.option("--summary", is_flag=True, help="How many nodes each key changes on, in place of the nodes.")
@click.option("--out", metavar="FILE", help="Save the plan for `hullmark relabel --plan FILE`.")
@output_option_and("name", "wide", "markdown")
def plan(
    files: tuple[str, ...],
    nodes_file: str | None,
    cluster: str | None,
    server_version: str | None,
    target: str | None,
    filter_file: str | None,
    released: bool,
    adopt: bool,
    impact: bool,
    summary: bool,
    out: str | None,
    form: str,
) -> int:
    """Show what would change on which node, and why. Without -f: for the newest committed revision, released or not.

    `-o markdown` is a comment for a pull request: removals first, by change, with the nodes folded.

    Exit code 2: changes are pending; 4: none are, but a node can't be brought in sync.
    """
    if released and (files or nodes_file or server_version):
        raise Failure("Usage", "--released compares clusters with what is released to them: leave -f, --nodes and --server-version out")
    if impact and nodes_file:
        raise Failure("Usage", "--impact looks at a cluster's pods: leave --nodes out")
    asked = _asked(target, filter_file, cluster, server_version, released, adopt).model_copy(update={"workloads": impact})
    listed = _listed(nodes_file) if nodes_file else None
    planned = _planned(asked, files, listed)
    answer = planned.model_dump(mode="json")
    if out:
        Path(out).write_text(json.dumps(answer, indent=2) + "\n")
    if form == "markdown":
        from local.cli.markdown import plan_markdown

        click.echo("\n".join(plan_markdown(planned)))
    elif summary:
        emit(form, planned.summary(), lambda: _summary_lines(planned), planned.nodes)
    else:
        emit(form, answer, lambda: _plan_lines(planned, every=form == "wide"), planned.nodes)
    if planned.beyond:
        click.echo(f"warning: beyond the limits: {planned.beyond.message}; a relabel of these nodes is blocked without it", err=True)
    if listed and listed.ownerless:
        hidden = "what Hullmark owns and would remove, and from whom it would take what"
        note = f"note: {nodes_file} has no managedFields, so {hidden}, can't be seen in it"
        click.echo(note, err=True)
    if planned.nodes:
        return PENDING
    return BLOCKED if planned.failing else 0


def _asked(
    target: str | None, filter_file: str | None, cluster: str | None, server_version: str | None, released: bool, adopt: bool
) -> PlanRequest:
    """Which nodes the options mean. Raises Failure."""
    if target is not None and filter_file:
        raise Failure("Usage", "give --target or --filter, not both")
    if target is not None and not names_listed(target):
        raise Failure("UnknownNode", "--target names no nodes")
    node_filter = read_filter(filter_file) if filter_file else None
    everything = target is None and node_filter is None
    which = {"target_nodes": target, "node_filter": node_filter, "all": everything, "cluster": cluster}
    return PlanRequest.model_validate({**which, "server_version": server_version, "released": released, "adopt": adopt})


def _listed(file: str) -> ListedNodes:
    return ListedNodes(read_nodes(Source(file, read_bytes(file, LISTING_BYTES))), Settings.from_environment().field_managers)


def _planned(asked: PlanRequest, files: Sequence[str], listed: ListedNodes | None) -> LabelPlan:
    """The plan: made where the committed documents and the clusters are, or here for files in place of either."""
    if not files and listed is None:
        return service().plans.committed(asked)
    declared = DeclaredSite(None, load(read_files(files))) if files else service().documents.declared()
    if listed is None and declared:
        return service().plans.documents(asked, declared)
    declared = declared or DeclaredSite(None, Site())  # neither files nor a revision: the aliases alone
    clusters = sorted(declared.policies.clusters)
    name = asked.cluster or (clusters[0] if len(clusters) == 1 else "default")
    return plan_nodes(asked, declared, listed or ListedNodes([], Settings.from_environment().field_managers), name)


def _plan_lines(plan: LabelPlan, *, every: bool) -> Iterable[Any]:
    columns = ("node", "change", "last written" if plan.released else "why")
    rows = [
        (name, str(change), last_written(node, change.key) if plan.released else node.reasons.get(change.key, ""))
        for name, node in plan.nodes.items()
        for change in node.by_key
    ]
    rows += [(name, f"taint {taint}-", "its labels are there with it") for name, node in plan.nodes.items() for taint in node.untaint]
    if rows:
        yield from [grid(columns, rows)] if every else grouped(columns, rows, (1, 2))
    stays = [(name, why.reason, why.message) for name, why in plan.blocked.items()]
    stays += [(name, "Conflict", node.conflict) for name, node in plan.nodes.items() if node.conflict]
    if stays:
        yield grid(("node", "reason", "message"), sorted(stays))
    if plan.missing:
        yield f"declared but not in cluster {plan.cluster}: {', '.join(plan.missing)}"
    if plan.workloads:
        yield from node_lines(plan.workloads)
    yield from _ending(plan)


def last_written(node: NodePlan, key: str) -> str:
    """When the holders of a drifted label last wrote; empty where nobody recorded it."""
    there = node.from_.get(key)
    return at(there.at) if there and there.at else ""


def _summary_lines(plan: LabelPlan) -> Iterable[Any]:
    """How many nodes each key changes on, and why others stay as they are: what a plan of thousands of nodes comes to."""
    if keys := plan.keys():
        columns = ("key", "set", "removed", "taken over")
        yield grid(columns, [(key, str(count.set), str(count.remove), str(count.takeovers)) for key, count in keys.items()])
    stays = Counter((why.outcome, why.reason) for why in plan.blocked.values())
    if stays:
        yield grid(("nodes", "outcome", "reason"), [(str(number), *why) for why, number in sorted(stays.items())])
    yield from _ending(plan)


def _ending(plan: LabelPlan) -> Iterable[str]:
    """What happens to pods, and what waits; then, last, the counts."""
    if plan.workloads:
        yield from sum_lines(plan.workloads)
    if plan.waits:
        how = "`hullmark plan` shows what it would change" if plan.released else "`hullmark relabel` releases it"
        yield f"{plan.waits} to cluster {plan.cluster}; {how}"
    yield _counts(plan)


def _counts(plan: LabelPlan) -> str:
    counts = [(len(plan.nodes), "to change"), (plan.unchanged, "unchanged"), (len(plan.missing), "missing"), (plan.failing, "blocked")]
    if skipped := len(plan.blocked) - plan.failing:
        counts.append((skipped, "left to others"))
    if plan.unreleased:
        counts.append((plan.unreleased, "unreleased"))
    if taken := {key: count.takeovers for key, count in plan.keys().items() if count.takeovers}:
        total = sum(taken.values())
        counts.append((total, f"takeover{'s' if total > 1 else ''} ({', '.join(taken)})"))
    return ", ".join(f"{number} {what}" for number, what in counts)
