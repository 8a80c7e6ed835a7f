"""The commands' service in this process: the embedded cloud on the store that HULLMARK_STORE names."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import click

from local.cli.inputs import who
from local.cli.service import (
    ActionSummary,
    CollectionSummary,
    CommittedDocuments,
    CommittedSummary,
    ListedRevision,
    Listing,
    Progress,
    RestoredSummary,
    RevisionSummary,
    StagedFiles,
    Word,
)
from local.cloud.embedded import Cloud
from shared import telemetry
from shared.domain.actions import ActionOutcome
from shared.domain.documents.reading import Problem, Source
from shared.domain.labels.comparison import RevisionDiff
from shared.domain.labels.explanations import NodeExplanation, NodeHistory
from shared.domain.labels.impact import Accepting
from shared.domain.labels.node_states import NodesRequest, NodeStates
from shared.domain.labels.plans import LabelPlan, PlanRequest
from shared.domain.labels.reach import whereabouts
from shared.ledger.actions import UnknownAction
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import Committed, Revision
from shared.messages import RelabelRequest, RolloutStep
from shared.ports import ClusterError, StoreError
from shared.work import commits, deferrals, explaining, holds, releasing, rollouts
from shared.work.commits import WouldCommit
from shared.work.comparison import compare
from shared.work.control import retried
from shared.work.deferrals import DeferralEntry, DeferralList
from shared.work.holds import FreezeList, PauseStatus
from shared.work.nodes import node_states
from shared.work.planning import Declarations
from shared.work.plans import plan_committed, plan_documents
from shared.work.reach import reaches
from shared.work.rollouts import RolloutStatus
from shared.world import Settings, World, access_from_url

if TYPE_CHECKING:
    from shared.work.versions import FleetVersions


class Embedded:
    """Works in this process. The functions' log lines are not printed: stdout is for data, and the action says what went wrong."""

    def __init__(self, settings: Settings) -> None:
        telemetry.write_to(None)
        logging.getLogger("hullmark").setLevel(logging.ERROR)
        self._cloud = Cloud(settings)
        self._world = self._cloud.world
        _note_a_changed_seed(settings, self._world)
        self._left_open = functools.cache(self._take_up)
        """Done once, before the first answer of this process; after a verb for an action, which must come first."""

    @functools.cached_property
    def ledger(self) -> EmbeddedLedger:
        return EmbeddedLedger(self._cloud, self._left_open)

    @functools.cached_property
    def documents(self) -> EmbeddedDocuments:
        self._left_open()
        return EmbeddedDocuments(self._cloud)

    @functools.cached_property
    def plans(self) -> EmbeddedPlans:
        self._left_open()
        return EmbeddedPlans(self._world)

    @functools.cached_property
    def nodes(self) -> EmbeddedNodes:
        self._left_open()
        return EmbeddedNodes(self._world)

    @functools.cached_property
    def rollouts(self) -> EmbeddedRollouts:
        self._left_open()
        return EmbeddedRollouts(self._cloud)

    @functools.cached_property
    def holds(self) -> EmbeddedHolds:
        return EmbeddedHolds(self._cloud)

    def at_work(self) -> Cloud:
        """The cloud itself, once it has gone on with what earlier commands left unfinished."""
        self._left_open()
        return self._cloud

    def _take_up(self) -> None:
        ledger = self._world.actions
        taken_up = self._cloud.take_up()
        for action in [action for action in taken_up if (request := ledger.shown(action)) is None or request.parent not in taken_up]:
            click.echo(f"resuming action {action}, which an earlier command left unfinished", err=True)
        self._cloud.drain()

    def versions(self, *, live: bool) -> FleetVersions:
        self._left_open()
        from shared.work.versions import committed_versions

        return committed_versions(self._world, live=live)


def _note_a_changed_seed(settings: Settings, world: World) -> None:
    """Say so where somebody edited the file of a simulated cluster: the store has had its own copy since the first use."""
    if not settings.cluster.startswith("simulated:"):
        return
    from shared.adapters.simulated import Simulated

    outdated = False
    with suppress(ClusterError, StoreError):  # a command that needs the cluster or the store says it
        cluster = world.open_cluster(access_from_url(settings.cluster), "default")
        outdated = isinstance(cluster, Simulated) and cluster.outdated()
    if outdated:
        file = settings.cluster.removeprefix("simulated:")
        why = f"{file} is not what store {settings.store} took its simulated cluster from, and is not read again"
        click.echo(f"note: {why}: change nodes with `hullmark simulate`, or begin with another HULLMARK_STORE", err=True)


