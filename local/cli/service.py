"""What the commands need from Hullmark, wherever it runs: actions, documents, plans and versions.

Two implementations: `local/cli/embedded.py` works on the store that HULLMARK_STORE names, `local/cli/client.py` asks a server. A command
sees only these protocols, so it prints the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, field_serializer

from shared.domain.actions import ActionOutcome, Lifecycle
from shared.domain.documents.reading import Problem, Source
from shared.domain.labels.comparison import RevisionDiff
from shared.domain.labels.explanations import NodeExplanation, NodeHistory
from shared.domain.labels.impact import Accepting, RevisionImpact
from shared.domain.labels.node_states import NodesRequest, NodeStates
from shared.domain.labels.plans import LabelPlan, PlanRequest
from shared.domain.labels.reach import Whereabouts
from shared.domain.rollouts.on_commit import OnCommit
from shared.domain.versions.answers import DecisionList, Explanation, ForecastList, ImpactList, OfferList
from shared.domain.versions.groups import EVERYTHING, ClusterFilter, DecisionFilter
from shared.messages import RelabelRequest
from shared.work.commits import WouldCommit
from shared.work.deferrals import DeferralEntry, DeferralList
from shared.work.holds import FreezeList, PauseStatus
from shared.work.planning import Declarations
from shared.work.rollouts import Control, RolloutStatus


class ActionSummary(BaseModel):
    """One line of `actions list`."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    id: str
    name: str
    cluster: str
    clusters: list[str] = []
    """Several, each with an action of its own; then `cluster` is empty."""
    parent: str | None = None
    revision: int
    lifecycle: Lifecycle
    result: str | None
    requested_by: str
    requested_at: datetime
    dry_run: bool = False

    @field_serializer("requested_at")
    def _to_the_second(self, moment: datetime) -> str:
        return moment.isoformat(timespec="seconds")


class Progress(NamedTuple):
    """Nodes (or clusters, where there are several) that have an outcome, of all that the action is about."""

    done: int
    total: int


class Ledger(Protocol):
    """Actions: ask for one, follow it, steer it. Methods raise UnknownAction for an id that was never accepted."""

    def newest(self, limit: int) -> list[ActionSummary]:
        """The newest so many, oldest of them first."""
        ...

    def summary(self, action: str) -> ActionSummary:
        """What was asked and where it stands."""
        ...

    def outcome(self, action: str) -> ActionOutcome | None:
        """How it ended; None while it has not."""
        ...

    def progress(self, action: str) -> Progress | None:
        """How far it is; None before it is planned."""
        ...

    def children(self, action: str) -> dict[str, str]:
        """By cluster, the id of its own action, where the action is over several clusters."""
        ...

    def submit(self, request: RelabelRequest) -> str:
        """Start an action; its id. Raises Rejected."""
        ...

    def retry(self, action: str, accept: Accepting) -> str:
        """Start a new action on the nodes of this one that failed (all, where it was blocked); its id. Raises WrongState and Rejected."""
        ...

    def control(self, action: str, verb: str, now: datetime) -> None:
        """Give it a verb: stop, pause or unpause. Raises WrongState."""
        ...

    def wait(self, action: str) -> None:
        """Return when it has ended, or is paused. The embedded cloud works it off meanwhile."""
        ...

    def leave(self) -> None:
        """Stop working, because the person has interrupted the command."""
        ...

    @property
    def goes_on(self) -> str:
        """How an action goes on that nobody waits for any more."""
        ...

    @property
    def runs_by_itself(self) -> bool:
        """Whether an action goes on without a command that waits for it."""
        ...


class CollectionSummary(BaseModel):
    """A collection inside a revision."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    files: list[str]
    digest: str


class RevisionSummary(BaseModel):
    """One line of `documents list`."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    number: int
    by: str
    at: datetime
    digest: str
    documents: int
    nodes: int
    collections: dict[str, CollectionSummary]
    tags: list[str]
    message: str = ""
    source: str = ""
    impact: RevisionImpact | None = None
    """What it would have done to the nodes when it was committed."""
    trouble: str = ""
    """Why it can't be read, where that is so; the rest is empty then."""

    @field_serializer("at")
    def _as_written(self, moment: datetime) -> str:
        return moment.isoformat()


class CommittedSummary(RevisionSummary):
    """A revision that was committed just now, and what starts with it."""

    rollouts: list[OnCommit] = []


class RestoredSummary(CommittedSummary):
    """A revision that restores an earlier one, and the numbers of those that were rejected with it."""

    rejected: list[int] = []


@dataclass(frozen=True)
class CommittedDocuments:
    """One revision with its documents, as they were staged."""

    about: RevisionSummary
    files: dict[str, list[Source]]
    """By collection."""

    @property
    def sources(self) -> list[Source]:
        """All of them."""
        return [source for files in self.files.values() for source in files]


class ListedRevision(RevisionSummary, Whereabouts):
    """A revision, and where it is released."""


class Listing(NamedTuple):
    """Revisions, and the collections whose buffers hold something newer than the newest."""

    revisions: list[ListedRevision]
    staged: list[str]


