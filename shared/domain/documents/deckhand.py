"""Deckhand's layering: documents that build on a parent in a higher layer (airshipit/deckhand, engine/layering.py; docs/airship.md §4).

A child names its parent by labels (`parentSelector`), among the documents of its schema in a higher layer, the nearest layer first.
Its actions are carried out on the parent's data, in order. A `replacement` takes its parent's place, also for the parent's other children.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.domain.documents.reading import Document, Path, Problem, path_text, type_name

DEFAULT_ORDER = ("global", "region", "type", "site")
"""The layers of a site that brings no LayeringPolicy: those of Airship's own sites."""
MAX_LAYERS = 100
METHODS = ("merge", "replace", "delete")

OWN: Any = object()
_WHERE = ("metadata", "layeringDefinition")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A document with its data as layering leaves it, and the documents that it was built on, nearest first."""

    document: Document
    built: Any = OWN
    """What layering made of its data; OWN where that is what it says itself."""
    ancestors: tuple[Document, ...] = ()

    @property
    def data(self) -> Any:
        """Its data as layering leaves it."""
        return self.document.data.get("data") if self.built is OWN else self.built

    def opened(self) -> Rendered:
        """The same with its data at hand, for who looks at it many times and then forgets it."""
        return Rendered(self.document, self.data, self.ancestors)

    @property
    def name(self) -> str:
        """The document's name."""
        return self.document.name

    def problem(self, path: Path, type_: str, message: str) -> Problem:
        """A problem at a path of the rendered data, told of the document that wrote it."""
        for document in (self.document, *self.ancestors):
            if _get(document.data, path) is not _MISSING:
                return document.problem(path, type_, message)
        return self.document.problem(path, type_, message)


def render(documents: Iterable[Document], policies: Iterable[Document], problems: list[Problem], warnings: list[Problem]) -> list[Rendered]:
    """The concrete documents (not abstract, not replaced), rendered. What cannot be rendered is told in `problems` and left out; a parent
    that is not there is told in `warnings`, and the document stands as it is.
    """
    return _Layering(list(documents), list(policies), problems, warnings).render()


