"""What a large Airship design costs: resolving it, committing it, and what applying one part of it loads afterwards.

Run `python -m bench.design [NODES…]` (default 1000 10000 100000). The design is generated: profiles whose layers add up to 60 labels, nodes
with six addresses, tags and a rack as in real sites, a rack for 40 nodes, policies by name, rack, tag and label. Each size is resolved and
committed in processes of its own, on a store in a folder; memory is the process's peak beyond what it held with the documents' text.
A part is 200 nodes (more beyond 51,200), and a newer revision makes node_apply plan it anew: objects, kB and milliseconds of that.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from functions.node_apply.main import handle
from shared import telemetry
from shared.domain.actions import split
from shared.domain.documents.reading import Source
from shared.domain.site import load
from shared.ledger.revisions import Revisions
from shared.messages import NodeApply, NodeTask, Outgoing
from shared.ports import HULLMARK, Node
from shared.wiring import build
from shared.world import Settings

T = TypeVar("T")
R = TypeVar("R")
A_RACK, A_FILE, LAYER = 40, 1000, 20
SMALL = b"apiVersion: hullmark.dev/v1\nkind: LabelRules\nmetadata: {name: small}\nspec: {}\n"
"""A document that names no node: an empty stage is refused."""
NODE = """---
schema: drydock/BaremetalNode/v1
metadata: {{schema: metadata/Document/v1, name: {name}, storagePolicy: cleartext}}
data:
  addressing:
{addresses}  host_profile: {profile}
  metadata:
    rack: {rack}
    tags:
    - {tag}
    owner_data:
      site.example.com/position: u{position}
"""


def documents(nodes: int) -> Iterator[Source]:
    """The design as files."""
    yield Source("profiles.yaml", "".join(_profiles()).encode())
    yield Source("policies.yaml", "".join(_policies()).encode())
    for first in range(0, nodes, A_FILE):
        numbers = range(first, min(first + A_FILE, nodes))
        racks = "".join(_rack(number // A_RACK) for number in numbers if number % A_RACK == 0)
        yield Source(f"nodes-{first // A_FILE:03}.yaml", (racks + "".join(map(_node, numbers))).encode())


def _schema(kind: str, name: str, data: Mapping[str, Any]) -> str:
    document = {"schema": f"drydock/{kind}/v1", "metadata": {"schema": "metadata/Document/v1", "name": name}, "data": data}
    return "---\n" + json.dumps(document) + "\n"


def _profiles() -> Iterator[str]:
    yield _schema("HardwareProfile", "generic", {"vendor": "Any"})
    parent = ""
    for layer, name in enumerate(("defaults", "control", "compute")):
        labels = {f"openstack-service-{layer}-{number:02}": "enabled" for number in range(LAYER)}
        yield _schema("HostProfile", name, {"host_profile": parent, "hardware_profile": "generic", "metadata": {"owner_data": labels}})
        parent = name


def _policies() -> Iterator[str]:
    chosen: list[dict[str, Any]] = [{"names": [f"node-{number:06}"]} for number in range(5)]
    chosen += [{"racks": [f"rack-{number:05}"]} for number in range(10)]
    chosen += [{"tags": ["workers"]}, {"matchLabels": {"openstack-service-2-00": "enabled"}}]
    for number, nodes in enumerate(chosen):
        policy = {"nodes": nodes, "labels": {f"policy.example.com/p{number}": "on"}}
        document = {"apiVersion": "hullmark.dev/v1", "kind": "NodeLabelPolicy", "metadata": {"name": f"p{number}"}, "spec": policy}
        yield "---\n" + json.dumps(document) + "\n"


def _rack(number: int) -> str:
    return _schema("Rack", f"rack-{number:05}", {"location": {"clli": "HAL", "grid": f"G{number}"}, "local_networks": ["pxe"]})


def _node(number: int) -> str:
    networks = enumerate(("oob", "pxe", "oam", "calico", "storage", "overlay"), 10)
    addresses = "".join(
        f"  - network: {network}\n    address: {net}.{number >> 16}.{number >> 8 & 255}.{number & 255}\n" for net, network in networks
    )
    tag, profile = ("masters", "control") if number % 20 == 0 else ("workers", "compute")
    about = {"name": f"node-{number:06}", "profile": profile, "tag": tag, "rack": f"rack-{number // A_RACK:05}"}
    return NODE.format(addresses=addresses, position=number % A_RACK, **about)


class Live:
    """A cluster that has every node that is asked for, without a label."""

    def __init__(self) -> None:
        self.written = 0

    owner = HULLMARK

    def server_version(self) -> str:
        """Today's."""
        return "v1.35.4"

    def node(self, name: str) -> Node | None:
        """One of them."""
        return Node(name, f"uid-{name}", {})

    def nodes(self) -> list[Node]:
        """A part must not list a whole cluster."""
        raise SystemExit("a part lists the whole cluster")

    def apply_labels(self, name: str, uid: str, labels: Mapping[str, str], *, manager: str = "", force: bool = True) -> Node:
        """Take them."""
        self.written += 1
        return Node(name, uid, labels)

    def remove_labels(self, name: str, keys: Sequence[str], *, resource_version: str, manager: str = "") -> Node:
        """Nothing here is pruned."""
        raise NotImplementedError

    def patch_labels(self, name: str, labels: Mapping[str, str], *, resource_version: str, manager: str) -> Node:
        """Nothing here is given back."""
        raise NotImplementedError

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """One after the other: it is not the cluster that is measured."""
        return [work(item) for item in items]


