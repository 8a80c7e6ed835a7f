"""What pod_binding adds to a binding on the real kube-apiserver: against no webhook, one that does nothing, one that always says the same.

    python bench/pods.py [--pods 2000] [--nodes 1000]

Each contestant has a namespace of its own and all are configured at once, so that bindings take turns: what else the machine does
touches all of them alike. Both webhooks run under the example's own command (gunicorn, TLS, 16 threads, one process).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from shared.adapters.store import open_store  # noqa: E402
from shared.domain.documents.kinds import PodLabelPolicySpec  # noqa: E402
from shared.domain.documents.reading import Source  # noqa: E402
from shared.domain.nodes import Node  # noqa: E402
from shared.domain.pods.copying import copying  # noqa: E402
from shared.domain.pods.webhooks import Client, manifest  # noqa: E402
from shared.ledger.releases import Releases  # noqa: E402
from shared.ledger.revisions import Revisions  # noqa: E402
from shared.work.node_cache import keep  # noqa: E402
from tests.kube_apiserver import Fleet, KubeApiserver, realistic_node  # noqa: E402

OTHERS = """
import base64, json
import functions_framework

OPERATIONS = [{"op": "add", "path": "/metadata/labels/kubernetes.io~1hostname", "value": "h"}]
PATCH = {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(OPERATIONS).encode()).decode()}

def answer(request, **more):
    response = {"uid": request.get_json()["request"]["uid"], "allowed": True, **more}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

@functions_framework.http
def nothing(request):
    return answer(request)

@functions_framework.http
def constant(request):
    return answer(request, **PATCH)
"""
POLICY = b"{apiVersion: hullmark.dev/v1, kind: PodLabelPolicy, metadata: {name: all}, spec: {}}"
CONTESTANTS = ("none", "nothing", "constant", "hullmark")
"""No webhook; one that allows; one that answers every review with the same patch: what any webhook that does the job costs; ours."""
ROUNDS = 5


class Api:
    """A kept-alive connection to the API server."""

    def __init__(self, kube: KubeApiserver) -> None:
        self._connection = http.client.HTTPSConnection(
            kube.url.removeprefix("https://"), context=ssl.create_default_context(cadata=kube.ca)
        )
        self._headers = {"Authorization": f"Bearer {kube.tokens['admin']}", "Content-Type": "application/json"}

    def post(self, path: str, body: Any) -> None:
        """Create; anything but 201 ends the benchmark."""
        self._connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        read = answer.read()
        if answer.status != 201:
            raise SystemExit(f"POST {path}: {answer.status} {read[:300]!r}")

    def pod(self, namespace: str, name: str) -> None:
        """A pod that waits for a node."""
        spec = {"containers": [{"name": "c", "image": "i"}]}
        self.post(f"/api/v1/namespaces/{namespace}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def bind(self, namespace: str, name: str, node: str) -> float:
        """Milliseconds that the binding took."""
        began = time.perf_counter()
        target = {"kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.post(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)
        return (time.perf_counter() - began) * 1000


@contextmanager
def gunicorn(kube: KubeApiserver, target: str, source: Path, environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    """The example's command for one function. Yields its port and process id."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    files = f"--certfile={kube.folder}/server.crt", f"--keyfile={kube.folder}/server.key"
    command = [str(Path(sys.executable).parent / "gunicorn"), f"--bind=127.0.0.1:{port}",
               "--worker-class=functions.pod_binding.serving.Worker", "--threads=16", "--keep-alive=120", *files,
               f'functions_framework:create_app("{target}", "{source}")']  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while not _ready(kube, port):
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit(f"{target} did not start")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):  # figures are not lost for a stop that takes long: it is one of them
            process.wait(60)
        print(f"{target} stopped in {time.monotonic() - began:.1f} s", file=sys.stderr)
        process.kill()
        process.wait()


def _ready(kube: KubeApiserver, port: int) -> bool:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context(cadata=kube.ca), timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status != 503
    except OSError:
        return False
    finally:
        connection.close()


