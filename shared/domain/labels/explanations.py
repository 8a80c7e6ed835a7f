"""Why a node has a label, and what happened to the node before: the answers, and how they follow from what is kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict

from shared.domain.documents.finding import Place
from shared.domain.labels.node_states import NodeRelease, NodeState
from shared.domain.labels.releases import CauseKind
from shared.domain.outcomes import Changes, OutcomeKind


class Told(BaseModel):
    """A value of these answers: made here, read by the command line from a server of any version."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class RevisionAbout(Told):
    """A revision: who committed it, when, why, and from where."""

    number: int
    by: str
    at: datetime
    message: str = ""
    source: str = ""


class NodeEvent(Told):
    """One thing that happened to a node: another release, a write, or both where one action brought both."""

    at: datetime
    by: str
    cause: CauseKind | None = None
    """Why the release changed; null where it did not."""
    release: NodeRelease | None = None
    """What was released to the node from then on; null where that did not change."""
    action: str = ""
    name: str = ""
    """Of the action."""
    rollout: str = ""
    revision: RevisionAbout | None = None
    outcome: OutcomeKind | None = None
    reason: str = ""
    message: str = ""
    changes: Changes = Changes()
    labels: dict[str, str] | None = None
    """Of an override: the whole set that a person put on the node."""

    @property
    def release_in_words(self) -> str:
        """How its release changed; empty where it did not."""
        if self.release is None:
            return ""
        message = f" “{self.revision.message}”" if self.revision and self.revision.message else ""
        what = f"{self.release}{message}"
        match self.cause:
            case "taken back":
                return f"back to {what}: action {self.action} was stopped"
            case "override":
                return "labels put on it by hand"
            case "override taken back":
                return f"back to {what}: the cluster refused the labels that somebody put on it"
            case "rollout taken back":
                return f"back to {what}: rollout {self.rollout} was reverted"
            case "adopted" | "before releases":
                return f"{what} taken as released"
        by = f" by rollout {self.rollout}" if self.rollout else f" by action {self.action}" if self.action and not self.outcome else ""
        return f"{what} released{by}"

    def with_outcome(self, written: Self) -> Self:
        """A release, and what its action did to the node."""
        return written.model_copy(update={"cause": self.cause, "release": self.release, "by": self.by})


class NodeHistory(Told):
    """What happened to a node, newest first, as far back as was looked."""

    cluster: str
    node: str
    events: list[NodeEvent]
    looked_back_to: datetime | None = None
    """Older releases and actions are kept too; null where all were looked at."""
    unreadable: list[str] = []
    """Records that can't be read: what they say of the node is missing here."""


class LabelWrite(Told):
    """The write that brought a value, and what was there before."""

    at: datetime
    by: str
    action: str
    name: str
    rollout: str = ""
    revision: int = 0
    before: str | None = None
    """The value before it; null where the key was not there, or nobody recorded it (`known`)."""
    known: bool = False
    """Whether what was before is recorded."""
    holders: list[str] = []
    """Who else held the value before."""


class LabelExplanation(Told):
    """One label of a node. `value`: null where the node does not have it; `declared`: null where nothing released declares it."""

    value: str | None
    holders: list[str]
    declared: str | None
    document: str = ""
    place: Place | None = None
    """Where the document says so."""
    written: LabelWrite | None = None


class NodeExplanation(Told):
    """A node, what is released to it and by whom, and each of its labels."""

    cluster: str
    node: str
    release: NodeRelease
    in_sync: bool
    reason: str
    message: str
    revision: RevisionAbout | None
    released: NodeEvent | None
    """The newest change of its release, as far back as was looked."""
    labels: dict[str, LabelExplanation]
    looked_back_to: datetime | None = None


def merged(releases: Sequence[NodeEvent], written: Sequence[NodeEvent]) -> list[NodeEvent]:
    """Both in one order, newest first, as each of them is: what one action released and wrote is one event."""
    wrote = {event.action: event for event in written}
    brought = {event.action for event in releases if event.cause == "action"} & wrote.keys()
    both = [event.with_outcome(wrote[event.action]) if event.cause == "action" and event.action in brought else event for event in releases]
    alone = [event for event in written if event.action not in brought]
    return sorted([*alone, *both], key=lambda event: event.at, reverse=True)


def last_write(key: str, value: str | None, events: Sequence[NodeEvent]) -> LabelWrite | None:
    """The newest write of a key, if it gave it this value (None: removed it); None where it did not, or none is known."""
    for number, event in enumerate(events):
        wrote = _wrote(key, event)
        if wrote is None:
            continue
        if event.outcome != "changed" or wrote[0] != value:
            return None  # somebody else has changed it since
        known, before, holders = _before(key, event, events[number + 1 :])
        return LabelWrite(
            at=event.at,
            by=event.by,
            action=event.action,
            name=event.name,
            rollout=event.rollout,
            revision=event.revision.number if event.revision else 0,
            before=before,
            known=known,
            holders=holders,
        )
    return None


def _wrote(key: str, event: NodeEvent) -> tuple[str | None] | None:
    """What an event made of a key; None where it did not touch it."""
    if key in event.changes.set:
        return (event.changes.set[key],)
    return (None,) if key in event.changes.remove else None


def _before(key: str, event: NodeEvent, older: Iterable[NodeEvent]) -> tuple[bool, str | None, list[str]]:
    """What stood under a key before an event: whether that is known, the value, and who else held it."""
    if taken := event.changes.from_.get(key):
        return True, taken.value, taken.holders
    for earlier in older:
        if (wrote := _wrote(key, earlier)) and earlier.outcome == "changed":
            return True, wrote[0], []
    return False, None, []


def explained(
    keys: Iterable[str],
    state: NodeState,
    declared: Mapping[str, str],
    documents: Mapping[str, str],
    places: Mapping[str, Place],
    events: Sequence[NodeEvent],
) -> dict[str, LabelExplanation]:
    """Each key, with all that is known of it."""
    return {
        key: LabelExplanation(
            value=state.labels.get(key),
            holders=state.holders.get(key, []),
            declared=declared.get(key),
            document=documents.get(key, ""),
            place=places.get(key),
            written=last_write(key, state.labels.get(key), events),
        )
        for key in sorted(keys)
    }
