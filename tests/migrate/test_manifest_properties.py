"""Random manifests around the old keys: what is rewritten, and above all what is not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.manifests.findings import KUBERNETES, Renamings, examine

RENAMINGS = Renamings.of()
NEW = {renaming.old: renaming.new for renaming in KUBERNETES}
OLD_KEYS = st.sampled_from(sorted(NEW))
_SELECTING = ["nodeSelector", "selector", "matchLabels", "labels", "matchExpressions", "nodeSelectorTerms", "labelSelector", "topologyKey"]
_OTHERS = ["foo", "kind", "key", "value", "op", "path", "description", "example.com/pool"]
NAMES = st.sampled_from([*_SELECTING, *_OTHERS])
KEYS = st.one_of(NAMES, OLD_KEYS, st.sampled_from(sorted(NEW.values())))
TEXTS = st.one_of(
    OLD_KEYS,
    st.sampled_from(
        ["linux", "", "a: b", "# no comment", "x\ny\n", "été", "--sel=beta.kubernetes.io/os=linux", "{{ .Values.os }}", "'", '"']
    ),
    st.sampled_from(["/spec/nodeSelector/beta.kubernetes.io~1os", "/metadata/labels/beta.kubernetes.io~1os"]),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(TEXTS, st.none(), st.integers(0, 9), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)


@st.composite
def documents(draw: Any) -> Any:
    """A mapping; now and then one of its parts stands in it twice, which YAML writes as an anchor and an alias."""
    document = draw(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
    if draw(st.booleans()):
        part = draw(st.dictionaries(OLD_KEYS, st.just("linux"), min_size=1, max_size=2))
        for name in draw(st.lists(NAMES, min_size=2, max_size=3)):
            document[name] = part
    return document


LAYOUTS = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([True, False, None]),
        "width": st.sampled_from([20, 1000]),
        "indent": st.sampled_from([2, 4]),
        "default_style": st.sampled_from([None, '"', "'"]),
    }
)


def written(document: Any, layout: dict[str, Any], line_end: str = "\n") -> bytes:
    text: str = yaml.safe_dump(document, allow_unicode=True, sort_keys=False, **layout)
    return text.replace("\n", line_end).encode()


def differences(before: Any, after: Any) -> int:
    """Count the keys and values that became another, insisting that each is an old key become its new one."""
    if isinstance(before, dict):
        assert len(before) == len(after)
        return sum(differences(old, new) + differences(value, after[new]) for (old, value), new in zip(before.items(), after, strict=True))
    if isinstance(before, list):
        assert len(before) == len(after)
        return sum(differences(a, b) for a, b in zip(before, after, strict=True))
    if before == after:
        return 0
    assert NEW.get(before, before.replace("beta.kubernetes.io~1", "kubernetes.io~1")) == after
    return 1


@given(documents(), LAYOUTS, st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=400, deadline=None)
def test_only_findings_change_and_they_change_as_they_say(document: Any, layout: dict[str, Any], line_end: str) -> None:
    data = written(document, layout, line_end)
    examined = examine(data, RENAMINGS)
    before, after, at, shift = data.decode(), examined.data.decode(), 0, 0

    for finding in (f for f in examined.findings if f.action == "rewrite"):
        assert before[at : finding.start] == after[at + shift : finding.start + shift]
        assert after.startswith(finding.replacement, finding.start + shift)
        shift += len(finding.replacement) - (finding.end - finding.start)
        at = finding.end
    assert before[at:] == after[at + shift :]


@given(documents(), LAYOUTS)
@settings(max_examples=400, deadline=None)
def test_the_document_read_again_differs_only_in_old_keys_become_new(document: Any, layout: dict[str, Any]) -> None:
    data = written(document, layout)
    examined = examine(data, RENAMINGS)

    changed = differences(yaml.safe_load(data), yaml.safe_load(examined.data))

    assert changed >= sum(f.action == "rewrite" for f in examined.findings)  # an alias shows one change at several places


@given(documents(), LAYOUTS)
@settings(max_examples=300, deadline=None)
def test_a_second_run_rewrites_nothing_and_still_tells_what_is_left(document: Any, layout: dict[str, Any]) -> None:
    first = examine(written(document, layout), RENAMINGS)
    second = examine(first.data, RENAMINGS)

    assert second.data is first.data
    assert [f.old for f in second.findings] == [f.old for f in first.findings if f.action == "report"]


@given(st.dictionaries(KEYS, st.just("x"), max_size=6), LAYOUTS)
@settings(max_examples=200, deadline=None)
def test_a_node_selector_loses_every_old_key_that_has_no_rival(selector: dict[str, str], layout: dict[str, Any]) -> None:
    data = written({"spec": {"nodeSelector": selector}}, layout)

    after = yaml.safe_load(examine(data, RENAMINGS).data)["spec"]["nodeSelector"]

    assert list(after or {}) == [NEW[key] if key in NEW and NEW[key] not in selector else key for key in selector]


@given(documents(), st.sampled_from([2, 4]))
@settings(max_examples=500, deadline=None)
def test_a_template_is_never_rewritten_where_the_same_yaml_would_not_be(document: Any, indent: int) -> None:
    """The control line makes it unreadable as YAML; indentation alone must not be bolder than the structure."""
    data = written(document, {"default_flow_style": False, "indent": indent, "width": 1000})
    as_yaml = {(f.line, f.column) for f in examine(data, RENAMINGS).findings if f.action == "rewrite"}

    template = examine(b"{{- if .Values.on }}\n" + data + b"{{- end }}\n", RENAMINGS)

    assert {(f.line - 1, f.column) for f in template.findings if f.action == "rewrite"} <= as_yaml


@given(
    st.binary(max_size=200),
    st.sampled_from([b"beta.kubernetes.io/os", b"nodeSelector:\n  beta.kubernetes.io/os: linux"]),
    st.binary(max_size=50),
)
@settings(max_examples=300, deadline=None)
def test_no_bytes_are_too_strange_to_look_at(head: bytes, key: bytes, tail: bytes) -> None:
    examined = examine(head + key + tail, RENAMINGS)

    assert all(finding.line >= 1 and finding.column >= 1 for finding in examined.findings)


BLOCK = "{{- if .Values.a }}\nkind: Pod\nspec:\n  nodeSelector:\n    beta.kubernetes.io/os: {{ .x }}\n{{- end }}\n"
OF_ALIASES = "".join(f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 60))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        BLOCK * 2000,
        f"---\n{BLOCK}" * 2000,
        "{{- if x }}\nnodeSelector:\n" + "  k: {{ .v }}\n" * 2000 + "  beta.kubernetes.io/os: a\n" * 1000,
        "nodeSelector: " + "[" * 100_000 + "beta.kubernetes.io/os",
        f"b0: &b0 {{beta.kubernetes.io/os: x}}\n{OF_ALIASES}",
        "nodeSelector: &a [*a, *a, {beta.kubernetes.io/os: *a}]",
        "a: &a\n  <<: *a\n  beta.kubernetes.io/os: x\nnodeSelector: *a\n",
    ],
    ids=["one long template", "many templates", "a long block", "deep", "a bomb of aliases", "a cycle", "a mapping merged with itself"],
)
def test_no_text_keeps_us_for_long(text: str) -> None:
    assert examine(text.encode(), RENAMINGS).findings
