"""A node of the design as it was resolved: all that applying and selecting need of it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


def over(above: dict[str, str], below: Mapping[str, str]) -> Mapping[str, str]:
    """One mapping seen through another, without a copy: a hundred thousand nodes share the labels of a few profiles."""
    if not above or not below:
        return above or below
    return ChainMap(above, *(below.maps if isinstance(below, ChainMap) else [below]))


def flat(mapping: Mapping[str, str]) -> Mapping[str, str]:
    """The same as one dict, for those who look at every key."""
    if not isinstance(mapping, ChainMap):
        return mapping
    flattened: dict[str, str] = {}
    for layer in reversed(mapping.maps):
        flattened.update(layer)
    return flattened


@dataclass(frozen=True, slots=True)
class DesignNode:
    """`labels` are the effective owner_data and the generated labels, `sources` the document that each key comes from.

    Nodes that carry the same labels share one mapping: don't change it. A node that only policies name has nothing but its name.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ()
    rack: str = ""
    rack_labels: Mapping[str, str] = field(default_factory=dict)
    host_profile: str = ""
    hardware_profile: str = ""

    def to_json(self) -> dict[str, Any]:
        """The node without its name, as a revision keeps it: labels by the document that they come from, nothing that is empty."""
        labels: dict[str, dict[str, str]] = {}
        sources = flat(self.sources)
        for key, value in flat(self.labels).items():
            labels.setdefault(sources[key], {})[key] = value
        kept = {
            "labels": labels,
            "tags": list(self.tags),
            "rack": self.rack,
            "rackLabels": dict(self.rack_labels),
            "hostProfile": self.host_profile,
            "hardwareProfile": self.hardware_profile,
        }
        return {key: value for key, value in kept.items() if value}

    @classmethod
    def from_json(cls, name: str, body: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        by_source: Mapping[str, Mapping[str, str]] = body.get("labels", {})
        return cls(
            name=name,
            labels={key: value for labels in by_source.values() for key, value in labels.items()},
            sources={key: source for source, labels in by_source.items() for key in labels},
            tags=tuple(body.get("tags", ())),
            rack=body.get("rack", ""),
            rack_labels=body.get("rackLabels", {}),
            host_profile=body.get("hostProfile", ""),
            hardware_profile=body.get("hardwareProfile", ""),
        )
