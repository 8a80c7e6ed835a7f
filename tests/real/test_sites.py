"""The real site designs, through every function, onto the nodes of a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.cloud.embedded import Cloud
from shared import telemetry, wiring
from shared.domain.documents.reading import Source
from shared.domain.site import load
from shared.messages import RelabelRequest
from shared.world import Settings
from tests.kube_apiserver import Fleet as RealNodes
from tests.kube_apiserver import KubeApiserver
from tests.sites import SITES, site_file

pytestmark = pytest.mark.real


@pytest.fixture
def cloud(kube: KubeApiserver, real_fleet: RealNodes) -> Iterator[Cloud]:
    telemetry.write_to(None)
    yield Cloud(Settings(store="memory:", cluster=f"kubeconfig:{kube.kubeconfig()}"))
    wiring.install(None)


def relabel(cloud: Cloud, **accepting: int) -> str:
    action = "01ARZ3NDEKTSV4RRFFQ69G5FAV"[:-3] + f"{len(cloud.world.actions.ids()):03}"
    cloud.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, name="update_site", **accepting).outgoing()])
    cloud.drain()
    return action


@pytest.mark.parametrize("site", SITES)
def test_a_real_site_relabels_real_nodes_and_leaves_every_foreign_label_alone(cloud: Cloud, real_fleet: RealNodes, site: str) -> None:
    file: Path = site_file(site)
    source = Source(site, file.read_bytes())
    declared = {name: dict(node["labels"]) for name, node in load([source]).effective().items()}
    foreign = {"kubernetes.io/hostname": "h", "nvidia.com/gpu.present": "true", "hand.made/note": "keep"}
    for name in declared:
        real_fleet.create(name, foreign, manager="kubelet")
    cloud.world.revisions.stage("site", [source], "an operator", cloud.world.clock())
    cloud.world.revisions.commit("an operator", cloud.world.clock())

    first = relabel(cloud)

    cluster = cloud.world.cluster("default", None)
    assert {node.name: dict(node.labels) for node in cluster.nodes()} == {name: {**foreign, **labels} for name, labels in declared.items()}
    ended = cloud.world.actions.outcome(first)
    assert ended is not None
    labelled = [name for name, labels in declared.items() if labels]
    assert ended.counts == {k: v for k, v in {"changed": len(labelled), "unchanged": len(declared) - len(labelled)}.items() if v}

    versions = {node.name: node.resource_version for node in cluster.nodes()}
    again = cloud.world.actions.outcome(relabel(cloud))
    assert again is not None
    assert again.counts == {"unchanged": len(declared)}
    assert {node.name: node.resource_version for node in cluster.nodes()} == versions

    cloud.world.revisions.remove("site", "an operator", cloud.world.clock())
    cloud.world.revisions.commit("an operator", cloud.world.clock())
    relabel(cloud, accept_removals=len(labelled))
    assert all(dict(node.labels) == foreign for node in cluster.nodes())
