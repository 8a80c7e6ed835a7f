"""Throughput of the chain over real transport: emulator, pump, one process per function; the emulator's own ceiling beside it.

Run `python -m bench.chain [--nodes N] [--messages N] [--simulated]`. With a kube-apiserver at hand the nodes are real ones; with
`--simulated` they live in the store, and the store is what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import urllib3
from ulid import ULID

from bench.kube_clients import server_with
from bench.relabel import POLICY
from local import steps
from local.cloud.emulated import RealCloud, environment
from local.cloud.emulator import Emulator
from local.cloud.processes import FunctionProcess
from local.cloud.pump import push
from shared.adapters.pubsub import Administration, Puller, Subscription, open_bus
from shared.domain.documents.reading import Source
from shared.messages import NodeApply, Outgoing, PartResult, RelabelRequest
from shared.wiring import build
from shared.world import Settings
from tests.kube_apiserver import assets

PROJECT = "bench"


@contextmanager
def one_process(name: str, settings: Settings, host: str) -> Iterator[FunctionProcess]:
    """One function's process, started and not waited for."""
    process = FunctionProcess(steps.load().steps[name], environment(settings, host), lambda _: None)
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


def a_push(sent: Outgoing) -> bytes:
    """The bytes of a push of this message."""
    message = SimpleNamespace(
        data=sent.data, attributes=sent.attributes, message_id=str(ULID()), publish_time=datetime.now(UTC), ordering_key=""
    )
    return json.dumps(push(message, f"projects/{PROJECT}/subscriptions/bench", 1)).encode()


def post(pool: urllib3.PoolManager, process: FunctionProcess, topic: str, body: bytes) -> int:
    """Deliver once; the status."""
    url = f"{process.url}/projects/{PROJECT}/topics/{topic}"
    return pool.request("POST", url, body=body, headers={"content-type": "application/json"}, retries=False).status


def first_answer(settings: Settings, host: str) -> tuple[float, float]:
    """Seconds from the start of a node_apply process to its first message taken (result published and confirmed, no node in it), and
    the CPU seconds of its whole short life, which a busy machine does not stretch.
    """
    before, began = children_cpu(), time.perf_counter()
    seconds = _first_answer(settings, host, began)
    return seconds, children_cpu() - before


def children_cpu() -> float:
    """CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _first_answer(settings: Settings, host: str, began: float) -> float:
    body, pool = a_push(NodeApply(revision=0, nodes=[]).outgoing()), urllib3.PoolManager()
    with one_process("node_apply", settings, host) as process:
        while True:
            try:
                if (status := post(pool, process, NodeApply.TOPIC, body)) == 200:
                    return time.perf_counter() - began
                raise SystemExit(f"node_apply answered {status}")
            except urllib3.exceptions.NewConnectionError:
                time.sleep(0.005)


def per_process(name: str, topic: str, sent: Outgoing, settings: Settings, host: str, count: int) -> float:
    """Messages a second that one process takes, eight at a time."""
    pool, body = urllib3.PoolManager(maxsize=8), a_push(sent)
    with one_process(name, settings, host) as process, ThreadPoolExecutor(8) as threads:
        process.wait_ready()
        post(pool, process, topic, body)
        began = time.perf_counter()
        statuses = set(threads.map(lambda _: post(pool, process, topic, body), range(count)))
        seconds = time.perf_counter() - began
    if statuses != {200}:
        raise SystemExit(f"{name} answered {statuses}")
    return count / seconds


def emulator_ceiling(count: int) -> tuple[float, float]:
    """Messages a second that go in (batched, confirmed) and come out by streaming pull (acknowledged, nothing done with them)."""
    administration = Administration(PROJECT)
    administration.create_topics(["ceiling"])
    name = administration.create_subscription(Subscription("ceiling--reader", "ceiling", 60))
    bus, sent = open_bus(PROJECT), PartResult().outgoing()
    began = time.perf_counter()
    bus.publish("ceiling", [sent] * count)
    going_in = count / (time.perf_counter() - began)
    taken, done = [0], threading.Event()

    def take(message: Any) -> None:
        message.ack()
        taken[0] += 1
        if taken[0] >= count:
            done.set()

    puller = Puller()
    began = time.perf_counter()
    puller.follow(name, take, in_hand=1000)
    done.wait(120)
    coming_out = taken[0] / (time.perf_counter() - began)
    puller.close()
    return going_in, coming_out


def through_the_pump(cloud: RealCloud, count: int) -> float:
    """Messages a second from publish to a function that does next to nothing (a result of no action)."""
    lane = next(lane for lane in cloud.pump.lanes if lane.route.topic == PartResult.TOPIC) if cloud.pump else None
    assert lane is not None
    before, began = lane.counts.taken, time.perf_counter()
    cloud.bus.publish(PartResult.TOPIC, [PartResult().outgoing()] * count)
    wait_for(lambda: lane.counts.taken - before >= count)
    return count / (time.perf_counter() - began)


def end_to_end(cloud: RealCloud, expected: dict[str, int]) -> float:
    """Seconds from the published request to the action's outcome."""
    world, action = build(cloud.settings, cloud.bus), str(ULID())
    began = time.perf_counter()
    cloud.bus.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, name="update_site").outgoing()])
    wait_for(lambda: world.actions.outcome(action))
    seconds = time.perf_counter() - began
    ended = world.actions.outcome(action)
    if ended is None or ended.counts != expected:
        raise SystemExit(f"expected {expected}, got {ended and ended.counts}")
    return seconds


