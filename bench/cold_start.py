"""From the start of a function's process to its first message taken, beside functions-framework with a function that does nothing.

Run `python -m bench.cold_start [STEP…] [--rounds N] [--imports]`. Each process is the console script with the environment that a deploy
sets; the message is a Pub/Sub push (an HTTP request for `api` and `pod_binding`); the store is a folder, the cluster a real
kube-apiserver, Pub/Sub a REST publisher in this process. Bytecode is there, as after a build. CPU seconds are of the process's whole
life, and other work on the machine does not stretch them. `--imports` shows which modules a step's import costs most.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import urllib3

from bench.chain import a_push, children_cpu
from bench.relabel import POLICY
from local import steps
from local.cloud.processes import FunctionProcess
from local.steps import ROOT, FunctionStep
from shared.adapters.kubernetes import Kubernetes
from shared.domain.actions import ActionRequest
from shared.domain.documents.reading import Source
from shared.domain.labels.events import change_of
from shared.domain.names import UPDATE_VERSIONS
from shared.ledger.actions import deadline
from shared.messages import (
    ComponentUpdate,
    Message,
    NodeApply,
    NodeChanged,
    NodeTask,
    Outcome,
    Outgoing,
    PartResult,
    RelabelRequest,
    VersionCheck,
    VersionUpdate,
)
from shared.wiring import build
from shared.world import Settings
from tests.kube_apiserver import Fleet, KubeApiserver

NOTHING = """
import functions_framework
@functions_framework.cloud_event
def nothing(event):
    pass
