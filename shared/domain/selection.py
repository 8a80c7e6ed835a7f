"""Which nodes a filter means: Drydock's node filter as DESIGN §5.1 fixes it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class FilterEntry(BaseModel):
    """One entry of a filter set. Values inside a criterion are alternatives; criteria combine by `filter_type`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    filter_type: Literal["union", "intersection"]
    node_names: list[str] | None = None
    node_tags: list[str] | None = None
    node_labels: dict[str, str] | None = None
    rack_names: list[str] | None = None
    rack_labels: dict[str, str] | None = None


class NodeFilter(BaseModel):
    """A set of entries, combined by `filter_set_type`. No entry with a criterion: all nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    filter_set_type: Literal["union", "intersection"]
    filter_set: list[FilterEntry] = []
