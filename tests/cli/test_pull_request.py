"""What a pull request shows: a plan as a comment, problems beside their lines."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from markdown_it import MarkdownIt

from local.cli.annotations import Finding, github, sarif
from local.cli.markdown import cell, code, plan_markdown
from shared.domain.documents.reading import Problem, Source
from shared.domain.labels.impact import Beyond
from shared.domain.labels.plans import Blocked, LabelPlan, NodePlan
from shared.domain.outcomes import Before
from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

Write = Callable[..., str]
COMMENT = 65_536
"""Characters that GitHub takes as one comment."""
NASTY = (
    "| a | b |",
    "<img src=x onerror=alert(1)>",
    "</details><script>",
    "`` ` ```",
    "`",
    "` <img src=x> `",
    "`` <img src=x> ``",
    "[click](https://evil.example)",
    "![x](https://evil.example/p.png)",
    "@everyone #1 https://evil.example www.evil.example a@evil.example",
    "one\n\n# two\r\n| --- |",
    "back\\|slash\\",
    "\u202egnp.exe",
    "*b* _i_ ~~s~~ &lt;b&gt;",
    " ",
)


def rendered(lines: Iterable[str]) -> str:
    """As HTML, the way the forges do: tables, and HTML let through."""
    page: str = MarkdownIt("commonmark", {"html": True}).enable("table").render("\n".join(lines))
    return page


def a_plan(**nodes: NodePlan) -> LabelPlan:
    return LabelPlan(revision=7, cluster="prod", server_version="v1.35.4", nodes=nodes, unchanged=3, missing=[], blocked={})


def a_change(to: dict[str, str] | None = None, gone: tuple[str, ...] = (), taken: tuple[str, ...] = (), **there: Before) -> NodePlan:
    return NodePlan(set=to or {}, remove=list(gone), from_=there, takeovers=list(taken), reasons={})


def test_removals_come_first_then_takeovers_then_the_change_of_most_nodes() -> None:
    mine = Before(value="mine", holders=["kubectl-label"])
    plan = a_plan(
        n1=a_change({"new": "1"}),
        n2=a_change({"new": "1", "team": "x"}, taken=("team",), team=mine),
        n3=a_change(gone=("old",), old=Before(value="v")),
    )
    text = "\n".join(plan_markdown(plan))
    rows = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert rows == [["| **remove**", "`old`"], ["| **take over**", "`team`"], ["| set", "`new`"]]
    assert "| **take over** | `team` | `mine` | `x` | `kubectl-label` | 1: `n2` |" in text
    assert "**3 nodes to change**, 1 lose labels, 1 have others' values replaced, 3 unchanged. Revision 7." in text


def test_what_nothing_can_carry_out_and_what_a_limit_blocks_is_shown() -> None:
    plan = a_plan(n1=a_change({"k": "v"})).model_copy(
        update={
            "blocked": {"n2": Blocked(outcome="failed", reason="Conflict", message="k is 'a' by b")},
            "beyond": Beyond(reason="TooManyRemovals", message="it removes labels from 4 of 4 nodes"),
            "missing": ["n9"],
        }
    )
    text = "\n".join(plan_markdown(plan))
    assert "1 missing, 1 blocked" in text
    assert "| `Conflict` | 1: `n2` | `k is 'a' by b` |" in text
    assert "Beyond the limits** (`TooManyRemovals`)" in text
    assert "1 node declared but not in the cluster" in text


@pytest.mark.parametrize("text", NASTY)
def test_no_text_of_a_document_or_cluster_is_markdown_or_html(text: str) -> None:
    plain = rendered(plan_markdown(hostile("plain")))
    found = rendered(plan_markdown(hostile(text)))
    assert tags(found) == tags(plain), "the structure is the same, whatever the texts say"


def hostile(text: str) -> LabelPlan:
    """A plan in which everything that others may choose is this text."""
    there = Before(value="v", holders=[text])
    return LabelPlan(
        revision=None,
        cluster=text,
        server_version=text,
        nodes={text: NodePlan(set={"k": text}, remove=["gone"], from_={"gone": there}, takeovers=[], reasons={"k": text}, conflict=text)},
        unchanged=0,
        missing=[text],
        blocked={text: Blocked(outcome="failed", reason=text, message=text)},
        beyond=Beyond(reason=text, message=text),
    )


def tags(page: str) -> list[str]:
    """The elements of a page in order, without code spans: an empty text has none."""
    return [tag for tag in re.findall(r"<[^>]*>", page) if tag not in ("<code>", "</code>")]


def inside(page: str) -> str:
    return page.partition("<code>")[2].partition("</code>")[0]


@pytest.mark.parametrize("text", [text for text in NASTY if text.strip()])
def test_a_code_span_shows_the_text_itself(text: str) -> None:
    shown = html.unescape(inside(rendered([f"x {code(text)}"])))
    assert shown.split() == "".join(letter if letter.isprintable() else " " for letter in text).split()
    row = rendered(["| a | b |", "| --- | --- |", f"| {cell(text)} | end |"])
    assert row.count("<td") == 2
    assert "<td>end</td>" in row


def test_a_plan_of_a_great_fleet_fits_a_comment() -> None:
    long = "n" * 240
    nodes = {f"{long}{number}": a_change({f"key-{number % 300}": f"v{number}"}, (f"old-{number % 7}",)) for number in range(5000)}
    plan = a_plan(**nodes)
    plan = plan.model_copy(update={"missing": [f"{long}{number}" for number in range(5000)]})
    plan = plan.model_copy(
        update={"blocked": {f"b{number}": Blocked(outcome="failed", reason="R", message=f"{number} " * 500) for number in range(500)}}
    )
    text = "\n".join(plan_markdown(plan))
    assert len(text) < COMMENT
    assert "more changes: `hullmark plan` on the command line lists them" in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_a_label_of_the_drift_says_who_and_when() -> None:
    at = datetime(2026, 11, 20, 3, 4, 5, tzinfo=UTC)
    plan = a_plan(n1=a_change({"rack": "r7"}, rack=Before(value="r9", holders=["kubectl-label"], at=at)), n2=a_change({"rack": "r7"}))
    text = "\n".join(plan_markdown(plan.model_copy(update={"released": True})))
    assert "| change | `rack` | `r9` | `r7` | `kubectl-label` | 1: `n1` | 2026-11-20 03:04 UTC |" in text
    assert "| missing | `rack` | (none) | `r7` |  | 1: `n2` | not recorded |" in text
    assert "**2 nodes drifted**" in text


def test_plan_prints_the_comment_and_exits_as_for_any_form(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    file = site(a_policy("racks", {"names": ["n1"]}, {"rack": "r7"}))
    ran = hullmark("plan", "-f", file, "--nodes", nodes(n1={"rack": "r1"}), "-o", "markdown")
    assert ran.code == 2
    assert ran.out.startswith("<!-- hullmark plan -->\n### Hullmark: plan for cluster `default`\n")
    assert "| `rack` | `r1` | `r7` | `kubelet` | 1: `n1` | `declared by NodeLabelPolicy/racks` |" in ran.out
    assert "These documents are not committed." in ran.out
    settled = hullmark("plan", "-f", file, "--nodes", nodes(n1={"rack": "r7"}), "-o", "markdown")
    assert (settled.code, "**Nothing to change**, 1 unchanged." in settled.out) == (0, True)


BAD = """\
apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata:
  name: racks
