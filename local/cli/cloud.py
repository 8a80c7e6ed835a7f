"""What the commands work on: the embedded cloud, made once in a process, or a server (`--server`, HULLMARK_SERVER)."""

from __future__ import annotations

import functools
import os

from local.cli.service import Service

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
