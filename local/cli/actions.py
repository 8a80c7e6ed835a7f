"""`hullmark actions`: what was asked, where it stands, how it ended."""

from __future__ import annotations

from typing import Any

import click
from ulid import ULID

from local.cli.cloud import embedded
from local.cli.inputs import now_option, who
from local.cli.output import Failure, emit, grid, output_option
from local.cli.relabel import answer_of, exit_code, run, told
from shared.ledger.actions import Actions, UnknownAction, WrongState
from shared.messages import RelabelRequest


@click.group()
def actions() -> None:
    """List, show, watch, stop and retry actions."""


@actions.command("list")
@click.option("--limit", default=20, show_default=True, help="The newest so many.")
@output_option
def list_actions(limit: int, form: str) -> None:
    """The newest actions."""
    ledger = embedded().world.actions
    rows = [_row(ledger, action) for action in ledger.ids(limit=limit) if ledger.find(action)]
    columns = ("id", "name", "cluster", "lifecycle", "result", "requested_by", "requested_at")
    emit(
        form,
        {"actions": rows},
        lambda: [grid(columns, [[str(row[c] or "") for c in columns] for row in rows]) if rows else "no actions yet"],
    )


def _row(ledger: Actions, action: str) -> dict[str, Any]:
    request, outcome = ledger.request(action), ledger.outcome(action)
    return {
        "id": action,
        "name": request.name,
        "cluster": request.cluster,
        "revision": request.revision,
        "lifecycle": ledger.lifecycle(action),
        "result": outcome.result if outcome else None,
        "requested_by": request.requested_by,
        "requested_at": request.requested_at.isoformat(timespec="seconds"),
    }


@actions.command()
@click.argument("action")
@output_option
def show(action: str, form: str) -> None:
    """One action with the outcome of every node."""
    _known(action)
    ledger = embedded().world.actions
    answer = answer_of(action, ledger) | _row(ledger, action)
    emit(form, answer, lambda: [grid(("field", "value"), [(k, str(v or "")) for k, v in _row(ledger, action).items()]), *told(answer)])


@actions.command()
@click.argument("action")
@output_option
def watch(action: str, form: str) -> int:
    """Wait for an action to end; one that an earlier process left open goes on."""
    _known(action)
    cloud = embedded()
    answer = run(cloud, action, resume=cloud.world.actions.outcome(action) is None)
    emit(form, answer, lambda: told(answer))
    return exit_code(answer)


@actions.command()
@click.argument("action")
@now_option
@output_option
def stop(action: str, now: Any, form: str) -> None:
    """Stop an action: parts that were not applied yet are left alone."""
    _known(action)
    cloud = embedded()
    try:
        cloud.control(action, "stop", who(), now)
    except WrongState as wrong:
        raise Failure("WrongState", str(wrong)) from wrong
    cloud.resume(action)
    cloud.drain()
    emit(form, _row(cloud.world.actions, action), lambda: [f"action {action}: stop asked for"])


@actions.command()
@click.argument("action")
@output_option
def retry(action: str, form: str) -> int:
    """A new action on the nodes of this one that failed."""
    _known(action)
    cloud = embedded()
    outcome = cloud.world.actions.outcome(action)
    if outcome is None or not outcome.unsuccessful:
        state = cloud.world.actions.lifecycle(action)
        raise Failure("WrongState", f"action {action} is {state} and has no failed node to retry")
    request = cloud.world.actions.request(action)
    again = RelabelRequest(
        action=str(ULID()), cluster=request.cluster, target_nodes=outcome.unsuccessful, requested_by=who(), retry_of=action
    )
    answer = run(cloud, again.action or "", request=again)
    emit(form, answer, lambda: told(answer))
    return exit_code(answer)


def _known(action: str) -> None:
    try:
        embedded().world.actions.request(action)
    except UnknownAction as unknown:
        raise Failure("UnknownAction", f"{unknown}; `hullmark actions list` shows those there are") from unknown
