"""Actions as they are kept: create-only objects under `actions/<id>/`, so that repeats and disorder are harmless.

actions/<id>/request.json     what was asked                     written by whoever accepts it
actions/<id>/plan.json        parts and settled nodes            relabel_request, version_check
actions/<id>/parts/<n>.json   the outcomes of part n             result_rollup
actions/<id>/control/<n>-<verb>.json, stop.json                  pause and unpause in order; stop is final
actions/<id>/parked/<n>.json  a part that arrived while paused   node_apply
actions/<id>/counts/<part>-<removals>-<takeovers>-<changes>   on how many nodes of each of its clusters it acts   relabel_request
actions/<id>/outcome.json     how it ended                       result_rollup
open-actions/<id>             there while it has not ended; holds the deadline
quiet-sweeps/<cluster>/<id>   the clock's newest sweep that changed nothing; holds when it was asked for

When each was asked for is in history.py.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.domain.actions import (
    ActionOutcome,
    ActionRequest,
    Lifecycle,
    Plan,
    Record,
    began,
    children_of,
    conclude,
    expire,
    lifecycle,
    lost_record,
    told_of,
    unknown_request,
    unreadable,
)
from shared.domain.labels.impact import Others
from shared.domain.notices import ACTION_FINISHED
from shared.domain.outcomes import Outcome
from shared.ledger.history import History, action_of, entry_of
from shared.ledger.records import RecordUnreadable, numbered, read_as, read_record
from shared.messages import Notice, PartResult
from shared.ports import ObjectStore

BROUGHT_AGAIN = timedelta(minutes=30)
"""How long a quiet sweep is kept at least: its request, brought again, would run once more and be told under the same id."""
UNREADABLE_MARK_DAYS = 1
"""After so many days, by its id, an action that was never accepted is forgotten although its mark tells no deadline."""


class WrongState(Exception):
    """The action can't do that now; the message says what state it is in (HTTP 409)."""


class UnknownAction(Exception):
    """There is no action of that id (HTTP 404)."""


class NeverPlanned(Exception):
    """A message of an action that nobody asked for, or of a part that no plan has. No redelivery changes that, and nothing is written."""


class Seen(NamedTuple):
    """What one listing of an action's records shows."""

    accepted: bool
    paused: bool


class Ending(msgspec.Struct, frozen=True):
    """An action's outcome as far as one of its subjects needs it."""

    finished_at: datetime
    revision: int
    outcomes: list[msgspec.Raw] = []


class Command(Record):
    """One control verb that somebody gave an action."""

    verb: str
    by: str
    at: datetime


