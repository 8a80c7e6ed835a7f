"""Plain YAML reads the same both ways: natively, and from the parser's events."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.documents import parsing, plain

EXAMPLES = Path(__file__).parents[2] / "examples"

WRITTEN = r"""
a | b-c | x/y | a:b | 'a b' | http://h/p | True | true | False | NULL | null | Null | ~ | no | on | y | true a | truea | a b c
a #b | a # b | 0 | -0 | 7 | -7 | 07 | 012 | 1_000 | 0x1f | 0o7 | 0b1 | 1e3 | 1.5 | 1.10 | .5 | +1
-1 | 12:30 | 1e | 1a | a1 | .inf | .nan | nan
Infinity | 10.0.0.1 | 10.0.0.0/24
1.2.3 | 1.2 | 2026-01-31 | fe80::1 | 52:54:00:31:12:36 | 0:2.0.0 | 99% | 2,4 | 30g | 802.1q | 1,000 | 4-43,48
0x1g | 1e5a
999999999999999999 | 9999999999999999999 | "" | '' | "a: b # c" | 'a # b' | "\u0041"
'it''s' | ö | "ö" | a\b | a'b | a"b | a{b
a] | a, | [] | {} | [a, b] | [1, true, 'x'] | [012, 2] | [1e3, a] | [a, [b]] | {a: b, c: 1} | {a: 012, b: 1} | {a: b,}
{a: {b: c}} | a, b
a [b] | (a) | - a | &x a | *x | !x a | > | a: b | %a | @a | a? | ? | << | a: | :a | - | -- | ---a | = | a=b | $a | a;b | /a/b | _a
"""
SCALARS = st.one_of(
    st.sampled_from([text for line in WRITTEN.split("\n") for text in line.split(" | ")]),
    st.text("ab1-:#.,' \"~{}[]&*!|>%@`?\\0", max_size=6),
)
KEYS = st.one_of(
    st.sampled_from(
        ["a", "b", "c.d/e", "x-y", "true", "null", "1", "~", "<<", "'q'", "a b", "No", "y", "True", "- a", "? a", "_", "k" * 250]
    ),
    st.text("ab1-./", min_size=1, max_size=4),
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line that may or may not fit where it stands."""
    indent = " " * draw(st.integers(0, 4))
    dashes = "- " * draw(st.sampled_from([0, 0, 0, 1, 1, 2]))
    kind = draw(st.sampled_from(["pair", "pair", "pair", "open", "open", "item", "blank", "mark", "comment"]))
    match kind:
        case "pair":
            return f"{indent}{dashes}{draw(KEYS)}: {draw(SCALARS)}"
        case "open":
            return f"{indent}{dashes}{draw(KEYS)}:"
        case "item":
            return f"{indent}- {draw(SCALARS)}"
        case "blank":
            return draw(st.sampled_from(["", "  ", "\t"]))
        case "mark":
            return draw(st.sampled_from(["---", "--- ", "--- # c", "--- a", "...", "%YAML 1.1"]))
    return f"{indent}# {draw(SCALARS)}"


def by_events(text: str) -> list[tuple[int, Any, list[parsing.Flaw]]]:
    """The file as the parser's events give it."""

    def nothing(_: str, __: object) -> Iterator[tuple[int, Any]]:
        raise plain.NotPlain

    with patch.object(plain, "documents", nothing):
        return list(parsing.values(text.encode()))


