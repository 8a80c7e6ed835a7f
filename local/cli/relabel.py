"""`hullmark relabel`: relabel nodes, and report the outcome of every node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from typing import Any

import click
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from ulid import ULID

from local.cli.cloud import service
from local.cli.clusters import cluster_options, clusters_asked, several
from local.cli.completion import node_names
from local.cli.inputs import accept_options, read_bytes, read_filter, who
from local.cli.output import BLOCKED, ERROR, PARTIAL, STALE, Failure, emit, grid, grouped, output_option_and, talk
from local.cli.service import ActionSummary, Ledger
from shared.domain.actions import ActionOutcome
from shared.domain.labels.bound import STALE_PLAN
from shared.domain.labels.impact import Accepting
from shared.domain.labels.plans import LabelPlan
from shared.domain.names import UPDATE_LABELS, UPDATE_SITE
from shared.messages import RelabelRequest

PLAN_BYTES = 256 << 20
"""Of a plan's file: 100,000 nodes and more."""
LOOK = 0.1
"""Seconds between two looks at how far an action is."""
EXIT = {"success": 0, "blocked": BLOCKED, "partial_success": PARTIAL, "stopped": PARTIAL, "failure": ERROR, "expired": ERROR}


@click.command()
@click.argument("nodes", nargs=-1, shell_complete=node_names)
@click.option("--filter", "filter_file", metavar="FILE", help="Nodes that this filter selects (docs/labels.md).")
@click.option("--all", "everything", is_flag=True, help=f"Every node of the design and of the cluster: the site action {UPDATE_SITE}.")
@cluster_options
@click.option("--dry-run", is_flag=True, help="Show what would change; write nothing.")
@click.option("--plan", "plan_file", metavar="FILE", help="Apply this plan of `hullmark plan --out`; exit 5 if it is out of date.")
@accept_options
@click.option("--adopt", is_flag=True, help="Remove labels under our field manager too that no release of this store declared.")
@click.option("--supersede", is_flag=True, help="With --all or --filter: take the place of a rollout that is not finished.")
@click.option("--wait/--no-wait", default=True, help="Wait for the result. The embedded cloud always does.")
@output_option_and("name", "wide")
def relabel(
    nodes: tuple[str, ...],
    filter_file: str | None,
    everything: bool,
    cluster: str | None,
    cluster_labels: str | None,
    all_clusters: bool,
    dry_run: bool,
    plan_file: str | None,
    adopt: bool,
    supersede: bool,
    wait: bool,
    form: str,
    **accepting: int | None,
) -> int:
    """Bring nodes in sync with the newest committed documents."""
    request: RelabelRequest | None
    if plan_file:
        if filter_file or everything or supersede:
            raise Failure("Usage", "--plan says which nodes: leave --filter, --all and --supersede out")
        cluster = _cluster_of_plan(plan_file, cluster, cluster_labels, all_clusters)
        if (request := bound_request(plan_file, nodes, cluster, dry_run, Accepting(**accepting), adopt=adopt)) is None:
            emit(form, {"id": None, "result": "success", "nodes": {}}, lambda: ["the plan contains no changes: nothing to do"])
            return 0
    else:
        where = clusters_asked(cluster, cluster_labels, all_clusters)
        request = build_request(nodes, filter_file, everything, where, dry_run, Accepting(**accepting), adopt=adopt, supersede=supersede)
    ledger = service().ledger
    with if_interrupted(
        "`hullmark actions list` shows whether the action was recorded; if so it continues; follow it with `actions watch`"
    ):
        action = ledger.submit(request)
    return follow(ledger, action, form, wait=wait)


