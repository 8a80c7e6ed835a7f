"""Two revisions side by side."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.documents.reading import Source, kept_name
from shared.domain.labels import comparison
from shared.domain.labels.comparison import Compared, Differences, text_difference


def files(texts: Mapping[str, str]) -> dict[str, list[Source]]:
    return {"default": [Source(name, text.encode()) for name, text in texts.items()]}


def compared(older: Mapping[str, str], newer: Mapping[str, str]) -> list[str]:
    return list(text_difference(files(older), files(newer), (1, 2)))


@pytest.mark.parametrize(
    ("path", "name"),
    [("a.yaml", "a.yaml"), ("./a.yaml", "a.yaml"), ("/srv/site//a.yaml", "srv/site/a.yaml"), ("../../a.yaml", "a.yaml"),
     ("b/../a.yaml", "a.yaml"), (r"site\a.yaml", "site/a.yaml"), ("-", "-"), ("..", "-")],
)  # fmt: skip
def test_a_file_is_known_by_its_path_below_the_collection(path: str, name: str) -> None:
    assert kept_name(path) == name


def test_a_file_that_an_earlier_release_kept_as_it_was_typed_is_compared_with_its_namesake() -> None:
    assert compared({"./site/a.yaml": "a: 1\n", "/x/site/b.yaml": "b: 1\n"}, {"a.yaml": "a: 1\n", "b.yaml": "b: 2\n"}) == [
        "--- /x/site/b.yaml (revision 1)",
        "+++ b.yaml (revision 2)",
        "@@ -1 +1 @@",
        "-b: 1",
        "+b: 2",
    ]


def test_a_file_that_was_renamed_and_not_changed_is_no_difference() -> None:
    assert compared({"a.yaml": "a: 1\n", "b.yaml": "b: 1\n"}, {"a.yaml": "a: 1\n", "c.yaml": "b: 1\n"}) == []


def test_a_file_that_is_new_or_gone_is_shown_whole() -> None:
    assert compared({"a.yaml": "a: 1\n"}, {"b.yaml": "b: 1\n"}) == [
        "--- a.yaml (revision 1)",
        "+++ a.yaml (revision 2)",
        "@@ -1 +0,0 @@",
        "-a: 1",
        "--- b.yaml (revision 1)",
        "+++ b.yaml (revision 2)",
        "@@ -0,0 +1 @@",
        "+b: 1",
    ]


def test_files_of_very_many_lines_are_told_to_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "COMPARED_LINES", 2)
    assert compared({"a.yaml": "a: 1\n" * 3}, {"a.yaml": "a: 2\n" * 4})[2:] == [
        "too long to be compared line by line: 3 and 4 lines from line 1 on"
    ]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30), st.text("ab", max_size=20))
def test_what_two_texts_have_in_common_is_left_out_of_the_comparison_and_not_of_the_count(a: list[str], b: list[str], same: str) -> None:
    """The diff, put on the older text by `patch`'s rules, gives the newer one."""
    older, newer = [*same, "<", *a, ">", *same], [*same, "<", *b, ">", *same]
    found = compared({"f": "\n".join(older)}, {"f": "\n".join(newer)})
    made, at = list[str](), 0
    for line in found[2:]:
        if line.startswith("@@"):
            begin, length = (int(number) for number in (line.split()[1][1:] + ",1").split(",")[:2])
            begin -= length > 0
            made += older[at:begin]
            at = begin
        elif line[0] in " -":
            assert older[at] == line[1:]
            at += 1
        made += [line[1:]] if line[0] in " +" else []
    assert made + older[at:] == newer


def test_every_node_counts_and_the_first_ones_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "LISTED", 4)
    counted = Differences()
    for number in range(10):
        counted.add(Compared(f"n{number}", {"a": "1", "b": "1"}, {"a": "1", "b": "2"}))
    counted.add(Compared("same", {"a": "1"}, {"a": "1"}))
    assert (list(counted.nodes), counted.more_nodes) == (["n0", "n1", "n2", "n3"], 6)
    assert list(counted.labels) == ["b"]
    assert (counted.labels["b"].changed, list(counted.labels["b"].examples)) == (10, ["n0", "n1", "n2"])
