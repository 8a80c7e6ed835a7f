"""A careless world: nodes come, go, change their labels and turn NotReady, clusters vanish, people say things at any moment.

A rollout is driven through it by the pure functions alone: places, decisions, health, releases. After each step every node's release is
held against the stages that were opened.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import structs

from shared.domain.documents.kinds import REST, StageSpec, seconds
from shared.domain.holds import Hold
from shared.domain.labels.places import LAST, place_of
from shared.domain.labels.releases import State, advanced, begun, dropped, finished
from shared.domain.nodes import Node
from shared.domain.rollouts.decisions import Facts, Open, Stop, Wait, after, decide, needs_a_look
from shared.domain.rollouts.health import Seen, baseline, looked, watched
from shared.domain.rollouts.places import Candidate, Standing, resolve
from shared.domain.rollouts.progress import HEALTHY, Batch, Fact, Progress, Said, Stage, Verb, WrongPhase, approved, given

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
OLD, NEW = 1, 2
"""The revision that every node had, and the one that the rollout brings."""
HOLDS = (Hold("Frozen", "year-end", NOW, NOW + timedelta(days=3650)), Hold("Paused", "ada paused the fleet", NOW))


@dataclass
class Cluster:
    """What is there, and what is released there."""

    nodes: dict[str, str] = field(default_factory=dict)
    """By name: the pool that the node says it is in."""
    down: set[str] = field(default_factory=set)
    """Nodes that are not Ready."""
    answers: bool = True
    state: State = field(default_factory=lambda: State(base=OLD, base_k=1))
    k: int = 1
    standing: Standing = field(default_factory=lambda: Standing({}, [], []))

    def moved(self, state: State) -> None:
        """The next act of its chain."""
        self.state, self.k = state, self.k + 1

    def stage_of(self, _rollout: str, node: str) -> int:
        """Where a node stands, one that has come since too."""
        later = (stage for stage, below in self.standing.later if place_of(node) < below)
        return self.standing.stages.get(node, next(later, len(self.standing.meant) - 1))

    def members(self, batch: Batch) -> list[str]:
        """The nodes of a batch."""
        placed = sorted((name for name, stage in self.standing.stages.items() if stage == batch.stage), key=place_of)
        return placed[batch.start : batch.start + batch.count]

    def seen(self) -> Seen:
        """Which nodes are Ready, where it says so."""
        return Seen({name: name not in self.down for name in self.nodes} if self.answers else None, {}, {})


class CarelessWorld:
    """One rollout on its way through it. Everything is drawn from `seed`."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = NOW
        self.clusters = {f"c{number}": self._a_cluster() for number in range(self.chance.randint(1, 3))}
        self.specs = self._some_stages()
        self.facts: dict[str, Fact] = {}
        self.held: Hold | None = None
        self.met: Counter[str] = Counter()
        """The reasons of its waits and stops."""
        self._made = self._came = 0
        said = Said("start", "ada", NOW)
        self.rollout = Progress(
            id="r",
            name="careful",
            revision=NEW,
            said=said,
            started=said,
            stages=[Stage(s.name, seconds(s.soak), s.approval == "before", s.approval == "after", s.max_in_flight) for s in self.specs],
            failed=self._some_budget(),
            revert_on_stop=self.chance.random() < 0.3,
            clusters=dict.fromkeys(self.clusters, 1),
            nodes_ready=self.chance.random() < 0.5,
        )

    def _a_cluster(self) -> Cluster:
        names = {f"n{number}": self.chance.choice(["canary", "gpu", "cpu"]) for number in range(self.chance.choice([1, 3, 8, 15]))}
        return Cluster(names, {name for name in names if self.chance.random() < 0.05}, answers=self.chance.random() < 0.9)

    def _some_budget(self) -> int | str:
        return self.chance.choice((0, 1)) if self.chance.random() < 0.5 else self.chance.choice(("10%", "50%"))

    def _some_stages(self) -> list[StageSpec]:
        chance = self.chance
        means: list[dict[str, Any]] = [
            {"nodes": {"matchLabels": {"pool": "canary"}}},
            {"nodes": {"names": ["n0", "n99"]}},
            {"percent": 10},
            {"percent": 60},
            {"nodes": {"matchLabels": {"pool": "gpu"}}, "percent": 50},
            {"clusters": {"names": ["c0"]}},
        ]
        stages = [
            StageSpec.model_validate(
                {
                    "name": f"s{number}",
                    "soak": chance.choice(["0s", "1m", "1h"]),
                    "approval": chance.choice(["none", "none", "before", "after"]),
                    "maxInFlight": chance.choice([None, 1, 3, "20%"]),
                    **chance.choice(means),
                }
            )
            for number in range(chance.randint(0, 3))
        ]
        return [*stages, StageSpec(name=REST)]

    # one step of the function

    def step(self) -> bool:
        """What the function does once; whether anything changed."""
        before = self.rollout
        self._places()
        facts = self._looks(Facts(dict(self.facts), self.held))
        if self.chance.random() < 0.1:
            self.somebody_speaks()  # between a look and what is decided by it
        decision = decide(self.rollout, facts, self.now)
        self._judges(decision, facts)
        self._made += 1
        self.rollout = after(self.rollout, decision, facts, self.now, f"a{self._made}")
        if isinstance(decision, Open):
            self._opens(self.rollout.batches[-1])
        self._settles()
        self.judges_releases()
        return self.rollout != before

    def _places(self) -> None:
        for name, cluster in self.clusters.items():
            if name in self.rollout.placed or self.rollout.phase != "running" or not (cluster.answers or self.chance.random() < 0.2):
                continue
            cluster.moved(begun(cluster.state, cluster.k + 1, "r", NEW))
            candidates = [Candidate(node, None, Node(node, node, {"pool": pool})) for node, pool in cluster.nodes.items()]
            stages = [spec if spec.clusters is None or spec.clusters.means(name, {}) else None for spec in self.specs]
            cluster.standing = resolve(stages, candidates if cluster.answers else [])
            sizes = Counter(cluster.standing.stages.values())
            placed = {**self.rollout.placed, name: [sizes[stage] for stage in range(len(self.specs))]}
            meant = {**self.rollout.meant, name: list(cluster.standing.meant)}
            self.rollout = structs.replace(self.rollout, placed=placed, meant=meant)

    def _looks(self, facts: Facts) -> Facts:
        if not needs_a_look(self.rollout, facts, self.now):
            return replace(facts, looked=frozenset())
        batches = [batch for batch in self.rollout.newest_batches(watched(self.rollout)) if not batch.unsent]
        seen = {batch.cluster: self.clusters[batch.cluster].seen() for batch in batches if not facts.of(batch).behind}
        members = {batch.action: self.clusters[batch.cluster].members(batch) for batch in batches}
        self.rollout = structs.replace(self.rollout, health=looked(self.rollout, members, seen, self.now))
        return replace(facts, looked=frozenset(seen))

    def _opens(self, batch: Batch) -> None:
        cluster = self.clusters[batch.cluster]
        names = cluster.members(batch)
        assert len(names) == batch.count, "a batch of nodes that nobody knows"
        if self.rollout.nodes_ready and batch.before is None:
            lost = Fact(self.now, behind=True, message="did not say which nodes are Ready")
            looked_at = {"before": baseline(names, cluster.seen())} if cluster.answers else {"unsent": True, "fact": lost}
            self.rollout = structs.replace(self.rollout, batches=[*self.rollout.batches[:-1], structs.replace(batch, **looked_at)])

    def sends(self, batch: Batch) -> None:
        """A batch is planned, released and written; or its cluster does not answer."""
        cluster, some = self.clusters[batch.cluster], self.chance.randint(1, batch.count)
        names = cluster.members(batch)
        if not cluster.answers:
            self.facts[batch.action] = Fact(self.now, failed=batch.count, behind=True, reason="Unavailable", message="gone")
        elif self.chance.random() < 0.04:
            self.facts[batch.action] = Fact(self.now, reason="TooManyRemovals", message="too many")
        else:
            whole = batch.start + batch.count == self.rollout.placed[batch.cluster][batch.stage]
            to = (batch.stage, LAST if whole else place_of(names[-1]))
            cluster.moved(advanced(cluster.state, cluster.k + 1, "r", to, names))
            missing = len(names) - len(cluster.nodes.keys() & names)
            failed = min(some, len(names) - missing) if self.chance.random() < 0.1 else 0
            self.facts[batch.action] = Fact(self.now, failed=failed, missing=missing)
            cluster.down |= {name for name in names if self.chance.random() < 0.02}

    def _settles(self) -> None:
        if self.rollout.pending == "finish":
            for cluster in self.clusters.values():
                cluster.moved(finished(cluster.state, "r"))
        if self.rollout.pending == "revert":
            for name, cluster in self.clusters.items():
                batches = [batch for batch in self.rollout.batches if batch.cluster == name]
                reached = [node for batch in batches for node in cluster.members(batch)]
                cluster.moved(dropped(cluster.state, cluster.k + 1, "r", NEW, reached, "emptied", cluster.stage_of))
        self.rollout = structs.replace(self.rollout, pending="")

    # what must hold

    def _judges(self, decision: object, facts: Facts) -> None:
        if isinstance(decision, Wait | Stop):
            self.met[decision.reason] += 1
            assert decision.reason
            assert decision.message
        if isinstance(decision, Wait):
            assert decision.until is None or decision.until > self.now
            by_itself = decision.reason in ("BatchRunning", "PlacesUnresolved", "HealthUnknown", "NodesNotReady")
            assert decision.until or decision.who or by_itself or decision.reason == "Paused", f"{decision} ends never"
        if isinstance(decision, Open):
            assert self.rollout.phase == "running"
            assert facts.held is None, "a batch opens while changes are held"
            assert self.rollout.placed.keys() == self.clusters.keys(), "a batch opens before all nodes have their stages"
            assert decision.cluster not in {batch.cluster for batch in self.running()}, "two batches of a cluster at a time"
            assert self.rollout.health == HEALTHY, "a batch opens while nodes are not Ready, or nobody knows"
            self._earlier_stages_are_through(decision)

    def _earlier_stages_are_through(self, decision: Open) -> None:
        for stage in range(decision.stage):
            batches = self.rollout.newest_batches(stage)
            assert batches or not self.rollout.size(stage), "a stage was left out"
            assert all(self.facts.get(batch.action) or batch.fact for batch in batches), "a stage opens while the one before it is written"
            about = self.rollout.stages[stage]
            assert not about.after or not batches or self.rollout.approved(stage, "after"), "a stage opens without a word on the one before"
        assert not self.rollout.stages[decision.stage].before or self.rollout.approved(decision.stage, "before")

    def judges_releases(self) -> None:
        """A node has the new revision only where its stage was opened in its cluster; each has it once the rollout is done, none once it
        was taken back.
        """
        for name, cluster in self.clusters.items():
            opened = max((batch.stage for batch in self.rollout.batches if batch.cluster == name and not batch.unsent), default=-1)
            for node in [*cluster.nodes, *cluster.standing.stages]:
                revision = cluster.state.mark(node, cluster.stage_of).revision
                match self.rollout.phase:
                    case "done":
                        assert revision == NEW, f"{node} was left out"
                    case "reverted":
                        assert revision == OLD, f"{node} was not taken back"
                    case _:
                        early = revision == NEW and cluster.stage_of("r", node) > opened
                        assert not early, f"{node} of stage {cluster.stage_of('r', node)} was reached with stage {opened}"

    # what happens in between

    def something_happens(self) -> None:
        """Time passes, batches end, nodes and clusters come and go, people speak."""
        self.now += timedelta(seconds=self.chance.choice([1, 60, 600, 86_400, 40 * 86_400]))
        for batch in self.running():
            if self.chance.random() < 0.7:
                self.sends(batch)
        for cluster in self.clusters.values():
            self._nodes_change(cluster)
            cluster.answers = self.chance.random() < (0.9 if cluster.answers else 0.4)
        if self.chance.random() < 0.1:
            self.held = None if self.held else self.chance.choice(HOLDS)
        if self.chance.random() < 0.4:
            self.somebody_speaks()

    def running(self) -> list[Batch]:
        """Batches that nobody has written yet."""
        return [batch for batch in self.rollout.batches if not batch.fact and batch.action not in self.facts]

    def _nodes_change(self, cluster: Cluster) -> None:
        chance = self.chance
        if chance.random() < 0.3:
            self._came += 1
            cluster.nodes[f"later{self._came}"] = chance.choice(["canary", "gpu", "cpu"])
        for name in [*cluster.nodes]:
            if chance.random() < 0.03:
                del cluster.nodes[name]
            elif chance.random() < 0.1:
                cluster.nodes[name] = chance.choice(["canary", "gpu", "cpu"])
            if chance.random() < 0.3:
                cluster.down.discard(name)

    def somebody_speaks(self) -> None:
        """Any word, of which most come too early or too late."""
        words: list[Verb] = ["approve", "pause", "resume", "retry", "abort", "revert"]
        self.says(self.chance.choices(words, [50, 10, 20, 15, 1, 1])[0])

    def says(self, verb: Verb) -> None:
        """A person's word; an approval is for what is waited for."""
        said = Said(verb, "ada", self.now, message="because")
        decision = decide(self.rollout, Facts(dict(self.facts), self.held), self.now)
        try:
            if verb != "approve":
                self.rollout = given(self.rollout, said)
            elif isinstance(decision, Wait) and decision.approval:
                self.rollout = approved(self.rollout, said, *decision.approval)
        except WrongPhase:
            return
        self._settles()

    def calms_down(self) -> None:
        """Clusters answer, nodes are Ready, nothing is held; people resume, retry and approve, and end what can show nothing."""
        self.held = None
        for cluster in self.clusters.values():
            cluster.answers, cluster.down = True, set()
        self.now += timedelta(hours=2)
        for batch in self.running():
            self.sends(batch)
        waits = decide(self.rollout, Facts(dict(self.facts)), self.now)
        shows_nothing = isinstance(waits, Wait) and waits.reason in ("EmptyStage", "NobodyThere", "HealthUnknown")
        words: list[Verb] = ["abort"] if shows_nothing else ["resume", "retry", "approve"]
        for verb in words:
            self.says(verb)
