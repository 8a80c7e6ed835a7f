"""Put the updates of one cluster off, see what is put off, take it back (docs/versions.md, Held)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from pydantic import BaseModel

from shared.domain.versions.decisions import NEVER, Decision
from shared.domain.versions.plans import ClusterPlan, Planner, moment_text
from shared.ledger.actions import WrongState
from shared.ledger.deferrals import Deferral
from shared.work.intake import Refusal, Rejected
from shared.work.versions import committed_versions
from shared.world import World

LONGEST = timedelta(days=90)
"""Who wants to wait longer declares a Freeze, which others review."""


class DeferralLimit(BaseModel):
    """A version that expires before the deferral ends: its update goes in the window that begins at `goes`, the last one before."""

    component: str
    subject: str
    version: str
    expires: str
    goes: str | None
    forcedTo: str | None  # noqa: N815


class DeferralEntry(BaseModel):
    """A cluster whose updates are put off; `until` null: nobody can read until when."""

    cluster: str
    until: datetime | None
    reason: str
    by: str
    at: datetime
    limits: list[DeferralLimit] = []


class DeferralList(BaseModel):
    """Every cluster whose updates are put off, the one whose deferral ends first on top."""

    deferrals: list[DeferralEntry]


def defer(cluster: str, until: datetime, reason: str, by: str, world: World, now: datetime) -> DeferralEntry:
    """Put the updates of a cluster off until a time, or until the last window before its versions expire.

    Raises Rejected, UnknownFleetCluster and WrongState.
    """
    if not reason.strip():
        raise Rejected(Refusal("InvalidDeferral", "say why: a reason"))
    if not now < until <= now + LONGEST:
        last = f"{now + LONGEST:%Y-%m-%d}"
        raise Rejected(Refusal("InvalidDeferral", f"a deferral ends in the future, and by {last}: declare a Freeze for longer"))
    plan = _planned(cluster, world, now)
    word = Deferral(until=until, by=by, at=now, reason=reason.strip())
    world.deferrals.say(plan.cluster.full_name, word)
    return _entry(plan.cluster.full_name, word).model_copy(update={"limits": list(_limits(plan, until))})


def cancel(cluster: str, by: str, world: World, now: datetime) -> DeferralEntry:
    """Let the updates of a cluster go on. Raises WrongState where they are not put off, and UnknownFleetCluster."""
    standing = world.deferrals.standing(now)
    name = cluster if cluster in standing else _planned(cluster, world, now).cluster.full_name
    if name not in standing:
        raise WrongState(f"the updates of {name} are not put off")
    word = Deferral(until=now, by=by, at=now, reason=f"taken back; it was put off by {standing[name].by}: {standing[name].reason}")
    world.deferrals.say(name, word)
    return _entry(name, word)


def deferrals(world: World, now: datetime) -> DeferralList:
    """What is put off now."""
    entries = [_entry(cluster, word) for cluster, word in world.deferrals.standing(now).items()]
    return DeferralList(deferrals=sorted(entries, key=lambda entry: (entry.until or NEVER, entry.cluster)))


def _planned(cluster: str, world: World, now: datetime) -> ClusterPlan:
    fleet = committed_versions(world, live=True).fleet
    (plan,) = Planner(fleet).plan(now, [fleet.named(cluster)])
    return plan


def _limits(plan: ClusterPlan, until: datetime) -> Iterator[DeferralLimit]:
    for decision in plan.decisions:
        if decision.expires is not None and decision.expires <= until and decision.current is not None:
            yield _limit(plan, decision, decision.expires)


def _limit(plan: ClusterPlan, decision: Decision, expires: datetime) -> DeferralLimit:
    last = plan.cluster.window.last_before(expires)
    return DeferralLimit(
        component=decision.component,
        subject=decision.subject,
        version=decision.current or "",
        expires=moment_text(expires),
        goes=moment_text(last[0]) if last else None,
        forcedTo=decision.forced.to if decision.forced else None,
    )


def _entry(cluster: str, word: Deferral) -> DeferralEntry:
    return DeferralEntry(cluster=cluster, until=word.until, reason=word.reason, by=word.by, at=word.at)
