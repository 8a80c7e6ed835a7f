"""Who of several processes is active: the rule by which they share a Lease (coordination.k8s.io), as client-go's leader election has it.

Clocks of different machines are never compared: a holder counts as gone when its Lease has stayed the same for as long as it is good,
by the clock of whoever looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it was read. `version` is empty where there is none yet; `renewed` and `acquired` are the server's texts."""

    holder: str = ""
    seconds: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds. Those of client-go: whoever is gone is noticed after `good`; whoever can't renew for `renew` gives up before that."""

    good: int = 15

    @property
    def renew(self) -> float:
        """How long the active one goes on without having renewed."""
        return self.good * 2 / 3

    @property
    def retry(self) -> float:
        """Between two looks."""
        return self.good * 2 / 15


def judge(lease: Lease, me: str, unchanged: float) -> Literal["renew", "take", "wait"]:
    """What to do about a Lease that has stayed as it is for `unchanged` seconds."""
    if lease.holder == me:
        return "renew"
    return "take" if not lease.holder or unchanged >= lease.seconds else "wait"


def held(lease: Lease, me: str, terms: Terms, now: str) -> Lease:
    """The Lease as it is written by whoever holds it now."""
    changed = lease.holder != me
    return Lease(
        holder=me,
        seconds=terms.good,
        acquired=now if changed else lease.acquired,
        renewed=now,
        transitions=lease.transitions + bool(changed and lease.version),
        version=lease.version,
    )


def given_up(lease: Lease, now: str) -> Lease:
    """The Lease as its holder leaves it: free at once."""
    return Lease("", 1, lease.acquired, now, lease.transitions, lease.version)
