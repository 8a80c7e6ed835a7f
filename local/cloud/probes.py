"""What a kubelet and Prometheus ask of a process that serves nothing else: /livez, /readyz and /metrics."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shared.domain.exposition import CONTENT_TYPE, Family, exposition

READ_SECONDS = 5.0
"""For a request to come: who connects and says nothing is let go."""


class Probes:
    """Answers GETs on a port of its own, in the background."""

    def __init__(
        self, host: str, port: int, alive: Callable[[], bool], ready: Callable[[], bool], metrics: Callable[[], Sequence[Family]]
    ) -> None:
        answers: dict[str, Callable[[], tuple[int, str, str]]] = {
            "/livez": lambda: _word(alive()),
            "/readyz": lambda: _word(ready()),
            "/metrics": lambda: (200, CONTENT_TYPE, exposition(metrics())),
        }

        class Handler(BaseHTTPRequestHandler):
            timeout = READ_SECONDS

            def do_GET(self) -> None:
                answer = answers.get(self.path.partition("?")[0])
                status, content_type, text = answer() if answer else (404, "text/plain", "not found\n")
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Probes come every few seconds."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        self._server = Server((host, port), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="probes", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


def _word(true: bool) -> tuple[int, str, str]:
    return (200, "text/plain", "ok\n") if true else (503, "text/plain", "no\n")
