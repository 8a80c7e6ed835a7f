"""`hullmark migrate` as people and CI run it: exit codes, forms of the answer, what is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from local.cli import main

POD = "kind: Pod\nspec:\n  nodeSelector:\n    beta.kubernetes.io/os: linux # kept\n"
SERVICE = "kind: Service\nspec:\n  selector:\n    beta.kubernetes.io/os: linux\n"
ZONE = "topologyKey: failure-domain.beta.kubernetes.io/zone\n"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ending:
            main(["migrate", *arguments])
        answer = capsys.readouterr()
        return int(ending.value.code or 0), answer.out, answer.err

    return command


def test_nothing_found_is_0_and_an_empty_list(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Pod\n")

    code, out, _ = run(".", "-o", "json")

    assert (code, json.loads(out)) == (0, {"findings": []})


def test_an_old_key_is_2_and_the_file_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)

    code, out, _ = run("a.yaml", "-o", "json")

    assert code == 2
    assert json.loads(out)["findings"] == [
        {
            "file": "a.yaml",
            "line": 4,
            "column": 5,
            "old": "beta.kubernetes.io/os",
            "new": "kubernetes.io/os",
            "action": "rewrite",
            "why": "nodeSelector",
        }
    ]
    assert (tmp_path / "a.yaml").read_text() == POD


def test_write_rewrites_and_ends_with_0_and_so_does_the_next_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)

    assert run("--write", ".")[0] == 0
    assert (tmp_path / "a.yaml").read_text() == POD.replace("beta.kubernetes.io/os", "kubernetes.io/os")
    assert run("--check", ".")[0] == 0


def test_write_ends_with_2_while_something_is_left_for_a_person(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{POD}---\n{SERVICE}")

    code, out, err = run("--write", ".")

    assert code == 2
    assert "./a.yaml:9:5: report: beta.kubernetes.io/os -> kubernetes.io/os (selector picks" in out
    assert "1 rewritten, 1 to review by hand" in err


@pytest.mark.parametrize(
    ("version", "rewritten"), [("1.13", 0), ("v1.14.9-gke.1", 0), ("1.15", 1), ("1.16.3", 1), ("1.17", 2), ("v1.35.4", 2), ("", 2)]
)
def test_each_key_waits_for_the_version_whose_nodes_carry_the_new_one(run: Run, tmp_path: Path, version: str, rewritten: int) -> None:
    (tmp_path / "a.yaml").write_text(POD + ZONE)

    _, out, _ = run("--write", "--target-version", version, "-o", "json", ".")

    assert [f["action"] for f in json.loads(out)["findings"]].count("rewrite") == rewritten
    assert (tmp_path / "a.yaml").read_text().count("beta.kubernetes.io") == 2 - rewritten


def test_a_pair_of_ones_own_is_migrated_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("nodeSelector: {example.com/rack: r1, rack: r2}\n")

    assert run("--pair", "example.com/rack=topology.example.com/rack", "--pair", "rack=example.com/row", "--write", ".")[0] == 0
    assert (tmp_path / "a.yaml").read_text() == "nodeSelector: {topology.example.com/rack: r1, example.com/row: r2}\n"


def test_the_pairs_of_a_labelaliases_document_count_secondary_to_primary(run: Run, tmp_path: Path) -> None:
    (tmp_path / "aliases.yml").write_text(
        "apiVersion: hullmark.dev/v1\nkind: LabelAliases\nmetadata: {name: p}\n"
        "spec: {pairs: [{primary: example.com/new, secondary: example.com/old, from: '1.20'}]}\n"
    )
    (tmp_path / "a.yaml").write_text("nodeSelector: {example.com/old: x}\n")

    assert run("-f", "aliases.yml", "--target-version", "1.19", "--write", "a.yaml")[0] == 0
    assert "example.com/old" in (tmp_path / "a.yaml").read_text()
    assert run("-f", "aliases.yml", "--write", "a.yaml")[0] == 0
    assert (tmp_path / "a.yaml").read_text() == "nodeSelector: {example.com/new: x}\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--pair", "a=b", "--pair", "b=c", "."], "name the last one"),
        (["--pair", "a=a", "."], "follow itself"),
        (["--pair", "a=b c", "."], "not a label key"),
        (["--pair", "a", "."], "OLD=NEW"),
        (["--pair", "a=b", "--pair", "a=c", "."], "keep one"),
        (["--write", "--check", "."], "--check writes nothing"),
        ([], "say where to look"),
        (["--target-version", "soon", "."], "not a cluster version"),
        (["missing.yaml"], "missing.yaml"),
    ],
)
def test_what_cannot_be_done_is_1_and_says_why(run: Run, arguments: list[str], text: str) -> None:
    code, _, err = run(*arguments)

    assert code == 1
    assert text in err


def test_labelaliases_that_are_wrong_are_refused_with_file_and_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "aliases.yml").write_text(
        "apiVersion: hullmark.dev/v1\nkind: LabelAliases\nmetadata: {name: p}\n"
        "spec:\n  pairs:\n  - {primary: a, secondary: a}\n  - {primary: b}\n"
    )

    code, out, _ = run("-f", "aliases.yml", ".", "-o", "json")

    assert code == 1
    assert [(problem["file"], problem["line"]) for problem in json.loads(out)["errors"]] == [("aliases.yml", 7)]


def test_a_file_that_cannot_be_read_is_an_error_and_the_others_are_still_migrated(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)

    code, _, err = run("--write", "gone.yaml", "a.yaml")

    assert code == 1
    assert "gone.yaml" in err
    assert "beta" not in (tmp_path / "a.yaml").read_text()


def test_a_file_named_twice_is_told_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)

    assert len(json.loads(run("a.yaml", "a.yaml", "-o", "json")[1])["findings"]) == 1


def test_a_script_named_outright_is_only_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("kubectl label node n1 beta.kubernetes.io/os-\nnodeSelector:\n  beta.kubernetes.io/os: linux\n")

    _, out, _ = run("--write", "run.sh", "-o", "json")

    assert {f["action"] for f in json.loads(out)["findings"]} == {"report"}


def test_yaml_holds_the_same_as_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD + ZONE)

    assert yaml.safe_load(run(".", "-o", "yaml")[1]) == json.loads(run(".", "-o", "json")[1])


def test_sarif_carries_the_fix_that_write_would_make(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a b.yaml").write_text(f"{POD}---\n{SERVICE}")

    code, out, _ = run(".", "-o", "sarif")
    (report,) = json.loads(out)["runs"]
    rewrite, left = report["results"]

    assert code == 2
    assert [rule["id"] for rule in report["tool"]["driver"]["rules"]] == ["beta.kubernetes.io/os"]
    assert rewrite["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "./a%20b.yaml"},
        "region": {"startLine": 4, "startColumn": 5, "endColumn": 26},
    }
    assert rewrite["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "kubernetes.io/os"}
    assert (rewrite["level"], left["level"], "fixes" in left) == ("warning", "note", False)


def test_live_objects_are_only_reported(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("kind: Pod\n")

    def live_objects(context: str, *, kubeconfig: str) -> list[tuple[str, bytes]]:
        return [(f"{context}:Pod/shop/p", POD.encode())]

    monkeypatch.setattr("local.manifests.live.live_objects", live_objects)

    _, out, _ = run("--context", "prod", "--write", "-o", "json")

    (finding,) = json.loads(out)["findings"]
    assert (finding["file"], finding["action"]) == ("prod:Pod/shop/p", "report")
    assert "change the manifest" in finding["why"]


TASKS = """\
# beta.kubernetes.io/os is old
- name: x
  description: pods with beta.kubernetes.io/os
  shell: kubectl get deploy x -o jsonpath='{.spec.template.spec.nodeSelector.beta\\.kubernetes\\.io/os}'
  command: ["-o", "jsonpath={.spec.nodeSelector.beta\\\\.kubernetes\\\\.io/os}"]
  other: '{.metadata.labels.my\\.beta\\.kubernetes\\.io/os}'
  nodeSelector:
    beta.kubernetes.io/os: linux # beta.kubernetes.io/os
    beta.kubernetes.io/arch: amd64 # hullmark: keep
    # hullmark: keep
    beta.kubernetes.io/instance-type: x
