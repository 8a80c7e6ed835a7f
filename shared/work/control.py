"""Stop, pause, unpause and retry: the record in the ledger, the parts that arrive while an action is paused, the request that goes out
anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from ulid import ULID

from shared.domain.actions import ActionRequest, lost_record
from shared.domain.labels.impact import Accepting
from shared.domain.names import UPDATE_LABELS, UPDATE_VERSIONS
from shared.ledger.actions import Command, NeverPlanned, UnknownAction, WrongState
from shared.ledger.records import RecordUnreadable, numbered, read_as
from shared.messages import Malformed, NodeApply, Outgoing, PartResult, RelabelRequest, VersionUpdate
from shared.work.releasing import releases, take_back
from shared.world import World

NOTHING = Accepting()


def control(action: str, verb: str, by: str, world: World, now: datetime) -> None:
    """Do what the verb says. Parked parts go back on the bus when the action goes on, and when it is stopped: there they
    are reported as stopped. An action over several clusters passes it on to theirs. Raises UnknownAction and WrongState.
    """
    asked = world.actions.shown(action)
    if asked and asked.rollout and verb == "stop":
        raise WrongState(f"action {action} belongs to a rollout: `hullmark rollout pause {asked.rollout}` or `revert` ends what it does")
    if asked and asked.clusters:
        _control_several(asked, verb, by, world, now)
    else:
        _control_one(action, verb, by, world, now)


def _control_several(parent: ActionRequest, verb: str, by: str, world: World, now: datetime) -> None:
    """Said again, a verb reaches the clusters' actions that it did not reach the first time."""
    children = [*parent.children.values()]
    try:
        world.actions.control(parent.id, verb, by, now)
    except WrongState:
        if not _give(children, Command(verb=verb, by=by, at=now), world):
            raise
    bring_in_step(parent.id, children, world, now)
    if verb == "stop":
        world.bus.publish(PartResult.TOPIC, [PartResult(action=parent.id).outgoing()])


def bring_in_step(parent: str, children: Sequence[str], world: World, now: datetime, *, fresh: bool = False) -> None:
    """Give the actions of several clusters the verb that their parent was given last, and the one after it if that comes meanwhile.

    `fresh`: only those that were given none, which were recorded after their parent was stopped or paused.
    """
    given = "unpause" if fresh else ""
    commands = world.actions.commands(parent)
    if fresh and commands:
        children = [child for child in children if not world.actions.commands(child)]
    while commands and commands[-1].verb != given:
        _give(children, commands[-1], world)
        given = commands[-1].verb
        commands = world.actions.commands(parent)


def _give(actions: Sequence[str], command: Command, world: World) -> bool:
    """Give actions a verb. Whether any took it: one that has ended, is not recorded yet, or stands so already, does not."""
    taken = False
    for action in actions:
        with suppress(WrongState, UnknownAction):
            _control_one(action, command.verb, command.by, world, command.at)
            taken = True
    return taken


def _control_one(action: str, verb: str, by: str, world: World, now: datetime) -> None:
    try:
        world.actions.control(action, verb, by, now)
    except WrongState:
        if verb != "unpause" or not _left_parked(action, world):
            raise
    if verb == "pause":
        return
    if verb == "stop":
        _take_back(action, world, now)
    if verb == "unpause" and world.pauses.paused():
        return  # they wait for the fleet
    if not go_on(action, world) and verb == "stop":
        world.bus.publish(PartResult.TOPIC, [PartResult(action=action).outgoing()])


def go_on(action: str, world: World) -> bool:
    """Put the parts of an action that were parked back on the bus. Whether there were any."""
    going_on: dict[str, list[Outgoing]] = {}
    for key, body in world.actions.parked(action).items():
        message = _parked_message(action, key, body, world)
        going_on.setdefault(message.TOPIC, []).append(message.outgoing())
    for topic, messages in going_on.items():
        world.bus.publish(topic, messages)
    return bool(going_on)


