"""Whether what the rules decided may go now, and when a forced update goes although it is held (docs/versions.md, Held). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import CONTROL_PLANE, NEVER, Decision, Update
from shared.domain.versions.held import Held, Waived
from shared.domain.versions.own_holds import own_holds
from shared.domain.versions.reasons import EXPIRED, MISSING
from shared.domain.versions.windows import Window

Holding = Callable[[FleetCluster, Decision, datetime], Iterable[Held]]
"""(cluster, decision, now) → what keeps that decision back now."""


def nothing_holds(_cluster: FleetCluster, _decision: Decision, _now: datetime) -> tuple[Held, ...]:
    """The rules alone decide."""
    return ()


def provider_holds(cluster: FleetCluster, decision: Decision, now: datetime) -> Iterator[Held]:
    """What the provider of a cluster says: that it still works on it, or that it is not ready for the next version."""
    if cluster.running:
        yield Held("UpdateRunning", f"the provider still works on {cluster.full_name}: {cluster.running}")
    if cluster.not_ready and decision.component == CONTROL_PLANE:
        yield Held("NotReady", cluster.not_ready)
    yield from own_holds(cluster, decision, now)


def any_of(*holdings: Holding) -> Holding:
    """Whatever one of these holds back is held."""

    def holds(cluster: FleetCluster, decision: Decision, now: datetime) -> list[Held]:
        return [held for holding in holdings for held in holding(cluster, decision, now)]

    return holds


def with_holds(decisions: Iterable[Decision], cluster: FleetCluster, holding: Holding, now: datetime) -> list[Decision]:
    """These decisions, each with what holds it back.

    A hold that gives way to expiry lets an update go from the last window before its version's expiry on; what the rules would only
    force afterwards is done in that window too.
    """
    return [_settled(decision, [*_already(decision), *holding(cluster, decision, now)], cluster.window, now) for decision in decisions]


def is_forced(decision: Decision) -> bool:
    """Whether an update is due because its version has expired, or is not in the profile any more."""
    return isinstance(decision.outcome, Update) and decision.outcome.trigger in (EXPIRED, MISSING)


def last_window_has_come(decision: Decision, window: Window, now: datetime) -> bool:
    """Whether the last window before a version's expiry has begun: waiting longer means to run an expired version."""
    if decision.expires is None or decision.expires >= NEVER:
        return False
    if decision.expires <= now:
        return True
    last = window.last_before(decision.expires)
    return last is None or last[0] <= now


def _settled(decision: Decision, holds: Sequence[Held], window: Window, now: datetime) -> Decision:
    if not holds:
        return decision
    pressing = last_window_has_come(decision, window, now)
    due = decision
    if not decision.changes and pressing and decision.forced and any(held.gives_way and held.gives_way.to == "expiry" for held in holds):
        due = replace(decision, outcome=decision.forced)
    if not due.changes:
        return decision
    staying = [held for held in holds if not _passes(held, due, pressing=pressing)]
    if staying:
        return replace(decision, held=_strictest(staying)) if decision.changes else decision
    return replace(due, waived=_waived(_strictest(holds), due))


def _already(decision: Decision) -> tuple[Held, ...]:
    return (decision.held,) if decision.held else ()


def _passes(held: Held, due: Decision, *, pressing: bool) -> bool:
    if held.gives_way is None:
        return False
    return pressing if held.gives_way.to == "expiry" else is_forced(due)


def _strictest(holds: Iterable[Held]) -> Held:
    """Of several, one that nobody knows the end of, else the one that ends last; of equal ones the first."""
    return max(holds, key=lambda held: (held.until is None, held.until.timestamp() if held.until else 0.0))


def _waived(held: Held, due: Decision) -> Waived:
    code = held.gives_way.code if held.gives_way else held.reason
    end = f"{due.current} expires on {due.expires:%Y-%m-%d %H:%M} UTC" if due.expires else f"{due.current} has to be left"
    return Waived(code, f"{end}, so the update goes all the same ({held.reason}: {held.message})")
