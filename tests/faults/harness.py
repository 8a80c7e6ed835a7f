"""The real functions on the embedded bus, in one thread and one order, where every outside call can go wrong.

An outside call is a call of the store, the bus, a cluster or a fleet. They are numbered as they happen; a fault sits at a number. `Died`
is the end of the process: nothing that it would have done after happens, and the message is delivered again to a new process (a request
over HTTP is repeated by its client). The nodes, and the clusters of a fleet, live in stores of their own: what is wrong with Hullmark's
store is not wrong with the cluster.
"""

from __future__ import annotations

import enum
import functools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import functions_framework

from local.cloud.embedded import Cloud, Waiting
from shared import telemetry, wiring
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.domain.actions import ActionOutcome
from shared.domain.documents.reading import Source
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.ledger.fleets import DocumentFleet
from shared.messages import LAST_ATTEMPT, DeadlineCheck, RelabelRequest
from shared.ports import BusError, Fleet, StoreError, Unavailable
from shared.work.pod_topology import PodTopology, declared_by
from shared.world import Settings, World
from tests.faults.judge import Judge
from tests.faults.slow import SlowFleet

BEGIN = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
ACTION = "01KAJ0000000000000000000A1"
SECOND = "01KAJ0000000000000000000B2"
OUTSIDE = {
    "store": frozenset({"create", "get", "keys", "folders", "delete"}),
    "bus": frozenset({"publish"}),
    "cluster": frozenset({"server_version", "nodes", "node", "apply_labels", "remove_labels", "patch_labels", "remove_taint"}),
    "fleet": frozenset({"clusters", "cluster", "profiles", "apply", "progress"}),
}
WRITES = frozenset({"create", "delete", "publish", "apply_labels", "remove_labels", "patch_labels", "remove_taint", "apply"})
LISTINGS = frozenset({"keys", "folders"})


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
    step: str = ""
    """The function that made it."""
    delivery: int = 0
    """The number of the delivery or request that it belongs to."""
    own: int = 0
    """Which call it is of that delivery."""
    computing: bool = False
    """Whether it was made for a cached property, which Python 3.11 lets only one thread at a time compute."""


class Watched:
    """A port whose every outside call goes through the world."""

    def __init__(self, inner: Any, port: str, world: Site) -> None:
        self._inner, self._port, self._world = inner, port, world

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return functools.partial(self._world.outside, self._port, name, method) if name in OUTSIDE[self._port] else method


class WatchedCluster(Watched):
    """A cluster, which stays watched where its nodes show their taints."""

    def with_taints(self) -> WatchedCluster:
        """The same cluster, and as watched."""
        return WatchedCluster(self._inner.with_taints(), self._port, self._world)

    def remove_taint(self, *args: Any) -> bool:
        """Here to be seen by those who ask whether a cluster has taints."""
        removed: bool = self._world.outside(self._port, "remove_taint", self._inner.remove_taint, *args)
        return removed


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


class _Working(threading.local):
    """What a thread is at work on."""

    step = ""
    delivery = 0
    own = 0
    since: Mapping[str, int] = {}
    """The number of each cluster's newest release when it was taken up."""
    waiting: Waiting | None = None
    calls: list[Call] | None = None
    """Where the calls of a twin are kept; those of everybody else are the site's."""
    interfere: Interference | None = None
    """What meets a twin's calls, in place of what meets the site's."""
    dead = False
    """Whether the twin's process is gone."""


@dataclass
class Answer:
    """What a client was answered."""

    who: str
    path: str
    status: int
    body: Any