def _take_back(action: str, world: World, now: datetime) -> None:
    """What is stopped is no longer released to the nodes that it has not reached. What can't be read waits for the action's end."""
    with suppress(RecordUnreadable):
        request, plan = world.actions.request(action), world.actions.plan(action)
        if plan and releases(request):
            take_back(request, plan, world.actions.part_outcomes(action, plan).values(), world, now)


def _left_parked(action: str, world: World) -> bool:
    """Whether it goes on already, and parts of it wait all the same: whoever unpaused it did not get to send them."""
    return world.actions.lifecycle(action) == "Processing" and bool(world.actions.parked(action))


def _parked_message(action: str, key: str, body: bytes, world: World) -> NodeApply | VersionUpdate | PartResult:
    """The part's message as it was parked; where it can't be read, the part's result, which says so."""
    try:
        return VersionUpdate.parse(body)
    except Malformed:
        try:
            return read_as(key, body, NodeApply.parse)
        except RecordUnreadable as torn:
            return _never_sent(action, torn, world)


def _never_sent(action: str, torn: RecordUnreadable, world: World) -> PartResult:
    """The result of a part whose parked message can't be read: its nodes have failed with that cause."""
    plan = world.actions.plan(action)
    (number,) = numbered([torn.key])
    names = plan.parts[number - 1] if plan and number <= len(plan.parts) else []
    return PartResult(action=action, part=number, outcomes=[lost_record(name, str(torn)) for name in names])


def parked(task: NodeApply | VersionUpdate, world: World) -> bool:
    """Whether the part's action, or the whole fleet, is paused, and the part kept for later. A function can't wait, and redelivery would
    run out. A part of no action is not kept: the next sweep finds what it was for.

    The state is looked at again once the part is kept, so that an unpause in between loses nothing. Raises NeverPlanned where the action
    was never accepted: whoever may publish can't have nodes labelled, or versions moved, past everything that accepts and records.
    """
    if not task.action:
        return world.pauses.paused() is not None
    accepted, paused = world.actions.seen(task.action)
    if not accepted:
        raise NeverPlanned(f"part {task.part} of action {task.action}, which was never accepted: nothing is written")
    if not paused and not _held_with_the_fleet(task.action, world):
        return False
    world.actions.park(task.action, task.part, task.outgoing().data)
    return world.actions.paused(task.action) or _held_with_the_fleet(task.action, world)


def _held_with_the_fleet(action: str, world: World) -> bool:
    """Whether a pause of the fleet holds an action. What takes a rollout back is a person's word, and passes."""
    if world.pauses.paused() is None:
        return False
    try:
        asked = world.actions.find(action)
        return asked is None or not asked.rollout or not world.rollouts.batch(asked.rollout, asked.batch or 0)[1].back
    except RecordUnreadable:
        return True


def retried(action: str, by: str, world: World, accept: Accepting = NOTHING) -> RelabelRequest:
    """The request for the unsuccessful nodes of an action, or all nodes of its unsuccessful clusters; for all that it was about, where it
    ended before any node had an outcome. `accept`: what it accepts beyond the limits.

    Raises UnknownAction, and WrongState where there is nothing to retry.
    """
    asked, ended = world.actions.request(action), world.actions.outcome(action)
    if ended is None:
        raise WrongState(f"action {action} can't be retried: it is {world.actions.lifecycle(action)}")
    if asked.name == UPDATE_VERSIONS:
        raise WrongState(f"action {action} can't be retried: the next version check takes up what it left")
    if asked.rollout:
        raise WrongState(f"action {action} belongs to a rollout: `hullmark rollout retry {asked.rollout}` tries it again")
    anew = {"action": str(ULID()), "requested_by": by, "retry_of": action, "revision": asked.revision}
    again = RelabelRequest.again(asked).model_copy(update=anew | accept.accepting())
    if ended.unsuccessful and asked.clusters:
        return again.model_copy(update={"clusters": ended.unsuccessful})
    if ended.unsuccessful:
        return again.model_copy(update={"name": UPDATE_LABELS, "target_nodes": ended.unsuccessful, "node_filter": None, "supersede": False})
    if ended.result == "success" or ended.counts:
        raise WrongState(f"action {action} can't be retried: no {'cluster' if asked.clusters else 'node'} of it failed")
    return again
