"""What holds changes back for a time: a freeze that documents declare, a pause of the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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

    @property
    def every_write(self) -> bool:
        """Whether repairs and the way back wait too, but for a person's."""
        return self.reason == "Paused"


def frozen(freezes: Mapping[str, FreezeSpec], cluster: str, labels: Mapping[str, str], change: Change, now: datetime) -> Hold | None:
    """The freeze that holds changes of this kind in a cluster with these labels; of several the one that ends last."""
    meant = freezes_of(freezes, [cluster], labels, change)
    holding = [(name, freeze) for name, freeze in meant if freeze.span[0] <= now < freeze.span[1]]
    if not holding:
        return None
    name, freeze = max(holding, key=lambda held: (held[1].span[1], held[0]))
    return Hold("Frozen", words(name, freeze), *freeze.span)


def freezes_of(
    freezes: Mapping[str, FreezeSpec], names: Collection[str], labels: Mapping[str, str], change: Change
) -> list[tuple[str, FreezeSpec]]:
    """The freezes, whenever they are, that mean changes of this kind in a cluster that goes by any of these names, with these labels."""
    return [
        (name, freeze)
        for name, freeze in freezes.items()
        if freeze.change in ("all", change) and (freeze.clusters is None or any(freeze.clusters.means(each, labels) for each in names))
    ]


def words(name: str, freeze: FreezeSpec) -> str:
    """What a freeze says to those whom it holds back."""
    return f"Freeze/{name} holds changes until {freeze.span[1]:%Y-%m-%d %H:%M} UTC: {freeze.reason}"


def longest(holds: Iterable[Hold | None]) -> Hold | None:
    """Of several, one that nobody knows the end of, else the one that ends last."""
    found = [hold for hold in holds if hold]
    return max(found, key=lambda hold: (hold.until is None, hold.until or hold.since)) if found else None
