"""What keeping nodes in sync by events costs on a real kube-apiserver.

Run `python -m bench.events [--nodes N] [--events N] [--updates N]`.

First table, one at a time: from an event on the bus to the label on the node (node_event, the bus, node_apply), from somebody's edit to
its repair (the forwarder's watch before that), and a bare PATCH of the same label by the same adapter as the floor; with the API calls
of an event as the adapter counts them. The contestants take turns node by node: read the times as ratios. The last row is the life of a new
node: from the request that creates it, with a startup taint, to the answer that took the taint off, its labels there; what
`hullmark_time_to_label_seconds` says of the same nodes, by creation times of whole seconds, is printed before the table.

Second: a forwarder that starts in a cluster whose nodes are in sync, all but DRIFTED: what it publishes, and how long until it watches;
as it plans the listing by the store, and as it was before, when it published every node.

Third: the forwarder while so many kubelets report their status: what it publishes (0 is right), and its thread's CPU beside that of a
thread which reads the same watch and throws the lines away.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from bench.kube_clients import server_with
from bench.relabel import POLICY
from local.cloud.embedded import Cloud
from local.cloud.forwarder import Forwarder
from local.cloud.listing import Needed
from shared import telemetry, wiring
from shared.adapters.apiserver import ApiServer
from shared.adapters.kubernetes import Kubernetes
from shared.adapters.kubernetes_watch import NodeWatch, Seen
from shared.domain.documents.reading import Source
from shared.domain.labels.events import change_of
from shared.domain.nodes import Taint
from shared.messages import NodeChanged, Outgoing
from shared.world import Settings
from tests.kube_apiserver import Fleet, KubeApiserver

DECLARED, MANAGER = "r1", "bench"
STARTUP = Taint("hullmark.dev/unlabelled", "NoSchedule")
UNTIL = f"  until: {{taint: {{key: {STARTUP.key}, effect: {STARTUP.effect}}}}}\n"
POOL = f"apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {{name: bench}}\nspec:\n  labels: {{rack: {DECLARED}}}\n{UNTIL}"
DRIFTED = 5


@dataclass
class Calls:
    """What an adapter asks its server, and when each node's PATCH was answered."""

    counted: Counter[str] = field(default_factory=Counter)
    written: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answered: threading.Condition = field(default_factory=threading.Condition)

    def count(self, server: ApiServer) -> None:
        """Stand between the adapter and its server."""
        request: Callable[..., bytes] = server.request

        def counted(method: str, path: str, *args: Any, **more: Any) -> bytes:
            answer = request(method, path, *args, **more)
            with self.answered:
                self.counted[method] += 1
                if method == "PATCH":
                    self.written[path.partition("?")[0].rpartition("/")[2]].append(time.perf_counter())
                    self.answered.notify_all()
            return answer

        setattr(server, "request", counted)  # noqa: B010 - a method of this one object

    def seconds_to_write(self, node: str, began: float, writes: int = 1) -> float:
        """From `began` to the answer of the node's next PATCH, or of so many."""

        def since() -> list[float]:
            return [at for at in self.written[node] if at > began]

        with self.answered:
            if not self.answered.wait_for(lambda: len(since()) >= writes, timeout=30):
                raise SystemExit(f"{node} was not written")
            return since()[writes - 1] - began


class Counted(NodeWatch):
    """A watch that counts its lines and the CPU of the thread that reads them."""

    lines = 0
    cpu = 0.0

    def since(self, version: str) -> Iterator[Seen]:
        """Yield as the watch does."""
        for seen in super().since(version):
            self.lines += 1
            yield seen
            self.cpu = time.thread_time()


