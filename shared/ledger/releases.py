"""What is released to which node, as it is kept: one chain for each cluster, each object the whole state, the newest counts.

releases/<cluster>/<k>.json            the state after act k; k has no gaps
releases/<cluster>/names/<ulid>.json   a share of its `names`, where there are more than NAMES_INLINE, by a hash of the name
releases/<cluster>/under/<ulid>.json   what is under an unfinished site action, where another unfinished one was taken out from under it
release-heads/<cluster>/<k>            a hint that act k happened: where to begin to look for the newest
overrides/<ulid>.json                  labels that a person put on one node in place of the documents'
upgrades/releases                      releases are kept from here on; what counted as released to everybody until then

To change a state: read k, decide, create k+1; who loses that reads and decides anew. Nothing of it is ever removed but hints. A head that
can't be read stops its cluster: the state before it is never used in its place.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple, TypeVar
from zlib import crc32

import msgspec
from ulid import ULID

from shared.domain.actions import Record
from shared.domain.labels.places import StageOf, nowhere
from shared.domain.labels.releases import (
    UNBOUND,
    Act,
    Bounds,
    Cause,
    CauseKind,
    Ended,
    Entry,
    Mark,
    State,
    advanced,
    begun,
    dropped,
    finished,
    overridden,
    taken_back,
    to_all,
    to_names,
    without_override,
)
from shared.domain.names import SITE_TAGS
from shared.ledger.chains import Chain
from shared.ledger.places import Places
from shared.ledger.records import RecordUnreadable, missing, read_as, read_record, read_there
from shared.ledger.revisions import Revision, Revisions, UnknownRevision, revision_key
from shared.ports import ObjectStore

NAMES_INLINE = 1000
"""Names that stand in the state itself. Of more, shares of about so many are kept, and an act writes those that it changes."""
SHARES_KEPT = 256
"""Shares that a process remembers: about 20 MB."""
ACTS_KEPT = 1000
"""Acts of which a process remembers whether they were an override, and its labels."""
BEGAN = "upgrades/releases"
RELEASING: tuple[CauseKind, ...] = ("action", "rollout begun", "rollout taken back")
"""Causes by which an action, or a rollout, is found to have released before."""
TAKEN_BACK: tuple[CauseKind, ...] = ("rollout taken back",)

T = TypeVar("T")
Names = dict[str, Entry]
Decide = Callable[[State, int], State]
"""(state, number of the act) → the state after it; the same state where the act changes nothing."""


class Newest(NamedTuple):
    """The number of an action's act, and whether it was made just now; of the cluster's newest, where there was nothing to release."""

    k: int
    made: bool


class Override(Record):
    """The whole set that a person wants Hullmark to own on one node."""

    cluster: str
    node: str
    labels: dict[str, str]
    by: str
    at: datetime


class Began(Record):
    """`upgrades/releases`: the revision that counted as everybody's release when releases began to be kept; None in a new store."""

    base: int | None = None
    newest: int = 0
    """The newest revision of then: it, and each one before it, may have been applied to any node."""


class Released:
    """A cluster's state as it was read."""

    def __init__(self, k: int, state: State, share: Callable[[str], Names], stage_of: StageOf = nowhere) -> None:
        self.k = k
        """The number of its newest act; 0 before the first."""
        self._state = state
        self._share = share
        self.stage_of = stage_of

    @property
    def base(self) -> int:
        """The revision of every node that has nothing of its own; 0 where there is none."""
        return self._state.base or 0

    @property
    def base_k(self) -> int:
        """The number of the act that brought the base."""
        return self._state.base_k

    @property
    def tried(self) -> int:
        """The highest revision that was released to any node and taken back; 0 where none was."""
        return self._state.tried

    @property
    def about(self) -> State:
        """The state as its object has it: by whom, when, why. `names` may be elsewhere."""
        return self._state

    @property
    def shards(self) -> list[str]:
        """The ids of the shares that hold the names; empty where they stand in the state."""
        return self._state.shards

    def mark(self, node: str) -> Mark:
        """A node's release. Raises RecordUnreadable."""
        return self._state.mark_of(self.entry(node), node, self.stage_of)

    def entry(self, node: str) -> Entry | None:
        """What one node has of its own. Raises RecordUnreadable."""
        return self._names_near(node).get(node)

    def brought_by(self, node: str) -> str | None:
        """The action that released to a node what it has; empty where no action did, None for an override. Raises RecordUnreadable."""
        entry = self._names_near(node).get(node)
        if entry is None or self._state.mark_of(entry, node, self.stage_of) != entry.mark:
            return self._state.base_action
        return None if entry.override else entry.action

    def names(self) -> Names:
        """What single nodes have of their own. Raises RecordUnreadable."""
        if not self.shards:
            return self._state.names
        return {name: entry for shard in self.shards for name, entry in self._share(shard).items()}

    def share(self, number: int) -> Names:
        """One share of the names. Raises RecordUnreadable."""
        return self._share(self.shards[number])

    def whole(self) -> State:
        """The state with all its names. Raises RecordUnreadable."""
        return msgspec.structs.replace(self._state, names=self.names(), shards=[]) if self.shards else self._state

    def _names_near(self, node: str) -> Names:
        return self._share(self.shards[_share_of(node, len(self.shards))]) if self.shards else self._state.names


