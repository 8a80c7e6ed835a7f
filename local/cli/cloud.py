"""What the commands work on: the embedded cloud, made once in a process, or a server (`--server`, HULLMARK_SERVER)."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from local.cli.output import Failure
from local.cli.service import Service

if TYPE_CHECKING:
    from local.cli.embedded import Embedded
    from shared.world import Settings

SERVER = "HULLMARK_SERVER"
MEANT: ContextVar[str] = ContextVar("meant", default="")
"""The cluster that --context and --kubeconfig mean, as HULLMARK_CLUSTER would name it."""


def settings() -> Settings:
    """The environment's, with the cluster that --context and --kubeconfig mean. Raises SettingsError."""
    from shared.world import Settings

    found = Settings.of_the_command_line()
    return found.model_copy(update={"cluster": MEANT.get()}) if MEANT.get() else found


def kubeconfig_url(path: str, context: str) -> str:
    """A context of a kubeconfig, as HULLMARK_CLUSTER names it; empty ones are kubectl's."""
    return f"kubeconfig:{path}?{urlencode({'context': context})}"


@contextmanager
def at_context(path: str, context: str) -> Iterator[None]:
    """Within it, commands work on the cluster of this context. Raises Failure where a server is named."""
    if os.environ.get(SERVER):
        raise Failure("Usage", f"a server has clusters of its own: leave --context and --kubeconfig out (or --server, and {SERVER} unset)")
    before = MEANT.set(kubeconfig_url(path, context))
    try:
        yield
    finally:
        MEANT.reset(before)


@functools.cache
def service() -> Service:
    """The server where one is named, else the bus and every function in this process."""
    if os.environ.get(SERVER):
        from local.cli.client import Server

        return Server(os.environ[SERVER])
    from local.cli.embedded import Embedded

    return Embedded(settings())


def alone(command: str, why: str) -> Embedded:
    """The embedded cloud, for a command that works on no other. Raises Failure where a server is named."""
    from local.cli.embedded import Embedded

    found = service()
    if isinstance(found, Embedded):
        return found
    raise Failure("Usage", f"`hullmark {command}` works on the embedded cloud only: {why}; leave --server out (and {SERVER} unset)")
