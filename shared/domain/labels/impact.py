"""What a change of documents does to the nodes of a cluster, counted, and whether a person must accept it first. Pure (docs/limits.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from shared.domain.documents.kinds import Limit, LimitsSpec

What = Literal["removals", "takeovers", "changes"]

KEYS_IN_WORDS = 3


class Impact(BaseModel):
    """What would change in one cluster: counts of nodes, the keys, and a few of the nodes by name."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    cluster: str
    nodes: int = 0
    """Nodes of the cluster."""
    removals: int = 0
    """Nodes that lose a label."""
    takeovers: int = 0
    """Nodes on which another manager's value is replaced."""
    changes: int = 0
    """Nodes that change in any way, the others among them."""
    removed: dict[str, int] = {}
    """By key, how many nodes lose it."""
    added: dict[str, int] = {}
    """By key, how many nodes gain it."""
    changed: dict[str, int] = {}
    """By key, on how many nodes its value changes."""
    taken: dict[str, dict[str, int]] = {}
    """By key and by the manager that holds it, on how many nodes it is taken over."""
    losing: list[str] = []
    """Some of the nodes that lose a label."""
    taking: list[str] = []
    """Some of the nodes on which a value is taken over."""
    changing: list[str] = []
    """Some of the nodes that change."""
    overrides: int = 0
    """Nodes whose labels were set by hand and which go back to what documents declare."""
    bare: bool = False
    """Whether the cluster loses the last label that documents declare."""
    unseen: str = ""
    """What could not be looked at, and what was assumed instead; empty where the cluster's nodes were."""


# --- limits ---------------------------------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """So many nodes pass; more of them, and at least `least`, need a person's word. `nodes` or `percent` (of the cluster's)."""

    nodes: int | None = None
    percent: Decimal | None = None
    least: int = 1
    together: bool = False
    """Whether the other clusters that the same request reaches count too."""

    def exceeded(self, count: int, total: int) -> bool:
        """Whether this many nodes are more than it lets pass, in a cluster of `total` nodes."""
        if count < self.least:
            return False
        return count > self.nodes if self.nodes is not None else count * 100 > (self.percent or 0) * total

    def __str__(self) -> str:
        if self.nodes is not None:
            return f"more than {self.nodes:,} nodes" + (" over all clusters" if self.together else "")
        return f"more than {self.percent} % of the cluster's nodes"


class Bounds(NamedTuple):
    """The limits in force: none of the bounds may be exceeded."""

    removals: frozenset[Bound] = frozenset()
    takeovers: frozenset[Bound] = frozenset()
    changes: frozenset[Bound] = frozenset()


UNSAID = frozenset({Bound(percent=Decimal(10), least=3), Bound(nodes=1000, together=True)})
"""What holds for removals and takeovers where no document says otherwise."""


def bounds_of(limits: LimitsSpec | None) -> Bounds:
    """What a site's Limits document says, and the default for what it does not."""
    if limits is None:
        return Bounds(removals=UNSAID, takeovers=UNSAID)
    return Bounds(_bound(limits.removals) or UNSAID, _bound(limits.takeovers) or UNSAID, _bound(limits.changes))


def _bound(limit: Limit | None) -> frozenset[Bound]:
    if limit is None:
        return frozenset()
    if isinstance(limit.nodes, int):
        return frozenset({Bound(nodes=limit.nodes)})
    return frozenset({Bound(percent=Decimal(limit.nodes.removesuffix("%")))})


def stricter(one: Bounds, other: Bounds) -> Bounds:
    """What passes both. A commit that loosens its own limits is held to the stricter ones until it is released."""
    return Bounds(*(mine | theirs for mine, theirs in zip(one, other, strict=True)))


