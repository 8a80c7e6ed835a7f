"""What one node should carry, and its outcome (docs/labels.md, docs/messages.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from shared.domain.keys import node_name

ConflictPolicy = Literal["force", "skip", "fail"]
OutcomeKind = Literal["changed", "unchanged", "missing", "skipped", "failed", "stopped"]


class Changes(BaseModel):
    """What a write does to one node: keys set (with their new values) and keys removed."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    set: dict[str, str] = {}
    remove: list[str] = []


class Outcome(BaseModel):
    """The outcome of one subject (a node, `controlPlane`, `worker/POOL`), with a reason a person can act on."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    subject: str
    outcome: OutcomeKind
    reason: str = ""
    message: str = ""
    retryable: bool = False
    changes: Changes | None = None


class NodeTask(BaseModel):
    """One node of a part: its whole declared set, and what to do where others hold a key.

    `uid` is empty for a node that planning did not find. `on_conflict` names only the keys that are not forced.
    `aliases` are secondary keys, applied under their own field manager. `keep` are the domains that `prune: all` spares.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    name: Annotated[str, AfterValidator(node_name)]
    uid: str = ""
    labels: dict[str, str] = {}
    prune: Literal["owned", "all"] = "owned"
    on_conflict: dict[str, ConflictPolicy] = {}
    aliases: dict[str, str] | None = None
    keep: list[str] = []
    aliases_only: bool = False
    """Whether the declared set is there already, so that only the aliases are applied."""
    changes: Changes | None = None
    note: str = ""
    """Whose values the write replaces, for the outcome's message."""
    settled: Outcome | None = None
    """Decided when it was planned again (its policies contradict each other, say), or done by an earlier message: told, not applied."""


def held(managers: Mapping[str, str]) -> str:
    """Who holds what, in words."""
    return "; ".join(f"{key} is owned by {manager} with another value" for key, manager in sorted(managers.items()))
