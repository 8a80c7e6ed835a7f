"""Stop, pause and unpause: the record in the ledger, and the parts that were parked meanwhile."""

from __future__ import annotations

from datetime import datetime

from shared.messages import NodeApply, Outgoing, PartResult
from shared.wiring import Ports


def control(action: str, verb: str, by: str, ports: Ports, now: datetime) -> None:
    """Do what the verb says. Parked parts go back on the bus when the action goes on, and when it is stopped: there they
    are reported as stopped. Raises UnknownAction and WrongState.
    """
    ports.actions.control(action, verb, by, now)
    if verb == "pause":
        return
    parked = [Outgoing(body, {"type": "NodeApply"}) for body in ports.actions.parked(action)]
    if parked:
        ports.bus.publish(NodeApply.TOPIC, parked)
    elif verb == "stop":
        ports.bus.publish(PartResult.TOPIC, [PartResult(action=action).outgoing()])
