"""What a look at a rollout's nodes and pods costs on a real kube-apiserver: 5,000 nodes, 10 DaemonSets on them, 200 unschedulable pods.

    python -m bench.health [--nodes N] [--daemonsets N] [--unschedulable N] [--runs N]

For each read: its requests, the megabytes of their answers, seconds (median of the runs), and the most memory that Python holds meanwhile.
The last row is what a listing of every pod as a whole object takes, for comparison.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tracemalloc
import urllib.request
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shared.adapters.kubernetes import Kubernetes
from tests.kube_apiserver import Fleet, KubeApiserver, running_status

AT_ONCE = 100
"""Pods of one write."""


def main() -> None:
    """Fill a cluster, look at it, print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 5000), ("daemonsets", 10), ("unschedulable", 200), ("runs", 3)):
        options.add_argument(f"--{name}", type=int, default=default)
    wanted = options.parse_args()
    with KubeApiserver(memory_mib=6000) as server:
        names = [f"node-{number:05}" for number in range(wanted.nodes)]
        fill(server, names, wanted.daemonsets, wanted.unschedulable)
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


def fill(server: KubeApiserver, names: Sequence[str], daemon_sets: int, unschedulable: int) -> None:
    """Nodes, DaemonSets with a pod on each, as large as pods are that do something, and pods that no node was found for."""
    began, fleet = time.perf_counter(), Fleet(server)
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
    pods = [(name, number) for name in names[1:] for number in range(daemon_sets)]
    for start in range(0, len(pods), AT_ONCE):
        store(server, [pod(place, *each) for place, each in enumerate(pods[start : start + AT_ONCE], start + 20_000)])
    print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)


def store(server: KubeApiserver, pods: Sequence[Mapping[str, Any]]) -> None:
    """Write pods where the API server keeps them, which takes a twentieth of the time that its own writes do."""
    puts = [
        {"requestPut": {"key": base64(f"/registry/pods/kube-system/{pod['metadata']['name']}"), "value": base64(json.dumps(pod))}}
        for pod in pods
    ]
    request = urllib.request.Request(
        f"{server.etcd}/v3/kv/txn", json.dumps({"success": puts}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        answer.read()


def base64(text: str) -> str:
    """As etcd's gateway has keys and values."""
    return b64encode(text.encode()).decode()


def pod(place: int, node: str, number: int) -> dict[str, Any]:
    """A DaemonSet's pod of about 5 KB that runs: environment, mounts, tolerations, status."""
    environment = [{"name": f"SETTING_{each}", "value": f"https://service-{each}.example/api/v1"} for each in range(20)]
    mounts = [{"name": f"volume-{each}", "mountPath": f"/var/lib/agent/{each}"} for each in range(6)]
    container = {"name": "main", "image": f"registry.example/agent-{number}:1.2.3", "env": environment, "volumeMounts": mounts}
    tolerations = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ("not-ready", "unreachable", "disk-pressure")]
    spec = {"nodeName": node, "containers": [container], "tolerations": tolerations, "volumes": list(volumes())}
    metadata = {
        "name": f"agent-{number}-{place:05}",
        "namespace": "kube-system",
        "uid": str(uuid.uuid4()),
        "creationTimestamp": "2026-11-21T00:00:00Z",
        "labels": {"name": f"agent-{number}"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": running_status(True)}


def volumes() -> Iterator[dict[str, Any]]:
    """What the pods mount."""
    return ({"name": f"volume-{each}", "hostPath": {"path": f"/var/lib/agent/{each}"}} for each in range(6))


if __name__ == "__main__":
    main()
