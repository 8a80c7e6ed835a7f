"""Whatever answers at `--server`: one clear line, exit 1, no trace."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from local.cli import client
from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

HTML = ("text/html", "<html><h1>Welcome</h1></html>")
REFUSED = {"kind": "status", "code": "500 Internal Server Error", "reason": "unexpected; the log has it", "details": {"messageList": []}}


class Answering:
    """A server that gives every request one answer."""

    def __init__(self) -> None:
        self.status, self.kind, self.body = 200, *HTML
        self.silent = False
        ended = self.ended = threading.Event()
        answering = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if answering.silent:
                    ended.wait(20)
                    return
                data = answering.body.encode()
                self.send_response(answering.status)
                self.send_header("Content-Type", answering.kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def answering() -> Iterator[Answering]:
    there = Answering()
    thread = threading.Thread(target=there.server.serve_forever, args=(0.02,))
    thread.start()
    yield there
    there.ended.set()
    there.server.shutdown()
    thread.join()
    there.server.server_close()


COMMANDS = [("actions", "list"), ("documents", "commit"), ("plan",), ("versions", "plan")]


@pytest.mark.parametrize(
    ("status", "kind", "body", "says"),
    [
        (200, *HTML, "text/html, not JSON; is this its address?"),
        (200, "application/json", "", "not JSON"),
        (200, "application/json", "null", "did not answer like Hullmark"),
        (200, "application/json", '{"welcome": true}', "did not answer like Hullmark"),
        (200, "application/json", "[" * 100_000, "not JSON"),
        (500, "application/json", json.dumps(REFUSED), "unexpected; the log has it"),
        (500, "application/json", '{"details": 7}', "answered 500"),
        (502, *HTML, "answered 502"),
        (404, *HTML, "answered 404"),
        (401, *HTML, "HULLMARK_TOKEN"),
        (403, *HTML, "HULLMARK_TOKEN"),
    ],
)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_answer_that_is_none_is_said_in_one_line(
    hullmark: Hullmark,
    answering: Answering,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    status: int,
    kind: str,
    body: str,
    says: str,
) -> None:
    monkeypatch.setattr(client, "RETRIES", client.RETRIES.new(backoff_factor=0))
    answering.status, answering.kind, answering.body = status, kind, body
    ran = hullmark(*words, "--server", answering.url)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert ran.err.startswith("error: ")
    assert says in ran.err
    (error,) = hullmark(*words, "-o", "json", "--server", answering.url).json["errors"]
    assert says in error["message"]


def test_a_server_that_never_answers_is_given_up(hullmark: Hullmark, answering: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT", urllib3.Timeout(connect=5, read=0.05))
    monkeypatch.setattr(client, "RETRIES", client.RETRIES.new(total=0))
    answering.silent = True
    assert "no answer within" in hullmark("actions", "list", "--server", answering.url).err
    assert "the request may still have taken effect" in hullmark("relabel", "--all", "--server", answering.url).err


def test_a_server_that_is_not_there_is_named_with_the_cause(hullmark: Hullmark) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    ran = hullmark("actions", "list", "--server", url)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"{url} does not answer: " in ran.err
    assert "nothing listens there" in ran.err
    assert "object at 0x" not in ran.err


@pytest.mark.parametrize("server", ["halden", "ftp://halden", "http://", "https://ada:secret@halden", ":8080"])
def test_what_is_no_address_is_said_at_once(hullmark: Hullmark, server: str) -> None:
    ran = hullmark("actions", "list", "--server", server)
    assert ran.code == 1
    assert "is no http(s)://host[:port]" in ran.err


@pytest.mark.parametrize(
    "words", [("documents", "commit"), ("documents", "tag", "1", "seen"), ("actions", "stop", "01ARZ3NDEKTSV4RRFFQ69G5FAV")]
)
def test_what_a_server_records_is_at_its_own_time(hullmark: Hullmark, answering: Answering, words: tuple[str, ...]) -> None:
    ran = hullmark(*words, "--now", "2026-01-31T22:00:00Z", "--server", answering.url)
    assert ran.code == 1
    assert "a server goes by its own clock" in ran.err


def test_documents_that_are_not_committed_are_planned_here_or_not_at_all(hullmark: Hullmark, site: Callable[..., str]) -> None:
    ran = hullmark("plan", "-f", site(a_policy("racks", {"names": ["n1"]}, {"rack": "r7"})), "--server", "http://127.0.0.1:9")
    assert ran.code == 1
    assert "commit first, or give --nodes" in ran.err
