"""The embedded cloud as a server: the api on loopback, delivery in the background, and the clock that the schedules ask for.

Loopback only, because nobody checks who calls; whoever started the server counts as the caller.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import functions_framework
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from local import steps
from local.cloud.clock import Clock
from local.cloud.embedded import Cloud
from shared.world import Settings

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")


class Quiet(WSGIRequestHandler):
    """No line of its own for each request: the api writes one."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


class EmbeddedServer:
    """The whole cloud in this process, answering on `port` (0: any free one) from `__enter__` to `__exit__`."""

    def __init__(self, settings: Settings, port: int, person: str, say: Callable[[str], None]) -> None:
        self.cloud = Cloud(settings)
        described = steps.load()
        api: Any = functions_framework.create_app("api", str(described.steps["api"].source))
        with socket.create_server((HOST, port)) as taken:  # bound here, because werkzeug leaves the process where it can't
            app = as_person(api.wsgi_app, person)
            self.port: int = taken.getsockname()[1]
            self._server: BaseWSGIServer = make_server(HOST, self.port, app, threaded=True, request_handler=Quiet, fd=taken.fileno())
        self._clock = Clock(described.schedules.values(), self.cloud, say)
        self._thread = threading.Thread(target=self._server.serve_forever, name="api", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> EmbeddedServer:
        self.cloud.start()
        self.cloud.resume()
        self._clock.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._clock.stop()
        self.cloud.stop()


def as_person(app: Callable[..., Iterable[bytes]], person: str) -> Callable[..., Iterable[bytes]]:
    """The application with WSGI's own word for who calls, which no header can set; for this machine's names only, or a page on the
    internet could point a name of its own here (DNS rebinding).
    """

    def called(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname not in NAMES:
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"this server is for this machine: call it 127.0.0.1 or localhost\n"]
        return app({**environ, "REMOTE_USER": person}, start_response)

    return called


def serve_embedded(settings: Settings, *, port: int, person: str, say: Callable[[str], None]) -> None:
    """Run until Ctrl-C or SIGTERM. Raises OSError for a port that is taken."""
    ended = threading.Event()
    previous = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with EmbeddedServer(settings, port, person, say) as server:
            say(greeting(server.url, settings))
            ended.wait()
            say("ending; what was under way goes on with the next start")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def greeting(url: str, settings: Settings) -> str:
    """Where it is, and what to try."""
    return f"""\
{url}/ shows how the fleet is; store {settings.store}, cluster {settings.cluster or "(none: set HULLMARK_CLUSTER)"}
Try, in another terminal:
  export HULLMARK_SERVER={url}
  hullmark documents stage -f FOLDER && hullmark documents commit
  hullmark relabel --all
  curl {url}/v1.0/actions -H 'Content-Type: application/json' -d '{{"name":"update_labels","parameters":{{"target_nodes":["n1"]}}}}'
Ctrl-C ends it."""
