"""When a cluster is swept: once an hour each, not all of them at once."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime


def due(clusters: Iterable[str], at: datetime, minutes: int) -> list[str]:
    """The clusters whose turn it is `at` a time, where a clock asks every so many minutes (a divisor of 60).

    A cluster's turn is a hash of its name: the same in every hour, and for every reader.
    """
    turn, turns = at.minute // minutes, 60 // minutes
    return [name for name in clusters if zlib.crc32(name.encode()) % turns == turn]