class InForce:
    """What held at the moment of one look. It stays as it was, so that one piece of work goes by one state."""

    def __init__(self, releases: Releases, revisions: Revisions, trusted: float) -> None:
        self._releases = releases
        self._revisions = revisions
        self._trusted = trusted
        self._states: dict[str, Released] = {}

    @functools.cached_property
    def committed(self) -> Revision | None:
        """The newest commit, None before the first: clusters' access, maintenance and versions go by it."""
        number = self._releases.committed(self._trusted)
        return self._revisions.get(number) if number else None

    def state(self, cluster: str) -> Released:
        """What is released in a cluster. Raises RecordUnreadable."""
        if cluster not in self._states:
            self._states[cluster] = self._releases.head(cluster, self._trusted)
        return self._states[cluster]

    def mark(self, cluster: str, node: str) -> Mark:
        """One node's release."""
        return self.state(cluster).mark(node)

    def holding(self, cluster: str) -> Revision | None:
        """The revision that holds for a cluster as a whole: for its pods' policies, for nodes that nobody has seen yet. None: none does."""
        base = self.state(cluster).base
        return self._releases.revision(base) if base else None

    def revision_for(self, cluster: str, node: str) -> Revision | None:
        """The revision that is released to one node; None: the documents have no say about it yet."""
        mark = self.mark(cluster, node)
        return self._releases.revision(mark.revision) if mark.revision else None