def build_request(
    nodes: tuple[str, ...],
    filter_file: str | None,
    everything: bool,
    where: Mapping[str, Any],
    dry_run: bool,
    accept: Accepting,
    *,
    adopt: bool = False,
    supersede: bool = False,
) -> RelabelRequest:
    """The message that the arguments mean; `where`: its cluster or clusters. Raises Failure where they mean none, or several."""
    if bool(nodes) + bool(filter_file) + everything != 1:
        raise Failure("Usage", "choose nodes by name, with --filter FILE, or with --all")
    names = _named(nodes)
    if nodes and not names:
        raise Failure("Usage", "the arguments name no nodes")
    if names and supersede:
        raise Failure("Usage", "nodes that are named pass beside a rollout: leave --supersede out")
    if names and "clusters" in where:
        raise Failure("Usage", "nodes are named in one cluster: give --cluster NAME, or choose them with --filter FILE")
    return RelabelRequest(
        action=str(ULID()),
        name=UPDATE_SITE if everything else UPDATE_LABELS,
        target_nodes=names or None,
        node_filter=read_filter(filter_file) if filter_file else None,
        requested_by=who(),
        dry_run=dry_run,
        adopt=adopt,
        supersede=supersede,
        **where,
        **accept.accepting(),
    )


def _named(nodes: Sequence[str]) -> list[str]:
    """The arguments' nodes: one each, or several with commas."""
    return list(dict.fromkeys(name.strip() for given in nodes for name in given.split(",") if name.strip()))


def bound_request(
    file: str, nodes: tuple[str, ...], cluster: str | None, dry_run: bool, accept: Accepting, *, adopt: bool = False
) -> RelabelRequest | None:
    """The message that a plan's file means, or some of its nodes; None where it has no changes. Raises Failure for what is not in it."""
    plan, names = _kept_plan(file), _named(nodes)
    if beyond := sorted(set(names) - plan.nodes.keys()):
        raise Failure("Usage", f"{file} has no changes for {', '.join(beyond)}: --plan writes what the plan says and nothing else")
    if cluster and cluster != plan.cluster:
        raise Failure("Usage", f"{file} is a plan for cluster {plan.cluster}, not for {cluster}")
    if not plan.nodes:
        return None
    asked = {"action": str(ULID()), "requested_by": who(), "dry_run": dry_run, "adopt": adopt, **accept.accepting()}
    try:
        return RelabelRequest.model_validate({**asked, "plan": plan.bound(names or plan.nodes)})
    except ValidationError as error:
        raise Failure("Invalid", f"{file}: {error.errors(include_url=False)[0]['msg'].removeprefix('Value error, ')}") from error


def follow(ledger: Ledger, action: str, form: str, *, wait: bool = True) -> int:
    """See an action through to its end, with a progress bar on a terminal; tell how it ended. The exit code.

    Without `wait` only a server lets it go on; the embedded cloud works while the command runs.
    """
    if wait or not ledger.runs_by_itself:
        with if_interrupted(f"action {action} continues {ledger.goes_on}; follow it with `hullmark actions watch {action}`"):
            if talk().is_terminal:
                _wait_with_a_bar(ledger, action)
            else:
                ledger.wait(action)
    answer = answer_of(action, ledger)
    if answer.get("reason") == STALE_PLAN:
        click.echo(f"error: {answer['message']}", err=True)
        answer["errors"] = [{"reason": STALE_PLAN, "message": answer["message"]}]
    emit(form, answer, lambda: result_lines(answer, every=form == "wide"), answer["nodes"])
    return exit_code(answer)


