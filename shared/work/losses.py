"""Labels that a sweep or an event would take although no release asked for it: let through within the limits, held beyond them.

Somebody's label vanished from many nodes, and a policy that selected by it selects none of them any more; or a label turned up on all of
them that `prune: all` would remove. To repair that node by node would strip a fleet by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from shared.domain.actions import UNREADABLE, ActionRequest
from shared.domain.notices import LOSS_HELD
from shared.domain.outcomes import Outcome
from shared.ledger.releases import InForce, Released
from shared.messages import Notice
from shared.work.limits import bounds_in
from shared.work.planning import Planned
from shared.world import World

REACHED = frozenset({"changed", "unchanged", "skipped"})
"""Outcomes of nodes that got what was released to them."""
REMEMBERED = 4
"""Actions whose nodes a process remembers."""


class Cluster(NamedTuple):
    """Where nodes would lose labels: how many nodes it has, and whether it would lose the last declared label."""

    name: str
    nodes: int
    in_force: InForce
    bare: bool = False


def unforeseen(names: Sequence[str], released: Released, world: World) -> list[str]:
    """Those of these nodes that got their release already: what they lose now, it did not take. Raises RecordUnreadable."""
    brought = {name: released.brought_by(name) for name in names}
    reached = {action: _reached(action, world) for action in {*brought.values()} if action is not None}
    return [name for name, action in brought.items() if action is not None and _has(name, reached[action])]


def _has(name: str, reached: frozenset[str] | None) -> bool:
    return reached is None or name in reached


def _reached(action: str, world: World) -> frozenset[str] | None:
    """The nodes that an action brought its release to, none while it runs; None: nobody knows, and all count as reached."""
    known = world.losses.reached
    if action not in known:
        if not action or not world.actions.begun(action):
            return None
        ended = world.actions.ended(action)
        if ended is None:
            return frozenset()
        if ended.reason == UNREADABLE:
            return None
        if len(known) >= REMEMBERED:
            known.clear()
        known[action] = frozenset(ended.unchanged).union(each.subject for each in ended.outcomes if each.outcome in REACHED)
    return known[action]


def may_lose(names: Sequence[str], among: Cluster, world: World, now: datetime, *, single: bool, look_only: bool = False) -> bool:
    """Whether these nodes may lose labels now, all or none; a notice says where they may not, once."""
    bounds = bounds_in(among.name, among.in_force, world).removals

    def within(count: int) -> bool:
        return not among.bare and not any(bound.exceeded(count, among.nodes) for bound in bounds)

    if look_only:
        return world.losses.would(among.name, names, within, now)
    return world.losses.claim(among.name, names, within, now, single=single, tell=lambda: _tell(names, among, world, now))


def hold_back(planned: Planned, request: ActionRequest, world: World, now: datetime) -> Planned:
    """The plan of a sweep without the nodes that would lose more than a release asked for and the limits let pass: they wait, all others
    go on.
    """
    losing = {task.name: task.changes.remove for task in planned.tasks if task.changes and task.changes.remove}
    if not losing or planned.impact is None:
        return planned
    in_force = world.releases.look()
    among = Cluster(request.cluster, planned.impact.nodes, in_force, planned.impact.bare)
    names = unforeseen(list(losing), in_force.state(request.cluster), world)
    accepted = request.accept_removals
    if accepted is not None and len(names) <= accepted:  # a person's word, as for any other action
        return planned
    if not names or may_lose(names, among, world, now, single=False, look_only=request.dry_run):
        return planned
    waiting = {name: held(name, losing[name]) for name in names}
    return replace(
        planned,
        tasks=[task for task in planned.tasks if task.name not in waiting],
        preview=[outcome for outcome in planned.preview if outcome.subject not in waiting],
        settled=[*planned.settled, *waiting.values()],
    )


def held(name: str, keys: Sequence[str]) -> Outcome:
    """What becomes of a node that may not."""
    return Outcome(subject=name, outcome="waiting", reason="LossLimit", message=f"it would lose {', '.join(keys)}: {WHY}")


WHY = (
    "no release asked for that, and more nodes would lose labels in this hour than the limits let pass; nothing was written. If it is "
    "meant: `hullmark relabel --all --accept-removals N`, or name the nodes"
)


def _tell(names: Sequence[str], among: Cluster, world: World, now: datetime) -> None:
    some = ", ".join(sorted(names)[:10]) + (", …" if len(names) > 10 else "")
    notice = Notice(
        id=LOSS_HELD.id(f"{among.name}/{now:%Y-%m-%dT%H}"),
        type=LOSS_HELD.type,
        subject=among.name,
        time=now,
        data={"cluster": among.name, "nodes": sorted(names)[:100], "count": len(names), "of": among.nodes, "message": f"{some}: {WHY}"},
    )
    world.bus.publish(Notice.TOPIC, [notice.outgoing()])
