"""`hullmark relabel`: ask for nodes to be made true, and tell what became of each."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from ulid import ULID

from local.cli.cloud import SERVER, Working, embedded
from local.cli.inputs import read_value, who
from local.cli.output import ERROR, PARTIAL, STALE, Failure, emit, grid, output_option, talk
from shared.domain.labels.selection import NodeFilter
from shared.domain.names import UPDATE_LABELS, UPDATE_SITE
from shared.ledger.actions import Actions
from shared.messages import RelabelRequest

EXIT = {"success": 0, "partial_success": PARTIAL, "stopped": PARTIAL, "failure": ERROR, "expired": ERROR}


@click.command()
@click.argument("nodes", nargs=-1)
@click.option("--filter", "filter_file", metavar="FILE", help="Nodes that this node filter selects (docs/labels.md).")
@click.option("--all", "everything", is_flag=True, help=f"Every node of the design and of the cluster: the site action {UPDATE_SITE}.")
@click.option("--cluster", help="The cluster, where there are several.")
@click.option("--dry-run", is_flag=True, help="Say what would change and write nothing.")
@click.option("--plan", "plan_file", metavar="FILE", help="Only if the plan that `hullmark plan --out` wrote still holds (else exit 5).")
@click.option("--wait/--no-wait", default=True, help="Wait for the result. The embedded cloud always does.")
@output_option
def relabel(
    nodes: tuple[str, ...],
    filter_file: str | None,
    everything: bool,
    cluster: str | None,
    dry_run: bool,
    plan_file: str | None,
    wait: bool,
    form: str,
) -> int:
    """Make nodes true to the newest committed documents."""
    if plan_file:
        stale = _stale(plan_file)
        if stale:
            click.echo(f"error: the plan in {plan_file} is stale: {stale}; make a new one", err=True)
            if form == "json":
                click.echo(json.dumps({"errors": [{"reason": "StalePlan", "message": stale}]}))
            return STALE
        planned = json.loads(Path(plan_file).read_text())
        cluster = cluster or planned["asked"]["cluster"]
        if not nodes and not filter_file and not everything:
            nodes = tuple(planned["nodes"])
            if not nodes:
                emit(form, {"id": None, "result": "success", "nodes": {}}, lambda: ["the plan holds no change: nothing to do"])
                return 0
    request = build_request(nodes, filter_file, everything, cluster, dry_run)
    answer = run(embedded(), request.action or "", request=request, wait=wait)
    emit(form, answer, lambda: told(answer))
    return exit_code(answer)


def build_request(nodes: tuple[str, ...], filter_file: str | None, everything: bool, cluster: str | None, dry_run: bool) -> RelabelRequest:
    """The message that the arguments mean. Raises Failure where they mean none, or several."""
    if bool(nodes) + bool(filter_file) + everything != 1:
        raise Failure("Usage", "say which nodes: names, --filter FILE, or --all (one of them)")
    names = list(dict.fromkeys(name.strip() for given in nodes for name in given.split(",") if name.strip()))
    if nodes and not names:
        raise Failure("Usage", "the arguments name no node")
    return RelabelRequest(
        action=str(ULID()),
        name=UPDATE_SITE if everything else UPDATE_LABELS,
        target_nodes=names or None,
        node_filter=read_filter(filter_file) if filter_file else None,
        cluster=cluster,
        requested_by=who(),
        dry_run=dry_run,
    )


def read_filter(file: str) -> NodeFilter | None:
    """A node filter from a YAML or JSON file, `-` for standard input; null means every node. Raises Failure, and DocumentsRefused for
    what is no YAML.
    """
    found = read_value(file)
    try:
        return NodeFilter.model_validate(found) if found is not None else None
    except ValidationError as error:
        listed = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'filter'}: {e['msg']}" for e in error.errors(include_url=False))
        raise Failure("Invalid", f"{file}: not a node filter: {listed}") from error


def run(cloud: Working, action: str, *, request: RelabelRequest | None = None, resume: bool = False, wait: bool = True) -> dict[str, Any]:
    """Submit a request and see it through to its end, with a progress bar on a terminal. Without `wait` only a server lets it go on."""
    if request:
        action = cloud.submit(request)
    if resume:
        cloud.resume(action)
    if not wait and os.environ.get(SERVER):
        return answer_of(action, cloud.world.actions)
    if talk().is_terminal:
        _drain_with_a_bar(cloud, action)
    else:
        cloud.drain()
    return answer_of(action, cloud.world.actions)


def _drain_with_a_bar(cloud: Working, action: str) -> None:
    ledger = cloud.world.actions
    worker = threading.Thread(target=cloud.drain)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("nodes"), TimeElapsedColumn())
    with Progress(*columns, console=talk(), transient=True) as bar:
        task = bar.add_task("reading the cluster", total=None)
        worker.start()
        while worker.is_alive():
            worker.join(0.1)
            plan = ledger.plan(action)
            if plan:
                done = ledger.recorded(action)
                settled = len(plan.unchanged) + len(plan.settled)
                applied = sum(len(names) for number, names in enumerate(plan.parts, 1) if number in done)
                total = settled + sum(map(len, plan.parts))
                bar.update(task, description="applying", completed=settled + applied, total=total)


def answer_of(action: str, ledger: Actions) -> dict[str, Any]:
    """`{"id", "result", "nodes"}` of docs/command-line.md, with counts and the revision."""
    outcome = ledger.outcome(action)
    if outcome is None:
        return {"id": action, "result": None, "lifecycle": ledger.lifecycle(action), "nodes": {}}
    nodes: dict[str, Any] = {
        name: {"outcome": "unchanged", "reason": "", "changes": {"set": {}, "remove": []}} for name in outcome.unchanged
    }
    for told_of in outcome.outcomes:
        changes = told_of.changes.model_dump() if told_of.changes else {"set": {}, "remove": []}
        nodes[told_of.subject] = {
            "outcome": told_of.outcome,
            "reason": told_of.reason,
            "message": told_of.message,
            "retryable": told_of.retryable,
            "changes": changes,
        }
    return {
        "id": action,
        "result": outcome.result,
        "reason": outcome.reason,
        "message": outcome.message,
        "revision": outcome.revision,
        "counts": outcome.counts,
        "nodes": dict(sorted(nodes.items())),
    }


def told(answer: Mapping[str, Any]) -> Iterable[Any]:
    """The answer for people: what changed and why, then one line that sums it up."""
    rows = [
        (name, node["outcome"], change_text(node["changes"]), " ".join(filter(None, (node["reason"], node.get("message", "")))))
        for name, node in answer["nodes"].items()
        if node["outcome"] != "unchanged"
    ]
    if rows:
        yield grid(("node", "outcome", "changes", "reason"), rows)
    counts = ", ".join(f"{number} {kind}" for kind, number in answer.get("counts", {}).items()) or "no nodes"
    yield f"action {answer['id']}: {answer['result'] or answer.get('lifecycle')} ({counts})" + (
        f": {answer['message']}" if answer.get("message") else ""
    )


def change_text(changes: Mapping[str, Any]) -> str:
    """`rack=r7 -old`: what is set, and what goes, as `kubectl label` would be told."""
    return " ".join([*(f"{key}={value}" for key, value in sorted(changes["set"].items())), *(f"{key}-" for key in changes["remove"])])


def exit_code(answer: Mapping[str, Any]) -> int:
    """0 done, 1 failure, 3 where a part of the nodes failed."""
    return EXIT.get(str(answer["result"]), 0 if answer["result"] is None else ERROR)


def _stale(plan_file: str) -> str:
    """Why the plan in the file no longer holds; empty where it does."""
    from local.cli.plan import compute

    try:
        kept = json.loads(Path(plan_file).read_text())
        revision, planned = kept["revision"], dict(kept["nodes"])
        asked = {name: kept["asked"][name] for name in ("cluster", "server_version", "target", "filter_file")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failure("Invalid", f"{plan_file}: not a plan of `hullmark plan --out`: {error}") from error
    fresh = compute(files=(), nodes_file=None, **asked)  # what a relabel goes by: the committed documents, the cluster itself
    if revision and fresh["revision"] != revision:
        return f"it was made for revision {revision}, the newest is {fresh['revision']}"
    differing = sorted(name for name in {*planned, *fresh["nodes"]} if planned.get(name) != fresh["nodes"].get(name))
    return f"other changes are due now on {', '.join(differing[:5])}" if differing else ""
