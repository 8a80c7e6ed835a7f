"""`/versions`: what `hullmark versions` says, for the server's documents and the fleets that they name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from functions.api.answers import answers, media, send
from shared import wiring
from shared.domain.versions.answers import DecisionList, Explanation, ForecastList, ImpactList, OfferList
from shared.domain.versions.groups import ClusterFilter, DecisionFilter

if TYPE_CHECKING:
    from shared.work.versions import FleetVersions

routes = APIBlueprint("versions", __name__, url_prefix="/v1.0", abp_tags=[Tag(name="versions", description="Versions of the fleet")])

ICS = "text/calendar"
YEARS = range(1970, 2200)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _in_reach(moment: datetime) -> datetime:
    """Far from the calendar's ends, where days can be added. Without an offset it is UTC."""
    if moment.year not in YEARS:
        raise ValueError(f"a time between {YEARS.start} and {YEARS.stop - 1}")
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)


def _as_text(given: object) -> object:
    """A number of seconds is no time that a person means, although a parser takes it for one."""
    if isinstance(given, str) and not _DATE.match(given):
        raise ValueError("a time such as 2026-11-21T12:00:00Z")
    return given


Time = Annotated[datetime, BeforeValidator(_as_text), AfterValidator(_in_reach)]


class FleetQuery(BaseModel):
    """Which fleet, and when."""

    model_config = ConfigDict(extra="ignore")
    now: Annotated[datetime, BeforeValidator(_as_text), AfterValidator(_in_reach)] | None = Field(
        default=None, description="Decide as if it were this time."
    )
    live: bool = Field(default=True, description="Include the live fleets that Cluster documents name; false: the documents alone.")


class PlanQuery(DecisionFilter, FleetQuery):
    """Which decisions."""

    stays: bool = Field(default=True, description="Include the decisions that leave a version as it is; false: what is due or stuck.")


class CalendarQuery(ClusterFilter, FleetQuery):
    """Which clusters, and how far to look ahead."""

    days: int | None = Field(default=None, ge=1, le=36_500, description="Default: until nothing changes any more.")


class ImpactQuery(FleetQuery):
    """Whose profiles are replaced, and how far to look ahead."""

    fleet: str | None = Field(default=None, max_length=253, description="Only this fleet's; `:` is that of the Shoot documents.")
    days: int | None = Field(default=None, ge=1, le=36_500, description="Default: until nothing changes any more.")


class ProfileFile(BaseModel):
    """A file with edited profiles, as YAML."""

    model_config = ConfigDict(extra="forbid")
    file: str = Field(default="-", max_length=1_024, description="The name under which its problems are shown.")
    text: str = Field(max_length=4_000_000)


class ProfileFiles(BaseModel):
    """Edited profiles."""

    model_config = ConfigDict(extra="forbid")
    files: list[ProfileFile] = Field(min_length=1, max_length=100)


class FleetClusterPath(BaseModel):
    """A cluster of the fleet."""

    cluster: str = Field(
        min_length=1,
        max_length=512,
        description="FLEET:NAMESPACE/NAME, or NAMESPACE/NAME or NAME where there is one of it. :NAMESPACE/NAME is the Shoot document.",
    )


def _seen(query: FleetQuery) -> tuple[FleetVersions, datetime]:
    """The fleet, and the time to decide for."""
    from shared.work.versions import committed_versions

    world = wiring.world()
    return committed_versions(world, live=query.live), query.now or world.clock()


@routes.get("/versions", responses=answers(200, OfferList))
def list_versions(query: FleetQuery) -> Response:
    """List every version that the profiles offer: its classification, when it expires, how many run it."""
    fleet, now = _seen(query)
    return send(fleet.offers(now))


@routes.get("/versions/plan", responses=answers(200, DecisionList))
def plan_versions(query: PlanQuery) -> Response:
    """Show what is decided for every cluster now, whether its window is open or not, and what is due or stuck by cause."""
    fleet, now = _seen(query)
    return send(fleet.decisions(now, query, stays=query.stays))


@routes.get("/versions/calendar", responses=answers(200, ForecastList))
def show_calendar(query: CalendarQuery) -> Response:
    """Forecast the updates of every cluster, window by window, and those that are stuck."""
    fleet, now = _seen(query)
    return send(fleet.calendar(now, query.days, query))


@routes.get("/versions/calendar.ics", responses=answers(200, media(ICS)))
def subscribe_to_calendar(query: CalendarQuery) -> Response:
    """Return the forecast as an iCalendar file to subscribe to: entries keep their UIDs from one look to the next."""
    from shared.domain.versions.ics import calendar_bytes

    fleet, now = _seen(query)
    coming = fleet.calendar(now, query.days, query)
    return Response(calendar_bytes(coming.events, now, coming.revision), mimetype=ICS, headers={"Cache-Control": "no-store"})


@routes.post("/versions/impact", responses=answers(200, ImpactList, 404, body=True))
def compare_profiles(body: ProfileFiles, query: ImpactQuery) -> Response:
    """Show what edited profiles would change: which clusters move, when, to what, which get stuck, and where the profiles lead nowhere.

    A POST only because profiles need a body: nothing is written or recorded.
    """
    from shared.domain.documents.reading import Source

    fleet, now = _seen(query)
    return send(fleet.impact([Source(each.file, each.text.encode()) for each in body.files], now, query.days, query.fleet))


@routes.get("/versions/why/<path:cluster>", responses=answers(200, Explanation, 404))
def explain_cluster(path: FleetClusterPath, query: FleetQuery) -> Response:
    """Explain the decisions for a cluster, what to do about them, and every version considered."""
    fleet, now = _seen(query)
    return send(fleet.why(path.cluster, now))
