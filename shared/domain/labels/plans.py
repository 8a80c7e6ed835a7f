"""What a relabel would change: how it is asked for, and the answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from shared.domain.labels.planning import Settled, Write
from shared.domain.labels.selection import Selection, names_listed
from shared.domain.outcomes import OutcomeKind


class PlanRequest(Selection):
    """Which nodes to plan: `target_nodes`, a `node_filter`, or `all` of the design and of the cluster; one of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [{"target_nodes": ["n1"]}, {"all": True}]})
    target_nodes: Annotated[list[str] | None, BeforeValidator(names_listed)] = Field(
        default=None, description="Names: a list, or one text with commas."
    )
    all: bool = False
    cluster: str | None = Field(default=None, max_length=253, description="Default: the default cluster.")
    server_version: str | None = Field(default=None, max_length=64, description="Plan aliases for this version instead of the cluster's.")

    @model_validator(mode="after")
    def _says_which_nodes(self) -> Self:
        if bool(self.target_nodes) + (self.node_filter is not None) + self.all != 1:
            raise ValueError("say which nodes: target_nodes, node_filter, or all (one of them)")
        return self


class NodePlan(BaseModel):
    """What would change on one node. `reasons` has one for each key of `set` and `remove`."""

    set: dict[str, str]
    remove: list[str]
    reasons: dict[str, str]


class Blocked(BaseModel):
    """A node that stays as it is although the documents want something else."""

    outcome: OutcomeKind
    reason: str
    message: str


class LabelPlan(BaseModel):
    """The plan: only nodes that change are in `nodes`. `revision` is null for documents that are not committed."""

    revision: int | None
    cluster: str
    server_version: str
    nodes: dict[str, NodePlan]
    unchanged: int
    missing: list[str]
    blocked: dict[str, Blocked]

    @property
    def failing(self) -> bool:
        """Whether a node can't be brought in sync."""
        return any(node.outcome == "failed" for node in self.blocked.values())


def label_plan(decided: Iterable[tuple[str, Settled | Write]], *, revision: int | None, cluster: str, server_version: str) -> LabelPlan:
    """Put the decisions together."""
    plan = LabelPlan(revision=revision, cluster=cluster, server_version=server_version, nodes={}, unchanged=0, missing=[], blocked={})
    for name, decision in decided:
        match decision:
            case Write(changes=changes, reasons=reasons) if changes.set or changes.remove:
                plan.nodes[name] = NodePlan(set=changes.set, remove=changes.remove, reasons=dict(reasons))
            case Settled(outcome=outcome) if outcome.outcome == "missing":
                plan.missing.append(name)
            case Settled(outcome=outcome) if outcome.outcome in ("failed", "skipped"):
                plan.blocked[name] = Blocked(outcome=outcome.outcome, reason=outcome.reason, message=outcome.message)
            case _:
                plan.unchanged += 1
    return plan
