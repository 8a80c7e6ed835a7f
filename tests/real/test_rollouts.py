"""Rollouts on the nodes of a real kube-apiserver: the way back gives others their values again, as the simulated cluster does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared import telemetry, wiring
from shared.adapters.kubernetes import Kubernetes
from shared.domain.nodes import Node
from tests.kube_apiserver import Fleet as RealNodes
from tests.rollouts.rolling import CANARY, Rolling, a_rollout
from tests.stories.fleet import a_policy

pytestmark = pytest.mark.real


class Both:
    """A real cluster as the port has it, and what others do to it."""

    def __init__(self, port: Kubernetes, others: RealNodes) -> None:
        self._port, self._others = port, others

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others if name in ("create", "set_labels", "apply") else self._port, name)


@pytest.fixture
def simulated() -> Iterator[Rolling]:
    telemetry.write_to(None)
    yield Rolling()
    wiring.install(None)


@pytest.fixture
def real(real_cluster: Kubernetes, real_fleet: RealNodes) -> Rolling:
    fleet = Rolling()
    fleet.cluster = Both(real_cluster, real_fleet)  # type: ignore[assignment]
    return fleet


def seen(fleet: Rolling) -> dict[str, Any]:
    def of(node: Node) -> tuple[Any, ...]:
        return dict(node.labels), dict(node.owners), dict(node.applied)

    return {node.name: of(node) for node in fleet.cluster.nodes()}


def taken_over_and_back(fleet: Rolling) -> list[dict[str, Any]]:
    """What the nodes are: before, while a canary has been taken over from an Update and an Apply, and after the way back."""
    wiring.install(fleet.world)
    fleet.ten_nodes({**CANARY, "nodes": {"names": ["n0", "n1", "n2"]}})
    fleet.cluster.set_labels("n0", {"lane": "slow"}, manager="kubectl-label")
    fleet.cluster.apply("n1", {"lane": "slower"}, manager="platform")
    states = [seen(fleet)]
    fleet.starts()
    states.append(seen(fleet))
    fleet.cluster.set_labels("n2", {"lane": "ours"}, manager="ada")
    fleet.says("revert")
    return [*states, seen(fleet)]


def labels(state: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {name: node[0] for name, node in state.items()}


def test_a_revert_gives_back_what_was_taken_and_the_simulated_cluster_says_the_same(simulated: Rolling, real: Rolling) -> None:
    before, reached, after = taken_over_and_back(real)
    assert labels(reached)["n1"] == {"tier": "new", "lane": "fast"}
    assert labels(after) == labels(before) | {"n2": {"tier": "old", "lane": "ours"}}
    assert (after["n0"][1]["lane"], after["n1"][1]["lane"]) == (("hullmark-revert",), ("hullmark-revert",))
    assert all(node[2]["hullmark"] == {"tier"} for node in after.values())
    assert taken_over_and_back(simulated) == [before, reached, after]


def test_a_value_that_a_newer_rollout_declared_anew_is_there_after_the_way_back(simulated: Rolling, real: Rolling) -> None:
    for fleet in (real, simulated):
        wiring.install(fleet.world)
        fleet.ten_nodes(CANARY)
        fleet.cluster.set_labels("n0", {"lane": "slow"}, manager="kubectl-label")
        fleet.starts()
        fleet.commits(a_policy("tiers", {}, {"tier": "newer", "lane": "slow"}), a_rollout(CANARY), adopted=False)
        fleet.starts(supersede=True)
        fleet.says("revert")
    assert seen(real) == seen(simulated)
    assert labels(seen(real))["n0"] == {"tier": "old", "lane": "slow"}
