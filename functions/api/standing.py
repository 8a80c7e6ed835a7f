"""One action as the ledger has it: what was asked, how far it is, how it ended."""

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
from shared.domain.actions import UNREADABLE, UNSUCCESSFUL, ActionOutcome, ActionRequest, Lifecycle, Plan, conclude, lifecycle
from shared.domain.names import RELABEL_NODES, UPDATE_VERSIONS
from shared.domain.outcomes import Outcome
from shared.domain.overview import in_short
from shared.ports import ObjectStore
from shared.world import World

ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
"""An action's id: a ULID."""
MIDDLE_STEP = {UPDATE_VERSIONS: "version_apply"}
"""What the step between `plan` and `rollup` is called; `relabel_nodes` where nothing else is said."""


class Progress(BaseModel):
    """Nodes that have an outcome, of all that are meant; both 0 before the plan is made."""

    done: int
    total: int


@dataclass(frozen=True)
class Standing:
    """One action, gathered: what was asked, the plan where it has not ended yet, how it ended."""

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
    def moving(self) -> bool:
        """Whether it goes on by itself."""
        return self.lifecycle in ("Pending", "Processing")

    @property
    def middle(self) -> str:
        """The name of the step that does the work."""
        return MIDDLE_STEP.get(self.request.name, RELABEL_NODES)


def standing(action: str, world: World) -> Standing:
    """Gather one action. Raises ApiError 404."""
    found = gather(action, world)
    if found is None:
        cause = f"no action {action}"
        raise ApiError(404, "Action not found", cause, [Said(message=cause, reason="UnknownAction")])
    return found


_KEPT: OrderedDict[tuple[ObjectStore, str], Standing] = OrderedDict()
_lock = Lock()
READERS = 16
"""Reads at a time when several actions are wanted."""
KEPT = 200_000
"""Names in all that the remembered actions may hold, an outcome with its reason counting as ten: about 40 MB."""


def remembered(action: str, world: World) -> Standing | None:
    """One action with its outcome in short (see overview.in_short). What has ended never changes, so it is read once."""
    key = (world.store, action)
    with _lock:
        if key in _KEPT:
            return _KEPT[key]
    found = gather(action, world)
    if found is None or found.outcome is None or found.outcome.reason == UNREADABLE:  # what can't be read may be brought back
        return found
    found = replace(found, outcome=in_short(found.request, found.outcome))
    with _lock:
        _KEPT[key] = found
        while sum(map(_weight, _KEPT.values())) > KEPT:
            _KEPT.popitem(last=False)
    return found


def recalled(actions: Sequence[str], world: World) -> list[Standing]:
    """Several actions in their order, read side by side: a bucket takes its 30 ms for each object."""
    with ThreadPoolExecutor(READERS) as readers:
        return [found for found in readers.map(lambda action: remembered(action, world), actions) if found]


def _weight(found: Standing) -> int:
    return 10 + 10 * len(found.outcome.outcomes) + len(found.outcome.unchanged) if found.outcome else 0


def gather(action: str, world: World) -> Standing | None:
    """Gather one action: two reads when it has ended, three and two listings while it runs. None where there is none."""
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


def outcome_so_far(found: Standing, world: World) -> ActionOutcome | None:
    """How it ended, or what is known of it while it runs; None before the plan is made."""
    if found.outcome or found.plan is None:
        return found.outcome
    told = world.actions.part_outcomes(found.request.id, found.plan)
    known = found.plan.model_copy(
        update={"parts": [[outcome.subject for outcome in told.get(n, ())] for n in range(1, len(found.plan.parts) + 1)]}
    )
    return conclude(known, told, found.plan.planned_at)


def parameters_of(asked: ActionRequest) -> dict[str, Any]:
    """What was asked, as it came in; of a message, what it said."""
    return asked.parameters or asked.model_dump(include={"target_nodes", "node_filter", "dry_run"}, exclude_defaults=True)


def needing_a_person(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Failed, missing, stopped and skipped ones."""
    return [outcome for outcome in outcomes if outcome.outcome in UNSUCCESSFUL or outcome.outcome == "skipped"]


def in_one_line(outcome: Outcome) -> str:
    """What became of a node, in one line: what changed, or why it did not."""
    changes = outcome.changes
    words = [f"{key}={value}" for key, value in sorted(changes.set.items())] + [f"{key}-" for key in changes.remove] if changes else []
    cause = ": ".join(filter(None, (outcome.reason, outcome.message)))
    return " ".join(filter(None, (outcome.outcome, " ".join(words), f"({cause})" if words and cause else cause)))
