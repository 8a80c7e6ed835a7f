"""Push delivery for the emulator: streaming pull, then HTTP POST in the exact form of a Pub/Sub push.

The emulator's own push has two requests in flight per subscription, no `deliveryAttempt` and no token. The pump has as many as the
function takes, adds both, redelivers by the retry policy, moves to dead letters after LAST_ATTEMPT, and can be told to misbehave.
A message stays leased from the emulator until its function took it or it was buried: a pump that dies loses nothing.
"""

from __future__ import annotations

import base64
import heapq
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import urllib3

from local.steps import DEAD_LETTERS
from shared.adapters.pubsub import Puller
from shared.messages import LAST_ATTEMPT, Outgoing
from shared.ports import Bus, BusError

BACKOFF = (0.5, 10.0)
"""Seconds before the first redelivery, doubled each time, and the most."""
TAKEN = frozenset({102, 200, 201, 202, 204})
"""Answers that acknowledge a push (https://cloud.google.com/pubsub/docs/push)."""
NOBODY = "nobody listens"
"""No process there yet or any more. Not counted as a delivery: Cloud Run holds a request until an instance is up."""
START_PAUSE = 0.25
"""Seconds until the next look for a process."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong on the way, each as a chance per delivery; the same `seed` gives the same draws."""

    duplicate: float = 0.0
    """Delivered once more although it was taken."""
    lost: float = 0.0
    """The request never arrives; redelivered."""
    unanswered: float = 0.0
    """The function does its work, and its answer is lost; redelivered."""
    delay: float = 0.0
    """Every delivery waits up to so many seconds, which also mixes the order."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Route:
    """A subscription and the function behind it."""

    subscription: str
    topic: str
    url: str
    concurrency: int
    timeout: float


@dataclass(order=True)
class _Held:
    due: float
    number: int
    message: Any = field(compare=False)
    attempt: int = field(compare=False)
    extra: bool = field(default=False, compare=False)


@dataclass
class Counts:
    """What one route did so far."""

    posts: int = 0
    taken: int = 0
    refused: int = 0
    duplicates: int = 0
    lost: int = 0
    buried: int = 0


class Lane:
    """One route at work: a queue ordered by due time, and as many threads as the function takes requests."""

    def __init__(self, route: Route, bus: Bus, faults: Faults, say: Callable[[str], None]) -> None:
        self.route = route
        self.counts = Counts()
        self._bus, self._faults, self._say = bus, faults, say
        self._random = random.Random(f"{faults.seed}/{route.subscription}")  # noqa: S311 - faults are to be repeatable
        self._queue: list[_Held] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._ending = False
        self._busy = 0
        self._pool = urllib3.PoolManager(maxsize=route.concurrency, retries=False, timeout=urllib3.Timeout(connect=2.0, read=route.timeout))
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(route.concurrency)]
        for thread in self._threads:
            thread.start()

    def take(self, message: Any) -> None:
        """Accept one message from the stream."""
        wait = self._random.uniform(0, self._faults.delay) if self._faults.delay else 0.0
        self._hold(_Held(time.monotonic() + wait, next(self._numbers), message, max(1, message.delivery_attempt or 1)))

    def idle(self) -> bool:
        """Whether nothing is held or on its way."""
        with self._changed:
            return not self._queue and not self._busy

    def stop(self) -> None:
        """Take no more, and let requests in flight end."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=self.route.timeout)
        self._pool.clear()

    def _hold(self, held: _Held) -> None:
        with self._changed:
            heapq.heappush(self._queue, held)
            self._changed.notify()

    def _next(self) -> _Held | None:
        with self._changed:
            while not self._ending:
                wait = self._queue[0].due - time.monotonic() if self._queue else None
                if wait is not None and wait <= 0:
                    self._busy += 1
                    return heapq.heappop(self._queue)
                self._changed.wait(wait)
        return None

    def _work(self) -> None:
        while (held := self._next()) is not None:
            try:
                self._deliver(held)
            finally:
                with self._changed:
                    self._busy -= 1

    def _deliver(self, held: _Held) -> None:
        with self._changed:
            chance = self._random.random
            lost, unanswered, again = (chance() < odds for odds in (self._faults.lost, self._faults.unanswered, self._faults.duplicate))
        problem = "lost on the way (injected)" if lost else self._post(held)
        if unanswered and not lost:
            problem = problem or "the answer was lost (injected)"
        with self._changed:
            self.counts.lost += lost or unanswered
            self.counts.duplicates += held.extra
            self.counts.taken += not problem
            self.counts.refused += bool(problem) and not (lost or unanswered)
        if held.extra:
            return
        if problem:
            self._later(held, problem)
            return
        held.message.ack()
        if again:
            wait = self._random.uniform(0, max(self._faults.delay, 0.2))
            self._hold(_Held(time.monotonic() + wait, next(self._numbers), held.message, held.attempt, extra=True))

    def _post(self, held: _Held) -> str:
        """Deliver once; return what went wrong, empty if the function accepted it."""
        headers = {
            "content-type": "application/json",
            "user-agent": "hullmark-pump",
            "authorization": f"Bearer {token(self.route.url.partition('?')[0])}",
        }
        self.counts.posts += 1
        try:
            body = json.dumps(push(held.message, self.route.subscription, held.attempt)).encode()
            answer = self._pool.request("POST", self.route.url, body=body, headers=headers)
        except urllib3.exceptions.NewConnectionError:
            return NOBODY
        except urllib3.exceptions.HTTPError as error:
            return f"no answer: {error}"
        return "" if answer.status in TAKEN else f"HTTP {answer.status}"

    def _later(self, held: _Held, problem: str) -> None:
        name = self.route.subscription.rpartition("/")[2]
        if problem == NOBODY:
            self._hold(_Held(time.monotonic() + START_PAUSE, next(self._numbers), held.message, held.attempt))
            return
        if held.attempt < LAST_ATTEMPT:
            wait = min(BACKOFF[0] * 2 ** (held.attempt - 1), BACKOFF[1])
            self._say(f"pump: {name} message {held.message.message_id} delivery {held.attempt}: {problem}; again in {wait:.1f} s")
            self._hold(_Held(time.monotonic() + wait, next(self._numbers), held.message, held.attempt + 1))
            return
        if self.route.topic == DEAD_LETTERS:
            self._say(f"pump: {name} message {held.message.message_id} could not be recorded: {problem}; tried again in {BACKOFF[1]:.0f} s")
            self._hold(_Held(time.monotonic() + BACKOFF[1], next(self._numbers), held.message, held.attempt))
            return
        try:
            self._bus.publish(DEAD_LETTERS, [dead_letter(held.message, self.route.subscription, held.attempt)])
        except BusError as error:
            self._say(f"pump: {name} message {held.message.message_id} could not be buried: {error}")
            self._hold(_Held(time.monotonic() + BACKOFF[1], next(self._numbers), held.message, held.attempt))
            return
        self._say(f"pump: {name} message {held.message.message_id} moved to {DEAD_LETTERS} after {held.attempt} deliveries: {problem}")
        with self._changed:
            self.counts.buried += 1
        held.message.ack()


