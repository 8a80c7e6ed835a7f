"""What the newest outcomes say of a fleet: which nodes are out of sync, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.names import NAMED_NODES, WHOLE_SITE
from shared.domain.outcomes import Outcome

OUT_OF_SYNC = frozenset({"failed", "missing", "skipped", "stopped"})
"""Outcomes that leave a node out of sync."""


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """A node whose newest outcome left it out of sync, and the action that says so."""

    cluster: str
    outcome: Outcome
    action: str
    revision: int


def out_of_sync(ended: Iterable[tuple[ActionRequest, ActionOutcome]]) -> list[OutOfSync]:
    """List the nodes known to be out of sync, by cluster and name. `ended`: actions, newest first; dry runs don't count.

    An action on the whole site covers every node, so older actions on its cluster no longer matter.
    """
    newest: dict[tuple[str, str], OutOfSync | None] = {}
    closed: set[str] = set()
    for request, outcome in ended:
        if request.dry_run or request.cluster in closed or request.name not in (*NAMED_NODES, *WHOLE_SITE):
            continue
        for name in outcome.unchanged:
            newest.setdefault((request.cluster, name), None)
        for result in outcome.outcomes:
            bad = OutOfSync(request.cluster, result, request.id, outcome.revision) if result.outcome in OUT_OF_SYNC else None
            newest.setdefault((request.cluster, result.subject), bad)
        if request.name in WHOLE_SITE and outcome.counts:
            closed.add(request.cluster)
    return [node for _, node in sorted(newest.items()) if node is not None]


def in_short(request: ActionRequest, outcome: ActionOutcome) -> ActionOutcome:
    """Reduce an outcome to what `out_of_sync` reads: of 100,000 nodes in sync at most the names are kept."""
    bad = [result for result in outcome.outcomes if result.outcome in OUT_OF_SYNC]
    well = (
        [] if request.name in WHOLE_SITE else [*outcome.unchanged, *(o.subject for o in outcome.outcomes if o.outcome not in OUT_OF_SYNC)]
    )
    return outcome.model_copy(update={"outcomes": bad, "unchanged": well})


def counted(ended: Iterable[tuple[ActionRequest, ActionOutcome]]) -> dict[tuple[str, str], int]:
    """How many actions of each name ended with each result."""
    return dict(sorted(Counter((request.name, outcome.result) for request, outcome in ended).items()))
