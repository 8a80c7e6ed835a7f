"""The page: what a person wants to know at one look, rendered here, without scripts.

`/` shows which nodes are not true and why, what runs, what happened; `/actions/ID` one action.
"""

from __future__ import annotations

from datetime import datetime

from flask import Blueprint, Response, render_template, request

from functions.api.answers import ApiError
from functions.api.expiries import AHEAD, COMING, coming, expiring
from functions.api.fleet import LISTED, look
from functions.api.standing import Standing, needing_a_person, outcome_so_far, parameters_of, standing
from shared import wiring
from shared.domain.overview import NOT_TRUE

routes = Blueprint("page", __name__, template_folder="templates")
ROWS = 200
"""Rows of a table at most; below it stands where the rest is."""
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
    """Everything at one look."""
    world = wiring.world()
    fleet, now = look(world), world.clock()
    ending = expiring(fleet.revision, world, now)
    return _page(
        "index.html",
        now,
        fleet=fleet,
        ending=ending,
        next=coming(fleet.revision, world, now),
        days=COMING,
        rows=ROWS,
        listed=LISTED,
        running=any(found.moving for found in fleet.running),
    )


@routes.get("/actions/<action>")
def action(action: str) -> Response:
    """One action: who asked for what, where it stands, what became of each node."""
    world = wiring.world()
    now = world.clock()
    try:
        found = standing(action, world)
    except ApiError as missing:
        return _page("missing.html", now, status=missing.status, cause=missing.cause, running=False)
    known = outcome_so_far(found, world)
    outcomes = known.outcomes if known else []
    bad = needing_a_person(outcomes)
    return _page(
        "action.html",
        now,
        found=found,
        parameters=parameters_of(found.request),
        known=known,
        bad=bad,
        good=[outcome for outcome in outcomes if outcome.outcome not in NOT_TRUE],
        commands=world.actions.commands(action),
        rows=ROWS,
        running=found.moving,
    )


def _page(template: str, now: datetime, *, status: int = 200, **shown: object) -> Response:
    text = render_template(template, now=now, root=request.script_root, ahead=AHEAD, ago=ago, mark=mark, many=many, asked=asked, **shown)
    return Response(text, status, HEADERS, mimetype="text/html")


def ago(moment: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that tells enough: `5 min ago`."""
    seconds = (now - moment).total_seconds()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def mark(word: str) -> str:
    """The colour of a word of ours; the word itself is always there too."""
    colours = {
        "good": ("success", "Complete", "changed", "unchanged"),
        "bad": ("failure", "Failed", "failed", "missing", "expired"),
        "warn": ("partial_success", "stopped", "skipped", "Paused"),
    }
    return next((colour for colour, words in colours.items() if word in words), "busy")


def many(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def asked(found: Standing) -> str:
    """What an action is about: every node, a filter, or names."""
    names = found.request.target_nodes
    if names:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return "nodes of a filter" if found.request.node_filter and found.request.node_filter.filter_set else "every node"
