"""A rollout as it is kept: what was asked for, and how far it is. Each change makes the whole state anew. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

Phase = Literal["running", "paused", "stopped", "aborted", "superseded", "reverted", "done"]
Pending = Literal["", "finish", "revert", "back"]
ENDED: frozenset[Phase] = frozenset({"aborted", "superseded", "reverted", "done"})
When = Literal["before", "after"]
Verb = Literal["start", "place", "open", "approve", "pause", "resume", "stop", "retry", "abort", "supersede", "revert", "end", "settle"]
WAITS_FOR_A_PERSON = timedelta(days=30)
"""After so long without a person's word a rollout stops; of one for versions, the question lapses."""


class Stage(msgspec.Struct, frozen=True):
    """One stage, as its document has it."""

    name: str
    soak: int = 0
    """Seconds."""
    before: bool = False
    after: bool = False
    """When it needs an approval."""
    in_flight: int | str | None = None
    """How many nodes at a time; a share is of the stage's."""


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a batch's action. `ended` is None while it has not; `behind`: its cluster did not answer."""

    ended: datetime | None = None
    failed: int = 0
    missing: int = 0
    behind: bool = False
    reason: str = ""
    """Why nothing more may open after it, where it was not about single nodes."""
    message: str = ""
    removals: int = 0
    takeovers: int = 0
    changes: int = 0


RUNNING = Fact()


