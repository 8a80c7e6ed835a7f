"""The api as functions-framework hosts it, in front of the embedded cloud with every other function behind the bus."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import functions_framework
import pytest
from werkzeug.test import Client, TestResponse

from local import steps
from local.runner import Cloud
from shared import telemetry, wiring
from shared.ports import OWNER, ClusterError, Conflict, Node, NodeGone
from shared.wiring import Settings

T = TypeVar("T")
R = TypeVar("R")

SITE = """\
schema: drydock/Rack/v1
metadata: {schema: metadata/Document/v1, name: r7}
data: {labels: {room: a}}
---
schema: drydock/HardwareProfile/v1
metadata: {schema: metadata/Document/v1, name: plain}
data: {vendor: x, generation: '1', hw_version: '1', bios_version: '1', boot_mode: uefi, bootstrap_protocol: pxe, pxe_interface: '0'}
"""
NODE = """\
---
schema: drydock/BaremetalNode/v1
metadata: {{schema: metadata/Document/v1, name: {name}}}
data:
  hardware_profile: plain
  addressing: [{{network: mgmt, address: 10.0.0.{number}}}]
  metadata: {{tags: [{tag}], rack: r7, owner_data: {{{labels}}}}}
"""


def site(**nodes: str) -> str:
    """Documents of a site: `site(n1="rack: r7")`; nodes with an even number are masters."""
    return SITE + "".join(
        NODE.format(name=name, number=number, labels=labels, tag="workers" if number % 2 else "masters")
        for number, (name, labels) in enumerate(nodes.items(), 1)
    )


class TinyCluster:
    """`shared.ports.Cluster` in a dictionary: Server-Side Apply with owners, and answers that a test can break."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._lock = threading.Lock()
        self.broken: dict[str, ClusterError] = {}
        self.writes = 0

    def add(self, *names: str, **labels: str) -> None:
        for name in names:
            owners = {key: ("kubelet",) for key in labels}
            self._nodes[name] = Node(name, f"uid-{name}", dict(labels), "1", owners, {}, "v1.33.0")

    def server_version(self) -> str:
        return "v1.33.0"

    def nodes(self) -> list[Node]:
        self._answer("")
        return list(self._nodes.values())

    def node(self, name: str) -> Node | None:
        self._answer(name)
        return self._nodes.get(name)

    def apply_labels(self, name: str, uid: str, labels: Mapping[str, str], *, manager: str = OWNER, force: bool = True) -> Node:
        self._answer(name)
        with self._lock:
            node = self._nodes.get(name)
            if node is None or node.uid != uid:
                raise NodeGone(name)
            held = {k: w for k, w in node.owners.items() if set(w) - {manager} and labels.get(k, node.labels[k]) != node.labels[k]}
            if held and not force:
                raise Conflict({key: next(who for who in owners if who != manager) for key, owners in held.items()})
            owners = {k: tuple(sorted({*(w for w in ws if w != manager)})) for k, ws in node.owners.items()}
            kept = {k: v for k, v in node.labels.items() if owners.get(k)}
            for key in labels:
                owners[key] = (manager,) if key in held else tuple(sorted({*owners.get(key, ()), manager}))
            self._nodes[name] = replace(
                node,
                labels={**kept, **labels},
                owners={k: v for k, v in owners.items() if v},
                applied={**node.applied, manager: frozenset(labels)},
                resource_version=str(int(node.resource_version) + 1),
            )
            self.writes += 1
            return self._nodes[name]

    def remove_labels(self, name: str, keys: Sequence[str], *, resource_version: str, manager: str = OWNER) -> Node:
        raise NotImplementedError

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return [work(item) for item in items]

    def labels(self, name: str) -> dict[str, str]:
        return dict(self._nodes[name].labels)

    def replace(self, name: str) -> None:
        """Another machine of the same name."""
        self._nodes[name] = replace(self._nodes[name], uid="uid-another")

    def _answer(self, name: str) -> None:
        error = self.broken.get(name) or self.broken.get("")
        if error:
            raise error


class FrontDoor:
    """The whole product with its api in front."""

    def __init__(self, store: str = "memory:") -> None:
        self.cloud = Cloud(Settings(store=store, cluster="simulated:unused"), sleep=lambda _: None, monotonic=_Clock())
        self.cluster = TinyCluster()
        self.cloud.ports.open_cluster = lambda access, name: self.cluster
        self.app = functions_framework.create_app("api", str(steps.load().steps["api"].source))
        self.client: Client = self.app.test_client()

    def ask(self, method: str, path: str, **given: Any) -> TestResponse:
        return self.client.open(path, method=method, **given)

    def get(self, path: str, **given: Any) -> TestResponse:
        return self.ask("GET", path, **given)

    def post(self, path: str, body: Any = None, **given: Any) -> TestResponse:
        return self.ask("POST", path, json=body, **given) if body is not None else self.ask("POST", path, **given)

    def stage(self, documents: str, collection: str = "site") -> TestResponse:
        return self.ask("POST", f"/v1.0/configdocs/{collection}", data=documents, content_type="application/x-yaml")

    def commit(self, documents: str) -> int:
        """Stage and commit; the revision's number."""
        assert self.stage(documents).status_code == 201
        answer = self.post("/v1.0/commitconfigdocs")
        assert answer.status_code == 200, answer.json
        return int(answer.json["revision"])

    def adopt(self, documents: str) -> int:
        """Commit a site that was deployed by other means."""
        number = self.commit(documents)
        self.cloud.ports.revisions.tag(number, "site-action-success", "tests", self.cloud.ports.clock())
        return number

    def files(self, **files: str) -> dict[str, Any]:
        """A multipart body."""
        return {"files": [(io.BytesIO(text.encode()), name.replace("__", "/") + ".yaml") for name, text in files.items()]}


class _Clock:
    """Monotonic time that runs whenever it is looked at: redeliveries come at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 100
        return self.now


@pytest.fixture
def door() -> Iterator[FrontDoor]:
    telemetry.write_to(None)
    yield FrontDoor()
    wiring.install(None)
