"""What must hold once a soak has come to rest, whatever happened before. Each check yields a sentence for whatever does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import yaml

from shared.domain.actions import ActionOutcome, Plan
from shared.domain.nodes import Node
from shared.domain.outcomes import Outcome
from shared.ledger.actions import Actions
from shared.world import World
from tests.soak.documents import declared


def nothing_open(actions: Actions, confirmed: Collection[str]) -> Iterator[str]:
    """Every action that was accepted has ended, was announced, and is no longer marked as open; and none of those confirmed is unknown."""
    known = actions.ids()
    yield from (f"action {action} was confirmed and is unknown" for action in sorted(set(confirmed) - set(known)))
    yield from (f"action {action} is still marked as open" for action in actions.open())
    for action in known:
        if actions.begun(action) and actions.outcome(action) is None:
            yield f"action {action} has not ended"
        elif actions.begun(action) and not actions.announced(action):
            yield f"action {action} ended and was not announced"


def no_result_lost(actions: Actions) -> Iterator[str]:
    """How an action ended says of every planned node what the stored result of its part says. What has no result has expired, or was
    given up, and is told so.
    """
    for action in actions.ids():
        plan, outcome = actions.plan(action), actions.outcome(action)
        if plan is None or outcome is None:
            continue
        stored = {told.subject: told for outcomes in actions.part_outcomes(action, plan).values() for told in outcomes}
        yield from (f"action {action}: {problem}" for problem in _differences(plan, outcome, stored))


def _differences(plan: Plan, outcome: ActionOutcome, stored: Mapping[str, Outcome]) -> Iterator[str]:
    ended = {told.subject: told for told in outcome.outcomes}
    planned = [name for part in plan.parts for name in part]
    for name in planned:
        if name not in ended:
            yield f"node {name} was planned, and the outcome says nothing about it"
        elif name in stored and outcome.result != "expired" and ended[name] != stored[name] and outcome.reason != "DeadLettered":
            yield f"node {name} ended as {ended[name].outcome}, and its part says {stored[name].outcome}"
        elif name not in stored and ended[name].reason not in ("Expired", "DeadLettered"):
            yield f"node {name} ended as {ended[name].outcome} {ended[name].reason} without a result of its part"
    total = len(planned) + len(plan.settled) + len(plan.unchanged)
    if sum(outcome.counts.values()) != total:
        yield f"{total} nodes were planned, {sum(outcome.counts.values())} are counted"


def every_end_told(actions: Actions, notices: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Each action's end was published, and however often: with one result."""
    told: dict[str, Counter[str]] = {}
    for notice in notices:
        told.setdefault(notice["data"]["id"], Counter())[notice["data"]["result"]] += 1
    for action in actions.ids():
        outcome = actions.outcome(action)
        if outcome is not None and set(told.get(action, {})) != {outcome.result}:
            yield f"action {action} ended as {outcome.result}; its notices say {dict(told.get(action, {})) or 'nothing'}"


def in_sync(world: World, nodes: Iterable[Node], owner: str) -> Iterator[str]:
    """Every node carries exactly what the newest revision's documents declare for it, under our name."""
    newest = world.revisions.newest()
    documents = [document for source in world.revisions.sources(newest) for document in yaml.safe_load_all(source.data)]
    for node in nodes:
        wanted = declared(documents, node.name)
        held = node.applied.get(owner, frozenset())
        carried = {key: node.labels[key] for key in held if key in node.labels}
        if carried != wanted:
            yield f"node {node.name} carries {carried} of ours, revision {newest} declares {wanted}"
