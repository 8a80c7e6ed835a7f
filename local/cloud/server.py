"""The embedded cloud as a server: the api on loopback, delivery in the background, and the clock that the schedules ask for.

Loopback only, because nobody checks who calls; whoever started the server counts as the caller.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import functions_framework
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from local import steps
from local.cloud.clock import Clock
from local.cloud.embedded import Cloud
from local.cloud.guard import HOST, READ_SECONDS, Guard, until_told
from local.cloud.processes import listener
from shared.world import Settings


class Arriving(io.RawIOBase):
    """What comes in on a connection, with one deadline for the whole of a request: a byte now and then does not extend it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises TimeoutError when the time is up."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the request did not arrive within {READ_SECONDS} s")
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(READ_SECONDS)


class Quiet(WSGIRequestHandler):
    """No line of its own for each request (the api writes one), and no request that never ends."""

    protocol_version = "HTTP/1.1"
    timeout = READ_SECONDS

    def setup(self) -> None:
        """Read through `Arriving`."""
        super().setup()
        self._arriving = Arriving(self.connection)
        self.rfile = io.BufferedReader(self._arriving)

    def handle_one_request(self) -> None:
        """One request; waiting for it on an open connection counts."""
        self._arriving.deadline = time.monotonic() + READ_SECONDS
        super().handle_one_request()

    def run_wsgi(self) -> None:
        """Answer, unless the request's target can't be taken apart (`GET http://[::1/ HTTP/1.1`)."""
        try:
            urlsplit(self.path)
        except ValueError as error:
            self.send_error(400, str(error))
            return
        super().run_wsgi()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


class EmbeddedServer:
    """The whole cloud in this process, answering on `port` (0: any free one) from `__enter__` to `__exit__`."""

    def __init__(self, settings: Settings, port: int, person: str, say: Callable[[str], None]) -> None:
        self.cloud = Cloud(settings)
        described = steps.load()
        api: Any = functions_framework.create_app("api", str(described.steps["api"].source))
        with listener(port) as bound:  # bound here, because werkzeug leaves the process where it can't
            app = Guard(api.wsgi_app, person)
            self.port: int = bound.getsockname()[1]
            self._server: BaseWSGIServer = make_server(HOST, self.port, app, threaded=True, request_handler=Quiet, fd=bound.fileno())
        self._clock = Clock(described.schedules.values(), self.cloud, say)
        self._thread = threading.Thread(target=self._server.serve_forever, name="api", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> EmbeddedServer:
        self.cloud.start()
        self.cloud.take_up()
        self._clock.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._clock.stop()
        self.cloud.stop()


def serve_embedded(settings: Settings, *, port: int, person: str, say: Callable[[str], None]) -> None:
    """Run until Ctrl-C, SIGTERM or SIGHUP. Raises PortTaken."""
    with until_told() as ended, EmbeddedServer(settings, port, person, say) as server:
        say(greeting(server.url, settings))
        ended.wait()
        say("stopping; unfinished actions resume at the next start")


def greeting(url: str, settings: Settings) -> str:
    """Where it is, and what to try."""
    return f"""\
{url}/ shows the state of the fleet; store {settings.store}, cluster {settings.cluster or settings.undeclared or "(none: give --context)"}
Try, in another terminal:
  export HULLMARK_SERVER={url}
  hullmark documents stage -f FOLDER && hullmark documents commit
  hullmark relabel --all
  curl {url}/v1.0/actions -H 'Content-Type: application/json' -d '{{"name":"update_labels","parameters":{{"target_nodes":["n1"]}}}}'
Ctrl-C ends it."""
