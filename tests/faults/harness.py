"""The real functions on the embedded bus, in one thread and one order, where every outside call can go wrong.

An outside call is a call of the store, the bus or a cluster. They are numbered as they happen; a fault sits at a number. `Died` is
the end of the process: nothing that it would have done after happens, and the message is delivered again to a new process.
The nodes live in a store of their own: what is wrong with Hullmark's store is not wrong with the cluster.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import functions_framework

from local.cloud.embedded import Cloud, Waiting
from shared import telemetry, wiring
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.domain.actions import ActionOutcome
from shared.domain.documents.reading import Source
from shared.messages import LAST_ATTEMPT, DeadlineCheck, Outgoing, RelabelRequest
from shared.ports import BusError, StoreError, Unavailable
from shared.world import Settings, World

BEGIN = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
ACTION = "01KAJ0000000000000000000A1"
SECOND = "01KAJ0000000000000000000B2"
OUTSIDE = {
    "store": frozenset({"create", "get", "keys", "folders", "delete"}),
    "bus": frozenset({"publish"}),
    "cluster": frozenset({"server_version", "nodes", "node", "apply_labels", "remove_labels"}),
}
WRITES = frozenset({"create", "delete", "publish", "apply_labels", "remove_labels"})


class Died(BaseException):
    """The process is gone: no handler may go on."""


class Fault(enum.Enum):
    """What can happen to one outside call. `after`: it took effect, and nobody heard of it."""

    dies_before = enum.auto()
    dies_after = enum.auto()
    fails_before = enum.auto()
    fails_after = enum.auto()
    throttled = enum.auto()


@dataclass(frozen=True, slots=True)
class Call:
    """One outside call as it happened."""

    number: int
    port: str
    method: str
    argument: str


class Watched:
    """A port whose every outside call goes through the world."""

    def __init__(self, inner: Any, port: str, world: Site) -> None:
        self._inner, self._port, self._world = inner, port, world

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return functools.partial(self._world.outside, self._port, name, method) if name in OUTSIDE[self._port] else method


Interference = Callable[["Site", Call, Callable[[], Any]], Any]


@dataclass
class Finding:
    """What a schedule ended in, where it should not have."""

    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, otherwise: str) -> None:
        """Keep a sentence for each invariant that does not hold."""
        if not holds:
            self.broken.append(otherwise)


@functools.cache
def _loaded(step: str, source: str) -> Any:
    create: Any = functions_framework.create_app
    app = create(step, source)
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app


class Site(Cloud):
    """A site: documents, nodes, and the cloud that keeps them true, until `drain` finds nothing left to deliver.

    `interfere` decides about each outside call: do it, or not. `pick` chooses the next of the waiting messages (default: the oldest due).
    `copies` says how many more times a published message is delivered.
    """

    def __init__(
        self,
        *,
        interfere: Interference | None = None,
        pick: Callable[[Sequence[Waiting]], int] | None = None,
        copies: Callable[[], int] = lambda: 0,
    ) -> None:
        telemetry.write_to(None)
        self.elapsed = 0.0
        self.calls: list[Call] = []
        self.deaths = 0
        self._dead = False
        self._interfere = interfere
        self._pick, self._copies = pick, copies
        self.truth = open_store("memory:")
        self.nodes = Simulated(open_store("memory:"), version="v1.35.4")
        super().__init__(Settings(store="memory:", cluster="simulated:nowhere"), workers=1, monotonic=lambda: self.elapsed)
        self.born()

    def born(self) -> None:
        """A new process: what the last one remembered is gone."""
        self._dead = False
        cluster: Any = Watched(self.nodes, "cluster", self)
        store: Any = Watched(self.truth, "store", self)
        bus: Any = Watched(self, "bus", self)
        self.world = World(store, bus, lambda access, name: cluster, self.world.settings, self.now, self.world.open_fleet)
        wiring.install(self.world)

    @property
    def untouched(self) -> World:
        """Ports of the real thing, without faults and without memory, for a person who looks or acts from outside."""
        return World(self.truth, self, lambda access, name: self.nodes, self.world.settings, self.now, self.world.open_fleet)

    def now(self) -> datetime:
        """The clock, which moves only between deliveries."""
        return BEGIN + timedelta(seconds=self.elapsed)

    def outside(self, port: str, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Every outside call comes through here."""
        if self._dead:
            raise Died
        call = Call(len(self.calls) + 1, port, name, str(args[0]) if args else "")
        self.calls.append(call)
        if self._interfere is None:
            return method(*args, **kwargs)
        return self._interfere(self, call, lambda: method(*args, **kwargs))

    def die(self) -> None:
        """End the process that is at work."""
        self._dead = True
        raise Died

    # the bus

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        super().publish(topic, [message for message in messages for _ in range(1 + self._copies())])

    def drain(self, only: str = "") -> None:
        """Deliver until nothing waits (that has `only` in its body). Inside of an outside call, other processes do it."""
        while waiting := sorted(one for one in self._queue if only.encode() in one.message.data):
            chosen = waiting[self._pick(waiting) if self._pick else 0]
            self._queue.remove(chosen)
            self.elapsed = max(self.elapsed, chosen.due) + 0.001
            self._deliver(chosen)

    def _deliver(self, waiting: Waiting) -> None:
        try:
            super()._deliver(waiting)
        except Died:
            self.deaths += 1
            self.born()
            if waiting.attempt < LAST_ATTEMPT:
                waiting.attempt += 1
                waiting.due = self.elapsed + 0.2
                self._put(waiting)
            else:
                self._bury(waiting, "died")

    def _app(self, step: str) -> Any:
        return _loaded(step, str(self._steps.steps[step].source))

    # what people do

    def commit(self, documents: str) -> int:
        """Stage and commit documents, as a person does at another desk."""
        revisions = self.untouched.revisions
        revisions.stage("site", [Source("site.yaml", documents.encode())], "test", self.now())
        return revisions.commit("test", self.now())[0].number

    def ask(self, action: str = ACTION, **request: Any) -> None:
        """Publish a request as a person does: by no process of ours, so that no fault meets it."""
        self.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, **(request or {"name": "update_site"})).outgoing()])

    def sweep(self, later: float = 0.0) -> None:
        """Let time pass, and the clock send what it sends."""
        self.elapsed += later
        self.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
        self.drain()

    # what came of it

    def outcome(self, action: str = ACTION) -> ActionOutcome:
        """How an action ended."""
        ended = self.untouched.actions.outcome(action)
        assert ended, f"action {action} has not ended"
        return ended

    def labels(self) -> dict[str, dict[str, str]]:
        """Every node's labels."""
        return {node.name: dict(node.labels) for node in self.nodes.nodes()}

    def ended_once(self, found: Finding, *actions: str) -> None:
        """What must hold of every run: each action has an outcome, told under one id, and nothing is left once the clock has swept."""
        self._interfere = None
        waiting = [action for action in actions if self.untouched.actions.outcome(action) is None]
        found.expect(not waiting, f"{waiting} had not ended before the clock swept")
        self.sweep()
        ledger = self.untouched.actions
        for action in actions:
            told = {notice.id for notice in self.notices if notice.subject == action}
            same = {notice.model_dump_json() for notice in self.notices if notice.subject == action}
            found.expect(ledger.outcome(action) is not None, f"{action} has not ended")
            found.expect(told == {f"action.finished/{action}"}, f"{action} was told as {sorted(told) or 'nothing'}")
            found.expect(len(same) == 1, f"{action} was told in {len(same)} different ways")
        found.expect(not ledger.open(), f"open for ever: {ledger.open()}")
        found.expect(not self._queue, f"{len(self._queue)} messages left")
        found.expect(not self.dead, f"dead letters: {[(dead.step, dead.error) for dead in self.dead]}")


