"""Parts and ids of actions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.domain.actions import MAX_PARTS, PART_SIZE, action_id, split

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize("count", [0, 1, PART_SIZE, PART_SIZE + 1, MAX_PARTS * PART_SIZE, MAX_PARTS * PART_SIZE + 1, 100_000])
def test_parts_hold_every_node_once_and_are_never_more_than_an_action_may_have(count: int) -> None:
    names = [f"n{number:06}" for number in range(count)]
    parts = split(names)
    assert [name for part in parts for name in part] == names
    assert len(parts) <= MAX_PARTS
    assert all(len(part) <= max(PART_SIZE, -(-count // MAX_PARTS)) for part in parts)


def test_a_message_has_one_action_id_for_all_its_deliveries_and_later_ones_sort_behind_it() -> None:
    assert action_id("m1", NOON) == action_id("m1", NOON)
    assert action_id("m1", NOON) != action_id("m2", NOON)
    assert action_id("m1", NOON) < action_id("m2", NOON + timedelta(milliseconds=1))
