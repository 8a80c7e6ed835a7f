"""`hullmark serve` among strangers: other names, other pages, other processes on its ports, and ends that nobody planned."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.cloud import emulator as emulators
from local.cloud import processes, server
from local.cloud.emulated import RealCloud, serve_pubsub
from local.cloud.emulator import Emulator, EmulatorMissing, free_port
from local.cloud.guard import Guard
from local.cloud.processes import FunctionProcess, PortTaken
from local.cloud.server import EmbeddedServer
from local.steps import ROOT
from shared import telemetry, wiring
from shared.adapters.pubsub import Administration
from shared.world import Settings, SettingsError
from tests.local.test_cloud import DESCRIBED, a_step, until
from tests.pubsub import new_project, real_emulator

EVIL = [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
BROKEN = [
    *({"Host": host} for host in ("[::1", "evil@127.0.0.1", "127.0.0.1/evil", "127.0.0.1?evil", "localhost#evil", "127.0.0.1:x")),
    {"Origin": "http://[::1"},
]


def status(port: int, method: str, path: str, headers: dict[str, str] | None = None, body: str = "") -> int:
    """What a call of a port of this machine is answered with."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body or None, {"Content-Type": "application/json", **(headers or {})})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedServer]:
    telemetry.write_to(None)
    with EmbeddedServer(Settings(store=f"file:{tmp_path}"), 0, "ada", lambda _: None) as running:
        yield running
    wiring.install(None)


def test_the_embedded_server_answers_this_machine_only(embedded: EmbeddedServer) -> None:
    assert [status(embedded.port, "GET", "/v1.0/actions", headers) for headers in EVIL] == [403] * 3
    assert [status(embedded.port, "GET", "/v1.0/actions", headers) for headers in BROKEN] == [400] * len(BROKEN)
    for name in ("localhost", "127.0.0.1"):
        host = f"{name}:{embedded.port}"
        assert status(embedded.port, "GET", "/v1.0/actions", {"Host": host, "Origin": f"http://{host}"}) == 200


@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1.0/actions HT", b"POST /v1.0/actions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_request_that_never_comes_whole_is_let_go(embedded: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(server, "READ_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", embedded.port), timeout=30) as slow:
        slow.sendall(sent)
        answered = b"".join(iter(lambda: slow.recv(4096), b""))
    assert answered == b"" or b" 400 " in answered.splitlines()[0]


def test_a_target_that_is_no_url_is_a_400(embedded: EmbeddedServer) -> None:
    with socket.create_connection(("127.0.0.1", embedded.port), timeout=30) as asking:
        asking.sendall(b"GET http://[::1/v1.0/actions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answered = b"".join(iter(lambda: asking.recv(4096), b""))
    assert b" 400 " in answered.splitlines()[0]


def test_a_byte_now_and_then_does_not_extend_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with here, there:
        arriving = server.Arriving(here)
        arriving.deadline = 10.0
        there.sendall(b"xy")
        assert arriving.readinto(bytearray(1)) == 1
        now[0] = 10.0
        with pytest.raises(TimeoutError):
            arriving.readinto(bytearray(1))


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[FunctionProcess]:
    """The process of a pushed function, alone."""
    process = FunctionProcess(a_step(), {"HULLMARK_STORE": f"file:{tmp_path}"}, lambda _: None, secret="s3cret")
    process.start()
    try:
        process.wait_ready()
        yield process
    finally:
        process.terminate()
        process.join()


def test_a_pushed_function_takes_only_what_carries_the_secret_of_the_run(echo: FunctionProcess, tmp_path: Path) -> None:
    path = "/projects/p/topics/echo-requests"
    message = {"data": "eyJuYW1lIjogIm9uZSJ9", "messageId": "1", "publishTime": "2026-11-21T03:17:26.262Z", "attributes": {}}
    body = json.dumps({"subscription": "projects/p/subscriptions/echo-requests--echo", "message": message})
    for query in ("", "?run=", "?run=s3cre", "?run=%C3%A9", "?run=wrong&run=s3cret"):
        assert status(echo.port, "POST", path + query, body=body) == 403
    assert status(echo.port, "POST", f"{path}?run=s3cret", {"Host": "evil.example"}, body) == 403
    assert not list(tmp_path.glob("*.json"))
    assert status(echo.port, "POST", f"{path}?run=s3cret", body=body) < 300
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_function_lets_a_quiet_connection_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "READ_SECONDS", 1)
    process = FunctionProcess(
        a_step().model_copy(update={"concurrency": 1}), {"HULLMARK_STORE": f"file:{tmp_path}"}, lambda _: None, secret="s3cret"
    )
    process.start()
    try:
        process.wait_ready()
        with socket.create_connection(("127.0.0.1", process.port), timeout=30) as slow:
            slow.sendall(b"POST /projects/p/topics/t?run=s3cret HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
            assert status(process.port, "GET", "/") == 403, "its only thread is free again"
    finally:
        process.terminate()
        process.join()


def test_a_port_that_is_taken_is_refused_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortTaken, match="an earlier `hullmark serve`"):
        FunctionProcess(a_step(), {}, lambda _: None, taken.getsockname()[1])


