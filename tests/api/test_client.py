"""The command line and its server: tokens, addresses, `hullmark serve` from start to end."""

from __future__ import annotations

import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from local.cli import main, options_first
from local.cli.cloud import service
from local.cli.inputs import who
from local.cloud.server import EmbeddedServer
from local.steps import ROOT
from shared import telemetry, wiring
from shared.world import Settings

EXAMPLES = ROOT / "examples"
MASKS = [
    (re.compile(r"[0-9A-HJKMNP-TV-Z]{26}"), "ID"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+(\+00:00)?"), "TIME"),
    (re.compile(r" +"), " "),
]


class Said(NamedTuple):
    """What a command said, with ids and times masked."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Run `hullmark` here, with an embedded cloud of its own."""
    monkeypatch.setenv("HULLMARK_STORE", f"file:{tmp_path / 'own'}")
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{EXAMPLES / 'nodes.json'}")
    monkeypatch.delenv("HULLMARK_SERVER", raising=False)

    def ran(*words: str) -> Said:
        with pytest.raises(SystemExit) as ending:
            main(list(words))
        printed = capsys.readouterr()
        return Said(int(ending.value.code or 0), *(masked(text) for text in printed))

    service.cache_clear()
    yield ran
    service.cache_clear()
    wiring.install(None)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The embedded cloud as a server, of the same site; its URL."""
    telemetry.write_to(None)
    settings = Settings(store=f"file:{tmp_path / 'served'}", cluster=f"simulated:{EXAMPLES / 'nodes.json'}")
    with EmbeddedServer(settings, 0, who(), lambda _: None) as running:
        yield running.url


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_actions_are_shown_watched_and_retried_over_the_server(run: Run, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("documents", "stage", "-f", str(EXAMPLES / "site"), "--server", server)
    run("documents", "commit", "--server", server)
    with pytest.raises(SystemExit):
        main(["--server", server, "relabel", "--all", "-o", "json"])
    done = json.loads(capsys.readouterr().out)
    assert (done["result"], done["nodes"]["compute17"]["outcome"]) == ("partial_success", "missing")

    def asked(*words: str) -> Any:
        with pytest.raises(SystemExit):
            main([*words, done["id"], "-o", "json", f"--server={server}"])
        return json.loads(capsys.readouterr().out)

    assert asked("actions", "watch") == done
    assert asked("actions", "show")["result"] == "partial_success"
    again = asked("actions", "retry")
    assert (again["id"] != done["id"], list(again["nodes"]), again["result"]) == (True, ["compute17"], "failure")
    assert "WrongState" in json.dumps(asked("actions", "stop"))


def test_a_server_that_does_not_answer_is_told_with_its_address(run: Run) -> None:
    said = run("actions", "list", "--server", "http://127.0.0.1:9")
    assert said.code == 1
    assert "http://127.0.0.1:9 does not answer" in said.err


@pytest.mark.parametrize(
    "words", [["--server", "U", "relabel", "n1"], ["relabel", "--server", "U", "n1"], ["relabel", "n1", "--server", "U"]]
)
def test_the_server_may_be_named_anywhere_on_the_line(words: list[str]) -> None:
    assert options_first(words) == ["--server", "U", "relabel", "n1"]


def test_a_token_names_nobody_on_this_machine(run: Run, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_TOKEN", "eyJhbGciOiJub25lIn0.eyJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSJ9.x")
    run("documents", "stage", "-f", str(EXAMPLES / "site"), "--server", server)
    run("documents", "commit", "--server", server)
    with urllib.request.urlopen(f"{server}/v1.0/revisions/1") as answer:
        assert json.load(answer)["by"] == who()


class Listener:
    """A server that answers every request alike, and keeps what came."""

    def __init__(self, status: int = 200, **headers: str) -> None:
        self.came = came = list[dict[str, str]]()

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                came.append(dict(self.headers))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "2"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"[]")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.port = self._server.server_address[1]

    def __enter__(self) -> Listener:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_token_goes_along_to_this_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_TOKEN", "secret")
    with Listener() as there:
        assert run("actions", "list", "--server", f"http://127.0.0.1:{there.port}").code == 0
    assert there.came[0]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("server", ["http://hullmark.example.com", "http://127.0.0.1.example.com", "http://evil.invalid\\@127.0.0.1"])
def test_a_token_never_goes_over_plain_http_to_another_machine(run: Run, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_TOKEN", "secret")
    said = run("actions", "list", "--server", server)
    assert said.code == 1
    assert "use https://" in said.err
    assert "secret" not in said.err


def test_a_redirect_is_not_followed_and_the_token_stays(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_TOKEN", "secret")
    with Listener() as other, Listener(302, Location=f"http://localhost:{other.port}/") as there:
        said = run("actions", "list", "--server", f"http://127.0.0.1:{there.port}")
    assert (said.code, other.came) == (1, [])
    assert "answers 302" in said.err


def test_a_name_from_the_internet_that_points_here_gets_nothing(server: str) -> None:
    asked = urllib.request.Request(f"{server}/v1.0/actions", headers={"Host": "evil.example.com"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(asked)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_hullmark_serve_answers_goes_on_with_what_was_left_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HULLMARK_STORE": f"file:{tmp_path}"}
    environment["HULLMARK_CLUSTER"] = f"simulated:{EXAMPLES / 'nodes.json'}"
    program = [sys.executable, "-c", "import local.cli; local.cli.main()", "serve", "--port", "0", "--verbose"]
    serving = subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True)
    assert serving.stderr is not None
    try:
        url = serving.stderr.readline().split()[0].rstrip("/")
        with urllib.request.urlopen(f"{url}/v1.0/health", timeout=60) as answer:
            assert json.load(answer) == {"status": "ok", "revision": 0}
    finally:
        serving.send_signal(number)
        _, said = serving.communicate(timeout=60)
    assert serving.returncode == 0
    assert '"step": "api"' in said
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_told_and_not_a_trace(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        program = [sys.executable, "-c", "import local.cli; local.cli.main()", "serve", "--port", str(taken.getsockname()[1])]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HULLMARK_STORE": f"file:{tmp_path}"}
        ran = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert "Address already in use" in ran.stderr
