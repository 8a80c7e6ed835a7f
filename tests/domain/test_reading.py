from __future__ import annotations

import json
import tracemalloc

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.documents.parsing import MAX_ALIASED, MAX_DEPTH
from shared.domain.documents.reading import DocumentsRefused, Source, as_stream, path_text, read, read_nodes
from shared.domain.nodes import Node


def only(text: str | bytes) -> dict[str, object]:
    documents, problems = read([Source("f.yaml", text.encode() if isinstance(text, str) else text)])
    assert problems == []
    assert len(documents) == 1
    return dict(documents[0].data)


def told(text: str | bytes) -> list[tuple[int, str, str]]:
    return [(p.line, p.path, p.type) for p in read([Source("f.yaml", text.encode() if isinstance(text, str) else text)])[1]]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(
            (word, word)
            for word in ("no", "yes", "on", "off", "y", "n", "True", "FALSE", "Null", "012", "0x1f", "0o17", "1_000", "+1", ".5")
        ),
        *(
            (word, word)
            for word in ("2026-01-31", "2026-01-31T22:00:00Z", "1:30", "1.2.3", ".inf", ".nan", "1e999", "--", "nullx", "trues")
        ),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("'7'", "7"),
        ('"true"', "true"),
        ("!!str 7", "7"),
        ("!!int '7'", 7),
        ("! 7", "7"),
        ("9" * 500, "9" * 500),
    ],
)
def test_only_what_json_reads_as_another_type_is_another_type(written: str, value: object) -> None:
    found = only(f"kind: X\nvalue: {written}\n")["value"]
    assert (found, type(found)) == (value, type(value))


