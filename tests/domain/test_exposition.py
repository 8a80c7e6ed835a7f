"""`/metrics` stays readable, whatever the names in it are."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.domain.exposition import Family, Sample, exposition
from tests.prometheus import read

HOSTILE = 'a"b\\n\\"} 7\nhullmark_owned 1\r\x85 # {x="y"}'


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs", "Cc"])))
@example(HOSTILE, HOSTILE.replace("\n", ""))
def test_any_label_value_is_read_back_as_it_was(value: str, about: str) -> None:
    (name, family), *others = read(exposition([Family("m", about, "gauge", (Sample(1.5, {"cluster": value}),))])).items()
    assert (name, others) == ("m", [])
    assert family.samples == {("", (("cluster", value),)): 1.5}


def test_a_help_text_of_several_lines_stays_one_line() -> None:
    assert read(exposition([Family("m", "one\\two\nthree", "counter")]))["m"].about == r"one\\two\nthree"


def test_half_a_surrogate_pair_does_not_break_the_answer() -> None:
    read(exposition([Family("m", "about", "gauge", (Sample(1, {"name": "\udc00"}),))]))


@pytest.mark.parametrize(("value", "told"), [(3.0, "3"), (0.1, "0.1"), (1e-7, "0.0"), (-21, "-21"), (2**60, str(2**60))])
def test_counts_are_whole_numbers_and_seconds_have_six_places(value: float, told: str) -> None:
    assert exposition([Family("m", "about", "gauge", (Sample(value),))]).endswith(f"m {told}\n")


@pytest.mark.parametrize(
    "broken",
    [
        'm{a="x"y"} 1',
        'm{a="x\\"} 1',
        'm{a="x",} 1',
        'm{a="1",a="2"} 1',
        'm{a="\\t"} 1',
        "m{a=1} 1",
        "m one",
        "n 1",
        "m 1\nm 2",
        "# HELP m again",
        "# a comment",
        "m_bucket 1",
        "",
    ],
)
def test_the_reader_of_these_tests_refuses_what_prometheus_would(broken: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        read(f"# HELP m about\n# TYPE m gauge\n{broken}\n")