class Baseline(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was known of a batch's nodes before it was sent. Those in neither list were Ready."""

    others: Collection[str] = ()
    """Not Ready, or not there."""
    unknown: Collection[str] = ()
    """They reported no such condition."""
    unanswered: bool = False
    """Whether the cluster did not answer."""
    daemon_sets: dict[str, str] = {}
    """By DaemonSet, `NAMESPACE/NAME`, on which of the nodes a pod of it was available: a hexadecimal number, its lowest bit the first node;
    `*` for all of them.
    """
    unschedulable: dict[str, int] | None = None
    """By namespace, how many pods of the whole cluster the scheduler had no node for."""


class Doubts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was in order and is not. Each begins with its cluster: `CLUSTER/NODE`, `CLUSTER/NODE DAEMONSET`, `CLUSTER/NAMESPACE`."""

    suspects: dict[str, datetime] = {}
    """When that was seen first."""
    turned: list[str] = []
    """Those of which a second look said the same."""


NO_DOUBT = Doubts()


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the last look at the open stage found, where that was not in order."""

    nodes: Doubts = NO_DOUBT
    """Nodes that turned NotReady."""
    daemon_sets: Doubts = NO_DOUBT
    """Nodes on which a DaemonSet has no available pod any more."""
    pods: Doubts = NO_DOUBT
    """Namespaces in which more pods can't be scheduled than before."""
    unknown: str = ""
    """Why nobody can say how it is; in words."""
    since: datetime | None = None
    """Since when that is not known."""


HEALTHY = Health()


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nodes of one stage in one cluster that get the change together, by one action. `start` counts from the stage's first place."""

    stage: int
    cluster: str
    start: int
    count: int
    action: str
    at: datetime
    back: bool = False
    """Whether it brings the nodes back."""
    fact: Fact | None = None
    """What became of it, once something was written after it had ended."""
    before: Baseline | None = None
    """How its nodes were before the first try was sent, where the rollout looks at that."""
    unsent: bool = False
    """Whether its cluster did not say how its nodes were: nothing was sent, and no action begun."""

    @property
    def where(self) -> tuple[int, str, int]:
        """What a second try has in common with the first."""
        return self.stage, self.cluster, self.start


class Approval(msgspec.Struct, frozen=True):
    """A person's word for one stage."""

    stage: int
    when: When
    by: str
    at: datetime


class Asked(msgspec.Struct, frozen=True):
    """What an approval that is waited for would let happen, as it was counted. `digest`: what the approval has to name."""

    stage: int
    when: When
    digest: str
    at: datetime


class Weighed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the labels of a stage do to pods, as it was counted before the stage opened."""

    stage: int
    at: datetime
    starts: int = 0
    ends: int = 0
    """Pods of DaemonSets that start and end."""
    stranded: int = 0
    fits: int = 0
    words: str = ""
    """What ends most, for people."""
    unseen: str = ""
    """What could not be looked at; the counts are of the rest then."""
    refused: bool = False
    """Whether asking again shows no more of it, before somebody changes that."""
    accepted: int = 0
    """How many pods may end by a person's word."""


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """That a version, of a profile and line, may enter a stage or was good there: asked for, or said by a person."""

    stage: str
    when: When
    profile: str
    line: str
    version: str
    at: datetime
    by: str = ""

    @property
    def about(self) -> tuple[str, When, str, str, str]:
        """What it is about, whoever says it and when."""
        return self.stage, self.when, self.profile, self.line, self.version


class Opening(msgspec.Struct, frozen=True):
    """A cluster that was let go: when, and to which version on which line."""

    at: datetime
    moves: dict[str, str]


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What brought about this object of the chain."""

    verb: Verb
    by: str
    at: datetime
    reason: str = ""
    """A CamelCase code, of a stop."""
    message: str = ""
    """In words: why."""


class Progress(msgspec.Struct, frozen=True):
    """The whole state of a rollout."""

    id: str
    name: str
    """Of its document."""
    revision: int
    said: Said
    started: Said
    stages: list[Stage]
    failed: int | str = 0
    """How many nodes of a stage may fail."""
    revert_on_stop: bool = False
    clusters: dict[str, int] = {}
    """Where it goes, and the number of the newest release there when it was started."""
    placed: dict[str, list[int]] = {}
    """By cluster, how many nodes each stage has; the cluster's places are resolved."""
    meant: dict[str, list[int]] = {}
    """By cluster, how many nodes each stage's criteria mean, in whichever stage they are."""
    batches: list[Batch] = []
    """In the order in which they were opened."""
    approvals: list[Approval] = []
    asked: Asked | None = None
    """The impact that the last approval it waited for is bound to."""
    phase: Phase = "running"
    pending: Pending = ""
    """What has to be done in every cluster because of the phase."""
    retried: int = 0
    """Of so many batches, those that failed are tried again."""
    retried_at: datetime | None = None
    on_commit: bool = False
    """Whether a commit started it: it takes the place of an older one by itself, once it can begin."""
    replaces: list[str] = []
    """The unfinished rollouts whose place it took."""
    accepted: dict[str, int] = {}
    """On how many nodes of a cluster somebody accepts what goes beyond the limits, by the names that requests have for it."""
    nodes_ready: bool = False
    """Whether nodes have to stay Ready. Rollouts from before this was looked at have no baseline, and go on without."""
    daemon_sets: bool = False
    """Whether the pods of DaemonSets on its nodes have to stay available."""
    unschedulable_pods: bool = False
    """Whether no more pods may become unschedulable."""
    health: Health = HEALTHY
    impact: int | None = None
    """How many pods of DaemonSets the labels of a stage may end; None where nobody counts them."""
    weighed: list[Weighed] = []
    """What the labels of the stages do to pods, of those that were counted."""
    change: Literal["labels", "versions"] = "labels"
    """One of versions has no batches and never ends by itself: its stages are those of the document in force."""
    questions: list[Word] = []
    """What people are asked about versions."""
    words: list[Word] = []
    """What they have said about versions."""
    openings: dict[str, Opening] = {}
    """Clusters that were let go and are not known to be through with it."""

    @property
    def looks(self) -> bool:
        """Whether anything has to stay as well as it was."""
        return self.nodes_ready or self.daemon_sets or self.unschedulable_pods

    def blind(self) -> Progress:
        """The same rollout, if nothing had to."""
        return msgspec.structs.replace(self, nodes_ready=False, daemon_sets=False, unschedulable_pods=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.phase in ENDED and not self.pending

    @property
    def unfinished(self) -> bool:
        """Whether more may open, or somebody has to decide whether it does."""
        return self.phase not in ENDED

    def size(self, stage: int) -> int:
        """How many nodes a stage has in all clusters."""
        return sum(counts[stage] for counts in self.placed.values())

    def approved(self, stage: int, when: str) -> bool:
        """Whether somebody has approved it."""
        return any((each.stage, each.when) == (stage, when) for each in self.approvals)

    def asked_for(self, stage: int, when: str) -> Asked | None:
        """The impact that is shown for this approval, where it was counted already."""
        return self.asked if self.asked and (self.asked.stage, self.asked.when) == (stage, when) else None

    def weighed_for(self, stage: int) -> Weighed | None:
        """What the labels of a stage do to pods, where that was counted."""
        return next((each for each in self.weighed if each.stage == stage), None)

    def newest_batches(self, stage: int) -> list[Batch]:
        """A stage's batches, of each place the last try."""
        return list({batch.where: batch for batch in self.batches if batch.stage == stage and not batch.back}.values())


class WrongPhase(Exception):
    """The rollout can't do that now; the message says where it stands."""


class Move(NamedTuple):
    """What a word does: to which phase, from which ones, and what has to be done then."""

    to: Phase
    of: tuple[Phase, ...]
    pending: Pending = ""


_UNFINISHED: tuple[Phase, ...] = ("running", "paused", "stopped")
MOVES: Mapping[Verb, Move] = {
    "pause": Move("paused", ("running",)),
    "resume": Move("running", ("paused",)),
    "retry": Move("running", ("stopped", "running")),
    "abort": Move("aborted", _UNFINISHED),
    "supersede": Move("superseded", _UNFINISHED),
    "revert": Move("reverted", (*_UNFINISHED, "aborted", "done"), "revert"),
    "stop": Move("stopped", ("running",)),
    "end": Move("done", ("running",), "finish"),
}
IDLE: Mapping[Verb, Phase] = {"pause": "paused", "revert": "reverted"}
"""What may be said again."""


def given(rollout: Progress, said: Said) -> Progress:
    """What a word makes of it; the same rollout where it says nothing new. Raises WrongPhase."""
    if rollout.phase == IDLE.get(said.verb):
        return rollout
    move = MOVES[said.verb]
    if rollout.phase not in move.of:
        raise WrongPhase(f"rollout {rollout.id} is {rollout.phase}; {said.verb} takes one that is {' or '.join(move.of)}")
    if said.verb == "stop" and rollout.revert_on_stop:
        move = MOVES["revert"]
    moved = msgspec.structs.replace(rollout, said=said, phase=move.to, pending=move.pending)
    if said.verb in ("resume", "retry"):
        moved = msgspec.structs.replace(moved, health=HEALTHY)  # nobody looked in between: what was seen counts for nothing
    if said.verb != "retry":
        return moved
    seen = [each for each in rollout.weighed if not each.unseen]
    weighed = [msgspec.structs.replace(each, accepted=max(each.accepted, each.ends)) for each in seen]
    return msgspec.structs.replace(moved, retried=len(rollout.batches), retried_at=said.at, weighed=weighed)


def approved(rollout: Progress, said: Said, stage: int, when: When) -> Progress:
    """The rollout with a person's word for a stage."""
    return msgspec.structs.replace(rollout, said=said, approvals=[*rollout.approvals, Approval(stage, when, said.by, said.at)])
