"""The server in front of pod_binding inside a cluster: gunicorn's threaded worker, in which a silent connection holds up nothing.

An API server dials ahead of its requests, and keeps what it does not use for 90 s. Behind TLS gunicorn's own worker gives each such
connection a thread, which waits there for a request: as many as it has threads, and nothing is answered any more; a single one, and a
stop takes the whole graceful timeout.
"""

from __future__ import annotations

from typing import Any

from gunicorn.workers.gthread import _DEFER, TConn, ThreadWorker


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn publishes no types
    """`gunicorn --worker-class=functions.pod_binding.serving.Worker`."""

    def handle(self, conn: TConn) -> Any:
        """Take a request off a connection that has something to say; the poller watches all others."""
        if conn.initialized or not conn.cfg.is_ssl:
            return super().handle(conn)
        if not conn.wait_for_data(0):
            return _DEFER
        try:
            conn.init()  # the handshake
        except OSError as error:
            self.log.debug("no TLS handshake with %s: %s", conn.client, error)
            return False
        conn.data_ready = bool(conn.sock.pending())
        return super().handle(conn) if conn.wait_for_data(0) else _DEFER

    def _cap_keepalive(self, deadline: float) -> None:
        """At a stop, wait no longer for connections that were never used than for those that are kept alive."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)