class StagedFiles(BaseModel):
    """What a collection's buffer holds now."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    collection: str
    files: list[str]
    digest: str


class Documents(Protocol):
    """Staged and committed documents."""

    def stage(self, collection: str, sources: Sequence[Source], now: datetime) -> StagedFiles:
        """Put documents into a collection's buffer. Raises DocumentsRefused and EmptyStage."""
        ...

    def remove(self, collection: str, now: datetime) -> StagedFiles:
        """Stage a collection's removal. Raises UnknownCollection."""
        ...

    def would_commit(self, now: datetime, accept: Accepting) -> WouldCommit:
        """The warnings and the impact that a commit would have now. Raises what it would raise."""
        ...

    def commit(self, now: datetime, message: str, source: str, accept: Accepting) -> tuple[CommittedSummary, list[Problem]]:
        """Make the next revision; it and its warnings. Raises NothingStaged and DocumentsRefused."""
        ...

    def restore(self, number: int, now: datetime, message: str, source: str, accept: Accepting) -> RestoredSummary:
        """Commit a revision's collections anew, as the next one. Raises UnknownRevision."""
        ...

    def list(self, limit: int) -> Listing:
        """The newest so many revisions, oldest of them first."""
        ...

    def get(self, number: int, collection: str = "") -> CommittedDocuments:
        """A revision with its documents, or with those of one collection. Raises UnknownRevision and UnknownCollection."""
        ...

    def diff(self, older: int, newer: int, cluster: str, collection: str) -> RevisionDiff:
        """What differs, in labels and in text. Raises UnknownRevision, UnknownCollection and Rejected."""
        ...

    def tag(self, number: int, tag: str, now: datetime) -> RevisionSummary:
        """Set a tag. Raises UnknownRevision."""
        ...

    def untag(self, number: int, tag: str) -> RevisionSummary:
        """Remove a tag. Raises UnknownRevision, UnknownTag and TagStays."""
        ...

    def declared(self) -> Declarations | None:
        """What the newest revision declares; None before the first commit."""
        ...


class Plans(Protocol):
    """What a relabel would change."""

    def committed(self, asked: PlanRequest) -> LabelPlan:
        """Plan the newest committed documents against the cluster as it is now. Raises Rejected."""
        ...

    def documents(self, asked: PlanRequest, declared: Declarations) -> LabelPlan:
        """Plan these documents, which nobody has committed, instead. Raises Rejected."""
        ...


class Nodes(Protocol):
    """How nodes stand to what is released to them."""

    def states(self, asked: NodesRequest) -> NodeStates:
        """All that are asked for, on one page. Raises Rejected."""
        ...

    def explain(self, node: str, key: str, cluster: str | None, look_back: int) -> NodeExplanation:
        """Each label of a node, or one. Raises Rejected."""
        ...

    def history(self, node: str, cluster: str | None, look_back: int) -> NodeHistory:
        """What happened to a node. Raises Rejected."""
        ...


class Versions(Protocol):
    """The versions of one fleet. Every answer says which parts of the fleet could not be reached."""

    def offers(self, now: datetime) -> OfferList:
        """Every version that the profiles offer."""
        ...

    def decisions(self, now: datetime, wanted: DecisionFilter = EVERYTHING, *, stays: bool = True) -> DecisionList:
        """What is decided now for every cluster that is asked for; `stays`: what stays as it is, too."""
        ...

    def calendar(self, now: datetime, days: int | None, wanted: ClusterFilter = EVERYTHING) -> ForecastList:
        """What will happen to the clusters that are asked for, so many days ahead or to the day from which nothing changes."""
        ...

    def impact(self, edited: Sequence[Source], now: datetime, days: int | None = None, only: str | None = None) -> ImpactList:
        """What these profiles would do in place of the present ones; `only` in this fleet. Raises DocumentsRefused."""
        ...

    def why(self, cluster: str, now: datetime) -> Explanation:
        """Everything about one cluster. Raises UnknownFleetCluster."""
        ...


class Word(NamedTuple):
    """What is said with a word for a rollout: for an approval its stage and the digest of the impact that was shown, for others why."""

    stage: str = ""
    impact: str = ""
    reason: str = ""
    accept: Accepting = Accepting()


class Rollouts(Protocol):
    """Changes in stages. Methods raise UnknownRollout for an id that there is not."""

    def start(self, name: str, accept: Accepting, *, supersede: bool) -> RolloutStatus:
        """Start a rollout of the newest revision. Raises Rejected."""
        ...

    def newest(self, limit: int) -> list[RolloutStatus]:
        """The newest so many, oldest of them first."""
        ...

    def get(self, rollout: str) -> RolloutStatus:
        """Where one stands."""
        ...

    def control(self, rollout: str, verb: Control, word: Word) -> RolloutStatus:
        """Give it a word. Raises WrongPhase and Rejected."""
        ...

    def look_again(self, rollout: str, seconds: float) -> RolloutStatus:
        """Where it stands after at most so many seconds. The embedded cloud works it off meanwhile."""
        ...


class Holds(Protocol):
    """What holds changes back."""

    def pause(self, reason: str) -> PauseStatus:
        """Pause the whole fleet. Raises WrongState where it is paused."""
        ...

    def resume(self) -> PauseStatus:
        """Let it go on. Raises WrongState where it is not paused."""
        ...

    def defer(self, cluster: str, until: datetime, reason: str) -> DeferralEntry:
        """Put the updates of a cluster off. Raises Rejected, UnknownFleetCluster and WrongState."""
        ...

    def cancel(self, cluster: str) -> DeferralEntry:
        """Let them go on. Raises WrongState where they are not put off, and UnknownFleetCluster."""
        ...

    def deferrals(self) -> DeferralList:
        """The clusters whose updates are put off."""
        ...

    def freezes(self) -> FreezeList:
        """The Freeze documents that count and have not ended."""
        ...


class Service(Protocol):
    """All of it."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def documents(self) -> Documents: ...
    @property
    def plans(self) -> Plans: ...
    @property
    def nodes(self) -> Nodes: ...
    @property
    def rollouts(self) -> Rollouts: ...
    @property
    def holds(self) -> Holds: ...

    def versions(self, *, live: bool) -> Versions:
        """The fleet of the newest revision; with `live`, what its Cluster documents name is asked too. Raises Rejected."""
        ...