class Ear:
    """A bus that takes everything."""

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """Take."""


def peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(what: str, nodes: int, folder: str) -> dict[str, float]:
    """One step of one size, in this process."""
    telemetry.write_to(None)
    world = build(Settings(store=f"file:{folder}"), Ear())
    if what == "part":
        return _part(nodes, folder)
    sources = list(documents(nodes))
    size = sum(len(source.data) for source in sources)
    now = world.clock()
    load(sources[:1] + list(documents(1))[2:])  # what is imported on first use
    before, began = peak(), time.perf_counter()
    if what == "load":
        site = load(sources)
        seconds = time.perf_counter() - began
        labels = len(site.nodes["node-000001"].labels)
        if len(site.nodes) != nodes or labels != 3 * LAYER + 1:
            raise SystemExit(f"{len(site.nodes)} nodes, {labels} labels on the second")
        return {"seconds": seconds, "mebibytes": peak() - before, "megabytes": size / 1e6}
    revisions = Revisions(world.store)
    revisions.stage("site", [Source("small.yaml", SMALL)], "bench", now)
    revisions.commit("bench", now)
    began = time.perf_counter()
    revisions.stage("site", sources, "bench", now)
    revisions.commit("bench", now)
    return {"seconds": time.perf_counter() - began, "mebibytes": peak() - before}


def _part(nodes: int, folder: str) -> dict[str, float]:
    """A part in the middle, planned on revision 1 and applied when revision 2 is released."""
    world, live = build(Settings(store=f"file:{folder}", cluster="in-cluster:"), Ear()), Live()
    world.releases.adopt("default", 2, "bench", world.clock())
    world.open_cluster = lambda _access, _name: live
    parts = split([f"node-{number:06}" for number in range(nodes)])
    task = NodeApply(revision=1, nodes=[NodeTask(name=name, uid=f"uid-{name}") for name in parts[len(parts) // 2]])
    read: list[int] = []
    get: Callable[[str], bytes | None] = world.store.get

    def counted(key: str) -> bytes | None:
        body = get(key)
        read.append(len(body or b""))
        return body

    setattr(world.store, "get", counted)  # noqa: B010 - a method of this one object
    before, began = peak(), time.perf_counter()
    handle(task, world)
    seconds = time.perf_counter() - began
    if live.written != len(task.nodes):
        raise SystemExit(f"{live.written} of {len(task.nodes)} nodes were written")
    return {"seconds": seconds, "mebibytes": peak() - before, "nodes": len(task.nodes), "objects": len(read), "kilobytes": sum(read) / 1e3}


def in_a_process(what: str, nodes: int, folder: str) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "bench.design", "--measure", what, str(nodes), folder]
    ran = subprocess.run(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent, check=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", nargs="*", type=int, default=[1000, 10_000, 100_000], metavar="NODES")
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "NODES", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure[0], int(given.measure[1]), given.measure[2])))
        return
    print("                 resolve                       commit (resolves too)       a part planned anew")
    print("  nodes  MB yaml seconds  /node   MiB  /node   seconds  /node   MiB  /node  nodes objects    kB     ms   MiB")
    first: list[float] = []
    for nodes in given.nodes:
        with tempfile.TemporaryDirectory(prefix="hullmark-bench-") as folder:
            loaded, committed, part = (in_a_process(what, nodes, folder) for what in ("load", "commit", "part"))
        each = [value / nodes for found in (loaded, committed) for value in (found["seconds"], found["mebibytes"])]
        first = first or each
        load_s, load_m, commit_s, commit_m = (now / then if then else 0 for now, then in zip(each, first, strict=True))
        print(
            f"{nodes:7} {loaded['megabytes']:8.1f} {loaded['seconds']:7.2f} {load_s:6.2f} {loaded['mebibytes']:5.0f} {load_m:6.2f}"
            f"   {committed['seconds']:7.2f} {commit_s:6.2f} {committed['mebibytes']:5.0f} {commit_m:6.2f}"
            f"  {part['nodes']:5.0f} {part['objects']:7.0f} {part['kilobytes']:5.0f} {1e3 * part['seconds']:6.0f} {part['mebibytes']:5.0f}",
            flush=True,
        )
    print("/node: the size's cost per node, as a ratio to the first size's")


if __name__ == "__main__":
    main()
