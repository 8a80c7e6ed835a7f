"""A rollout that somebody watches: a line for each change as it comes and, on a terminal, where it stands below them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from local.cli.output import talk
from local.cli.stages import changes, view
from shared.work.rollouts import RolloutStatus

Show = Callable[[RolloutStatus], None]


@contextmanager
def display() -> Iterator[Show]:
    """What shows where a rollout stands, on stderr, each time somebody has looked at it."""
    console = talk()
    if not console.is_terminal:
        yield _told_line_by_line(lambda line: click.echo(line, err=True))
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        tell = _told_line_by_line(lambda line: live.console.print(Text(line)))

        def show(seen: RolloutStatus) -> None:
            tell(seen)
            live.update(Group(Text(), *view(seen)), refresh=True)

        yield show


def _told_line_by_line(say: Callable[[str], None]) -> Show:
    before: RolloutStatus | None = None

    def show(seen: RolloutStatus) -> None:
        nonlocal before
        for line in changes(before, seen):
            say(line)
        before = seen

    return show
