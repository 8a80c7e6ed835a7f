"""The forwarder over a source that breaks, expires and repeats, and over a real API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from local.cloud.forwarder import Forwarder
from shared.adapters.apiserver import ApiServer
from shared.adapters.kubernetes_watch import Expired, NodeWatch, Seen
from shared.domain.nodes import Node
from shared.messages import Outgoing
from shared.ports import BusError, Refused, Unavailable
from tests.kube_apiserver import Fleet, KubeApiserver


class Bus:
    """Keeps what was published; fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.told: list[tuple[str, str]] = []
        self.arrived = threading.Condition()

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        assert topic == "node-events"
        if self.failures:
            self.failures -= 1
            raise BusError("not now")
        with self.arrived:
            for message in messages:
                body = json.loads(message.data)
                self.told.append((body["name"], body["kind"]))
            self.arrived.notify_all()


class Source:
    """Lists what it is given, and plays its watches one after the other; an exception among the lines breaks the watch."""

    def __init__(self, lists: list[list[Node]], watches: Sequence[Sequence[Seen | Exception]] = ()) -> None:
        self.lists, self.watches = lists, [list(watch) for watch in watches]
        self.asked: list[str] = []

    def list(self) -> tuple[list[Node], str]:
        return self.lists.pop(0), f"list-{len(self.lists)}"

    def since(self, version: str) -> Iterator[Seen]:
        self.asked.append(version)
        for line in self.watches.pop(0):
            if isinstance(line, Exception):
                raise line
            yield line


def seen(version: str, labels: dict[str, str], uid: str = "u", *, deleted: bool = False) -> Seen:
    return Seen(version, Node("n1", uid, labels, version), deleted)


def forward(source: Source, bus: Bus, rounds: int, *, quiet_start: bool = False) -> list[float]:
    pauses: list[float] = []
    forwarder = Forwarder("blue", source, bus, quiet_start=quiet_start, sleep=pauses.append)
    version = ""
    for _ in range(rounds):
        version = forwarder.round(version)
    return pauses


def test_the_first_listing_is_told_whole_and_later_only_what_changes() -> None:
    bus = Bus()

    forward(Source([[Node("n1", "u", {"a": "1"})]], [[seen("5", {"a": "1"}), seen("6", {"a": "2"}), Seen("9")]]), bus, 2)

    assert bus.told == [("n1", "added"), ("n1", "changed")]


def test_a_quiet_start_tells_only_what_happens_from_then_on() -> None:
    bus = Bus()

    forward(Source([[Node("n1", "u", {"a": "1"})]], [[seen("5", {"a": "1"}), seen("6", {})]]), bus, 2, quiet_start=True)

    assert bus.told == [("n1", "changed")]


def test_a_node_created_again_is_new() -> None:
    bus = Bus()

    forward(Source([[Node("n1", "u", {})]], [[seen("5", {}, deleted=True), seen("6", {}, "v")]]), bus, 2)

    assert bus.told == [("n1", "added"), ("n1", "added")]


def test_a_broken_watch_goes_on_after_the_last_line_bookmarks_included() -> None:
    source = Source([[]], [[seen("5", {}), Seen("8"), Unavailable("reset")], [seen("9", {"a": "1"})], []])
    bus = Bus()

    pauses = forward(source, bus, 4)

    assert source.asked == ["list-0", "8", "9"]
    assert len(pauses) == 1
    assert bus.told == [("n1", "added"), ("n1", "changed")]


def test_after_410_gone_it_lists_again_and_tells_the_difference() -> None:
    source = Source([[Node("n1", "u", {})], [Node("n1", "u", {}), Node("n2", "w", {})]], [[Expired("too old")], []])
    bus = Bus()

    forward(source, bus, 4)

    assert bus.told == [("n1", "added"), ("n2", "added")]


def test_an_event_that_the_bus_did_not_take_is_published_again_before_anything_else() -> None:
    bus = Bus(failures=3)

    pauses = forward(Source([[Node("n1", "u", {})]]), bus, 1)

    assert bus.told == [("n1", "added")]
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


def test_the_pauses_grow_and_stay_bounded() -> None:
    pauses = forward(Source([[]], [[Unavailable("down")]] * 12), Bus(), 13)

    assert pauses == sorted(pauses)
    assert pauses[-1] == 60.0


@pytest.mark.real
def test_on_a_real_server_status_updates_are_silent_and_labels_are_told(kube: KubeApiserver, real_fleet: Fleet) -> None:
    bus = Bus()
    real_fleet.create("forwarded", {"rack": "r1"})
    forwarder = Forwarder("blue", NodeWatch(ApiServer(kube.access)), bus)
    version = forwarder.round("")

    def watch() -> None:
        forwarder.round(version)

    threading.Thread(target=watch, daemon=True).start()
    kubelet = ApiServer(kube.access)
    status = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).encode()
    kubelet.request(
        "PATCH", "/api/v1/nodes/forwarded/status", body=status, headers={"Content-Type": "application/strategic-merge-patch+json"}
    )
    real_fleet.set_labels("forwarded", {"rack": "r2"})
    real_fleet.delete("forwarded")
    real_fleet.create("forwarded", {"rack": "r2"})

    expected = [("forwarded", "added"), ("forwarded", "changed"), ("forwarded", "added")]
    with bus.arrived:
        assert bus.arrived.wait_for(lambda: len(bus.told) >= len(expected), timeout=60)
    assert bus.told == expected


@pytest.mark.real
def test_a_real_server_that_refuses_the_watch_is_an_error_that_says_so(kube: KubeApiserver) -> None:
    with pytest.raises(Refused, match="nodes"):
        list(NodeWatch(ApiServer(lambda: kube.access("nobody"))).since("1"))


class Lines(ApiServer):
    """An API server whose watch consists of these lines."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.lines = lines

    def follow(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], silence_seconds: float) -> Iterator[bytes]:
        assert (path, query["resourceVersion"], query["allowWatchBookmarks"]) == ("/api/v1/nodes", "7", "true")
        yield from (json.dumps(line).encode() + b"\n" for line in self.lines)


def test_a_watch_tells_nodes_bookmarks_and_deletions_with_the_version_to_go_on_from() -> None:
    node = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "8", "labels": {"rack": "r1"}}}
    bookmark = {
        "type": "BOOKMARK",
        "object": {"kind": "PartialObjectMetadata", "metadata": {"resourceVersion": "12", "creationTimestamp": None}},
    }

    told = list(NodeWatch(Lines({"type": "ADDED", "object": node}, bookmark, {"type": "DELETED", "object": node})).since("7"))

    assert [(one.version, one.node.name if one.node else None, one.deleted) for one in told] == [
        ("8", "n1", False),
        ("12", None, False),
        ("8", "n1", True),
    ]


@pytest.mark.parametrize(("code", "error"), [(410, Expired), (500, Unavailable)])
def test_an_error_in_the_watch_says_whether_to_list_again(code: int, error: type[Exception]) -> None:
    status = {"kind": "Status", "status": "Failure", "message": "too old resource version: 7 (90)", "code": code}

    with pytest.raises(error, match="too old"):
        list(NodeWatch(Lines({"type": "ERROR", "object": status})).since("7"))


def test_a_line_that_is_no_event_is_an_error_to_try_again_after() -> None:
    with pytest.raises(Unavailable, match="no event"):
        list(NodeWatch(Lines({"kind": "what"})).since("7"))
