"""A fleet with a rollout on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from shared.domain.labels.impact import Accepting
from shared.domain.rollouts.progress import Progress
from shared.messages import RolloutStep
from shared.work.rollouts import Control, RolloutStatus, control, shown, start
from tests.stories.fleet import Fleet, a_policy


def a_rollout(*stages: Mapping[str, Any], name: str = "careful", **spec: Any) -> dict[str, Any]:
    """A Rollout document."""
    return {
        "apiVersion": "hullmark.dev/v1",
        "kind": "Rollout",
        "metadata": {"name": name},
        "spec": {"stages": list(stages), **spec},
    }


CANARY = {"name": "canary", "nodes": {"names": ["n0"]}, "soak": "10m"}
HALF = {"name": "half", "percent": 50, "approval": "before"}


class Rolling(Fleet):
    """A fleet of ten nodes, n0 to n9, whose revision 1 says `tier: old` and is released; revision 2 says `tier: new`."""

    rollout = ""

    def ten_nodes(self, *stages: Mapping[str, Any], released: bool = True, **spec: Any) -> None:
        self.has_nodes(**{f"n{number}": {} for number in range(10)})
        if released:
            self.commits(a_policy("tiers", {}, {"tier": "old"}))
            self.relabels()
        self.commits(a_policy("tiers", {}, {"tier": "new", "lane": "fast"}), a_rollout(*stages, **spec), adopted=False)

    def starts(self, name: str = "careful", *, supersede: bool = False, **accepting: int) -> Progress:
        progress = start(name, "an operator", self.world, self.now, Accepting(**accepting), supersede=supersede)
        self.rollout = progress.id
        self.cloud.drain()
        return self.world.rollouts.get(progress.id)

    def says(self, verb: Control, stage: str = "", message: str = "because", **accepting: int) -> None:
        """A person says it; an approval names the impact that is shown."""
        shown = self.status.impact if verb == "approve" else None
        impact, accept = shown.digest if shown else "", Accepting(**accepting)
        control(self.rollout, verb, "an operator", self.world, self.now, stage=stage, impact=impact, message=message, accept=accept)
        self.cloud.drain()

    def later(self, **span: float) -> None:
        """Time passes, and the clock sends what it sends."""
        self.now += timedelta(**span)
        self.cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
        self.cloud.drain()

    @property
    def status(self) -> RolloutStatus:
        return shown(self.world.rollouts.get(self.rollout), self.world, self.now)

    def tiers(self) -> dict[str, str]:
        return {node.name: node.labels.get("tier", "") for node in self.cluster.nodes()}

    def new(self) -> Sequence[str]:
        """The nodes that carry the new label."""
        return sorted(name for name, tier in self.tiers().items() if tier == "new")

    def fails(self, *names: str) -> None:
        """These nodes refuse every write."""
        from shared.ports import Refused

        def refuse(call: str, node: str) -> None:
            if call == "apply_labels" and node in names:
                raise Refused("Forbidden", f"{node} is not to be touched")

        self.cluster.before = refuse