class Pump:
    """Every route at once."""

    def __init__(self, routes: Sequence[Route], bus: Bus, say: Callable[[str], None], faults: Faults | None = None) -> None:
        self.lanes = [Lane(route, bus, faults or Faults(), say) for route in routes]
        self._puller = Puller()
        for lane in self.lanes:
            self._puller.follow(lane.route.subscription, lane.take, in_hand=max(100, 8 * lane.route.concurrency))

    def idle(self) -> bool:
        """Whether the pump holds nothing now. (The emulator may still.)"""
        return all(lane.idle() for lane in self.lanes)

    def broken(self) -> BaseException | None:
        """Why a stream ended by itself, if one did."""
        return self._puller.broken()

    def stop(self) -> None:
        """Stop pulling, let requests end, and give back what is held."""
        for lane in self.lanes:
            lane.stop()
        self._puller.close()


def push(message: Any, subscription: str, attempt: int) -> dict[str, Any]:
    """The body of a wrapped push: what the emulator sends, and the deliveryAttempt and ordering key of the real service."""
    published = message.publish_time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    wrapped = {
        "data": base64.b64encode(message.data).decode(),
        "attributes": dict(message.attributes),
        "messageId": message.message_id,
        "message_id": message.message_id,
        "publishTime": published,
        "publish_time": published,
    }
    if message.ordering_key:
        wrapped["orderingKey"] = message.ordering_key
    return {"deliveryAttempt": attempt, "subscription": subscription, "message": wrapped}


def dead_letter(message: Any, subscription: str, attempt: int) -> Outgoing:
    """The message as Pub/Sub forwards it to a dead-letter topic, with the attributes that say where it comes from."""
    source = {
        "DeliveryCount": str(attempt),
        "Subscription": subscription.rpartition("/")[2],
        "SubscriptionProject": subscription.split("/")[1],
        "TopicPublishTime": message.publish_time.astimezone(UTC).isoformat(),
    }
    return Outgoing(message.data, {**message.attributes, **{f"CloudPubSubDeadLetterSource{key}": value for key, value in source.items()}})


def token(audience: str) -> str:
    """What stands where Pub/Sub puts its OIDC token: the same claims, signed by nobody (`alg: none`)."""
    now = int(time.time())
    claims = {"aud": audience, "azp": "local", "email": "push@local", "email_verified": True, "exp": now + 3600, "iat": now, "iss": "local"}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none", "typ": "JWT"}, claims)]
    return ".".join([*parts, ""])
