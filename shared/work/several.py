"""An action over several clusters: an action of its own for each of them, rolled up as one.

The parent's parts are its clusters. Whoever handles the parent records their actions, always the same ones, so that a second delivery
makes no more of them; when one ends, result_rollup tells the parent as it is told of any part. Verbs reach them in control.py.
"""

from __future__ import annotations

from datetime import datetime

from shared.domain.actions import ActionRequest, children_of, plan_of_clusters
from shared.messages import PartResult, RelabelRequest
from shared.work.control import bring_in_step
from shared.world import World


def send_children(parent: ActionRequest, world: World, now: datetime) -> str:
    """Record and publish the action of every cluster that has not ended; where all have, let the parent end."""
    world.actions.settle_plan(parent.id, plan_of_clusters(parent, now))
    done = world.actions.recorded(parent.id)
    waiting = [child for child in children_of(parent) if child.part not in done]
    if not waiting:
        world.bus.publish(PartResult.TOPIC, [PartResult(action=parent.id, revision=parent.revision).outgoing()])
        return "nothing to do"
    for child in waiting:
        world.actions.accept(child)
    bring_in_step(parent.id, [child.id for child in waiting], world, now, fresh=True)
    world.bus.publish(RelabelRequest.TOPIC, [RelabelRequest.again(child).outgoing() for child in waiting])
    return f"{len(waiting)} clusters"
