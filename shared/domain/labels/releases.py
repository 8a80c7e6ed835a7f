"""What is released to the nodes of one cluster, and how each act changes it. Pure.

A commit is a proposal; a release brings a revision to nodes. The state of a cluster is one value: `base`, the revision that every node has
which has nothing of its own, and `names`, what single nodes have instead. Of the two the newer one, by the number `k` of the act that
brought it, is a node's release. A node with neither is unreleased: documents have no say about it yet.

An act never lowers the revision of a node, so that one that comes late or twice changes nothing; only taking back does, and a person's
override. What an unfinished action may have to give back stays in the state: `under` for the base, `was` for a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from shared.domain.labels.places import StageOf, nowhere, place_of

CauseKind = Literal[
    "action",
    "taken back",
    "override",
    "override taken back",
    "adopted",
    "rollout begun",
    "rollout finished",
    "rollout taken back",
    "before releases",
]
Ended = Callable[[str], bool]
"""Whether the action of this id has ended, so that nothing of it is taken back any more."""


class Mark(NamedTuple):
    """One node's release: a revision, an override on top of one, or neither (unreleased). `k` is the number of the act that brought it."""

    revision: int = 0
    override: str = ""
    k: int = 0

    @property
    def released(self) -> bool:
        """Whether there is anything to bring the node to."""
        return bool(self.revision or self.override)

    def same(self, other: Mark) -> bool:
        """Whether both bring the node to the same labels."""
        return self[:2] == other[:2]


UNRELEASED = Mark()


class Act(NamedTuple):
    """One action's release: the number of its act, the revision that it brought, and the action's id."""

    k: int
    revision: int
    action: str


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one node has of its own. `revision` is, for an override, the one that the node had before it."""

    k: int
    revision: int = 0
    override: str = ""
    action: str = ""
    was: Entry | None = None
    """What the node goes back to where the action is stopped; kept until the action has ended."""

    @property
    def mark(self) -> Mark:
        """The same as a node's release."""
        return Mark(self.revision, self.override, self.k)


