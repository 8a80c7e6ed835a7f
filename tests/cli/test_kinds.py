"""`hullmark schema KIND` for editors and `hullmark docs KIND` for people: both say what the validator takes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from local.cli.kinds import fields_of, schema_of
from local.steps import ROOT
from shared.domain.documents.kinds import KINDS, parsed
from shared.domain.documents.reading import Source, read
from tests.cli.conftest import Hullmark

HEAD = "apiVersion: hullmark.dev/v1\nmetadata: {name: a}\n"
EXAMPLES = [
    (file, document)
    for file in sorted((ROOT / "examples").rglob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
    if isinstance(document, dict) and document.get("kind") in KINDS
]
WRONG_SHAPE = [
    "kind: NodeLabelPolicy\n",
    "kind: NodeLabelPolicy\nspec: {labels: {a: true}}\n",
    "kind: NodeLabelPolicy\nspec: {labels: {a: 1}}\n",
    "kind: NodeLabelPolicy\nspec: {labels: [a]}\n",
    "kind: NodeLabelPolicy\nspec: {lables: {}}\n",
    "kind: NodeLabelPolicy\nspec: {priority: high}\n",
    "kind: NodeLabelPolicy\nspec: {nodes: {names: n1}}\n",
    "kind: NodeLabelPolicy\nspec: {nodes: {matchExpressions: [{key: a, operator: Has}]}}\n",
    "kind: NodeLabelPolicy\nspec: {onConflict: maybe}\n",
    "kind: LabelAliases\nspec: {pairs: [{primary: a}]}\n",
    "kind: LabelAliases\nspec: {pairs: [{primary: a, secondary: b, third: c}]}\n",
    "kind: Freeze\nspec: {from: '2026-12-20T00:00:00Z'}\n",
    "kind: GeneratedLabels\nspec: {from: shelf, key: a}\n",
    "kind: Cluster\nspec: {provider: other}\n",
    "kind: Cluster\nspec: [a]\n",
    "kind: Limits\nspec: {removal: 1}\n",
]
BEYOND_THE_SCHEMA = {
    "keys and values that Kubernetes refuses": "kind: NodeLabelPolicy\nspec: {labels: {'bad key': x}}\n",
    "protected keys": "kind: NodeLabelPolicy\nspec: {labels: {kubernetes.io/os: x}}\n",
    "rules between fields": "kind: LabelAliases\nspec: {pairs: [{primary: a, secondary: a}]}\n",
    "values where an operator takes none": "kind: NodeLabelPolicy\n"
    "spec: {nodes: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}\n",
    "numbers with a point": "kind: NodeLabelPolicy\nspec: {priority: 1.0}\n",
}
"""What the validator refuses and a schema does not say, as docs/documents.md lists it."""


def accepted(document: Any) -> bool:
    """Whether the schema of its kind takes it."""
    return bool(jsonschema.Draft202012Validator(schema_of(KINDS[document["kind"]])).is_valid(document))


def refused(text: str) -> bool:
    """Whether its kind's model refuses it."""
    [document], problems = read([Source("a.yaml", text.encode())])
    return bool(problems) or isinstance(parsed(document), list)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one(hullmark: Hullmark, kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(hullmark("schema", kind).json)


def test_the_schema_takes_what_the_examples_say() -> None:
    assert len(EXAMPLES) > 5
    assert [str(file) for file, document in EXAMPLES if not accepted(document)] == []


@pytest.mark.parametrize("text", WRONG_SHAPE)
def test_what_the_validator_refuses_for_its_shape_the_schema_refuses(text: str) -> None:
    assert refused(HEAD + text)
    assert not accepted(yaml.safe_load(HEAD + text))


@pytest.mark.parametrize("what", BEYOND_THE_SCHEMA)
def test_what_no_schema_says_is_named(hullmark: Hullmark, what: str, tmp_path: Any) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + BEYOND_THE_SCHEMA[what])
    assert hullmark("validate", "-f", "a.yaml").code == 1
    assert accepted(yaml.safe_load(HEAD + BEYOND_THE_SCHEMA[what]))
    assert what in (ROOT / "docs/documents.md").read_text()


def test_docs_has_every_field_with_its_type_and_what_is_said_of_it(hullmark: Hullmark) -> None:
    assert hullmark("docs", "-o", "name").out.split() == list(KINDS)
    told = hullmark("docs", "nodelabelpolicy").out
    assert "spec.nodes.matchExpressions[].operator <In | NotIn | Exists | DoesNotExist> required" in told
    assert "spec.labels <mapping of text>" in told
    fields = {field.path for field in fields_of(schema_of(KINDS["NodeLabelPolicy"]))}
    assert {"apiVersion", "metadata.name", "spec.clusters.matchLabels", "spec.exclude.names", "spec.onConflict"} <= fields
    assert json.loads(hullmark("docs", "Freeze", "-o", "json").out)["kind"] == "Freeze"


def test_a_kind_that_is_none_is_told_with_the_nearest(hullmark: Hullmark) -> None:
    ran = hullmark("schema", "Freezes")
    assert (ran.code, "did you mean Freeze?" in ran.err) == (1, True)