"""


def test_a_jsonpath_is_found_comments_are_counted_and_what_says_keep_is_left(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tasks.yml").write_text(TASKS)
    found = json.loads(run(str(tmp_path), "-o", "json")[1])["findings"]
    assert [(f["line"], f["action"]) for f in found] == [(4, "report"), (5, "report"), (8, "rewrite")]
    assert all("JSONPath" in f["why"] for f in found[:2])
    assert "3 more in comments and prose (--comments); 2 kept as a comment says" in run(str(tmp_path))[2]


def test_comments_and_prose_are_rewritten_on_request(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yml"
    file.write_text(TASKS)
    run(str(tmp_path), "--write")
    assert file.read_text() == TASKS.replace("    beta.kubernetes.io/os: linux", "    kubernetes.io/os: linux")
    run(str(tmp_path), "--write", "--comments")
    assert file.read_text() == TASKS.replace(" beta.kubernetes.io/os", " kubernetes.io/os")


@pytest.mark.parametrize("glob", ["vendor", "*.old.yaml", "vendor/*", "*/vendor", "team/vendor/"])
def test_what_is_excluded_is_passed_by(run: Run, tmp_path: Path, glob: str) -> None:
    for name in ("team/a.yaml", "team/vendor/b.old.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("nodeSelector: {beta.kubernetes.io/os: linux}\n")
    found = json.loads(run(str(tmp_path), "--exclude", glob, "-o", "json")[1])["findings"]
    assert [Path(f["file"]).name for f in found] == ["a.yaml"]


def test_a_file_named_for_an_old_version_is_a_warning(run: Run, tmp_path: Path) -> None:
    for name in ("k8s-1.14/a.yaml", "b-v1_13.yaml", "c-1.30.yaml", "app-2.1.14.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("nodeSelector: {beta.kubernetes.io/os: linux}\n")
    told = [line for line in run(str(tmp_path))[2].splitlines() if line.startswith("warning: ")]
    assert [line.partition(" is named for ")[2][:4] for line in told] == ["1.13", "1.14"]
