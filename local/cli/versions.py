"""`hullmark versions`: which versions a fleet runs, and which updates are due, when and why."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import ValidationError

from local.cli.cloud import service
from local.cli.inputs import documents_option, now_option, read_files, until_option
from local.cli.output import PENDING, Failure, emit, grid, output_option
from local.cli.version_plans import impact_lines, plan_lines, why_lines
from shared.domain.documents.kinds import API_VERSION, Freeze, HullmarkDocument, Rollout, did_you_mean, parsed
from shared.domain.documents.reading import Document, DocumentsRefused, Problem, Source, read
from shared.domain.versions.answers import ForecastEntry, OfferEntry
from shared.domain.versions.groups import ANY, NONE, ClusterFilter, DecisionFilter
from shared.domain.versions.identity import DOCUMENTS
from shared.domain.versions.profiles import gardener

if TYPE_CHECKING:
    from local.cli.service import Versions
    from shared.work.deferrals import DeferralEntry, DeferralList
    from shared.work.versions import FleetVersions

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=ClusterFilter)
FILTERS = {"cluster": "A,B", "fleet": "A,B", "profile": "A,B", "kind": "KIND", "reason": "CODE", "held": "CODE"}


def live_option(command: F) -> F:
    """`--live`."""
    about = "Include the live fleets that Cluster documents name: gardens, EKS and GKE clusters."
    return click.option("--live", is_flag=True, help=about)(command)


def cluster_options(command: F) -> F:
    """`--cluster`, `--fleet`, `--profile`."""
    return _options(command, ClusterFilter)


def filter_options(command: F) -> F:
    """`--cluster`, `--fleet`, `--profile`, `--kind`, `--reason`, `--held`; `_filter` reads them."""
    return _options(command, DecisionFilter)


def _options(command: F, criteria: type[ClusterFilter]) -> F:
    for name, field in reversed(criteria.model_fields.items()):
        command = click.option(f"--{name}", metavar=FILTERS[name], help=f"Only these. {field.description}")(command)
    return command


def _filter(criteria: dict[str, str | None]) -> DecisionFilter:
    """The decisions that the options mean. Raises Failure."""
    from shared.domain.reasons.table import GROUPS

    known = {code for group in GROUPS for code in group.reasons}
    for name in ("reason", "held"):
        for code in filter(None, map(str.strip, (criteria[name] or "").split(","))):
            if not fnmatch.filter([*known, ANY, NONE], code):
                raise Failure("Usage", f"--{name}: there is no reason code {code}{did_you_mean(code, known)}")
    return _read(DecisionFilter, criteria)


def _clusters(criteria: dict[str, str | None]) -> ClusterFilter:
    """The clusters that the options mean. Raises Failure."""
    return _read(ClusterFilter, criteria)


def _read(model: type[C], criteria: dict[str, str | None]) -> C:
    try:
        return model.model_validate(criteria)
    except ValidationError as error:
        raise Failure("Usage", f"--{error.errors()[0]['loc'][0]} {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _somebody(clusters: int | None, criteria: dict[str, str | None]) -> None:
    """A name that nobody has is a mistake, and not an answer that says that nothing is due. Raises Failure."""
    given = [f"--{name} {criteria[name]}" for name in ClusterFilter.model_fields if criteria[name] is not None]
    if clusters == 0 and given:
        raise Failure("ClusterUnknown", f"no cluster is meant by {' '.join(given)}; `hullmark versions plan --all` names them")


@click.group()
def versions() -> None:
    """Show which versions a fleet runs, and which updates are due, when and why."""


@versions.command("list")
@documents_option
@live_option
@now_option
@output_option
def list_(files: tuple[str, ...], live: bool, now: datetime, form: str) -> None:
    """List every version that the profiles offer: its classification, when it expires, who runs it."""
    offers = seen(files, live, now).offers(now)
    _warn(offers.unreachable)
    emit(form, offers.model_dump(mode="json"), lambda: _offers(offers.versions))


@versions.command()
@documents_option
@live_option
@now_option
@filter_options
@click.option("--all", "stays", is_flag=True, help="Show also what stays as it is. JSON and YAML always do.")
@output_option
def plan(files: tuple[str, ...], live: bool, now: datetime, stays: bool, form: str, **criteria: str | None) -> int:
    """Show which updates are due or stuck, by cause, whether a window is open or not. Exit code 2 when an update is due."""
    plans = seen(files, live, now).decisions(now, _filter(criteria), stays=stays or form != "table")
    _warn(plans.unreachable)
    _somebody(plans.clusters, criteria)
    emit(form, plans.model_dump(mode="json"), lambda: plan_lines(plans, now))
    return PENDING if any(decision.changes for decision in plans.decisions) else 0


@versions.command()
@documents_option
@live_option
@now_option
@cluster_options
@click.option("--days", type=click.IntRange(1, 36_500), help="Days to look ahead. Default: until nothing changes any more.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml", "ics"]),
    default="table",
    show_default=True,
    help="Output format.",
)
def calendar(files: tuple[str, ...], live: bool, now: datetime, days: int | None, form: str, **criteria: str | None) -> int:
    """Forecast the updates of every cluster, window by window, and those that are stuck."""
    events = seen(files, live, now).calendar(now, days, _clusters(criteria))
    _warn(events.unreachable)
    _somebody(events.clusters, criteria)
    if form == "ics":
        from shared.domain.versions.ics import calendar_bytes

        click.echo(calendar_bytes(events.events, now, events.revision), nl=False)
    else:
        emit(form, events.model_dump(mode="json"), lambda: _events(events.events))
    return PENDING if any(not event.stuck for event in events.events) else 0


@versions.command()
@click.argument("cluster")
@until_option
@click.option("--reason", default="", metavar="TEXT", help="Why; everybody who looks at the cluster sees it.")
@click.option("--cancel", is_flag=True, help="Take it back: let the updates go on.")
@output_option
def defer(cluster: str, until: datetime | None, reason: str, cancel: bool, form: str) -> None:
    """Put the updates of a cluster off (NAMESPACE/NAME, or NAME if unique): not this week.

    What expires before that ends goes in its last window before, all the same.
    """
    if cancel and (until or reason):
        raise Failure("Usage", "give --cancel alone")
    if not cancel and not (until and reason.strip()):
        raise Failure("Usage", "say until when and why: --until TIME --reason TEXT (or --cancel)")
    holds = service().holds
    said = holds.cancel(cluster) if until is None else holds.defer(cluster, until, reason.strip())
    emit(form, said.model_dump(mode="json"), lambda: _deferral(said, cancelled=cancel))


def _deferral(said: DeferralEntry, *, cancelled: bool) -> Iterable[str]:
    if cancelled or said.until is None:
        yield f"the updates of {said.cluster} go on"
        return
    yield f"the updates of {said.cluster} are put off until {said.until:%Y-%m-%d %H:%M} UTC: {said.reason}"
    for limit in said.limits:
        goes = f"goes in its last window before, from {limit.goes}" if limit.goes else "has no window before that and goes in its next one"
        target = f" to {limit.forcedTo}" if limit.forcedTo else ""
        yield f"but {limit.component} {limit.subject} {limit.version} expires on {limit.expires}: its update{target} {goes}"


@versions.command()
@output_option
def deferrals(form: str) -> None:
    """List the clusters whose updates are put off."""
    found = service().holds.deferrals()
    emit(form, found.model_dump(mode="json"), lambda: _deferrals(found))


def _deferrals(found: DeferralList) -> Iterable[Any]:
    rows = [(one.cluster, f"{one.until:%Y-%m-%d %H:%M}" if one.until else "unknown", one.by, one.reason) for one in found.deferrals]
    yield grid(("cluster", "until (UTC)", "by", "reason"), rows) if rows else "no deferral"


@versions.command()
@click.argument("cluster")
@documents_option
@live_option
@now_option
@output_option
def why(cluster: str, files: tuple[str, ...], live: bool, now: datetime, form: str) -> int:
    """Explain the decisions for a cluster, with every version considered.

    CLUSTER is FLEET:NAMESPACE/NAME, where FLEET is the name of the Cluster document that leads to it; or NAMESPACE/NAME or NAME, if unique.
    :NAMESPACE/NAME is the Shoot document.
    """
    explanation = seen(files, live, now).why(cluster, now)
    _warn(explanation.unreachable)
    emit(form, explanation.model_dump(mode="json"), lambda: why_lines(explanation))
    return PENDING if any(decision.changes for decision in explanation.decisions) else 0


@versions.command()
@click.option("--profile", "profiles", metavar="FILE", multiple=True, required=True, help="The edited profiles; - is standard input.")
@click.option("--fleet", metavar="NAME", help="Only this fleet's profiles are replaced; : is that of the Shoot documents.")
@documents_option
@live_option
@now_option
@click.option("--days", type=click.IntRange(1, 36_500), help="Days to look ahead. Default: until nothing changes any more.")
@output_option
def impact(
    profiles: tuple[str, ...], fleet: str | None, files: tuple[str, ...], live: bool, now: datetime, days: int | None, form: str
) -> int:
    """Show what edited profiles would change: which clusters move, when, to what, which get stuck. Exit code 2 where any does."""
    answer = seen(files, live, now).impact(read_files(profiles), now, days, fleet)
    _warn(answer.unreachable)
    if not answer.users:
        click.echo(f"warning: no cluster is on {', '.join(answer.profiles)}", err=True)
    emit(form, answer.model_dump(mode="json"), lambda: impact_lines(answer))
    return PENDING if answer.moves else 0


def seen(files: tuple[str, ...], live: bool, now: datetime) -> Versions:
    """The fleet of these files, or of the newest revision where none are given.

    Raises DocumentsRefused where a file cannot be read.
    """
    return versions_of(files, live, now) if files else service().versions(live=live)


def versions_of(files: tuple[str, ...], live: bool, now: datetime) -> FleetVersions:
    """The clusters and profiles of these files; `live`: what their Cluster documents name, too. Raises DocumentsRefused."""
    from shared.domain.versions.fleets import FleetView
    from shared.ledger.fleets import on_paper
    from shared.work.versions import FleetVersions

    sources = read_files(files)
    documents, problems = read(sources)
    fleet = gardener(documents)
    if problems or fleet.problems:
        raise DocumentsRefused([*problems, *fleet.problems])
    if live:
        return _live(documents, sources, now)
    own = [model for document in documents if (model := _own(document, problems))]
    if problems:
        raise DocumentsRefused(problems)
    freezes = {model.name: model.spec for model in own if isinstance(model, Freeze)}
    rollouts = {model.name: model.spec for model in own if isinstance(model, Rollout)}
    fleet.clusters = {name: on_paper(cluster) for name, cluster in fleet.clusters.items()}
    return FleetVersions(FleetView({DOCUMENTS: fleet})).guarded(freezes, rollouts, {}, now)


def _own(document: Document, problems: list[Problem]) -> HullmarkDocument | None:
    """A Freeze or Rollout document; what is wrong with it is added to `problems`. Argo's Rollouts are none of ours."""
    if document.kind not in ("Freeze", "Rollout") or document.data.get("apiVersion", API_VERSION) != API_VERSION:
        return None
    model = parsed(document)
    if isinstance(model, list):
        problems += model
        return None
    return model


