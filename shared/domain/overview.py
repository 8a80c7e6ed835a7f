"""What the newest outcomes say of a fleet: which nodes are not true, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.names import NAMED_NODES, WHOLE_SITE
from shared.domain.outcomes import Outcome

NOT_TRUE = frozenset({"failed", "missing", "skipped", "stopped"})
"""Outcomes after which a node is not as its documents want it."""


@dataclass(frozen=True, slots=True)
class NotTrue:
    """A node whose newest outcome is not a good one, and the action that it comes from."""

    cluster: str
    outcome: Outcome
    action: str
    revision: int


def not_true(ended: Iterable[tuple[ActionRequest, ActionOutcome]]) -> list[NotTrue]:
    """Nodes that are not true by what is known, by cluster and name. `ended`: actions, newest first; dry runs change nothing.

    An action on the whole site speaks of every node there is: what older ones said of its cluster no longer counts.
    """
    newest: dict[tuple[str, str], NotTrue | None] = {}
    closed: set[str] = set()
    for request, outcome in ended:
        if request.dry_run or request.cluster in closed or request.name not in (*NAMED_NODES, *WHOLE_SITE):
            continue
        for name in outcome.unchanged:
            newest.setdefault((request.cluster, name), None)
        for each in outcome.outcomes:
            bad = NotTrue(request.cluster, each, request.id, outcome.revision) if each.outcome in NOT_TRUE else None
            newest.setdefault((request.cluster, each.subject), bad)
        if request.name in WHOLE_SITE and outcome.counts:
            closed.add(request.cluster)
    return [found for _, found in sorted(newest.items()) if found is not None]


def in_short(request: ActionRequest, outcome: ActionOutcome) -> ActionOutcome:
    """The outcome with what `not_true` needs of it and no more: a hundred thousand nodes that are well are names, or nothing at all."""
    bad = [each for each in outcome.outcomes if each.outcome in NOT_TRUE]
    well = [] if request.name in WHOLE_SITE else [*outcome.unchanged, *(o.subject for o in outcome.outcomes if o.outcome not in NOT_TRUE)]
    return outcome.model_copy(update={"outcomes": bad, "unchanged": well})


def counted(ended: Iterable[tuple[ActionRequest, ActionOutcome]]) -> dict[tuple[str, str], int]:
    """How many actions of each name ended with each result."""
    return dict(sorted(Counter((request.name, outcome.result) for request, outcome in ended).items()))
