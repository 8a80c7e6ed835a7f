"""What is said of pods before a change, against what the real DaemonSet controller and the real scheduler then do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from shared.adapters.kubernetes import Kubernetes
from shared.domain.labels.plans import NodePlan
from shared.domain.workloads.placement import Placement
from shared.work.workloads import workload_impact
from tests.conftest import require_real
from tests.kube_apiserver import HOW, Fleet, KubeApiserver
from tests.real.controllers import NODES, QUIET, Controlled, Drawn, missing
from tests.real.watched import until

pytestmark = pytest.mark.real

MANY = int(os.environ.get("HULLMARK_FORECASTS") or 0)
"""How many changes are made, each of two to six nodes: `make forecasts`."""


@pytest.fixture
def there(kube: KubeApiserver, real_fleet: Fleet) -> Controlled:
    return Controlled(kube, real_fleet)


def plan_of(changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, NodePlan]:
    return {
        name: NodePlan(
            set={key: value for key, value in change.items() if value is not None},
            remove=[key for key, value in change.items() if value is None],
            from_={},
            takeovers=[],
            reasons={},
        )
        for name, change in changes.items()
    }


@pytest.mark.parametrize("seed", range(max(1, MANY // 50)))
def test_the_daemon_set_controller_then_creates_and_deletes_what_was_forecast(
    seed: int,
    kube: KubeApiserver,
    there: Controlled,
    real_cluster: Kubernetes,
    real_fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_real("kube-controller-manager", missing(kube, "kube-controller-manager"), HOW)
    drawn, started, ended, changed = Drawn(seed), 0, 0, 0
    there.nodes(drawn)
    there.daemon_sets(drawn, 16)
    with there.controller():
        before = there.where()
        for _ in range(50 if MANY else 4):
            changes = {name: drawn.change() for name in drawn.random.sample(NODES, drawn.random.choice((2, 4, 6)))}
            said = workload_impact("kube", plan_of(changes), real_cluster)
            assert said.unseen == []
            for name, change in changes.items():
                real_fleet.set_labels(name, change)
            there.settled()
            after = there.where()
            foreseen = [(_pairs(said.nodes, "starts"), after - before), (_pairs(said.nodes, "stops"), before - after)]
            for forecast, real in foreseen:
                assert forecast == real, f"seed {seed}: {changes}"
            started, ended, before, changed = started + len(after - before), ended + len(before - after), after, changed + len(changes)
    with capsys.disabled():
        print(f"seed {seed}: nodes changed {changed} times, pods created {started}, deleted {ended}, each as forecast")  # noqa: T201
    assert min(started, ended) > 0, "nothing was shown"


def _pairs(nodes: Mapping[str, Any], what: str) -> set[tuple[str, str]]:
    return {(each.removeprefix("default/"), name) for name, node in nodes.items() for each in getattr(node, what)}


@pytest.mark.parametrize("seed", range(max(1, MANY // 50)))
def test_the_scheduler_takes_the_nodes_that_fit_and_no_others(
    seed: int, kube: KubeApiserver, there: Controlled, real_cluster: Kubernetes, capsys: pytest.CaptureFixture[str]
) -> None:
    require_real("kube-scheduler", missing(kube, "kube-scheduler"), HOW)
    drawn = Drawn(seed)
    there.nodes(drawn, cordoned=True)
    for number in range(12):
        spec = drawn.spec()
        for name in NODES:
            there.admitted(lambda name=name, spec=spec, number=number: there.pod(f"p{number}-{name}", _only(name, spec)))  # type: ignore[misc]
    hosts = {host.name: host for host in real_cluster.hosts()}
    mine = {pod["metadata"]["name"] for pod in there.pods()}  # other tests leave pods of theirs in the cluster
    fits = {pod.name: Placement(pod.spec).fits(hosts[pod.name.partition("-")[2]]) for pod in real_cluster.placed([]) if pod.name in mine}
    with kube.beside("kube-scheduler", *QUIET):
        until("the scheduler has tried every pod", lambda: all(_tried(pod) is not None for pod in there.pods()))
    assert {pod["metadata"]["name"]: _tried(pod) for pod in there.pods()} == fits
    with capsys.disabled():
        print(f"seed {seed}: {len(fits)} pods with a node each, of which {sum(fits.values())} fit")  # noqa: T201
    assert set(fits.values()) == {True, False}, "nothing was shown"


def _only(node: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A pod that asks for what is drawn, and for this one node."""
    pinned = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    drawn = spec.get("affinity", {}).get("nodeAffinity", {}).get(required, {}).get("nodeSelectorTerms", [{}])
    terms = [{**term, "matchFields": [*term.get("matchFields", ()), pinned]} for term in drawn]
    return {**spec, "hostNetwork": False, "affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}}


def _tried(pod: Mapping[str, Any]) -> bool | None:
    """Whether the scheduler has bound a pod, or found no node for it; None where it has not tried yet."""
    if pod["spec"].get("nodeName"):
        return True
    conditions = pod["status"].get("conditions", ())
    return False if any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions) else None
