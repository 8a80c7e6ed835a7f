"""The search of the status page: nodes, actions, rollouts and revisions. A plain form; one hit leads straight to its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from flask import redirect, request

from functions.api.fleet import FleetOverview, look
from functions.api.rendering import headers, page, pages
from functions.api.standing import ID
from shared import wiring
from shared.domain.keys import SUBDOMAIN
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.ledger.rollouts import UnknownRollout
from shared.world import World

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as AnyResponse

routes = pages("search")
HITS = 50
"""Hits of each kind at most."""
SCANNED = 10_000
"""Nodes of documents that are looked through for a part of a name: twenty objects of the store."""
LOOKED_THROUGH = 100
"""Newest revisions whose messages are looked through."""


class Hit(NamedTuple):
    """One thing that was found: what it is, where its page is, and a word more."""

    what: str
    path: str
    name: str
    about: str = ""


@routes.get("/search")
def search() -> AnyResponse:
    """Find a node, an action, a rollout or a revision by its name, id, or end of it, and revisions by their message."""
    world = wiring.world()
    query = request.args.get("q", "").strip()[:253]
    hits = [*dict.fromkeys(_hits(query, world))] if query else []
    exact = [hit for hit in hits if query in (hit.name, hit.path.rpartition("/")[2])]
    if len(exact) == 1:
        answer = redirect(f"{request.script_root}{exact[0].path}", 302)
        answer.headers.update(headers())
        return answer
    possible = query if re.fullmatch(SUBDOMAIN, query) and len(query) <= 253 else ""
    return page("search.html", world.clock(), query=query, hits=hits, possible=possible, most=HITS)


def _hits(query: str, world: World) -> Iterator[Hit]:
    fleet = look(world)
    yield from _nodes(query, fleet)
    yield from _actions(query, fleet, world)
    yield from _rollouts(query, world)
    yield from _revisions(query, world)


def _nodes(query: str, fleet: FleetOverview) -> Iterator[Hit]:
    """Nodes that documents name, or that are out of sync."""
    if not re.fullmatch(r"[a-z0-9.-]+", query):
        return
    bad = {node.outcome.subject: node for node in fleet.sync.nodes if query in node.outcome.subject}
    names = {name for name in _declared(query, fleet.revision) if query in name} if fleet.revision else set()
    for name in sorted({*bad, *names}, key=lambda name: (name != query, name))[:HITS]:
        where = bad.get(name)
        cluster = f"?cluster={where.cluster}" if where and where.cluster != "default" else ""
        yield Hit("node", f"/nodes/{name}{cluster}", name, where.outcome.outcome if where else "")


def _declared(query: str, revision: Revision) -> set[str]:
    """The names of the nodes that documents name; of a large site only this one."""
    try:
        if revision.about.nodes > SCANNED:
            return {query} if revision.node(query) else set()
        return {node.name for node in revision.nodes()}
    except RecordUnreadable:
        return set()


def _actions(query: str, fleet: FleetOverview, world: World) -> Iterator[Hit]:
    """An action by its id, however old; recent ones by the end of it, and by name."""
    wanted = query.upper().lstrip("…")
    if ID.fullmatch(wanted) and (asked := world.actions.shown(wanted)):
        yield Hit("action", f"/actions/{wanted}", wanted, asked.name)
    for standing in fleet.recent[: 2 * HITS]:
        action = standing.request.id
        if (len(wanted) >= 4 and action.endswith(wanted)) or query == standing.request.name:
            yield Hit("action", f"/actions/{action}", action, standing.request.name)


def _rollouts(query: str, world: World) -> Iterator[Hit]:
    wanted = query.upper().lstrip("…")
    for rollout in [each for each in reversed(world.rollouts.ids()) if len(wanted) >= 4 and each.endswith(wanted)][:HITS]:
        try:
            yield Hit("rollout", f"/rollouts/{rollout}", rollout, world.rollouts.get(rollout).name)
        except (UnknownRollout, RecordUnreadable):
            continue


def _revisions(query: str, world: World) -> Iterator[Hit]:
    """A revision by its number (`7`, `revision 7`), its git source, or words of its message."""
    number = re.fullmatch(r"(?:revision |r)?([1-9][0-9]{0,5})", query, re.IGNORECASE)
    for about, trouble in reversed(world.revisions.listed(LOOKED_THROUGH)):
        if number and int(number[1]) == about.number:
            yield Hit("revision", f"/revisions/{about.number}", str(about.number), about.message or trouble)
        elif len(query) >= 3 and query.lower() in f"{about.message} {about.source}".lower():
            yield Hit("revision", f"/revisions/{about.number}", str(about.number), about.message)
