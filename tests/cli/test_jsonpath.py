from __future__ import annotations

from typing import Any

import pytest

from local.cli.jsonpath import BadTemplate, render

PODS: Any = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "n": 1, "ready": True},
        {"metadata": {"name": "b"}, "n": 2, "ready": False, "parts": ["p", "q", "r"]},
    ],
    "nodes": {"n1": {"release": 3}, "n2": {"release": 4}},
}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{.kind}", "List"),
        ("kind is {.kind}", "kind is List"),
        ("{.items[*].metadata.name}", "a b"),
        ("{$.items[0].metadata.name}", "a"),
        ("{.items[-1].parts[0:2]}", "p q"),
        ("{.items[1].parts[0,2]}", "p r"),
        (r"{.items[0].metadata.labels.app\.kubernetes\.io/name}", "x"),
        ("{.items[0].metadata.labels['app.kubernetes.io/name']}", "x"),
        ("{['kind']}", "List"),
        ("{..name}", "a b"),
        ("{.items[?(@.n==2)].metadata.name}", "b"),
        ("{.items[?(@.n>1)].metadata.name}", "b"),
        ('{.items[?(@.metadata.name=="a")].n}', "1"),
        ("{.items[?(@.parts)].metadata.name}", "b"),
        ("{.items[?(@.ready==true)].metadata.name}", "a"),
        (r'{range .items[*]}{.metadata.name}{"\t"}{.n}{"\n"}{end}', "a\t1\nb\t2\n"),
        ("{range .items[*]}{range .parts[*]}<{@}>{end}{end}", "<p><q><r>"),
        ("{.nodes.*.release}", "3 4"),
        ("{.nodes.n1}", '{"release": 3}'),
        ("{.items[0].ready}", "true"),
        ("{.nothing.here[3]}", ""),
        ("{.kind[0]}{.items.name}", ""),
    ],
)
def test_a_template_says_what_kubectl_would(template: str, said: str) -> None:
    assert render(template, PODS) == said


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (".items", "in braces"),
        ("{items}", "begins with a dot"),
        ("{.items", "not closed"),
        ("{.items[}", "can't be read"),
        ("{range .items[*]}{.n}", "without {end}"),
        ("{.n}{end}", "without {range"),
        ("", "no path"),
        ('{"a}', "not closed"),
    ],
)
def test_a_template_that_cannot_be_read_says_where(template: str, why: str) -> None:
    with pytest.raises(BadTemplate, match=why):
        render(template, PODS)
