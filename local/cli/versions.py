"""`hullmark versions`: which versions a fleet is on, where they go, when, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from local.cli.inputs import documents_option, now_option, read_files
from local.cli.output import PENDING, Failure, emit, grid, output_option
from shared.domain.documents.reading import DocumentsRefused, read
from shared.domain.versions.forecast import event_json, forecast
from shared.domain.versions.plans import ClusterPlan, Planner, offers_json, plan_json, why_json
from shared.domain.versions.profiles import Gardener, gardener, merged_profiles

if TYPE_CHECKING:
    from shared.ledger.fleets import Fleets

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
    fleet = read_fleet(files, live)
    found = []
    for name, profile in merged_profiles(fleet).items():
        users = [
            cluster for cluster in fleet.clusters.values() if (f"{cluster.namespace}/" if cluster.own else "") + cluster.profile == name
        ]
        found += offers_json(name, profile, users, now)
    emit(form, {"versions": found}, lambda: _offers(found))


@versions.command()
@documents_option
@live_option
@now_option
@output_option
def plan(files: tuple[str, ...], live: bool, now: datetime, form: str) -> int:
    """What is decided for every cluster now, whether its window is open or not. Exit code 2 when an update is due."""
    answer = plan_json(Planner(read_fleet(files, live)).plan(now))
    emit(form, answer, lambda: _decisions(answer["decisions"]))
    return PENDING if any(map(_changes, answer["decisions"])) else 0


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
    until = None if days is None else now + timedelta(days=days)
    events = forecast(Planner(read_fleet(files, live)), now, until=until)
    if form == "ics":
        from local.cli.ics import calendar_bytes

        click.echo(calendar_bytes(events, now), nl=False)
    else:
        answer = {"events": [event_json(event) for event in events]}
        emit(form, answer, lambda: _events(answer["events"]))
    return PENDING if any(not event.stuck for event in events) else 0


@versions.command()
@click.argument("cluster")
@documents_option
@live_option
@now_option
@output_option
def why(cluster: str, files: tuple[str, ...], live: bool, now: datetime, form: str) -> int:
    """Everything about one cluster (NAMESPACE/NAME, or NAME where there is one): each decision, and every version looked at."""
    planner = Planner(read_fleet(files, live))
    known = planner.fleet.clusters
    matching = [name for name in known if cluster in (name, name.rpartition("/")[2])]
    if len(matching) != 1:
        named = f"there are several: {', '.join(matching)}" if matching else f"known are {', '.join(sorted(known)[:20]) or 'none'}"
        raise Failure("ClusterUnknown", f"no one cluster {cluster!r}; {named}")
    (found,) = planner.plan(now, [known[matching[0]]])
    timeline = planner.timeline(found.cluster)
    answer = why_json(found, timeline.at(now) if timeline else None)
    emit(form, answer, lambda: _why(found, answer))
    return PENDING if any(map(_changes, answer["decisions"])) else 0


def _changes(decision: dict[str, Any]) -> bool:
    """Whether an entry of `plan` changes something: the cap may yield a pool's own version again (docs/versions.md §4)."""
    return decision["to"] not in (None, decision["from"])


def read_fleet(files: tuple[str, ...], live: bool) -> Gardener:
    """The clusters and profiles of these files, or of the newest revision as they are now; `live`: what Cluster documents name, too.

    Raises DocumentsRefused where a document cannot be read.
    """
    from shared.ledger.fleets import fleets_of
    from shared.wiring import open_fleet

    if not files:
        return _committed(live)
    documents, problems = read(read_files(files))
    fleet = gardener(documents)
    if problems or fleet.problems:
        raise DocumentsRefused([*problems, *fleet.problems])
    if not live:
        return fleet
    from shared.adapters.store import open_store

    declared = {each.name: each.data["spec"] for each in documents if each.kind == "Cluster" and isinstance(each.data.get("spec"), dict)}
    return _view(fleets_of(open_store("memory:"), documents, declared, open_fleet))


def _committed(live: bool) -> Gardener:
    from local.cli.cloud import embedded
    from shared.ledger.fleets import fleets_of

    world = embedded().world
    newest = world.revisions.newest()
    if not newest:
        raise Failure("NoRevision", "no documents: give -f FILE, or commit some (`hullmark documents stage`, `commit`)")
    revision = world.revisions.get(newest)
    return _view(fleets_of(world.store, revision.gardener, revision.policies.clusters if live else {}, world.open_fleet))


def _view(fleets: Fleets) -> Gardener:
    seen = fleets.view()
    for problem in fleets.unreachable:
        click.echo(f"warning: {problem}", err=True)
    return seen


# --- tables ---------------------------------------------------------------------------------------------------------------------------


def _offers(found: list[dict[str, Any]]) -> Iterable[Any]:
    columns = ("profile", "subject", "version", "classification", "expires", "days", "in use")
    yield grid(columns, (
        (each["profile"], each["subject"], each["version"], each["classification"], each["expires"] or "-",
         "-" if each["daysLeft"] is None else str(each["daysLeft"]), str(each["inUse"]))
        for each in found
    ))  # fmt: skip


def _decisions(found: list[dict[str, Any]]) -> Iterable[Any]:
    yield grid(("cluster", "component", "subject", "from", "to", "kind", "window", "reason"), (
        (each["cluster"], each["component"], each["subject"], each["from"] or "-", "stuck" if each["error"] else each["to"] or "-",
         each["kind"] or "-", "open" if each["window"]["open"] else each["window"]["next"] or "-", each["code"])
        for each in found
    ))  # fmt: skip
    due, stuck = sum(map(_changes, found)), sum(each["error"] for each in found)
    yield f"{due} to update, {stuck} stuck, {len(found) - due - stuck} as they should be"


def _events(found: list[dict[str, Any]]) -> Iterable[Any]:
    yield grid(("at", "cluster", "component", "subject", "from", "to", "kind", "reason"), (
        (each["at"], each["cluster"], each["component"], each["subject"], each["from"] or "-", "stuck" if each["stuck"] else each["to"],
         each["kind"] or "-", each["code"])
        for each in found
    ))  # fmt: skip


def _why(plan: ClusterPlan, answer: dict[str, Any]) -> Iterable[Any]:
    following = answer["window"]["next"] or "at any time"
    yield f"{plan.cluster.id} on {plan.cluster.profile}; window {'open' if plan.open else 'shut'}, next {following}"
    for each in answer["decisions"]:
        target = each["to"] or ("stuck" if each["error"] else "stays")
        yield f"\n{each['component']} {each['subject']} {each['from']} → {target} ({each['code']})"
        yield f"  {each['description']}"
        if each["advice"] != each["description"]:
            yield f"  {each['advice']}"
        yield grid(("version", "counts as", "verdict"), ((c["version"], c["classification"], c["verdict"]) for c in each["candidates"]))
