"""Rollouts as they are kept: one chain each, every object the whole state and what brought it about; the newest counts.

rollouts/<id>/<n>.json   the state after the n-th change: a person's word, an opening, an end; n has no gaps
rollout-heads/<id>/<n>   a hint that it happened
rollouts/<id>/asked/<digest>.json   the impact that an approval names by its digest
rollouts-begun/<n>       whatever starts with the commit of revision n has started, or need not
open-rollouts/<id>       there while something may still happen by itself

An opening is written here before anything is sent, and so is a pause: nothing opens once somebody was answered that a rollout is paused.
A process remembers the newest states that it has read, and reads on from there: that nothing newer exists costs one read. Where the nodes
stand is in places.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import msgspec
from ulid import ULID

from shared.domain.actions import Record, began
from shared.domain.labels.impact import Impact
from shared.domain.rollouts.progress import Batch, Progress
from shared.ledger.chains import Chain, Link
from shared.ledger.places import Places
from shared.ledger.records import RecordUnreadable, numbered, read_as, read_there
from shared.ports import ObjectStore

Change = Callable[[Progress], Progress]
"""The state after it; the same object where nothing changes."""
OPEN = "open-rollouts/"
HEADS_KEPT = 64
"""Rollouts whose newest state a process remembers."""


class UnknownRollout(Exception):
    """There is no rollout of that id."""


class ShownImpact(Record):
    """What an approval lets happen in each cluster, as somebody was shown it."""

    clusters: dict[str, Impact]


class Rollouts:
    """The ledger of rollouts in one store."""

    def __init__(self, store: ObjectStore, places: Places) -> None:
        self._store = store
        self._heads: dict[str, tuple[int, Progress]] = {}
        self.places = places

    def start(self, rollout: Progress) -> None:
        """Record a new rollout; a second time nothing happens."""
        self._store.create(f"{OPEN}{rollout.id}", b"")
        self._chain(rollout.id).append(1, msgspec.json.encode(rollout))

    def get(self, rollout: str) -> Progress:
        """The newest state. Raises UnknownRollout and RecordUnreadable."""
        return self._newest(rollout)[1]

    def change(self, rollout: str, change: Change) -> Progress:
        """Read, decide, and write what comes next, unless nothing changes; the state after it. Raises what `change` raises."""
        while True:
            k, state = self._newest(rollout)
            changed = change(state)
            if changed is state:
                return state
            if self._chain(rollout).append(k + 1, msgspec.json.encode(changed)):
                self._remember(k + 1, changed)
                self._mark(changed, was=state)
                return changed

    def _mark(self, state: Progress, was: Progress) -> None:
        if state.ended:
            self.close(state.id)
        elif was.ended or state.pending:  # one that had ended is taken back
            self._store.create(f"{OPEN}{state.id}", b"")

    def close(self, rollout: str) -> None:
        """Take the mark of a rollout away that has ended, unless somebody takes it back at this moment."""
        self._store.delete(f"{OPEN}{rollout}")
        if not self.get(rollout).ended:
            self._store.create(f"{OPEN}{rollout}", b"")

    def batch(self, rollout: str, number: int) -> tuple[Progress, Batch]:
        """A batch that was recorded, by its number from 1. Raises UnknownRollout."""
        progress = self.get(rollout)
        if not 1 <= number <= len(progress.batches):
            raise UnknownRollout(f"rollout {rollout} has no batch {number}")
        return progress, progress.batches[number - 1]

    def opened(self, rollout: str, number: int) -> tuple[Progress, Batch]:
        """A batch, and a state of its rollout at or after its opening: from memory, where this process knows one. What a batch is, and what
        those before it came to, stands there; whether more may open does not.
        """
        _, known = self._heads.get(rollout, (0, None))
        if known and 1 <= number <= len(known.batches):
            return known, known.batches[number - 1]
        return self.batch(rollout, number)

    def members(self, progress: Progress, batch: Batch) -> list[str]:
        """The nodes of a batch."""
        return self.places.members(progress.id, batch.cluster, batch.stage, batch.start, batch.count)

    def ask(self, rollout: str, digest: str, impacts: Mapping[str, Impact]) -> None:
        """Keep the impact that an approval is asked for with."""
        self._store.create(_asked_key(rollout, digest), ShownImpact(clusters=dict(impacts)).to_bytes())

    def asked(self, rollout: str, digest: str) -> dict[str, Impact]:
        """The impact that has this digest, by cluster. Raises RecordUnreadable."""
        return read_there(self._store, _asked_key(rollout, digest), ShownImpact.model_validate_json).clusters

    def past(self, rollout: str) -> list[Progress]:
        """Every state that it had, oldest first; those that can't be read are left out."""
        found: list[Progress] = []
        for number in sorted(numbered(key for key in self._store.keys(f"rollouts/{rollout}/") if key.count("/") == 2)):
            try:
                found.append(self._read(rollout, number, self._chain(rollout).read(number)))
            except RecordUnreadable:
                continue
        return found

    def begun_with(self, revision: int) -> bool:
        """Whether what starts with the commit of a revision has started, or need not."""
        return self._store.get(_begun_key(revision)) is not None

    def mark_begun(self, revision: int) -> None:
        """Whoever looks from now on starts nothing with the commit of this revision."""
        self._store.create(_begun_key(revision), b"")

    def ids(self) -> list[str]:
        """Every rollout's id, oldest first."""
        return sorted(self._store.folders("rollouts/"))

    def open(self) -> list[str]:
        """Rollouts with which something may still happen."""
        return [key.removeprefix(OPEN) for key in self._store.keys(OPEN)]

    def forget_unknown(self, rollout: str, now: datetime) -> None:
        """Take away the mark of a rollout that was to be recorded an hour ago, and was not."""
        if abs(now - began(rollout)) > timedelta(hours=1):
            self._store.delete(f"{OPEN}{rollout}")

    def _newest(self, rollout: str) -> tuple[int, Progress]:
        known = self._heads.get(rollout)
        link = self._chain(rollout).newer(known[0] if known else 0) if _an_id(rollout) else Link()
        if link.k:
            return self._remember(link.k, self._read(rollout, link.k, link.body))
        if known is None:
            raise UnknownRollout(f"no rollout {rollout}: `hullmark rollout status` lists them")
        return known

    def _remember(self, k: int, state: Progress) -> tuple[int, Progress]:
        if self._heads.get(state.id, (0, None))[0] < k:
            self._heads = {} if len(self._heads) >= HEADS_KEPT else self._heads
            self._heads[state.id] = k, state
        return k, state

    def _read(self, rollout: str, k: int, body: bytes) -> Progress:
        return read_as(self._chain(rollout).key(k), body, lambda text: msgspec.json.decode(text, type=Progress))

    def _chain(self, rollout: str) -> Chain:
        return Chain(self._store, f"rollouts/{rollout}/", f"rollout-heads/{rollout}/")


def _begun_key(revision: int) -> str:
    return f"rollouts-begun/{revision:06}"


def _asked_key(rollout: str, digest: str) -> str:
    return f"rollouts/{rollout}/asked/{digest}.json"


def _an_id(rollout: str) -> bool:
    """Whether this may be part of a key."""
    try:
        return str(ULID.from_str(rollout)) == rollout
    except ValueError:
        return False
