"""How one delivery of a part asks its cluster: within its time, and not on and on where nothing answers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, Protocol
from zlib import crc32

from shared.domain.outcomes import NodeTask, Outcome
from shared.ports import Cluster, Unavailable, in_time

IN_A_ROW = 10
"""Nodes in a row that got no answer, before a part stops asking. As many as may be in flight, and then some: one restart of an API server
meets all of those at once."""
DOUBTFUL = 2
"""Nodes in a row that got no answer, before the following ones are tried once instead of several times."""

NotAsked = Literal["TimeBudgetSpent", "NotTried"]


class Apply(Protocol):
    """Brings one node to its declared set."""

    def __call__(self, task: NodeTask, cluster: Cluster) -> Outcome: ...


class Asking:
    """Whether to go on, by what became of the nodes so far. Several threads share it."""

    def __init__(self, left: Callable[[], float]) -> None:
        self._left = left
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._cause = ""

    @property
    def doubtful(self) -> bool:
        """Whether the cluster seems not to answer."""
        return self._in_a_row >= DOUBTFUL

    def over(self) -> NotAsked | None:
        """Why no further node is asked about; None while they are."""
        if self._left() <= 0:
            return "TimeBudgetSpent"
        return "NotTried" if self._in_a_row >= IN_A_ROW else None

    def saw(self, outcome: Outcome) -> None:
        """Count one node. Whatever the server said of it, it answered, except where it did not."""
        unanswered = outcome.outcome == "failed" and outcome.reason == Unavailable.reason
        with self._lock:
            self._in_a_row = self._in_a_row + 1 if unanswered else 0
            self._cause = outcome.message if unanswered else self._cause

    def explained(self, why: NotAsked, nodes: int, of: int) -> str:
        """One cause for all the nodes that were not asked about."""
        stopped = {
            "TimeBudgetSpent": "were not reached in the time that a part has",
            "NotTried": f"were not tried, because {IN_A_ROW} in a row got no answer",
        }[why]
        return f"{nodes} of {of} nodes {stopped}" + (f"; the last: {self._cause}" if self._cause else "")


def apply_all(nodes: Sequence[NodeTask], cluster: Cluster, left: Callable[[], float], apply: Apply) -> list[Outcome]:
    """What became of each node, in the order of `nodes`. Those not asked about have failed, and may be tried again.

    They are asked about in an order that has nothing to do with their names, so that a pool whose nodes all fail does not stand in the way
    of those that come after it in the alphabet.
    """
    asking = Asking(left)
    once = in_time(cluster, left, tries=1)

    def one(task: NodeTask) -> Outcome | NotAsked:
        if task.settled:
            return task.settled
        if why := asking.over():
            return why
        outcome = apply(task, once if asking.doubtful else cluster)
        asking.saw(outcome)
        return outcome

    order = sorted(nodes, key=lambda task: crc32(task.name.encode()))
    found = dict(zip((task.name for task in order), cluster.spread(one, order), strict=True))
    not_asked = Counter(each for each in found.values() if isinstance(each, str))
    causes = {why: asking.explained(why, count, len(found)) for why, count in not_asked.items()}
    return [_unasked(task, each, causes[each]) if isinstance(each := found[task.name], str) else each for task in nodes]


def _unasked(task: NodeTask, why: NotAsked, cause: str) -> Outcome:
    return Outcome(subject=task.name, outcome="failed", reason=why, message=cause, retryable=True)
