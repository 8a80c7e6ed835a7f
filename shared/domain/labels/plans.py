"""What a relabel would change: how it is asked for, and the answer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from shared.domain.labels.bound import BoundPlan, NodeChange, differing, still_to_do
from shared.domain.labels.impact import Beyond, Impact
from shared.domain.labels.planning import Settled, Write
from shared.domain.labels.selection import Selection, names_listed
from shared.domain.nodes import Node
from shared.domain.outcomes import Before, KeyChange, OutcomeKind
from shared.domain.workloads.impact import WorkloadImpact


class PlanRequest(Selection):
    """Which nodes to plan: `target_nodes`, a `node_filter`, or `all` of the design and of the cluster; one of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [{"target_nodes": ["n1"]}, {"all": True}]})
    target_nodes: Annotated[list[str] | None, BeforeValidator(names_listed)] = Field(
        default=None, description="Names: a list, or one text with commas."
    )
    all: bool = False
    adopt: bool = Field(default=False, description="Plan as if labels that this store never declared were adopted.")
    cluster: str | None = Field(default=None, max_length=253, description="Default: the default cluster.")
    server_version: str | None = Field(default=None, max_length=64, description="Plan aliases for this version instead of the cluster's.")
    released: bool = Field(default=False, description="Plan each node by what is released to it: drift alone.")
    workloads: bool = Field(default=False, description="Say what the changes do to pods, too: it lists the pods of these nodes.")

    @model_validator(mode="after")
    def _says_which_nodes(self) -> Self:
        if self.released and self.server_version is not None:
            raise ValueError("what is released is planned for the cluster as it is: leave server_version out")
        if bool(self.target_nodes) + (self.node_filter is not None) + self.all != 1:
            raise ValueError("say which nodes: target_nodes, node_filter, or all (one of them)")
        return self


class NodePlan(NodeChange):
    """What would change on one node, and why: `reasons` has one for each key of `set` and `remove`.

    `takeovers`: keys of `set` that get another value than the one another manager gave them. `conflict`: which declared keys stay as
    another manager set them, in words.
    """

    takeovers: list[str]
    reasons: dict[str, str]
    conflict: str = Field(default="", exclude_if=lambda conflict: not conflict)
    untaint: list[str] = Field(default=[], exclude_if=lambda taints: not taints, description="Startup taints that go with it.")


class Blocked(BaseModel):
    """A node that stays as it is although the documents want something else."""

    outcome: OutcomeKind
    reason: str
    message: str


class KeyCount(BaseModel):
    """On how many nodes a key would be set, removed, and taken over from another manager."""

    set: int
    remove: int
    takeovers: int


class Waits(BaseModel):
    """A committed revision that is not released to the cluster as a whole. `released`: the one that is; null where none is."""

    revision: int
    released: int | None

    @classmethod
    def of(cls, committed: int, base: int) -> Self | None:
        """None where nothing waits. `base`: what is released to the cluster as a whole; 0 where nothing is."""
        return None if committed == base else cls(revision=committed, released=base or None)

    def __str__(self) -> str:
        return f"revision {self.revision} waits: {f'revision {self.released}' if self.released else 'nothing'} is released"