spec:
  nodes: {}
  lables: {rack: r7}
"""
SHAPE: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string", "format": "uri"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": {"$ref": "#/$defs/text"},
                                                "help": {"$ref": "#/$defs/text"},
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "items": {
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"$ref": "#/$defs/text"},
                                "locations": {
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "required": ["uri"],
                                                        "properties": {"uri": {"format": "uri-reference"}},
                                                    },
                                                    "region": {
                                                        "additionalProperties": False,
                                                        "properties": {
                                                            name: {"type": "integer", "minimum": 1}
                                                            for name in ("startLine", "startColumn", "endColumn")
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    }
                                },
                            },
                        }
                    },
                },
            },
        },
    },
    "$defs": {"text": {"type": "object", "required": ["text"], "additionalProperties": False, "properties": {"text": {"type": "string"}}}},
}
"""What SARIF 2.1.0's schema requires of the parts that are used here."""


def test_sarif_has_a_rule_for_each_type_and_a_place_for_each_problem(hullmark: Hullmark) -> None:
    Path("a folder").mkdir()
    Path("a folder/racks.yaml").write_text(BAD)
    ran = hullmark("validate", "-f", "a folder", "-o", "sarif")
    assert ran.code == 1
    jsonschema_rs.validate(SHAPE, ran.json, validate_formats=True)
    (run,) = ran.json["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {result["ruleId"] for result in run["results"]}
    unknown = next(result for result in run["results"] if result["ruleId"] == "Unknown")
    place = unknown["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "a%20folder/racks.yaml"},
        "region": {"startLine": 7, "startColumn": 3, "endColumn": 21},
    }
    assert "did you mean labels" in unknown["message"]["text"]


def test_sarif_of_valid_documents_has_no_results(hullmark: Hullmark, site: Write) -> None:
    ran = hullmark("validate", "-f", site(a_policy("racks", {}, {"rack": "r7"})), "-o", "sarif")
    assert (ran.code, ran.json["runs"][0]["results"]) == (0, [])


def test_github_shows_each_problem_at_its_line(hullmark: Hullmark) -> None:
    Path("racks.yaml").write_text(BAD)
    ran = hullmark("validate", "-f", "racks.yaml", "-o", "github")
    assert ran.code == 1
    assert "::error file=racks.yaml,line=7,col=3,endColumn=21,title=Unknown::NodeLabelPolicy/racks: spec.lables: " in ran.out


def test_no_text_ends_a_workflow_command_or_begins_another() -> None:
    file, message = "a:b,c%\n::warning::x.yaml", "100 % wrong\r\n::set-output name=x::y"
    told = list(github([Finding("error", Problem(file, 0, "K/n", "", "Syntax", message))], [Source(file, b"\xff: 1")]))
    where = "file=a%3Ab%2Cc%25%0A%3A%3Awarning%3A%3Ax.yaml,line=1,col=1,endColumn=1,title=Syntax"
    assert told == [f"::error {where}::K/n: 100 %25 wrong%0D%0A::set-output name=x::y"]
    jsonschema_rs.validate(SHAPE, sarif([Finding("warning", Problem(file, 0, "", "", "Odd", message))], []), validate_formats=True)


def test_the_nightly_report_of_drift_says_who_and_when_and_writes_nothing(
    hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={}, n2={})}")
    monkeypatch.setenv("HULLMARK_NOW", "2026-11-21T12:00:00Z")
    hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r7"})))
    hullmark("documents", "commit")
    hullmark("relabel", "--all")
    calm = hullmark("plan", "--released", "-o", "markdown")
    assert (calm.code, "**No drift**, 2 unchanged. Revision 1." in calm.out) == (0, True)

    monkeypatch.setenv("HULLMARK_NOW", "2026-11-22T01:02:03Z")
    hullmark("simulate", "label", "n1", "rack=r9", "--as", "a-colleague", "--no-event")
    hullmark("simulate", "label", "n2", "rack-", "--as", "a-colleague", "--no-event")
    drifted = hullmark("plan", "--released", "-o", "markdown")
    assert drifted.code == 2
    assert drifted.out.startswith("<!-- hullmark drift -->\n")
    assert "| **take over** | `rack` | `r9` | `r7` | `a-colleague` | 1: `n1` | 2026-11-22 01:02 UTC |" in drifted.out
    assert "| missing | `rack` | (none) | `r7` |  | 1: `n2` | not recorded |" in drifted.out
    assert hullmark("plan", "--released", "-o", "json").json["nodes"]["n1"]["from"]["rack"] == {
        "value": "r9",
        "holders": ["a-colleague"],
        "at": "2026-11-22T01:02:03Z",
    }
    assert "2026-11-22 01:02 UTC" in hullmark("plan", "--released").out
    assert hullmark("nodes", "n1", "-o", "json").json["nodes"]["n1"]["labels"]["rack"] == "r9", "a report writes nothing"
