"""What is answered about versions, on the command line and over HTTP. Models alone: importing them costs no rule."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.domain.versions.identity import full_name


class UnknownFleetCluster(Exception):
    """No cluster of the fleet has that name, or several have (HTTP 404)."""


class Answer(BaseModel):
    """JSON as it is printed: `from` is written without its underscore. Times are RFC 3339."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, serialize_by_alias=True, defer_build=True)


class Opening(Answer):
    """A maintenance window: whether it is open, and when it opens next (null: it is always open)."""

    open: bool
    next: str | None


class StepEntry(Answer):
    """What is decided about one component: `to` is null where it stays as it is, `kind` then too.

    A cluster's identity is `fleet` (empty: a Shoot document) and `cluster` (`namespace/name`).
    """

    cluster: str
    fleet: str = ""
    component: str
    subject: str
    from_: str | None = Field(alias="from")
    to: str | None
    kind: Literal["auto", "force"] | None
    trigger: str | None
    code: str
    reason: str
    description: str

    @property
    def full_name(self) -> str:
        """`FLEET:NAMESPACE/NAME`; `NAMESPACE/NAME` alone for a Shoot document."""
        return full_name(self.fleet, self.cluster)


class HeldEntry(Answer):
    """What keeps an update back; `until` is null where nobody knows when that ends."""

    reason: str
    message: str
    until: str | None


class WaivedEntry(Answer):
    """Why an update goes although something would keep it back."""

    reason: str
    message: str


class DecisionEntry(StepEntry):
    """One entry of `versions plan`. `error`: it is stuck until a person acts. `image`: the machine image's name, where it is about one.

    `expires`: when the version in `from` does; `forcedTo`: what it is or by then would be forced to, null where that is nothing.
    """

    error: bool
    window: Opening
    profile: str = ""
    image: str = ""
    expires: str | None = None
    forcedTo: str | None = None  # noqa: N815
    held: HeldEntry | None = None
    waived: WaivedEntry | None = None

    @property
    def changes(self) -> bool:
        """Whether it changes something: the cap may yield a pool's own version again."""
        return self.to not in (None, self.from_)


class HeldCount(Answer):
    """How many places of a group the same hold keeps back."""

    reason: str
    until: str | None
    places: int


class GroupEntry(Answer):
    """Decisions with the same cause and the same target: so many `places` (control planes and pools) in so many `clusters`.

    `open`: in how many of them the window is open; `next`: when the next one opens; `examples`: a few of them, by full name.
    """

    profile: str
    subject: str
    image: str
    from_: str | None = Field(alias="from")
    to: str | None
    kind: Literal["auto", "force", "stuck", "stays"]
    trigger: str | None
    code: str
    expires: str | None
    forcedTo: str | None  # noqa: N815
    clusters: int
    places: int
    open: int
    next: str | None
    held: list[HeldCount]
    examples: list[str]


class DecisionList(Answer):
    """`versions plan`. `groups`: what is due or stuck, by cause; `unchanged`: how many decisions leave a version as it is.
    `clusters`: how many were looked at (null: the server is an older one). `unreachable`: why a fleet could not be listed; the others
    are decided.
    """

    decisions: list[DecisionEntry]
    clusters: int | None = None
    unchanged: int = 0
    groups: list[GroupEntry] = []
    unreachable: list[str] = []


class NextStage(Answer):
    """What a version counts as next, and from when."""

    classification: str
    at: str | None


class OfferEntry(Answer):
    """A version that a profile offers: `daysLeft` are whole ones, negative after the end; `inUse` counts control planes and pools."""

    profile: str
    subject: str
    version: str
    classification: str
    expires: str | None
    daysLeft: int | None  # noqa: N815
    next: NextStage | None
    inUse: int  # noqa: N815


class OfferList(Answer):
    """`versions list`."""

    versions: list[OfferEntry]
    unreachable: list[str] = []


class ForecastEntry(StepEntry):
    """One entry of `versions calendar`: an update, or one that is stuck or held (`held` says by what). `image`: the machine image's name,
    where it is about one.
    """

    at: str
    until: str
    stuck: bool
    image: str
    held: HeldEntry | None = None


