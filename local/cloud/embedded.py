"""The cloud on one machine, in one process: the bus and every function behind it.

The functions are the deployed ones: loaded by functions-framework from the same files, called over its own WSGI entry with the
bytes of a Pub/Sub push. What the bus promises is what Pub/Sub promises: at least once, redelivered with backoff while the answer
is not 2xx, dead-lettered after LAST_ATTEMPT. Messages live in memory: what was not delivered when the process ended is worked out again
from the store, by the next process that works on it (`take_up`).
"""

from __future__ import annotations

import base64
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import functions_framework
from ulid import ULID

from local import steps
from local.cloud.presence import Presence
from shared import telemetry, wiring
from shared.domain.names import UPDATE_VERSIONS
from shared.ledger.records import RecordUnreadable
from shared.messages import LAST_ATTEMPT, DeadlineCheck, Notice, Outgoing, RelabelRequest, VersionCheck
from shared.work.control import control
from shared.work.intake import accept
from shared.world import Settings, World

BACKOFF = (0.2, 10.0)
"""Seconds before the first redelivery, doubled each time, and the most: terraform's retry policy, shortened for one machine."""

log = logging.getLogger("hullmark.local")


@dataclass(order=True)
class Waiting:
    """One message on its way to one function."""

    due: float
    number: int
    topic: str = field(compare=False)
    step: str = field(compare=False)
    message: Outgoing = field(compare=False)
    published: datetime = field(compare=False)
    attempt: int = field(default=1, compare=False)

    def push(self) -> dict[str, Any]:
        """The body of the push, with the deliveryAttempt that the real service adds."""
        return {
            "subscription": f"projects/local/subscriptions/{self.topic}--{self.step}",
            "deliveryAttempt": self.attempt,
            "message": {
                "data": base64.b64encode(self.message.data).decode(),
                "attributes": dict(self.message.attributes),
                "messageId": str(self.number),
                "publishTime": self.published.isoformat().replace("+00:00", "Z"),
            },
        }


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that its function would not take, and what the function last said."""

    topic: str
    step: str
    message: Outgoing
    error: str


class Cloud:
    """`shared.ports.Bus`, with the functions behind it."""

    def __init__(
        self,
        settings: Settings,
        *,
        workers: int = 4,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.world: World = wiring.build(settings, self)
        self.notices: deque[Notice] = deque(maxlen=1000)
        self.dead: list[DeadLetter] = []
        self.delivered = 0
        self._steps = steps.load()
        self._workers = workers
        self._monotonic = monotonic
        self._sleep = sleep
        self._queue: list[Waiting] = []
        self._busy = 0
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._apps: dict[str, Any] = {}
        self._loading = threading.Lock()
        self._ending = False
        self._presence = Presence(settings.store)
        wiring.install(self.world)

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """Queue the messages for every function behind the topic."""
        trace = telemetry.attributes()
        with self._changed:
            for sent in messages:
                message = Outgoing(sent.data, {**trace, **sent.attributes})
                if topic in self._steps.outlets:
                    self.notices.append(Notice.parse(message.data))
                for step in self._steps.subscribers(topic):
                    self._put(Waiting(self._monotonic(), next(self._numbers), topic, step.name, message, datetime.now(UTC)))
            self._changed.notify_all()

    def submit(self, request: RelabelRequest) -> str:
        """Check, record and publish a request; the action's id. Raises Rejected, and Unavailable where the cluster does not answer."""
        accepted = accept(request, request.action or str(ULID()), self.world, self.world.clock(), reach=True)
        self._presence.arrive()
        self.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])  # this cloud's only clock where nobody serves
        self.publish(RelabelRequest.TOPIC, [RelabelRequest.again(accepted).outgoing()])
        return accepted.id

    def control(self, action: str, verb: str, by: str, now: datetime) -> None:
        """Give an action a verb. Raises UnknownAction and WrongState."""
        control(action, verb, by, self.world, now)

    def _put(self, waiting: Waiting) -> None:
        heapq.heappush(self._queue, waiting)

    def drain(self) -> None:
        """Deliver until nothing is queued, redeliveries included."""
        threads = [threading.Thread(target=self._work, args=(True,), daemon=True) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def start(self) -> None:
        """Deliver in the background until `stop`."""
        for _ in range(self._workers):
            threading.Thread(target=self._work, args=(False,), daemon=True).start()

    def stop(self) -> None:
        """End the background delivery; what is queued is dropped (the store knows how to go on)."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    def take_up(self) -> list[str]:
        """Go on with what an earlier process left open, unless one is at work on the store now; the ids of the actions."""
        if not self._presence.arrive() or not self.world.actions.open():
            return []
        self.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])  # what ended, and was not announced
        return self.resume()

    def resume(self, *only: str) -> list[str]:
        """Ask again for every action that is open, or `only` for these; their ids. What was done is not done again: the request goes on
        with the plan that was made, sends the parts that have no outcomes, and closes the action where every part has.
        """
        self._presence.arrive()
        actions = self.world.actions
        return [action for action in only or actions.open() if actions.outcome(action) is None and self._ask_again(action)]

    def _ask_again(self, action: str) -> bool:
        """Publish what makes the action go on. False where its request is not there or can't be read: the sweep sees to those."""
        try:
            request = self.world.actions.find(action)
        except RecordUnreadable:
            return False
        if request is None:
            return False
        if request.name == UPDATE_VERSIONS:
            force = bool(request.parameters.get("force_window"))
            self.publish(VersionCheck.TOPIC, [VersionCheck(clusters=[request.cluster], force_window=force).outgoing()])
        else:
            self.publish(RelabelRequest.TOPIC, [RelabelRequest.again(request).outgoing()])
        return True

    def _work(self, until_empty: bool) -> None:
        while (waiting := self._next(until_empty)) is not None:
            try:
                self._deliver(waiting)
            finally:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()

    def _next(self, until_empty: bool) -> Waiting | None:
        with self._changed:
            while not self._ending:
                wait = None
                if self._queue:
                    wait = self._queue[0].due - self._monotonic()
                    if wait <= 0:
                        self._busy += 1
                        return heapq.heappop(self._queue)
                elif until_empty and not self._busy:
                    return None
                if wait is not None and self._sleep is not time.sleep:
                    self._sleep(wait)
                else:
                    self._changed.wait(wait)
        return None

    def _deliver(self, waiting: Waiting) -> None:
        self.delivered += 1
        client = self._app(waiting.step).test_client()
        error = ""
        try:
            answer = client.post(f"/projects/local/topics/{waiting.topic}", json=waiting.push())
            if answer.status_code < 300:
                return
            error = f"HTTP {answer.status_code}"
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        log.warning("%s did not take a message of %s (delivery %d): %s", waiting.step, waiting.topic, waiting.attempt, error)
        with self._changed:
            if waiting.attempt < LAST_ATTEMPT:
                waiting.due = self._monotonic() + min(BACKOFF[0] * 2 ** (waiting.attempt - 1), BACKOFF[1])
                waiting.attempt += 1
                self._put(waiting)
                return
        self._bury(waiting, error)

    def _bury(self, waiting: Waiting, error: str) -> None:
        self.dead.append(DeadLetter(waiting.topic, waiting.step, waiting.message, error))
        if waiting.topic == steps.DEAD_LETTERS:
            log.error("a dead letter could not be recorded: %s", error)
            return
        buried = {
            **waiting.message.attributes,
            "CloudPubSubDeadLetterSourceDeliveryCount": str(waiting.attempt),
            "CloudPubSubDeadLetterSourceSubscription": f"{waiting.topic}--{waiting.step}",
            "CloudPubSubDeadLetterSourceTopicPublishTime": waiting.published.isoformat(),
        }
        self.publish(steps.DEAD_LETTERS, [Outgoing(waiting.message.data, buried)])

    def _app(self, step: str) -> Any:
        with self._loading:
            if step not in self._apps:
                app = functions_framework.create_app(step, str(self._steps.steps[step].source))
                app.config["PROPAGATE_EXCEPTIONS"] = True
                self._apps[step] = app
            return self._apps[step]
