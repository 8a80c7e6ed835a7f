"""Version strings as Masterminds/semver v3.5.0 reads them (rules §0)."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.versions.semver import InvalidVersion, compare, constrain, normalize, parse

LONG = "1." + "0" * 254


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("1.27.3", "1.27.3"),
        ("v1.27.3", "1.27.3"),
        ("1.27", "1.27.0"),
        ("27", "27.0.0"),
        ("01.2.3", "1.2.3"),
        ("1.2.3-rc.1", "1.2.3-rc.1"),
        ("1-rc1+b.7", "1.0.0-rc1+b.7"),
        ("1.2.3+001", "1.2.3+001"),
        ("1.2.3--", "1.2.3--"),
        ("18446744073709551615.0.0", "18446744073709551615.0.0"),
        (LONG, "1.0.0"),
    ],
)
def test_a_version_is_read_leniently(text: str, normalised: str) -> None:
    assert str(parse(text)) == normalised


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.2.3.4",
        " 1.2.3",
        "1.2.3 ",
        "1.2.3\n",
        "V1.2.3",
        "vv1",
        "1..2",
        "1.2.3-",
        "1.2.3+",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3~1",
        "18446744073709551616.0.0",
        LONG + "0",
        "١.2.3",
    ],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidVersion):
        parse(text)


ASCENDING = [
    "0.0.0-0",
    "0.0.0",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-11",
    "1.0.0--1",
    "1.0.0-18446744073709551616",
    "1.0.0-A",
    "1.0.0-a",
    "1.0.0-a.1",
    "1.0.0-a.b",
    "1.0.0-ab",
    "1.0.0",
    "1.0.1-rc1",
    "1.0.1",
    "1.2",
    "1.10.0",
    "2",
    "10.0.0",
]


def test_versions_are_ordered_numerically_and_pre_releases_below_their_release() -> None:
    assert all(parse(lower).key < parse(higher).key for lower, higher in pairwise(ASCENDING))


@pytest.mark.parametrize(("one", "other"), [("1.2.3+a", "1.2.3+b"), ("1.2", "1.2.0"), ("v1", "1.0.0"), ("01.2.3", "1.2.3")])
def test_metadata_and_spelling_make_no_difference_to_the_order(one: str, other: str) -> None:
    assert parse(one).key == parse(other).key


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("v1.27.3", "1.27.3"),
        ("1.v2.3v", "1.2.3"),
        ("1.2.3-rc1", "1.2.3"),
        ("1.2.3+v1", "1.2.3"),
        ("1.2.3~1-2", "1.2.3"),
        ("dev", "de"),
        ("", ""),
    ],
)
def test_normalize_drops_every_v_and_cuts_the_rest_off(text: str, normalised: str) -> None:
    assert normalize(text) == normalised


CONSTRAINTS = [
    # constraint, accepted, refused
    ("1.27.3", ["1.27.3", "v1.27.3+x"], ["1.27.4", "1.27.3-rc1"]),
    ("=1.27", ["1.27.0", "1.27.9"], ["1.28.0", "1.26.9", "1.27.0-rc1"]),
    ("1.27.x", ["1.27.0", "1.27.9"], ["1.28.0"]),
    ("1", ["1.0.0", "1.99.0"], ["2.0.0"]),
    ("*", ["0.0.0", "9.9.9"], ["1.0.0-rc1"]),
    ("*-0", ["0.0.0", "1.0.0-rc1"], []),
    (">1.27", ["1.28.0", "2.0.0"], ["1.27.9", "1.27.0"]),
    (">1", ["2.0.0"], ["1.99.0"]),
    (">1.27.0", ["1.27.1"], ["1.27.0"]),
    (">=1.27", ["1.27.0", "1.28.0"], ["1.26.9"]),
    ("=>1.27.2", ["1.27.2"], ["1.27.1"]),
    ("<1.27", ["1.26.9"], ["1.27.0"]),
    ("<=1.27", ["1.27.9", "1.0.0"], ["1.28.0", "2.0.0"]),
    ("=<1", ["1.99.0"], ["2.0.0"]),
    ("<=1.27.2", ["1.27.2"], ["1.27.3"]),
    ("!=1.27", ["1.26.0", "1.28.0", "2.27.0"], ["1.27.0", "1.27.9"]),
    ("!=1", ["2.0.0"], ["1.5.0"]),
    ("!=1.27.3", ["1.27.4"], ["1.27.3"]),
    ("~1.27.2", ["1.27.2", "1.27.9"], ["1.27.1", "1.28.0"]),
    ("~>1.27", ["1.27.0"], ["1.28.0"]),
    ("~1", ["1.0.0", "1.9.0"], ["2.0.0"]),
    ("~0.0.0", ["0.0.0", "0.0.1", "5.4.3"], ["5.0.0-rc1"]),
    ("^1.2.3", ["1.2.3", "1.9.0"], ["2.0.0", "1.2.2"]),
    ("^0.2.3", ["0.2.9"], ["0.3.0", "1.0.0"]),
    ("^0.0.3", ["0.0.3"], ["0.0.4", "0.1.0"]),
    ("^0.0", ["0.0.9"], ["0.1.0"]),
    ("^0", ["0.9.0"], ["1.0.0"]),
    ("1.2 - 1.4", ["1.2.0", "1.4.9"], ["1.1.9", "1.5.0"]),
    ("1.2.1 - 1.2.3", ["1.2.3"], ["1.2.4", "1.2.0"]),
    (">= 1.26, < 1.28", ["1.26.0", "1.27.9"], ["1.28.0"]),
    (">=1.26 <1.28 || 1.30.x", ["1.27.0", "1.30.4"], ["1.29.0"]),
    (">=1.27-0", ["1.27.0-rc1", "1.28.0-alpha"], ["1.26.9"]),
    (">=1.27-0, <1.29", ["1.28.0-rc1"], ["1.29.0"]),
    (">=1.27-0 || >=1.20", ["1.27.0-rc1", "1.21.0"], ["1.26.0-rc1"]),
]


@pytest.mark.parametrize(("constraint", "accepted", "refused"), CONSTRAINTS, ids=[constraint for constraint, _, _ in CONSTRAINTS])
def test_a_constraint_accepts_what_masterminds_accepts(constraint: str, accepted: list[str], refused: list[str]) -> None:
    read = constrain(constraint)
    assert [text for text in [*accepted, *refused] if read.accepts(parse(text))] == accepted


@pytest.mark.parametrize(
    "text", ["", " ", "foo", "!!", "1.2.3.4", ">", "1.2.3,", "1 ||", ">>1", "xx", "1|2", "1.2.3-01", "1" * 513, "1||" * 32 + "1"]
)
def test_what_is_no_constraint_is_refused(text: str) -> None:
    with pytest.raises(InvalidVersion):
        constrain(text)


@pytest.mark.parametrize(
    ("left", "operator", "right", "answer"),
    [
        ("1.27.3", "=", "1.27", True),
        ("1.27", "=", "1.27.3", False),
        ("v1.27.3-rc1", "=", "1.27.3+x", True),
        ("1.0.1-rc", "~", "1.0.0", True),
        ("1.2.0", "<=", "1.2", True),
        ("1.2.9", "<=", "1.2", True),
        ("1.3.0", "<=", "1.2", False),
    ],
)
def test_the_compare_helper_cuts_pre_releases_off_and_takes_short_versions_for_all_their_patches(
    left: str, operator: str, right: str, answer: bool
) -> None:
    assert compare(left, operator, right) is answer


@given(st.text(alphabet="0123vx.*-+,|<>=~^! ", max_size=24), st.from_regex(r"[0-3]\.[0-3]\.[0-3](-rc[0-2])?", fullmatch=True))
def test_any_text_is_a_constraint_that_answers_or_is_refused(text: str, version: str) -> None:
    with suppress(InvalidVersion):
        assert constrain(text).accepts(parse(version)) in (True, False)


@pytest.mark.parametrize("text", ["1 " * 200 + "!", " " * 500, "1" + " " * 500 + "!", "1 - " * 120, "1." + "a-" * 200])
def test_a_hostile_constraint_costs_nothing(text: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidVersion):
        constrain(text)
    assert time.process_time() - began < 0.5
