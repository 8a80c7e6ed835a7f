"""One action as recorded: what was requested, how far it is, how it ended."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from pydantic import BaseModel

from functions.api.answers import ApiError, Said
from shared.domain.actions import UNREADABLE, ActionOutcome, ActionRequest, Lifecycle, Plan, conclude, lifecycle
from shared.domain.labels.impact import Accepting, Impact
from shared.domain.names import RELABEL_NODES, UPDATE_VERSIONS
from shared.domain.outcomes import Outcome
from shared.domain.overview import OutOfSync, in_short, kind_of
from shared.ports import ObjectStore
from shared.world import World

ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
"""An action's id: a ULID."""
MIDDLE_STEP = {UPDATE_VERSIONS: "version_apply"}
"""The name of the step between `plan` and `rollup`; `relabel_nodes` for all other actions."""


class Progress(BaseModel):
    """How many nodes, or clusters where there are several, have an outcome, of how many; both 0 before the plan is made."""

    done: int
    total: int


@dataclass(frozen=True)
class Standing:
    """One action as read from the store: the request, the plan while it runs, the outcome once it has ended."""

    request: ActionRequest
    plan: Plan | None
    outcome: ActionOutcome | None
    lifecycle: Lifecycle
    done: int = 0

    @property
    def progress(self) -> Progress:
        """How far it is."""
        if self.outcome:
            total = sum(self.outcome.counts.values())
            return Progress(done=total, total=total)
        if self.plan is None:
            return Progress(done=0, total=0)
        settled = len(self.plan.unchanged) + len(self.plan.settled)
        return Progress(done=settled + self.done, total=settled + sum(map(len, self.plan.parts)))

    @property
    def impact(self) -> Impact | None:
        """What it does to the nodes, as far as that is known."""
        told = self.outcome or self.plan
        return told.impact if told else None

    @property
    def moving(self) -> bool:
        """Whether it is making progress: neither paused nor ended."""
        return self.lifecycle in ("Pending", "Processing")

    @property
    def middle(self) -> str:
        """The name of the step that does the work."""
        return MIDDLE_STEP.get(self.request.name, RELABEL_NODES)


def standing(action: str, world: World) -> Standing:
    """Read one action. Raises ApiError 404."""
    state = gather(action, world)
    if state is None:
        cause = f"no action {action}"
        raise ApiError(404, "Action not found", cause, [Said(message=cause, reason="UnknownAction")])
    return state


_KEPT: OrderedDict[tuple[ObjectStore, str], Standing] = OrderedDict()
_lock = Lock()
READERS = 16
"""Parallel reads when several actions are needed."""
KEPT = 200_000
"""Node names that cached actions may hold in total, an outcome with its reason counting as ten: about 40 MB."""


def remembered(action: str, world: World) -> Standing | None:
    """Read one action with a shortened outcome (see overview.in_short). An ended action never changes, so it is read once."""
    key = (world.store, action)
    with _lock:
        if key in _KEPT:
            return _KEPT[key]
    state = gather(action, world)
    if state is None or state.outcome is None or state.outcome.reason == UNREADABLE:  # an unreadable record may be restored
        return state
    state = replace(state, outcome=in_short(state.request, state.outcome))
    with _lock:
        _KEPT[key] = state
        while sum(map(_weight, _KEPT.values())) > KEPT:
            _KEPT.popitem(last=False)
    return state


def recalled(actions: Sequence[str], world: World) -> list[Standing]:
    """Read several actions in parallel, in their order: a bucket takes 30 ms an object."""
    with ThreadPoolExecutor(READERS) as readers:
        return [state for state in readers.map(lambda action: remembered(action, world), actions) if state]


def _weight(standing: Standing) -> int:
    return 10 + 10 * len(standing.outcome.outcomes) + len(standing.outcome.unchanged) if standing.outcome else 0


def gather(action: str, world: World) -> Standing | None:
    """Read one action: two reads when it has ended, three and two listings while it runs. None if it does not exist."""
    ledger = world.actions
    asked = ledger.shown(action) if ID.fullmatch(action) else None
    if asked is None:
        return None
    outcome = ledger.ended(action)
    if outcome:
        return Standing(asked, None, outcome, lifecycle(None, outcome, paused=False))
    plan = ledger.plan(action)
    recorded = ledger.recorded(action) if plan else set()
    done = sum(len(names) for number, names in enumerate(plan.parts, 1) if number in recorded) if plan else 0
    return Standing(asked, plan, None, lifecycle(plan, None, paused=ledger.paused(action)), done)


def outcome_so_far(standing: Standing, world: World) -> ActionOutcome | None:
    """Return how it ended, or what is known while it runs; None before the plan is made."""
    if standing.outcome or standing.plan is None:
        return standing.outcome
    told = world.actions.part_outcomes(standing.request.id, standing.plan)
    known = standing.plan.model_copy(
        update={"parts": [[outcome.subject for outcome in told.get(n, ())] for n in range(1, len(standing.plan.parts) + 1)]}
    )
    return conclude(known, told, standing.plan.planned_at)


def parameters_of(asked: ActionRequest) -> dict[str, Any]:
    """Return the parameters as they were sent."""
    return asked.parameters or asked.model_dump(
        include={"target_nodes", "node_filter", "clusters", "dry_run", *Accepting.model_fields}, exclude_defaults=True
    )


def needing_attention(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the nodes that are still out of sync: failed, missing, skipped (a conflict beside changes too), waiting, stopped."""
    return [outcome for outcome in outcomes if kind_of(outcome)]


def known_to_be_bad(request: ActionRequest, known: ActionOutcome | None) -> list[OutOfSync]:
    """Return the same, each with its cluster, by what is known of an action."""
    outcomes = known.outcomes if known else []
    found = (OutOfSync.of(request.cluster, outcome, request.id, known.revision if known else 0) for outcome in outcomes)
    return [node for node in found if node]


def in_one_line(outcome: Outcome) -> str:
    """Put a node's outcome in one line: what changed, or why it did not."""
    changes = outcome.changes
    words = changes.in_words() if changes else ()
    cause = ": ".join(filter(None, (outcome.reason, outcome.message)))
    return " ".join(filter(None, (outcome.outcome, " ".join(words), f"({cause})" if words and cause else cause)))
