"""Where a document says something: its collection, file and line, in the documents of a revision as they were staged. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from shared.domain.documents.reading import Document, Source, read

BEGINS = re.compile(rb"^(?=---)", re.MULTILINE)
"""Where a YAML document may begin. A line in the middle of one that begins so would end it."""


class Place(BaseModel):
    """A line of a file in a collection."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    collection: str
    file: str
    line: int


def places(files: Mapping[str, Sequence[Source]], wanted: Mapping[str, str]) -> dict[str, Place]:
    """Where each key's document (`Kind/name`, by key) says so; the document's first line where it does not spell the key out."""
    found: dict[str, Place] = {}
    titles = {title: [key for key, each in wanted.items() if each == title] for title in set(wanted.values())}
    for collection, sources in files.items():
        for document in _named(sources, titles):
            for key in titles[document.title]:
                found.setdefault(key, Place(collection=collection, file=document.file, line=_line(document, key)))
    return found


def _named(sources: Sequence[Source], titles: Mapping[str, object]) -> Iterator[Document]:
    names = [title.partition("/")[2].encode() for title in titles]
    for source in sources:
        if any(name in source.data for name in names):
            documents, _ = read([Source(source.file, _without_others(source.data, names))])
            yield from (document for document in documents if document.title in titles)


def _without_others(data: bytes, names: Sequence[bytes]) -> bytes:
    """The text with empty lines in place of documents that have none of these names: a site of 5,000 nodes is parsed as one of a few."""
    parts = BEGINS.split(data)
    return b"".join(part if any(name in part for name in names) else b"\n" * part.count(b"\n") for part in parts)


def _line(document: Document, key: str) -> int:
    for path in (("spec", "labels", key), ("data", "metadata", "owner_data", key), ("metadata", "owner_data", key), ("spec", "key")):
        if _there(document.data, path):
            return document.line_of(path)
    return document.line


def _there(value: Any, path: Sequence[str]) -> bool:
    for step in path:
        if not isinstance(value, Mapping) or step not in value:
            return False
        value = value[step]
    return True