class Bounds(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the newest site action was let through for: how many nodes it may take labels from, and keys over from others."""

    action: str = ""
    nodes: int = 0
    removals: int = 0
    takeovers: int = 0


UNBOUND = Bounds()


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why the state changed."""

    kind: CauseKind = "before releases"
    action: str = ""
    revision: int = 0
    node: str = ""


class Next(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a rollout is on its way to, and how far it is: every stage before `stage` is reached, and of that one all places to `upto`."""

    rollout: str
    revision: int
    began: int
    """The number of the act that began it."""
    k: int
    """The number of the act that brought it where it is."""
    stage: int = 0
    upto: int = -1
    before: Next | None = None
    """What an unfinished rollout reached that this one takes the place of."""

    def reached(self, node: str, stage_of: StageOf) -> bool:
        """Whether a node's place is reached."""
        if (self.stage, self.upto) == (0, -1):
            return False
        stage = stage_of(self.rollout, node)
        return stage < self.stage or (stage == self.stage and place_of(node) <= self.upto)

    def replaced(self) -> Iterator[Next]:
        """The unfinished rollouts whose place it took, the newest of them first."""
        before = self.before
        while before is not None:
            yield before
            before = before.before


class State(msgspec.Struct, frozen=True):
    """All that is released in one cluster."""

    base: int | None = None
    previous: int | None = None
    """The base before this one, where it was another."""
    next: Next | None = None
    """Where a rollout is on its way to."""
    names: dict[str, Entry] = {}
    shards: list[str] = []
    """Where `names` is kept, where it is too long to stand here."""
    bounds: Bounds = UNBOUND
    tried: int = 0
    """The highest revision whose release was taken back: its labels may be on nodes all the same."""
    base_k: int = 0
    base_action: str = ""
    under: str = ""
    """The key of the state that the base's action found, for where it is stopped."""
    cause: Cause = Cause()
    by: str = ""
    at: datetime | None = None

    def mark(self, node: str, stage_of: StageOf = nowhere) -> Mark:
        """A node's release."""
        return self.mark_of(self.names.get(node), node, stage_of)

    def mark_of(self, entry: Entry | None, node: str, stage_of: StageOf = nowhere) -> Mark:
        """The release of a node that has this of its own."""
        if entry is not None and (entry.k > self.base_k or entry.revision > (self.base or 0)):
            return entry.mark
        return self.common(node, stage_of)

    def common(self, node: str, stage_of: StageOf) -> Mark:
        """The release of a node that has nothing of its own: of the newest rollout that reached it, else the base."""
        way = self.next
        while way is not None:
            if way.revision > (self.base or 0) and way.reached(node, stage_of):
                return Mark(way.revision, "", way.k)
            way = way.before
        return Mark(self.base, "", self.base_k) if self.base else UNRELEASED


def to_all(state: State, act: Act, ended: Ended, *, under: str, bounds: Bounds = UNBOUND) -> State:
    """Release a revision to every node, but to those that have a newer one. `under`: the key of `state`. Overrides end."""
    if (state.base or 0) > act.revision:
        return state
    names = {name: entry for name, entry in state.names.items() if entry.revision > act.revision}
    way = state.next if state.next and state.next.revision > act.revision else None
    if (state.base, state.next) == (act.revision, way) and len(names) == len(state.names) and _for_good(state.base_action, ended):
        return state
    return msgspec.structs.replace(
        state,
        base=act.revision,
        previous=state.base if state.base != act.revision else state.previous,
        names=names,
        bounds=bounds,
        base_k=act.k,
        base_action=act.action,
        under=under,
        next=way,
    )


def to_names(state: State, act: Act, names: Iterable[str], ended: Ended, stage_of: StageOf = nowhere) -> State:
    """Release a revision to these nodes, but to those that have it for good, or a newer one, already. Their overrides end."""
    new: dict[str, Entry] = {}
    for name in names:
        entry, mark = state.names.get(name), state.mark(name, stage_of)
        action = entry.action if entry and entry.k == mark.k else state.base_action if mark.k == state.base_k else ""
        if mark.revision < act.revision or (mark.revision == act.revision and (mark.override or not _for_good(action, ended))):
            new[name] = Entry(act.k, act.revision, action=act.action, was=settled(entry, ended))
    return msgspec.structs.replace(state, names={**state.names, **new}) if new else state


def _for_good(action: str, ended: Ended) -> bool:
    """Whether what this action brought is not taken back any more."""
    return not action or ended(action)


def settled(entry: Entry | None, ended: Ended) -> Entry | None:
    """The entry as it is kept beneath a newer one: what was under an act that has ended is not gone back to."""
    if entry is None or entry.was is None or not _for_good(entry.action, ended):
        return entry
    return msgspec.structs.replace(entry, was=None)


def overridden(state: State, k: int, node: str, override: str, ended: Ended, stage_of: StageOf = nowhere) -> State:
    """Put an override in place of a node's release, until its next one."""
    entry = Entry(k, state.mark(node, stage_of).revision, override, was=settled(state.names.get(node), ended))
    return msgspec.structs.replace(state, names={**state.names, node: entry})


def without_override(state: State, node: str, override: str) -> State:
    """Take an override back: the node has what it had before it, or what was released to it since."""
    entry = state.names.get(node)
    left = _without(entry, lambda each: each.override == override)
    if left is entry:
        return state
    return _with_names(state, {node: left})


def taken_back(state: State, act: Act, done: Collection[str], beneath: State | None, stage_of: StageOf = nowhere) -> State:
    """Take an action's release back from the nodes that have no outcome of it; the nodes in `done` keep it, or get it again.

    `beneath`: the state that the action found, where it brought the base.
    """
    if state.base_action == act.action and beneath is not None:
        return _without_base(state, act, done, beneath, stage_of)

    def undone(each: Entry) -> bool:
        return each.action == act.action

    spliced: dict[str, Entry | None] = {}
    for name, entry in state.names.items():
        if name not in done and (left := _without(entry, undone)) is not entry:
            spliced[name] = left
    state = _with_names(state, spliced) if spliced else state
    return _kept_by(state, act, done, stage_of)


def _without_base(state: State, act: Act, done: Collection[str], beneath: State, stage_of: StageOf) -> State:
    names = dict(beneath.names)
    for name in done:
        if beneath.mark(name, stage_of).revision <= act.revision:
            names[name] = Entry(act.k, act.revision, action=act.action)
    for name, entry in state.names.items():
        names[name] = entry if entry.k < act.k else _on_top_of(names.get(name), entry)
    previous = beneath.previous if beneath.previous != act.revision else None
    kept = {"next": state.next or beneath.next, "tried": max(state.tried, beneath.tried)}
    return msgspec.structs.replace(beneath, names=names, shards=[], previous=previous, **kept)


def _kept_by(state: State, act: Act, done: Iterable[str], stage_of: StageOf) -> State:
    """The state in which the nodes that an action reached have what it brought, where nothing newer is there."""
    marks = {name: state.mark(name, stage_of) for name in done}
    again = {name: Entry(act.k, act.revision, action=act.action) for name, mark in marks.items() if _older(mark, act)}
    return _with_names(state, again) if again else state


def _older(mark: Mark, act: Act) -> bool:
    return mark.k < act.k and mark.revision < act.revision


# --- rollouts -------------------------------------------------------------------------------------------------------------------------


def begun(state: State, k: int, rollout: str, revision: int) -> State:
    """A rollout begins: it has reached no node yet, and keeps what one before it has reached. None begins on top of a newer revision's."""
    if state.next is not None and state.next.revision > revision:
        return state
    way = Next(rollout, revision, began=k, k=k, before=state.next)
    return msgspec.structs.replace(state, next=way)


def advanced(state: State, k: int, rollout: str, to: tuple[int, int], names: Collection[str]) -> State:
    """A rollout reaches everything up to `to` (a stage, and a place in it), and releases its revision to `names`: what they have of their
    own ends, unless it is newer. A rollout that is not on its way any more moves nothing.
    """
    way = state.next
    if way is None or way.rollout != rollout:
        return state
    stage, upto = max(to, (way.stage, way.upto))
    kept = {name: entry for name, entry in state.names.items() if name not in names or entry.revision > way.revision}
    return msgspec.structs.replace(state, names=kept, next=msgspec.structs.replace(way, k=k, stage=stage, upto=upto))


def finished(state: State, rollout: str) -> State:
    """A rollout has reached every node: its revision is the base. What single nodes have got of their own since it began stays."""
    way = state.next
    if way is None or way.rollout != rollout:
        return state
    if (state.base or 0) > way.revision:
        return msgspec.structs.replace(state, next=None)
    kept = {
        name: entry
        for name, entry in state.names.items()
        if entry.revision > way.revision or (entry.k > way.began and (entry.override or entry.revision != way.revision))
    }
    previous = state.base if state.base != way.revision else state.previous
    return msgspec.structs.replace(
        state, base=way.revision, previous=previous, names=kept, bounds=UNBOUND, base_k=way.began, base_action="", under="", next=None
    )


def dropped(state: State, k: int, rollout: str, revision: int, reached: Iterable[str], emptied: str, stage_of: StageOf) -> State:
    """A rollout is taken back: where it reached, the base holds again, the one before it where it has ended as the base. Nodes that nothing
    is released to then get the override `emptied`, an empty set.
    """
    way = state.next
    if way is not None and way.rollout == rollout:
        left = msgspec.structs.replace(state, next=None)
    elif state.base == revision and state.base_action == "":  # another one that is on its way by now stays so
        left = msgspec.structs.replace(state, base=state.previous, previous=None, under="", bounds=UNBOUND)
        left = msgspec.structs.replace(left, names=_of_others(state, revision))
    else:
        return state
    left = msgspec.structs.replace(left, tried=max(left.tried, revision))
    bare = {name for name in reached if not left.mark(name, stage_of).released and name not in left.names}
    return _with_names(left, {name: Entry(k, override=emptied) for name in bare}) if bare else left


def _of_others(state: State, revision: int) -> dict[str, Entry]:
    """What single nodes have of their own that is not of this revision; what counted above the base counts above the next."""
    return {name: entry for name, entry in state.names.items() if entry.revision > revision or (entry.override and entry.k > state.base_k)}


def _with_names(state: State, changed: dict[str, Entry] | dict[str, Entry | None]) -> State:
    names = {**state.names, **changed}
    return msgspec.structs.replace(state, names={name: entry for name, entry in names.items() if entry is not None})


def _without(entry: Entry | None, gone: Callable[[Entry], bool]) -> Entry | None:
    """The entry without those parts of its past that are gone; itself where none is."""
    if entry is None:
        return None
    was = _without(entry.was, gone)
    if gone(entry):
        return was
    return entry if was is entry.was else msgspec.structs.replace(entry, was=was)


def _on_top_of(bottom: Entry | None, entry: Entry) -> Entry:
    if bottom is None or bottom.k >= entry.k:
        return entry
    return msgspec.structs.replace(entry, was=bottom if entry.was is None else _on_top_of(bottom, entry.was))
