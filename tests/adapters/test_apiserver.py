"""What a real API server can't be made to do on demand: bursts of errors, silence, garbage, broken answers, expired credentials."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from local.steps import ROOT
from shared.adapters.apiserver import ROLES, TRIES, Access, ApiServer, StatusError, plain
from shared.adapters.kubernetes import Kubernetes
from shared.ports import Conflict, NodeGone, Owner, Pod, Refused, Stale, Unavailable

Answer = Callable[[BaseHTTPRequestHandler], None]


class Scripted:
    """A server that gives one scripted answer after another (the last one for ever) and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections: set[tuple[str, int]] = set()
        self._answers, self._lock = list(answers), threading.Lock()
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with scripted._lock:
                    scripted.requests.append((self.command, self.path, dict(self.headers), body))
                    scripted.connections.add(self.client_address)
                    scripted_answer = scripted._answers.pop(0) if len(scripted._answers) > 1 else scripted._answers[0]
                scripted_answer(self)

            do_GET = do_PATCH = do_CONNECT = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[Scripted]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def says(code: int, body: Any = None, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def status(code: int, reason: str, message: str = "", **details: Any) -> Answer:
    return says(code, {"kind": "Status", "reason": reason, "message": message, "code": code, "details": details})


def node(name: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": "u1", "resourceVersion": "7", **metadata}}


def hangs(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.recv(1)  # nothing comes, until the client gives up
    handler.close_connection = True


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def truncated(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"metadata": {')
    handler.close_connection = True


def trickles(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(1200):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


class Client:
    """A cluster on a scripted server, with the pauses that it took."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.pauses: list[float] = []
        self.now = 0.0
        self.logins = itertools.count()
        settings = {"sleep": self._sleep, "monotonic": lambda: self.now, "jitter": lambda: 0.5, "silence_seconds": 60, **settings}
        self.cluster = Kubernetes(lambda: self._login(url), **settings)

    def _login(self, url: str) -> Access:
        token = f"Bearer {next(self.logins)}"
        return Access(url, authorization=lambda: token)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_a_burst_of_server_errors_is_sat_out_with_growing_pauses() -> None:
    with Scripted(says(500), says(503), says(502, b"<html>bad gateway"), says(200, node())).running() as server:
        client = Client(server.url)
        found = client.cluster.node("n1")
    assert found is not None
    assert found.uid == "u1"
    assert client.pauses == pytest.approx([0.2, 0.4, 0.8])


def test_errors_that_last_end_as_unavailable_after_a_few_tries() -> None:
    with Scripted(status(500, "InternalError", "etcdserver: request timed out")).running() as server:
        client = Client(server.url)
        with pytest.raises(Unavailable, match=r"GET /api/v1/nodes/n1 at http://.*: 500 etcdserver: request timed out"):
            client.cluster.node("n1")
    assert len(server.requests) == TRIES


def test_retry_after_is_obeyed_with_jitter_from_the_header_or_the_status() -> None:
    with Scripted(
        says(429, {"message": "slow down"}, Retry_After="2"), status(429, "TooManyRequests", retryAfterSeconds=4), says(200, node())
    ).running() as server:
        client = Client(server.url)
        client.cluster.apply_labels("n1", "u1", {"a": "1"})
    assert client.pauses == pytest.approx([2 * 1.125, 4 * 1.125])


def test_a_longer_pause_than_a_call_may_take_is_left_to_the_caller() -> None:
    with Scripted(says(503, {}, Retry_After="300")).running() as server:
        client = Client(server.url)
        with pytest.raises(Unavailable) as later:
            client.cluster.node("n1")
    assert later.value.retry_after == 300
    assert client.pauses == []


def test_a_silent_server_is_given_up() -> None:
    with Scripted(hangs).running() as server:
        client = Client(server.url, silence_seconds=0.05)
        with pytest.raises(Unavailable, match="timed out"):
            client.cluster.node("n1")
        assert len(client.pauses) == TRIES - 1


def test_an_answer_that_trickles_is_given_up() -> None:
    with Scripted(trickles).running() as server, pytest.raises(Unavailable, match="timed out"):
        Client(server.url, monotonic=time.monotonic, call_seconds=0.3).cluster.node("n1")


def test_headers_that_drip_in_end_with_the_call() -> None:
    """Each look at the clock is a second later, so that sixty reads are a minute."""

    def drips(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(99):  # http.client itself takes a hundred
                handler.wfile.write(b"X-%d: %s\r\n" % (number, b"x" * 9000))
            handler.wfile.write(b"Content-Length: 2\r\n\r\n{}")

    seconds = itertools.count()
    with Scripted(drips).running() as server:
        client = Client(server.url, monotonic=lambda: float(next(seconds)), silence_seconds=30)
        with pytest.raises(Unavailable, match=r"timed out \(an answer still incomplete at the end of its time\)"):
            client.cluster.node("n1")
        assert len(server.requests) == 1


def test_a_caller_that_has_less_time_or_tries_asks_no_longer() -> None:
    with Scripted(says(503)).running() as server:
        client = Client(server.url)
        with pytest.raises(Unavailable, match="503"):
            client.cluster.within(lambda: 60.0, tries=1).node("n1")
        assert len(server.requests) == 1
        end = client.now + 0.5
        with pytest.raises(Unavailable, match="503"):
            client.cluster.within(lambda: end - client.now).node("n1")
        assert len(server.requests) == 3
        assert client.now < end
        with pytest.raises(Unavailable, match="not sent, no time was left"):
            client.cluster.within(lambda: 0.0).node("n1")
        assert len(server.requests) == 3


def test_credentials_that_expired_are_read_anew_even_by_who_tries_once() -> None:
    with Scripted(status(401, "Unauthorized"), says(200, node())).running() as server:
        assert Client(server.url).cluster.within(lambda: 60.0, tries=1).node("n1") is not None


def test_a_turn_among_the_writes_that_comes_too_late_is_not_waited_for() -> None:
    with Scripted(says(200, node())).running() as server:
        client = Client(server.url, writes_per_second=0.1)
        client.cluster.apply_labels("n1", "u1", {})
        with pytest.raises(Unavailable, match="its turn among the writes comes too late"):
            client.cluster.within(lambda: 5.0).apply_labels("n1", "u1", {})
        assert len(server.requests) == 1


def test_an_unreachable_server_is_unavailable_and_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable, match=f"{url}: nothing listens there"):
            Client(url).cluster.nodes()


def test_a_truncated_answer_is_asked_for_again() -> None:
    with Scripted(truncated, says(200, node())).running() as server:
        assert Client(server.url).cluster.node("n1") is not None


@pytest.mark.parametrize("garbage", [b"", b"<html>hello", b'{"items": 3}', b'{"metadata": {"uid": 7}}', b"\xff\xfe"])
def test_garbage_is_not_taken_for_an_answer(garbage: bytes) -> None:
    with Scripted(says(200, garbage)).running() as server:
        cluster = Client(server.url).cluster
        with pytest.raises(Unavailable, match="not the answer of a Kubernetes API server"):
            cluster.node("n1")
        with pytest.raises(Unavailable):
            cluster.nodes()


def test_a_connection_that_the_server_closed_while_idle_is_replaced_without_a_pause() -> None:
    with Scripted(says(200, node()), hangs_up, says(200, node())).running() as server:
        client = Client(server.url)
        client.cluster.node("n1")
        client.cluster.node("n1")
    assert client.pauses == []
    assert len(server.connections) == 2


def test_connections_are_kept_and_never_more_than_may_be_in_flight() -> None:
    with Scripted(says(200, node())).running() as server:
        cluster = Client(server.url, in_flight=4).cluster
        cluster.spread(cluster.node, [f"n{i}" for i in range(40)])
    assert len(server.requests) == 40
    assert 1 <= len(server.connections) <= 4


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (8, 8), (1000, 32)])
def test_in_flight_stays_within_bounds(asked: int, given: int) -> None:
    assert ApiServer(lambda: Access("http://nowhere"), in_flight=asked).in_flight == given


def test_writes_keep_the_pace_that_was_set_and_reads_need_none() -> None:
    with Scripted(says(200, node())).running() as server:
        client = Client(server.url, writes_per_second=10)
        for _ in range(3):
            client.cluster.apply_labels("n1", "u1", {"a": "1"})
        client.cluster.node("n1")
    assert client.pauses == pytest.approx([0.1, 0.1])


def test_expired_credentials_are_read_anew_once() -> None:
    with Scripted(says(200, node()), status(401, "Unauthorized"), says(200, node())).running() as server:
        client = Client(server.url)
        client.cluster.node("n1")
        client.cluster.node("n1")
    assert [headers["Authorization"] for _, _, headers, _ in server.requests] == ["Bearer 0", "Bearer 0", "Bearer 1"]
    assert client.pauses == []


def test_refused_credentials_are_refused() -> None:
    with Scripted(status(401, "Unauthorized", "Unauthorized")).running() as server:
        with pytest.raises(Refused, match=r"GET /api/v1/nodes/n1 at http://.*: Unauthorized") as refused:
            Client(server.url).cluster.node("n1")
        assert len(server.requests) == 2
    assert refused.value.reason == "Unauthorized"


def test_a_refusal_carries_the_servers_words_cut_short() -> None:
    with Scripted(status(403, "Forbidden", 'admission webhook "policy.example" denied the request: ' + "x " * 4000)).running() as server:
        with pytest.raises(Refused, match="admission webhook") as refused:
            Client(server.url).cluster.apply_labels("n1", "u1", {"a": "1"})
        assert len(server.requests) == 1
    assert refused.value.reason == "Forbidden"
    assert len(str(refused.value)) < 500


def test_a_conflict_without_managers_is_stale() -> None:
    with Scripted(status(409, "Conflict", "the object has been modified")).running() as server, pytest.raises(Stale):
        Client(server.url).cluster.apply_labels("n1", "u1", {"a": "1"})


def test_a_large_cluster_is_listed_in_pages() -> None:
    pages = [
        says(200, {"metadata": {"continue": "next"}, "items": [node("a"), node("b")]}),
        says(200, {"metadata": {}, "items": [node("c")]}),
    ]
    with Scripted(*pages).running() as server:
        assert [found.name for found in Client(server.url).cluster.nodes()] == ["a", "b", "c"]
    assert [path for _, path, _, _ in server.requests] == ["/api/v1/nodes?limit=500", "/api/v1/nodes?limit=500&continue=next"]
    assert all("as=PartialObjectMetadataList" in headers["Accept"] for _, _, headers, _ in server.requests)


def test_a_listing_that_expired_between_pages_begins_again() -> None:
    first = says(200, {"metadata": {"continue": "next"}, "items": [node("a")]})
    with Scripted(first, status(410, "Expired"), first, says(200, {"metadata": {}, "items": [node("b")]})).running() as server:
        assert [found.name for found in Client(server.url).cluster.nodes()] == ["a", "b"]


def test_what_is_sent_is_one_apply_with_uid_and_nothing_but_labels() -> None:
    with Scripted(says(200, node())).running() as server:
        Client(server.url).cluster.apply_labels("n1", "u1", {"a": "1"}, force=False)
    method, path, headers, body = server.requests[0]
    assert (method, path) == ("PATCH", "/api/v1/nodes/n1?fieldManager=hullmark&force=false&fieldValidation=Strict")
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert "as=PartialObjectMetadata;" in headers["Accept"]
    assert json.loads(body) == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1", "labels": {"a": "1"}}}


def test_what_is_sent_names_the_manager_of_this_hullmark() -> None:
    with Scripted(says(200, node())).running() as server:
        Client(server.url, owner=Owner("blue")).cluster.apply_labels("n1", "u1", {"a": "1"})
    assert server.requests[0][1] == "/api/v1/nodes/n1?fieldManager=blue&force=true&fieldValidation=Strict"


def test_a_node_without_a_uid_is_not_applied_to() -> None:
    with Scripted().running() as server, pytest.raises(NodeGone, match="would create it"):
        Client(server.url).cluster.apply_labels("n1", "", {"a": "1"})
    assert server.requests == []


def test_a_server_behind_a_path_is_reached_there() -> None:
    with Scripted(says(200, {"gitVersion": "v1.35.4"})).running() as server:
        assert Client(server.url + "/k8s/clusters/c-1").cluster.server_version() == "v1.35.4"
    assert server.requests[0][1] == "/k8s/clusters/c-1/version"


def test_a_proxy_is_asked_for_a_tunnel_to_the_server() -> None:
    with Scripted(says(407)).running() as proxy:
        access = Access("http://api.example:6443", proxy=proxy.url.replace("http://", "http://me:pass%20word@"))
        with pytest.raises(Unavailable, match="407"):
            ApiServer(lambda: access, sleep=lambda _: None).request("GET", "/version")
    method, target, headers, _ = proxy.requests[0]
    assert (method, target) == ("CONNECT", "api.example:6443")
    assert headers["Proxy-Authorization"] == "Basic bWU6cGFzcyB3b3Jk"


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1", "https://proxy.example:3128"])
def test_a_proxy_of_another_kind_is_refused_by_name(url: str) -> None:
    with pytest.raises(Refused, match="only http:// proxies"):
        ApiServer(lambda: Access("https://api.example", ca="", proxy=url)).request("GET", "/version")


@pytest.mark.parametrize("url", ["ftp://x", "https://", "https://host:port", "nonsense"])
def test_a_server_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="server"):
        ApiServer(lambda: Access(url)).request("GET", "/version")


def test_a_rejection_says_the_call_and_the_code() -> None:
    with (
        Scripted(status(404, "NotFound", "no such thing")).running() as server,
        pytest.raises(StatusError, match="404 no such thing") as rejected,
    ):
        ApiServer(lambda: Access(server.url)).request("GET", "/apis/x/v1/things")
    assert rejected.value.refused().reason == "NotFound"


def test_whoever_holds_the_whole_map_stands_in_the_way_of_every_key() -> None:
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "odd" using v1', "field": ".metadata.labels"}
    with Scripted(status(409, "Conflict", causes=[cause])).running() as server, pytest.raises(Conflict) as refused:
        Client(server.url).cluster.apply_labels("n1", "u1", {"a": "1", "b": "2"}, force=False)
    assert refused.value.managers == {"a": "odd", "b": "odd"}


def test_who_adds_to_pods_has_the_owners_name() -> None:
    pod = Pod("default", "p1", "u1", resource_version="7")
    with Scripted(says(200, node())).running() as server:
        Client(server.url).cluster.add_to_pod(pod, {"a": "1"}, {})
        mine = Kubernetes(lambda: Access(server.url), Owner("mine"))
        mine.add_to_pod(pod, {"a": "1"}, {})
    assert [path.partition("?")[2] for _, path, _, _ in server.requests] == ["fieldManager=hullmark-pods", "fieldManager=mine-pods"]


def test_what_rbac_denies_names_the_role_that_allows_it() -> None:
    denied = 'nodes is forbidden: User "ada" cannot list resource "nodes" in API group "" at the cluster scope'
    with Scripted(status(403, "Forbidden", denied)).running() as server, pytest.raises(Refused) as refused:
        Client(server.url).cluster.nodes()
    assert str(refused.value).endswith(
        f"{denied}: grant ClusterRole hullmark-reader of examples/rbac.yaml; `kubectl auth can-i list nodes` says whether it is there"
    )


def test_the_roles_that_are_named_allow_what_they_are_named_for() -> None:
    documents = yaml.safe_load_all((ROOT / "examples/rbac.yaml").read_text())
    roles = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ClusterRole"}
    for (verb, resource), role in ROLES.items():
        assert any(verb in rule["verbs"] and resource in rule["resources"] for rule in roles[role]["rules"]), role


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "HTTPSConnectionPool(host='oauth2.example', port=443): Max retries exceeded with url: /token (Caused by "
            "NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f1>: Failed to establish a new connection: "
            "[Errno 111] Connection refused'))",
            "oauth2.example:443: Connection refused",
        ),
        ("HTTPConnectionPool(host='h', port=80): Read timed out. (read timeout=5)", "h:80: Read timed out. (read timeout=5)"),
        ("nodes is forbidden", "nodes is forbidden"),
    ],
)
def test_a_librarys_names_are_taken_out_of_its_words(text: str, said: str) -> None:
    assert plain(text) == said
