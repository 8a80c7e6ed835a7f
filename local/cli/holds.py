"""`hullmark pause`, `resume` and `freeze list`: what holds changes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from local.cli.cloud import service
from local.cli.output import Failure, counted, emit, grid, output_option, output_option_and
from shared.work.holds import FreezeEntry, FreezeList, PauseStatus


@click.command()
@click.option("--reason", required=True, metavar="TEXT", help="Why; everybody who is held back sees it.")
@output_option
def pause(reason: str, form: str) -> None:
    """Hold every write to nodes and every update of versions in the whole fleet, repairs too, until `hullmark resume`."""
    if not reason.strip():
        raise Failure("Usage", "say why: --reason TEXT")
    _tell(service().holds.pause(reason.strip()), form)


@click.command()
@output_option
def resume(form: str) -> None:
    """Let everything go on that `hullmark pause` held."""
    _tell(service().holds.resume(), form)


def _tell(status: PauseStatus, form: str) -> None:
    emit(form, status.model_dump(mode="json"), lambda: _words(status))


def _words(status: PauseStatus) -> Iterable[str]:
    if not status.paused:
        yield "the fleet goes on"
        return
    yield f"the fleet is paused by {status.by}: {status.reason}"
    yield f"parts still being written: {status.writing}; parts that wait: {status.parked}; `hullmark resume` lets everything go on"
    if status.unreadable:
        whose = counted(status.unreadable, "action")
        yield f"the plan of {whose} can't be read (`hullmark actions list`): parts of it may still be written"


@click.group()
def freeze() -> None:
    """Times in which nothing changes, as Freeze documents declare them."""


@freeze.command("list")
@output_option_and("name")
def list_freezes(form: str) -> None:
    """List the freezes of the newest revision and of the released ones that have not ended."""
    found = service().holds.freezes()
    emit(form, found.model_dump(mode="json"), lambda: _table(found), [one.name for one in found.freezes])


def _table(found: FreezeList) -> Iterable[Any]:
    rows = [
        (one.name, "now" if one.active else "later", f"{one.begins:%Y-%m-%d %H:%M}", f"{one.ends:%Y-%m-%d %H:%M}", *_about(one))
        for one in found.freezes
    ]
    yield grid(("freeze", "holds", "from (UTC)", "until (UTC)", "clusters", "change", "revision", "reason"), rows) if rows else "no freeze"


def _about(one: FreezeEntry) -> tuple[str, str, str, str]:
    return one.clusters, one.change, str(one.revision), one.reason
