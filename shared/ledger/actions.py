"""Actions as they are kept: create-only objects under `actions/<id>/`, so that repeats and disorder are harmless.

actions/<id>/request.json     what was asked                     written by whoever accepts it
actions/<id>/plan.json        parts and settled nodes            relabel_request, version_check
actions/<id>/parts/<n>.json   the outcomes of part n             result_rollup
actions/<id>/control/<n>-<verb>.json, stop.json                  pause and unpause in order; stop is final
actions/<id>/parked/<n>.json  a part that arrived while paused   node_apply
actions/<id>/outcome.json     how it ended                       result_rollup
open-actions/<id>             there while it has not ended; holds the deadline
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from shared.domain.actions import ActionOutcome, ActionRequest, Lifecycle, Plan, Record, conclude, expire, lifecycle
from shared.domain.notices import ACTION_FINISHED
from shared.domain.outcomes import Outcome
from shared.ledger.records import number_of, read_record
from shared.messages import Notice, PartResult
from shared.ports import ObjectStore


class WrongState(Exception):
    """The action can't do that now; the message says what state it is in (HTTP 409)."""


class UnknownAction(Exception):
    """There is no action of that id (HTTP 404)."""


class Command(Record):
    """One control verb that somebody gave an action."""

    verb: str
    by: str
    at: datetime