class Actions:
    """The ledger of actions in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._history = History(store)

    def accept(self, request: ActionRequest) -> ActionRequest:
        """Record a request; where the id is known already, the first record stands and is returned."""
        self._store.create(f"open-actions/{request.id}", request.deadline.isoformat().encode())
        self._history.add(request.id, request.requested_at, request.parent)
        if self._store.create(f"actions/{request.id}/request.json", request.to_bytes()):
            return request
        return self.request(request.id)

    def request(self, action: str) -> ActionRequest:
        """What was asked. Raises UnknownAction."""
        recorded = self.find(action)
        if recorded is None:
            raise UnknownAction(f"no action {action}")
        return recorded

    def find(self, action: str) -> ActionRequest | None:
        """What was asked, or None for an id that was never accepted. Raises RecordUnreadable."""
        return read_record(self._store, f"actions/{action}/request.json", ActionRequest) if action.isalnum() else None

    def begun(self, action: str) -> bool:
        """Whether a request was recorded under this id, readable or not."""
        return action.isalnum() and self._store.get(f"actions/{action}/request.json") is not None

    def shown(self, action: str) -> ActionRequest | None:
        """What was asked, to show it: a stand-in where the record can't be read or is gone while others of its action are there."""
        try:
            recorded = self.find(action)
        except RecordUnreadable:
            return unknown_request(action)
        return unknown_request(action) if recorded is None and action.isalnum() and self._orphaned(action) else recorded

    def _orphaned(self, action: str) -> bool:
        return any(self._store.get(f"actions/{action}/{name}.json") is not None for name in ("plan", "outcome"))

    def plan(self, action: str) -> Plan | None:
        """The plan, once there is one. Raises RecordUnreadable."""
        return read_record(self._store, f"actions/{action}/plan.json", Plan)

    def settle_plan(self, action: str, plan: Plan) -> Plan:
        """Write the plan; where one exists, that one counts and is returned."""
        if self._store.create(f"actions/{action}/plan.json", plan.to_bytes()):
            return plan
        existing = self.plan(action)
        return existing or plan

    def outcome(self, action: str) -> ActionOutcome | None:
        """How it ended, or None while it has not. Where the record of that can't be read, a failure that says so."""
        try:
            return read_record(self._store, f"actions/{action}/outcome.json", ActionOutcome)
        except RecordUnreadable as torn:
            return unreadable(None, {}, unknown_request(action), str(torn), began(action))

    def ended(self, action: str) -> ActionOutcome | None:
        """`outcome`, to show it: also a failure where the record of the end is gone, or the plan can't be read (the next sweep says so)."""
        outcome = self.outcome(action)
        try:
            if outcome is None and self.announced(action) and (outcome := self.outcome(action)) is None:  # it may have ended in between
                raise RecordUnreadable(f"actions/{action}/outcome.json", "it is missing")
            if outcome is None:
                self.plan(action)
        except RecordUnreadable as torn:
            return unreadable(None, {}, unknown_request(action), str(torn), began(action))
        return outcome

    def about(self, action: str, subjects: Collection[str]) -> dict[str, tuple[Ending, Outcome]]:
        """What an action's end says of these subjects: one read; of 100,000 outcomes only theirs are parsed. Raises RecordUnreadable."""
        key = f"actions/{action}/outcome.json"
        body = self._store.get(key)
        wanted = [json.dumps(subject).encode() for subject in subjects]
        if body is None or not any(name in body for name in wanted):
            return {}
        ending = read_as(key, body, lambda text: msgspec.json.decode(text, type=Ending))
        some = [raw for raw in map(bytes, ending.outcomes) if any(name in raw for name in wanted)]
        found = [read_as(key, raw, Outcome.model_validate_json) for raw in some]
        return {outcome.subject: (ending, outcome) for outcome in found if outcome.subject in subjects}

    def ids(self, *, limit: int = 0) -> list[str]:
        """Every action's id, oldest first; with `limit`, the newest so many."""
        return list(itertools.islice(self.newest_first(), limit or None))[::-1]

    def newest_first(self) -> Iterator[str]:
        """Every action's id, as they were asked for: what was long ago costs nothing."""
        return self._history.newest_first()

    def forget(self, before: datetime, most: int) -> int:
        """Remove every record of actions that were asked for on days before this one's and have ended; how many. `most` at a time."""
        return sum(1 for _ in itertools.islice(filter(self._forgotten, self._history.before(before)), most))

    def list_old(self, now: datetime, most: int) -> None:
        """Have actions listed and forgotten that an earlier release recorded; `most` at a time."""
        self._history.complete(lambda action: min(self._asked_at(action), now), now, most)

    def _asked_at(self, action: str) -> datetime:
        try:
            found = self.find(action)
        except RecordUnreadable:
            found = None
        return found.requested_at if found else began(action)

    def keep_newest_quiet(self, sweep: ActionRequest) -> None:
        """Of a cluster's sweeps that changed nothing keep the newest, and remove the records of older ones: one is made every hour."""
        quiet = f"quiet-sweeps/{sweep.cluster}/"
        self._store.create(f"{quiet}{sweep.id}", sweep.requested_at.isoformat().encode())
        for mark in self._store.keys(quiet)[:-1]:
            with contextlib.suppress(RecordUnreadable):  # it goes with its day
                asked_at = read_as(mark, self._store.get(mark) or b"", _moment)
                if asked_at > sweep.requested_at - BROUGHT_AGAIN:
                    continue
                self._forgotten(entry_of(mark.removeprefix(quiet), asked_at))
            self._store.delete(mark)

    def _forgotten(self, key: str) -> bool:
        """Remove one action: last the entry that it is found by, so that what is cut off is done again."""
        action = action_of(key)
        if self._store.get(f"open-actions/{action}") is not None:
            return False
        for record in self._store.keys(f"actions/{action}/"):
            self._store.delete(record)
        self._store.delete(key)
        return True

    def open(self) -> list[str]:
        """Actions that have not ended."""
        return [key.rpartition("/")[2] for key in self._store.keys("open-actions/")]

    def mark_open(self, since: datetime, until: datetime) -> int:
        """Mark anew what was asked for in this time, has not ended, and has lost its mark: the sweep ends it. How many were looked at."""
        actions = list(self._history.between(since, until))
        for action in filter(self._lost_its_mark, actions):
            self._store.create(f"open-actions/{action}", until.isoformat().encode())
        return len(actions)

    def _lost_its_mark(self, action: str) -> bool:
        there = (self._store.get(key) is not None for key in (f"actions/{action}/outcome.json", f"open-actions/{action}"))
        return not any(there) and not self.announced(action) and self.begun(action)

    # parts

    def record(self, result: PartResult) -> bool:
        """Store a part's outcomes under its identity. False where they were stored before: the first ones stand."""
        return self._store.create(f"actions/{result.action}/parts/{result.part:04}.json", result.outgoing().data)

    def recorded(self, action: str) -> set[int]:
        """The numbers of the parts whose outcomes are stored: one short listing."""
        return set(numbered(self._store.keys(f"actions/{action}/parts/")))

    def part_outcomes(self, action: str, plan: Plan | None) -> dict[int, list[Outcome]]:
        """The outcomes stored so far, by part number; the nodes of a part that can't be read have failed with that cause."""
        outcomes: dict[int, list[Outcome]] = {}
        for number, key in numbered(self._store.keys(f"actions/{action}/parts/")).items():
            body = self._store.get(key)
            if body is None:
                continue
            try:
                outcomes[number] = read_as(key, body, PartResult.parse).outcomes
            except RecordUnreadable as torn:
                names = plan.parts[number - 1] if plan and 1 <= number <= len(plan.parts) else []
                outcomes[number] = [lost_record(name, str(torn)) for name in names]
        return outcomes

    def _known_outcomes(self, request: ActionRequest, plan: Plan | None) -> dict[int, list[Outcome]]:
        """The outcomes stored so far, and those of clusters whose own action has ended, of which this one was not told."""
        known = self.part_outcomes(request.id, plan)
        for child in children_of(request):
            if child.part not in known and (ended := self.outcome(child.id)):
                known[child.part] = [told_of(child, ended)]
        return known

    def count(self, child: ActionRequest, own: Others) -> Others:
        """Record how many nodes one of several clusters' actions is about to act on, and add up what the others have recorded; nothing for
        an action without a parent. Whoever counts last sees all, so those that go on never act on more nodes than all were told.
        """
        if child.parent is None:
            return Others()
        if any(own):
            self._store.create(f"{_counts(child.parent)}{child.part:04}-{'-'.join(map(str, own))}", b"")
        return sum((counted for part, counted in self.counted(child.parent).items() if part != child.part), Others())

    def counted(self, parent: str) -> dict[int, Others]:
        """By part, on how many nodes of its cluster it acts; where that was counted twice, the most."""
        found: dict[int, Others] = {}
        for key in self._store.keys(_counts(parent)):
            part, *numbers = map(int, key.removeprefix(_counts(parent)).split("-"))
            found[part] = Others(*map(max, found.get(part, Others()), numbers))
        return found

    # states

    def lifecycle(self, action: str) -> Lifecycle:
        """Shipyard's word for where it stands. Raises UnknownAction."""
        return self._lifecycle(action, self._given(action))

    def _lifecycle(self, action: str, given: list[str]) -> Lifecycle:
        if self.shown(action) is None:
            raise UnknownAction(f"no action {action}")
        outcome = self.ended(action)
        return lifecycle(None if outcome else self.plan(action), outcome, paused=not outcome and _pausing(given))

    def stopped(self, action: str) -> bool:
        """Whether somebody stopped it."""
        return self._store.get(f"actions/{action}/stop.json") is not None

    def paused(self, action: str) -> bool:
        """Whether the last control verb given was `pause`."""
        return _pausing(self._given(action))

    def seen(self, action: str) -> Seen:
        """Whether it was ever accepted, and is paused. One listing; a listing that lags behind is not enough to call an action unknown."""
        folder = f"actions/{action}/"
        keys = self._store.keys(folder) if action.isalnum() else []
        known = any(key in keys for key in (f"{folder}request.json", f"{folder}plan.json"))
        return Seen(known or self.begun(action), _pausing([key for key in keys if key.startswith(f"{folder}control/")]))

    def _given(self, action: str) -> list[str]:
        """The keys of the control verbs but `stop`, in order."""
        return self._store.keys(f"actions/{action}/control/")

    def control(self, action: str, verb: str, by: str, now: datetime) -> None:
        """Record `stop`, `pause` or `unpause`. Raises UnknownAction and WrongState. Parked parts are the caller's to release.

        Pause and unpause take turns: one listing says both whether the verb is allowed and its number, so that a number has one verb, and
        whoever acts on an older state than somebody else left finds it taken.
        """
        given = self._given(action)
        state = self._lifecycle(action, given)
        allowed = {"stop": ("Pending", "Processing", "Paused"), "pause": ("Pending", "Processing"), "unpause": ("Paused",)}[verb]
        if state not in allowed:
            raise WrongState(f"action {action} is {state}; {verb} takes one that is {' or '.join(allowed)}")
        note = json.dumps({"by": by, "at": now.isoformat()}).encode()
        if verb == "stop":
            self._store.create(f"actions/{action}/stop.json", note)
            return
        if not self._store.create(f"actions/{action}/control/{len(given) + 1:04}-{verb}.json", note):
            raise WrongState(f"action {action} was {verb}d by somebody else at this moment")

    def commands(self, action: str) -> list[Command]:
        """Who stopped, paused and unpaused it, and when; `stop` last, because nothing follows it."""
        given = [(key.rpartition("-")[2].removesuffix(".json"), key) for key in self._given(action)]
        bodies = [(verb, key, self._store.get(key)) for verb, key in (*given, ("stop", f"actions/{action}/stop.json"))]
        return [_command(action, verb, key, body) for verb, key, body in bodies if body is not None]

    def park(self, action: str, part: int, message: bytes) -> None:
        """Keep a part's message while its action is paused."""
        self._store.create(f"actions/{action}/parked/{part:04}.json", message)

    def parked(self, action: str) -> dict[str, bytes]:
        """Key to message of what is to be published again when the action goes on (parts that have no outcomes yet)."""
        done = self.recorded(action)
        keys = numbered(self._store.keys(f"actions/{action}/parked/"))
        waiting = [key for number, key in sorted(keys.items()) if number not in done]
        return {key: body for key in waiting if (body := self._store.get(key)) is not None}

    # endings

    def close_if_complete(self, action: str, now: datetime, plan: Plan | None = None) -> ActionOutcome | None:
        """End the action when every part has its outcomes; None while one is missing. `plan`: its plan, where it was read already."""
        try:
            plan = plan or self.plan(action)
        except RecordUnreadable as torn:
            return self.end_unreadable(action, torn, now)
        if plan is None or not self.recorded(action).issuperset(range(1, len(plan.parts) + 1)):
            return None
        counts = self.counted(action) if plan.of == "clusters" else {}
        return self.end(action, conclude(plan, self.part_outcomes(action, plan), now, counts))

    def end(self, action: str, outcome: ActionOutcome) -> ActionOutcome:
        """Write the outcome; the first one written is how the action ended, and is returned."""
        if self._store.create(f"actions/{action}/outcome.json", outcome.to_bytes()):
            return outcome
        return self.outcome(action) or outcome

    def expire(self, action: str, now: datetime) -> ActionOutcome | None:
        """End an action whose deadline has passed, or whose records can't be read; None where it has time left or was never accepted."""
        try:
            plan = self.plan(action)
            request = self.find(action)
            if request is None and plan:
                raise RecordUnreadable(f"actions/{action}/request.json", "it is missing")
        except RecordUnreadable as torn:
            return self._end_in_time(action, torn, now)
        if request is None:
            if self._overdue(action, now):  # whoever was to record the request never got to it
                self._store.delete(f"open-actions/{action}")
            return None
        if now < request.deadline:
            return None
        return self.end(action, expire(plan, self._known_outcomes(request, plan), request, now))

    def _end_in_time(self, action: str, torn: RecordUnreadable, now: datetime) -> ActionOutcome | None:
        """Only the request can't be read: parts that are under way may still end it as planned, until its deadline."""
        if self._readable_plan(action) and not self._overdue(action, now):
            return None
        return self.end_unreadable(action, torn, now)

    def end_unreadable(self, action: str, torn: RecordUnreadable, now: datetime) -> ActionOutcome:
        """End an action as failed because of a record that can't be read. What is known of its nodes stays."""
        plan = self._readable_plan(action)
        request = self.shown(action) or unknown_request(action)
        return self.end(action, unreadable(plan, self.part_outcomes(action, plan), request, str(torn), now))

    def _readable_plan(self, action: str) -> Plan | None:
        try:
            return self.plan(action)
        except RecordUnreadable:
            return None

    def _overdue(self, action: str, now: datetime) -> bool:
        """Whether the deadline in its mark has passed; for a mark that tells none, whether the id is far from today."""
        key = f"open-actions/{action}"
        mark = self._store.get(key)
        if mark is None:
            return False
        try:
            return read_as(key, mark, _moment) <= now
        except RecordUnreadable:
            return abs(now - began(action)) > timedelta(days=UNREADABLE_MARK_DAYS)

    def announced(self, action: str) -> bool:
        """Whether the notice of its end is known to be out."""
        return self._store.get(f"actions/{action}/announced.json") is not None

    def mark_announced(self, action: str) -> None:
        """The notice is confirmed: nothing more happens to this action. Said again, it takes a mark away that was left behind."""
        self._store.create(f"actions/{action}/announced.json", b"{}")
        self._store.delete(f"open-actions/{action}")


