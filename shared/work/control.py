"""Stop, pause and unpause: the record in the ledger, and the parts that arrive while an action is paused."""

from __future__ import annotations

from datetime import datetime

from shared.domain.names import UPDATE_VERSIONS
from shared.messages import NodeApply, Outgoing, PartResult, VersionUpdate
from shared.world import World


def control(action: str, verb: str, by: str, world: World, now: datetime) -> None:
    """Do what the verb says. Parked parts go back on the bus when the action goes on, and when it is stopped: there they
    are reported as stopped. Raises UnknownAction and WrongState.
    """
    world.actions.control(action, verb, by, now)
    if verb == "pause":
        return
    message = VersionUpdate if world.actions.request(action).name == UPDATE_VERSIONS else NodeApply
    parked = [Outgoing(body, {"type": message.__name__}) for body in world.actions.parked(action)]
    if parked:
        world.bus.publish(message.TOPIC, parked)
    elif verb == "stop":
        world.bus.publish(PartResult.TOPIC, [PartResult(action=action).outgoing()])


def parked(task: NodeApply | VersionUpdate, world: World) -> bool:
    """Whether the part's action is paused, and the part kept for later. A function can't wait, and redelivery would run out.

    The state is looked at again once the part is kept, so that an unpause in between loses nothing.
    """
    if not task.action or not world.actions.paused(task.action):
        return False
    world.actions.park(task.action, task.part, task.outgoing().data)
    return world.actions.paused(task.action)
