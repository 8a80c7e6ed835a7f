"""The status page: the state of the fleet at a glance, rendered on the server, without scripts.

`/` shows which nodes are out of sync and why, what runs, where rollouts stand, what happened; `/actions/ID` shows one action,
`/rollouts/ID` one rollout with its buttons, `/nodes/NAME` why a node has its labels, `/versions` the updates of the whole fleet,
`/reasons/CODE` what a reason means and what to do.
"""

from __future__ import annotations

import logging
import re
from datetime import datetime
from typing import TYPE_CHECKING

from flask import Blueprint, Response, redirect, render_template, request
from markupsafe import Markup, escape
from pydantic import ValidationError

from functions.api.answers import ApiError, invalid, translated
from functions.api.buttons import BUTTONS, Button, Press, buttons, command, named, pressed
from functions.api.expiries import AHEAD, COMING, coming, document_versions, expiring
from functions.api.fleet import LISTED, look
from functions.api.identity import sent_by_own_page, who
from functions.api.rights import reads_only
from functions.api.rolling import ACTIONS, PLACES, detailed, holding, rollouts
from functions.api.standing import Standing, needing_attention, outcome_so_far, parameters_of, standing
from shared import wiring
from shared.domain.keys import SUBDOMAIN
from shared.domain.overview import OUT_OF_SYNC
from shared.domain.rollouts.approvals import lines
from shared.work.explaining import explain
from shared.work.rollouts import RolloutStatus, control

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as AnyResponse

    from shared.domain.reasons.reason import Group, Reason

log = logging.getLogger("hullmark.api")
routes = Blueprint("page", __name__, template_folder="templates")
ROWS = 200
"""Most rows of a table; a line below it says where to see the rest."""
MOVING, WAITING = 3, 30
"""Seconds after which a page loads itself anew: while an action runs, while a rollout waits by itself."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer` a browser names the Origin of our own forms as null
    "Cache-Control": "no-store",
}


@routes.get("/")
def index() -> Response:
    """Show the fleet at a glance."""
    world = wiring.world()
    fleet, now = look(world), world.clock()
    versions, rolling = document_versions(fleet.revision, world), rollouts(world, now)
    moving = any(standing.moving for standing in fleet.running)
    return _page(
        "index.html",
        now,
        fleet=fleet,
        holding=holding(world, now),
        rollouts=rolling,
        ending=expiring(versions, now),
        next=coming(versions, now),
        days=COMING,
        listed=LISTED,
        refresh=MOVING if moving else WAITING if any(status.phase == "running" for status in rolling.unfinished) else 0,
    )


@routes.get("/actions/<action>")
def action(action: str) -> Response:
    """Show one action: who requested what, how far it is, the outcome of every node."""
    world = wiring.world()
    now = world.clock()
    try:
        shown = standing(action, world)
    except ApiError as missing:
        return _page("missing.html", now, http=missing.status, cause=missing.cause)
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
        refresh=MOVING if shown.moving else 0,
    )


@routes.get("/reasons/<code>")
def reason(code: str) -> Response:
    """Show what a reason means, and what to do about it."""
    now, told = wiring.world().clock(), explained(code)
    if not told:
        cause = f"no reason {code[:80]!r} is Hullmark's own: it may be an API server's or a cloud's, which pass through unchanged"
        return _page("missing.html", now, http=404, cause=cause)
    return _page("reason.html", now, code=code, told=told)


@routes.get("/nodes/<node>")
def node(node: str) -> Response:
    """Show one node: its release, why it has each of its labels, and what happened to it."""
    if len(node) > 253 or not re.fullmatch(SUBDOMAIN, node):
        raise ApiError(404, "Not found", f"{node[:80]!r} is no name of a node")
    world = wiring.world()
    found, past = explain(node, "", request.args.get("cluster"), world)
    ours = {key: label for key, label in found.labels.items() if label.declared is not None or label.written}
    return _page("node.html", world.clock(), found=found, past=past, ours=ours)


@routes.get("/versions")
def versions() -> Response:
    """Show what is due or stuck in the whole fleet, live fleets included, and what the next windows bring, by cause."""
    from shared.work.versions import committed_versions

    world = wiring.world()
    now = world.clock()
    seen = committed_versions(world, live=True)
    return _page("versions.html", now, plan=seen.decisions(now, stays=False), calendar=seen.calendar(now, COMING), days=COMING)


@routes.get("/versions/<path:cluster>")
def version(cluster: str) -> Response:
    """Show what becomes of one cluster's versions, sentence by sentence."""
    from shared.work.versions import committed_versions

    world = wiring.world()
    now = world.clock()
    return _page("version.html", now, why=committed_versions(world, live=True).why(cluster, now))


