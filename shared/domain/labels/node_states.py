"""How nodes stand to what is released to them: their labels with who holds each, the release, and why one is out of sync. Pure."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from shared.domain.labels.planning import Settled, Write
from shared.domain.labels.releases import Mark
from shared.domain.labels.selection import names_listed
from shared.domain.nodes import Node
from shared.domain.outcomes import Before

KEYS_TOLD = 5
"""Keys that a message names; the labels themselves are beside it."""


class NodesRequest(BaseModel):
    """Which nodes to show: these, or all of the released documents and of the cluster, a page at a time."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    names: Annotated[list[str] | None, BeforeValidator(names_listed)] = Field(
        default=None, description="Names with commas. Default: every node."
    )
    cluster: str | None = Field(default=None, max_length=253, description="Default: the default cluster.")
    out_of_sync: bool = Field(default=False, description="Only nodes that are out of sync.")
    after: str = Field(default="", max_length=253, description="Only names after this one: the `next` of the page before.")
    limit: int | None = Field(default=None, ge=1, le=10_000, description="At most so many nodes.")


class NodeRelease(BaseModel):
    """What is released to a node. `revision` is null where nothing is; with `override`, the one that a person's labels stand in for."""

    revision: int | None
    override: str | None

    @classmethod
    def of(cls, mark: Mark) -> Self:
        """A mark, for people."""
        return cls(revision=mark.revision or None, override=mark.override or None)

    def __str__(self) -> str:
        if self.override:
            return "override"
        return f"revision {self.revision}" if self.revision else "none"


class NodeState(BaseModel):
    """One node. `reason` is a code, empty where there is nothing to say; `message` has the words for it."""

    labels: dict[str, str]
    holders: dict[str, list[str]]
    release: NodeRelease
    in_sync: bool
    reason: str
    message: str


class NodeStates(BaseModel):
    """Nodes of one cluster, in order of names."""

    cluster: str
    committed: int
    """The newest revision; 0 before the first."""
    nodes: dict[str, NodeState]
    next: str = ""
    """Where there are more: what `after` has to be for the next page."""


def node_state(live: Node | None, mark: Mark, decided: Settled | Write, newest: int) -> NodeState:
    """How a node stands, by what planning it by its release has decided. `newest`: the newest revision that may be released."""
    in_sync, reason, message = _judged(decided)
    if in_sync and not mark.released:
        in_sync, reason, message = False, "NotReleased", "no revision is released to it yet: its labels stay as they are"
    elif in_sync and mark.revision < newest:
        reason, message = "NewerRevisionWaits", f"revision {newest} is committed and not released to it"
    return NodeState(
        labels=dict(sorted(live.labels.items())) if live else {},
        holders={key: list(managers) for key, managers in sorted(live.owners.items())} if live else {},
        release=NodeRelease.of(mark),
        in_sync=in_sync,
        reason=reason,
        message=message,
    )


def _judged(decided: Settled | Write) -> tuple[bool, str, str]:
    match decided:
        case Settled(outcome=outcome):
            return outcome.outcome == "unchanged", outcome.reason, outcome.message
        case Write(changes=changes) if changes.set or changes.remove or changes.untaint:
            return False, "Drift", drift(decided)
        case Write(stays=(reason, words)):  # nobody will see what is to be written
            return not words, reason, words


def drift(write: Write) -> str:
    """What differs from the release, and who wrote it."""
    differing = [_differs(key, value, write.before.get(key)) for key, value in write.changes.set.items()]
    surplus = [_differs(key, None, write.before.get(key)) for key in write.changes.remove]
    taints = [f"the startup taint {taint} waits to be taken off" for taint in write.changes.untaint]
    told = [*differing, *surplus, *taints]
    return "; ".join(told[:KEYS_TOLD]) + (f"; and {len(told) - KEYS_TOLD} more" if len(told) > KEYS_TOLD else "")


def _differs(key: str, wanted: str | None, there: Before | None) -> str:
    should = "it should not be there" if wanted is None else f"it should be {wanted!r}"
    if there is None:
        return f"{key} is missing, {should}"
    by = f" by {', '.join(there.holders)}" if there.holders else ""
    return f"{key} is {there.value!r}{by}, {should}"