class Site(Cloud):
    """A site: documents, nodes, and the cloud that keeps them in sync, until `drain` finds nothing left to deliver.

    `interfere` decides about each outside call: do it, or not. `pick` chooses the next of the waiting messages (default: the oldest due).
    `copies` says how many more times a published message is delivered; `late` by how many seconds the n-th message is. With `cold`, each
    delivery is handled by a process of its own, whose clock is `skew` seconds from the right one.
    """

    begin = BEGIN

    def __init__(
        self,
        *,
        interfere: Interference | None = None,
        pick: Callable[[Sequence[Waiting]], int] | None = None,
        copies: Callable[[], int] = lambda: 0,
        late: Callable[[int], float] = lambda number: 0.0,
        skew: Callable[[str, int], float] = lambda step, delivery: 0.0,
        cold: bool = False,
        settings: Settings | None = None,
    ) -> None:
        telemetry.write_to(None)
        self.elapsed = 0.0
        self.calls: list[Call] = []
        self.deaths = 0
        self.written: list[tuple[datetime, str]] = []
        """The keys of the objects that were created in the store, and when."""
        self.applied: list[tuple[datetime, str, VersionStep]] = []
        """The version steps that a fleet took, and when."""
        self.answers: list[Answer] = []
        self.paused_at: int | None = None
        """The last delivery that was taken up when somebody was answered that the whole fleet is paused; None while it is not."""
        self._dead = False
        self._interfere = interfere
        self._pick, self._copies, self._late, self._skew, self._cold = pick, copies, late, skew, cold
        self.repeated = False
        self._working = _Working()
        self._begun = 0
        self._sent = 0
        self._twins: list[Callable[[], None]] = []
        self._numbering = threading.Lock()
        self._serving = ""
        """The function that threads of its own read for."""
        self.truth = open_store("memory:")
        self.judge = Judge(self.truth)
        self.machines = open_store("memory:")
        self.nodes = Simulated(self.machines, version="v1.35.4")
        self.others: dict[str, Simulated] = {}
        """Further clusters, by name."""
        self.provided: dict[str, FleetCluster] = {}
        """Clusters that a provider has, as they were before anything was applied."""
        self.provider = open_store("memory:")
        super().__init__(settings or Settings(store="memory:", cluster="simulated:nowhere"), workers=1, monotonic=lambda: self.elapsed)
        self.born()

    def born(self) -> None:
        """A new process: what the last one remembered is gone."""
        self._dead = False
        store: Any = Watched(self.truth, "store", self)
        bus: Any = Watched(self, "bus", self)
        self.world = World(store, bus, self._open_cluster, self.world.settings, self.clock, self._open_fleet)
        wiring.install(self.world, PodTopology(lambda: declared_by(self.world), clock=lambda: self.elapsed))

    def _open_cluster(self, access: object, name: str) -> Any:
        return WatchedCluster(self.others.get(name, self.nodes), "cluster", self)

    def _open_fleet(self, name: str, spec: object) -> Any:
        return Watched(self._fleet(name, spec), "fleet", self)

    def _fleet(self, name: str, spec: object) -> Fleet:
        if any(cluster.asked_for for cluster in self.provided.values()):
            return SlowFleet(self.provider, self.provided, self.now)
        return DocumentFleet(self.provider, self.provided)

    @property
    def untouched(self) -> World:
        """Ports of the real thing, without faults and without memory, for a person who looks or acts from outside."""
        opened: Callable[[object, str], Any] = lambda access, name: self.others.get(name, self.nodes)  # noqa: E731
        return World(self.truth, self, opened, self.world.settings, self.now, self._fleet)

    def now(self) -> datetime:
        """The time, which moves only between deliveries."""
        return self.begin + timedelta(seconds=self.elapsed)

    def clock(self) -> datetime:
        """The time, as the process at work has it."""
        return self.now() + timedelta(seconds=self._skew(self._working.step, self._working.delivery))

    def outside(self, port: str, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Every outside call comes through here."""
        working = self._working
        if self._dead if working.calls is None else working.dead:
            raise Died
        with self._numbering:
            calls = self.calls if working.calls is None else working.calls
            working.own += 1
            step = working.step or self._serving
            call = Call(len(calls) + 1, port, name, str(args[0]) if args else "", step, working.delivery, working.own, _computing())
            calls.append(call)

        def do() -> Any:
            if port == "cluster":
                self._judged(method, *args, **kwargs)
            answer = method(*args, **kwargs)
            if name == "create" and call.argument.startswith("releases/"):
                self.judge.now()
            if port == "store" and name == "create" and answer:
                self.written.append((self.now(), call.argument))
            if name == "apply" and answer and not kwargs.get("dry_run"):
                self.applied.append((self.now(), call.argument, args[1]))
            return answer

        interfere = working.interfere or self._interfere
        return do() if interfere is None else interfere(self, call, do)

    def _judged(self, method: Any, *args: Any, manager: str = "", **kwargs: Any) -> None:
        """Hold a write to a node against what is released to it."""
        cluster = next((name for name, other in self.others.items() if other._folder == method.__self__._folder), "default")
        since = self._working.since.get(cluster, 0)
        if method.__name__ in WRITES and self.paused_at is not None and self._working.delivery > self.paused_at and not self._gives_back():
            self.judge.broken.append(f"{args[0]} of {cluster} was written after somebody was answered that the fleet is paused")
        if method.__name__ == "apply_labels" and manager != self.nodes.owner.aliases:
            self.judge.write(cluster, args[0], since, labels=args[2])
        if method.__name__ == "remove_labels":
            self.judge.write(cluster, args[0], since, removed=frozenset(args[1]))
        if method.__name__ == "remove_taint":
            self.judge.write(cluster, args[0], since, labels=args[3], taint=tuple(args[2]))

    def paused(self) -> None:
        """Somebody was just answered that the whole fleet is paused: what is taken up from now on writes nothing."""
        self.paused_at = self._begun

    def _gives_back(self) -> bool:
        """Whether what is being delivered belongs to the revert of a rollout, which passes a pause."""
        waiting = self._working.waiting
        asked = self.untouched.actions.find(json.loads(waiting.message.data).get("action") or "none") if waiting else None
        return asked is not None and bool(asked.rollout) and self.untouched.rollouts.batch(asked.rollout or "", asked.batch or 0)[1].back

    def die(self) -> None:
        """End the process that is at work."""
        if self._working.calls is None:
            self._dead = True
        else:
            self._working.dead = True
        raise Died

    # the bus

    def _put(self, waiting: Waiting) -> None:
        if waiting.attempt == 1:
            self._sent += 1
            waiting.due += self._late(self._sent)
            for _ in range(self._copies()):
                self.repeated = True
                super()._put(replace(waiting))
        super()._put(waiting)

    def drain(self, only: str = "", most: int = 100_000) -> None:
        """Deliver until nothing waits (that has `only` in its body), or `most` messages. In an outside call, other processes do it."""
        while (waiting := sorted(one for one in self._queue if only.encode() in one.message.data)) and most:
            chosen = waiting[self._pick(waiting) if self._pick else 0]
            self._queue.remove(chosen)
            self.elapsed = max(self.elapsed, chosen.due) + 0.001
            self._deliver(chosen)
            most -= 1

    @contextmanager
    def working(self, step: str, waiting: Waiting | None = None) -> Iterator[None]:
        """A function at work: one delivery, or one request."""
        working = self._working
        before = working.step, working.delivery, working.own, working.waiting, working.since
        self._begun += 1
        working.step, working.delivery, working.own, working.waiting = step, self._begun, 0, waiting
        working.since = self.judge.now()
        self._serving = step
        working.dead = False
        if self._cold:
            self.born()
        try:
            yield
        finally:
            working.step, working.delivery, working.own, working.waiting, working.since = before
            if working.calls is None:
                while self._twins:
                    self._twins.pop()()

    def _deliver(self, waiting: Waiting) -> None:
        with self.working(waiting.step, waiting):
            try:
                super()._deliver(waiting)
            except Died:
                self._die_of(waiting)

    def _die_of(self, waiting: Waiting) -> None:
        self.deaths += 1
        if self._working.calls is None:
            self.born()
        if waiting.attempt < LAST_ATTEMPT:
            waiting.attempt += 1
            waiting.due = self.elapsed + 0.2
            self._put(waiting)
        else:
            self._bury(waiting, "died")

    def _app(self, step: str) -> Any:
        return _loaded(step, str(self._steps.steps[step].source))

    # clients over HTTP

    def client(self, method: str, path: str, who: str = "a client", step: str = "api", **given: Any) -> Answer:
        """A request to the api, or to another function; where it dies or is answered with 5xx, its client repeats it."""
        for _ in range(6):
            answer = self.request(step, method, path, who, **given)
            if answer.status and answer.status < 500:
                break
            self.elapsed += 1
        self.answers.append(answer)
        return answer

    def request(self, step: str, method: str, path: str, who: str = "", **given: Any) -> Answer:
        """One request to a function; status 0 where its process died and nobody was answered."""
        with self.working(step):
            try:
                answer = self._app(step).test_client().open(path, method=method, **given)
            except Died:
                self.deaths += 1
                if self._working.calls is None:
                    self.born()
                return Answer(who, path, 0, None)
        page = {"message": answer.text} if answer.mimetype == "text/html" else None
        return Answer(who, path, answer.status_code, page or answer.get_json(silent=True))

    # twins

    def again(self) -> None:
        """Deliver what is at work once more."""
        waiting = self._working.waiting
        assert waiting, "nothing is being delivered"
        self._deliver(replace(waiting, attempt=1))

    def beside(self, act: Callable[[], None], interfere: Interference | None) -> None:
        """Another process acts at this point, met by faults of its own; what it calls is not numbered."""
        working = self._working
        before = working.calls, working.interfere
        working.calls, working.interfere = [], interfere or (lambda site, call, do: do())
        try:
            act()
        finally:
            working.calls, working.interfere = before

    def stands(self, act: Callable[[Site], None], number: int) -> None:
        """Another process acts until before its call `number`, and there it stands until what is at work here has ended."""
        stood, go_on = threading.Semaphore(0), threading.Event()
        waiting = self._working.waiting
        failed: list[BaseException] = []

        def interfere(site: Site, call: Call, do: Callable[[], Any]) -> Any:
            if call.number >= number and not go_on.is_set() and not call.computing:
                stood.release()
                go_on.wait()
            return do()

        def other() -> None:
            self._working.waiting = waiting
            try:
                self.beside(lambda: act(self), interfere)
            except BaseException as error:
                failed.append(error)
            stood.release()

        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        assert stood.acquire(timeout=60), "the twin waits for something that is held here"

        def ends() -> None:
            go_on.set()
            thread.join()
            if failed:
                raise failed[0]

        self._twins.append(ends)

    # what people do

    def commit(self, documents: str) -> int:
        """Stage and commit documents, as a person does at another desk."""
        revisions = self.untouched.revisions
        revisions.stage("site", [Source("site.yaml", documents.encode())], "test", self.now())
        return revisions.commit("test", self.now())[0].number

    def ask(self, action: str = ACTION, **request: Any) -> None:
        """Publish a request as a person does: by no process of ours, so that no fault meets it. It adopts what we held before."""
        asked = {"adopt": True, **(request or {"name": "update_site"})}
        self.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, **asked).outgoing()])

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

    def as_released(self, found: Finding, *nodes: str) -> None:
        """Each of these nodes carries what is released to it, and we hold nothing else on it."""
        for name in nodes:
            mark = self.judge.mark("default", name)
            declared, node = self.judge.declared(mark, name), self.nodes.node(name)
            assert node
            assert declared
            ours = node.applied.get(self.nodes.owner.name, frozenset())
            wanted = {key: value for key, value in declared.labels.items() if key not in declared.skips or key in ours}
            fits = ours <= declared.labels.keys() and {**node.labels, **wanted} == node.labels
            found.expect(fits, f"{name} ended with {dict(node.labels)}, of which {sorted(ours)} are ours, released {mark}: {declared}")

    def ended_once(self, found: Finding, *actions: str, in_time: bool = True) -> None:
        """What must hold of every run: each action has an outcome, told under one id, and nothing is left once the clock has swept; where
        they need not end `in_time`, once it has swept after their deadlines.
        """
        self._interfere = None
        waiting = [action for action in actions if self.untouched.actions.outcome(action) is None]
        found.expect(not (waiting and in_time), f"{waiting} had not ended before the clock swept")
        self.sweep(0.0 if in_time else 4000.0)
        if not in_time:  # clocks may be apart; and a mark that tells no deadline is forgotten after a day
            self.sweep(2 * 86400.0)
        ledger = self.untouched.actions
        for action in actions:
            told = {notice.id for notice in self.notices if notice.subject == action}
            same = {notice.model_dump_json() for notice in self.notices if notice.subject == action}
            found.expect(ledger.outcome(action) is not None, f"{action} has not ended")
            found.expect(told == {f"action.finished/{action}"}, f"{action} was told as {sorted(told) or 'nothing'}")
            found.expect(len(same) == 1, f"{action} was told in {len(same)} different ways")
        found.expect(not ledger.open() or self.judge.torn(), f"open for ever: {ledger.open()}")
        found.expect(not self._queue, f"{len(self._queue)} messages left")
        found.expect(not (self.dead and in_time), f"dead letters: {[(dead.step, dead.error) for dead in self.dead]}")
        self.judge.now()
        found.broken += [each for each in self.judge.broken if each not in found.broken]


def _computing() -> bool:
    """Whether this thread is computing a cached property."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_code is functools.cached_property.__get__.__code__:
            return True
        frame = frame.f_back
    return False


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
