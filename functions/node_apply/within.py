"""What an action may write that is bound to a plan: looked at once more right before the node is written, because parts may have waited."""

from __future__ import annotations

from collections.abc import Iterator

from shared.domain.labels.bound import differing, still_to_do
from shared.domain.nodes import Node, Owner
from shared.domain.outcomes import KeyChange, NodeTask


def beyond_plan(task: NodeTask, live: Node, owner: Owner) -> str:
    """How what the write would change differs from what the plan has; empty where it does not, and where no plan binds.

    Keys that have their planned value already are done: an earlier delivery may have come so far.
    """
    if task.planned is None:
        return ""
    planned = still_to_do(task.planned, live)
    due = frozenset(KeyChange(key, to, live.labels.get(key), live.owners.get(key, ())) for key, to in _due(task, live, owner))
    return "" if due == planned else differing(planned, due)


def _due(task: NodeTask, live: Node, owner: Owner) -> Iterator[tuple[str, str | None]]:
    """What anybody would see of the write: each key with its new value; None where it goes."""
    wanted = {**({} if task.aliases_only else task.labels), **(task.aliases or {})}
    for key, value in wanted.items():
        others = any(manager not in owner for manager in live.owners.get(key, ()))
        if live.labels.get(key) != value and not (key in task.on_conflict and key in live.labels and others):
            yield key, value
    for key in {change.key for change in task.planned or () if change.to is None}.union(_dropped(task, live, owner)):
        if key in live.labels and key not in wanted:
            yield key, None


def _dropped(task: NodeTask, live: Node, owner: Owner) -> set[str]:
    """Labels that are not declared and go with the write."""
    if task.aliases_only:
        return set()
    dropped = {key for key in live.applied.get(owner.name, ()) if set(live.owners.get(key, ())) <= {owner.name}}
    if task.prune == "all":
        from shared.domain.labels.policies import prunable  # only where a document asks for it

        dropped.update(prunable(live.labels, task.labels.keys() | (task.aliases or {}).keys(), task.keep, live.owners, owner))
    return dropped