def bindings(kube: KubeApiserver, count: int, nodes: list[str]) -> dict[str, dict[str, float]]:
    """One after another, the contestants by turns; then 16 in flight, each contestant alone."""
    api = Api(kube)
    for namespace in CONTESTANTS:
        for number in range(count * 2):
            api.pod(namespace, f"p{number}")
    took: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for number in range(count):
        for namespace in CONTESTANTS:
            took[namespace].append(api.bind(namespace, f"p{number}", nodes[number % len(nodes)]))
    together: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for turn in range(ROUNDS):
        for namespace in CONTESTANTS:
            together[namespace].append(_many(kube, namespace, range(count + turn, count * 2, ROUNDS), nodes))
    found = {}
    for namespace in CONTESTANTS:
        warm = sorted(took[namespace][count // 10 :])
        found[namespace] = {
            "p50_ms": round(statistics.median(warm), 2),
            "p99_ms": round(warm[int(len(warm) * 0.99)], 2),
            "in_flight_16_per_s": round(statistics.median(together[namespace])),
        }
    return found


def _many(kube: KubeApiserver, namespace: str, numbers: range, nodes: list[str]) -> float:
    def some(start: int) -> None:
        api = Api(kube)
        for number in numbers[start::16]:
            api.bind(namespace, f"p{number}", nodes[number % len(nodes)])

    return len(numbers) / _threads(16, some)


def _threads(count: int, work: Any) -> float:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def reviews_per_second(kube: KubeApiserver, port: int, node: str, count: int = 4000) -> float:
    """Reviews straight to one webhook process, 8 kept connections; the client shares the machine."""
    review = json.loads((ROOT / "tests/pods/admissionreview-binding.json").read_bytes())
    review["request"]["object"]["target"]["name"] = node
    body = json.dumps(review)

    def some(_: int) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context(cadata=kube.ca))
        for _ in range(count // 8):
            connection.request("POST", "/?timeout=2s", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        connection.close()

    return count / _threads(8, some)


def cached_memory(count: int = 10_000) -> dict[str, float]:
    """MiB that the cache keeps for this many nodes of 15 labels: by the default policy, and if every label were wanted."""
    found = {}
    for name, spec in (("default_policy", {}), ("every_label", {"extra": _prefixes()})):
        keys = copying([PodLabelPolicySpec.model_validate(spec)], None)
        nodes = (Node(f"node-{n:05}.example.internal", "", json.loads(json.dumps(_labels(n)))) for n in range(count))
        tracemalloc.start()
        kept = keep(nodes, keys)
        found[name] = round(tracemalloc.get_traced_memory()[0] / 2**20, 2)
        tracemalloc.stop()
        del kept
    return found


def _labels(number: int) -> dict[str, str]:
    labels: dict[str, str] = realistic_node(f"node-{number:05}.example.internal")["metadata"]["labels"]
    return labels


def _prefixes() -> list[str]:
    return sorted({f"{key.rpartition('/')[0]}/*" for key in _labels(0)})


def rss_mib(pid: int) -> float:
    """Resident memory of a gunicorn master's workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = sum(int(Path(f"/proc/{child}/statm").read_text().split()[1]) for child in children)
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def main() -> None:
    """Run it and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=1000)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hullmark-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        kube = stack.enter_context(KubeApiserver(gogc=400))
        nodes = [f"node-{number:05}" for number in range(asked.nodes)]
        Fleet(kube).fill(nodes)
        (folder / "others.py").write_text(OTHERS)
        store = open_store(f"file:{folder}/store")
        revisions = Revisions(store)
        revisions.stage("default", [Source("policy.yaml", POLICY)], "bench", datetime.now(UTC))
        revisions.commit("bench", datetime.now(UTC))
        Releases(store, revisions).adopt("default", 1, "bench", datetime.now(UTC))
        cluster = f"kubeconfig:{kube.kubeconfig()}?context=admin"
        served = {
            **{name: stack.enter_context(gunicorn(kube, name, folder / "others.py", {})) for name in ("nothing", "constant")},
            "hullmark": stack.enter_context(
                gunicorn(
                    kube, "pod_binding", ROOT / "functions/pod_binding/main.py",
                    {"HULLMARK_STORE": f"file:{folder}/store", "HULLMARK_CLUSTER": cluster},
                )
            ),
        }  # fmt: skip
        api = Api(kube)
        for namespace in CONTESTANTS:
            api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for namespace, (port, _) in served.items():
            only = PodLabelPolicySpec.model_validate({"namespaces": {"include": [namespace]}})
            wanted = manifest(Client(url=f"https://127.0.0.1:{port}", ca=kube.ca), [only])
            wanted["metadata"]["name"] = namespace
            api.post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", wanted)
        time.sleep(2)  # the API server learns of them
        found = bindings(kube, asked.pods, nodes)
        added = {name: {k: found[name][k] - found["none"][k] for k in ("p50_ms", "p99_ms")} for name in served}
        answer = {
            "bindings": found,
            "added_to_none": {name: {k: round(v, 2) for k, v in row.items()} for name, row in added.items()},
            "hullmark_over": {
                name: {k: round(found["hullmark"][k] / found[name][k], 2) for k in ("p50_ms", "p99_ms")} for name in ("nothing", "constant")
            },
            "added_by_hullmark_over_added_by": {
                name: {k: round(added["hullmark"][k] / added[name][k], 2) for k in ("p50_ms", "p99_ms")} for name in ("nothing", "constant")
            },
            "reviews_per_s_one_process": {name: round(reviews_per_second(kube, port, nodes[0])) for name, (port, _) in served.items()},
            "rss_mib": {name: rss_mib(pid) for name, (_, pid) in served.items()} | {"nodes": asked.nodes},
            "cache_mib_per_10000_nodes": cached_memory(),
        }
        print(json.dumps(answer, indent=2), flush=True)


if __name__ == "__main__":
    main()
