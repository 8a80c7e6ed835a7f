"""`hullmark actions`: what was asked, where it stands, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click

from local.cli.cloud import service
from local.cli.completion import action_ids
from local.cli.inputs import accept_options, age, record_now_option, right_now
from local.cli.output import emit, grid, output_option, output_option_and
from local.cli.relabel import answer_of, follow, result_lines
from local.cli.service import ActionSummary
from shared.domain.clusters import in_words
from shared.domain.labels.impact import Accepting


@click.group()
def actions() -> None:
    """List, show and watch actions; stop, pause, unpause and retry them."""


@actions.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@output_option_and("name", "wide")
def list_actions(limit: int, form: str) -> None:
    """List the newest actions, the newest first; -o json has the oldest first."""
    listed = service().ledger.newest(limit)
    answer = {"actions": [action.model_dump(mode="json") for action in listed]}
    emit(form, answer, lambda: _table(listed[::-1], right_now(), wide=form == "wide"), [action.id for action in listed[::-1]])


def _table(listed: Sequence[ActionSummary], now: datetime, *, wide: bool) -> Iterable[Any]:
    """In 80 columns unless names are long; `wide` adds who asked, when exactly, and for which revision."""
    if not listed:
        yield "no actions yet"
        return
    more = ("lifecycle", "revision", "requested_by", "requested_at") if wide else ()
    yield grid(("id", "name", "cluster", "result", "age", *more), [_row(action, now, more) for action in listed])


def _row(action: ActionSummary, now: datetime, more: Sequence[str]) -> list[str]:
    kept = action.model_dump(mode="json")
    name = f"{action.name} (dry run)" if action.dry_run else action.name
    where = in_words(action.clusters) if action.clusters else action.cluster
    return [action.id, name, where, action.result or action.lifecycle, age(action.requested_at, now), *(str(kept[key]) for key in more)]


@actions.command()
@click.argument("action", shell_complete=action_ids)
@output_option_and("name", "wide")
def show(action: str, form: str) -> None:
    """Show an action with the outcome of every node."""
    ledger = service().ledger
    row = ledger.summary(action).model_dump(mode="json")
    answer = answer_of(action, ledger)
    emit(
        form,
        row | answer,
        lambda: [
            grid(("field", "value"), [(k, ", ".join(v) if isinstance(v, list) else str(v or "")) for k, v in row.items()]),
            *result_lines(answer, every=form == "wide"),
        ],
        answer["nodes"],
    )


@actions.command()
@click.argument("action", shell_complete=action_ids)
@output_option_and("name", "wide")
def watch(action: str, form: str) -> int:
    """Wait for an action to end; resume it if the process that ran it is gone."""
    ledger = service().ledger
    ledger.summary(action)
    return follow(ledger, action, form)


@actions.command()
@click.argument("action", shell_complete=action_ids)
@record_now_option
@output_option
def stop(action: str, now: datetime, form: str) -> None:
    """Stop an action: nodes not yet written are left alone."""
    ledger = service().ledger
    ledger.control(action, "stop", now)
    ledger.wait(action)
    _emit(form, ledger.summary(action), "stop requested")


@actions.command()
@click.argument("action", shell_complete=action_ids)
@record_now_option
@output_option
def pause(action: str, now: datetime, form: str) -> None:
    """Pause an action: nodes not yet written wait for `unpause`."""
    ledger = service().ledger
    ledger.control(action, "pause", now)
    _emit(form, ledger.summary(action), "paused")


@actions.command()
@click.argument("action", shell_complete=action_ids)
@record_now_option
@output_option_and("name", "wide")
def unpause(action: str, now: datetime, form: str) -> int:
    """Resume a paused action and wait for it to end."""
    ledger = service().ledger
    ledger.control(action, "unpause", now)
    return follow(ledger, action, form)


@actions.command()
@click.argument("action", shell_complete=action_ids)
@accept_options
@output_option_and("name", "wide")
def retry(action: str, form: str, **accepting: int | None) -> int:
    """Start a new action on the nodes that failed in this one, or on all of them if it was blocked."""
    ledger = service().ledger
    return follow(ledger, ledger.retry(action, Accepting(**accepting)), form)


def _emit(form: str, summary: ActionSummary, what: str) -> None:
    emit(form, summary.model_dump(mode="json"), lambda: [f"action {summary.id}: {what}"])