class EventGroup(Answer):
    """Events with one cause and target on one day (UTC): so many `places` in so many `clusters`, a few of which are `examples`.

    `at`: when the first of them begins.
    """

    day: str
    at: str
    subject: str
    image: str
    from_: str | None = Field(alias="from")
    to: str | None
    kind: Literal["auto", "force"] | None
    code: str
    stuck: bool
    clusters: int
    places: int
    examples: list[str]


class ForecastList(Answer):
    """`versions calendar`. `groups`: the events by day, cause and target. `revision`: that of the documents, 0 for files.
    `clusters`: how many were looked at (null: the server is an older one).
    """

    events: list[ForecastEntry]
    clusters: int | None = None
    groups: list[EventGroup] = []
    revision: int = 0
    unreachable: list[str] = []


class CandidateEntry(Answer):
    """A version that was looked at."""

    version: str
    classification: str
    verdict: str


class ExplainedDecision(DecisionEntry):
    """A decision with what to do about it, what becomes of it in sentences, and every version that was looked at."""

    advice: str
    sentences: list[str] = []
    candidates: list[CandidateEntry]


class AutoUpdate(Answer):
    """What the cluster lets be updated without a need."""

    kubernetesVersion: bool  # noqa: N815
    machineImageVersion: bool  # noqa: N815


class Explanation(Answer):
    """`versions why`: everything about one cluster. `events`: what its windows will bring, as far as the calendar is known today."""

    cluster: str
    fleet: str = ""
    profile: str
    autoUpdate: AutoUpdate  # noqa: N815
    window: Opening
    decisions: list[ExplainedDecision]
    events: list[ForecastEntry] = []
    unreachable: list[str] = []

    @property
    def full_name(self) -> str:
        """`FLEET:NAMESPACE/NAME`; `NAMESPACE/NAME` alone for a Shoot document."""
        return full_name(self.fleet, self.cluster)


class ImpactMoment(Answer):
    """A step of a calendar: `to` null and `stuck` where it cannot be taken; `code`: why."""

    at: str
    to: str | None
    kind: Literal["auto", "force"] | None
    stuck: bool
    code: str


class ImpactChange(Answer):
    """What is left (`from`), how that goes today (`before`), and how it would go (`after`); null: not at all."""

    subject: str
    image: str
    from_: str | None = Field(alias="from")
    before: ImpactMoment | None
    after: ImpactMoment | None

    @property
    def newly_stuck(self) -> bool:
        """Whether it would be stuck and is not today."""
        return bool(self.after and self.after.stuck and not (self.before and self.before.stuck))


class ImpactEntry(ImpactChange):
    """A step of one cluster that comes, goes, or becomes another one."""

    cluster: str
    fleet: str
    component: str

    @property
    def full_name(self) -> str:
        """`FLEET:NAMESPACE/NAME`; `NAMESPACE/NAME` alone for a Shoot document."""
        return full_name(self.fleet, self.cluster)


class ImpactGroup(ImpactChange):
    """The same change, on the same days (UTC), in so many `places` of so many `clusters`, a few of which are `examples`."""

    clusters: int
    places: int
    examples: list[str]


class GapEntry(Answer):
    """A version (or a minor) of a profile that leads nowhere: from when (`at`; null: it never expires), and how many places run it."""

    profile: str
    subject: str
    version: str
    code: str
    at: str | None
    message: str
    inUse: int  # noqa: N815


class ProfileProblem(Answer):
    """What `validate` says of the edited profile, seen as a change of the present one."""

    file: str
    line: int
    document: str
    path: str
    type: str
    message: str


class ImpactList(Answer):
    """`versions impact`. `users`: clusters on these profiles; `clusters`: those of them whose profile is another one now; `moves`: their
    steps that change; `groups`: these by what changes; `gaps`: where the edited profiles lead nowhere; `problems`: why `validate` refuses
    them.
    """

    profiles: list[str]
    users: int
    clusters: int
    moves: list[ImpactEntry]
    groups: list[ImpactGroup]
    gaps: list[GapEntry]
    problems: list[ProfileProblem]
    unreachable: list[str] = []

    @property
    def stuck(self) -> int:
        """Places that would be stuck and are not today."""
        return sum(move.newly_stuck for move in self.moves)
