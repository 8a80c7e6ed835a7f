"""What a version counts as (rules §1)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from shared.domain.versions.classification import Offered, Stage, transitions
from tests.versions.shorthand import NOW, day

LIFE = (Stage("preview"), Stage("supported", day(0)), Stage("deprecated", day(10)), Stage("expired", day(20)))


@pytest.mark.parametrize(
    ("version", "now", "counts_as"),
    [
        (Offered("1"), NOW, "supported"),
        (Offered("1", "preview"), NOW, "preview"),
        (Offered("1", None, day(1)), NOW, "supported"),
        (Offered("1", "deprecated", day(-1)), NOW, "expired"),
        (Offered("1", "preview", day(-1)), NOW, "expired"),
        (Offered("1", "supported", NOW), NOW, "supported"),
        (Offered("1", "supported", NOW), NOW + timedelta(microseconds=1), "expired"),
        (Offered("1", lifecycle=LIFE), NOW, "preview"),
        (Offered("1", lifecycle=LIFE), day(0.1), "supported"),
        (Offered("1", lifecycle=LIFE), day(11), "deprecated"),
        (Offered("1", lifecycle=LIFE), day(21), "expired"),
        (Offered("1", lifecycle=LIFE[1:]), NOW, "unavailable"),
        (Offered("1", lifecycle=(Stage("expired", day(-2)), Stage("supported", day(-1)))), NOW, "supported"),
        (Offered("1", "preview", day(-5), LIFE), day(1), "supported"),
    ],
)
def test_a_version_counts_as_the_last_listed_stage_that_began_before_now(version: Offered, now: datetime, counts_as: str) -> None:
    assert version.at(now) == counts_as


def test_the_moments_of_change_are_the_starts_of_all_stages() -> None:
    assert transitions([Offered("1", lifecycle=LIFE), Offered("2", None, day(5)), Offered("3", "preview")]) == [
        day(0),
        day(5),
        day(10),
        day(20),
    ]
