"""`hullmark rollout`: a change of documents in stages that anybody can see, stop and take back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

from local.cli.cloud import service
from local.cli.completion import rollout_ids
from local.cli.inputs import accept_options, age, right_now
from local.cli.output import BLOCKED, OK, PARTIAL, Failure, emit, grid, output_option, output_option_and
from local.cli.relabel import if_interrupted
from local.cli.service import Word
from local.cli.stages import at, impact_lines, view
from local.cli.watching import display
from shared.domain.labels.impact import Accepting
from shared.domain.rollouts.progress import ENDED
from shared.work.rollouts import Control, RolloutStatus

F = TypeVar("F", bound=Callable[..., Any])
LOOK = 2.0
"""Seconds between two looks at a rollout that somebody watches."""
NO_MORE = Word()
"""The verb says it all."""


@click.group()
def rollout() -> None:
    """Bring a change to a fleet in stages; approve, pause, resume, abort, revert or retry it."""


def timeout_option(command: F) -> F:
    """`--timeout`."""
    said = "How long to watch; then the exit code is 4 if it waits for a person. Default: until it ends or stops."
    return click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help=said)(command)


@rollout.command()
@click.argument("name", default="")
@click.option("--supersede", is_flag=True, help="Take the place of a rollout that is not finished.")
@click.option("--wait", is_flag=True, help="Watch it until it ends or stops.")
@timeout_option
@accept_options
@output_option
def start(name: str, supersede: bool, wait: bool, timeout: float | None, form: str, **accepting: int | None) -> int:
    """Start a rollout of the newest revision by its Rollout document NAME (may be left out where there is one)."""
    started = service().rollouts.start(name, Accepting(**accepting), supersede=supersede)
    return follow(started, form, timeout) if wait else tell(started, form)


@rollout.command()
@click.argument("rollout", default="", shell_complete=rollout_ids)
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many.")
@output_option_and("name", "wide")
def status(rollout: str, limit: int, form: str) -> None:
    """Show where ROLLOUT stands; list the newest ones where none is named."""
    if rollout:
        tell(service().rollouts.get(rollout), form)
        return
    found = service().rollouts.newest(limit)
    answer = {"rollouts": [one.model_dump(mode="json") for one in found]}
    emit(form, answer, lambda: _listing(found[::-1], right_now(), wide=form == "wide"), [one.id for one in found[::-1]])


def _listing(found: Sequence[RolloutStatus], now: datetime, *, wide: bool) -> Iterable[Any]:
    """In 80 columns; `wide` adds until when it waits, and who started it."""
    more = ("until", "started by") if wide else ()
    rows = []
    for one in found:
        row = (one.id, one.name, str(one.revision), one.phase, age(one.started_at, now), one.reason)
        rows.append((*row, at(one.until), one.started_by) if wide else row)
    yield grid(("id", "name", "rev", "phase", "age", "waits for", *more), rows) if rows else "no rollouts yet"


@rollout.command()
@click.argument("rollout", default="", shell_complete=rollout_ids)
@timeout_option
@output_option
def watch(rollout: str, timeout: float | None, form: str) -> int:
    """Watch ROLLOUT (default: the one that is not finished) until it ends or stops."""
    return follow(service().rollouts.get(_meant(rollout)), form, timeout)


@rollout.command()
@click.argument("rollout", shell_complete=rollout_ids)
@click.argument("stage")
@click.option("--impact", default="", metavar="DIGEST", help="The impact that you were shown. Default: it is shown now.")
@output_option
def approve(rollout: str, stage: str, impact: str, form: str) -> None:
    """Approve STAGE of ROLLOUT, which waits for that: the impact that was shown, and no other."""
    _control(rollout, "approve", form, Word(stage, impact or _shown(rollout, stage)))


def _shown(rollout: str, stage: str) -> str:
    """Show what the approval lets happen on stderr; its digest. Empty where the stage waits for none."""
    seen = service().rollouts.get(rollout)
    if seen.impact is None or seen.stage != stage:
        return ""
    for line in impact_lines(seen.impact):
        click.echo(line, err=True)
    return seen.impact.digest


@rollout.command()
@click.argument("rollout", shell_complete=rollout_ids)
@click.option("--reason", required=True, help="Why.")
@output_option
def pause(rollout: str, reason: str, form: str) -> None:
    """Pause ROLLOUT: nothing more opens. What is being written goes on."""
    _control(rollout, "pause", form, Word(reason=reason))


@rollout.command()
@click.argument("rollout", shell_complete=rollout_ids)
@output_option
def resume(rollout: str, form: str) -> None:
    """Resume a paused ROLLOUT."""
    _control(rollout, "resume", form)


@rollout.command()
@click.argument("rollout", shell_complete=rollout_ids)
@click.option("--reason", default="", help="Why.")
@output_option
def abort(rollout: str, reason: str, form: str) -> None:
    """End ROLLOUT where it is: what was released stays."""
    _control(rollout, "abort", form, Word(reason=reason))


@rollout.command()
@click.argument("rollout", shell_complete=rollout_ids)
@click.option("--reason", default="", help="Why.")
@output_option
def revert(rollout: str, reason: str, form: str) -> None:
    """Take ROLLOUT back at once, finished or not: its nodes get what they had before, and its revision is rejected."""
    _control(rollout, "revert", form, Word(reason=reason))


@rollout.command()
@click.argument("rollout", shell_complete=rollout_ids)
@accept_options
@output_option
def retry(rollout: str, form: str, **accepting: int | None) -> None:
    """Try the batches of ROLLOUT again that failed or were blocked, and go on."""
    _control(rollout, "retry", form, Word(accept=Accepting(**accepting)))


def _control(rollout: str, verb: Control, form: str, word: Word = NO_MORE) -> None:
    tell(service().rollouts.control(rollout, verb, word), form)


def _meant(rollout: str) -> str:
    """The rollout that is named, or the one that is not finished. Raises Failure."""
    if rollout:
        return rollout
    unfinished = [one.id for one in service().rollouts.newest(200) if one.phase not in ENDED]
    if len(unfinished) != 1:
        there = ", ".join(unfinished) or "none"
        raise Failure("Usage", f"name the rollout: `hullmark rollout status` lists them (not finished: {there})")
    return unfinished[0]


def follow(seen: RolloutStatus, form: str, timeout: float | None) -> int:
    """Watch a rollout to its end, saying on stderr what changes; then print it. The exit code."""
    end = None if timeout is None else time.monotonic() + timeout
    goes_on = f"rollout {seen.id} goes on {service().ledger.goes_on}; follow it with `hullmark rollout watch {seen.id}`"
    with if_interrupted(goes_on), display() as show:
        show(seen)
        while seen.phase not in (*ENDED, "stopped"):
            left = LOOK if end is None else min(LOOK, end - time.monotonic())
            if left <= 0:
                break
            seen = service().rollouts.look_again(seen.id, left)
            show(seen)
    tell(seen, form)
    return exit_code(seen)


def exit_code(seen: RolloutStatus) -> int:
    """0 done, 3 stopped or taken back, 4 where the caller's patience ended first."""
    if seen.phase == "done":
        return OK
    return PARTIAL if seen.phase in (*ENDED, "stopped") else BLOCKED


def tell(seen: RolloutStatus, form: str) -> int:
    """Print where a rollout stands."""
    emit(form, seen.model_dump(mode="json"), lambda: view(seen))
    return OK
