"""One action over a real kube-apiserver and two simulated clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared import telemetry, wiring
from shared.adapters.kubernetes import Kubernetes
from shared.work.control import retried
from tests.kube_apiserver import Fleet as RealNodes
from tests.stories.clusters import LABELS, Clusters, a_cluster
from tests.stories.fleet import a_policy

pytestmark = pytest.mark.real


@pytest.fixture
def site(real_cluster: Kubernetes, real_fleet: RealNodes) -> Iterator[Clusters]:
    """`west` is the real one; a policy for clusters of production, one for all."""
    telemetry.write_to(None)
    site = Clusters()
    site.clusters["west"] = real_cluster  # type: ignore[assignment]
    for name in ("n1", "n2"):
        real_fleet.create(name, {}, manager="kubelet")
    prod = a_policy("prod", {}, {"tier": "prod"}, clusters={"matchLabels": {"env": "prod"}})
    clusters = [a_cluster(name, labels) for name, labels in LABELS.items()]
    site.commits(a_policy("rack", {"names": ["n1", "n2"]}, {"rack": "r1"}), prod, *clusters, adopted=False)
    yield site
    wiring.install(None)


def labels(site: Clusters) -> dict[str, dict[str, str]]:
    ours = ("rack", "tier")
    return {
        f"{name}/{node.name}": {key: value for key, value in node.labels.items() if key in ours}
        for name, cluster in site.clusters.items()
        for node in cluster.nodes()
    }


def test_every_cluster_gets_what_its_labels_say_and_a_second_run_writes_nothing(site: Clusters) -> None:
    action = site.relabels(clusters=["*"])
    assert (site.ended(action).result, site.ended(action).counts) == ("success", {"changed": 3})
    found = labels(site)
    assert found["east/n1"] == {"rack": "r1"}
    assert found["north/n1"] == found["west/n1"] == found["west/n2"] == {"rack": "r1", "tier": "prod"}
    before = {node.name: node.resource_version for node in site.clusters["west"].nodes()}
    again = site.relabels(clusters={"matchLabels": {"env": "prod"}})
    assert site.ended(again).counts == {"unchanged": 2}
    assert {node.name: node.resource_version for node in site.clusters["west"].nodes()} == before


def test_a_node_that_is_gone_fails_its_cluster_alone_until_it_is_back(site: Clusters, real_fleet: RealNodes) -> None:
    real_fleet.delete("n2")
    action = site.relabels(clusters=["*"])
    assert (site.ended(action).result, site.outcome(action)["west"]) == ("partial_success", "failed")
    assert labels(site)["west/n1"] == {"rack": "r1", "tier": "prod"}
    real_fleet.create("n2", {}, manager="kubelet")
    again = retried(action, "an operator", site.world)
    site.relabels(**again.model_dump(include={"action", "clusters", "retry_of", "revision"}))
    assert labels(site)["west/n2"] == {"rack": "r1", "tier": "prod"}