def same(value: Any, other: Any) -> bool:
    """Equal, with every type the same and keys in the same order."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return list(value) == list(other) and all(same(value[key], other[key]) for key in value)
    if isinstance(value, list):
        return len(value) == len(other) and all(map(same, value, other))
    return bool(value == other)


def check_same(text: str) -> None:
    """Both ways give the same documents on the same lines, with the same flaws."""
    given_, wanted = list(parsing.values(text.encode())), by_events(text)
    assert same([value for _, value, _ in given_], [value for _, value, _ in wanted]), text
    assert [flaws for *_, flaws in given_] == [flaws for *_, flaws in wanted], text
    assert [line for line, value, _ in given_ if value is not None] == [line for line, value, _ in wanted if value is not None], text


@given(st.lists(lines(), max_size=9).map("\n".join), st.sampled_from(["", "\n"]))
def test_a_file_reads_the_same_natively_and_from_events(text: str, end: str) -> None:
    check_same(text + end)


@pytest.mark.parametrize("end", ["", "\n"])
def test_marks_in_any_order_read_the_same(end: str) -> None:
    for length in range(1, 5):
        for rows in itertools.product(["...", "---", "# c", "a: b", "a: |", " t", ""], repeat=length):
            check_same("\n".join(rows) + end)


VALUE = st.recursive(
    st.sampled_from(["a", "x y", "10.0.0.1", '"q: #"', "'s'", "7", "true", "null", "~", "no", "[a, 1]", "{k: v}", "[]", "{}"]),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abcdef"), inner, min_size=1, max_size=3), st.lists(inner, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=12,
)


def written(value: Any, indent: int, step: int, tight: bool) -> str:
    """Block style. A list within a mapping stands below its key or, tight, as far left as the key."""
    if isinstance(value, str):
        return f" {value}\n"
    pad = " " * indent
    if isinstance(value, dict):
        below = {key: indent if tight and isinstance(item, tuple) else indent + step for key, item in value.items()}
        return "\n" + "".join(f"{pad}{key}:{written(item, below[key], step, tight)}" for key, item in value.items())
    return "\n" + "".join(f"{pad}- {written(item, indent + 2, step, tight).lstrip()}" for item in value)


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), VALUE, min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(1, 4),
    st.booleans(),
)
def test_block_style_is_plain_and_reads_the_same(values: list[dict[str, Any]], step: int, tight: bool) -> None:
    text = "".join("---" + written(value, 0, step, tight) for value in values)
    assert len(list(plain.documents(text))) == len(values)
    check_same(text)


@given(
    st.dictionaries(st.sampled_from("abc"), VALUE, min_size=1, max_size=3),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["in", "out", "dash", "swap", "drop"]), lines()), min_size=1, max_size=2),
)
def test_block_style_with_a_slip_reads_the_same(value: dict[str, Any], tight: bool, slips: list[tuple[int, str, str]]) -> None:
    rows = written(value, 0, 2, tight).lstrip("\n").splitlines()
    for place, slip, other in slips:
        at = place % len(rows)
        row = rows[at]
        changed = {"in": " " + row, "out": row.removeprefix(" "), "dash": row.replace("- ", "  ", 1), "swap": other, "drop": ""}
        rows[at] = changed[slip]
    check_same("\n".join(rows) + "\n")


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_example_documents_read_the_same(file: Path) -> None:
    check_same(file.read_text())


@pytest.mark.parametrize(
    "text",
    [
        *("a: 012", "a: 1e3", "a: True", "1: a", "true: a", "a: &x b", "a: *x", "a: !t b", "a: |\n  b", "a: b\n  c", "? a", "<<: {a: b}"),
        *("a:\tb", "a: b\r", "a: 'b''c'", 'a: "\\n"', "--- a", "...", "%YAML 1.1\n---\na: b", "a: b\na: c", "\ufeffa: b", "a: {b: {c: d}}"),
        *(" " * 41 + "a: b", "- - - - - a", "a" * 252 + ": b", "a: \x01", "# \x01", "a: b\n# \u2028", "a: \x85b"),
    ],
)
def test_what_two_readers_may_take_differently_is_left_to_one(text: str) -> None:
    with pytest.raises(plain.NotPlain):
        list(plain.documents(text + "\n"))
    check_same(text + "\n")


def test_nothing_plain_nests_deeper_than_is_allowed() -> None:
    deepest = "".join(f"{' ' * column}a:\n" for column in range(40)) + " " * 40 + "- " * 4 + "[a]\n"
    ((_, value),) = plain.documents(deepest)
    assert parsing._depth(value) <= parsing.MAX_DEPTH
