"""What rollouts opened, held against what people were answered: worked out from the objects in the store alone."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from shared.domain.rollouts.progress import Batch, Progress
from shared.ledger.actions import Actions
from shared.ledger.records import RecordUnreadable, numbered
from shared.ports import ObjectStore

HOLDS = ("pause", "abort", "revert", "supersede")
"""Words after which nothing opens, until one of these is said:"""
GOES_ON = ("resume", "retry")


def states(store: ObjectStore, rollout: str) -> dict[int, Progress]:
    """A rollout's states by number, as far as they can be read."""
    found: dict[int, Progress] = {}
    for k, key in numbered(key for key in store.keys(f"rollouts/{rollout}/") if key.count("/") == 2).items():
        try:
            found[k] = msgspec.json.decode(store.get(key) or b"", type=Progress)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found


class Openings:
    """`answered`: by rollout, the number of its newest state when somebody was answered that nothing more opens."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._answered: dict[str, list[int]] = {}

    def answered(self, rollout: str) -> None:
        """Somebody was just answered that nothing more opens."""
        self._answered.setdefault(rollout, []).append(max(states(self._store, rollout), default=0))

    def broken(self, apart: timedelta = timedelta()) -> Iterator[str]:
        """What should not have happened, a sentence each. `apart`: by how much clocks were."""
        for rollout in self._store.folders("rollouts/"):
            chain = states(self._store, rollout)
            for k in self._answered.get(rollout, ()):
                yield from _opened_after(k, chain)
            for before, after in itertools.pairwise(sorted(chain)):
                if after == before + 1:
                    yield from self._step(chain[before], chain[after], apart)
            if chain:
                yield from _twice(chain[max(chain)])

    def _step(self, before: Progress, after: Progress, apart: timedelta) -> Iterator[str]:
        was, now = _forward(before), _forward(after)
        if [_named(batch) for batch in now[: len(was)]] != [_named(batch) for batch in was]:
            yield f"{after.said} changed what was opened before"
        new = now[len(was) :]
        if len(new) > 1:
            yield f"{after.said} opened {len(new)} batches at once"
        for batch in new:
            if before.phase != "running":
                yield f"{_named(batch)} was opened while the rollout was {before.phase}"
            yield from self._out_of_order(before, batch, apart)

    def _out_of_order(self, before: Progress, batch: Batch, apart: timedelta) -> Iterator[str]:
        """Why a batch should not have been opened by what was so when it was."""
        if batch.where in {each.where for each in _forward(before)} and not before.retried:
            yield f"{_named(batch)} was opened again, and nobody retried it"
        if before.stages[batch.stage].before and not before.approved(batch.stage, "before"):
            yield f"{_named(batch)} was opened, and nobody approved that"
        for stage in range(batch.stage):
            about = before.stages[stage]
            ends = [self._ended(each) for each in before.newest_batches(stage)]
            if not all(ends):
                yield f"{_named(batch)} was opened while stage {about.name} was being written"
            elif ends and batch.at < max(filter(None, ends)) + timedelta(seconds=about.soak) - apart:
                yield f"{_named(batch)} was opened at {batch.at}, before stage {about.name} had soaked: {ends}"
            if about.after and before.size(stage) and not before.approved(stage, "after"):
                yield f"{_named(batch)} was opened, and nobody approved stage {about.name}"

    def _ended(self, batch: Batch) -> datetime | None:
        if batch.fact is not None:
            return batch.fact.ended
        try:
            outcome = Actions(self._store).outcome(batch.action)
        except RecordUnreadable:
            return batch.at
        return outcome.finished_at if outcome else None


def _opened_after(k: int, chain: Mapping[int, Progress]) -> Iterator[str]:
    """What opened after state k, up to where somebody let it go on."""
    if k not in chain:
        return
    opened = len(_forward(chain[k]))
    later = itertools.takewhile(lambda number: chain[number].said.verb not in GOES_ON, (each for each in sorted(chain) if each > k))
    for number in later:
        if len(_forward(chain[number])) > opened:
            yield f"{_named(_forward(chain[number])[-1])} was opened after somebody was answered that nothing more opens (state {k})"
            return


def _twice(newest: Progress) -> Iterator[str]:
    actions = Counter(batch.action for batch in newest.batches)
    if twice := [action for action, count in actions.items() if count > 1]:
        yield f"one action for two batches: {twice}"
    words = Counter((each.stage, each.when) for each in newest.approvals)
    if twice_said := [word for word, count in words.items() if count > 1]:
        yield f"approved twice: {twice_said}"


def _forward(state: Progress) -> list[Batch]:
    return [batch for batch in state.batches if not batch.back]


def _named(batch: Batch) -> tuple[int, str, int, int, str]:
    return *batch.where, batch.count, batch.action
