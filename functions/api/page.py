"""The status page: the state of the fleet at a glance, rendered on the server, without scripts.

`/` shows which nodes are out of sync and why, what runs, where rollouts stand, what happened; `/actions/ID` shows one action,
`/reasons/CODE` what a reason means and what to do.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from flask import Blueprint, Response, render_template, request

from functions.api.answers import ApiError
from functions.api.expiries import AHEAD, COMING, coming, expiring
from functions.api.fleet import LISTED, look
from functions.api.rolling import ACTIONS, PLACES, holding, rollouts
from functions.api.standing import Standing, needing_attention, outcome_so_far, parameters_of, standing
from shared import wiring
from shared.domain.overview import OUT_OF_SYNC

if TYPE_CHECKING:
    from shared.domain.reasons.reason import Group, Reason

routes = Blueprint("page", __name__, template_folder="templates")
ROWS = 200
"""Most rows of a table; a line below it says where to see the rest."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@routes.get("/")
def index() -> Response:
    """Show the fleet at a glance."""
    world = wiring.world()
    fleet, now = look(world), world.clock()
    ending = expiring(fleet.revision, world, now)
    return _page(
        "index.html",
        now,
        fleet=fleet,
        holding=holding(world, now),
        rollouts=rollouts(world, now),
        places=PLACES,
        linked=ACTIONS,
        ending=ending,
        next=coming(fleet.revision, world, now),
        days=COMING,
        rows=ROWS,
        listed=LISTED,
        running=any(standing.moving for standing in fleet.running),
    )


@routes.get("/actions/<action>")
def action(action: str) -> Response:
    """Show one action: who requested what, how far it is, the outcome of every node."""
    world = wiring.world()
    now = world.clock()
    try:
        shown = standing(action, world)
    except ApiError as missing:
        return _page("missing.html", now, status=missing.status, cause=missing.cause, running=False)
    known = outcome_so_far(shown, world)
    outcomes = known.outcomes if known else []
    bad = needing_attention(outcomes)
    return _page(
        "action.html",
        now,
        action=shown,
        parameters=parameters_of(shown.request),
        known=known,
        outcomes=outcomes,
        bad=bad,
        good=[outcome for outcome in outcomes if outcome.outcome not in OUT_OF_SYNC],
        commands=world.actions.commands(action),
        rows=ROWS,
        running=shown.moving,
    )


@routes.get("/reasons/<code>")
def reason(code: str) -> Response:
    """Show what a reason means, and what to do about it."""
    now, told = wiring.world().clock(), explained(code)
    if not told:
        cause = f"no reason {code[:80]!r} is Hullmark's own: it may be an API server's or a cloud's, which pass through unchanged"
        return _page("missing.html", now, status=404, cause=cause, running=False)
    return _page("reason.html", now, code=code, told=told, running=False)


def explained(code: str) -> list[tuple[Group, Reason]]:
    """Every entry of a reason, with who reports it; none for a foreign one."""
    from shared.domain.reasons.table import GROUPS

    return [(group, group.reasons[code]) for group in GROUPS if code in group.reasons]


def _page(template: str, now: datetime, *, status: int = 200, **shown: object) -> Response:
    words = {"ago": ago, "mark": mark, "many": many, "asked": asked, "units": units, "ahead_of": ahead_of, "explained": explained}
    text = render_template(template, now=now, root=request.script_root, ahead=AHEAD, **words, **shown)
    return Response(text, status, HEADERS, mimetype="text/html")


def ago(moment: datetime, now: datetime) -> str:
    """Say how long ago, in the largest fitting unit: `5 min ago`."""
    span = _span(now, moment)
    return f"{span} ago" if span else "just now"


def ahead_of(moment: datetime, now: datetime) -> str:
    """Say in how long: `in 5 min`."""
    span = _span(moment, now)
    return f"in {span}" if span else "within a minute"


def _span(later: datetime, earlier: datetime) -> str:
    """The largest fitting unit; empty below a minute."""
    seconds = (later - earlier).total_seconds()
    return next((f"{int(seconds // size)} {unit}" for size, unit in ((86400, "d"), (3600, "h"), (60, "min")) if seconds >= size), "")


def mark(word: str) -> str:
    """Return the colour of an outcome or state; the word itself is always shown too."""
    colours = {
        "good": ("success", "Complete", "changed", "unchanged", "done", "through"),
        "bad": ("failure", "Failed", "failed", "missing", "expired", "blocked"),
        "warn": ("partial_success", "stopped", "skipped", "waiting", "Paused", "paused", "aborted", "superseded", "reverted"),
    }
    return next((colour for colour, words in colours.items() if word in words), "busy")


def many(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def units(standing: Standing) -> str:
    """Say what an action counts: nodes, or clusters where it is over several."""
    return "clusters" if standing.request.clusters else "nodes"


def asked(standing: Standing) -> str:
    """Say which nodes an action targets: every node, a filter, or names; and of which clusters where they are several."""
    which = _asked(standing)
    return f"{which} of {standing.request.where}" if standing.request.clusters else which


def _asked(standing: Standing) -> str:
    names = standing.request.target_nodes
    if names:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return "nodes selected by a filter" if standing.request.node_filter and standing.request.node_filter.filter_set else "every node"