class LabelPlan(BaseModel):
    """The plan: only nodes that change are in `nodes`. `revision` is null for documents that are not committed.

    With `released` each node is planned by what is released to it, which is the revision for most; `unreleased` counts the nodes that
    nothing is released to.
    """

    revision: int | None
    waits: Waits | None = None
    released: bool = False
    unreleased: int = 0
    cluster: str
    server_version: str
    nodes: dict[str, NodePlan]
    unchanged: int
    missing: list[str]
    blocked: dict[str, Blocked]
    impact: Impact | None = None
    """Of a plan of more than named nodes: how many change, lose labels, have others' values replaced."""
    beyond: Beyond | None = None
    """Which limit keeps a relabel of these nodes from being sent out, and how to accept it; null where none does."""
    workloads: WorkloadImpact | None = None
    """What the changes do to pods; null where that was not asked for."""

    @property
    def failing(self) -> int:
        """How many nodes can't be brought in sync."""
        return sum(node.outcome == "failed" for node in self.blocked.values())

    def bound(self, names: Iterable[str] | None = None) -> BoundPlan:
        """What binds an action to this plan, or to some of its nodes."""
        chosen = self.nodes if names is None else names
        return BoundPlan.of({name: self.nodes[name].by_key for name in chosen}, revision=self.revision, cluster=self.cluster)

    def keys(self) -> dict[str, KeyCount]:
        """On how many nodes each key changes, in order of keys."""
        set_ = Counter(key for node in self.nodes.values() for key in node.set)
        remove = Counter(key for node in self.nodes.values() for key in node.remove)
        taken = Counter(key for node in self.nodes.values() for key in node.takeovers)
        return {key: KeyCount(set=set_[key], remove=remove[key], takeovers=taken[key]) for key in sorted({*set_, *remove})}

    def summary(self) -> dict[str, Any]:
        """The plan with counts in place of names."""
        counts = {"changing": len(self.nodes), "unchanged": self.unchanged, "missing": len(self.missing), "blocked": len(self.blocked)}
        fields = {"revision", "waits", "released", "unreleased", "cluster", "server_version", "impact", "beyond", "workloads"}
        head = self.model_dump(mode="json", include=fields)
        if self.workloads:
            head["workloads"] |= {"nodes": len(self.workloads.nodes)}
        return head | counts | {"keys": {key: count.model_dump() for key, count in self.keys().items()}}


def label_plan(decided: Iterable[tuple[str, Settled | Write]], *, revision: int | None, cluster: str, server_version: str) -> LabelPlan:
    """Put the decisions together."""
    plan = LabelPlan(revision=revision, cluster=cluster, server_version=server_version, nodes={}, unchanged=0, missing=[], blocked={})
    for name, decision in decided:
        match decision:
            case Write(changes=changes) if changes.set or changes.remove or changes.untaint:
                plan.nodes[name] = node_plan(decision)
            case Write(stays=(reason, words)) if words:
                plan.blocked[name] = Blocked(outcome="skipped", reason=reason, message=words)
            case Settled(outcome=outcome) if outcome.outcome == "missing":
                plan.missing.append(name)
            case Settled(outcome=outcome) if outcome.outcome in ("failed", "skipped"):
                plan.blocked[name] = Blocked(outcome=outcome.outcome, reason=outcome.reason, message=outcome.message)
            case _:
                plan.unchanged += 1
    return plan


@dataclass(frozen=True, slots=True)
class Due:
    """A node of a bound plan on which the planned change is due, or what is left of it: each key is as it was, or as it was to be."""

    write: Write


@dataclass(frozen=True, slots=True)
class Done:
    """A node that is as the plan says already, whoever brought it there, and that nothing else is due on: nothing is written to it."""


@dataclass(frozen=True, slots=True)
class Differs:
    """A node whose change would now be another."""

    how: str


def judge(planned: frozenset[KeyChange], decided: Settled | Write, live: Node | None) -> Due | Done | Differs:
    """What has become of the change that was planned for a node, by what is decided for it now."""
    left = still_to_do(planned, live)
    due = frozenset(node_plan(decided).by_key if isinstance(decided, Write) else ())
    if due != left:
        why = f": {decided.outcome.message}" if isinstance(decided, Settled) and decided.outcome.message else ""
        return Differs(differing(left, due) + why)
    return Due(decided) if due and isinstance(decided, Write) else Done()


def node_plan(write: Write) -> NodePlan:
    """What would change on one node, as a plan shows it."""
    return NodePlan(
        set=write.changes.set,
        remove=write.changes.remove,
        from_=dict(write.before),
        takeovers=sorted(write.contested),
        reasons=dict(write.reasons),
        conflict=write.conflict,
        untaint=write.changes.untaint,
    )


def dated(node: NodePlan, writes: Mapping[str, datetime]) -> NodePlan:
    """A node's plan with the time at which the holders of each label last changed the node. `writes`: by field manager."""

    def last(there: Before) -> Before:
        return there.model_copy(update={"at": max((writes[holder] for holder in there.holders if holder in writes), default=None)})

    return node.model_copy(update={"from_": {key: last(there) for key, there in node.from_.items()}})
