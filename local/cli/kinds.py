"""`hullmark schema KIND` and `hullmark docs KIND`: what a document may say, from the models that read it."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import click

from local.cli.output import Failure, emit, output_option_and
from shared.domain.documents import access, kinds
from shared.domain.documents.kinds import KINDS, HullmarkDocument, did_you_mean

Schema = dict[str, Any]
_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}


class Field(NamedTuple):
    """One field of a kind."""

    path: str
    type: str
    required: bool
    default: Any
    about: str


@click.command()
@click.argument("kind")
def schema(kind: str) -> None:
    """Print the JSON Schema of a KIND of document, for editors.

    It knows every field and its type. What `hullmark validate` finds beyond that, such as keys that Kubernetes refuses and rules between
    fields and documents, no schema says (docs/documents.md).
    """
    click.echo(json.dumps(schema_of(_known(kind)), indent=2, ensure_ascii=False))


@click.command()
@click.argument("kind", default="")
@output_option_and("name")
def docs(kind: str, form: str) -> None:
    """Show the fields of a KIND of document, as `kubectl explain` does; the kinds where none is named."""
    if not kind:
        about = {name: _about(model) for name, model in KINDS.items()}
        emit(form, {"kinds": about}, lambda: [f"{name:<18} {text}" for name, text in about.items()], about)
        return
    model = _known(kind)
    fields = list(fields_of(schema_of(model)))
    answer = {"kind": model.__name__, "about": _about(model), "fields": [field._asdict() for field in fields]}
    emit(form, answer, lambda: _lines(model, fields), [field.path for field in fields])


def _known(kind: str) -> type[HullmarkDocument]:
    """The model of a kind, however its letters are written. Raises Failure."""
    found = {name.lower(): model for name, model in KINDS.items()}.get(kind.lower())
    if found is None:
        hint = did_you_mean(kind, KINDS) or f": known are {', '.join(KINDS)}"
        raise Failure("UnknownKind", f"no kind {kind}{hint}; Gardener's and Airship's are described by their own projects")
    return found


def schema_of(model: type[HullmarkDocument]) -> Schema:
    """JSON Schema (2020-12) of a kind, with what the models say of their fields."""
    found: Schema = model.model_json_schema(by_alias=True)
    for name, definition in ({model.__name__: found} | found.get("$defs", {})).items():
        described = _described().get(name, {})
        for field, about in definition.get("properties", {}).items():
            about.pop("title", None)
            if field in described:
                about["description"] = described[field]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "description": _about(model)}


def _about(model: type[HullmarkDocument]) -> str:
    """What a kind is for; many leave that to their `spec`."""
    text = inspect.getdoc(model) or ""
    while text.startswith("See "):
        text = inspect.getdoc(getattr(kinds, text.removeprefix("See ").rstrip("."))) or ""
    return " ".join(text.split())


@functools.cache
def _described() -> Mapping[str, Mapping[str, str]]:
    """Class → field as documents write it → the text below it in the models' source."""
    return {name: texts for module in (kinds, access) for name, texts in _texts(module)}


def _texts(module: ModuleType) -> Iterator[tuple[str, Mapping[str, str]]]:
    from shared.domain.documents.strict import field_name

    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            below = zip(node.body, node.body[1:], strict=False)
            yield (
                node.name,
                {
                    field_name(field.target.id): " ".join(text.value.value.split())
                    for field, text in below
                    if isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                    and isinstance(text.value.value, str)
                },
            )


def fields_of(whole: Schema) -> Iterator[Field]:
    """Every field, outermost first; a list's items are `[]`."""
    yield from _fields(whole, whole.get("$defs", {}), "", ())


def _fields(schema: Schema, definitions: Mapping[str, Schema], prefix: str, inside: tuple[str, ...]) -> Iterator[Field]:
    for name, about in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        required = name in schema.get("required", ())
        yield Field(path, _type(about, definitions), required, about.get("default"), _text(about, definitions))
        for suffix, reference in _references(about):
            if reference not in inside:
                yield from _fields(definitions[reference], definitions, f"{path}{suffix}.", (*inside, reference))


def _references(about: Schema, suffix: str = "") -> Iterator[tuple[str, str]]:
    """The models below a field, and what stands between its name and theirs."""
    if "$ref" in about:
        yield suffix, about["$ref"].rpartition("/")[2]
    for one in (*about.get("anyOf", ()), *about.get("oneOf", ())):
        yield from _references(one, suffix)
    if isinstance(about.get("items"), dict):
        yield from _references(about["items"], f"{suffix}[]")
    if isinstance(about.get("additionalProperties"), dict):
        yield from _references(about["additionalProperties"], f"{suffix}.NAME")


def _type(about: Schema, definitions: Mapping[str, Schema]) -> str:
    if "$ref" in about:
        return _type(definitions[about["$ref"].rpartition("/")[2]], definitions)
    if options := [*about.get("anyOf", ()), *about.get("oneOf", ())]:
        words = dict.fromkeys(_type(option, definitions) for option in options)
        return " or ".join(word for word in words if word != "null")
    if "const" in about:
        return str(about["const"])
    if "enum" in about:
        return " | ".join(map(str, about["enum"]))
    if about.get("type") == "array":
        return f"list of {_type(about.get('items', {}), definitions)}"
    if about.get("type") == "object":
        values = about.get("additionalProperties")
        return f"mapping of {_type(values, definitions)}" if isinstance(values, dict) else "mapping"
    return _TYPES.get(str(about.get("type")), "anything")


def _text(about: Schema, definitions: Mapping[str, Schema]) -> str:
    """What is said of a field, else of the model behind it."""
    if about.get("description"):
        return str(about["description"])
    model = next((reference for _, reference in _references(about)), None)
    return " ".join(str(definitions[model].get("description", "")).split()) if model else ""


def _lines(model: type[HullmarkDocument], fields: Iterable[Field]) -> Iterator[str]:
    yield f"{model.__name__} (hullmark.dev/v1)"
    yield from textwrap.wrap(_about(model), 78)
    yield ""
    for field in fields:
        plain = field.default not in (None, "", [], {}) and not isinstance(field.default, dict)
        more = " required" if field.required else f" default {json.dumps(field.default)}" if plain else ""
        yield f"{field.path} <{field.type}>{more}"
        yield from textwrap.wrap(field.about, 74, initial_indent="    ", subsequent_indent="    ")
