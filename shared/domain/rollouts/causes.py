"""Why nodes of a stage failed, in groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from shared.domain.outcomes import Outcome

EXAMPLES = 3
"""Nodes that are named for a cause."""


class Cause(BaseModel):
    """Why nodes of a stage failed or are missing. `message`: of the first; `examples`: the first few of them."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    reason: str
    message: str = ""
    nodes: int
    examples: list[str] = []


def causes(outcomes: Iterable[Outcome]) -> list[Cause]:
    """Group the nodes that failed or are missing by their reason, most nodes first."""
    messages: dict[str, str] = {}
    nodes: dict[str, list[str]] = {}
    for node in (node for node in outcomes if node.outcome in ("failed", "missing")):
        reason = node.reason or node.outcome
        messages.setdefault(reason, node.message)
        nodes.setdefault(reason, []).append(node.subject)
    found = [Cause(reason=reason, message=messages[reason], nodes=len(names), examples=names[:EXAMPLES]) for reason, names in nodes.items()]
    return sorted(found, key=lambda cause: (-cause.nodes, cause.reason))
