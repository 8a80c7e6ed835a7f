"""What the newest outcomes say of a fleet: which nodes are out of sync, and why, grouped by cause. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.labels.impact import Impact
from shared.domain.names import DRIFT_SWEEP, NAMED_NODES, WHOLE_SITE
from shared.domain.outcomes import STARTUP_TAINT, Outcome

Kind = Literal["failed", "missing", "skipped", "waiting"]
KINDS: tuple[Kind, ...] = ("failed", "missing", "skipped", "waiting")
"""The ways to be out of sync, in the order in which a person should look at them."""
OUT_OF_SYNC: Mapping[str, Kind] = {
    "failed": "failed",
    "missing": "missing",
    "skipped": "skipped",
    "waiting": "waiting",
    "stopped": "waiting",
}
"""Outcomes that leave a node out of sync."""
SHAPES = 5
"""Texts that differ in more than names and numbers, of one reason, before they are one cause."""


def kind_of(outcome: Outcome) -> Kind | None:
    """How an outcome leaves its node out of sync; None where it does not. A node that changed beside a conflict still misses labels, and
    one beside a startup taint that stays still gets no pods.
    """
    if outcome.outcome == "changed" and outcome.reason in ("Conflict", STARTUP_TAINT):
        return "skipped"
    return OUT_OF_SYNC.get(outcome.outcome)


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """A node whose newest outcome left it out of sync, and the action that says so."""

    cluster: str
    outcome: Outcome
    action: str
    revision: int
    kind: Kind

    @classmethod
    def of(cls, cluster: str, outcome: Outcome, action: str, revision: int) -> Self | None:
        """A node that an outcome leaves out of sync; None where it does not."""
        kind = kind_of(outcome)
        return cls(cluster, outcome, action, revision, kind) if kind else None


@dataclass(frozen=True, slots=True)
class Held:
    """An action that came to no node: it was blocked, or its cluster could not be read."""

    cluster: str
    kind: Kind
    reason: str
    message: str
    action: str
    revision: int
    impact: Impact | None

    @property
    def nodes(self) -> int:
        """How many nodes it would have changed; 0 where nobody knows."""
        return self.impact.changes if self.impact else 0


@dataclass(frozen=True, slots=True)
class FleetSync:
    """How the nodes of a fleet stand to what is released to them."""

    nodes: Sequence[OutOfSync]
    """Those that are out of sync, by cluster and name."""
    held: Sequence[Held]
    """By cluster."""
    looked_at: Mapping[str, int]
    """By cluster, on how many nodes there is an outcome."""

    def count(self, kind: Kind | None = None, cluster: str | None = None) -> int:
        """How many nodes are out of sync, in this way and in this cluster."""
        found: Iterable[OutOfSync | Held] = (*self.nodes, *self.held)
        chosen = (each for each in found if kind in (None, each.kind) and cluster in (None, each.cluster))
        return sum(each.nodes if isinstance(each, Held) else 1 for each in chosen)

    @property
    def in_sync(self) -> int:
        """How many nodes are in sync, of those that somebody looked at."""
        return sum(max(0, nodes - self.count(cluster=cluster)) for cluster, nodes in self.looked_at.items())


def sync_of(ended: Iterable[tuple[ActionRequest, ActionOutcome]]) -> FleetSync:
    """What ended actions say of the nodes. `ended`: newest first; dry runs don't count.

    An action on the whole site covers every node, so older actions on its cluster no longer matter.
    """
    found = _Found()
    for request, outcome in ended:
        if not request.dry_run and request.name in (*NAMED_NODES, *WHOLE_SITE):
            found.add(request, outcome)
    return found.together()


def out_of_sync(ended: Iterable[tuple[ActionRequest, ActionOutcome]]) -> Sequence[OutOfSync]:
    """List the nodes known to be out of sync, by cluster and name: see `sync_of`."""
    return sync_of(ended).nodes


@dataclass
class _Found:
    """What was found while going back in time."""

    newest: dict[tuple[str, str], OutOfSync | None] = field(default_factory=dict)
    covered: dict[str, int] = field(default_factory=dict)
    """Nodes of the clusters whose whole site was looked at."""
    held: dict[str, Held] = field(default_factory=dict)
    went: set[tuple[str, str]] = field(default_factory=set)
    """Clusters and names of actions that came to nodes, sweeps left out: what was blocked before is answered."""

    def add(self, request: ActionRequest, outcome: ActionOutcome) -> None:
        self._add_held(request, outcome)
        if request.cluster not in self.covered:
            self._add_nodes(request, outcome)

    def _add_nodes(self, request: ActionRequest, outcome: ActionOutcome) -> None:
        for name in outcome.unchanged:
            self.newest.setdefault((request.cluster, name), None)
        for result in outcome.outcomes:
            bad = OutOfSync.of(request.cluster, result, request.id, outcome.revision)
            self.newest.setdefault((request.cluster, result.subject), bad)
        if request.name in WHOLE_SITE and outcome.counts:
            self.covered[request.cluster] = sum(outcome.counts.values())

    def _add_held(self, request: ActionRequest, outcome: ActionOutcome) -> None:
        cluster = request.cluster
        if outcome.counts:
            if request.name != DRIFT_SWEEP:
                self.went.add((cluster, request.name))
            return
        blocked = outcome.result == "blocked" and outcome.impact is not None and not request.rollout
        unread = outcome.result == "failure" and bool(outcome.reason) and cluster not in self.covered
        answered = any((cluster, name) in self.went for name in {request.name, *WHOLE_SITE})
        if (blocked or unread) and not answered and cluster not in self.held:
            kind: Kind = "waiting" if blocked else "failed"
            self.held[cluster] = Held(cluster, kind, outcome.reason, outcome.message, request.id, outcome.revision, outcome.impact)

    def together(self) -> FleetSync:
        named = Counter(cluster for cluster, _ in self.newest)
        clusters = {*named, *self.covered}
        return FleetSync(
            nodes=[node for _, node in sorted(self.newest.items()) if node is not None],
            held=[held for _, held in sorted(self.held.items())],
            looked_at={cluster: self.covered.get(cluster, named[cluster]) for cluster in sorted(clusters)},
        )


# --- causes ---------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cause:
    """Nodes that are out of sync for one reason, in texts that differ in names and numbers at most."""

    kind: Kind
    reason: str
    message: str
    """Of the first node."""
    nodes: Sequence[OutOfSync]
    """By cluster and name."""
    shape: str = ""
    """What the texts have in common; empty where nearly every node has one of its own."""

    @property
    def clusters(self) -> int:
        """In how many clusters."""
        return len({node.cluster for node in self.nodes})

    @property
    def key(self) -> str:
        """Its name in addresses: the same as long as the cause is."""
        return hashlib.sha256(f"{self.kind}/{self.reason}/{self.shape}".encode()).hexdigest()[:12]


def causes(nodes: Iterable[OutOfSync]) -> list[Cause]:
    """Group nodes by cause: failed before missing before skipped before waiting, then the most nodes first."""
    by_reason: dict[tuple[Kind, str], dict[str, list[OutOfSync]]] = {}
    for node in nodes:
        outcome = node.outcome
        by_reason.setdefault((node.kind, outcome.reason or outcome.outcome), {}).setdefault(_shape(outcome), []).append(node)
    found = [Cause(*which, group[0].outcome.message, group, shape) for which, shapes in by_reason.items() for shape, group in _few(shapes)]
    return sorted(found, key=lambda cause: (KINDS.index(cause.kind), -len(cause.nodes), cause.reason, cause.message))


def _few(shapes: Mapping[str, list[OutOfSync]]) -> list[tuple[str, list[OutOfSync]]]:
    """The groups of one reason; a single one where nearly every node has a text of its own."""
    if len(shapes) <= SHAPES:
        return list(shapes.items())
    return [("", sorted((node for group in shapes.values() for node in group), key=lambda node: (node.cluster, node.outcome.subject)))]


def _shape(outcome: Outcome) -> str:
    """A message without what differs from node to node: its name, numbers, uids."""
    return _VARIES.sub("#", outcome.message.replace(outcome.subject, "#"))


_VARIES = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")


# --- what is kept of outcomes -----------------------------------------------------------------------------------------------------------


def in_short(request: ActionRequest, outcome: ActionOutcome) -> ActionOutcome:
    """Reduce an outcome to what `sync_of` reads: of 100,000 nodes in sync at most the names are kept."""
    bad = [result for result in outcome.outcomes if kind_of(result)]
    well = [] if request.name in WHOLE_SITE else [*outcome.unchanged, *(o.subject for o in outcome.outcomes if not kind_of(o))]
    return outcome.model_copy(update={"outcomes": bad, "unchanged": well})


def counted(ended: Iterable[tuple[ActionRequest, ActionOutcome]]) -> dict[tuple[str, str], int]:
    """How many actions of each name ended with each result."""
    return dict(sorted(Counter((request.name, outcome.result) for request, outcome in ended).items()))