class Bare(Counted):
    """The same watch, its lines read and thrown away."""

    def since(self, version: str) -> Iterator[Seen]:
        """Yield nothing."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": "300"}
        accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
        for _ in self._server.follow("/api/v1/nodes", query, accept, 60.0):
            self.lines += 1
            self.cpu = time.thread_time()
        yield from ()


class Ear:
    """A bus that counts."""

    count = 0

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """Take them."""
        self.count += len(messages)


def latencies(kube: KubeApiserver, events: int, store: str) -> dict[str, tuple[list[float], Counter[str]]]:
    """Seconds of each contestant, one at a time, and the API calls of all of them. Uses the first 2 x `events` nodes."""
    telemetry.write_to(None)
    cloud = Cloud(Settings(store=f"file:{store}", cluster=f"kubeconfig:{kube.kubeconfig()}"), workers=2)
    cloud.world.revisions.stage("bench", [Source("bench.yaml", POLICY.format(value=DECLARED).encode())], MANAGER, cloud.world.clock())
    revision, _ = cloud.world.revisions.commit(MANAGER, cloud.world.clock())
    cloud.world.releases.adopt("default", revision.number, MANAGER, cloud.world.clock())
    cluster, bare, calls, bare_calls = cloud.world.cluster("default", None), Kubernetes(kube.access), Calls(), Calls()
    assert isinstance(cluster, Kubernetes)
    nodes = [change_of("added", "default", node) for node in cluster.nodes()[: 2 * events + 2]]
    calls.count(cluster.server)
    bare_calls.count(bare.server)
    cloud.start()
    by_event: list[float] = []
    by_hand: list[float] = []
    for number, (told, other) in enumerate(zip(nodes[::2], nodes[1::2], strict=True)):
        began = time.perf_counter()
        cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(told.model_dump()).outgoing()])
        by_event.append(calls.seconds_to_write(told.name, began))
        began = time.perf_counter()
        bare.apply_labels(other.name, other.uid, {"rack": DECLARED}, manager=MANAGER)
        by_hand.append(time.perf_counter() - began)
        cloud.drain()
        if not number:  # the first one opened connections and asked for the server's version
            by_event, by_hand = [], []
            calls.counted.clear()
            bare_calls.counted.clear()
    counted = Counter(calls.counted)
    repaired = _repairs(kube, cloud, calls, [told.name for told in nodes[2::2]])
    after = calls.counted - counted
    before = Counter(calls.counted)
    (nodes, seconds), opened, (nodes_after, seconds_after) = _time_to_label(), _registered(kube, cloud, calls, events), _time_to_label()
    of_opened = calls.counted - before
    cloud.stop()
    if nodes_after - nodes != events:
        raise SystemExit(f"{events} nodes were labelled, and hullmark_time_to_label_seconds counted {nodes_after - nodes:.0f}")
    print(f"hullmark_time_to_label_seconds of {events} new nodes: {(seconds_after - seconds) / events:.2f} at mean")
    return {
        "bare PATCH by the adapter": (by_hand, bare_calls.counted),
        "event on the bus to label written": (by_event, counted),
        "somebody's edit to its repair, forwarder included": (repaired, after),
        "a new node to labelled and untainted": (opened, of_opened),
    }


def _repairs(kube: KubeApiserver, cloud: Cloud, calls: Calls, names: Sequence[str]) -> list[float]:
    """Seconds from the request of somebody's edit (its own time included) to the repair's answer."""
    watch, fleet = Counted(ApiServer(kube.access)), Fleet(kube)
    forwarder = Forwarder("default", watch, cloud, quiet_start=True)
    _follow(forwarder)
    found = []
    for name in names:
        began = time.perf_counter()
        fleet.set_labels(name, {"rack": "by-hand"})
        found.append(calls.seconds_to_write(name, began))
        cloud.drain()
    return found


def _registered(kube: KubeApiserver, cloud: Cloud, calls: Calls, number: int) -> list[float]:
    """Seconds from the request that creates a node, tainted, until its labels are there and the taint is gone; the forwarder runs."""
    world, fleet = cloud.world, Fleet(kube)
    world.revisions.stage("bench", [Source("bench.yaml", POOL.encode())], MANAGER, world.clock())
    revision, _ = world.revisions.commit(MANAGER, world.clock())
    since = world.releases.head("default").k
    world.releases.to_all("default", "", revision.number, since=since, by=MANAGER, at=world.clock())
    found = []
    for name in (f"new-{each:05}" for each in range(number)):
        began = time.perf_counter()
        fleet.create(name, taints=[STARTUP], ready=True)
        found.append(calls.seconds_to_write(name, began, writes=2))
        cloud.drain()
    left = [node.name for node in Kubernetes(kube.access).with_taints().nodes() if STARTUP in (node.taints or ())]
    if left:
        raise SystemExit(f"the startup taint stayed on {left[:3]} and {len(left)} in all")
    for each in range(number):
        fleet.delete(f"new-{each:05}")
    return found


def _time_to_label() -> tuple[float, float]:
    """What `hullmark_time_to_label_seconds` has counted: nodes, and seconds of all of them."""
    family = next(family for family in telemetry.metrics() if family.name == "hullmark_time_to_label_seconds")
    values = {sample.suffix: sample.value for sample in family.samples}
    return values["_count"], values["_sum"]


def _follow(forwarder: Forwarder) -> None:
    version = forwarder.round("")

    def follow(at: str = version) -> None:
        while True:
            at = forwarder.round(at)

    threading.Thread(target=follow, daemon=True).start()


def heartbeats(kube: KubeApiserver, names: Sequence[str], updates: int) -> tuple[int, dict[str, Counted], float]:
    """Events published while kubelets report, the watches that saw it, and the seconds that the reports took."""
    ear, ours, bare = Ear(), Counted(ApiServer(kube.access)), Bare(ApiServer(kube.access))
    _follow(Forwarder("default", ours, ear, quiet_start=True))
    _follow(Forwarder("default", bare, Ear(), quiet_start=True))
    server = ApiServer(kube.access, in_flight=8)
    patch = {"Content-Type": "application/strategic-merge-patch+json"}

    def beat(number: int) -> None:
        at = f"2026-11-21T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        body = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": at}]}}).encode()
        headers = {**patch, "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
        server.request("PATCH", f"/api/v1/nodes/{names[number % len(names)]}/status", {"fieldManager": "kubelet"}, body, headers)

    began = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(beat, range(updates)))
    seconds = time.perf_counter() - began
    end = time.monotonic() + 30
    while min(ours.lines, bare.lines) < updates:
        if time.monotonic() > end:
            raise SystemExit(f"of {updates} updates the forwarder saw {ours.lines}, the bare watch {bare.lines}")
        time.sleep(0.05)
    return ear.count, {"a watch read and thrown away": bare, "the forwarder": ours}, seconds


def starts(kube: KubeApiserver, store: str) -> dict[str, tuple[int, float]]:
    """Events published and seconds until the watch begins, by how the forwarder starts; every node but DRIFTED is in sync."""
    world = wiring.build(Settings(store=f"file:{store}", cluster=f"kubeconfig:{kube.kubeconfig()}"), Ear())
    world.revisions.stage("bench", [Source("bench.yaml", POLICY.format(value=DECLARED).encode())], MANAGER, world.clock())
    revision, _ = world.revisions.commit(MANAGER, world.clock())
    world.releases.adopt("default", revision.number, MANAGER, world.clock())
    cluster = Kubernetes(kube.access)
    cluster.spread(
        lambda node: cluster.apply_labels(node.name, node.uid, {"rack": DECLARED}), cluster.nodes()[:-DRIFTED]
    )  # the first nodes are the other table's
    ways: dict[str, Needed | None] = {
        "planned by the store": Needed("default", cluster, world, lambda _: None),
        "every node is published": None,
    }
    found = {}
    for name, needed in ways.items():
        ear, watch = Ear(), NodeWatch(ApiServer(kube.access))
        forwarder = Forwarder("default", watch, ear, **({"needed": needed} if needed else {}))
        began = time.perf_counter()
        forwarder.round("")
        found[name] = ear.count, time.perf_counter() - began
    if found["planned by the store"][0] != DRIFTED:
        raise SystemExit(f"{DRIFTED} nodes are not in sync, and {found['planned by the store'][0]} were published")
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--updates", type=int, default=6000)
    given = parser.parse_args()
    logging.getLogger("hullmark").setLevel(logging.ERROR)  # that its server goes away at the end is no news
    with server_with(given.nodes) as kube, tempfile.TemporaryDirectory(prefix="hullmark-bench-") as store:
        found = latencies(kube, given.events, store)
        print(f"\none at a time, {given.events} each, {given.nodes} nodes in the cluster")
        print(f"{'':50} p50 ms  p99 ms  of bare  API calls each")
        floor = statistics.median(next(iter(found.values()))[0])
        for name, (seconds, calls) in found.items():
            p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
            each = ", ".join(f"{count / len(seconds):.2f} {method}" for method, count in sorted(calls.items()))
            print(f"{name:50} {1e3 * p50:6.1f}  {1e3 * p99:6.1f}  {p50 / floor:7.2f}  {each}")

        with tempfile.TemporaryDirectory(prefix="hullmark-bench-") as another:
            print(f"\na forwarder that starts: {given.nodes} nodes, {DRIFTED} of them not in sync")
            print(f"{'':50} published  seconds until it watches")
            for name, (published, seconds) in starts(kube, another).items():
                print(f"{name:50} {published:9}  {seconds:10.2f}")

        names = [f"node-{number:05}" for number in range(given.nodes)]
        published, watches, took = heartbeats(kube, names, given.updates)
        print(f"\n{given.updates} status updates of {given.nodes} nodes in {took:.1f} s: {published} events published")
        print(f"{'':50} lines   CPU s/1,000")
        for name, watch in watches.items():
            print(f"{name:50} {watch.lines:5}   {1e3 * watch.cpu / watch.lines:11.3f}")
    if published:
        raise SystemExit("status updates are no events")


if __name__ == "__main__":
    main()
