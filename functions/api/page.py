"""The status page: the state of the fleet at a glance, rendered on the server; its one script only looks again and spells times.

`/` shows which nodes are out of sync and why, what runs, where rollouts stand, what happened; `/actions/ID` shows one action,
`/rollouts/ID` one rollout with its buttons, `/nodes/NAME` why a node has its labels, `/versions` the updates of the whole fleet,
`/reasons/CODE` what a reason means and what to do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flask import Response, redirect, request
from pydantic import ValidationError

from functions.api.answers import ApiError, invalid
from functions.api.buttons import BUTTONS, Button, Press, buttons, pressed
from functions.api.expiries import COMING, coming, document_versions, expiring
from functions.api.fleet import LISTED, look
from functions.api.identity import sent_by_own_page, who
from functions.api.rendering import SHOWN, explained, headers, page, pages
from functions.api.rolling import detailed, holding, rollouts
from functions.api.standing import known_to_be_bad, outcome_so_far, parameters_of, standing
from shared import wiring
from shared.domain.keys import SUBDOMAIN
from shared.domain.overview import causes, kind_of
from shared.work.explaining import explain
from shared.work.rollouts import RolloutStatus, control

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as AnyResponse


routes = pages("page")
MOVING, WAITING, IDLE = 3, 30, 60
"""Seconds after which a page looks again: while an action runs, while a rollout waits by itself, while nothing moves."""


REFUSED = 10
"""Messages that were refused, the newest."""


@routes.get("/")
def index() -> Response:
    """Show the fleet at a glance."""
    world = wiring.world()
    fleet, now = look(world), world.clock()
    versions, rolling = document_versions(fleet.revision, world), rollouts(world, now)
    moving = any(standing.moving for standing in fleet.running)
    waiting = any(status.phase == "running" for status in rolling.unfinished)
    return page(
        "index.html",
        now,
        fleet=fleet,
        holding=holding(world, now),
        rollouts=rolling,
        ending=expiring(versions, now),
        next=coming(versions, now),
        days=COMING,
        listed=LISTED,
        causes=causes(fleet.sync.nodes),
        shown=SHOWN,
        refused=world.refused_requests.newest(REFUSED),
        refresh=MOVING if moving else WAITING if waiting else IDLE,
        moves=moving or waiting,
    )


@routes.get("/actions/<action>")
def action(action: str) -> Response:
    """Show one action: who requested what, how far it is, the outcome of every node."""
    world = wiring.world()
    now = world.clock()
    try:
        shown = standing(action, world)
    except ApiError as missing:
        return page("missing.html", now, http=missing.status, cause=missing.cause)
    known = outcome_so_far(shown, world)
    outcomes = known.outcomes if known else []
    bad = known_to_be_bad(shown.request, known)
    return page(
        "action.html",
        now,
        action=shown,
        parameters=parameters_of(shown.request),
        known=known,
        outcomes=outcomes,
        bad=bad,
        causes=causes(bad),
        shown=SHOWN,
        good=[outcome for outcome in outcomes if not kind_of(outcome)],
        commands=world.actions.commands(action),
        refresh=MOVING if shown.moving else 0,
    )


@routes.get("/reasons/<code>")
def reason(code: str) -> Response:
    """Show what a reason means, and what to do about it."""
    now, told = wiring.world().clock(), explained(code)
    if not told:
        cause = f"no reason {code[:80]!r} is Hullmark's own: it may be an API server's or a cloud's, which pass through unchanged"
        return page("missing.html", now, http=404, cause=cause)
    return page("reason.html", now, code=code, told=told)


@routes.get("/nodes/<node>")
def node(node: str) -> Response:
    """Show one node: its release, why it has each of its labels, and what happened to it."""
    if len(node) > 253 or not re.fullmatch(SUBDOMAIN, node):
        raise ApiError(404, "Not found", f"{node[:80]!r} is no name of a node")
    world = wiring.world()
    found, past = explain(node, "", request.args.get("cluster"), world)
    ours = {key: label for key, label in found.labels.items() if label.declared is not None or label.written}
    return page("node.html", world.clock(), found=found, past=past, ours=ours)


@routes.get("/versions")
def versions() -> Response:
    """Show what is due or stuck in the whole fleet, live fleets included, and what the next windows bring, by cause."""
    from shared.work.versions import committed_versions

    world = wiring.world()
    now = world.clock()
    seen = committed_versions(world, live=True)
    return page("versions.html", now, plan=seen.decisions(now, stays=False), calendar=seen.calendar(now, COMING), days=COMING)


@routes.get("/versions/<path:cluster>")
def version(cluster: str) -> Response:
    """Show what becomes of one cluster's versions, sentence by sentence."""
    from shared.work.versions import committed_versions

    world = wiring.world()
    now = world.clock()
    return page("version.html", now, why=committed_versions(world, live=True).why(cluster, now))


@routes.get("/rollouts/<rollout>")
def rollout(rollout: str) -> Response:
    """Show one rollout: its stages, what each waits for, its buttons. `?told=VERB`: what that press came to."""
    world = wiring.world()
    now, progress = world.clock(), world.rollouts.get(rollout)
    status = detailed(progress, world, now)
    moves = status.phase == "running" or bool(progress.pending)
    return page("rollout.html", now, status=status, told=pressed(request.args.get("told", ""), progress), refresh=WAITING if moves else 0)


@routes.get("/rollouts/<rollout>/<verb>")
def ask(rollout: str, verb: str) -> Response:
    """Ask whether a button is meant: what it does, and why where a reason is needed. Nothing moves this page while somebody writes."""
    world = wiring.world()
    now = world.clock()
    status = detailed(world.rollouts.get(rollout), world, now)
    return page("press.html", now, status=status, button=_button(verb, status))


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
    answer.headers.update(headers())
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
