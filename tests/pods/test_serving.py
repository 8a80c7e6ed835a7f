"""The example's server with connections that say nothing: it answers all the others, and stops when it is told to."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.kube_apiserver import Pki
from tests.pods.test_examples import ROOT, the_deployment

PATIENCE = 60.0
"""Seconds within which something has to come true that takes a moment; a server that waits for silent connections needs 600."""


class Server:
    """The deployment's command with the certificate of this test."""

    def __init__(self, folder: Path) -> None:
        self.ca = Pki(folder, False).ca
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        given = {"--bind": f"127.0.0.1:{self.port}", "--threads": "2", "--graceful-timeout": "600"}
        files = {"--certfile": f"{folder}/server.crt", "--keyfile": f"{folder}/server.key"}
        container = the_deployment()
        arguments = [
            f"{name}={({**given, **files}).get(name, value)}" if value else name
            for name, value in (
                argument.split("=", 1) if argument.startswith("--") and "=" in argument else (argument, "")
                for argument in container["args"]
            )
        ]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HULLMARK_STORE": "memory:"}
        self.log = folder / "log"
        with self.log.open("wb") as log:
            command = [str(Path(sys.executable).parent / container["command"][0]), *arguments]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def connected(self) -> http.client.HTTPSConnection:
        """A connection, its handshake done and nothing asked."""
        context = ssl.create_default_context(cadata=self.ca)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=PATIENCE)
        connection.connect()
        return connection

    def wait_until_it_answers(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with closing(self.connected()) as connection:
                    return ask(connection)
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < end, self.log.read_text()
                time.sleep(0.1)


def ask(connection: http.client.HTTPSConnection) -> None:
    connection.request("GET", "/livez")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b'{"alive":true}\n')


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    try:
        made.wait_until_it_answers()
        yield made
    finally:
        made.process.kill()
        made.process.wait()


@contextmanager
def silent_and_kept(server: Server) -> Iterator[http.client.HTTPSConnection]:
    """More silent connections than there are threads, before their handshake and after it, and one that is kept alive."""
    with ExitStack() as opened:
        for _ in range(4):
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            opened.callback(server.connected().close)
        kept = server.connected()
        opened.callback(kept.close)
        ask(kept)
        yield kept


def test_connections_that_say_nothing_hold_no_request_up_and_no_stop(server: Server) -> None:
    with silent_and_kept(server) as kept:
        ask(kept)
        with closing(server.connected()) as fresh:
            ask(fresh)

        server.process.terminate()

        assert server.process.wait(PATIENCE) == 0
    assert "control socket" not in server.log.read_text().lower()