class EmbeddedLedger:
    """Actions in the store, worked off by the functions in this process while a command waits."""

    runs_by_itself = False

    def __init__(self, cloud: Cloud, left_open: Callable[[], None] = lambda: None) -> None:
        self._cloud = cloud
        self._left_open = left_open
        self._actions = cloud.world.actions
        self._submitted: set[str] = set()

    def newest(self, limit: int) -> list[ActionSummary]:
        self._left_open()
        return [self.summary(action) for action in self._actions.ids(limit=limit) if self._actions.shown(action)]

    def summary(self, action: str) -> ActionSummary:
        self._left_open()
        request = self._actions.shown(action)
        if request is None:
            raise UnknownAction(f"no action {action}")
        outcome = self._actions.ended(action)
        return ActionSummary(
            id=action,
            name=request.name,
            cluster=request.cluster,
            clusters=request.clusters or [],
            parent=request.parent,
            revision=outcome.revision if outcome and outcome.revision else request.revision,
            lifecycle=self._actions.lifecycle(action),
            result=outcome.result if outcome else None,
            requested_by=request.requested_by,
            requested_at=request.requested_at,
            dry_run=request.dry_run,
        )

    def outcome(self, action: str) -> ActionOutcome | None:
        self._actions.lifecycle(action)
        return self._actions.ended(action)

    def progress(self, action: str) -> Progress | None:
        try:
            plan = self._actions.plan(action)
        except RecordUnreadable:
            return None
        if plan is None:
            return None
        recorded = self._actions.recorded(action)
        settled = len(plan.unchanged) + len(plan.settled)
        applied = sum(len(names) for number, names in enumerate(plan.parts, 1) if number in recorded)
        return Progress(settled + applied, settled + sum(map(len, plan.parts)))

    def children(self, action: str) -> dict[str, str]:
        request = self._actions.shown(action)
        return request.children if request else {}

    def submit(self, request: RelabelRequest) -> str:
        self._left_open()
        action = self._cloud.submit(request)
        self._submitted.add(action)
        return action

    def retry(self, action: str, accept: Accepting) -> str:
        return self.submit(retried(action, who(), self._cloud.world, accept))

    def control(self, action: str, verb: str, now: datetime) -> None:
        self._cloud.control(action, verb, who(), now)
        self._left_open()

    goes_on = "with the next command"

    def leave(self) -> None:
        self._cloud.stop()

    def wait(self, action: str) -> None:
        """An action that an earlier process left open goes on."""
        self._left_open()
        if action not in self._submitted:
            self._cloud.resume(action)
        self._cloud.drain()