class Actions:
    """The ledger of actions in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def accept(self, request: ActionRequest) -> ActionRequest:
        """Record a request; where the id is known already, the first record stands and is returned."""
        self._store.create(f"open-actions/{request.id}", request.deadline.isoformat().encode())
        if self._store.create(f"actions/{request.id}/request.json", request.to_bytes()):
            return request
        return self.request(request.id)

    def request(self, action: str) -> ActionRequest:
        """What was asked. Raises UnknownAction."""
        found = self.find(action)
        if found is None:
            raise UnknownAction(f"no action {action}")
        return found

    def find(self, action: str) -> ActionRequest | None:
        """What was asked, or None for an id that was never accepted."""
        return read_record(self._store, f"actions/{action}/request.json", ActionRequest) if action.isalnum() else None

    def plan(self, action: str) -> Plan | None:
        """The plan, once there is one."""
        return read_record(self._store, f"actions/{action}/plan.json", Plan)

    def settle_plan(self, action: str, plan: Plan) -> Plan:
        """Write the plan; where one exists, that one counts and is returned."""
        if self._store.create(f"actions/{action}/plan.json", plan.to_bytes()):
            return plan
        existing = self.plan(action)
        return existing or plan

    def outcome(self, action: str) -> ActionOutcome | None:
        """How it ended, or None while it has not."""
        return read_record(self._store, f"actions/{action}/outcome.json", ActionOutcome)

    def ids(self, *, limit: int = 0) -> list[str]:
        """Every action's id, oldest first; with `limit`, the newest so many."""
        return self._store.folders("actions/")[-limit:]

    def open(self) -> list[str]:
        """Actions that have not ended."""
        return [key.rpartition("/")[2] for key in self._store.keys("open-actions/")]

    # parts

    def record(self, result: PartResult) -> bool:
        """Store a part's outcomes under its identity. False where they were stored before: the first ones stand."""
        return self._store.create(f"actions/{result.action}/parts/{result.part:04}.json", result.outgoing().data)

    def recorded(self, action: str) -> set[int]:
        """The numbers of the parts whose outcomes are stored: one short listing."""
        return {number_of(key) for key in self._store.keys(f"actions/{action}/parts/")}

    def part_outcomes(self, action: str) -> dict[int, list[Outcome]]:
        """The outcomes stored so far, by part number."""
        found = {}
        for number in self.recorded(action):
            body = self._store.get(f"actions/{action}/parts/{number:04}.json")
            if body is not None:
                found[number] = PartResult.parse(body).outcomes
        return found

    # states

    def lifecycle(self, action: str) -> Lifecycle:
        """Shipyard's word for where it stands. Raises UnknownAction."""
        self.request(action)
        return lifecycle(self.plan(action), self.outcome(action), paused=self.paused(action))

    def stopped(self, action: str) -> bool:
        """Whether somebody stopped it."""
        return self._store.get(f"actions/{action}/stop.json") is not None

    def paused(self, action: str) -> bool:
        """Whether the last control verb given was `pause`."""
        verbs = self._store.keys(f"actions/{action}/control/")
        return bool(verbs) and verbs[-1].endswith("-pause.json")

    def control(self, action: str, verb: str, by: str, now: datetime) -> None:
        """Record `stop`, `pause` or `unpause`. Raises UnknownAction and WrongState. Parked parts are the caller's to release."""
        state = self.lifecycle(action)
        allowed = {"stop": ("Pending", "Processing", "Paused"), "pause": ("Pending", "Processing"), "unpause": ("Paused",)}[verb]
        if state not in allowed:
            raise WrongState(f"action {action} is {state}; {verb} takes one that is {' or '.join(allowed)}")
        note = json.dumps({"by": by, "at": now.isoformat()}).encode()
        if verb == "stop":
            self._store.create(f"actions/{action}/stop.json", note)
            return
        taken = len(self._store.keys(f"actions/{action}/control/"))
        if not self._store.create(f"actions/{action}/control/{taken + 1:04}-{verb}.json", note):
            raise WrongState(f"action {action} was {verb}d by somebody else at this moment")

    def commands(self, action: str) -> list[Command]:
        """Who stopped, paused and unpaused it, and when; `stop` last, because nothing follows it."""
        given = [(key.rpartition("-")[2].removesuffix(".json"), key) for key in self._store.keys(f"actions/{action}/control/")]
        bodies = [(verb, self._store.get(key)) for verb, key in (*given, ("stop", f"actions/{action}/stop.json"))]
        return [Command(verb=verb, **json.loads(body)) for verb, body in bodies if body is not None]

    def park(self, action: str, part: int, message: bytes) -> None:
        """Keep a part's message while its action is paused."""
        self._store.create(f"actions/{action}/parked/{part:04}.json", message)

    def parked(self, action: str) -> list[bytes]:
        """The messages to publish again when the action goes on (those whose parts have no outcomes yet)."""
        done = self.recorded(action)
        keys = self._store.keys(f"actions/{action}/parked/")
        waiting = [key for key in keys if number_of(key) not in done]
        return [body for key in waiting if (body := self._store.get(key)) is not None]

    # endings

    def close_if_complete(self, action: str, now: datetime, plan: Plan | None = None) -> ActionOutcome | None:
        """End the action when every part has its outcomes; None while one is missing. `plan`: its plan, where it was read already."""
        plan = plan or self.plan(action)
        if plan is None or not self.recorded(action).issuperset(range(1, len(plan.parts) + 1)):
            return None
        return self.end(action, conclude(plan, self.part_outcomes(action), now))

    def end(self, action: str, outcome: ActionOutcome) -> ActionOutcome:
        """Write the outcome; the first one written is how the action ended, and is returned."""
        if self._store.create(f"actions/{action}/outcome.json", outcome.to_bytes()):
            return outcome
        return self.outcome(action) or outcome

    def expire(self, action: str, now: datetime) -> ActionOutcome | None:
        """End an action whose deadline has passed; None where it has time left or was never accepted whole."""
        request = self.find(action)
        if request is None:
            self._forget_unaccepted(action, now)
            return None
        if now < request.deadline:
            return None
        return self.end(action, expire(self.plan(action), self.part_outcomes(action), request, now))

    def _forget_unaccepted(self, action: str, now: datetime) -> None:
        """Whoever was to record the request never got to it: the mark goes when its deadline has passed."""
        mark = self._store.get(f"open-actions/{action}")
        if mark and datetime.fromisoformat(mark.decode()) <= now:
            self._store.delete(f"open-actions/{action}")

    def announced(self, action: str) -> bool:
        """Whether the notice of its end is known to be out."""
        return self._store.get(f"actions/{action}/announced.json") is not None

    def mark_announced(self, action: str) -> None:
        """The notice is confirmed: nothing more happens to this action. Said again, it takes a mark away that was left behind."""
        self._store.create(f"actions/{action}/announced.json", b"{}")
        self._store.delete(f"open-actions/{action}")


def finished_notice(request: ActionRequest, outcome: ActionOutcome) -> Notice:
    """`action.finished`: result, counts and every node that needs a person."""
    bad = [o.model_dump(exclude_none=True) for o in outcome.outcomes if o.outcome in ("missing", "failed", "skipped", "stopped")]
    return Notice(
        id=ACTION_FINISHED.id(request.id),
        type=ACTION_FINISHED.type,
        subject=request.id,
        time=outcome.finished_at,
        data={
            "id": request.id,
            "name": request.name,
            "cluster": request.cluster,
            "revision": outcome.revision,
            "requested_by": request.requested_by,
            "result": outcome.result,
            "reason": outcome.reason,
            "message": outcome.message,
            "counts": outcome.counts,
            "attention": bad[:100],
            "attention_total": len(bad),
        },
    )


def deadline(now: datetime, seconds: float) -> datetime:
    """When an action accepted now must have ended."""
    return now + timedelta(seconds=seconds)
