"""What a rollout took over from other managers, as the outcomes of its batches have it, so that a revert can give it back."""

from __future__ import annotations

from collections.abc import Iterator

from shared.domain.rollouts.progress import Batch, Progress
from shared.ledger.records import RecordUnreadable
from shared.ledger.rollouts import UnknownRollout
from shared.world import World


def taken_over(rollout: Progress, back: Batch, world: World) -> dict[str, dict[str, str]]:
    """By node and key, the values of other managers that the rollout replaced or removed on the nodes of a batch that brings them back.
    Of a key that was taken twice the first value counts: what came later was taken from somebody who had taken it from us.
    """
    found: dict[str, dict[str, str]] = {}
    for action in _forward(rollout, back, world):
        for outcomes in world.actions.part_outcomes(action, None).values():
            for outcome in outcomes:
                if outcome.changes and outcome.changes.from_:
                    values = {key: was.value for key, was in outcome.changes.from_.items()}
                    found[outcome.subject] = values | found.get(outcome.subject, {})
    return found


def _forward(rollout: Progress, back: Batch, world: World) -> Iterator[str]:
    """The actions that may have brought something to these nodes, oldest first. What replaced rollouts reached is in the first stage."""
    if back.stage == 0:
        for replaced in _replaced(rollout, world):
            yield from (batch.action for batch in replaced.batches if batch.cluster == back.cluster and not batch.back)
    yield from (batch.action for batch in rollout.batches if batch.where == back.where and not batch.back)


def _replaced(rollout: Progress, world: World) -> Iterator[Progress]:
    """The rollouts whose place this one took, and theirs, oldest first. What can't be read gives nothing back."""
    for each in rollout.replaces:
        try:
            other = world.rollouts.get(each)
        except (RecordUnreadable, UnknownRollout):
            continue
        yield from _replaced(other, world)
        yield other
