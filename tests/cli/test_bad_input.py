"""What bad input gets: a clear error that says where and what to do, exit code 1, nothing half done."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

Write = Callable[..., str]
GOOD = a_policy("racks", {"names": ["n1"]}, {"rack": "r7"})


def errors(hullmark: Hullmark, text: str | bytes) -> list[tuple[int, str, str]]:
    """Line, path and message of each error of this file."""
    Path("bad.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = hullmark("validate", "-f", "bad.yaml", "-o", "json")
    assert ran.code == 1, ran.out
    assert "Traceback" not in ran.err
    return [(error["line"], error["path"], error["message"]) for error in ran.json["errors"]]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicie\nmetadata: {name: a}\nspec: {labels: {a: b}}\n", 2, "NodeLabelPolicy"),
        ("apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: a}\nspec:\n  lables: {a: b}\n", 5, "labels"),
        ("apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: a}\nspec:\n  labels: {a: 1}\n", 5, "text"),
        ("apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: a}\nspec:\n  labels: {a: 'b c'}\n", 5, "label value"),
        (
            "apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: a}\nspec:\n  labels:\n    kubernetes.io/os: x\n",
            6,
            "protected",
        ),
        ("a: b\n c: d\n", 2, ""),
        (b"\x00\x01\x02\xff\xfe binary", 1, ""),
        (b"apiVersion: \xff\n", 1, ""),
    ],
)
def test_a_document_that_is_wrong_is_told_with_its_line(hullmark: Hullmark, text: str | bytes, line: int, says: str) -> None:
    found = errors(hullmark, text)
    assert found[0][0] == line
    assert says in found[0][2]


def test_a_yaml_bomb_is_refused_without_being_expanded(hullmark: Hullmark) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    assert errors(hullmark, bomb)


def test_a_million_lines_are_read_and_judged(hullmark: Hullmark) -> None:
    text = "schema: other/Thing/v1\nmetadata: {name: big, schema: metadata/Document/v1}\ndata:\n" + "  - x\n" * 1_000_000
    Path("big.yaml").write_text(text)
    assert hullmark("validate", "-f", "big.yaml", "-o", "json").json["valid"] is True


@pytest.mark.parametrize("command", [("labels",), ("plan", "--nodes", "n.json"), ("select", "--filter", "f.yaml"), ("documents", "stage")])
def test_documents_that_are_refused_get_the_same_answer_from_every_command(
    hullmark: Hullmark, nodes: Write, command: tuple[str, ...]
) -> None:
    nodes(n1={})
    os.rename("nodes.json", "n.json")
    Path("f.yaml").write_text("null\n")
    Path("bad.yaml").write_bytes(b"kind: \xff")
    ran = hullmark(*command, "-f", "bad.yaml", "-o", "json")
    assert ran.code == 1
    assert ran.json["valid"] is False
    assert ran.json["errors"][0]["file"] == "bad.yaml"


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b"\xff\x00",
        b"filter_set_type: union\nfilter_set_type: intersection\n",
        b"null\n---\nnull\n",
        b"!!python/object/apply:os.system [id]",
    ],
)
def test_a_filter_that_is_no_yaml_is_told_like_documents(hullmark: Hullmark, site: Write, text: bytes) -> None:
    Path("filter.yaml").write_bytes(text)
    ran = hullmark("select", "-f", site(GOOD), "--filter", "filter.yaml", "-o", "json")
    assert ran.code == 1
    assert "filter.yaml" in str(ran.json["errors"])


def test_a_refused_commit_says_the_same_and_makes_no_revision(hullmark: Hullmark, site: Write) -> None:
    hullmark("documents", "stage", "-f", site(a_policy("p", {}, {"a": "b c"})))
    ran = hullmark("documents", "commit", "-o", "json")
    assert (ran.code, ran.json["valid"]) == (1, False)
    assert hullmark("documents", "list", "-o", "json").json["revisions"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["validate"], "give -f"),
        (["validate", "-f", "nowhere.yaml"], "nowhere.yaml: No such file"),
        (["labels", "-f", "site.yaml", "stranger"], "stranger"),
        (["plan", "-f", "site.yaml", "--nodes", "nowhere.json"], "nowhere.json"),
        (["plan", "-f", "site.yaml", "--nodes", "nodes.json", "--target", "n1,nobody"], "nobody"),
        (["plan", "-f", "site.yaml"], "HULLMARK_CLUSTER"),
        (["select", "-f", "site.yaml", "--filter", "filter.yaml"], "node_names"),
        (["relabel"], "--all"),
        (["relabel", "n1"], "no committed documents"),
        (["relabel", " , "], "no node"),
        (["actions", "show", "../x"], "no action ../x"),
        (["plan", "-f", "clusters.yaml", "--cluster", "estwood"], "there: east, west"),
        (["actions", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"], "no action 01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        (["documents", "commit"], "nothing is staged"),
        (["documents", "show", "3"], "no revision 3"),
        (["documents", "stage", "-f", "site.yaml", "-c", "a/b"], "'a/b' is not a valid collection name"),
        (["validate", "-f", "site.yaml", "--now", "yesterday"], "yesterday"),
        (["relabel", "--plan", "site.yaml"], "not a plan"),
        (["plan", "-o", "xml"], "xml"),
    ],
)
def test_a_mistake_on_the_command_line_is_told_in_a_line(
    hullmark: Hullmark, site: Write, nodes: Write, arguments: list[str], says: str
) -> None:
    site(GOOD)
    nodes(n1={})
    Path("filter.yaml").write_text("filter_set_type: union\nfilter_set:\n- filter_type: union\n  node_names: n1\n")
    site(
        *(
            {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"access": {"inCluster": {}}}}
            for name in ("east", "west")
        ),
        name="clusters.yaml",
    )
    ran = hullmark(*arguments)
    assert ran.code == 1
    assert says in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    if "xml" not in arguments:
        as_json = hullmark(*arguments, "-o", "json")
        assert as_json.code == 1
        assert as_json.json


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("STORE", "http://x", "HULLMARK_STORE"),
        ("BUS", "kafka", "HULLMARK_BUS"),
        ("CLUSTER", "minikube", "HULLMARK_CLUSTER"),
        ("CLUSTER", "kubeconfig:/nowhere/config", "/nowhere/config"),
        ("CLUSTER", "simulated:/nowhere.json", "/nowhere.json"),
        ("NOW", "tomorrow", "HULLMARK_NOW"),
        ("IN_FLIGHT", "many", "HULLMARK_IN_FLIGHT"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    hullmark: Hullmark, site: Write, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(f"HULLMARK_{name}", value)
    ran = hullmark("plan", "-f", site(GOOD))
    assert ran.code == 1
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_an_unreachable_cluster_is_told_before_anything_is_accepted(
    hullmark: Hullmark, site: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("config").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    monkeypatch.setenv("HULLMARK_CLUSTER", "kubeconfig:config")
    hullmark("documents", "stage", "-f", site(GOOD))
    hullmark("documents", "commit")
    ran = hullmark("relabel", "--all", "-o", "json")
    assert ran.code == 1
    assert "127.0.0.1:1" in ran.err
    assert ran.json["errors"][0]["reason"] == "Unavailable"
    assert hullmark("actions", "list", "-o", "json").json == {"actions": []}


def test_a_disk_without_room_is_told_and_leaves_the_buffer_empty(hullmark: Hullmark, site: Write, tmp_path: Path) -> None:
    site(GOOD)
    script = Path(sys.executable).with_name("hullmark")
    ran = subprocess.run(
        [script, "documents", "stage", "-f", "site.yaml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16)),
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: store file:.hullmark: create staged/default/000001.json")
    assert hullmark("documents", "list", "-o", "json").json["staged"] == []


def test_an_action_that_is_only_half_there_is_told_and_hides_no_other(
    hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={})}")
    hullmark("documents", "stage", "-f", site(GOOD))
    hullmark("documents", "commit")
    gone, there = (hullmark("relabel", "--all", "-o", "json").json["id"] for _ in range(2))
    Path(f".hullmark/actions/{gone}/request.json").unlink()
    assert [each["id"] for each in hullmark("actions", "list", "-o", "json").json["actions"]] == [gone, there]
    ran = hullmark("actions", "show", gone, "-o", "json")
    assert (ran.code, ran.json["name"], ran.json["result"]) == (0, "unreadable", "success")


def test_a_store_that_cannot_be_written_is_told(hullmark: Hullmark, site: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_STORE", "file:/proc/hullmark")
    ran = hullmark("documents", "stage", "-f", site(GOOD))
    assert ran.code == 1
    assert "file:/proc/hullmark" in ran.err


def test_a_half_written_store_is_told_with_the_object(
    hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={})}")
    hullmark("documents", "stage", "-f", site(GOOD))
    hullmark("documents", "commit")
    (shard,) = Path(".hullmark").rglob("nodes/00000.json")
    shard.write_text('{"n1": {')
    ran = hullmark("relabel", "--all")
    assert ran.code == 1
    assert "nodes/00000.json in the store can't be read: JSONDecodeError" in " ".join(ran.out.split())


# --- what is no file of documents


def fifo(name: str) -> None:
    os.mkfifo(name)


def endless(name: str) -> None:
    Path(name).symlink_to("/dev/zero")


def loop(name: str) -> None:
    Path(name).symlink_to(Path(name).name)


def gone(name: str) -> None:
    Path(name).symlink_to("gone.txt")


def ten_gigabytes(name: str) -> None:
    with open(name, "wb") as file:
        file.truncate(10 << 30)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("made", "says"),
    [(fifo, "not a regular file"), (endless, "not a regular file"), (loop, "symbolic links"), (ten_gigabytes, "larger than 256")],
)
@pytest.mark.parametrize(
    "command",
    [("validate", "-f"), ("plan", "-f"), ("documents", "stage", "-f"), ("relabel", "--filter"), ("relabel", "--plan"),
     ("webhook", "check", "-f"), ("versions", "plan", "-f")],
)  # fmt: skip
def test_what_is_no_file_is_an_error_and_never_a_wait(
    hullmark: Hullmark, command: tuple[str, ...], made: Callable[[str], None], says: str
) -> None:
    made("x.yaml")
    ran = hullmark(*command, "x.yaml")
    assert ran.code == 1
    assert ran.err.startswith("error: x.yaml: ")
    assert says in ran.err


@pytest.mark.timeout(60)
def test_a_listing_of_nodes_and_a_manifest_are_files_too(hullmark: Hullmark, site: Write) -> None:
    fifo("pipe.yaml")
    site(GOOD)
    assert "pipe.yaml: not a regular file" in hullmark("plan", "-f", "site.yaml", "--nodes", "pipe.yaml").err
    assert "pipe.yaml: not a regular file" in hullmark("migrate", "pipe.yaml", "--check").err
    assert "/dev/zero: not a regular file" in hullmark("migrate", "/dev/zero", "--check").err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("made", [fifo, loop, gone])
def test_a_file_of_a_folder_that_cannot_be_read_is_not_passed_over(hullmark: Hullmark, site: Write, made: Callable[[str], None]) -> None:
    """What is missing from the documents counts as removed, and its labels with it."""
    Path("site").mkdir()
    site(GOOD, name="site/good.yaml")
    made("site/more.yaml")
    ran = hullmark("documents", "stage", "-f", "site")
    assert (ran.code, ran.err.partition(": ")[2].partition(": ")[0]) == (1, "site/more.yaml")
    assert not Path(".hullmark").exists()


def test_a_folder_that_cannot_be_listed_is_not_passed_over(hullmark: Hullmark, site: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("site/closed").mkdir(parents=True)
    site(GOOD, name="site/good.yaml")
    scan = os.scandir

    def refuses(path: str) -> object:
        if path == "site/closed":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuses)  # tests may run as root, who may list everything
    ran = hullmark("validate", "-f", "site")
    assert (ran.code, ran.err) == (1, "error: site/closed: Permission denied\n")


def test_a_folder_named_like_a_file_is_walked_and_an_editors_lock_is_no_document(hullmark: Hullmark, site: Write) -> None:
    Path("site/x.yaml").mkdir(parents=True)
    site(GOOD, name="site/x.yaml/in.yaml")
    Path("site/.#in.yaml").symlink_to("ada@host.4711:1")
    ran = hullmark("validate", "-f", "site", "-o", "json")
    assert (ran.code, ran.json["valid"]) == (0, True)


def test_a_pipe_that_the_shell_holds_open_is_read(hullmark: Hullmark) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"- nonsense")
    os.close(writing)
    try:
        assert "a document is a mapping" in hullmark("validate", "-f", f"/dev/fd/{reading}").out
    finally:
        os.close(reading)


# --- settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NOW", "0001-01-01T00:00:00+14:00"),
        ("ACTION_SECONDS", "0"),
        ("ACTION_SECONDS", "inf"),
        ("IN_FLIGHT", "0"),
        ("WRITES_PER_SECOND", "nan"),
        ("WRITES_PER_SECOND", "-1"),
        ("IDENTITY", "iap"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_by_its_name(
    hullmark: Hullmark, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"HULLMARK_{variable}", value)
    ran = hullmark("documents", "list")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: HULLMARK_{variable}")
    assert "Value error" not in ran.err


def test_a_time_outside_of_the_calendar_is_refused(hullmark: Hullmark, site: Write) -> None:
    assert "is no RFC 3339 time" in hullmark("validate", "-f", site(GOOD), "--now", "0001-01-01T00:00:00+14:00").err


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: @x\n", 1, "a value can't begin with this character (@, `, %): put the text in quotes"),
        ("a: [1,\n  2\nb: c\n", 3, "a list in [ ], begun in line 1, lacks a comma or its ]"),
        ("a: {b: c\nd: e\n", 2, "a mapping in { }, begun in line 1, lacks a comma or its }"),
        ('a: "x\n', 2, "a quote, begun in line 1, is never closed"),
        ('a: "\\q"\n', 1, "an escape that YAML does not know"),
        ("a: b: c\n", 1, "a colon where no key can stand"),
        ("a: b\n- c\n", 2, "this line fits neither into the mapping, begun in line 1, nor below it"),
        ("- a\nb: c\n", 2, "this line fits neither into the list, begun in line 1, nor below it"),
        ("a: &\n", 1, "an anchor (&) without a name"),
        ('{"a": "b"}\n{', 2, "put --- between two documents"),
    ],
)
def test_what_is_no_yaml_is_told_in_words_and_not_in_the_parsers(hullmark: Hullmark, text: str, line: int, says: str) -> None:
    assert [(at, says in message) for at, _, message in errors(hullmark, text) if "not YAML" in message] == [(line, True)]


def test_a_value_of_a_wrong_type_hides_no_other_problem_of_its_document(hullmark: Hullmark) -> None:
    text = """\
apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {name: p}
spec:
  prioriti: 3
  nodes: {names: [n1, 2, 3], matchLabels: {"x y": z}}
  labels:
    dry: true
    "bad key": x
    kubernetes.io/os: linux
    spare: 3
"""
    assert [(line, path) for line, path, _ in errors(hullmark, text)] == [
        (5, "spec.prioriti"),
        (6, "spec.nodes.names[1]"),
        (6, "spec.nodes.names[2]"),
        (6, "spec.nodes.matchLabels[x y]"),
        (8, "spec.labels.dry"),
        (9, "spec.labels[bad key]"),
        (10, "spec.labels[kubernetes.io/os]"),
        (11, "spec.labels.spare"),
    ]


def test_what_is_taken_out_of_a_document_says_nothing_about_others(hullmark: Hullmark) -> None:
    head = "apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: %s}\nspec: {nodes: {names: [n1]}, labels: {a: '%s'}, %s}\n"
    text = "---\n".join([head % ("p", "1", "priority: 0"), head % ("q", "2", "prioriti: 1")])
    assert [path for _, path, _ in errors(hullmark, text)] == ["spec.prioriti"]


def test_valid_documents_are_counted(hullmark: Hullmark, site: Write) -> None:
    file = site(GOOD)
    assert hullmark("validate", "-f", file).out == "valid: 1 document, 1 node named\n"
    assert {"documents": 1, "nodes": 1}.items() <= hullmark("validate", "-f", file, "-o", "json").json.items()


def test_an_address_where_nothing_listens_is_told_without_a_librarys_names(hullmark: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("kubeconfig").write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}"
    )
    monkeypatch.setenv("HULLMARK_CLUSTER", "kubeconfig:kubeconfig")
    alone = hullmark("nodes").err
    monkeypatch.setenv("HULLMARK_SERVER", "http://127.0.0.1:1")
    asked = hullmark("nodes").err
    monkeypatch.delenv("HULLMARK_SERVER")
    for said in (alone, asked):
        assert "127.0.0.1:1" in said
        assert "nothing listens there (connection refused)" in said
        assert not [word for word in ("Pool", "Errno", "object at", "Error:") if word in said]
    Path("kubeconfig").write_text("clusters: @x\n")
    assert "kubeconfig kubeconfig, line 1: not YAML: a value can't begin" in hullmark("nodes").err