def test_keys_are_text_as_they_are_written() -> None:
    assert only("kind: X\n1: a\ntrue: b\nno: c\n2026-01-01: d\n") == {"kind": "X", "1": "a", "true": "b", "no": "c", "2026-01-01": "d"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc:#-!&* {}[]'\"<", max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_json_is_read_as_json(value: object) -> None:
    document = {"kind": "X", "value": value}
    assert only(json.dumps(document)) == document
    assert only("# not JSON's fast way\n" + json.dumps(document, ensure_ascii=False)) == document


@given(st.dictionaries(st.text("ab12", min_size=1), st.text("no01.:-tf~'\"# ", max_size=8), max_size=4))
def test_text_that_a_yaml_writer_quotes_comes_back_as_text(labels: dict[str, str]) -> None:
    assert only(yaml.safe_dump({"kind": "X", "labels": labels})) == {"kind": "X", "labels": labels}


def test_the_parser_in_python_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "kind: X\na: &a {x: 1, y: no}\nb:\n  <<: *a\n  y: [2026-01-01, ~]\n---\nkind: Y\nz: 1\nz: 2\n"
    fast = read([Source("f", text.encode())])
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert read([Source("f", text.encode())]) == fast


# --- where things stand


TWO = """\
# a comment

kind: A
metadata: {name: one}
spec:
  labels:
    rack: r1
  list:
  - x: 1
  - y:
      - deep
--- # the second
kind: B
metadata:
  name: two
...
---
kind: C
"""


def test_lines_count_from_the_start_of_the_file() -> None:
    first, second, third = read([Source("f", TWO.encode())])[0]
    assert [(d.title, d.index, d.line) for d in (first, second, third)] == [("A/one", 0, 3), ("B/two", 1, 13), ("C", 2, 18)]
    assert first.line_of(("spec", "labels", "rack")) == 7
    assert first.line_of(("spec", "list", 1, "y", 0)) == 11
    assert first.line_of(("metadata", "name")) == 4
    assert second.line_of(("metadata", "name")) == 15


def test_what_is_not_written_has_the_line_of_what_is_around_it() -> None:
    first = read([Source("f", TWO.encode())])[0][0]
    assert first.line_of(("spec", "labels", "zone")) == 6
    assert first.line_of(("spec", "list", 7)) == 8
    assert first.line_of(("nothing",)) == 3


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_file_whatever_ends_them(ending: str) -> None:
    text = TWO.replace("\n", ending).replace("one", "öne — 東")
    first, second, _ = read([Source("f", b"\xef\xbb\xbf" + text.encode())])[0]
    assert first.line_of(("spec", "labels", "rack")) == 7
    assert second.line_of(("metadata", "name")) == 15


def test_a_list_is_unfolded_and_its_items_keep_their_lines() -> None:
    text = "kind: ShootList\napiVersion: g/v1\nitems:\n- metadata:\n    name: a\n- kind: Other\n  spec:\n    x: 1\n- 5\n"
    documents, problems = read([Source("f", text.encode())])
    assert [(d.title, d.line, d.data.get("apiVersion")) for d in documents] == [("Shoot/a", 4, "g/v1"), ("Other", 6, None)]
    assert documents[1].line_of(("spec", "x")) == 8
    assert [(p.line, p.path, p.type) for p in problems] == [(9, "items[2]", "Invalid")]


def test_a_path_shows_keys_with_dots_in_brackets() -> None:
    assert path_text(("spec", "labels", "example.com/rack")) == "spec.labels[example.com/rack]"
    assert path_text(("spec", "pairs", 0, "primary")) == "spec.pairs[0].primary"


# --- anchors and merges


def test_anchors_and_merge_keys_work() -> None:
    text = (
        "kind: X\nbase: &base {a: 1, b: 2}\nother: &other {b: 3, c: 4}\none: {<<: *base, b: 9}\ntwo:\n  <<: [*base, *other]\n  d: *base\n"
    )
    found = only(text)
    assert found["one"] == {"a": 1, "b": 9}
    assert found["two"] == {"a": 1, "b": 2, "c": 4, "d": {"a": 1, "b": 2}}


def test_anchors_end_with_their_document() -> None:
    assert told("kind: X\na: &a 1\n---\nkind: Y\nb: *a\n") == [(5, "", "Syntax")]


def bomb(width: int, levels: int, leaf: str = "lol") -> str:
    rows = [f"l0: &l0 [{', '.join([leaf] * width)}]"]
    rows += [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(["kind: X", *rows, ""])


def test_a_yaml_bomb_is_one_problem_and_costs_nothing() -> None:
    tracemalloc.start()
    try:
        assert told(bomb(10, 40)) == [(7, "", "Syntax")]
        assert told(f"kind: X\na: &a {'x' * 500_000}\nb: [*a, *a, *a]\n") == [(3, "", "Syntax")]
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert MAX_ALIASED == 1_000_000


def test_an_alias_inside_its_own_anchor_is_a_problem() -> None:
    assert told("kind: X\na: &a [1, *a]\n") == [(2, "", "Syntax")]


# --- what cannot be read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("# nothing\n---\n---\n\n", []),
        ("- a\n", [(1, "", "Invalid")]),
        ("\n\njust text\n", [(3, "", "Invalid")]),
        ("a: 1\n", [(1, "", "Required")]),
        ("kind: X\na: 1\nb:\n- c: 1\n  c: 2\na: 3\n", [(5, "b[0].c", "Duplicate"), (6, "a", "Duplicate")]),
        ('{"kind": "X",\n "a": 1,\n "a": 2}', [(3, "a", "Duplicate")]),
        ("kind: X\n\tb: 1\n", [(2, "", "Syntax")]),
        ("kind: X\nb: [1\n", [(3, "", "Syntax")]),
        ("kind: X\nb: {{ .Values.b }}: c\n", [(2, "", "Syntax")]),
        ("kind: X\nb: {{ .Values.b }}\n", [(2, "", "Syntax")]),
        ("kind: X\n? [a, b]\n: c\n", [(2, "", "Syntax")]),
        ("kind: X\nb: 'open\n\n", [(4, "", "Syntax")]),
        ("kind: X\nb: !!python/object:os.system x\n", [(2, "b", "Syntax")]),
        ("kind: X\nb: !Ref x\nc: !!int x\n", [(2, "b", "Syntax"), (3, "c", "Syntax")]),
        ("kind: X\nb: \x07\n", [(2, "", "Syntax")]),
        ("kind: X\nb:\n" + "[" * 5000, [(3, "", "Syntax")]),
        ('{"kind": "X", "b": ' + "[" * 5000 + "]" * 5000 + "}", [(1, "", "Syntax")]),
        (b"\x7fELF\x02\x01\x01\0\0\0", [(1, "", "Syntax")]),
        ("kind: X\n".encode("utf-16"), [(1, "", "Syntax")]),
        (b"kind: X\nb: \xff\n", [(2, "", "Syntax")]),
        ("kind: X\nb: ü\n".encode("latin-1"), [(2, "", "Syntax")]),
    ],
)
def test_what_cannot_be_read_is_a_problem_with_its_line(text: str | bytes, expected: list[tuple[int, str, str]]) -> None:
    assert told(text) == expected


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    read([Source("f", data)])


@given(st.text("kind: X\n-[]{}&*!|>'\"%@`#,?<~0\t", max_size=60))
def test_no_text_raises_and_every_problem_has_a_line_of_the_file(text: str) -> None:
    for problem in read([Source("f", text.encode())])[1]:
        assert 1 <= problem.line <= text.count("\n") + 2


def test_a_file_keeps_what_stood_before_it_broke_and_names_the_document_of_a_problem() -> None:
    documents, problems = read(
        [Source("f", b"kind: A\nmetadata: {name: a}\nx: 1\nx: 2\n---\nkind: B\n  bad: [\n"), Source("g", b"kind: C\n")]
    )
    assert [d.title for d in documents] == ["A/a", "C"]
    assert [(p.file, p.line, p.document) for p in problems] == [("f", 4, "A/a"), ("f", 7, "")]


def test_nesting_is_bounded() -> None:
    inside = MAX_DEPTH - 1
    assert told("kind: X\nb: " + "[" * inside + "]" * inside) == []
    assert told("kind: X\nb: " + "[" * (inside + 1) + "]" * (inside + 1)) == [(2, "", "Syntax")]


def test_a_million_lines_are_read_or_refused_in_bounded_memory() -> None:
    text = b"same: x\n" * 1_000_000
    tracemalloc.start()
    try:
        problems = read([Source("f", text)])[1]
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    assert len(problems) == 1001
    assert problems[-1].line == 1002


