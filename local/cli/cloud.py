"""What the commands work on: the embedded cloud, made once in a process, or a server (`--server`, HULLMARK_SERVER)."""

from __future__ import annotations

import functools
import logging
import os
from datetime import datetime
from typing import Protocol

from shared import telemetry
from shared.messages import RelabelRequest
from shared.world import Settings, World

SERVER = "HULLMARK_SERVER"


class Working(Protocol):
    """The few things that commands need of either."""

    world: World

    def submit(self, request: RelabelRequest) -> str:
        """Check, record and start a request; the action's id. Raises Rejected."""
        ...

    def control(self, action: str, verb: str, by: str, now: datetime) -> None:
        """Give an action a verb. Raises UnknownAction and WrongState."""
        ...

    def resume(self, *only: str) -> list[str]:
        """Let actions go on that were left open, or only these."""
        ...

    def drain(self) -> None:
        """Wait until what was started has ended."""
        ...


@functools.cache
def embedded() -> Working:
    """The server where one is named; else the bus and every function in this process, on the store that HULLMARK_STORE names.

    The functions' lines are not printed: stdout is for data, and what went wrong is told by the action.
    """
    telemetry.write_to(None)
    logging.getLogger("hullmark").setLevel(logging.ERROR)
    if os.environ.get(SERVER):
        from local.cli.client import Remote

        return Remote(os.environ[SERVER])
    from local.cloud.embedded import Cloud

    return Cloud(Settings.from_environment())
