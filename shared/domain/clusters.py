"""Which clusters are meant: by name, by the labels of their documents, or by both. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

EVERY = "*"
"""In place of a name: every cluster of the documents. None can be called that."""


NAMED_IN_WORDS = 3


class ClusterMatch(BaseModel):
    """Every criterion given must hold; `match_labels` look at the labels of the Cluster documents."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel, serialize_by_alias=True, defer_build=True)
    names: Annotated[list[str], Field(min_length=1)] | None = None
    match_labels: dict[str, str] | None = None

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if not self.names and not self.match_labels:
            raise ValueError("`clusters` names no criterion: leave it out, or give `names` or `matchLabels`")
        return self

    def means(self, cluster: str, labels: Mapping[str, str]) -> bool:
        """Whether a cluster with these labels is meant."""
        wanted = self.match_labels or {}
        return (self.names is None or cluster in self.names) and all(labels.get(key) == value for key, value in wanted.items())

    def __str__(self) -> str:
        labels = [f"{key}={value}" for key, value in (self.match_labels or {}).items()]
        return " and ".join([*labels, *([f"the name {' or '.join(self.names)}"] if self.names else [])])


def in_words(clusters: Sequence[str]) -> str:
    """Clusters for a line of a list: their names, or how many they are."""
    return ", ".join(clusters) if len(clusters) <= NAMED_IN_WORDS else f"{len(clusters)} clusters"


class Chosen(NamedTuple):
    """The clusters that are meant, sorted, and the names that mean none."""

    clusters: list[str]
    unknown: list[str]


def choose(asked: list[str] | ClusterMatch, known: Mapping[str, Mapping[str, str]], every: Collection[str]) -> Chosen:
    """Which of the known clusters (with their labels) are meant; `every`: those that `*` means."""
    names = (asked.names if isinstance(asked, ClusterMatch) else asked) or []
    unknown = [name for name in names if name not in known and name != EVERY]
    if isinstance(asked, ClusterMatch):
        return Chosen(sorted(name for name, labels in known.items() if asked.means(name, labels)), unknown)
    return Chosen(sorted({*asked, *(every if EVERY in asked else ())} & known.keys()), unknown)
