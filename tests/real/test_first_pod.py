"""A pool's first pod on a real kube-apiserver: from policies to the template, the node that registers by it, and its labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from local.cli.export import export
from shared.domain.nodes import Taint
from shared.domain.workloads.placement import Host, Placement, PodSpec
from tests.kube_apiserver import KubeApiserver
from tests.real.watched import Watched, until, watched
from tests.stories.fleet import a_policy

pytestmark = pytest.mark.real
STARTUP = Taint("hullmark.dev/unlabelled", "NoSchedule")
POLICY = a_policy(
    "gpu",
    {"matchLabels": {"pool": "gpu"}},
    {"example.com/rack": "r7", "topology.kubernetes.io/rack": "r7"},
    until={"taint": {"key": STARTUP.key, "effect": STARTUP.effect}},
)
POD = Placement(PodSpec(node_selector={"topology.kubernetes.io/rack": "r7"}))


@dataclass
class Template:
    """The flags that a kubelet of the pool is started with."""

    labels: Mapping[str, str]
    taints: list[Taint]


@pytest.fixture
def cluster(kube: KubeApiserver) -> Iterator[Watched]:
    with watched(kube) as found:
        yield found


def exported(folder: str) -> Template:
    """What `hullmark export --format kubelet` prints, read as a kubelet reads its flags."""
    ran = CliRunner().invoke(export, ["-f", folder, "--format", "kubelet", "--pool", "gpu", "--policy", "gpu"], standalone_mode=False)
    assert ran.return_value == 0, ran.output
    flags = dict(line.split("=", 1) for line in ran.stdout.splitlines())
    labels = dict(pair.split("=", 1) for pair in flags["--node-labels"].split(","))
    taints = [taint.rpartition(":") for taint in flags["--register-with-taints"].split(",")]
    return Template(labels, [Taint(pair.partition("=")[0], effect, pair.partition("=")[2]) for pair, _, effect in taints])


def host(cluster: Watched, name: str) -> Host:
    """The node as the scheduler sees it."""
    return next(host for host in cluster.observer.hosts() if host.name == name)


def test_a_node_that_registers_by_the_exported_template_is_closed_to_pods_until_its_labels_are_there(
    cluster: Watched, tmp_path: Path
) -> None:
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(POLICY))
    template = exported(str(tmp_path))
    assert (template.labels, template.taints) == ({"pool": "gpu", "example.com/rack": "r7"}, [STARTUP])
    cluster.declares(POLICY)
    cluster.stops_watching()

    cluster.fleet.create("gpu-1", template.labels, taints=template.taints, ready=True)
    assert STARTUP in host(cluster, "gpu-1").taints
    cluster.fleet.set_taints("gpu-1", template.taints, "kube-controller-manager")  # which takes off that it is not ready
    assert not POD.fits(host(cluster, "gpu-1"))
    cluster.starts_watching()

    until("the startup taint is gone", lambda: STARTUP not in host(cluster, "gpu-1").taints)
    cluster.settles()
    assert cluster.labels("gpu-1") == {**template.labels, "topology.kubernetes.io/rack": "r7"}
    assert POD.fits(host(cluster, "gpu-1"))
