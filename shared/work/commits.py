"""Commit documents, and say what they would do to the nodes before anybody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from shared.domain.documents.reading import Problem
from shared.domain.labels.impact import Accepting, RevisionImpact
from shared.ledger.revisions import Proposal, Revision
from shared.work.limits import accept, impact_of
from shared.world import World

NOTHING = Accepting()


@dataclass(frozen=True, slots=True)
class WouldCommit:
    """What a commit would make."""

    warnings: list[Problem]
    impact: RevisionImpact


def would_commit(world: World, now: datetime, accepting: Accepting = NOTHING) -> WouldCommit:
    """What a commit would make now, without making it. Raises NothingStaged and DocumentsRefused."""
    proposal = world.revisions.propose(now)
    return WouldCommit(proposal.site.warnings, _judged(world, accepting)(proposal))


def commit(
    world: World, by: str, now: datetime, *, message: str = "", source: str = "", accepting: Accepting = NOTHING
) -> tuple[Revision, list[Problem]]:
    """Make the next revision of what is staged; it, and its warnings. What is accepted with it is recorded for every cluster.

    Raises NothingStaged and DocumentsRefused.
    """
    revision, warnings = world.revisions.commit(by, now, message=message, source=source, judge=_judged(world, accepting))
    _accept(revision, accepting, world, by, now, message)
    return revision, warnings


def restore(
    number: int, world: World, by: str, now: datetime, *, message: str = "", source: str = "", accepting: Accepting = NOTHING
) -> tuple[Revision, list[int]]:
    """Commit a revision's collections anew, as the next one; it, and the numbers of those that it takes back. Raises UnknownRevision."""
    revision, rejected = world.revisions.restore(number, by, now, message=message, source=source, judge=_judged(world, accepting))
    _accept(revision, accepting, world, by, now, message)
    return revision, rejected


def _judged(world: World, accepting: Accepting) -> Callable[[Proposal], RevisionImpact]:
    from shared.domain.site import DeclaredSite  # whoever does not commit need not import what reads documents

    return lambda proposal: impact_of(DeclaredSite(proposal.number, proposal.site), world, accepting.accepted)


def _accept(revision: Revision, accepting: Accepting, world: World, by: str, now: datetime, reason: str) -> None:
    if accepting.accepted and revision.about.impact:
        accept(revision.number, list(revision.about.impact.clusters), accepting, world, by=by, now=now, reason=reason)