# --- nodes


def a_node(name: str, **metadata: object) -> dict[str, object]:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": f"uid-{name}", **metadata}, "status": {}}


MANAGED = [
    {
        "manager": "kubelet",
        "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/os": {}, "f:zone": {}}}},
    },
    {"manager": "kubelet", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {}}}},
    {"manager": "hullmark", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:zone": {}, "f:rack": {}}}}},
    {
        "manager": "hullmark",
        "operation": "Apply",
        "subresource": "status",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:status-only": {}}}},
    },
    {"manager": "hullmark", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:old": {}}}}},
]


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
@pytest.mark.parametrize("kind", ["List", "NodeList"])
def test_a_node_list_tells_labels_owners_and_versions(write, kind: str) -> None:
    item = a_node("n1", labels={"zone": "a"}, resourceVersion="7", managedFields=MANAGED)
    item["status"] = {"nodeInfo": {"kubeletVersion": "v1.35.4"}, "images": [{"names": ["x"]}]}
    [node] = read_nodes(Source("nodes", write({"kind": kind, "apiVersion": "v1", "items": [item]}).encode()))
    assert node == Node(
        name="n1",
        uid="uid-n1",
        labels={"zone": "a"},
        resource_version="7",
        owners={
            "kubernetes.io/os": ("kubelet",),
            "zone": ("hullmark", "kubelet"),
            "rack": ("hullmark",),
            "old": ("hullmark",),
            "status-only": ("hullmark",),
        },
        applied={"hullmark": frozenset({"zone", "rack"})},
        kubelet_version="v1.35.4",
        may_have_taints=False,
    )


def test_one_node_and_nodes_without_managed_fields_are_read_too() -> None:
    [node] = read_nodes(Source("n", json.dumps(a_node("n1")).encode()))
    assert (node.name, node.labels, node.owners, node.applied) == ("n1", {}, {}, {})
    assert read_nodes(Source("n", b'{"kind": "List", "items": []}')) == []


@pytest.mark.parametrize(("kind", "item"), [("List", {"apiVersion": "v1", "kind": "Pod"}), ("PodList", {})])
def test_a_list_of_something_else_is_no_list_of_nodes(kind: str, item: dict[str, str]) -> None:
    listing = {"kind": kind, "apiVersion": "v1", "items": [item | {"metadata": {"name": "p1", "labels": {"app": "x"}}}]}
    with pytest.raises(DocumentsRefused, match="Pod/p1 is no Node"):
        read_nodes(Source("n", json.dumps(listing).encode()))


def test_a_node_list_that_is_none_is_refused_with_lines() -> None:
    text = "kind: List\nitems:\n- kind: Pod\n  metadata: {name: p}\n- kind: Node\n  metadata:\n    name: n\n    labels:\n      a: 1\n"
    with pytest.raises(DocumentsRefused) as refused:
        read_nodes(Source("n", text.encode()))
    assert [(p.line, p.document, p.path, p.type) for p in refused.value.problems] == [
        (3, "Pod/p", "kind", "NotSupported"),
        (8, "Node/n", "metadata.labels", "Invalid"),
    ]


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_is_a_character() -> None:
    assert only(r'{"kind": "X", "a": "\ud83d\ude00"}')["a"] == "😀"
    assert told('{"kind": "X",\n "a": "\\ud83d"}') == [(2, "", "Syntax")]


# -- files as one stream

FILES = [
    "kind: A\n",
    "kind: A",
    "---\nkind: A\n---\nkind: B\n",
    "kind: A\n...\n",
    "kind: A\n...",
    "kind: A\n---\n",
    "# only a comment\nkind: A # and another",
    "%YAML 1.1\n---\nkind: A\n",
    "# first\n%YAML 1.1\n---\nkind: A\n...\n%YAML 1.1\n---\nkind: B\n",
    "\ufeffkind: A\n",
    "kind: A\ntext: |\n  a last line without its end",
    "kind: A\ntext: |+\n  kept\n\n\n",
    "kind: A\r\ntext: b\r\n",
    '{"kind": "A",\t"path": "a\\/b", "text": "\\ud83d\\ude00\\u007f\\u2028"}',
    '{"kind": "A"}\n',
    "",
    "# nothing\n",
]


@pytest.mark.parametrize("first", FILES)
@pytest.mark.parametrize("second", FILES)
def test_what_is_shown_of_several_files_reads_as_the_same_documents(first: str, second: str) -> None:
    files = [Source("one.yaml", first.encode()), Source("two: a\n# b.yaml", second.encode()), Source("three.yaml", b"kind: Z\n")]
    shown = as_stream(files)
    again, problems = read([Source("shown.yaml", shown.encode())])
    assert problems == []
    assert [document.data for document in again] == [document.data for document in read(files)[0]]
    assert as_stream([Source("shown.yaml", shown.encode())]).endswith(shown)


def test_what_cannot_be_read_is_shown_as_it_is() -> None:
    assert as_stream([Source("a.yaml", b"kind: [")]) == "---\n# a.yaml\nkind: [\n"
