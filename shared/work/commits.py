"""Commit documents, and say what they would do to the nodes before anybody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from shared.domain.documents.reading import Problem
from shared.domain.labels.impact import Accepting, RevisionImpact
from shared.domain.rollouts.on_commit import OnCommit, starting
from shared.ledger.revisions import Proposal, Revision
from shared.work.limits import accept, impact_of
from shared.world import World

NOTHING = Accepting()


@dataclass(frozen=True, slots=True)
class WouldCommit:
    """What a commit would make."""

    warnings: list[Problem]
    impact: RevisionImpact
    rollouts: list[OnCommit] = field(default_factory=list)
    """The rollouts that would start with it."""


class Made(NamedTuple):
    """A revision that was committed."""

    revision: Revision
    warnings: list[Problem]
    rollouts: list[OnCommit]
    """Those that start with it, and those that would and do not."""


class Restored(NamedTuple):
    """A revision that restores an earlier one."""

    revision: Revision
    rejected: list[int]
    """The numbers of those that it takes back."""
    rollouts: list[OnCommit]


def would_commit(world: World, now: datetime, accepting: Accepting = NOTHING) -> WouldCommit:
    """What a commit would make now, without making it. Raises NothingStaged and DocumentsRefused."""
    proposal = world.revisions.propose(now)
    return WouldCommit(proposal.site.warnings, _judged(world, accepting)(proposal), _would_start(proposal, world))


def commit(world: World, by: str, now: datetime, *, message: str = "", source: str = "", accepting: Accepting = NOTHING) -> Made:
    """Make the next revision of what is staged. What is accepted with it is recorded for every cluster, and what starts with it has begun.

    Raises NothingStaged and DocumentsRefused.
    """
    revision, warnings = world.revisions.commit(by, now, message=message, source=source, judge=_judged(world, accepting))
    _accept(revision, accepting, world, by, now, message)
    return Made(revision, warnings, _start(revision, world, now))


def restore(
    number: int, world: World, by: str, now: datetime, *, message: str = "", source: str = "", accepting: Accepting = NOTHING
) -> Restored:
    """Commit a revision's collections anew, as the next one. Raises UnknownRevision."""
    revision, rejected = world.revisions.restore(number, by, now, message=message, source=source, judge=_judged(world, accepting))
    _accept(revision, accepting, world, by, now, message)
    return Restored(revision, rejected, _start(revision, world, now))


def _start(revision: Revision, world: World, now: datetime) -> list[OnCommit]:
    if not starting(revision.policies):
        return []
    from shared.work.on_commit import start_with_commit  # few sites' documents start anything

    return start_with_commit(revision, world, now)


def _would_start(proposal: Proposal, world: World) -> list[OnCommit]:
    if not starting(proposal.site.policies):
        return []
    from shared.domain.site import DeclaredSite
    from shared.work.on_commit import Documents, would_start

    return would_start(Documents(DeclaredSite(proposal.number, proposal.site), proposal.design), world)


def _judged(world: World, accepting: Accepting) -> Callable[[Proposal], RevisionImpact]:
    from shared.domain.site import DeclaredSite  # whoever does not commit need not import what reads documents

    return lambda proposal: impact_of(DeclaredSite(proposal.number, proposal.site), world, accepting.accepted)


def _accept(revision: Revision, accepting: Accepting, world: World, by: str, now: datetime, reason: str) -> None:
    if accepting.accepted and revision.about.impact:
        accept(revision.number, list(revision.about.impact.clusters), accepting, world, by=by, now=now, reason=reason)