class _Layering:
    def __init__(self, documents: list[Document], policies: list[Document], problems: list[Problem], warnings: list[Problem]) -> None:
        self.documents = documents
        self.problems = problems
        self.warnings = warnings
        self.order = _layer_order(policies, problems)
        self.rendered: dict[int, Rendered | None] = {}
        self.parents: dict[int, Document | None] = {}
        """By document: its parent; None where it cannot be told which. A document that stands as it is has no entry."""
        self.replaced: dict[int, Document] = {}
        self.labelled: dict[tuple[str, str, str], list[Document]] = {}
        self.parents_by_selector: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[Document]] = {}

    def render(self) -> list[Rendered]:
        layered = [
            document for document in self.documents if any(_metadata(document).get(name) for name in ("layeringDefinition", "replacement"))
        ]
        if not layered:
            return [Rendered(document) for document in self.documents]
        broken = {id(document) for document in layered if not self.is_well_formed(document)}
        if any(_definition(document).get("parentSelector") for document in layered):
            self.index()
            for document in layered:
                if id(document) not in broken:
                    self.find_parent(document)
        return [
            rendered
            for document in self.documents
            if id(document) not in broken
            and not _definition(document).get("abstract")
            and id(document) not in self.replaced
            and (rendered := self.of(document)) is not None
        ]

    def is_well_formed(self, document: Document) -> bool:
        problems = [document.problem((*_WHERE, *path), type_, message) for path, type_, message in _malformed(document, self.order)]
        for path, wanted in ((_WHERE, dict), (("metadata", "replacement"), bool)):
            value = _get(document.data, path)
            if value is not _MISSING and value is not None and not isinstance(value, wanted):
                problems.append(document.problem(path, "Invalid", f"must be {type_name(wanted())}, not {type_name(value)}"))
        self.problems += problems
        return not problems

    def index(self) -> None:
        for document in self.documents:
            labels = _labels(document)
            for key, value in labels.items():
                if isinstance(value, str):
                    self.labelled.setdefault((document.kind, key, value), []).append(document)

    def find_parent(self, document: Document) -> None:
        selector = _definition(document).get("parentSelector")
        if not selector:
            if _metadata(document).get("replacement") is True:
                message = "a replacement needs a parent: give `layeringDefinition.parentSelector`"
                self.problems.append(document.problem(("metadata", "replacement"), "Required", message))
            return
        parents = self.candidates(document, selector)
        told = ", ".join(f"{key}={value}" for key, value in selector.items())
        path = (*_WHERE, "parentSelector")
        match parents:
            case []:
                message = f"no {document.kind} in a higher layer has the labels {told}: the document stands as it is"
                self.warnings.append(document.problem(path, "NotFound", message))
            case [parent]:
                self.parents[id(document)] = parent
                self.check_replacement(document, parent)
            case _:
                self.parents[id(document)] = None
                named = ", ".join(f"{parent.name} ({parent.file}:{parent.line})" for parent in parents)
                self.problems.append(document.problem(path, "Invalid", f"{told} selects {len(parents)} parents, one is allowed: {named}"))

    def candidates(self, document: Document, selector: Mapping[str, str]) -> list[Document]:
        layer = str(_definition(document).get("layer"))
        key = (document.kind, layer, tuple(sorted(selector.items())))
        if key not in self.parents_by_selector:
            below = self.order.index(layer)
            lists = [self.labelled.get((document.kind, name, value), []) for name, value in selector.items()]
            matching = [
                (self.order.index(their), candidate)
                for candidate in min(lists, key=len)
                if (their := str(_definition(candidate).get("layer"))) in self.order[:below]
                and all(_labels(candidate).get(name) == value for name, value in selector.items())
            ]
            nearest = max((place for place, _ in matching), default=-1)
            self.parents_by_selector[key] = [candidate for place, candidate in matching if place == nearest]
        return self.parents_by_selector[key]

    def check_replacement(self, document: Document, parent: Document) -> None:
        same = document.name == parent.name
        path: Path = ("metadata", "replacement")
        if _metadata(document).get("replacement") is True:
            if not same:
                message = f"a replacement has its parent's name: the parent is {parent.name}"
                self.problems.append(document.problem(("metadata", "name"), "Invalid", message))
            elif id(parent) in self.replaced:
                other = self.replaced[id(parent)]
                message = f"{parent.name} is replaced by another document already ({other.file}:{other.line})"
                self.problems.append(document.problem(path, "Duplicate", message))
            elif _metadata(parent).get("replacement") is True:
                message = f"its parent ({parent.file}:{parent.line}) is a replacement itself: one level is allowed"
                self.problems.append(document.problem(path, "Invalid", message))
            else:
                self.replaced[id(parent)] = document
        elif same:
            message = f"its parent ({parent.file}:{parent.line}) has the same name: give it another, or `replacement: true`"
            self.problems.append(document.problem(("metadata", "name"), "Duplicate", message))

    def of(self, document: Document) -> Rendered | None:
        """The document rendered, after everything that it builds on; None where that is not possible (the problem is told)."""
        if id(document) not in self.rendered:
            self.rendered[id(document)] = None
            self.rendered[id(document)] = self.build(document)
        return self.rendered[id(document)]

    def build(self, document: Document) -> Rendered | None:
        if id(document) not in self.parents:
            return Rendered(document)
        parent = self.parents[id(document)]
        if parent is None:
            return None
        replacement = self.replaced.get(id(parent), parent)
        below = self.of(parent if replacement is document else replacement)
        if below is None:
            return None
        actions = _definition(document).get("actions") or []
        if not actions:
            return Rendered(document)
        own = document.data.get("data")
        data = below.data if below.data is not None else {}
        for number, action in enumerate(actions):
            try:
                data = _act(action["method"], action["path"], own if own is not None else {}, data)
            except _NoSuchPath as missing:
                path = (*_WHERE, "actions", number, "path")
                owner = "its parent" if action["method"] == "delete" else "this document"
                self.problems.append(document.problem(path, "NotFound", f"{action['method']} {action['path']}: {owner} {missing}"))
                return None
        return Rendered(document, data, (below.document, *below.ancestors))


def _metadata(document: Document) -> Mapping[str, Any]:
    metadata = document.data.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _definition(document: Document) -> Mapping[str, Any]:
    definition = _metadata(document).get("layeringDefinition")
    return definition if isinstance(definition, dict) else {}


def _labels(document: Document) -> Mapping[str, Any]:
    labels = _metadata(document).get("labels")
    return labels if isinstance(labels, dict) else {}


def _layer_order(policies: list[Document], problems: list[Problem]) -> tuple[str, ...]:
    problems += [
        extra.problem((), "Duplicate", f"a site has one LayeringPolicy: the other is at {policies[0].file}:{policies[0].line}")
        for extra in policies[1:]
    ]
    if not policies:
        return DEFAULT_ORDER
    data = policies[0].data.get("data")
    order = data.get("layerOrder") if isinstance(data, dict) else None
    if not isinstance(order, list) or not all(isinstance(layer, str) for layer in order):
        problems.append(policies[0].problem(("data", "layerOrder"), "Invalid", "must be a list of layers, the highest first"))
        return DEFAULT_ORDER
    if len(order) > MAX_LAYERS:
        problems.append(policies[0].problem(("data", "layerOrder"), "Invalid", f"has {len(order)} layers, {MAX_LAYERS} are allowed"))
        return DEFAULT_ORDER
    return tuple(order)


