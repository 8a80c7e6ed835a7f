"""What one node should carry, and its outcome (docs/labels.md, docs/messages.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from shared.domain.keys import node_name
from shared.domain.nodes import Taint

ConflictPolicy = Literal["force", "skip", "fail"]
OutcomeKind = Literal["changed", "unchanged", "missing", "skipped", "failed", "stopped", "waiting"]

RELEASED_SINCE = "ReleasedSince"
"""The reason of what was brought to another release than its message was made for."""
STARTUP_TAINT = "StartupTaint"
"""The reason of an outcome where a startup taint stays on a node."""
NOT_RELEASED = "NotReleased"
"""The reason of what was written nothing, because nothing is released to it any more."""


class Before(BaseModel):
    """A label as a write finds it: its value, and the field managers that hold it, sorted (empty where the listing does not say)."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    value: str
    holders: list[str] = []
    at: datetime | None = Field(default=None, exclude_if=lambda at: at is None)
    """When the last of the holders last changed a field of the node, where that was asked for: the label was written then, or before."""


NOTHING_WRITTEN = "dry run: nothing was written"


class Changes(BaseModel):
    """What a write does to one node: keys set (with their new values) and keys removed.

    `from` (Python keeps that word for itself) has what is taken from others: the value of every key set or removed that another manager
    holds, so that it can be given back. It is left out where nothing is.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, defer_build=True, serialize_by_alias=True, validate_by_name=True, validate_by_alias=True
    )
    set: dict[str, str] = {}
    remove: list[str] = []
    from_: dict[str, Before] = Field(default={}, alias="from", exclude_if=lambda taken: not taken)
    untaint: list[str] = Field(default=[], exclude_if=lambda taints: not taints)
    """Startup taints that go, `key=value:Effect`."""

    def in_words(self) -> Iterator[str]:
        """As `kubectl label` and `kubectl taint` write it: `key=value`, `key-`, `taint key:Effect-`."""
        yield from (f"{key}={value}" for key, value in sorted(self.set.items()))
        yield from (f"{key}-" for key in self.remove)
        yield from (f"taint {taint}-" for taint in self.untaint)

    def taken(self, keys: Iterable[str]) -> dict[str, Before]:
        """What is taken from others, of these keys."""
        return {key: self.from_[key] for key in keys if key in self.from_}


class KeyChange(NamedTuple):
    """One label of one node: what it becomes (None: it goes), what it is (None: it is not there), and who holds it."""

    key: str
    to: str | None = None
    was: str | None = None
    holders: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`rack: mine → platform (kubectl-label)`. A value has no parentheses, so `(none)`, `(empty)` and `(removed)` are none."""
        old = "(none)" if self.was is None else self.was or "(empty)"
        new = "(removed)" if self.to is None else self.to or "(empty)"
        return f"{self.key}: {old} → {new}" + (f" ({', '.join(self.holders)})" if self.holders else "")


class Outcome(BaseModel):
    """The outcome of one subject (a node, `controlPlane`, `worker/POOL`), with a reason a person can act on."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    subject: str
    outcome: OutcomeKind
    reason: str = ""
    message: str = ""
    retryable: bool = False
    changes: Changes | None = None


class NodeTask(BaseModel):
    """One node of a part: its whole declared set, and what to do where others hold a key.

    `uid` is empty for a node that planning did not find. `on_conflict` names only the keys that are not forced.
    `aliases` are secondary keys, applied under their own field manager. `keep` are the domains that `prune: all` spares.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    name: Annotated[str, AfterValidator(node_name)]
    uid: str = ""
    labels: dict[str, str] = {}
    prune: Literal["owned", "all"] = "owned"
    on_conflict: dict[str, ConflictPolicy] = {}
    says: dict[str, str] = {}
    """For each key of `on_conflict`, what its document declares and says of conflicts, in words."""
    aliases: dict[str, str] | None = None
    keep: list[str] = []
    aliases_only: bool = False
    """Whether the declared set is there already, so that only the aliases are applied."""
    changes: Changes | None = None
    note: str = ""
    """Whose values the write replaces, for the outcome's message."""
    reason: str = ""
    """Why it is written, for the outcome, where that is not drift."""
    revision: int | None = None
    """The revision that the set is of; None in messages of an earlier version, where the message's counts."""
    override: str = ""
    """The override that the set is of, in place of the revision's."""
    give_back: dict[str, str] = {}
    """Values that a rollout took from other managers, to be written back where nothing declares their keys any more."""
    planned: list[KeyChange] | None = None
    """What may change and nothing else, where the action is bound to a plan."""
    untaint: list[Taint] = []
    """Startup taints that go once the labels are there."""
    created: str = ""
    """When the node was created, where this brings its first labels or takes a startup taint off; else empty."""
    settled: Outcome | None = None
    """Decided when it was planned again (its policies contradict each other, say), or done by an earlier message: told, not applied."""


def in_conflict(managers: Mapping[str, str], values: Mapping[str, str], says: Mapping[str, str]) -> str:
    """Why these keys are a conflict, in words: the value that is there, who holds it, what is declared and by which document, and which
    managed pool sets it.

    `managers`: who holds each key. `values`: the node's labels. `says`: see NodeTask.
    """
    from shared.domain.pools import from_pool  # conflicts are rare

    words = [
        f"{key} is {values[key]!r} by {manager}" + (f"; {says[key]}" if key in says else "")
        if key in values
        else f"{key} is held by {manager}"
        for key, manager in sorted(managers.items())
    ]
    return "; ".join(filter(None, (*words, from_pool(managers, values))))