def _counts(parent: str) -> str:
    return f"actions/{parent}/counts/"


def _pausing(given: list[str]) -> bool:
    return bool(given) and given[-1].endswith("-pause.json")


def _moment(mark: bytes) -> datetime:
    moment = datetime.fromisoformat(mark.decode())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _command(action: str, verb: str, key: str, body: bytes) -> Command:
    try:
        return read_as(key, body, lambda text: Command(verb=verb, **json.loads(text)))
    except RecordUnreadable as torn:
        return Command(verb=verb, by=f"unknown ({torn.reason}: {key})", at=began(action))


def finished_notice(request: ActionRequest, outcome: ActionOutcome) -> Notice:
    """`action.finished`: result, counts and the nodes that need attention."""
    bad = [o.model_dump(exclude_none=True) for o in outcome.outcomes if o.outcome in ("missing", "failed", "skipped", "stopped", "waiting")]
    return Notice(
        id=ACTION_FINISHED.id(request.id),
        type=ACTION_FINISHED.type,
        subject=request.id,
        time=outcome.finished_at,
        data={
            "id": request.id,
            "name": request.name,
            "cluster": request.cluster,
            "clusters": request.children,
            "parent": request.parent,
            "revision": outcome.revision,
            "requested_by": request.requested_by,
            "dry_run": request.dry_run,
            "result": outcome.result,
            "reason": outcome.reason,
            "message": outcome.message,
            "counts": outcome.counts,
            "attention": bad[:100],
            "attention_total": len(bad),
        }
        | ({"impact": outcome.impact.model_dump(exclude_defaults=True)} if outcome.impact else {}),
    )


def deadline(now: datetime, seconds: float) -> datetime:
    """When an action accepted now must have ended."""
    return now + timedelta(seconds=seconds)