class Acceptance(BaseModel):
    """On how many nodes at most somebody has accepted each; None where nothing was said."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    removals: int | None = None
    takeovers: int | None = None
    changes: int | None = None

    def __bool__(self) -> bool:
        return any(said is not None for said in (self.removals, self.takeovers, self.changes))


NOTHING_ACCEPTED = Acceptance()
BLOCKING = frozenset({"TooManyRemovals", "TooManyTakeovers", "TooManyChanges", "RevisionRejected"})
"""The reasons of actions that end as blocked: a verdict's, and a revision that was taken back."""


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a whole number of nodes")
    return value


NodeCount = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(_no_truth_value)]
"""A number of nodes; as text, too."""


class Accepting(BaseModel):
    """The fields by which a request accepts what goes beyond the limits. Each is an upper bound that must hold, or nothing is written."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    accept_removals: NodeCount | None = Field(default=None, description="So many nodes at most may lose labels.")
    accept_takeovers: NodeCount | None = Field(default=None, description="On so many at most others' values may be replaced.")
    accept_changes: NodeCount | None = Field(default=None, description="So many at most may change.")

    @property
    def accepted(self) -> Acceptance:
        """The same, as `verdict` takes it."""
        return Acceptance(removals=self.accept_removals, takeovers=self.accept_takeovers, changes=self.accept_changes)

    def accepting(self) -> dict[str, int]:
        """Those of the fields that say something."""
        fields = {name: getattr(self, name) for name in Accepting.model_fields}
        return {name: count for name, count in fields.items() if count is not None}


class Beyond(BaseModel):
    """An impact that goes beyond the limits and was not accepted: a reason, and in words what, where, and how to accept it."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    reason: str
    message: str


class RevisionImpact(BaseModel):
    """What a revision would do, were it released to every cluster now: the sum, and each cluster's."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    nodes: int = 0
    removals: int = 0
    takeovers: int = 0
    changes: int = 0
    clusters: dict[str, Impact] = {}
    beyond: dict[str, Beyond] = {}
    """The clusters in which a site action would be blocked, and why."""


class Others(NamedTuple):
    """Nodes of other clusters that the same request reaches, counted in the same way."""

    removals: int = 0
    takeovers: int = 0
    changes: int = 0

    def __add__(self, other: Others) -> Others:  # type: ignore[override]
        return Others(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def revision_impact(impacts: Sequence[Impact], bounds: Mapping[str, Bounds], asked: Acceptance = NOTHING_ACCEPTED) -> RevisionImpact:
    """The clusters' impacts together, each judged by its bounds."""
    all_of = Others(*(sum(_of(impact, what) for impact in impacts) for what in ("removals", "takeovers", "changes")))
    judged = {}
    for impact in impacts:
        others = Others(all_of.removals - impact.removals, all_of.takeovers - impact.takeovers, all_of.changes - impact.changes)
        judged[impact.cluster] = verdict(impact, bounds.get(impact.cluster, Bounds()), asked, others=others)
    return RevisionImpact(
        nodes=sum(impact.nodes for impact in impacts),
        removals=all_of.removals,
        takeovers=all_of.takeovers,
        changes=all_of.changes,
        clusters={impact.cluster: impact for impact in impacts},
        beyond={name: beyond for name, beyond in judged.items() if beyond},
    )


def in_words(impact: Impact) -> str:
    """One line for people: how many nodes change, and which keys."""
    where = f"cluster {impact.cluster}, {impact.nodes} nodes"
    if not impact.changes and not impact.overrides:
        return f"{where}: no label changes"
    managers = {f"{key} from {' and '.join(sorted(by))}": sum(by.values()) for key, by in impact.taken.items()}
    keys = (("removed", impact.removed), ("added", impact.added), ("changed", impact.changed), ("taken over", managers))
    said = [f"{what}: {_keys(counts)}" for what, counts in keys if counts]
    overrides = [f"labels set by hand end on {impact.overrides}"] if impact.overrides else []
    return f"{where}: {impact.changes} change ({impact.removals} lose labels); " + "; ".join([*said, *overrides])


