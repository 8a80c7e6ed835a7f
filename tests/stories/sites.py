"""A site of any size in two collections, Airship's design and policies, with its first revision at every node of its cluster."""

from __future__ import annotations

import functools
from typing import Any

import yaml

from shared import telemetry, wiring
from shared.adapters.simulated import Simulated
from shared.domain.documents.reading import Source
from shared.domain.labels.events import change_of
from shared.domain.labels.impact import Accepting
from shared.messages import NodeChanged
from shared.work.commits import commit
from tests.api.conftest import FrontDoor
from tests.stories.fleet import a_policy

Files = dict[str, list[dict[str, Any]]]
KINDS = {"profile": "drydock/HostProfile/v1", "node": "drydock/BaremetalNode/v1", "hardware": "drydock/HardwareProfile/v1"}


def drydock(kind: str, name: str, **data: Any) -> dict[str, Any]:
    return {"schema": KINDS[kind], "metadata": {"schema": "metadata/Document/v1", "name": name}, "data": data}


def racks(nodes: int) -> int:
    """How many racks a site of so many nodes has."""
    return {9: 3, 200: 20, 3000: 60}[nodes]


def design(nodes: int, prefix: str = "n", **profile: Any) -> Files:
    """A folder with a file for the profiles and one for each rack."""
    metadata = {"owner_data": {"tier": "gold"}} | profile
    files = {"profiles.yaml": [drydock("hardware", "hw"), drydock("profile", "gold", hardware_profile="hw", metadata=metadata)]}
    for number in range(nodes):
        rack, host = number % racks(nodes), number + 2
        address = [{"network": "m", "address": f"10.{host >> 16}.{host >> 8 & 255}.{host & 255}"}]
        node = drydock("node", f"{prefix}{number:04}", host_profile="gold", addressing=address, metadata={"rack": f"r{rack:02}"})
        files.setdefault(f"racks/r{rack:02}.yaml", []).append(node)
    return files


def policies(selects: str = "accelerator", *, gpu: bool = True, site: bool = True) -> Files:
    """A policy that selects nodes by a label of the kubelet's, one for every node."""
    listed = [a_policy("gpu", {"matchLabels": {selects: "h100"}}, {"driver": "on"})] if gpu else []
    return {"policies.yaml": [*listed, *([a_policy("site", {}, {"site": "halden"})] if site else [a_policy("other", {}, {})])]}


class Site(FrontDoor):
    """A site in two collections, brought to a cluster of so many nodes."""

    def stages(self, collection: str, files: Files) -> None:
        sources = [Source(name, yaml.dump_all(documents, Dumper=yaml.CSafeDumper).encode()) for name, documents in files.items()]
        self.world.revisions.stage(collection, sources, "ada", self.now)

    def commits_it(self, **accepting: int) -> Any:
        """Commit what is staged; what it would do."""
        revision = commit(self.world, "ada", self.now, accepting=Accepting.model_validate(accepting)).revision
        return revision.about.impact

    def carried(self) -> dict[str, dict[str, str]]:
        return {node.name: dict(node.labels) for node in self.cluster.nodes()}

    def hears_of(self, name: str) -> None:
        """The event that a relist, or a kubelet that starts anew, makes of a node that nobody changed."""
        self.cloud.publish(NodeChanged.TOPIC, [message_of(self, name)])
        self.cloud.drain()


def message_of(site: Site, name: str) -> Any:
    change = change_of("changed", "default", site.node(name))
    return NodeChanged.model_validate(change.model_dump()).outgoing()


@functools.cache
def built(nodes: int) -> dict[str, bytes]:
    """The store of a site whose first revision is at its nodes."""
    telemetry.write_to(None)
    site = Site()
    site.stages("design", design(nodes))
    site.stages("policies", policies())
    site.has_nodes(**{f"n{number:04}": {"accelerator": "h100"} for number in range(nodes)})
    assert not site.commits_it().beyond
    assert site.ended(site.relabels()).result == "success"
    assert site.labels("n0000") == {"accelerator": "h100", "driver": "on", "site": "halden", "tier": "gold"}
    store = site.world.store
    wiring.install(None)
    return {key: store.get(key) or b"" for key in store.keys("")}


def a_copy(nodes: int) -> Site:
    """A site of so many nodes that nobody else changes."""
    kept = built(nodes)
    telemetry.write_to(None)
    site = Site()
    for key, body in kept.items():
        site.world.store.create(key, body)
    site.cluster = Simulated(site.world.store, "default")
    return site