def wait_for(true: Callable[[], Any], seconds: float = 300) -> None:
    """Return when it is true."""
    deadline = time.perf_counter() + seconds
    while not true():
        if time.perf_counter() > deadline:
            raise SystemExit("not done in time")
        time.sleep(0.02)


def node_list(folder: Path, count: int) -> str:
    """A file of so many nodes for a simulated cluster."""
    file = folder / "nodes.json"
    items = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{n:05}", "labels": {"kubernetes.io/os": "linux"}}}
        for n in range(count)
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return f"simulated:{file}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--simulated", action="store_true")
    given = parser.parse_args()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hullmark-bench-")))
        emulator = Emulator()
        opened.callback(emulator.stop)
        os.environ["PUBSUB_EMULATOR_HOST"] = emulator.host
        real = assets() is not None and not given.simulated
        kube = opened.enter_context(server_with(given.nodes)) if real else None
        cluster = f"kubeconfig:{kube.kubeconfig()}" if kube else node_list(folder, given.nodes)
        settings = Settings(store=f"file:{folder}/store", cluster=cluster, bus="pubsub", project=PROJECT)
        Administration(PROJECT).create_topics(steps.load().topics)

        print("cold start of node_apply, process start to first message taken (median):")
        for publisher in ("rest", "grpc"):
            chosen = settings.model_copy(update={"publisher": publisher})
            starts = [first_answer(chosen, emulator.host) for _ in range(given.rounds)]
            wall, cpu = statistics.median(wall for wall, _ in starts), statistics.median(cpu for _, cpu in starts)
            print(f"  publishing by {publisher}: {wall:.2f} s, CPU {cpu:.2f} s")
        going_in, coming_out = emulator_ceiling(10 * given.messages)
        print(f"the emulator alone: {going_in:,.0f} messages/s in, {coming_out:,.0f} messages/s out")
        for name, topic, sent in (
            ("result_rollup", PartResult.TOPIC, PartResult().outgoing()),
            ("node_apply", NodeApply.TOPIC, NodeApply(revision=0, nodes=[]).outgoing()),
        ):
            rate = per_process(name, topic, sent, settings, emulator.host, given.messages)
            print(f"one process of {name}: {rate:,.0f} messages/s" + (", each publishing one" if name == "node_apply" else ""))
        world = build(settings, open_bus(PROJECT))
        with RealCloud(settings, only=("relabel_request", "node_apply", "result_rollup"), say=lambda _: None) as cloud:
            print(f"emulator, pump and result_rollup: {through_the_pump(cloud, given.messages):,.0f} messages/s")
            changed, unchanged = [], []
            for turn in range(given.rounds):
                world.revisions.stage("bench", [Source("bench.yaml", POLICY.format(value=f"r{turn}").encode())], "bench", world.clock())
                world.revisions.commit("bench", world.clock())
                changed.append(end_to_end(cloud, {"changed": given.nodes}))
                unchanged.append(end_to_end(cloud, {"unchanged": given.nodes}))
        kind = "real" if real else "simulated"
        print(f"request to finished action, {given.nodes:,} {kind} nodes: {given.nodes / statistics.median(changed):,.0f} nodes/s", end="")
        print(f" ({statistics.median(changed):.2f} s); nothing to change: {statistics.median(unchanged):.2f} s")


if __name__ == "__main__":
    main()