def verdict(
    impact: Impact,
    bounds: Bounds,
    asked: Acceptance = NOTHING_ACCEPTED,
    kept: Iterable[Acceptance] = (),
    others: Others = Others(),  # noqa: B008 -- a constant
) -> Beyond | None:
    """None where the impact is within the bounds, or accepted; else what goes beyond them.

    `asked` came with the request itself and must hold, however few the bounds would let pass. `kept` were recorded before, and only help.
    """
    known = list(kept)
    judged = (
        _judge(impact, "removals", "TooManyRemovals", bounds, asked, known, others),
        _judge(impact, "takeovers", "TooManyTakeovers", bounds, asked, known, others),
        _judge(impact, "changes", "TooManyChanges", bounds, asked, known, others),
    )
    beyond = [said for said in judged if said]
    return Beyond(reason=beyond[0].reason, message="; ".join(said.message for said in beyond)) if beyond else None


def _judge(
    impact: Impact, what: What, reason: str, bounds: Bounds, asked: Acceptance, kept: Sequence[Acceptance], others: Others
) -> Beyond | None:
    count, wanted = _of(impact, what), _of(asked, what)
    why = ""
    elsewhere = _of(others, what)
    if wanted is not None:
        why = f"more than the {wanted} that were accepted" if count and count + elsewhere > wanted else ""
    elif not any(count <= (_of(each, what) or 0) for each in kept):
        why = _exceeded(impact, what, count, _of(bounds, what), elsewhere)
    if not why:
        return None
    besides = f" (and {elsewhere} of other clusters)" if elsewhere else ""
    return Beyond(reason=reason, message=f"{_happens(impact, what)}{besides}, {why}; {_way_on(what, count + elsewhere)}")


def _exceeded(impact: Impact, what: What, count: int, bounds: Iterable[Bound], elsewhere: int) -> str:
    """Which bound this many nodes go beyond, in words; empty where they are within all of them."""
    if not count:
        return ""
    if what == "removals" and impact.bare:
        return "and would leave the cluster without any declared label"
    return min((str(bound) for bound in bounds if bound.exceeded(count + elsewhere * bound.together, impact.nodes)), default="")


def _of(counted: Any, what: What) -> Any:
    return getattr(counted, what)


def _happens(impact: Impact, what: What) -> str:
    where = f"{_of(impact, what)} of {impact.nodes} nodes of cluster {impact.cluster}"
    match what:
        case "removals":
            said = f"it removes labels from {where}: {_keys(impact.removed)}"
            examples = impact.losing
        case "takeovers":
            managers = {f"{key} from {' and '.join(sorted(by))}": sum(by.values()) for key, by in impact.taken.items()}
            said = f"it takes labels over on {where}: {_keys(managers)}"
            examples = impact.taking
        case _:
            said = f"it changes {where}: {_keys({**impact.added, **impact.changed, **impact.removed})}"
            examples = impact.changing
    more = ", …" if _of(impact, what) > len(examples) else ""
    return f"{said} ({', '.join(examples)}{more})"


def _keys(counts: Mapping[str, int]) -> str:
    named = [f"{key} on {count}" for key, count in list(counts.items())[:KEYS_IN_WORDS]]
    if len(counts) > KEYS_IN_WORDS:
        named.append(f"{len(counts) - KEYS_IN_WORDS} more")
    return ", ".join(named)


def way_on_together(messages: Iterable[str], counts: Others) -> str:
    """How to accept all that these messages of verdicts say, which counts so many nodes together; empty where that isn't the way on."""
    said = " ".join(messages)
    meant = [f"--accept-{what} {count}" for what, count in counts._asdict().items() if f"`--accept-{what} " in said]
    return f"to accept all of that: retry with `{' '.join(meant)}`" if meant else ""


def _way_on(what: What, count: int) -> str:
    return f"if that is meant: `--accept-{what} {count}` (`accept_{what}` over HTTP and in messages)"