def _malformed(document: Document, order: tuple[str, ...]) -> Iterator[tuple[Path, str, str]]:
    definition = _definition(document)
    layer = definition.get("layer")
    selector = definition.get("parentSelector")
    if layer is not None or selector:
        if not isinstance(layer, str):
            yield ("layer",), "Required", f"a document with a parent says its layer: one of {', '.join(order)}"
        elif layer not in order:
            yield ("layer",), "NotSupported", f"`{layer}` is none of the layers {', '.join(order)} (LayeringPolicy's layerOrder)"
    if not isinstance(definition.get("abstract", False), bool):
        yield ("abstract",), "Invalid", f"must be true or false, not {type_name(definition['abstract'])}"
    if selector is not None and not (isinstance(selector, dict) and all(isinstance(value, str) for value in selector.values())):
        yield ("parentSelector",), "Invalid", "must be a mapping of labels"
    actions = definition.get("actions")
    if actions is not None and not isinstance(actions, list):
        yield ("actions",), "Invalid", f"must be a list, not {type_name(actions)}"
        return
    for number, action in enumerate(actions or ()):
        if not isinstance(action, dict) or not isinstance(action.get("path"), str):
            yield ("actions", number), "Invalid", "an action is {method: merge|replace|delete, path: …}"
        elif action.get("method") not in METHODS:
            yield ("actions", number, "method"), "NotSupported", f"`{action.get('method')}` is not one of {', '.join(METHODS)}"
        elif _steps(action["path"]) is None:
            yield ("actions", number, "path"), "Invalid", f"{action['path']!r} is no path such as `.metadata.owner_data` or `.a[0]['b.c']`"


# --- actions on data -------------------------------------------------------------------------------------------------------------------


class _NoSuchPath(Exception):
    pass


_MISSING: Any = object()
_STEP = re.compile(r"""\.?(?:\[(?P<item>\d+)\]|\[?(?P<quote>['"])(?P<quoted>[^'"]*)(?P=quote)\]?|(?P<plain>[^.\[\]'"*]+))""")


def _steps(path: str) -> Path | None:
    """`.data.metadata.owner_data` and `.metadata.owner_data` are the same; `.` is everything. None: no path that we understand."""
    text = path.removeprefix("$").rstrip(".")
    steps: list[str | int] = []
    while text:
        match = _STEP.match(text)
        if match is None:
            return None
        steps.append(int(match["item"]) if match["item"] is not None else match["quoted"] if match["quote"] else match["plain"])
        text = text[match.end() :]
    return tuple(steps[1:] if steps[:1] == ["data"] else steps)


def _act(method: str, path: str, child: Any, below: Any) -> Any:
    """One action on the parent's data. Nothing is changed in place: what stays the same is shared."""
    steps = _steps(path) or ()
    if method == "delete":
        return _without(below, steps) if steps else {}
    ours = _get(child, steps)
    if ours is _MISSING or ours is None:
        raise _NoSuchPath(f"has nothing at {path_text(steps) or '.'}")
    theirs = _get(below, steps)
    return _with(below, steps, merged(theirs, ours) if method == "merge" else ours)


def merged(below: Any, above: Any) -> Any:
    """Mappings merge key by key, all the way down; anything else is what is above."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: merged(below[key], value) if key in below else value for key, value in above.items()}
    return above


def _get(data: Any, steps: Path) -> Any:
    for step in steps:
        there = (isinstance(data, list) and step < len(data)) if isinstance(step, int) else isinstance(data, dict) and step in data
        if not there:
            return _MISSING
        data = data[step]
    return data


def _with(data: Any, steps: Path, value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        mapping = data if isinstance(data, dict) else {}
        return mapping | {step: _with(mapping.get(step), rest, value)}
    if not isinstance(data, list) or step >= len(data):
        raise _NoSuchPath(f"finds no item {step} in its parent")
    return [_with(item, rest, value) if number == step else item for number, item in enumerate(data)]


def _without(data: Any, steps: Path) -> Any:
    if _get(data, steps) is _MISSING:
        raise _NoSuchPath(f"has nothing at {path_text(steps)}")
    step, rest = steps[0], steps[1:]
    if isinstance(data, dict):
        return {key: _without(value, rest) if key == step else value for key, value in data.items() if key != step or rest}
    return [_without(item, rest) if number == step else item for number, item in enumerate(data) if number != step or rest]
