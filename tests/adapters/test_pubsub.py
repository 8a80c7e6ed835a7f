"""Both publishers, one contract: against the real emulator, and against a server that fails in the ways Pub/Sub can."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest

from local.cloud.emulator import Emulator
from shared import telemetry
from shared.adapters import pubsub
from shared.adapters.pubsub import Administration, Subscription, batches, open_bus
from shared.messages import Delivery, Outgoing
from shared.ports import BusError
from tests.pubsub import new_project, pulled, real_emulator

PUBLISHERS: list[Literal["rest", "grpc"]] = ["rest", "grpc"]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with real_emulator() as running:
        yield running


@pytest.fixture
def project(emulator: Emulator) -> str:
    return new_project()


@pytest.fixture
def subscription(project: str) -> str:
    administration = Administration(project, "blue-")
    administration.create_topics(["results"])
    return administration.create_subscription(Subscription("results--reader", "results", ack_deadline=30))


@pytest.mark.real
@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_bytes_and_attributes_arrive_as_they_were_given(publisher: Literal["rest", "grpc"], project: str, subscription: str) -> None:
    sent = [Outgoing(b'{"node": "n\xc3\xa9"}', {"type": "Test", "identity": "A/1"}), Outgoing(bytes(range(256)), {})]
    open_bus(project, "blue-", publisher).publish("results", sent)
    assert {(m.data, m.attributes.get("type")) for m in pulled(subscription, 2)} == {(sent[0].data, "Test"), (sent[1].data, None)}


@pytest.mark.real
@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_more_than_a_thousand_messages_all_arrive_once(publisher: Literal["rest", "grpc"], project: str, subscription: str) -> None:
    open_bus(project, "blue-", publisher).publish("results", [Outgoing(str(number).encode()) for number in range(2500)])
    assert sorted(int(m.data) for m in pulled(subscription, 2500)) == list(range(2500))


@pytest.mark.real
@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_large_messages_are_cut_into_several_requests(publisher: Literal["rest", "grpc"], project: str, subscription: str) -> None:
    open_bus(project, "blue-", publisher).publish("results", [Outgoing(bytes([65 + n]) * 3_000_000) for n in range(5)])
    assert sorted(m.data[:1] for m in pulled(subscription, 5)) == [b"A", b"B", b"C", b"D", b"E"]


@pytest.mark.real
@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_a_missing_topic_is_a_bus_error_that_names_it(publisher: Literal["rest", "grpc"], project: str) -> None:
    with pytest.raises(BusError, match=rf"projects/{project}/topics/blue-nowhere"):
        open_bus(project, "blue-", publisher).publish("nowhere", [Outgoing(b"{}")])


@pytest.mark.real
@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_a_message_carries_the_trace_of_the_one_being_handled(publisher: Literal["rest", "grpc"], project: str, subscription: str) -> None:
    telemetry.write_to(None)
    with telemetry.handling("relabel_request", Delivery("1", b"")) as line:
        open_bus(project, "blue-", publisher).publish("results", [Outgoing(b"{}", {"type": "Test"})])
    (message,) = pulled(subscription, 1)
    assert message.attributes["traceparent"] == line.span.traceparent


@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_nothing_listening_is_a_bus_error(publisher: Literal["rest", "grpc"], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:9")
    monkeypatch.setattr(pubsub, "PAUSE", 0.01)
    with pytest.raises(BusError, match="not confirmed in 4 tries"):
        open_bus("p", "", publisher).publish("results", [Outgoing(b"{}")])


@pytest.mark.real
def test_creating_what_exists_is_no_error_and_a_missing_dead_letter_topic_is(project: str, subscription: str) -> None:
    administration = Administration(project, "blue-")
    administration.create_topics(["results", "results"])
    assert administration.create_subscription(Subscription("results--reader", "results", ack_deadline=30)) == subscription
    with pytest.raises(BusError, match="could not be made"):
        administration.create_subscription(Subscription("other", "results", ack_deadline=30, dead_letters="nowhere"))


def test_no_project_is_told_with_the_variable_to_set() -> None:
    with pytest.raises(BusError, match="HULLMARK_PROJECT"):
        open_bus("")


def test_a_batch_keeps_pub_subs_limits_and_the_order() -> None:
    messages = [Outgoing(bytes([n % 251]) * (n * 997 % 40_000)) for n in range(3000)]
    cut = list(batches(messages))
    assert [message for batch in cut for message in batch] == messages
    for batch in cut:
        assert len(batch) <= 1000
        wire = json.dumps({"messages": [{"data": "A" * (4 * -(-len(m.data) // 3)), "attributes": {}} for m in batch]})
        assert len(wire) < 10_000_000


def test_a_message_that_no_request_can_hold_is_refused_with_its_size() -> None:
    with pytest.raises(BusError, match="8,000,000 bytes"):
        list(batches([Outgoing(b"x" * 8_000_000)]))


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """A Pub/Sub that gives the answers it is told, one a request, and keeps what it was sent."""
    servers: list[ThreadingHTTPServer] = []

    def start(*answers: tuple[int, dict[str, Any]]) -> list[dict[str, Any]]:
        left, seen = list(answers), []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                status, body = left.pop(0)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{server.server_address[1]}")
        monkeypatch.setattr(pubsub, "PAUSE", 0.01)
        return seen

    yield start
    pubsub._pool().clear()
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_answer_that_says_later_is_tried_again(status: int, answering: Callable[..., list[dict[str, Any]]]) -> None:
    seen = answering((status, {}), (status, {}), (200, {"messageIds": ["1"]}))
    open_bus("p").publish("results", [Outgoing(b"{}")])
    assert len(seen) == 3


def test_an_answer_that_stays_bad_is_a_bus_error_with_its_text(answering: Callable[..., list[dict[str, Any]]]) -> None:
    seen = answering(*[(503, {"error": {"message": "overloaded"}})] * 4)
    with pytest.raises(BusError, match="overloaded"):
        open_bus("p").publish("results", [Outgoing(b"{}")])
    assert len(seen) == 4


def test_a_refusal_is_not_tried_again(answering: Callable[..., list[dict[str, Any]]]) -> None:
    seen = answering((403, {"error": {"message": "not permitted"}}))
    with pytest.raises(BusError, match="not permitted"):
        open_bus("p").publish("results", [Outgoing(b"{}")])
    assert len(seen) == 1


def test_a_partial_confirmation_is_no_confirmation(answering: Callable[..., list[dict[str, Any]]]) -> None:
    answering((200, {"messageIds": ["1"]}))
    with pytest.raises(BusError, match="1 of 2"):
        open_bus("p").publish("results", [Outgoing(b"{}"), Outgoing(b"{}")])


def test_publishing_by_rest_to_an_emulator_imports_no_google_client() -> None:
    program = (
        "import sys; from shared.adapters import pubsub; from shared.messages import Outgoing; pubsub.PAUSE = 0\n"
        "try: pubsub.open_bus('p').publish('results', [Outgoing(b'{}')])\n"
        "except pubsub.BusError: pass\n"
        "sys.exit(' '.join(sorted({'grpc', 'google.auth', 'google.api_core', 'google.pubsub_v1'} & set(sys.modules))))"
    )
    env = {"PYTHONPATH": ".", "PUBSUB_EMULATOR_HOST": "127.0.0.1:9"}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert ran.stderr.strip() == ""