def failure(port: str) -> Exception:
    """How a port says that it did not work, this time."""
    match port:
        case "store":
            return StoreError("the store does not answer (injected)")
        case "bus":
            return BusError("not confirmed (injected)")
        case _:
            return Unavailable("no answer in time (injected)")


def at(number: int, fault: Fault) -> Interference:
    """One fault at one call; every other call works."""

    def interfere(world: Site, call: Call, do: Callable[[], Any]) -> Any:
        return inflict(fault, world, call, do) if call.number == number else do()

    return interfere


def inflict(fault: Fault, world: Site, call: Call, do: Callable[[], Any]) -> Any:
    """Make one call go wrong."""
    match fault:
        case Fault.dies_before:
            world.die()
        case Fault.dies_after:
            do()
            world.die()
        case Fault.fails_before:
            raise failure(call.port)
        case Fault.fails_after:
            do()
            raise failure(call.port)
        case Fault.throttled if call.port == "cluster":
            raise Unavailable("HTTP 429 (injected)", retry_after=1.0)
        case Fault.throttled:
            raise failure(call.port)
    return None


def applies(fault: Fault, call: Call) -> bool:
    """Whether a fault makes a difference at this call: the effect of a read that nobody heard of is none."""
    if fault in (Fault.dies_after, Fault.fails_after):
        return call.method in WRITES
    return fault is not Fault.throttled or call.port == "cluster"
