"""What holds changes back for a time: a freeze that documents declare, a pause of the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from shared.domain.documents.kinds import FreezeSpec

Change = Literal["labels", "versions"]


@dataclass(frozen=True, slots=True)
class Hold:
    """Why nothing changes now; since when, and until when where that is known."""

    reason: Literal["Frozen", "Paused"]
    message: str
    since: datetime
    until: datetime | None = None


def frozen(freezes: Mapping[str, FreezeSpec], cluster: str, labels: Mapping[str, str], change: Change, now: datetime) -> Hold | None:
    """The freeze that holds changes of this kind in a cluster with these labels; of several the one that ends last."""
    holding = [
        (name, freeze)
        for name, freeze in freezes.items()
        if freeze.change in ("all", change)
        and (freeze.clusters is None or freeze.clusters.means(cluster, labels))
        and freeze.span[0] <= now < freeze.span[1]
    ]
    if not holding:
        return None
    name, freeze = max(holding, key=lambda held: (held[1].span[1], held[0]))
    since, until = freeze.span
    return Hold("Frozen", f"Freeze/{name} holds changes until {until:%Y-%m-%d %H:%M} UTC: {freeze.reason}", since, until)


def longest(holds: Iterable[Hold | None]) -> Hold | None:
    """Of several, one that nobody knows the end of, else the one that ends last."""
    found = [hold for hold in holds if hold]
    return max(found, key=lambda hold: (hold.until is None, hold.until or hold.since)) if found else None