def _live(documents: list[Document], sources: Sequence[Source], now: datetime) -> FleetVersions:
    """The fleets that these documents name, too. They are validated as for a commit before anything is opened."""
    from shared import wiring
    from shared.adapters.store import open_store
    from shared.domain.site import load
    from shared.ledger.fleets import Fleets
    from shared.work.versions import FleetVersions
    from shared.world import Settings

    policies = load(sources, previous=sources, now=now).policies  # in force already: an expired version is nothing new
    opened = functools.partial(wiring.open_fleet, Settings.of_the_command_line())
    fleet = FleetVersions.of(Fleets(open_store("memory:"), documents, policies.clusters, opened))
    return fleet.guarded(policies.freezes, policies.rollouts, policies.cluster_labels, now)


def _warn(unreachable: Iterable[str]) -> None:
    for problem in unreachable:
        click.echo(f"warning: {problem}", err=True)


# --- tables ---------------------------------------------------------------------------------------------------------------------------


def _offers(offers: list[OfferEntry]) -> Iterable[Any]:
    columns = ("profile", "subject", "version", "classification", "expires", "days", "in use")
    yield grid(columns, (
        (offer.profile, offer.subject, offer.version, offer.classification, offer.expires or "-",
         "-" if offer.daysLeft is None else str(offer.daysLeft), str(offer.inUse))
        for offer in offers
    ))  # fmt: skip


def _events(events: list[ForecastEntry]) -> Iterable[Any]:
    yield grid(("at", "cluster", "component", "subject", "from", "to", "kind", "reason"), (
        (event.at, event.full_name, event.component, event.subject, event.from_ or "-", "stuck" if event.stuck else event.to or "-",
         event.kind or "-", event.held.reason if event.held else event.code)
        for event in events
    ))  # fmt: skip
