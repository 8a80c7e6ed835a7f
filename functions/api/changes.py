"""Pages of revisions: which there are, and what one changes: the labels that nodes gain, lose and change, and the text."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response, request

from functions.api.answers import ApiError
from functions.api.rendering import ROWS, page, pages
from functions.api.sync import sheet
from shared import wiring
from shared.domain.labels.comparison import NodeLabels, RevisionDiff
from shared.domain.labels.reach import whereabouts
from shared.ledger.revisions import Revision
from shared.work.comparison import compare
from shared.work.reach import reaches
from shared.world import World

routes = pages("changes")
LISTED = 50
"""Revisions on a page."""
COMPARED = 5
"""Clusters whose nodes are read at once; of more, a reader says which."""
LINES = 2_000
"""Lines of the text's difference."""


class NodeChange(NamedTuple):
    """What a revision declares differently for one node."""

    name: str
    cluster: str
    gains: dict[str, str]
    loses: dict[str, str]
    changes: dict[str, tuple[str, str]]


@routes.get("/revisions")
def revisions() -> Response:
    """List the newest revisions, newest first; `?before=N`: those before it."""
    world = wiring.world()
    before = _number(request.args.get("before", ""))
    listed = world.revisions.listed(LISTED, before or 0)
    there, tags = reaches(world), world.revisions.tags_of([about.number for about, _ in listed])
    found = [
        {"about": about, "trouble": trouble, "tags": tags[about.number], **dict(whereabouts(about.number, there))}
        for about, trouble in reversed(listed)
    ]
    older = listed[0][0].number if listed and listed[0][0].number > 1 else 0
    return page("revisions.html", world.clock(), revisions=found, older=older)


@routes.get("/revisions/<revision>")
def revision(revision: str) -> Response:
    """Show one revision: who committed it and why, where it is released, and what it changes against `?against=N` (the one before)."""
    world, number = wiring.world(), _number(revision)
    if not number:
        raise ApiError(404, "Revision not found", f"{revision[:20]!r} is no number of a revision")
    found = world.revisions.get(number)
    against = _number(request.args.get("against", "")) or number - 1
    chosen = request.args.get("cluster", "")
    difference = _difference(found, against, chosen, world)
    nodes = sorted(difference.nodes) if difference else []
    at = sheet(len(nodes))
    rows = [_change(name, difference.nodes[name]) for name in nodes[at.first : at.first + ROWS]] if difference else []
    return page(
        "revision.html",
        world.clock(),
        about=found.about,
        tags=world.revisions.tags(number),
        newest=world.revisions.newest(),
        clusters=sorted(found.clusters),
        chosen=chosen,
        against=against,
        difference=difference,
        text=(difference.diff if difference else [])[:LINES],
        nodes=rows,
        first=at.first,
        number=at.number,
        pages=at.pages,
        path=f"?against={against}&cluster={chosen}&" if chosen else f"?against={against}&",
        **dict(whereabouts(number, reaches(world))),
    )


def _difference(found: Revision, against: int, cluster: str, world: World) -> RevisionDiff | None:
    """None for the first revision, and for many clusters while none of them is chosen."""
    if not against or (len(found.clusters) > COMPARED and not cluster):
        return None
    return compare(against, found.number, world.within(world.time_left()), cluster=cluster)


def _change(name: str, labels: NodeLabels) -> NodeChange:
    before, after = labels.before or {}, labels.after or {}
    cluster, _, node = name.rpartition("/")
    return NodeChange(
        node,
        cluster,
        gains={key: value for key, value in sorted(after.items()) if key not in before},
        loses={key: value for key, value in sorted(before.items()) if key not in after},
        changes={key: (before[key], value) for key, value in sorted(after.items()) if key in before and before[key] != value},
    )


def _number(text: str) -> int:
    """A revision's number; 0 where it is none."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 7 else 0
