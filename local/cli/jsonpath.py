"""`-o jsonpath=TEMPLATE`, as kubectl has it: text with `{.path}` in it, `{range .path[*]}…{end}` and `{"\\n"}`.

A library would bring JSONPath's other dialect, without templates. What is not there prints nothing, as with kubectl; a template that
can't be read is refused before anything is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple


class BadTemplate(Exception):
    """A template that can't be read; the text says where and why."""


Step = Callable[[Any], Iterator[Any]]
"""From one value to those that a step of a path leads to."""

_PART = re.compile(r"\{((?:[^{}\"']|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')*)\}")
_STEP = re.compile(
    r"""\.\.(?P<any>\*|(?:[\w/-]|\\.)+)
    | \.?\[\s*\?\(\s*@(?P<left>(?:[^=!<>"'()]|\\.)*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>"[^"]*"|'[^']*'|[^()\s]+)\s*)?\)\s*\]
    | \.?\[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]
    | \.?\[\s*(?P<index>\*|-?\d*(?::-?\d*){0,2}(?:\s*,\s*-?\d+)*)\s*\]
    | \.(?P<name>\*|(?:[\w/-]|\\.)+)
    | (?P<end>\.\Z)""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


class Part(NamedTuple):
    """A piece of a template: text, a path, or a loop over a path with parts of its own."""

    text: str = ""
    path: Sequence[Step] | None = None
    body: Sequence[Part] | None = None


def check(template: str) -> str:
    """The template itself. Raises BadTemplate where it can't be read."""
    _parsed(template)
    return template


def render(template: str, data: Any) -> str:
    """What a template makes of a value. Raises BadTemplate."""
    return "".join(_written(_parsed(template), json.loads(json.dumps(data, default=str))))


def _written(parts: Sequence[Part], value: Any) -> Iterator[str]:
    for part in parts:
        if part.path is None:
            yield part.text
        elif part.body is None:
            yield " ".join(map(_text, _follow(part.path, value)))
        else:
            for item in _follow(part.path, value):
                yield from _written(part.body, item)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parsed(template: str) -> list[Part]:
    whole: list[Part] = []
    open_: list[tuple[list[Part], list[Part], Sequence[Step]]] = []
    here, at = whole, 0
    for match in _PART.finditer(template):
        here.append(Part(_outside(template[at : match.start()], template)))
        at, inside = match.end(), match[1].strip()
        if inside == "end":
            if not open_:
                raise _wrong(template, "{end} without {range …}")
            outer, body, path = open_.pop()
            outer.append(Part(path=path, body=body))
            here = outer
        elif inside.startswith("range ") or inside == "range":
            open_.append((here, body := [], _path(inside.removeprefix("range").strip(), template)))
            here = body
        elif inside[:1] in ("'", '"'):
            here.append(Part(_unquoted(inside)))
        else:
            here.append(Part(path=_path(inside, template)))
    if open_:
        raise _wrong(template, "{range …} without {end}")
    here.append(Part(_outside(template[at:], template)))
    if not any(part.path is not None for part in whole):
        raise _wrong(template, "it has no path: write it in braces, such as {.nodes}")
    return whole


def _outside(text: str, template: str) -> str:
    if "{" in text or "}" in text:
        raise _wrong(template, "a brace or a quote that is not closed")
    return text


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def _path(text: str, template: str) -> list[Step]:
    steps: list[Step] = []
    at = 1 if text[:1] in ("$", "@") else 0
    if at == 0 and text[:1] not in (".", "["):
        raise _wrong(template, f"{text!r} is no path: it begins with a dot")
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise _wrong(template, f"{text!r} can't be read from {text[at:]!r} on")
        if not match["end"]:
            steps.append(_step(match, template))
        at = match.end()
    return steps


def _step(match: re.Match[str], template: str) -> Step:
    if match["any"] is not None:
        return _below(re.sub(r"\\(.)", r"\1", match["any"]))
    if match["left"] is not None:
        return _filter(_path(match["left"] or ".", template), match["operator"], match["right"])
    if match["quoted"] is not None:
        return _named(_unquoted(match["quoted"]))
    if match["index"] is not None:
        return _indexed(match["index"])
    name = match["name"]
    return _every if name == "*" else _named(re.sub(r"\\(.)", r"\1", name))


def _follow(steps: Sequence[Step], value: Any) -> Iterator[Any]:
    if not steps:
        yield value
        return
    for inner in steps[0](value):
        yield from _follow(steps[1:], inner)


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _named(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _below(name: str) -> Step:
    """`..name`: under this name at any depth, outermost first."""

    def step(value: Any) -> Iterator[Any]:
        yield from _every(value) if name == "*" else _named(name)(value)
        for inner in _every(value):
            yield from step(inner)

    return step


def _indexed(text: str) -> Step:
    if text == "*":
        return _every
    if ":" in text:
        cut = slice(*(int(number) if number else None for number in text.split(":")))
        return lambda value: iter(value[cut]) if isinstance(value, list) else iter(())
    wanted = [int(number) for number in text.split(",") if number.strip()]

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (value[index] for index in wanted if -len(value) <= index < len(value))

    return step


def _filter(path: Sequence[Step], operator: str | None, right: str | None) -> Step:
    """`[?(@.name=="a")]`, and `[?(@.name)]` for what has it."""
    wanted = _literal(right or "")

    def holds(item: Any) -> bool:
        there = list(_follow(path, item))
        if operator is None:
            return bool(there)
        try:
            return any(_COMPARE[operator](left, wanted) for left in there)
        except TypeError:
            return False

    return lambda value: (item for item in _every(value) if holds(item))


def _literal(text: str) -> Any:
    if text[:1] in ("'", '"'):
        return _unquoted(text)
    try:
        return json.loads(text)
    except ValueError:
        return text


def _wrong(template: str, why: str) -> BadTemplate:
    return BadTemplate(f"{template}: {why}")
