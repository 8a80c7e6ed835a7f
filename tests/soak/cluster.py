"""The cluster of a soak: a real kube-apiserver that our forwarder watches, or the simulated one, whose changes are told by hand."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from local.cloud.forwarder import Forwarder
from shared.adapters.apiserver import ApiServer
from shared.adapters.kubernetes_watch import NodeWatch
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.messages import NodeChanged
from shared.ports import Bus
from tests.kube_apiserver import Fleet, KubeApiserver, assets


class Others(Protocol):
    """Kubelets, people with kubectl, other controllers."""

    def create(self, name: str, labels: Mapping[str, str] | None = None) -> str: ...

    def delete(self, name: str) -> None: ...

    def set_labels(self, name: str, labels: Mapping[str, str | None]) -> None: ...


@dataclass(frozen=True)
class Ground:
    """A cluster as the settings name it, and as others change it."""

    setting: str
    others: Others
    watch: Callable[[Bus], contextlib.AbstractContextManager[Callable[[str, str], None]]]
    """For the length of a `with`: events go to this bus. What it gives is called with (node, kind) after each change of `others`."""
    pids: Mapping[str, int]


@contextmanager
def a_cluster(folder: Path, names: Sequence[str], *, real: bool) -> Iterator[Ground]:
    """A cluster with these nodes."""
    with a_real_one(names) if real else a_simulated_one(folder, names) as ground:
        yield ground


def there_is_a_real_one() -> bool:
    return assets() is not None


@contextmanager
def a_real_one(names: Sequence[str]) -> Iterator[Ground]:
    with KubeApiserver() as kube:
        fleet = Fleet(kube)
        fleet.fill(list(names))

        @contextmanager
        def watch(bus: Bus) -> Iterator[Callable[[str, str], None]]:
            with forwarded(kube, bus):
                yield lambda _node, _kind: None

        try:
            yield Ground(f"kubeconfig:{kube.kubeconfig()}", fleet, watch, kube.pids)
        finally:
            fleet._server.close()


class _Ended(Exception):
    pass


@contextmanager
def forwarded(kube: KubeApiserver, bus: Bus) -> Iterator[None]:
    """Our forwarder, as `hullmark events forward` runs it. Its last watch ends with the API server."""
    ended = threading.Event()

    class Watch(NodeWatch):
        def since(self, version: str) -> Iterator[Any]:
            for seen in super().since(version):
                if ended.is_set():
                    raise _Ended
                yield seen

    def pause(seconds: float) -> None:
        if ended.wait(seconds):
            raise _Ended

    def run() -> None:
        with contextlib.suppress(_Ended):
            Forwarder("default", Watch(ApiServer(kube.access)), bus, sleep=pause).run()

    threading.Thread(target=run, name="forwarder", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def a_simulated_one(folder: Path, names: Sequence[str]) -> Iterator[Ground]:
    cluster = Simulated(open_store(f"file:{folder / 'store'}"), "default")
    for name in names:
        cluster.create(name, {"kubernetes.io/hostname": name})

    @contextmanager
    def watch(bus: Bus) -> Iterator[Callable[[str, str], None]]:
        def tell(node: str, kind: str) -> None:
            change = NodeChanged.model_validate({"name": node, "kind": kind, "resource_version": str(time.time_ns())})
            bus.publish(NodeChanged.TOPIC, [change.outgoing()])

        yield tell

    yield Ground("simulated:of-the-soak", cluster, watch, {})
