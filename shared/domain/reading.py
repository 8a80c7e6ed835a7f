"""Documents as they were written: where each stands, what it holds, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Where in a document: `("spec", "labels", "rack")`; the empty path is the document itself."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file's bytes under the name that errors show (a path, or `-` for standard input)."""

    file: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document. `index` counts from 0 within its file; `line` is its first line, counted from the file's start, from 1."""

    file: str
    index: int
    line: int
    kind: str
    """`NodeLabelPolicy`, `drydock/BaremetalNode/v1` (a Deckhand schema), `CloudProfile`; empty where the document has none."""
    name: str
    data: Mapping[str, Any]

    @property
    def title(self) -> str:
        """How people name it: `NodeLabelPolicy/racks`, `BaremetalNode/n1`."""
        kind = self.kind.split("/")[1] if self.kind.count("/") == 2 else self.kind
        return f"{kind}/{self.name}" if self.name else kind


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the documents, for `validate`'s `errors` (DESIGN §11) and `messageList` (§7)."""

    file: str
    line: int
    document: str
    path: str
    """`spec.kubernetes.versions[0].version`; empty for the document as a whole."""
    type: str
    """`Invalid`, `Required`, `Duplicate`, `Forbidden`, `NotSupported`, `NotFound`, `Unknown`, `Syntax` (Kubernetes' field error words)."""
    message: str
    """What is wrong, and what to do about it."""


class DocumentsRefused(Exception):
    """Every problem of the documents, in one answer."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{p.file}:{p.line}: {p.document}: {p.path}: {p.message}" for p in problems))
