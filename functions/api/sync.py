"""Pages of nodes that are out of sync: all those of a cause, and a cluster's as they are at this moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flask import Response, request

from functions.api.fleet import look
from functions.api.rendering import ROWS, SHOWN, page, pages
from functions.api.standing import known_to_be_bad, outcome_so_far, standing
from shared import wiring
from shared.domain.labels.node_states import NodesRequest, NodeStates
from shared.domain.outcomes import Outcome, OutcomeKind
from shared.domain.overview import OutOfSync, causes
from shared.work.nodes import node_states

routes = pages("sync")
LOOKED_AT = 5_000
"""Nodes that are out of sync at most on the page of a live cluster."""
KINDS_NOW: Mapping[str, OutcomeKind] = {
    "NodeNotFound": "missing",
    "Conflict": "skipped",
    "NotAdopted": "skipped",
    "Drift": "waiting",
    "NotReleased": "waiting",
}
"""What a node's reason comes to, as long as nobody has written it; all others failed."""


class Sheet(NamedTuple):
    """One page of many rows."""

    number: int
    pages: int
    first: int


def sheet(total: int) -> Sheet:
    """The page that `?page=` asks for, the nearest there is."""
    pages = max(1, -(-total // ROWS))
    asked = request.args.get("page", "1")
    number = min(max(int(asked) if asked.isdecimal() and len(asked) < 7 else 1, 1), pages)
    return Sheet(number, pages, ROWS * (number - 1))


@routes.get("/causes/<cause>")
def nodes_of_cause(cause: str) -> Response:
    """List every node that is out of sync for one cause, a page at a time."""
    return _cause(cause, look(wiring.world()).sync.nodes)


@routes.get("/actions/<action>/causes/<cause>")
def nodes_of_action(action: str, cause: str) -> Response:
    """The same, of one action."""
    world = wiring.world()
    shown = standing(action, world)
    return _cause(cause, known_to_be_bad(shown.request, outcome_so_far(shown, world)))


def _cause(key: str, nodes: Sequence[OutOfSync]) -> Response:
    now = wiring.world().clock()
    found = next((each for each in causes(nodes) if each.key == key), None)
    if found is None:
        return page("missing.html", now, http=404, cause="no node is out of sync for this cause any more")
    at = sheet(len(found.nodes))
    rows = found.nodes[at.first : at.first + ROWS]
    return page("cause.html", now, cause=found, nodes=rows, first=at.first, number=at.number, pages=at.pages, path="?")


@routes.get("/live")
def live() -> Response:
    """Show which nodes of a cluster are out of sync at this moment, by cause. The cluster is read for it; nothing is written."""
    world = wiring.world()
    world = world.within(world.time_left())
    asked = NodesRequest(cluster=request.args.get("cluster") or None, out_of_sync=True, limit=LOOKED_AT)
    states = node_states(asked, world)
    nodes = _as_they_are(states)
    return page("live.html", world.clock(), states=states, nodes=nodes, causes=causes(nodes), shown=4 * SHOWN)


def _as_they_are(states: NodeStates) -> list[OutOfSync]:
    found = []
    for name, state in states.nodes.items():
        outcome = Outcome(subject=name, outcome=KINDS_NOW.get(state.reason, "failed"), reason=state.reason, message=state.message)
        found.append(OutOfSync.of(states.cluster, outcome, "", state.release.revision or 0))
    return [node for node in found if node]
