"""Everything that travels: one model and one topic each.

Bodies are JSON. Our own messages are read tolerantly (the previous deployment's are still in flight); what people publish
(`RelabelRequest`, `VersionCheck`) is read strictly, because a misspelt field must not become "all nodes".
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from shared.domain.actions import MAX_PARTS, ActionRequest, Ask, action_id
from shared.domain.labels.bound import BoundPlan
from shared.domain.labels.events import KNATIVE, NodeChange
from shared.domain.labels.selection import names_listed
from shared.domain.names import DRIFT_SWEEP, UNKNOWN, UPDATE_LABELS, WHOLE_SITE, RelabelName
from shared.domain.outcomes import Changes as Changes
from shared.domain.outcomes import NodeTask as NodeTask
from shared.domain.outcomes import Outcome as Outcome

MAX_REVISION = 999_999
"""Revisions are stored under six digits."""
ActionId = Annotated[str, Field(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$")]
"""A ULID. It becomes part of the store's keys, and so do the numbers below: nothing else may."""
PartNumber = Annotated[int, Field(ge=0, le=MAX_PARTS)]
"""Parts count from 1; 0 stands for no part."""
RevisionNumber = Annotated[int, Field(ge=0, le=MAX_REVISION)]
"""0 stands for the time before the first commit."""

LAST_ATTEMPT = 5
"""The delivery after which the bus gives a message up (`max_delivery_attempts`): what still fails then is recorded with its cause."""
CLAIMED = "unverified: "
"""Before the name that a publisher gives: the bus knows who may publish, and does not say who did."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message on its way: JSON bytes and string attributes."""

    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)


class Malformed(Exception):
    """A message that no redelivery will make readable. The text says what is wrong and where."""


