"""What the forwarder costs while 5,000 kubelets report their status to a real kube-apiserver, and that it tells none of it.

    python -m bench.forwarder [--nodes N] [--updates N]

Prints one JSON document: status updates sent and seen, events published meanwhile (0 is right), the watching thread's CPU milliseconds per
1,000 updates, and the milliseconds from a label's change to its event on the bus (p50, p99).
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from local.forwarder import Forwarder
from local.kube_apiserver import Fleet, KubeApiserver
from shared.adapters.apiserver import ApiServer
from shared.adapters.kubernetes_watch import NodeWatch, Seen
from shared.messages import Outgoing


class Bus:
    """Keeps when each node was told of."""

    def __init__(self) -> None:
        self.count = 0
        self.at: dict[str, float] = {}
        self.arrived = threading.Condition()

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """Take them."""
        with self.arrived:
            self.count += len(messages)
            for message in messages:
                self.at[json.loads(message.data)["name"]] = time.perf_counter()
            self.arrived.notify_all()


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


def main() -> None:
    """Fill a cluster, forward, send status updates, then change labels one at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--updates", type=int, default=5_000)
    options = parser.parse_args()
    names = [f"node-{number:05}" for number in range(options.nodes)]
    with KubeApiserver(gogc=400) as kube:
        fleet = Fleet(kube)
        fleet.fill(names)
        bus, watch = Bus(), Counted(ApiServer(kube.access))
        forwarder = Forwarder("bench", watch, bus)
        version = forwarder.round("")
        told_at_start = bus.count

        def follow() -> None:
            at = version
            while True:
                at = forwarder.round(at)

        threading.Thread(target=follow, daemon=True).start()
        status = _status_updates(kube, names, options.updates, watch)
        told = bus.count - told_at_start
        waits = _label_changes(fleet, names[:200], bus)
    print(
        json.dumps(
            {
                "nodes": options.nodes,
                "told_at_start": told_at_start,
                "status_updates": options.updates,
                "status_updates_seen": status["seen"],
                "events_published_meanwhile": told,
                "cpu_ms_per_1000_updates": round(1e6 * status["cpu"] / max(status["seen"], 1), 1),
                "label_to_event_ms": {
                    "p50": round(1e3 * statistics.median(waits), 1),
                    "p99": round(1e3 * statistics.quantiles(waits, n=100)[98], 1),
                },
            },
            indent=2,
        )
    )


def _status_updates(kube: KubeApiserver, names: Sequence[str], count: int, watch: Counted) -> dict[str, float]:
    """Send heartbeats as kubelets do, and wait until the watch has seen them."""
    server = ApiServer(kube.access, in_flight=8)
    before, cpu = watch.lines, watch.cpu
    patch = {
        "Content-Type": "application/strategic-merge-patch+json",
        "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    }

    def beat(number: int) -> None:
        condition = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": f"2026-11-21T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        }
        body = json.dumps({"status": {"conditions": [condition]}}).encode()
        server.request("PATCH", f"/api/v1/nodes/{names[number % len(names)]}/status", {"fieldManager": "kubelet"}, body, patch)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(beat, range(count)))
    end = time.monotonic() + 30
    while watch.lines - before < count and time.monotonic() < end:
        time.sleep(0.05)
    return {"seen": watch.lines - before, "cpu": watch.cpu - cpu}


def _label_changes(fleet: Fleet, names: Sequence[str], bus: Bus) -> list[float]:
    """Change one label at a time; seconds from the request to the event, the request's own time included."""
    waits = []
    for name in names:
        start = time.perf_counter()
        fleet.set_labels(name, {"bench": "changed"})
        with bus.arrived:
            bus.arrived.wait_for(lambda name=name, start=start: bus.at.get(name, 0) > start, timeout=10)
        waits.append(bus.at[name] - start)
    return waits


if __name__ == "__main__":
    main()
