"""What a look at a rollout's nodes and pods costs on a real kube-apiserver: 5,000 nodes, 10 DaemonSets on them, 200 unschedulable pods.

    python -m bench.health [--nodes N] [--daemonsets N] [--unschedulable N] [--runs N]

For each read: its requests, the megabytes of their answers, seconds (median of the runs), and the most memory that Python holds meanwhile.
The last row is what a listing of every pod as a whole object takes, for comparison.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shared.adapters.kubernetes import Kubernetes
from tests.kube_apiserver import Fleet, KubeApiserver

WRITERS = 12


def main() -> None:
    """Fill a cluster, look at it, print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 5000), ("daemonsets", 10), ("unschedulable", 200), ("runs", 3)):
        options.add_argument(f"--{name}", type=int, default=default)
    wanted = options.parse_args()
    with KubeApiserver(memory_mib=6000) as server:
        names = [f"node-{number:05}" for number in range(wanted.nodes)]
        fill(Fleet(server), names, wanted.daemonsets, wanted.unschedulable)
        reads: Mapping[str, Callable[[Kubernetes], object]] = {
            "nodes, Ready or not": lambda cluster: len(cluster.readiness()),
            "pods of DaemonSets, 1 node": lambda cluster: found(cluster, names[:1]),
            "pods of DaemonSets, 5 nodes": lambda cluster: found(cluster, names[:5]),
            f"pods of DaemonSets, {wanted.nodes // 2} nodes": lambda cluster: found(cluster, names[::2]),
            "unschedulable pods": lambda cluster: sum(cluster.unschedulable().values()),
            "(every pod, whole)": lambda cluster: sum(1 for _ in cluster.pods()),
        }
        print(f"{wanted.nodes} nodes, {wanted.nodes * wanted.daemonsets + wanted.unschedulable} pods, {wanted.daemonsets} DaemonSets")
        print(f"{'read':<36}{'found':>8}{'requests':>10}{'MB':>8}{'seconds':>9}{'MiB held':>10}")
        for what, read in reads.items():
            row(what, server, read, wanted.runs)


def found(cluster: Kubernetes, names: Sequence[str]) -> int:
    """How many available pods there are on these nodes."""
    return sum(len(there) for there in cluster.daemon_sets(names).values())


def row(what: str, server: KubeApiserver, read: Callable[[Kubernetes], object], runs: int) -> None:
    """Measure one read, and print it."""
    seconds, answers, found, held = list[float](), list[int](), object(), 0
    for run in range(runs + 1):
        cluster = Kubernetes(server.access)
        answers = counted(cluster)
        if run == runs:
            tracemalloc.start()
        began = time.perf_counter()
        found = read(cluster)
        if run < runs:
            seconds.append(time.perf_counter() - began)
        else:
            held = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    print(
        f"{what:<36}{found!s:>8}{len(answers):>10}{sum(answers) / 1e6:>8.2f}{statistics.median(seconds):>9.2f}{held / 2**20:>10.1f}",
        flush=True,
    )


def counted(cluster: Kubernetes) -> list[int]:
    """The sizes of the answers that a cluster gives from now on."""
    sizes: list[int] = []
    request = cluster.server.request

    def asked(*call: Any, **named: Any) -> bytes:
        answer = request(*call, **named)
        sizes.append(len(answer))
        return answer

    cluster.server.request = asked  # type: ignore[method-assign]
    return sizes


def fill(fleet: Fleet, names: Sequence[str], daemon_sets: int, unschedulable: int) -> None:
    """Nodes, DaemonSets with a pod on each, as large as pods are that do something, and pods that no node was found for."""
    began = time.perf_counter()
    fleet.fill(names)
    for number in range(daemon_sets):
        fleet.set_daemon_set(names[0], f"kube-system/agent-{number}", True)
        body = json.dumps(
            {
                "status": {
                    "currentNumberScheduled": len(names),
                    "desiredNumberScheduled": len(names),
                    "numberMisscheduled": 0,
                    "numberReady": 1,
                }
            }
        )
        kind = {"Content-Type": "application/merge-patch+json"}
        fleet._request("PATCH", f"/apis/apps/v1/namespaces/kube-system/daemonsets/agent-{number}/status", {}, body.encode(), kind)
    fleet.set_unschedulable("default", unschedulable)
    pods = [(place, name, number) for place, name in enumerate(names[1:]) for number in range(daemon_sets)]
    failures: list[Exception] = []

    def write(some: Sequence[tuple[int, str, int]]) -> None:
        try:
            for place, name, number in some:
                fleet.post("/api/v1/namespaces/kube-system/pods", pod(place, name, number))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(pods[start::WRITERS],)) for start in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)


def pod(place: int, node: str, number: int) -> dict[str, Any]:
    """A DaemonSet's pod of about 5 KB: environment, mounts, probes, tolerations. Nobody reports its status: those that do are larger."""
    environment = [{"name": f"SETTING_{each}", "value": f"https://service-{each}.example/api/v1"} for each in range(20)]
    mounts = [{"name": f"volume-{each}", "mountPath": f"/var/lib/agent/{each}"} for each in range(6)]
    container = {"name": "main", "image": f"registry.example/agent-{number}:1.2.3", "env": environment, "volumeMounts": mounts}
    tolerations = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ("not-ready", "unreachable", "disk-pressure")]
    spec = {"nodeName": node, "containers": [container], "tolerations": tolerations, "volumes": list(volumes())}
    return {"metadata": {"name": f"agent-{number}-{place:05}", "labels": {"name": f"agent-{number}"}}, "spec": spec}


def volumes() -> Iterator[dict[str, Any]]:
    """What the pods mount."""
    return ({"name": f"volume-{each}", "hostPath": {"path": f"/var/lib/agent/{each}"}} for each in range(6))


if __name__ == "__main__":
    main()
