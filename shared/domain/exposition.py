"""Prometheus' text format, version 0.0.4. Whatever `/metrics` answers is written here, so that every name and value is escaped once.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_IN_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_IN_LABELS = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Sample(NamedTuple):
    """One number of a family. `suffix` is `_bucket`, `_sum` or `_count` in a histogram, else empty."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, what it says, its type, and its samples. Without samples only the name and type are shown."""

    name: str
    about: str
    type: Literal["counter", "gauge", "histogram"]
    samples: tuple[Sample, ...] = ()


def exposition(families: Iterable[Family]) -> str:
    """All families as one text: `# HELP` and `# TYPE` once each, then the samples."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.about.translate(_IN_HELP)}"
    yield f"# TYPE {family.name} {family.type}"
    for sample in family.samples:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
        yield f"{family.name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}"


def _escaped(value: str) -> str:
    """Half a surrogate pair is no UTF-8: it would break the whole answer, so it becomes a question mark."""
    return value.encode(errors="replace").decode().translate(_IN_LABELS)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(round(value, 6))
