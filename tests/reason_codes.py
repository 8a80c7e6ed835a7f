"""Where the code says a reason: every CamelCase code that stands as the argument, field, key or result that holds one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

CODE = re.compile(r"[A-Z][a-z0-9]*(?:[A-Z]+[a-z0-9]*)*")
HOLDERS = ("reason", "code", "type_", "check", "stuck")
"""Parameters, fields, keys and variables that hold a reason."""
TYPED = ("Problem", "Flaw", "PairProblem", "PolicyFlaw")
"""Classes whose `type` is a reason."""
Found = Mapping[str, set[str]]


def said(modules: Mapping[str, ast.Module]) -> Found:
    """Each code, and the modules that say it."""
    places = _places(modules.values())
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules.items():
        for node in ast.walk(tree):
            for expression in _holding(node, places):
                for code in _codes(expression):
                    found[code].add(path)
    return found


def _places(trees: Iterable[ast.Module]) -> Mapping[str, set[int]]:
    """For each function and class of ours, the positions of its parameters that hold a reason."""
    places: dict[str, set[int]] = defaultdict(set)
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            fields = [item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
            maker = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
            named = _parameters(maker) if maker else fields
            held = (*HOLDERS, "type") if node.name in TYPED else HOLDERS
        elif isinstance(node, ast.FunctionDef):
            named, held = _parameters(node), HOLDERS
        else:
            continue
        places[node.name] |= {number for number, name in enumerate(named) if name in held}
    return places


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg not in ("self", "cls")]


def _holding(node: ast.AST, places: Mapping[str, set[int]]) -> Iterator[ast.expr]:
    """The expressions at this node that are reasons."""
    match node:
        case ast.Call(func=function, args=arguments, keywords=keywords):
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            yield from (each.value for each in keywords if each.arg in HOLDERS or (each.arg == "type" and name in TYPED))
            yield from (value for number, value in enumerate(arguments) if number in places.get(name, ()))
        case ast.Dict(keys=keys, values=values):
            yield from (v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value in HOLDERS)
        case ast.Assign(targets=targets, value=value):
            if any(getattr(each, "id", getattr(each, "attr", "")) in HOLDERS for each in targets):
                yield value
        case ast.Compare(left=left, comparators=[right]):
            if getattr(left, "attr", getattr(left, "id", "")) in HOLDERS:
                yield right
        case ast.Return(value=ast.Tuple(elts=elements)) | ast.Yield(value=ast.Tuple(elts=elements)):
            yield from elements
        case ast.keyword(arg="reason", value=value):
            yield value


def _codes(expression: ast.expr) -> Iterator[str]:
    match expression:
        case ast.Constant(value=str(text)) if CODE.fullmatch(text) and text.upper() != text:
            yield text
        case ast.IfExp(body=body, orelse=otherwise):
            yield from _codes(body)
            yield from _codes(otherwise)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _codes(value)
