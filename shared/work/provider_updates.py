"""What becomes of updates that a provider has accepted: told once, where it gave one up with its own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from shared.domain.actions import action_id
from shared.domain.notices import VERSION_FAILED, VERSION_UPDATED
from shared.domain.outcomes import Outcome
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.decisions import Decision, Update
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.notices import Due
from shared.domain.versions.plans import ClusterPlan, updates_of
from shared.domain.versions.semver import InvalidVersion, parse
from shared.ledger.begun import BegunUpdate
from shared.ledger.fleets import Fleets
from shared.ledger.notices import Sent
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Revision
from shared.ports import ClusterError
from shared.world import World

ATTEMPTS = 50
"""Most actions that one opening of a window has."""
UPDATE_FAILED = "ProviderUpdateFailed"
NEVER = timedelta(days=30)
"""An update whose end was not seen for so long is forgotten: its cluster is gone, or went another way."""


def carried_out(begun: Iterable[BegunUpdate], view: FleetView) -> list[BegunUpdate]:
    """Those that their providers are through with."""
    return [update for update in begun if _is_through(update, view)]


def through(update: BegunUpdate) -> Due:
    """The notice that a provider is through with an update."""
    key = VERSION_UPDATED.id("/".join(update.about[name] for name in ("action", "component", "subject")))
    return Due(key, VERSION_UPDATED.type, update.cluster, update.about | {"code": ""})


def forget_ended(begun: Iterable[BegunUpdate], ended: Sequence[BegunUpdate], world: World, now: datetime) -> None:
    """Forget the updates whose end is told, and those that nobody will see the end of."""
    for update in begun:
        if update in ended or now - update.at > NEVER:
            world.begun.forget(update)


def _is_through(update: BegunUpdate, view: FleetView) -> bool:
    """Whether the cluster rests, and runs what was asked for or something higher. What can't be read as a version says nothing."""
    cluster, about = view.clusters.get(update.cluster), update.about
    if cluster is None or cluster.running:
        return False
    step = VersionStep(about["component"], about["subject"], about["from"], about["to"], about["image"])
    runs = step.version_in(cluster)
    try:
        return runs is not None and parse(runs).key >= parse(step.to).key
    except InvalidVersion:
        return False


def attempt(cluster: FleetCluster, number: int, began: datetime, content: str = "") -> str:
    """The id of the n-th action for a cluster in the opening of its window that began then."""
    return action_id(f"versions/{cluster.full_name}/{content}/{number}", began)


def failed_updates(plan: ClusterPlan, fleets: Fleets, world: World, now: datetime) -> Iterator[Due]:
    """The updates that were begun in the cluster's last opening, and that are due as before although its provider rests.

    A Shoot has the version at once that is asked for; EKS and GKE have it when they are through.
    """
    cluster = plan.cluster
    due = {f"{each.component}/{each.subject}": each for each in updates_of(plan.decisions)}
    if not cluster.asked_for or cluster.running or not due:
        return
    for action, outcome in _begun(cluster, world, now):
        decision = due.get(outcome.subject)
        if decision is not None and outcome.outcome == "changed" and outcome.message.startswith(_move(decision)):
            yield _told(cluster, decision, action, _words(cluster, decision, fleets))


def given_up(plans: Iterable[ClusterPlan], fleets: Fleets, sent: Sent, revision: Revision | None, world: World, now: datetime) -> list[Due]:
    """The notices of what providers gave up that are not out yet; waves stop there."""
    told: list[Due] = []
    looked_at = [*plans]
    failed = world.workers.each(lambda plan: [*failed_updates(plan, fleets, world, now)], looked_at)
    for plan, notices in zip(looked_at, failed, strict=True):
        fresh = [notice for notice in notices if not sent.knows(notice.key, notice.fleet)]
        stop_waves(plan.cluster, fresh, revision, world, now)
        told += fresh
    return told


def stop_waves(cluster: FleetCluster, notices: Iterable[Due], revision: Revision | None, world: World, now: datetime) -> None:
    """Keep what failed as version_apply does, so that waves stop there."""
    told = [notice.data for notice in notices]
    if not told:
        return
    from shared.domain.waves.decisions import line_of  # few updates fail
    from shared.domain.waves.sightings import Failure
    from shared.work.waves import tried_and_failed

    lines = {line_of(each["component"], each["subject"], each["image"]): Failure(each["to"], now, each["message"]) for each in told}
    tried_and_failed(cluster.full_name, lines, revision, world, now)


def _begun(cluster: FleetCluster, world: World, now: datetime) -> Iterator[tuple[str, Outcome]]:
    """What the actions of the last opening did, with their ids."""
    opening = cluster.window.last_before(now + timedelta(seconds=1))
    for number in range(1, ATTEMPTS if opening else 1):
        action = attempt(cluster, number, opening[0]) if opening else ""
        if world.actions.shown(action) is None:
            return
        try:
            ended = world.actions.outcome(action)
        except RecordUnreadable:
            continue
        yield from ((action, outcome) for outcome in (ended.outcomes if ended else ()))


def _move(decision: Decision) -> str:
    return f"{decision.current} → {decision.outcome.to if isinstance(decision.outcome, Update) else ''}"


def _words(cluster: FleetCluster, decision: Decision, fleets: Fleets) -> str:
    to = decision.outcome.to if isinstance(decision.outcome, Update) else ""
    try:
        step = VersionStep(decision.component, decision.subject, decision.current or "", to, decision.image)
        words = fleets.why_failed(cluster, step)
    except ClusterError as error:
        words = f"the provider's words cannot be read: {error}"
    return words or "the provider does not say why"


def _told(cluster: FleetCluster, decision: Decision, action: str, words: str) -> Due:
    data = {
        "cluster": cluster.id,
        "fleet": cluster.fleet,
        "action": action,
        "component": decision.component,
        "subject": decision.subject,
        "image": decision.image,
        "from": decision.current,
        "to": decision.outcome.to if isinstance(decision.outcome, Update) else None,
        "outcome": "failed",
        "code": UPDATE_FAILED,
        "message": words,
    }
    key = VERSION_FAILED.id(f"{action}/{decision.component}/{decision.subject}")
    return Due(key, VERSION_FAILED.type, cluster.full_name, data)