class TryAgain(Exception):
    """It can't be done now (a cluster or a provider doesn't answer): fail the message, and the bus delivers it again, later."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivered message, as the bus hands it to a function: identity, attributes, bytes."""

    id: str
    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)
    published: datetime | None = None
    topic: str = ""
    attempt: int = 1
    """Which delivery this is, where the bus says so (`deliveryAttempt`); 1 where it does not."""

    @classmethod
    def from_event(cls, event: Any) -> Self:
        """Read the CloudEvent that functions-framework makes of a Pub/Sub push, or one that comes straight from an ApiServerSource.

        Raises Malformed.
        """
        if str(event["type"]).startswith(KNATIVE):
            return cls._straight(event)
        body = event.data if isinstance(event.data, dict) else {}
        message = body.get("message")
        if not isinstance(message, dict):
            raise Malformed("not a Pub/Sub message: the event's data has no `message` object")
        try:
            data = base64.b64decode(message.get("data") or "", validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise Malformed(f"the message's data is not base64: {error}") from error
        attributes = message.get("attributes") or {}
        if not isinstance(attributes, dict):
            raise Malformed("the message's attributes are no mapping")
        return cls(
            id=str(message.get("messageId") or message.get("message_id") or event["id"]),
            data=data,
            attributes={str(k): str(v) for k, v in attributes.items()},
            published=_published(message.get("publishTime") or message.get("publish_time")),
            topic=str(event["source"]).rpartition("/topics/")[2],
            attempt=_attempt(),
        )

    @classmethod
    def _straight(cls, event: Any) -> Self:
        given = {"ce-type": event["type"], "ce-cluster": event.get("cluster"), "traceparent": event.get("traceparent")}
        return cls(
            id=str(event["id"]),
            data=json.dumps(event.data).encode(),
            attributes={key: str(value) for key, value in given.items() if value},
            published=_published(event.get("time")),
            topic="node-events",
        )

    def action_id(self, now: datetime) -> str:
        """The id of the action that this message starts when its publisher gave none."""
        return action_id(self.id, self.published or now)


def _published(stamp: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(stamp)).astimezone(UTC) if stamp else None
    except (ValueError, OverflowError) as error:
        raise Malformed(f"the message's publishTime is no RFC 3339 time: {error}") from error


def _attempt() -> int:
    """The push's own `deliveryAttempt`: functions-framework drops it when it makes a CloudEvent of the push."""
    from flask import has_request_context, request

    body = request.get_json(silent=True) if has_request_context() else None
    attempt = body.get("deliveryAttempt") if isinstance(body, dict) else None
    return attempt if isinstance(attempt, int) else 1


class Message(BaseModel):
    """What every message has: a version, and a topic that it travels on."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    TOPIC: ClassVar[str]
    version: Literal[1] = 1

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a message's bytes. Raises Malformed with every problem in one text."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'message'}: {e['msg']}" for e in error.errors(include_url=False))
            raise Malformed(f"not a {cls.__name__}: {problems}") from error

    def identity(self) -> str:
        """What makes two deliveries the same message, however often it was published; empty where only the bus knows."""
        return ""

    def outgoing(self, attributes: Mapping[str, str] | None = None) -> Outgoing:
        """The message as bytes, with its type and identity in the attributes."""
        known = {"type": type(self).__name__, "identity": self.identity(), **(attributes or {})}
        return Outgoing(self.model_dump_json(exclude_none=True).encode(), {k: v for k, v in known.items() if v})


class RelabelRequest(Ask, Message):
    """Bring these nodes in sync. `target_nodes` or `node_filter` says which; `update_site` and `drift_sweep` mean all."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    TOPIC: ClassVar[str] = "relabel-requests"
    action: ActionId | None = None
    name: RelabelName = UPDATE_LABELS
    requested_by: str = UNKNOWN
    """Who asks, by the publisher's word; `as_claimed` says so."""
    retry_of: ActionId | None = None
    revision: Annotated[int, Field(ge=1, le=MAX_REVISION)] | None = None
    """The revision to bring; where none is named, the newest when the request is accepted."""
    spread: Literal[1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30] | None = None
    """Minutes until the next such message: each brings a sweep to those clusters whose turn it is, each cluster once an hour."""

    @field_validator("target_nodes", "clusters", mode="before")
    @classmethod
    def _list_or_comma_string(cls, value: Any) -> Any:
        return names_listed(value)

    @model_validator(mode="before")
    @classmethod
    def _as_its_plan_says(cls, value: Any) -> Any:
        """A request that is bound to a plan means the plan's nodes, in the plan's cluster."""
        if not isinstance(value, dict) or not (plan := value.get("plan")):
            return value
        body = plan if isinstance(plan, dict) else dict(plan) if isinstance(plan, BoundPlan) else {}
        names = sorted(nodes) if isinstance(nodes := body.get("nodes"), dict) else None
        return {**value, "target_nodes": value.get("target_nodes") or names, "cluster": value.get("cluster") or body.get("cluster")}

    def as_claimed(self) -> Self:
        """The request as the bus brings it: whoever it names counts as claimed, not as known. An action that is recorded keeps its name."""
        if self.requested_by == UNKNOWN or self.requested_by.startswith(CLAIMED):
            return self
        return self.model_copy(update={"requested_by": f"{CLAIMED}{self.requested_by}"[:254]})

    @property
    def whole_site(self) -> bool:
        """Whether the request means every node of the design and of the cluster."""
        return self.name in WHOLE_SITE

    @model_validator(mode="after")
    def _says_which_nodes(self) -> Self:
        if self.rollout:
            if self.batch is None or not self.action or self.whole_site or self.target_nodes or self.node_filter:
                raise ValueError("a batch of a rollout is named by rollout, batch and action: the rollout knows its nodes")
            return self
        if self.plan and (self.whole_site or self.node_filter is not None):
            raise ValueError(f"a plan says which nodes: leave {self.name if self.whole_site else 'node_filter'} out")
        if self.clusters is not None and (self.cluster or self.target_nodes):
            raise ValueError("`clusters` go with every node or a node_filter, in place of `cluster`")
        if self.whole_site:
            if self.target_nodes or self.node_filter:
                raise ValueError(f"{self.name} means every node: leave target_nodes and node_filter out")
        elif self.target_nodes and self.node_filter is not None:
            raise ValueError("give target_nodes or node_filter, not both")
        elif not self.target_nodes and self.node_filter is None:
            raise ValueError("no nodes: give target_nodes, a node_filter, or the name update_site for every node")
        return self

    @model_validator(mode="after")
    def _supersedes_as_a_whole(self) -> Self:
        if self.supersede and (self.target_nodes or self.name == DRIFT_SWEEP):
            raise ValueError("`supersede` goes with every node or a node_filter: nodes that are named, and sweeps, pass beside a rollout")
        return self

    @model_validator(mode="after")
    def _stays_within_its_plan(self) -> Self:
        if self.plan and (beyond := sorted(set(self.target_nodes or ()) - self.plan.nodes.keys())):
            raise ValueError(f"the plan does not have {', '.join(beyond[:5])}: an action that is bound to a plan changes nothing else")
        if self.plan and self.cluster != self.plan.cluster:
            raise ValueError(f"the plan is for cluster {self.plan.cluster}, not for {self.cluster}")
        return self

    @classmethod
    def again(cls, request: ActionRequest) -> Self:
        """The message that makes an accepted action go on."""
        asked = request.asked() | {"cluster": request.cluster or None}
        return cls(action=request.id, **asked | ({"target_nodes": None} if request.rollout else {}))

    def identity(self) -> str:
        return self.action or ""


class RolloutStep(Message):
    """Look at a rollout and do what it needs next; none named: at every one that has not ended (a clock sends that)."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    TOPIC: ClassVar[str] = "rollouts"
    rollout: ActionId | None = None

    def identity(self) -> str:
        return ""


class NodeApply(Message):
    """Bring a slice of nodes in sync. `action` is None for work that no action asked for (cluster events)."""

    TOPIC: ClassVar[str] = "node-applies"
    action: ActionId | None = None
    part: PartNumber = 0
    cluster: str = "default"
    revision: RevisionNumber
    release: int = Field(default=0, ge=0)
    """The number of the cluster's release that every node's set is of; 0 where that has to be looked up for each."""
    nodes: list[NodeTask]

    def identity(self) -> str:
        return f"{self.action}/{self.part}" if self.action else ""


class PartResult(Message):
    """The outcomes of one part. Stored under (action, part): delivered twice it is the same result."""

    TOPIC: ClassVar[str] = "results"
    action: ActionId | None = None
    part: PartNumber = 0
    revision: RevisionNumber = 0
    release: int = 0
    """The number of the cluster's newest release when the part was done."""
    outcomes: list[Outcome] = []

    def identity(self) -> str:
        return f"{self.action}/{self.part}" if self.action else ""


class DeadlineCheck(Message):
    """Close every action whose deadline has passed (a clock sends it)."""

    TOPIC: ClassVar[str] = "action-deadlines"


class NodeChanged(NodeChange, Message):
    """A node that was added, changed or deleted, as our own forwarder saw it."""

    TOPIC: ClassVar[str] = "node-events"

    def identity(self) -> str:
        return f"{self.cluster}/{self.name}/{self.uid}/{self.resource_version}/{self.kind}"


class VersionCheck(Message):
    """Classify, decide and issue updates for these clusters (none named: all).

    They are named FLEET:NAMESPACE/NAME, or NAMESPACE/NAME or NAME where there is one of it. `shard`: only the fleets of this one, where a
    check of many fleets was divided.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    TOPIC: ClassVar[str] = "version-checks"
    clusters: list[str] | None = None
    shard: int | None = Field(default=None, ge=0)
    dry_run: bool = False
    force_window: bool = False


class ComponentUpdate(BaseModel):
    """One version step. `component` is `controlPlane` or `worker/POOL`, `subject` is `kubernetes` or `machineImage`."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, defer_build=True)
    component: str
    subject: Literal["kubernetes", "machineImage"]
    from_: str = Field(alias="from")
    to: str
    kind: Literal["auto", "force"]
    reason: str = ""
    image: str = ""
    trigger: str = ""
    """What it is due for; empty in messages of earlier releases."""
    expires: datetime | None = None
    """When the version that it leaves does."""
    waived: str = ""
    """Why it goes although something would keep it back."""


class VersionUpdate(Message):
    """All updates of one cluster that this window is for, in the order they are applied."""

    TOPIC: ClassVar[str] = "version-updates"
    action: ActionId
    part: PartNumber = 0
    cluster: str
    """`namespace/name`"""
    fleet: str | None = None
    """None: sent by an earlier release, which knew clusters by their name alone."""
    updates: list[ComponentUpdate]
    force_window: bool = False

    def identity(self) -> str:
        return f"{self.action}/{self.part}"

    def outgoing(self, attributes: Mapping[str, str] | None = None) -> Outgoing:
        sent = super().outgoing(attributes)
        return Outgoing(self.model_dump_json(exclude_none=True, by_alias=True).encode(), sent.attributes)


class Notice(Message):
    """A CloudEvent for people and machines; the kinds are in shared.domain.notices. `id` is deterministic, so readers can drop repeats."""

    TOPIC: ClassVar[str] = "notices"
    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str = "hullmark"
    type: str
    subject: str = ""
    time: datetime
    datacontenttype: Literal["application/json"] = "application/json"
    data: dict[str, Any]

    def identity(self) -> str:
        return self.id
