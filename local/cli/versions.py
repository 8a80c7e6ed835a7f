"""`hullmark versions`: which versions a fleet is on, where they go, when, and why."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from local.cli.cloud import service
from local.cli.inputs import documents_option, now_option, read_files
from local.cli.output import PENDING, emit, grid, output_option
from shared.domain.documents.reading import Document, DocumentsRefused, Source, read
from shared.domain.versions.answers import DecisionEntry, Explanation, ForecastEntry, OfferEntry
from shared.domain.versions.profiles import gardener

if TYPE_CHECKING:
    from local.cli.service import Versions
    from shared.work.versions import FleetVersions

F = TypeVar("F", bound=Callable[..., Any])


def live_option(command: F) -> F:
    """`--live`."""
    about = "Ask the fleets that Cluster documents name, too: gardens, EKS and GKE clusters."
    return click.option("--live", is_flag=True, help=about)(command)


@click.group()
def versions() -> None:
    """Which versions a fleet is on, where they go, when, and why."""


@versions.command("list")
@documents_option
@live_option
@now_option
@output_option
def list_(files: tuple[str, ...], live: bool, now: datetime, form: str) -> None:
    """Every version that the profiles offer: what it counts as, when it expires, who runs it."""
    found = seen(files, live, now).offers(now)
    _warn(found.unreachable)
    emit(form, found.model_dump(mode="json"), lambda: _offers(found.versions))


@versions.command()
@documents_option
@live_option
@now_option
@output_option
def plan(files: tuple[str, ...], live: bool, now: datetime, form: str) -> int:
    """What is decided for every cluster now, whether its window is open or not. Exit code 2 when an update is due."""
    found = seen(files, live, now).decisions(now)
    _warn(found.unreachable)
    emit(form, found.model_dump(mode="json"), lambda: _decisions(found.decisions))
    return PENDING if any(each.changes for each in found.decisions) else 0


@versions.command()
@documents_option
@live_option
@now_option
@click.option("--days", type=click.IntRange(1, 36_500), help="How far to look ahead; without it, to the day from which nothing changes.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml", "ics"]),
    default="table",
    show_default=True,
    help="How to print it.",
)
def calendar(files: tuple[str, ...], live: bool, now: datetime, days: int | None, form: str) -> int:
    """What will happen to every cluster, window by window: updates, and the dead ends that a person must open."""
    found = seen(files, live, now).calendar(now, days)
    _warn(found.unreachable)
    if form == "ics":
        from local.cli.ics import calendar_bytes

        click.echo(calendar_bytes(found.events, now), nl=False)
    else:
        emit(form, found.model_dump(mode="json"), lambda: _events(found.events))
    return PENDING if any(not event.stuck for event in found.events) else 0


@versions.command()
@click.argument("cluster")
@documents_option
@live_option
@now_option
@output_option
def why(cluster: str, files: tuple[str, ...], live: bool, now: datetime, form: str) -> int:
    """Everything about one cluster (NAMESPACE/NAME, or NAME where there is one): each decision, and every version looked at."""
    found = seen(files, live, now).why(cluster, now)
    _warn(found.unreachable)
    emit(form, found.model_dump(mode="json"), lambda: _why(found))
    return PENDING if any(each.changes for each in found.decisions) else 0


def seen(files: tuple[str, ...], live: bool, now: datetime) -> Versions:
    """The fleet of these files, or of the newest revision where none are given.

    Raises DocumentsRefused where a file cannot be read.
    """
    return versions_of(files, live, now) if files else service().versions(live=live)


def versions_of(files: tuple[str, ...], live: bool, now: datetime) -> FleetVersions:
    """The clusters and profiles of these files; `live`: what their Cluster documents name, too. Raises DocumentsRefused."""
    from shared.work.versions import FleetVersions

    sources = read_files(files)
    documents, problems = read(sources)
    fleet = gardener(documents)
    if problems or fleet.problems:
        raise DocumentsRefused([*problems, *fleet.problems])
    return _live(documents, sources, now) if live else FleetVersions(fleet)


def _live(documents: list[Document], sources: Sequence[Source], now: datetime) -> FleetVersions:
    """The fleets that these documents name, too. They are validated as for a commit before anything is opened."""
    from shared import wiring
    from shared.adapters.store import open_store
    from shared.domain.site import load
    from shared.ledger.fleets import fleets_of
    from shared.work.versions import FleetVersions
    from shared.world import Settings

    declared = load(sources, previous=sources, now=now).policies.clusters  # in force already: an expired version is nothing new
    opened = functools.partial(wiring.open_fleet, Settings.of_the_command_line())
    return FleetVersions.of(fleets_of(open_store("memory:"), documents, declared, opened))


def _warn(unreachable: Iterable[str]) -> None:
    for problem in unreachable:
        click.echo(f"warning: {problem}", err=True)


# --- tables ---------------------------------------------------------------------------------------------------------------------------


def _offers(found: list[OfferEntry]) -> Iterable[Any]:
    columns = ("profile", "subject", "version", "classification", "expires", "days", "in use")
    yield grid(columns, (
        (each.profile, each.subject, each.version, each.classification, each.expires or "-",
         "-" if each.daysLeft is None else str(each.daysLeft), str(each.inUse))
        for each in found
    ))  # fmt: skip


def _decisions(found: list[DecisionEntry]) -> Iterable[Any]:
    yield grid(("cluster", "component", "subject", "from", "to", "kind", "window", "reason"), (
        (each.cluster, each.component, each.subject, each.from_ or "-", "stuck" if each.error else each.to or "-",
         each.kind or "-", "open" if each.window.open else each.window.next or "-", each.code)
        for each in found
    ))  # fmt: skip
    due, stuck = sum(each.changes for each in found), sum(each.error for each in found)
    yield f"{due} to update, {stuck} stuck, {len(found) - due - stuck} as they should be"


def _events(found: list[ForecastEntry]) -> Iterable[Any]:
    yield grid(("at", "cluster", "component", "subject", "from", "to", "kind", "reason"), (
        (each.at, each.cluster, each.component, each.subject, each.from_ or "-", "stuck" if each.stuck else each.to or "-",
         each.kind or "-", each.code)
        for each in found
    ))  # fmt: skip


def _why(found: Explanation) -> Iterable[Any]:
    following = found.window.next or "at any time"
    yield f"{found.cluster} on {found.profile}; window {'open' if found.window.open else 'shut'}, next {following}"
    for each in found.decisions:
        target = each.to or ("stuck" if each.error else "stays")
        yield f"\n{each.component} {each.subject} {each.from_} → {target} ({each.code})"
        yield f"  {each.description}"
        if each.advice != each.description:
            yield f"  {each.advice}"
        yield grid(("version", "counts as", "verdict"), ((c.version, c.classification, c.verdict) for c in each.candidates))
