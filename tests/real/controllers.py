"""The real DaemonSet controller and scheduler on random nodes, DaemonSets and pods."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

from shared.ports import Refused
from tests.kube_apiserver import Fleet, KubeApiserver
from tests.real.watched import until

KEYS = ("pool", "memory", "example.com/gpu")
VALUES = ("", "a", "3", "12")
NODES = [f"n{number}" for number in range(10)]
FENCE = "fence"
QUIET = ("--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000")
PODS, SETS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/daemonsets"
NOTHING_ELSE = {"containers": [{"name": "main", "image": "registry.example/main:1"}], "terminationGracePeriodSeconds": 0}
CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"}


def missing(kube: KubeApiserver, program: str) -> str | None:
    """The program's path, where it is built."""
    path = kube.programs / program
    return str(path) if os.access(path, os.X_OK) else None


class Drawn:
    """Random placements and changes, the same for one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def labels(self) -> dict[str, str]:
        return {key: self.random.choice(VALUES) for key in KEYS if self.random.random() < 0.6}

    def change(self) -> dict[str, str | None]:
        """One or two keys of a node, set or (None) removed."""
        return {key: self.random.choice((None, *VALUES)) for key in self.random.sample(KEYS, self.random.choice((1, 2)))}

    def taints(self) -> list[dict[str, str]]:
        effects = [effect for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule") if self.random.random() < 0.15]
        drawn = [
            {"key": self.random.choice(("team", "spot")), "value": self.random.choice(("", "blue")), "effect": each} for each in effects
        ]
        if self.random.random() < 0.3:
            condition = self.random.choice(("not-ready", "disk-pressure", "unschedulable", "network-unavailable"))
            drawn.append({"key": f"node.kubernetes.io/{condition}", "effect": self.random.choice(("NoSchedule", "NoExecute"))})
        return drawn

    def spec(self) -> dict[str, Any]:
        """What a pod asks of its node."""
        spec: dict[str, Any] = {**NOTHING_ELSE}
        if self.random.random() < 0.35:
            spec["nodeSelector"] = {key: self.random.choice(VALUES) for key in self.random.sample(KEYS, self.random.choice((1, 1, 2)))}
        if self.random.random() < 0.65:
            terms = [self._term() for _ in range(self.random.choice((1, 1, 2)))]
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
        if self.random.random() < 0.5:
            spec["tolerations"] = [self._toleration() for _ in range(self.random.choice((1, 2)))]
        if self.random.random() < 0.2:
            spec["hostNetwork"] = True
        return spec

    def _term(self) -> dict[str, Any]:
        term: dict[str, Any] = {"matchExpressions": [self._line() for _ in range(self.random.choice((0, 1, 1, 2)))]}
        if self.random.random() < 0.2:
            term["matchFields"] = [
                {"key": "metadata.name", "operator": self.random.choice(("In", "NotIn")), "values": [self.random.choice(NODES)]}
            ]
        return term

    def _line(self) -> dict[str, Any]:
        operator = self.random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        count = {"In": 2, "NotIn": 2, "Gt": 1, "Lt": 1}.get(operator, 0)
        values = self.random.sample(("3", "007", "12", "a") if count == 1 else VALUES, count)
        return {"key": self.random.choice(KEYS), "operator": operator, "values": values}

    def _toleration(self) -> dict[str, str]:
        operator = self.random.choice(("Exists", "Equal"))
        drawn = {
            "key": self.random.choice(("team", "spot", "")),
            "operator": operator,
            "effect": self.random.choice(("", "NoSchedule", "NoExecute")),
        }
        if operator == "Equal":
            drawn |= {"key": drawn["key"] or "team", "value": self.random.choice(("", "blue"))}
        return drawn


class Controlled:
    """A cluster whose controllers run, as its kubelets and administrators see it."""

    def __init__(self, kube: KubeApiserver, fleet: Fleet) -> None:
        self._kube, self._fleet, self._round, self._fences = kube, fleet, 0, 0
        self.made: list[str] = []

    def nodes(self, drawn: Drawn, cordoned: bool = False) -> None:
        """Ten random nodes."""
        for number, name in enumerate(NODES):
            self.node(name, drawn.labels(), drawn.taints(), cordoned=cordoned and number < 2)

    def node(self, name: str, labels: Mapping[str, str], taints: list[dict[str, str]], *, cordoned: bool = False) -> None:
        """One node with exactly these taints: on the way in, the API server gives it one more."""
        status = {"capacity": CAPACITY, "allocatable": CAPACITY}
        self._fleet.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        self._fleet.patch(name, {"spec": {"taints": taints, "unschedulable": cordoned}})

    def daemon_sets(self, drawn: Drawn, count: int) -> None:
        """Random DaemonSets, the API server admitting them; one of them names its node."""
        while len(self.made) < count:
            name = f"set-{len(self.made)}"
            spec = drawn.spec() | ({"nodeName": NODES[0]} if not self.made else {})
            self.admitted(lambda name=name, spec=spec: self.daemon_set(name, spec))  # type: ignore[misc]

    def admitted(self, make: Callable[[], None]) -> None:
        try:
            make()
        except Refused as refused:
            assert refused.reason == "Invalid", refused  # noqa: PT017 -- what was drawn is nothing that anybody may write

    def daemon_set(self, name: str, spec: Mapping[str, Any]) -> None:
        self._fleet.post(SETS, _a_set(name, spec))
        self.made.append(name)

    @contextmanager
    def controller(self) -> Iterator[None]:
        """The DaemonSet controller, with everything made so far worked off."""
        self.node(FENCE, {}, [])
        with self._kube.beside("kube-controller-manager", "--controllers=daemonset-controller", *QUIET):
            self.settled()
            yield

    def settled(self) -> None:
        """Until the controller has done all that follows from the labels as they are, and its pods are bound.

        Its caches are filled by one watch a kind, in order: once it has a pod for the newest label of the fence node, it has seen every
        earlier change of a node, and once it counts that pod, every earlier pod. Each DaemonSet is then changed, and its status says when
        that was worked off; the second time nothing that the controller itself started is unseen by it.
        """
        for _ in range(2):
            self._fence()
            self._worked_off()
        for pod in self.pods():
            if "nodeName" not in pod["spec"]:
                binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": _node(pod["spec"])}}
                self._fleet.post(f"{PODS}/{pod['metadata']['name']}/binding", binding)

    def _fence(self) -> None:
        self._fences += 1
        name, label = f"fence-{self._fences}", {FENCE: str(self._fences)}
        self._fleet.set_labels(FENCE, label)
        self._fleet.post(SETS, _a_set(name, {"nodeSelector": label, **NOTHING_ELSE}))
        until(f"the DaemonSet controller has seen {name}", lambda: self._statuses()[name].get("currentNumberScheduled") == 1)
        self._fleet._request("DELETE", f"{SETS}/{name}")
        self._fleet._request("DELETE", PODS, {"labelSelector": f"app={name}"})

    def _worked_off(self) -> None:
        self._round += 1
        kind = {"Content-Type": "application/merge-patch+json"}
        wanted = {}
        for name in self.made:
            body = json.dumps({"spec": {"revisionHistoryLimit": self._round}}).encode()
            wanted[name] = json.loads(self._fleet._request("PATCH", f"{SETS}/{name}", {}, body, kind))["metadata"]["generation"]
        until(
            "every DaemonSet is worked off",
            lambda: all(status.get("observedGeneration", 0) >= wanted.get(name, 0) for name, status in self._statuses().items()),
        )

    def _statuses(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each["status"] for each in json.loads(self._fleet._request("GET", SETS))["items"]}

    def where(self) -> set[tuple[str, str]]:
        """DaemonSet and node of each pod of those that were made."""
        pods = [(pod["metadata"]["ownerReferences"][0]["name"], pod) for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]
        return {(name, _node(pod["spec"])) for name, pod in pods if name in self.made}

    def pods(self) -> list[dict[str, Any]]:
        """Every pod, as the API server has it."""
        found: list[dict[str, Any]] = json.loads(self._fleet._request("GET", PODS))["items"]
        return found

    def pod(self, name: str, spec: Mapping[str, Any]) -> None:
        self._fleet.post(PODS, {"metadata": {"name": name}, "spec": spec})


def _a_set(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}}


def _node(spec: Mapping[str, Any]) -> str:
    if "nodeName" in spec:
        return str(spec["nodeName"])
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])
