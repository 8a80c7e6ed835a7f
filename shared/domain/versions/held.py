"""What keeps an update back although the rules decided it: values that every decision may carry (docs/versions.md, Held)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple


class GivesWay(NamedTuple):
    """What a hold gives way to, and the code that says so. `expiry`: at the last window before the version's expiry, and after it;
    `forced`: to every forced update, whenever it is due.
    """

    to: Literal["expiry", "forced"]
    code: str


BEFORE_STAGE = GivesWay("expiry", "ExpiryBeforeStage")
BEFORE_DEFERRAL_ENDS = GivesWay("expiry", "ExpiryBeforeDeferralEnds")
DESPITE_FREEZE = GivesWay("forced", "ForcedDespiteFreeze")


@dataclass(frozen=True, slots=True)
class Held:
    """Why an update does not go now; until when, where that is known."""

    reason: str
    message: str
    until: datetime | None = None
    gives_way: GivesWay | None = None


@dataclass(frozen=True, slots=True)
class Waived:
    """Why an update goes although something would keep it back."""

    reason: str
    message: str
