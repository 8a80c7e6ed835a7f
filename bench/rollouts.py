"""A rollout of 100,000 nodes in five stages, beside a plain site action on the same nodes: requests, store operations, seconds.

    python -m bench.rollouts [--nodes N]

Both bring one label to every node, in one process of the embedded cloud with a store in memory and a simulated cluster; nodes have to stay
Ready. The counts are exact and the same on any machine; of the seconds read the ratio.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import yaml
from ulid import ULID

from local.cloud.embedded import Cloud
from shared import telemetry
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.domain.documents.reading import Source
from shared.messages import RelabelRequest
from shared.work.rollouts import start
from shared.world import Settings
from tests.counting import Counting

PERCENT = (1, 5, 20, 50)
"""Of the stages before the rest."""
LISTINGS = ("nodes", "readiness")


@dataclass
class Cost:
    """What some work came to."""

    seconds: float
    deliveries: int
    store: Counter[str]
    documents: int
    """Objects of documents that were read."""
    cluster: Counter[str] = field(default_factory=Counter)

    @property
    def row(self) -> str:
        """For the table."""
        store = (self.store["get"], self.store["create"], self.store["keys"] + self.store["folders"])
        cluster = (sum(self.cluster[each] for each in LISTINGS), self.cluster["apply_labels"])
        return "".join(f"{each:>11,}" for each in (self.deliveries, *cluster, *store, self.documents)) + f"{self.seconds:>10.1f}"


class Bench:
    """A fleet of so many nodes whose store and cluster count."""

    def __init__(self, nodes: int) -> None:
        telemetry.write_to(None)
        self._nodes = nodes
        self._calls: Counter[str] = Counter()
        self.cloud = Cloud(Settings(store="memory:", cluster="simulated:unused"), workers=1)
        self.world = self.cloud.world
        self.store = Counting(self.world.store)
        self.world.store = self.store
        self.cluster = Simulated(open_store("memory:"), before=self._called)
        self.world.open_cluster = lambda _access, _name: self.cluster
        for number in range(nodes):
            self.cluster.create(f"node-{number:06}.site.example", {}, ready=True)

    def _called(self, call: str, _node: str) -> None:
        self._calls[call] += 1

    def commits(self, tier: str) -> None:
        """A revision that changes one label of every node, with a rollout in five stages."""
        policy: dict[str, Any] = {"kind": "NodeLabelPolicy", "metadata": {"name": "tiers"}, "spec": {"labels": {"tier": tier}}}
        stages = [{"name": f"s{percent}", "percent": percent} for percent in PERCENT]
        rollout: dict[str, Any] = {"kind": "Rollout", "metadata": {"name": "careful"}, "spec": {"stages": stages}}
        text = yaml.safe_dump_all([{"apiVersion": "hullmark.dev/v1", **document} for document in (policy, rollout)])
        self.world.revisions.stage("site", [Source("site.yaml", text.encode())], "bench", self.world.clock())
        self.world.revisions.commit("bench", self.world.clock())

    def _measured(self, work: Any) -> Cost:
        self.store.clear()
        self._calls.clear()
        began, delivered = time.perf_counter(), self.cloud.delivered
        work()
        self.cloud.drain()
        seconds = time.perf_counter() - began
        read = [key for name, key in self.store.asked if name == "get" and key.startswith("revisions/") and key.count("/") > 2]
        return Cost(seconds, self.cloud.delivered - delivered, Counter(self.store.calls), len(read), Counter(self._calls))

    def site_action(self) -> Cost:
        """Every node by one action."""
        request = RelabelRequest(action=str(ULID()), name="update_site", requested_by="bench")
        return self._measured(lambda: self.cloud.publish(RelabelRequest.TOPIC, [request.outgoing()]))

    def rollout(self) -> tuple[Cost, int]:
        """Every node stage by stage; what that cost, and in how many batches."""
        cost = self._measured(lambda: start("careful", "bench", self.world, self.world.clock()))
        (rollout,) = self.world.rollouts.ids()
        ended = self.world.rollouts.get(rollout)
        if ended.phase != "done":
            raise SystemExit(f"the rollout is {ended.phase}: {ended.said}")
        return cost, len(ended.batches)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    asked = parser.parse_args()
    bench = Bench(asked.nodes)
    bench.commits("r1")
    bench.site_action()  # who comes first also creates what is there ever after
    bench.commits("r2")
    plain = bench.site_action()
    bench.commits("r3")
    rollout, batches = bench.rollout()
    columns = ("requests", "listings", "writes", "store reads", "creates", "listings", "documents", "seconds")
    print(f"{asked.nodes:,} nodes, {len(PERCENT) + 1} stages, {batches} batches")
    print(f"{'':14}" + "".join(f"{column:>{10 if column == 'seconds' else 11}}" for column in columns))
    print(f"{'site action':14}{plain.row}")
    print(f"{'rollout':14}{rollout.row}")
    each = (rollout.store.total() - plain.store.total()) / batches
    print(
        f"store operations of a batch beyond its share of a site action: {each:.0f}; seconds: {rollout.seconds / plain.seconds:.1f} times"
    )


if __name__ == "__main__":
    main()