class Releases:
    """The chains of one store."""

    def __init__(
        self, store: ObjectStore, revisions: Revisions, ended: Ended = lambda action: True, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._revisions = revisions
        self._ended = ended
        self._monotonic = monotonic
        self._committed = (-math.inf, 0)
        self._heads: dict[str, tuple[float, Released]] = {}
        self._kept_already = False
        self.places = Places(store)
        self._share = functools.lru_cache(SHARES_KEPT)(self._read_share)
        self._override_at = functools.lru_cache(ACTS_KEPT)(self._read_override)

    # reading

    def look(self, trusted: float = 0) -> InForce:
        """What holds now; what was read less than `trusted` seconds ago is taken as it was. What is asked of it costs one read of an object
        that is not there, or, the first time in a process, one short listing.
        """
        return InForce(self, self._revisions, trusted)

    def committed(self, trusted: float = 0) -> int:
        """The number of the newest commit; 0 before the first."""
        read_at, number = self._committed
        if not trusted or self._monotonic() - read_at >= trusted or number != self._revisions.highest:
            read_at, number = self._committed = self._monotonic(), self._revisions.newest()
        return number

    def head(self, cluster: str, trusted: float = 0) -> Released:
        """A cluster's newest state. Raises RecordUnreadable."""
        read_at, known = self._heads.get(cluster, (0.0, None))
        if known and trusted and self._monotonic() - read_at < trusted:
            return known
        now = self._monotonic()
        head = self._newest(cluster, known if known and known.k else None)
        self._heads[cluster] = now, head
        return head

    def _newest(self, cluster: str, known: Released | None) -> Released:
        link = self._chain(cluster).newer(known.k if known else 0)
        if link.k:
            return self._read(cluster, link.k, link.body)
        return known or Released(0, self._before(), self._share, self._stage_of(cluster))

    def _stage_of(self, cluster: str) -> StageOf:
        return functools.partial(self.places.stage_of, cluster)

    def _chain(self, cluster: str) -> Chain:
        return Chain(self._store, f"releases/{cluster}/", f"release-heads/{cluster}/")

    def _read(self, cluster: str, k: int, body: bytes | None = None) -> Released:
        return Released(k, self._state(release_key(cluster, k), body), self._share, self._stage_of(cluster))

    def _state(self, key: str, body: bytes | None = None) -> State:
        return read_there(self._store, key, _as_state) if body is None else read_as(key, body, _as_state)

    def _whole(self, key: str) -> State:
        return Released(0, self._state(key), self._share).whole() if key else State()

    def _read_share(self, key: str) -> Names:
        return read_there(self._store, key, lambda text: msgspec.json.decode(text, type=Names))

    def _before(self) -> State:
        """The state of a cluster that has none: in a store from before releases, the newest site action's revision is everybody's."""
        began = read_record(self._store, BEGAN, Began)
        base = began.base if began else self._tagged()
        return State(base=base) if base else State()

    def _tagged(self) -> int | None:
        return max((number for tag in SITE_TAGS for number in self._revisions.tagged(tag)), default=None)

    def newest_before(self) -> int:
        """The newest revision that may be on nodes though no release says so: from before releases were kept."""
        began = read_record(self._store, BEGAN, Began)
        return began.newest if began and began.newest else self._revisions.newest()

    def revision(self, number: int) -> Revision:
        """A revision that is released; it is there. Raises RecordUnreadable, also where it is lost: none before it takes its place."""
        try:
            return self._revisions.get(number)
        except UnknownRevision as lost:
            raise missing(revision_key(number)) from lost

    def override_of(self, mark: Mark) -> Override:
        """The override that a mark names. Raises RecordUnreadable."""
        return read_there(self._store, _override_key(mark.override), Override.model_validate_json)

    def overrides(self, cluster: str, released: Released, acts: int) -> Iterator[Override]:
        """The overrides that the newest so many acts brought, as far as they can be read."""
        for k in range(released.k, max(0, released.k - acts), -1):
            with contextlib.suppress(RecordUnreadable):
                if override := self._override_at(cluster, k):
                    yield override

    def _read_override(self, cluster: str, k: int) -> Override | None:
        cause = self._read(cluster, k).about.cause
        return self.override_of(Mark(override=cause.action)) if cause.kind == "override" else None

    def act(self, cluster: str, k: int) -> Released:
        """The state after one act; what there was before the first for 0. Raises RecordUnreadable."""
        return self._read(cluster, k) if k else Released(0, self._before(), self._share, self._stage_of(cluster))

    def find(self, cluster: str, action: str, since: int) -> Act | None:
        """An action's release, among the acts after `since`; None where it has released nothing. Raises RecordUnreadable."""
        return self._found(cluster, action, since, self.head(cluster).k)

    def _found(self, cluster: str, action: str, since: int, newest: int, kinds: Collection[CauseKind] = RELEASING) -> Act | None:
        for k in range(since + 1, newest + 1):
            cause = self._read(cluster, k).about.cause
            if cause.action == action and cause.kind in kinds:
                return Act(k, cause.revision, action)
        return None

    # releasing

    def to_all(self, cluster: str, action: str, revision: int, *, since: int, by: str, at: datetime, bounds: Bounds = UNBOUND) -> Newest:
        """Release a revision to every node of a cluster. `since`: as `find` takes it."""

        ended = functools.cache(self._ended)

        def decide(state: State, k: int) -> State:
            act = Act(k, revision, action)
            if beneath := self._beneath(state, revision):
                left = to_all(beneath, act, ended, under=state.under, bounds=bounds)
                return self._with_beneath(cluster, state, beneath, left)
            return to_all(state, act, ended, under=release_key(cluster, k - 1) if k > 1 else "", bounds=bounds)

        return self._change(cluster, decide, Cause("action", action, revision), by, at, since=since)

    def to_names(self, cluster: str, action: str, revision: int, names: Collection[str], *, since: int, by: str, at: datetime) -> Newest:
        """Release a revision to these nodes. `since`: as `find` takes it."""

        ended = functools.cache(self._ended)

        def decide(state: State, k: int) -> State:
            act = Act(k, revision, action)
            if beneath := self._beneath(state, revision):
                left = to_names(beneath, act, names, ended, self._stage_of(cluster))
                state = self._with_beneath(cluster, state, beneath, left)
            return to_names(state, act, names, ended, self._stage_of(cluster))

        return self._change(cluster, decide, Cause("action", action, revision), by, at, since=since)

    def take_back(self, cluster: str, action: str, done: Collection[str], *, since: int, by: str, at: datetime) -> None:
        """Take an action's release back from the nodes that have no outcome of it. Those in `done` have one."""
        act = self.find(cluster, action, since)
        if act is None:
            return

        def decide(state: State, _: int) -> State:
            left = self._taken_back(cluster, state, act, done)
            return msgspec.structs.replace(left, tried=max(state.tried, act.revision))

        self._change(cluster, decide, Cause("taken back", action, act.revision), by, at)

    def _taken_back(self, cluster: str, state: State, act: Act, done: Collection[str]) -> State:
        """The action's release may be the base, or a node's, or under another site action that has not ended."""
        other = self._beneath(state, act.revision) if state.base_k < act.k else None
        beneath = self._whole(state.under) if state.base_k >= act.k else other
        if state.base_action != act.action and beneath is not None and not self._ended(state.base_action):
            state = self._with_beneath(cluster, state, beneath, self._taken_back(cluster, beneath, act, done))
        return taken_back(state, act, done, beneath, self._stage_of(cluster))

    def _beneath(self, state: State, revision: int) -> State | None:
        """The state under a site action of a newer revision that may still be taken back: what an older one releases belongs there."""
        if (state.base or 0) <= revision or not state.base_action or self._ended(state.base_action):
            return None
        return self._whole(state.under)

    def _with_beneath(self, cluster: str, state: State, beneath: State, left: State) -> State:
        """The state with what is under its site action changed to `left`."""
        if left == beneath:
            return state
        key = f"releases/{cluster}/under/{ULID()}.json"
        self._store.create(key, msgspec.json.encode(self._kept(cluster, left, None)))
        return msgspec.structs.replace(state, under=key)

    # rollouts

    def begin_rollout(self, cluster: str, rollout: str, revision: int, *, since: int, by: str, at: datetime) -> Newest:
        """Let a rollout begin in a cluster, unless it did after act `since`, or was taken back."""
        return self._change(
            cluster, lambda state, k: begun(state, k, rollout, revision), Cause("rollout begun", rollout, revision), by, at, since=since
        )

    def advance(
        self, cluster: str, rollout: str, action: str, to: tuple[int, int], names: Collection[str], *, since: int, by: str, at: datetime
    ) -> Newest | None:
        """Release a rollout's revision to everything up to `to`, on behalf of one batch. None where the rollout is not on its way any more.
        `since`: as `find` takes it.
        """
        way = self.head(cluster).about.next
        cause, named = Cause("action", action, way.revision if way else 0), frozenset(names)
        newest = self._change(cluster, lambda state, k: advanced(state, k, rollout, to, named), cause, by, at, since=since)
        now = self.head(cluster).about.next
        return newest if now is not None and now.rollout == rollout else None

    def finish_rollout(self, cluster: str, rollout: str, revision: int, by: str, at: datetime) -> None:
        """Make a rollout's revision the base of a cluster that it has reached as a whole."""
        self._change(cluster, lambda state, _: finished(state, rollout), Cause("rollout finished", rollout, revision), by, at)

    def revert_rollout(
        self, cluster: str, rollout: str, revision: int, reached: Collection[str], *, since: int, by: str, at: datetime
    ) -> None:
        """Take a rollout back; `reached` are the nodes that it was released to. One that had not begun here never will."""
        cause = Cause("rollout taken back", rollout, revision)
        if self._found(cluster, rollout, since, self.head(cluster).k, TAKEN_BACK):
            return
        emptied = str(ULID())
        self._store.create(_override_key(emptied), Override(cluster=cluster, node="", labels={}, by=by, at=at).to_bytes())

        def decide(state: State, k: int) -> State:
            left = dropped(state, k, rollout, revision, reached, emptied, self._stage_of(cluster))
            return left if left is not state else msgspec.structs.replace(state, at=at)  # it is said all the same

        self._change(cluster, decide, cause, by, at)

    def override(self, cluster: str, node: str, labels: Mapping[str, str], by: str, at: datetime) -> str:
        """Put labels on a node in place of the documents', until its next release; the override's id."""
        override = str(ULID())
        kept = Override(cluster=cluster, node=node, labels=dict(labels), by=by, at=at)
        self._store.create(_override_key(override), kept.to_bytes())
        self._change(
            cluster,
            lambda state, k: overridden(state, k, node, override, self._ended, self._stage_of(cluster)),
            Cause("override", override, node=node),
            by,
            at,
        )
        return override

    def drop_override(self, cluster: str, node: str, override: str, by: str, at: datetime) -> None:
        """Take an override back that the cluster would not have."""
        cause = Cause("override taken back", override, node=node)
        self._change(cluster, lambda state, _: without_override(state, node, override), cause, by, at)

    def adopt(self, cluster: str, revision: int, by: str, at: datetime) -> None:
        """Take a revision as released to a cluster that has no release: it was deployed by other means."""

        def decide(state: State, k: int) -> State:
            return state if state.base else msgspec.structs.replace(state, base=revision, base_k=k)

        self._change(cluster, decide, Cause("adopted", revision=revision), by, at)

    def keep(self) -> None:
        """Releases are kept from here on: no tag that is set from now on counts as a release."""
        if not self._kept_already:
            if self._store.get(BEGAN) is None:
                self._store.create(BEGAN, Began(base=self._tagged(), newest=self._revisions.newest()).to_bytes())
            self._kept_already = True

    def begin(self, cluster: str, at: datetime) -> Released:
        """The newest state; in a store from before releases, what counts as released is written down first."""
        head = self.head(cluster)
        if head.k == 0:
            self.keep()
            if before := self._before().base:
                self._append(cluster, 1, State(base=before, at=at), head)
                head = self.head(cluster)
        return head

    def _change(self, cluster: str, decide: Decide, cause: Cause, by: str, at: datetime, since: int | None = None) -> Newest:
        """Read, decide, and create the next act, unless nothing changes, or an act after `since` has this cause already."""
        while True:
            head = self.begin(cluster, at)
            if since is not None and (act := self._found(cluster, cause.action, since, head.k)):
                return Newest(act.k, made=False)
            state = head.whole()
            changed = decide(state, head.k + 1)
            if changed == state:
                return Newest(head.k, made=False)
            if self._append(cluster, head.k + 1, msgspec.structs.replace(changed, cause=cause, by=by, at=at), head):
                return Newest(head.k + 1, made=True)

    def _append(self, cluster: str, k: int, state: State, before: Released) -> bool:
        made = self._chain(cluster).append(k, msgspec.json.encode(self._kept(cluster, state, before)))
        self._heads[cluster] = -math.inf, before  # nobody trusts what is not the newest any more
        return made

    def _kept(self, cluster: str, state: State, before: Released | None) -> State:
        """The state as its object has it: many names are kept beside it, and of those only what changed is written."""
        if len(state.names) <= NAMES_INLINE:
            return msgspec.structs.replace(state, shards=[])
        count = 1 << ((len(state.names) - 1) // NAMES_INLINE).bit_length()
        shares: list[Names] = [{} for _ in range(count)]
        for name, entry in state.names.items():
            shares[_share_of(name, count)][name] = entry
        there = before if before and len(before.shards) == count else None
        known = [there.shards[number] if there and there.share(number) == share else "" for number, share in enumerate(shares)]
        keys = [key or self._write_share(cluster, share) for key, share in zip(known, shares, strict=True)]
        return msgspec.structs.replace(state, names={}, shards=keys)

    def _write_share(self, cluster: str, share: Names) -> str:
        key = f"releases/{cluster}/names/{ULID()}.json"
        self._store.create(key, msgspec.json.encode(share))
        return key


def release_key(cluster: str, k: int) -> str:
    """The object of an act."""
    return f"releases/{cluster}/{k:06}.json"


def _override_key(override: str) -> str:
    return f"overrides/{override}.json"


def _as_state(body: bytes) -> State:
    return msgspec.json.decode(body, type=State)


def _share_of(name: str, count: int) -> int:
    return crc32(name.encode()) % count
