"""A real cluster that is watched: our forwarder in a thread, over a wire that can be cut, and the functions behind an embedded bus."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import yaml
from ulid import ULID

from local.cloud.embedded import Cloud
from local.cloud.forwarder import Forwarder
from shared import telemetry, wiring
from shared.adapters.apiserver import ApiServer
from shared.adapters.kubernetes import Kubernetes
from shared.adapters.kubernetes_watch import NodeWatch, Seen
from shared.domain.actions import ActionOutcome
from shared.domain.documents.reading import Source
from shared.domain.nodes import Node
from shared.messages import RelabelRequest
from shared.world import Settings
from tests.kube_apiserver import Fleet, KubeApiserver
from tests.stories.fleet import a_policy

PATIENCE = 90.0
"""Seconds until a condition that should come true counts as failed; on a quiet machine each takes milliseconds."""


def until(what: str, true: Callable[[], Any]) -> Any:
    """The first true answer; fails, naming what was waited for, when there is none in time."""
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < end, f"in {PATIENCE:.0f} s it did not come true that {what}"
        time.sleep(0.01)
    return found


class Wire:
    """A TCP port that leads to another one, until it is cut."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._broken = False
        self.port = self._listener.getsockname()[1]
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._to) as far:
            with self._lock:
                if self._broken:
                    return
                self._open += [near, far]
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)
            back.join()

    def cut(self, *, mend: bool = False) -> None:
        """Break every connection; new ones break too until `mend`."""
        with self._lock:
            self._broken = not mend
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def close(self) -> None:
        """Cut for good."""
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)  # what waits there for a connection comes back
        self._serving.join()
        self._listener.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


class Recorded(NodeWatch):
    """A watch that remembers where it was asked to go on, how often it listed, and the last version that its reader was done with."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.asked: list[str] = []
        self.listings = 0
        self.done = 0

    def list(self) -> tuple[list[Node], str]:
        self.listings += 1
        nodes, version = super().list()
        self.done = max(self.done, int(version))
        return nodes, version

    def since(self, version: str) -> Iterator[Seen]:
        self.asked.append(version)
        for seen in super().since(version):
            yield seen
            self.done = max(self.done, int(seen.version))


class _Ended(Exception):
    pass


class Watched:
    """A cluster of `kube`'s, its forwarder, and the cloud behind it. Time stands where it is put."""

    def __init__(self, kube: KubeApiserver) -> None:
        self.now = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
        self.kube, self.fleet = kube, Fleet(kube)
        self.cloud = Cloud(Settings(store="memory:", cluster=f"kubeconfig:{kube.kubeconfig()}"), workers=2)
        self.world = self.cloud.world
        self.world.clock = lambda: self.now
        self.observer = Kubernetes(kube.access)
        self.calls: list[str] = []
        cluster: Any = self.world.cluster("default", None)
        cluster.server.request = self._recording(cluster.server.request)
        self.cluster: Kubernetes = cluster
        host, _, port = kube.url.removeprefix("https://").partition(":")
        self.wire = Wire((host, int(port)))
        self.cloud.start()
        self._thread: threading.Thread | None = None
        self.starts_watching()

    def _recording(self, request: Callable[..., bytes]) -> Callable[..., bytes]:
        def recorded(method: str, path: str, *args: Any, **more: Any) -> bytes:
            self.calls.append(f"{method} {path.partition('?')[0]}")
            return request(method, path, *args, **more)

        return recorded

    # the forwarder

    def starts_watching(self) -> None:
        """A new forwarder, which knows nothing: it tells its first listing whole."""
        self._ending = False
        self.wire.cut(mend=True)
        access = replace(self.kube.access(), server=f"https://127.0.0.1:{self.wire.port}")
        self.source = Recorded(ApiServer(lambda: access))
        self.forwarder = Forwarder("default", self.source, self.cloud, sleep=self._pause)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until("the forwarder watches", lambda: self.source.asked)

    def _run(self) -> None:
        with contextlib.suppress(_Ended):
            self.forwarder.run()

    def _pause(self, _seconds: float) -> None:
        if self._ending:
            raise _Ended
        time.sleep(0.05)

    def stops_watching(self) -> None:
        """End the forwarder: what happens from now on, nobody tells."""
        self._ending = True
        self.wire.cut()
        if self._thread is not None:
            self._thread.join(PATIENCE)
            assert not self._thread.is_alive()

    def settles(self) -> None:
        """Return when the forwarder is done with everything that happened, and the bus with everything that came of it."""
        while True:
            last = max((int(node.resource_version) for node in self.observer.nodes()), default=0)
            until("the forwarder saw the last change", functools.partial(self._has_seen, last))
            self.cloud.drain()
            if last == max((int(node.resource_version) for node in self.observer.nodes()), default=0):
                return

    def _has_seen(self, version: int) -> bool:
        return self.source.done >= version

    def close(self) -> None:
        """End everything."""
        self.stops_watching()
        self.wire.close()
        self.cloud.stop()
        wiring.install(None)

    # what an operator does and sees

    def declares(self, *policies: Mapping[str, Any]) -> None:
        """Commit and release these policies in place of what was there, none given: one for nobody. No relabel follows: only events
        bring them.
        """
        documents = policies or (a_policy("nobody", {"matchLabels": {"example.com/nobody": "x"}}, {"example.com/none": "x"}),)
        self.world.revisions.stage("site", [Source("site.yaml", yaml.safe_dump_all(documents).encode())], "an operator", self.now)
        revision, _ = self.world.revisions.commit("an operator", self.now)
        chain = self.world.releases
        chain.to_all("default", "", revision.number, since=chain.head("default").k, by="an operator", at=self.now)

    def sweeps(self) -> ActionOutcome:
        """Let the clock's drift_sweep run to its end."""
        action = str(ULID())
        self.cloud.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, name="drift_sweep", requested_by="clock").outgoing()])
        self.cloud.drain()
        outcome = self.world.actions.outcome(action)
        assert outcome is not None, "the sweep has not ended"
        return outcome

    def node(self, name: str) -> Node:
        """A node as it is now."""
        node = self.observer.node(name)
        assert node is not None, f"no node {name}"
        return node

    def labels(self, name: str) -> dict[str, str]:
        """A node's labels now."""
        return dict(self.node(name).labels)

    def writes(self, name: str) -> int:
        """Writes of ours to a node, since `calls` was last cleared."""
        return self.calls.count(f"PATCH /api/v1/nodes/{name}")

    def fights(self) -> list[str]:
        """The messages of the notices about fights."""
        return [notice.data["message"] for notice in self.cloud.notices if notice.type == "dev.hullmark.conflict.detected.v1"]


@contextmanager
def watched(kube: KubeApiserver) -> Iterator[Watched]:
    """A watched cluster without nodes at first."""
    Fleet(kube).clear()
    telemetry.write_to(None)
    cluster = Watched(kube)
    try:
        yield cluster
    finally:
        cluster.close()
