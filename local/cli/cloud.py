"""What the commands work on: the embedded cloud, made once in a process, or a server (`--server`, HULLMARK_SERVER)."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from local.cli.output import Failure
from local.cli.service import Service

if TYPE_CHECKING:
    from local.cli.embedded import Embedded

SERVER = "HULLMARK_SERVER"


@functools.cache
def service() -> Service:
    """The server where one is named, else the bus and every function in this process."""
    if os.environ.get(SERVER):
        from local.cli.client import Server

        return Server(os.environ[SERVER])
    from local.cli.embedded import Embedded
    from shared.world import Settings

    return Embedded(Settings.of_the_command_line())


def alone(command: str, why: str) -> Embedded:
    """The embedded cloud, for a command that works on no other. Raises Failure where a server is named."""
    from local.cli.embedded import Embedded

    found = service()
    if isinstance(found, Embedded):
        return found
    raise Failure("Usage", f"`hullmark {command}` works on the embedded cloud only: {why}; leave --server out (and {SERVER} unset)")
