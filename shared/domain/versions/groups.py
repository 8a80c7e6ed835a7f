"""Ten thousand decisions as a page: those that share their cause and their target in one group, and which of them somebody asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field, field_validator

from shared.domain.versions.answers import Answer, DecisionEntry, EventGroup, ForecastEntry, GroupEntry, HeldCount

EXAMPLES = 5
"""Clusters that a group names."""
Kind = Literal["auto", "force", "stuck", "stays"]
URGENCY: tuple[Kind, ...] = ("stuck", "force", "auto", "stays")
ANY, NONE = "any", "none"
DOCUMENTS = ":"
"""The fleet of the Shoot documents, which has no name."""


class ClusterFilter(Answer):
    """Which clusters are asked for. Several values of one criterion stand with commas between; the criteria are ANDed."""

    cluster: str | None = Field(default=None, description="Clusters: FLEET:NAMESPACE/NAME, NAMESPACE/NAME or NAME, also as patterns.")
    fleet: str | None = Field(default=None, description="Fleets by name; `:` is that of the Shoot documents.")
    profile: str | None = Field(default=None, description="CloudProfiles by name.")

    @field_validator("cluster", "fleet", "profile", "kind", "reason", "held", check_fields=False)
    @classmethod
    def _given(cls, value: str | None) -> str | None:
        if value is not None and not all(part.strip() for part in value.split(",")):
            raise ValueError("names nothing: leave it out, or give a name")
        return value

    def looks_at(self, full_name: str, fleet: str, profile: str) -> bool:
        """Whether anything of this cluster is asked for."""
        return (
            _listed(self.cluster, full_name, full_name.rpartition(":")[2], full_name.rpartition("/")[2])
            and _listed(self.fleet, fleet or DOCUMENTS)
            and _listed(self.profile, profile)
        )


class DecisionFilter(ClusterFilter):
    """Which decisions are asked for."""

    kind: str | None = Field(default=None, description="`auto`, `force`, `stuck` or `stays`.")
    reason: str | None = Field(default=None, description="Reason codes such as VersionExpired.")
    held: str | None = Field(default=None, description="What holds the update back: a reason code, `any` or `none`.")

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str | None) -> str | None:
        unknown = {part.strip() for part in (kind or URGENCY[0]).split(",")} - {*URGENCY}
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: known are {', '.join(URGENCY)}")
        return kind

    def keeps(self, decision: DecisionEntry) -> bool:
        """Whether this decision of such a cluster is asked for."""
        held = (decision.held.reason, ANY) if decision.held else (NONE,) if decision.changes else ()
        return (
            _listed(self.kind, kind_of(decision))
            and _listed(self.reason, decision.code)
            and (self.held is None or _listed(self.held, *held))
        )


EVERYTHING = DecisionFilter()


def _listed(wanted: str | None, *names: str) -> bool:
    return wanted is None or any(fnmatchcase(name, part.strip()) for part in wanted.split(",") for name in names)


def kind_of(decision: DecisionEntry) -> Kind:
    """What becomes of it: an automatic or forced update, stuck until a person acts, or nothing."""
    if decision.error:
        return "stuck"
    return decision.kind if decision.changes and decision.kind else "stays"


def pending(decisions: Iterable[DecisionEntry]) -> list[DecisionEntry]:
    """The decisions that change something, or should and cannot."""
    return [decision for decision in decisions if decision.changes or decision.error]


def grouped(decisions: Iterable[DecisionEntry]) -> list[tuple[GroupEntry, list[DecisionEntry]]]:
    """The decisions by cause and target: what is stuck first, then forced, then automatic; of these what expires first, then the larger."""
    groups: dict[tuple[str | None, ...], list[DecisionEntry]] = {}
    for decision in decisions:
        groups.setdefault(_cause(decision), []).append(decision)
    return sorted(((_group(members), members) for members in groups.values()), key=lambda pair: _order(pair[0]))


def _cause(decision: DecisionEntry) -> tuple[str | None, ...]:
    subject = (decision.profile, decision.subject, decision.image, decision.from_)
    target = decision.to if decision.changes else None
    return (*subject, target, kind_of(decision), decision.trigger, decision.code, decision.expires, decision.forcedTo)


def _group(members: list[DecisionEntry]) -> GroupEntry:
    first = members[0]
    names = sorted({member.full_name for member in members})
    held = Counter((member.held.reason, member.held.until) for member in members if member.held)
    return GroupEntry(
        profile=first.profile,
        subject=first.subject,
        image=first.image,
        from_=first.from_,
        to=first.to if first.changes else None,
        kind=kind_of(first),
        trigger=first.trigger,
        code=first.code,
        expires=first.expires,
        forcedTo=first.forcedTo,
        clusters=len(names),
        places=len(members),
        open=len({member.full_name for member in members if member.window.open}),
        next=min((member.window.next for member in members if member.window.next), default=None),
        held=[HeldCount(reason=reason, until=until, places=count) for (reason, until), count in held.most_common()],
        examples=names[:EXAMPLES],
    )


def _order(group: GroupEntry) -> tuple[int, str, int, str, str]:
    return URGENCY.index(group.kind), group.expires or "~", -group.places, group.subject + group.image, group.from_ or ""


def event_groups(events: Iterable[ForecastEntry]) -> list[EventGroup]:
    """The events of a calendar by day, cause and target, in order of days; of one day the larger first."""
    groups: dict[tuple[str | None, ...], list[ForecastEntry]] = {}
    for event in events:
        key = (event.at[:10], event.subject, event.image, event.from_, event.to, event.kind, _hindrance(event), str(event.stuck))
        groups.setdefault(key, []).append(event)
    return sorted((_event_group(members) for members in groups.values()), key=lambda group: (group.day, -group.places, group.from_ or ""))


def _hindrance(event: ForecastEntry) -> str:
    return event.held.reason if event.held else event.code


def _event_group(members: list[ForecastEntry]) -> EventGroup:
    first = members[0]
    names = sorted({member.full_name for member in members})
    return EventGroup(
        day=first.at[:10],
        at=min(member.at for member in members),
        subject=first.subject,
        image=first.image,
        from_=first.from_,
        to=first.to,
        kind=first.kind,
        code=_hindrance(first),
        stuck=first.stuck,
        clusters=len(names),
        places=len(members),
        examples=names[:EXAMPLES],
    )
