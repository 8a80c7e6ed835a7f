"""What writing one label on every node of a real kube-apiserver costs: our adapter, a bare Go loop, and `kubectl label nodes --all`.

Run `python -m bench.kube_clients [--nodes N] [--rounds N]`. The contestants take turns on one server, because its rate drifts with its
garbage collector; read the numbers as ratios. The functions are for other benchmarks to use.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kube_apiserver import Fleet, KubeApiserver

HERE = Path(__file__).parent
GOGC = 400
"""The server's garbage collector, out of the way."""


@dataclass(frozen=True)
class Run:
    """One run of one contestant over all nodes: seconds and client CPU seconds, peak memory in MiB, the server's CPU seconds."""

    nodes: int
    seconds: float
    cpu: float
    mebibytes: float
    server_cpu: float = 0.0

    @property
    def rate(self) -> float:
        """Nodes a second."""
        return self.nodes / self.seconds


@contextmanager
def server_with(nodes: int) -> Iterator[KubeApiserver]:
    """A server for benchmarks with that many realistic nodes, `node-00000` and on."""
    with KubeApiserver(gogc=GOGC, memory_mib=4000) as kube:
        Fleet(kube).fill([f"node-{number:05}" for number in range(nodes)])
        yield kube


def go_program() -> Path | None:
    """The bare Go loop, built on first use; None without Go."""
    if not shutil.which("go"):
        return None
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hullmark" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    built = folder / "go-loop"
    source = HERE / "kube" / "main.go"
    if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["go", "build", "-trimpath", "-buildvcs=false", "-o", str(built), "."], cwd=HERE / "kube", check=True)
    return built


def go_loop(kube: KubeApiserver, value: str, *, http1: bool = False, in_flight: int = 16) -> Run:
    """The bare Go loop over every node; its listing is not counted."""
    program = go_program()
    if program is None:
        raise FileNotFoundError("the bare Go loop needs Go on the PATH")
    arguments = [f"-server={kube.url}", f"-token={kube.tokens['admin']}", f"-ca={kube.folder / 'ca.crt'}", f"-value={value}"]
    run, answer = _measured(kube, [str(program), *arguments, f"-in-flight={in_flight}", f"-http1={str(http1).lower()}"])
    told = json.loads(answer)
    return Run(told["nodes"], told["seconds"], told["cpu"], run.mebibytes, run.server_cpu)


def kubectl_label(kube: KubeApiserver, value: str, nodes: int) -> Run:
    """`kubectl label nodes --all`."""
    command = [
        str(kube.programs / "kubectl"),
        f"--kubeconfig={kube.kubeconfig()}",
        "label",
        "nodes",
        "--all",
        "--overwrite",
        f"rack={value}",
    ]
    run, _ = _measured(kube, command)
    return Run(nodes, run.seconds, run.cpu, run.mebibytes, run.server_cpu)


def adapter(kube: KubeApiserver, value: str, in_flight: int = 8) -> Run:
    """Our adapter in a process of its own; its imports and listing are not counted in the time, but in the memory."""
    run, answer = _measured(
        kube, [sys.executable, "-m", "bench.kube_clients", "--as-adapter", str(kube.kubeconfig()), value, str(in_flight)]
    )
    told = json.loads(answer)
    return Run(told["nodes"], told["seconds"], told["cpu"], run.mebibytes, run.server_cpu)


def _adapter(kubeconfig: str, value: str, in_flight: int) -> None:
    from shared.adapters.kubeconfig import from_kubeconfig
    from shared.adapters.kubernetes import Kubernetes

    cluster = Kubernetes(lambda: from_kubeconfig(kubeconfig), in_flight=in_flight)
    nodes = cluster.nodes()
    began, before = time.perf_counter(), time.process_time()
    cluster.spread(lambda node: cluster.apply_labels(node.name, node.uid, {"rack": value}), nodes)
    print(json.dumps({"nodes": len(nodes), "seconds": time.perf_counter() - began, "cpu": time.process_time() - before}))


def listing(kube: KubeApiserver, times: int = 5) -> tuple[float, float, float]:
    """Seconds (median) of: the raw answers alone, `nodes()`, and `nodes()` with every label compared."""
    from shared.adapters.kubernetes import _LIST, PAGE, Kubernetes

    cluster = Kubernetes(kube.access)

    def raw() -> None:
        page = ""
        while True:
            query = {"limit": str(PAGE), **({"continue": page} if page else {})}
            answer = cluster.server.request("GET", "/api/v1/nodes", query, headers=_LIST)
            page = json.loads(answer[:400].partition(b',"items"')[0] + b"}")["metadata"].get("continue", "")
            if not page:
                return

    def compared() -> None:
        for node in cluster.nodes():
            if node.labels.get("rack") == "nowhere" or node.applied.get("hullmark", frozenset()) - {"rack"}:
                raise AssertionError(node)

    return _median(raw, times), _median(cluster.nodes, times), _median(compared, times)


def _median(work: Callable[[], object], times: int) -> float:
    def once() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return statistics.median(once() for _ in range(times))


def _measured(kube: KubeApiserver, command: list[str]) -> tuple[Run, bytes]:
    """Run a command to its end: seconds, CPU seconds and peak memory of it, CPU seconds of the server meanwhile, and its output."""
    server, began = server_cpu(kube), time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, cwd=HERE.parent)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        told = output.read()
    return Run(0, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, server_cpu(kube) - server), told


def server_cpu(kube: KubeApiserver) -> float:
    """CPU seconds that kube-apiserver and etcd have used so far (Linux)."""
    ticks = 0
    for pid in kube.pids.values():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--as-adapter", nargs=3, metavar=("KUBECONFIG", "VALUE", "IN_FLIGHT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.as_adapter:
        kubeconfig, value, in_flight = given.as_adapter
        _adapter(kubeconfig, value, int(in_flight))
        return
    with server_with(given.nodes) as kube:
        contestants: dict[str, Callable[[str], Run]] = {
            "bare Go loop, HTTP/2, 16 in flight": lambda value: go_loop(kube, value),
            "bare Go loop, HTTP/1.1, 16 in flight": lambda value: go_loop(kube, value, http1=True),
            "our adapter, 8 in flight": lambda value: adapter(kube, value),
            "our adapter, 16 in flight": lambda value: adapter(kube, value, 16),
            "kubectl label nodes --all": lambda value: kubectl_label(kube, value, given.nodes),
        }
        runs: dict[str, list[Run]] = {name: [] for name in contestants}
        for turn in range(given.rounds):
            for number, (name, run) in enumerate(contestants.items()):
                runs[name].append(run(f"r{turn}-{number}"))
        print(f"\n{given.nodes} nodes, median of {given.rounds}")
        print(f"{'':38} nodes/s  of Go  client CPU s/1,000  server CPU s/1,000  MiB")
        first = statistics.median(run.rate for run in next(iter(runs.values())))
        for name, results in runs.items():
            rate, cpu, server, memory = (
                statistics.median(values)
                for values in zip(
                    *((r.rate, r.cpu * 1000 / r.nodes, r.server_cpu * 1000 / r.nodes, r.mebibytes) for r in results), strict=True
                )
            )
            print(f"{name:38} {rate:7.0f}  {rate / first:5.2f}  {cpu:18.2f}  {server:18.2f}  {memory:4.0f}")
        raw, nodes, compared = listing(kube)
        print(f"listing: raw answers {raw:.2f} s, nodes() {nodes / raw:.2f} of it, compared {compared / raw:.2f} of it")


if __name__ == "__main__":
    main()