@contextmanager
def if_interrupted(hint: str) -> Iterator[None]:
    """Where Ctrl-C ends what is done here, say how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"interrupted: {hint}", err=True)
        raise


def _wait_with_a_bar(ledger: Ledger, action: str) -> None:
    of = TextColumn("clusters" if ledger.summary(action).clusters else "nodes")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), of, TimeElapsedColumn())
    with ThreadPoolExecutor(1) as worker, Progress(*columns, console=talk(), transient=True) as bar:
        task = bar.add_task("reading the cluster", total=None)
        waiting = worker.submit(ledger.wait, action)
        try:
            while not wait_for([waiting], timeout=LOOK).done:
                if progress := ledger.progress(action):
                    bar.update(task, description="applying", completed=progress.done, total=progress.total)
        except BaseException:
            ledger.leave()  # else the worker would be waited for
            raise
        waiting.result()


def answer_of(action: str, ledger: Ledger) -> dict[str, Any]:
    """`{"id", "result", "nodes"}`, with counts, the revision, and whether it was a dry run. Over several clusters `nodes` are those of all
    of them, by `CLUSTER/NODE`, and `clusters` says how each ended; counts are of clusters.
    """
    summary = ledger.summary(action)
    outcome = ledger.outcome(action)
    answer = _answer_of(summary, outcome)
    return answer | several(ledger, action, outcome, answer_of) if summary.clusters else answer


def _answer_of(summary: ActionSummary, outcome: ActionOutcome | None) -> dict[str, Any]:
    action = summary.id
    if outcome is None:
        return {"id": action, "result": None, "lifecycle": summary.lifecycle, "dry_run": summary.dry_run, "nodes": {}}
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
        "dry_run": summary.dry_run,
        "counts": outcome.counts,
        "nodes": dict(sorted(nodes.items())),
    } | ({"impact": outcome.impact.model_dump()} if outcome.impact else {})


def result_lines(answer: Mapping[str, Any], *, every: bool = False) -> Iterable[Any]:
    """The answer for people: what changed and why, then one line that sums it up."""
    words = {"changed": "would change"} if answer.get("dry_run") else {}
    rows = [
        (
            name,
            words.get(node["outcome"], node["outcome"]),
            change_text(node["changes"]),
            " ".join(filter(None, (node["reason"], node.get("message", "")))),
        )
        for name, node in answer["nodes"].items()
        if node["outcome"] != "unchanged"
    ]
    if clusters := answer.get("clusters"):
        ended = [(name, row["outcome"] or "not ended", f"{row['reason']} {row['message']}".strip()) for name, row in clusters.items()]
        yield grid(("cluster", "outcome", "reason"), [(name, words.get(outcome, outcome), why) for name, outcome, why in ended])
    if rows:
        columns = ("node", "outcome", "changes", "reason")
        yield from [grid(columns, rows)] if every else grouped(columns, rows, (1, 2, 3))
    counts = {words.get(kind, kind): number for kind, number in answer.get("counts", {}).items()}
    result, which = answer["result"] or str(answer.get("lifecycle")), f"{answer['id']}{' (dry run)' if answer.get('dry_run') else ''}"
    yield ended_line(which, result, counts, answer.get("message", ""), "clusters" if "clusters" in answer else "")


def ended_line(action: str, result: str, counts: Mapping[str, int], message: str, of: str = "") -> str:
    """How an action ended, in one line."""
    none = "nothing was written" if result == "blocked" else "no nodes"
    counted = ", ".join(f"{number} {kind}" for kind, number in counts.items()) or none
    counted += f" of {sum(counts.values())} {of}" if of and counts else ""
    return f"action {action}: {result} ({counted})" + (f": {message}" if message else "")


def change_text(changes: Mapping[str, Any]) -> str:
    """`rack=r7 -old`: what is set, and what goes, as `kubectl label` would be told."""
    return " ".join([*(f"{key}={value}" for key, value in sorted(changes["set"].items())), *(f"{key}-" for key in changes["remove"])])


def exit_code(answer: Mapping[str, Any]) -> int:
    """0 done, 1 failure, 3 where a part of the nodes failed, 4 where it was blocked, 5 where its plan is stale."""
    if answer.get("reason") == STALE_PLAN:
        return STALE
    return EXIT.get(str(answer["result"]), 0 if answer["result"] is None else ERROR)


def _cluster_of_plan(file: str, cluster: str | None, labels: str | None, every: bool) -> str | None:
    """A plan is for one cluster. Raises Failure where several are asked for."""
    if labels is not None or every or (cluster and "," in cluster):
        raise Failure("Usage", f"the plan in {file} is for one cluster: leave --cluster-labels and --all-clusters out")
    return cluster


def _kept_plan(file: str) -> LabelPlan:
    """The plan in a file of `hullmark plan --out`. Raises Failure."""
    try:
        return LabelPlan.model_validate(json.loads(read_bytes(file, PLAN_BYTES)))
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]
        if flaw["loc"][-1:] == ("from",) and flaw["type"] == "missing":
            how = "an earlier version of hullmark made this plan, and it does not say what would be replaced"
            raise Failure("Invalid", f"{file}: {how}: make a new one with `hullmark plan --out`") from error
        where = ".".join(map(str, flaw["loc"]))
        raise Failure("Invalid", f"{file}: not a plan from `hullmark plan --out`: {where or 'it'}: {flaw['msg']}") from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise Failure("Invalid", f"{file}: not a plan from `hullmark plan --out`: {error}") from error
