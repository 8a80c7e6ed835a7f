"""The labels that somebody asks for on one node directly (Promenade's call): what is acceptable, and what becomes of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from shared.domain.keys import PROTECTED, key_error, value_error
from shared.domain.outcomes import Changes


def asked_for(body: Any) -> tuple[dict[str, str], list[str]]:
    """The labels of a request's body, and everything that is wrong with its form.

    `{"k": "v"}`, or `[{"key": "k", "value": "v"}]` (the specification's "list of labels"); an empty one asks for none.
    """
    if isinstance(body, Mapping):
        pairs = list(body.items())
    elif isinstance(body, list) and all(isinstance(entry, Mapping) and set(entry) == {"key", "value"} for entry in body):
        pairs = [(entry["key"], entry["value"]) for entry in body]
    else:
        return {}, ['labels are an object {"key": "value"}, or a list of {"key": …, "value": …}']
    problems = [f"{key!r}: a label key is a string" for key, _ in pairs if not isinstance(key, str)]
    problems += [f"{key}: a label value is a string, not {_json_name(value)}" for key, value in pairs if not isinstance(value, str)]
    keys = [key for key, _ in pairs if isinstance(key, str)]
    problems += [f"{key}: asked for twice" for key in sorted({key for key in keys if keys.count(key) > 1})]
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}, problems


def _json_name(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def refusals(labels: Mapping[str, str], allowed: Collection[str]) -> list[str]:
    """Why these labels can't be set: Kubernetes' rules, and protected keys that no LabelRules admits (docs/labels.md)."""
    problems = []
    for key, value in labels.items():
        if error := key_error(key):
            problems.append(f"{key!r}: {error}")
        elif key in PROTECTED and key not in allowed:
            problems.append(f"{key} is protected: the kubelet or the cloud sets it (a LabelRules document's allowProtected admits it)")
        if error := value_error(value):
            problems.append(f"{key!r}: {error}")
    return problems


def back_again(asked: Mapping[str, str], declared: Mapping[str, str]) -> Changes:
    """What the next relabel does to a node that carries what was asked for: it brings the documents' set back."""
    return Changes(
        set={key: value for key, value in sorted(declared.items()) if asked.get(key) != value},
        remove=sorted(key for key in asked if key not in declared),
    )
