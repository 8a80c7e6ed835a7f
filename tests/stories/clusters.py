"""Several clusters to tell stories with, each with its own nodes and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.adapters.simulated import Simulated
from shared.domain.actions import ActionOutcome
from shared.ports import Unavailable
from tests.stories.fleet import Fleet, a_policy

LABELS: dict[str, dict[str, str]] = {"east": {"env": "dev"}, "north": {"env": "prod", "tier": "gold"}, "west": {"env": "prod"}}


def a_cluster(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """A Cluster document."""
    spec = {"access": {"simulated": {"name": name}}}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name, "labels": dict(labels)}, "spec": spec}


class Clusters(Fleet):
    """A site with three clusters, `n1` and `n2` in each; its one policy declares `rack` on both. Not `new`: its store is filled later."""

    def __init__(self, *, new: bool = True) -> None:
        super().__init__()
        self.world.settings = self.world.settings.model_copy(update={"cluster": ""})
        self.clusters = {name: Simulated(self.world.store, name) for name in LABELS}
        self.world.open_cluster = lambda _access, name: self.clusters[name]
        for cluster in self.clusters.values() if new else ():
            cluster.create("n1", {})
            cluster.create("n2", {})
        self.revision = self.declares_rack("r1") if new else 1

    def declares_rack(self, value: str) -> int:
        """Commit the policy with this value."""
        clusters = [a_cluster(name, labels) for name, labels in LABELS.items()]
        return self.commits(a_policy("rack", {"names": ["n1", "n2"]}, {"rack": value}), *clusters, adopted=False)

    def racks(self) -> dict[str, str]:
        """By cluster, the `rack` of its two nodes, - where one has none."""
        seen = {name: Simulated(self.world.store, name) for name in self.clusters}
        return {name: " ".join(node.labels.get("rack", "-") for node in cluster.nodes()) for name, cluster in seen.items()}

    def sends_and_delivers(self, **request: Any) -> str:
        """Publish a request for every node and have it accepted, no more."""
        action = self.sends(name="update_site", **request)
        self.cloud._deliver(self.cloud._queue.pop())
        return action

    def does_not_answer(self, name: str) -> None:
        """A cluster is away until further notice."""

        def away(_call: str, _node: str) -> None:
            raise Unavailable(f"{name} does not answer")

        self.clusters[name].before = away

    def answers(self, name: str) -> None:
        """It is back."""
        self.clusters[name].before = lambda _call, _node: None

    def child(self, action: str, cluster: str) -> str:
        """The id of the action on one of the clusters."""
        return self.world.actions.request(action).children[cluster]

    def children_ended(self, action: str) -> list[str]:
        """The clusters whose own action has ended."""
        children = self.world.actions.request(action).children
        return [cluster for cluster, child in children.items() if self.world.actions.outcome(child)]

    def children(self, action: str) -> dict[str, ActionOutcome]:
        """By cluster, how its own action ended."""
        return {cluster: self.ended(child) for cluster, child in self.world.actions.request(action).children.items()}