"""
GOAL, BARE = 0.7, 0.45
"""Seconds until node_apply has taken its first message, on a machine where functions-framework alone takes the second."""


class Publisher(BaseHTTPRequestHandler):
    """Pub/Sub's REST publish, confirming everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Confirm."""
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        body = json.dumps({"messageIds": [str(number) for number in range(len(messages))]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Unbuilt(FunctionStep):
    """A step whose file is somewhere else."""

    file: Path

    @property
    def source(self) -> Path:
        """The file."""
        return self.file


class NoBus:
    """Nothing is published here."""

    def publish(self, topic: str, messages: object) -> None:
        """Fail."""
        raise SystemExit(f"a message to {topic}")


@dataclass(frozen=True)
class First:
    """A first request: where, what, and of which type."""

    path: str
    body: bytes = b""
    method: str = "POST"
    kind: str = "application/json"


@dataclass
class World:
    """What the functions find: a store with one revision and one open action, and a cluster with two nodes."""

    settings: Settings
    kube: KubeApiserver
    action: str = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

    def prepare(self) -> None:
        """Commit a policy, adopt it, create the nodes."""
        world = build(self.settings, NoBus())
        now = world.clock()
        world.revisions.stage("bench", [Source("bench.yaml", POLICY.format(value="r1").encode())], "bench", now)
        world.revisions.commit("bench", now)
        world.revisions.tag(1, "site-action-success", "bench", now)
        asked = {"id": self.action, "name": UPDATE_VERSIONS, "cluster": "garden/none", "revision": 1, "requested_by": "bench"}
        world.actions.accept(ActionRequest.model_validate({**asked, "requested_at": now, "deadline": deadline(now, 3600)}))
        Fleet(self.kube).fill(["node-0", "node-1"])

    def first(self, step: str, turn: int) -> First:
        """The first request of a step's process."""
        node = Kubernetes(self.kube.access).node("node-0")
        assert node is not None
        step_up = {"component": "controlPlane", "subject": "kubernetes", "from": "1.0.0", "to": "1.0.1", "kind": "auto"}
        updates = [ComponentUpdate.model_validate(step_up)]
        messages: dict[str, Callable[[], Message]] = {
            "nothing": PartResult,
            "relabel_request": lambda: RelabelRequest(target_nodes=["node-1"]),
            "node_apply": lambda: NodeApply(revision=1, nodes=[NodeTask(name=node.name, uid=node.uid, labels={"turn": str(turn)})]),
            "result_rollup": lambda: PartResult(outcomes=[Outcome(subject="node-0", outcome="changed")]),
            "node_event": lambda: NodeChanged.model_validate(change_of("added", "default", node).model_dump()),
            "version_check": VersionCheck,
            "version_apply": lambda: VersionUpdate(action=self.action, cluster="garden/none", updates=updates),
        }
        if step in messages:
            message = messages[step]()
            return First(f"/projects/bench/topics/{message.TOPIC}", a_push(Outgoing(message.outgoing().data)))
        if step in ("api", "api_reader"):
            return First("/v1.0/actions", method="GET")
        binding = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-0"}}
        about = {"uid": "u", "operation": "CREATE", "namespace": "n", "name": "p", "object": binding}
        request = {**about, "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "binding"}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        return First("/?timeout=2s", json.dumps(review).encode())


@contextmanager
def running(step: FunctionStep, environment: dict[str, str]) -> Iterator[FunctionProcess]:
    """A step's process, started and not waited for."""
    said: list[str] = []
    process = FunctionProcess(step, environment, said.append)
    process.start()
    try:
        yield process
    except SystemExit as failed:
        raise SystemExit("\n".join([str(failed), *said[-20:]])) from failed
    finally:
        process.terminate()
        process.join()


def first_answer(step: FunctionStep, environment: dict[str, str], first: First) -> tuple[float, float]:
    """Seconds from the start to the first 2xx, and CPU seconds of the whole short life."""
    headers = {"content-type": first.kind, "connection": "close"}  # kept open, it would keep the process for seconds
    pool, before, began = urllib3.PoolManager(retries=False), children_cpu(), time.perf_counter()
    with running(step, environment) as process:
        while True:
            try:
                answer = pool.request(first.method, process.url + first.path, body=first.body, headers=headers)
            except urllib3.exceptions.NewConnectionError:
                if process.restarts:
                    raise SystemExit(f"{step.name} does not start") from None
                time.sleep(0.003)
                continue
            if not 200 <= answer.status < 300:
                raise SystemExit(f"{step.name} answered {answer.status}: {answer.data[:300]!r}")
            seconds = time.perf_counter() - began
            break
    return seconds, children_cpu() - before


def imports(step: str) -> list[tuple[float, str]]:
    """Milliseconds and names of the modules, those below not included, that a step imports beyond functions-framework; dearest first."""
    code = f"import functions_framework, cloudevents.http, sys; print('#', file=sys.stderr); import functions.{step}.main"
    ran = subprocess.run([sys.executable, "-X", "importtime", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", ran.stderr.partition("\n#\n")[2])
    return sorted(((int(micro) / 1000, name) for micro, name in lines), reverse=True)


def main() -> None:
    """Print the table."""
    described = steps.load().steps
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"default: all ({', '.join(described)})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--imports", action="store_true")
    given = parser.parse_args()
    chosen = {name: described[name] for name in given.steps or described}
    if given.imports:
        for name in chosen:
            modules = imports(described[name].folder)
            print(f"\n{name}: {sum(ms for ms, _ in modules):.0f} ms in {len(modules)} modules beyond functions-framework's")
            print("\n".join(f"{ms:8.1f}  {module}" for ms, module in modules[:15]))
        return
    publisher = ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    threading.Thread(target=publisher.serve_forever, daemon=True).start()
    with KubeApiserver() as kube, tempfile.TemporaryDirectory(prefix="hullmark-bench-") as folder:
        (Path(folder) / "main.py").write_text(NOTHING)
        bare = Unbuilt(file=Path(folder) / "main.py", **{**described["node_apply"].model_dump(), "name": "nothing"})
        contestants: dict[str, FunctionStep] = {"nothing": bare, **chosen}
        settings = Settings(store=f"file:{folder}/store", bus="pubsub", project="bench", cluster=f"kubeconfig:{kube.kubeconfig()}")
        world = World(settings, kube)
        world.prepare()
        environment = {f"HULLMARK_{name.upper()}": str(value) for name, value in settings.model_dump().items() if value}
        environment["PUBSUB_EMULATOR_HOST"] = f"127.0.0.1:{publisher.server_port}"
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
        for turn in range(given.rounds + 1):
            for name, step in contestants.items():
                took = first_answer(step, environment, world.first(name, turn))
                if turn:  # the first wrote the bytecode
                    found[name].append(took)
    publisher.shutdown()
    publisher.server_close()
    print(f"\nprocess start to first message taken, median of {given.rounds}")
    print(f"{'':18} seconds  of nothing  beyond it  CPU s  of nothing")
    medians = {name: tuple(map(statistics.median, zip(*runs, strict=True))) for name, runs in found.items()}
    seconds0, cpu0 = medians["nothing"]
    for name, (seconds, cpu) in medians.items():
        print(f"{name:18} {seconds:7.2f}  {seconds / seconds0:10.2f}  {seconds - seconds0:+9.2f}  {cpu:5.2f}  {cpu / cpu0:10.2f}")
    if "node_apply" in medians:
        print(f"goal: node_apply in {GOAL} s where nothing takes {BARE} s, {GOAL - BARE:+.2f} s beyond it")


if __name__ == "__main__":
    main()