class EmbeddedDocuments:
    """Documents in the store. What a commit starts is begun before the command ends."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._world = cloud.world
        self._revisions = cloud.world.revisions

    def stage(self, collection: str, sources: Sequence[Source], now: datetime) -> StagedFiles:
        staged = self._revisions.stage(collection, sources, who(), now)
        return StagedFiles(collection=collection, files=[file for file, _ in staged.files], digest=staged.digest)

    def remove(self, collection: str, now: datetime) -> StagedFiles:
        staged = self._revisions.remove(collection, who(), now)
        return StagedFiles(collection=collection, files=[], digest=staged.digest)

    def would_commit(self, now: datetime, accept: Accepting) -> WouldCommit:
        return commits.would_commit(self._world, now, accept)

    def commit(self, now: datetime, message: str, source: str, accept: Accepting) -> tuple[CommittedSummary, list[Problem]]:
        made = commits.commit(self._world, who(), now, message=message, source=source, accepting=accept)
        self._cloud.drain()
        return CommittedSummary(**dict(self._summary(made.revision.about)), rollouts=made.rollouts), made.warnings

    def restore(self, number: int, now: datetime, message: str, source: str, accept: Accepting) -> RestoredSummary:
        made = commits.restore(number, self._world, who(), now, message=message, source=source, accepting=accept)
        self._cloud.drain()
        return RestoredSummary(**dict(self._summary(made.revision.about)), rejected=made.rejected, rollouts=made.rollouts)

    def list(self, limit: int) -> Listing:
        listed = self._revisions.listed(limit)
        tags = self._revisions.tags_of([about.number for about, _ in listed])
        there = reaches(self._world)
        every = [
            ListedRevision(**dict(_summary(about, tags[about.number], trouble)), **dict(whereabouts(about.number, there)))
            for about, trouble in listed
        ]
        return Listing(every, [] if every and every[-1].trouble else sorted(self._revisions.buffers()))

    def get(self, number: int, collection: str = "") -> CommittedDocuments:
        return CommittedDocuments(self._summary(self._revisions.get(number).about), self._revisions.files(number, collection))

    def diff(self, older: int, newer: int, cluster: str, collection: str) -> RevisionDiff:
        return compare(older, newer, self._world, cluster=cluster, collection=collection)

    def tag(self, number: int, tag: str, now: datetime) -> RevisionSummary:
        releasing.tag(number, tag, who(), self._world, now)
        return self._summary(self._revisions.get(number).about)

    def untag(self, number: int, tag: str) -> RevisionSummary:
        self._revisions.untag(number, tag)
        return self._summary(self._revisions.get(number).about)

    def declared(self) -> Revision | None:
        newest = self._revisions.newest()
        return self._revisions.get(newest) if newest else None

    def _summary(self, about: Committed) -> RevisionSummary:
        return _summary(about, self._revisions.tags(about.number))


class EmbeddedRollouts:
    """Rollouts in the store, taken further by the functions in this process while a command runs."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._world = cloud.world

    def start(self, name: str, accept: Accepting, *, supersede: bool) -> RolloutStatus:
        progress = rollouts.start(name, who(), self._world, self._world.clock(), accept, supersede=supersede)
        self._cloud.drain()
        return self.get(progress.id)

    def newest(self, limit: int) -> list[RolloutStatus]:
        self._step()
        return rollouts.listed(self._world, self._world.clock(), limit)

    def get(self, rollout: str) -> RolloutStatus:
        self._step()
        found = self._world.rollouts.get(rollout)
        return rollouts.shown(found, self._world, self._world.clock(), lambda actions: map(self._world.actions.ended, actions))

    def control(self, rollout: str, verb: rollouts.Control, word: Word) -> RolloutStatus:
        said = {"stage": word.stage, "impact": word.impact, "message": word.reason}
        rollouts.control(rollout, verb, who(), self._world, self._world.clock(), accept=word.accept, **said)
        return self.get(rollout)

    def look_again(self, rollout: str, seconds: float) -> RolloutStatus:
        time.sleep(seconds)
        return self.get(rollout)

    def _step(self) -> None:
        """What the clock would send: where nobody serves, a command is the only clock."""
        self._cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
        self._cloud.drain()


class EmbeddedHolds:
    """What holds the changes of the store's clusters back."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._world = cloud.world

    def pause(self, reason: str) -> PauseStatus:
        return holds.pause(reason, who(), self._world, self._world.clock())

    def resume(self) -> PauseStatus:
        holds.resume(who(), self._world, self._world.clock())
        self._cloud.drain()
        return holds.status(self._world)

    def defer(self, cluster: str, until: datetime, reason: str) -> DeferralEntry:
        return deferrals.defer(cluster, until, reason, who(), self._world, self._world.clock())

    def cancel(self, cluster: str) -> DeferralEntry:
        return deferrals.cancel(cluster, who(), self._world, self._world.clock())

    def deferrals(self) -> DeferralList:
        return deferrals.deferrals(self._world, self._world.clock())

    def freezes(self) -> FreezeList:
        return holds.freezes(self._world, self._world.clock())


class EmbeddedPlans:
    """Plans made here."""

    def __init__(self, world: World) -> None:
        self._world = world

    def committed(self, asked: PlanRequest) -> LabelPlan:
        return plan_committed(asked, self._world)

    def documents(self, asked: PlanRequest, declared: Declarations) -> LabelPlan:
        return plan_documents(asked, declared, self._world)


class EmbeddedNodes:
    """Nodes of the clusters that are reached from here."""

    def __init__(self, world: World) -> None:
        self._world = world

    def states(self, asked: NodesRequest) -> NodeStates:
        return node_states(asked, self._world)

    def explain(self, node: str, key: str, cluster: str | None, look_back: int) -> NodeExplanation:
        return explaining.explain(node, key, cluster, self._world, look_back)[0]

    def history(self, node: str, cluster: str | None, look_back: int) -> NodeHistory:
        return explaining.history(node, cluster, self._world, look_back)


def _summary(about: Committed, tags: list[str], trouble: str = "") -> RevisionSummary:
    return RevisionSummary(
        number=about.number,
        by=about.by,
        at=about.at,
        digest=about.digest,
        documents=about.documents,
        nodes=about.nodes,
        collections={name: CollectionSummary(files=kept.files, digest=kept.digest) for name, kept in about.collections.items()},
        tags=tags,
        trouble=trouble,
        message=about.message,
        source=about.source,
        impact=about.impact,
    )