class Stranger:
    """Somebody else's server, which answers everything as an emulator would."""

    def __init__(self) -> None:
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.port = self._server.server_address[1]

    def __enter__(self) -> Stranger:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    with real_emulator() as running:
        yield running.host


@pytest.mark.real
def test_an_answer_from_somebody_else_on_its_port_is_not_the_emulator(emulator: str) -> None:
    with Stranger() as stranger, pytest.raises(EmulatorMissing, match=str(stranger.port)):
        Emulator(stranger.port)


@pytest.mark.real
def test_an_emulator_that_the_environment_names_is_joined_only_when_asked(emulator: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--join-emulator"):
        serve_pubsub(Settings(store=f"file:{tmp_path}"), port=0)


@pytest.mark.real
def test_an_emulator_with_somebody_elses_topics_is_not_joined(emulator: str, tmp_path: Path) -> None:
    project = new_project()
    Administration(project).create_topics(["orders"])
    settings = Settings(store=f"file:{tmp_path}", project=project)
    with pytest.raises(SettingsError, match="orders"), RealCloud(settings, described=DESCRIBED, say=lambda _: None):
        pass
    apart = settings.model_copy(update={"topic_prefix": "mine-"})
    with RealCloud(apart, described=DESCRIBED, say=lambda _: None):
        pass
    with RealCloud(apart, described=DESCRIBED, say=lambda _: None):
        pass  # what an earlier run of its own left is no stranger's


SERVE = """
import sys
from local import steps
from local.cloud.emulated import RealCloud, serve_pubsub
from shared.world import Settings
from tests.local.test_cloud import DESCRIBED
steps.load = lambda: DESCRIBED
starting = RealCloud.__enter__
def entered(self):
    cloud = starting(self)
    groups = [cloud.functions["echo"].pid, cloud.emulator._process.pid]
    print("groups", *groups, cloud.functions["echo"].port, cloud.host.rpartition(":")[2], flush=True)
    return cloud
RealCloud.__enter__ = entered
serve_pubsub(Settings(store=sys.argv[1]), port=0)
"""


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_nothing_outlives_serve_however_it_ends(emulator: str, tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    del environment["PUBSUB_EMULATOR_HOST"]
    program = [sys.executable, "-c", SERVE, f"file:{tmp_path}"]
    serving = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert serving.stdout is not None
    with serving.stdout as said:
        first, second, *ports = map(int, said.readline().split()[1:])
        serving.send_signal(number)
        assert serving.wait(60) == (-9 if number == signal.SIGKILL else 0)
    for group in (first, second):
        until(lambda group=group: ended(group))  # type: ignore[misc]
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def ended(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.real
def test_the_project_of_a_run_cannot_be_guessed(emulator: str, tmp_path: Path) -> None:
    projects = {RealCloud(Settings(store=f"file:{tmp_path}"), described=DESCRIBED).settings.project for _ in range(3)}
    assert len(projects) == 3
    assert all(len(project) > 20 for project in projects)


def test_who_serves_is_the_caller_whatever_a_header_says() -> None:
    seen: list[Any] = []

    def app(environ: dict[str, Any], _start: Any) -> list[bytes]:
        seen.append(environ["REMOTE_USER"])
        return [b""]

    Guard(app, "ada")({"HTTP_HOST": "localhost", "HTTP_REMOTE_USER": "mallory", "HTTP_AUTHORIZATION": "Bearer x.y.z"}, lambda *_: None)
    assert seen == ["ada"]


@pytest.mark.real
def test_an_emulator_whose_free_port_was_taken_meanwhile_takes_another(emulator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1], free_port()]
        monkeypatch.setattr(emulators, "free_port", iter([*ports]).__next__)
        started = Emulator()
    started.stop()
    assert started.host == f"127.0.0.1:{ports[1]}"


def test_a_free_port_is_free() -> None:
    socket.create_server(("127.0.0.1", free_port())).close()


SIGNALLED_WHILE_IT_WAITS = """
import signal, sys, threading
from local.cloud.guard import until_told

def told(at):
    lines = 0
    def trace(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        if event == "line" and lines == at:
            signal.raise_signal(signal.SIGTERM)
        return trace
    with until_told() as ended:
        late = threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signal.SIGTERM])
        late.start()  # for a wait of fewer lines than that
        sys.settrace(trace)
        ended.wait()
        sys.settrace(None)
        late.join()
    return lines >= at

at = 1
while told(at):
    at += 1
print("lines of the wait:", at)
"""


def test_a_signal_at_any_line_of_the_wait_ends_it() -> None:
    ran = subprocess.run([sys.executable, "-c", SIGNALLED_WHILE_IT_WAITS], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.stdout.startswith("lines of the wait:"), ran.stderr
