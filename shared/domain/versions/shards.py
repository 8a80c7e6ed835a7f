"""Which fleets one delivery of a check looks at, where there are many: every fleet is in one shard, by a hash of its name. Pure."""

from __future__ import annotations

from collections.abc import Collection
from zlib import crc32

SHARDS = 32
"""A fleet keeps its shard whoever comes and goes, so that what is kept of it is found by one listing."""
TOGETHER = 16
"""So many fleets are looked at by one delivery, without messages in between."""


def shard_of(fleet: str) -> int:
    """In which shard a fleet is."""
    return crc32(fleet.encode()) % SHARDS


def shards_of(fleets: Collection[str]) -> list[int]:
    """The shards that these fleets are in; none where one delivery looks at them all."""
    return sorted({shard_of(fleet) for fleet in fleets}) if len(fleets) > TOGETHER else []
