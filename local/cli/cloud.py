"""The command's own cloud: the embedded one, made once in a process."""

from __future__ import annotations

import functools
import logging

from local.runner import Cloud
from shared import telemetry
from shared.wiring import Settings


@functools.cache
def embedded() -> Cloud:
    """The bus and every function in this process, on the store that HULLMARK_STORE names. The functions' lines are not printed:
    stdout is for data, and what went wrong is told by the action.
    """
    telemetry.write_to(None)
    logging.getLogger("hullmark").setLevel(logging.ERROR)
    return Cloud(Settings.from_environment())
