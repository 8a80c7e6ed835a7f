"""What `plan --impact` costs on a real kube-apiserver: 5,000 nodes, 50,000 pods (four in five choose their zone), 100 pending ones.

    python -m bench.impact [--nodes N] [--runs N]

For changes of 1, 32 and all nodes: the pods that end, are stranded or may be placed, the requests, the megabytes of their answers, seconds
(median of the runs), and the most memory that Python holds meanwhile. Filling is not counted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from bench.health import AT_ONCE, pod, row, store
from shared.adapters.kubernetes import Kubernetes
from shared.domain.labels.plans import NodePlan
from shared.work.workloads import workload_impact
from tests.kube_apiserver import Fleet, KubeApiserver, realistic_node

ZONE = "topology.kubernetes.io/zone"
A_NODE = 10
"""Pods of each node: three of DaemonSets, five that choose its zone, two that choose nothing."""
PENDING = AT_ONCE


def main() -> None:
    """Fill a cluster, ask what changes of zones do, print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 5000), ("runs", 3)):
        options.add_argument(f"--{name}", type=int, default=default)
    wanted = options.parse_args()
    with KubeApiserver(memory_mib=6000) as server:
        names = [f"node-{number:05}" for number in range(wanted.nodes)]
        fill(server, names)
        print(f"{wanted.nodes} nodes, {wanted.nodes * A_NODE + PENDING} pods")
        print(f"{'changes':<36}{'pods':>8}{'requests':>10}{'MB':>8}{'seconds':>9}{'MiB held':>10}")
        for count in sorted({1, min(32, len(names)), len(names)}):
            row(f"of {count} nodes", server, lambda cluster, count=count: affected(cluster, names[:count]), wanted.runs)  # type: ignore[misc]


def affected(cluster: Kubernetes, names: Sequence[str]) -> int:
    """How many pods are affected where these nodes get another zone."""
    change = NodePlan(set={ZONE: "new"}, remove=[], from_={}, takeovers=[], reasons={})
    impact = workload_impact("bench", dict.fromkeys(names, change), cluster)
    assert impact.unseen == []
    return impact.starts + impact.stops + impact.stranded + impact.fits


def fill(server: KubeApiserver, names: Sequence[str]) -> None:
    """Nodes, DaemonSets for one zone each, pods, and pods that wait for a zone that no node has."""
    fleet = Fleet(server)
    fleet.fill(names)
    sets = {}
    for zone in "abc":
        labels = {"app": f"agent-{zone}"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"nodeSelector": {ZONE: f"eu-west-1{zone}"}, "containers": [{"name": "main", "image": "main:1"}]},
        }
        path, body = (
            "/apis/apps/v1/namespaces/kube-system/daemonsets",
            {"spec": {"selector": {"matchLabels": labels}, "template": template}},
        )
        fleet.post(path, {"metadata": {"name": f"agent-{zone}"}, **body})
        sets[f"eu-west-1{zone}"] = json.loads(fleet._request("GET", f"{path}/agent-{zone}"))["metadata"]["uid"]
    there = [(name, number) for name in names for number in range(A_NODE)]
    for start in range(0, len(there), AT_ONCE):
        store(server, [running(place, *each, sets) for place, each in enumerate(there[start : start + AT_ONCE], start)])
    store(server, [waiting(number) for number in range(PENDING)])


def running(place: int, node: str, number: int, sets: dict[str, str]) -> dict[str, Any]:
    """One of a node's pods."""
    made, zone = pod(place, node, number), realistic_node(node)["metadata"]["labels"][ZONE]
    kind, name, uid = ("DaemonSet", f"agent-{zone[-1]}", sets[zone]) if number < 3 else ("ReplicaSet", f"web-{place % 300}", "web")
    made["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}]
    if number < 8:
        made["spec"]["nodeSelector"] = {ZONE: zone}
    return made


def waiting(number: int) -> dict[str, Any]:
    """A pod that waits for the zone that nodes get."""
    made = pod(900_000 + number, "", number)
    del made["spec"]["nodeName"]
    made["spec"]["nodeSelector"] = {ZONE: "new"}
    return made | {"status": {"phase": "Pending"}}


if __name__ == "__main__":
    main()
