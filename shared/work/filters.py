"""Filters one after the other: what several do to a cluster in one hour is judged together, as one that did all of it would be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from shared.domain.actions import ActionRequest
from shared.domain.labels.impact import Beyond, Impact, What, verdict
from shared.work.limits import bounds_for
from shared.work.planning import Planned
from shared.world import World


def beyond_together(request: ActionRequest, planned: Planned, world: World, now: datetime) -> Beyond | None:
    """Why a filter, which alone is within the limits, is not sent out: with the filters of the same hour it is beyond them. None where it
    is not, and for all that are no filters. What goes beyond the limits by a person's word counts for nobody else.
    """
    impact = planned.impact
    if request.node_filter is None or request.accepted or impact is None:
        return None
    in_force = world.releases.look()
    bounds = bounds_for(request.revision, request.cluster, in_force, world)
    kept = world.acceptances.holding(request.revision, request.cluster, in_force.state(request.cluster).base)
    for what, names in _touched(planned):
        found: list[Beyond] = []

        def within(count: int, what: What = what, found: list[Beyond] = found) -> bool:
            beyond = verdict(_alone(impact, what, count), bounds, kept=kept)
            found.extend([beyond] if beyond else [])
            return beyond is None

        counted = f"{request.cluster}~{what}"
        if request.dry_run:
            granted = world.losses.would(counted, names, within, now)
        else:
            granted = world.losses.claim(counted, names, within, now, single=False)
        if not granted:
            said = found[0].message if found else f"what other filters did can't be read; `--accept-{what} {len(names)}` if it is meant"
            reason = found[0].reason if found else f"TooMany{what.capitalize()}"
            return Beyond(reason=reason, message=f"with the filters of this hour: {said}")
    return None


def _touched(planned: Planned) -> Iterator[tuple[What, list[str]]]:
    """The nodes that lose labels, and those on which others' values are replaced."""
    changes = {task.name: task.changes for task in planned.tasks if task.changes}
    losing = [name for name, changed in changes.items() if changed.remove]
    taking = [name for name, changed in changes.items() if changed.from_.keys() & changed.set.keys()]
    if losing:
        yield "removals", losing
    if taking:
        yield "takeovers", taking


def _alone(impact: Impact, what: What, count: int) -> Impact:
    """The impact as if it did nothing else, on so many nodes."""
    none = {"removals": 0, "takeovers": 0, "changes": 0}
    return impact.model_copy(update=none | {what: count})
