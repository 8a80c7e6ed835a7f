"""What became of one subject of an action (DESIGN §5.4)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

OutcomeKind = Literal["changed", "unchanged", "missing", "skipped", "failed", "stopped"]


class Changes(BaseModel):
    """What a write does to one node: keys set (with their new values) and keys removed."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    set: dict[str, str] = {}
    remove: list[str] = []


class Outcome(BaseModel):
    """What became of one subject (a node, `controlPlane`, `worker/POOL`), with a reason a person can act on."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    subject: str
    outcome: OutcomeKind
    reason: str = ""
    message: str = ""
    retryable: bool = False
    changes: Changes | None = None
