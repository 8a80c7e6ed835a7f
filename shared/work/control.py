"""Stop, pause, unpause and retry: the record in the ledger, the parts that arrive while an action is paused, the request that goes out
anew.
"""

from __future__ import annotations

from datetime import datetime

from ulid import ULID

from shared.domain.names import UPDATE_LABELS, UPDATE_VERSIONS
from shared.ledger.actions import WrongState
from shared.messages import NodeApply, Outgoing, PartResult, RelabelRequest, VersionUpdate
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


def retried(action: str, by: str, world: World) -> RelabelRequest:
    """The request for the unsuccessful nodes of an action; for all that it was about, where it ended before any node had an outcome.

    Raises UnknownAction, and WrongState where there is nothing to retry.
    """
    asked, ended = world.actions.request(action), world.actions.outcome(action)
    if ended is None:
        raise WrongState(f"action {action} can't be retried: it is {world.actions.lifecycle(action)}")
    if asked.name == UPDATE_VERSIONS:
        raise WrongState(f"action {action} can't be retried: the next version check takes up what it left")
    again = RelabelRequest.again(asked).model_copy(update={"action": str(ULID()), "requested_by": by, "retry_of": action})
    if ended.unsuccessful:
        return again.model_copy(update={"name": UPDATE_LABELS, "target_nodes": ended.unsuccessful, "node_filter": None})
    if ended.result == "success" or ended.counts:
        raise WrongState(f"action {action} can't be retried: no node of it failed")
    return again
