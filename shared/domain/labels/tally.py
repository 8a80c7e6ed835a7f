"""Count what the decisions of a plan do to the nodes of a cluster. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from shared.domain.labels.impact import Impact
from shared.domain.labels.planning import Settled, Write

K = TypeVar("K", str, tuple[str, str])

EXAMPLES = 10
"""Nodes that are named."""
KEYS = 20
"""Keys that are named, those of the most nodes first."""


class Tally:
    """An Impact in the making: it is given every decision of a plan, one by one."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._removed, self._added, self._changed = Counter[str](), Counter[str](), Counter[str]()
        self._taken = Counter[tuple[str, str]]()
        self._losing, self._taking, self._changing = _Nodes(), _Nodes(), _Nodes()
        self._labelled = False

    def add(self, name: str, decided: Settled | Write) -> None:
        """Count one node."""
        if isinstance(decided, Settled):
            self._labelled |= decided.labelled
            return
        self._labelled |= bool(decided.task.labels)
        set_, removed = decided.changes.set, decided.changes.remove
        if not set_ and not removed:
            return  # ownership is given up, and nothing is seen of it
        self._changing.add(name)
        self._removed.update(removed)
        self._changed.update(key for key in set_ if key in decided.before)
        self._added.update(key for key in set_ if key not in decided.before)
        self._taken.update(decided.contested.items())
        if removed:
            self._losing.add(name)
        if decided.contested:
            self._taking.add(name)

    def counting(self, decided: Iterable[tuple[str, Settled | Write]]) -> Iterator[tuple[str, Settled | Write]]:
        """The same decisions, counted as they go by."""
        for name, decision in decided:
            self.add(name, decision)
            yield name, decision

    @property
    def takes_away(self) -> bool:
        """Whether a node loses a label, or another manager's value is replaced."""
        return bool(self._losing.count or self._taking.count)

    def impact(self, nodes: int, *, whole: bool, overrides: int = 0, unseen: str = "") -> Impact:
        """What was counted, of a cluster of so many nodes. `whole`: every one of them was decided, so that none can keep a label."""
        return Impact(
            cluster=self._cluster,
            nodes=nodes,
            removals=self._losing.count,
            takeovers=self._taking.count,
            changes=self._changing.count,
            removed=_most(self._removed),
            added=_most(self._added),
            changed=_most(self._changed),
            taken=self._by_manager(),
            losing=self._losing.examples,
            taking=self._taking.examples,
            changing=self._changing.examples,
            overrides=overrides,
            bare=whole and bool(self._losing.count) and not self._labelled,
            unseen=unseen,
        )

    def _by_manager(self) -> dict[str, dict[str, int]]:
        taken: dict[str, dict[str, int]] = {}
        for (key, manager), count in _most(self._taken).items():
            taken.setdefault(key, {})[manager] = count
        return taken


class _Nodes:
    """How many nodes, and the names of the first."""

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(name)


def _most(counts: Counter[K]) -> dict[K, int]:
    """Those that are counted most; of equal ones the first by name."""
    return dict(sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))[:KEYS])


def impact_of(cluster: str, nodes: int, decided: Iterable[tuple[str, Settled | Write]], *, whole: bool = True) -> Impact:
    """The impact of these decisions."""
    tally = Tally(cluster)
    for name, decision in decided:
        tally.add(name, decision)
    return tally.impact(nodes, whole=whole)