@routes.get("/rollouts/<rollout>")
def rollout(rollout: str) -> Response:
    """Show one rollout: its stages, what each waits for, its buttons. `?told=VERB`: what that press came to."""
    world = wiring.world()
    now, progress = world.clock(), world.rollouts.get(rollout)
    status = detailed(progress, world, now)
    moves = status.phase == "running" or bool(progress.pending)
    return _page("rollout.html", now, status=status, told=pressed(request.args.get("told", ""), progress), refresh=WAITING if moves else 0)


@routes.get("/rollouts/<rollout>/<verb>")
def ask(rollout: str, verb: str) -> Response:
    """Ask whether a button is meant: what it does, and why where a reason is needed. Nothing moves this page while somebody writes."""
    world = wiring.world()
    now = world.clock()
    status = detailed(world.rollouts.get(rollout), world, now)
    return _page("press.html", now, status=status, button=_button(verb, status))


@routes.post("/rollouts/<rollout>/<verb>")
def press(rollout: str, verb: str) -> AnyResponse:
    """Give a rollout a word, and go back to its page."""
    sent_by_own_page()
    button = _known(verb)
    try:
        sent = Press.model_validate(request.form.to_dict())
    except ValidationError as error:
        raise invalid("Invalid form", error) from error
    world = wiring.world()
    control(rollout, button.verb, who(), world, world.clock(), stage=sent.stage, impact=sent.impact, message=sent.reason)
    answer = redirect(f"{request.script_root}/rollouts/{rollout}?told={verb}", 303)
    answer.headers.update(HEADERS)
    return answer


def _button(verb: str, status: RolloutStatus) -> Button:
    """The button that is meant. Raises ApiError 404, and 409 where the rollout does not take that word now."""
    button, there = _known(verb), buttons(status)
    if button not in there:
        takes = ", ".join(each.verb for each in there) or "nothing any more"
        raise ApiError(409, "Not now", f"rollout {status.id} is {status.phase}: it takes {takes}")
    return button


def _known(verb: str) -> Button:
    """The button of a word. Raises ApiError 404."""
    if button := next((button for button in BUTTONS if button.verb == verb), None):
        return button
    raise ApiError(404, "Not found", f"there is no button {verb[:32]!r}")


@routes.errorhandler(Exception)
def refused(error: Exception) -> Response:
    """Say on a page what was refused, or went wrong."""
    known = translated(error)
    if known.status == 500:
        log.exception("unexpected error", exc_info=error)
    return _page("refused.html", None, http=known.status, title=known.title, cause=known.cause)


def explained(code: str) -> list[tuple[Group, Reason]]:
    """Every entry of a reason, with who reports it; none for a foreign one."""
    from shared.domain.reasons.table import GROUPS

    return [(group, group.reasons[code]) for group in GROUPS if code in group.reasons]


def _page(template: str, now: datetime | None, *, http: int = 200, refresh: int = 0, **shown: object) -> Response:
    words = {
        "ago": ago,
        "mark": mark,
        "many": many,
        "asked": asked,
        "units": units,
        "ahead_of": ahead_of,
        "explained": explained,
        "ticked": ticked,
    }
    rolling = {"buttons": buttons, "named": named, "command": command, "places": PLACES, "linked": ACTIONS, "rows": ROWS, "lines": lines}
    about = {"now": now, "root": request.script_root, "ahead": AHEAD, "refresh": refresh, "readonly": reads_only()}
    return Response(render_template(template, **about, **words, **rolling, **shown), http, HEADERS, mimetype="text/html")


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


def ticked(text: str) -> Markup:
    """A text with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one has no partner
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts))


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
