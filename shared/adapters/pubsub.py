"""Google Cloud Pub/Sub: two publishers with one contract, and what a local run needs to set up and to pull.

`RestPubSub` is what functions publish with: google-auth and urllib3, one confirmed HTTP call a batch, and a cold start that google's
client would lengthen by a third (DECISIONS). `GrpcPubSub` is google-cloud-pubsub's unary call, for what lives long. Both follow
PUBSUB_EMULATOR_HOST. No publisher here batches in the background: an instance has no CPU after its function returned.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shared import telemetry
from shared.messages import Outgoing
from shared.ports import Bus, BusError

MOST_MESSAGES = 1_000
"""Messages of one publish request (Pub/Sub's limit)."""
MOST_BYTES = 9_500_000
"""Bytes of one publish request, as JSON with base64: Pub/Sub's limit is 10 MB."""
TRIES = 4
"""Calls for one batch. Every message may be published twice by it; readers know messages by identity."""
PAUSE = 0.15
"""Seconds before the second call, doubled after each."""
TIMEOUT = 10.0
"""Seconds that one call may take: all tries together stay below every function's timeout but pod_binding's, which publishes nothing."""
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})


def open_bus(project: str, prefix: str = "", publisher: Literal["rest", "grpc"] = "rest") -> Bus:
    """The bus of one project. `prefix` stands before every topic's name. Raises BusError without a project."""
    if not project:
        raise BusError("no project for Pub/Sub: set HULLMARK_PROJECT")
    return GrpcPubSub(project, prefix) if publisher == "grpc" else RestPubSub(project, prefix)


def batches(messages: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
    """Cut into publish requests inside Pub/Sub's limits, order kept. Raises BusError for a message that no request can hold."""
    batch: list[Outgoing] = []
    total = 0
    for message in messages:
        size = _size(message)
        if size > MOST_BYTES:
            raise BusError(f"a message of {len(message.data):,} bytes is larger than Pub/Sub takes (10 MB a request, base64 included)")
        if batch and (len(batch) == MOST_MESSAGES or total + size > MOST_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(message)
        total += size
    if batch:
        yield batch


def _size(message: Outgoing) -> int:
    return 4 * -(-len(message.data) // 3) + sum(len(k.encode()) + len(v.encode()) + 8 for k, v in message.attributes.items()) + 300


class _Publisher:
    """What both publishers share: names, batches, the trace, tries."""

    def __init__(self, project: str, prefix: str = "") -> None:
        self._project = project
        self._prefix = prefix

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """Publish in as few requests as the limits allow; every message carries the current trace. Confirmed on return."""
        path = topic_path(self._project, self._prefix, topic)
        carried = telemetry.attributes()
        traced = [Outgoing(message.data, {**carried, **message.attributes}) for message in messages]
        for batch in batches(traced):
            self._insist(path, batch)

    def _insist(self, path: str, batch: list[Outgoing]) -> None:
        pause = PAUSE
        for left in reversed(range(TRIES)):
            try:
                self._send(path, batch)
                return
            except _Later as later:
                if not left:
                    raise BusError(f"{path}: not confirmed in {TRIES} tries: {later}") from later
                time.sleep(pause)
                pause *= 2

    def _send(self, path: str, batch: list[Outgoing]) -> None:
        """One request. Raises _Later where another try may help, BusError where none will."""
        raise NotImplementedError


class _Later(Exception):
    """Pub/Sub did not answer, or said to come back."""


class RestPubSub(_Publisher):
    """`shared.ports.Bus` by Pub/Sub's REST interface."""

    def _send(self, path: str, batch: list[Outgoing]) -> None:
        import urllib3

        body = {"messages": [{"data": base64.b64encode(m.data).decode(), "attributes": dict(m.attributes)} for m in batch]}
        headers = {"content-type": "application/json", **self._authorization()}
        try:
            answer = _pool().request("POST", f"{_base()}/v1/{path}:publish", body=json.dumps(body).encode(), headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise _Later(f"no answer: {error}") from error
        if answer.status in RETRYABLE:
            raise _Later(f"HTTP {answer.status}: {_said(answer.data)}")
        if answer.status != 200:
            raise BusError(f"{path}: HTTP {answer.status}: {_said(answer.data)}")
        confirmed = len(json.loads(answer.data).get("messageIds", ()))
        if confirmed != len(batch):
            raise BusError(f"{path}: {confirmed} of {len(batch)} messages were confirmed")

    def _authorization(self) -> Mapping[str, str]:
        if emulator():
            return {}
        from google.auth import exceptions

        try:
            credentials = _credentials()
            if not credentials.valid:
                credentials.refresh(_auth_request())
        except exceptions.GoogleAuthError as error:
            raise _Later(f"no credentials for Pub/Sub: {error}") from error
        return {"authorization": f"Bearer {credentials.token}"}


@functools.cache
def _pool() -> Any:
    import urllib3

    return urllib3.PoolManager(maxsize=16, retries=False, timeout=urllib3.Timeout(connect=3.0, read=TIMEOUT))


@functools.cache
def _auth_request() -> Any:
    from google.auth.transport import urllib3 as transport

    request: Any = transport.Request
    return request(_pool())


@functools.cache
def _credentials() -> Any:
    import google.auth

    return google.auth.default(scopes=["https://www.googleapis.com/auth/pubsub"])[0]


def _said(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace") or "no text"


class GrpcPubSub(_Publisher):
    """`shared.ports.Bus` by google-cloud-pubsub."""

    def _send(self, path: str, batch: list[Outgoing]) -> None:
        from google.api_core import exceptions

        messages = [{"data": message.data, "attributes": dict(message.attributes)} for message in batch]
        try:
            confirmed = len(_gapic("publisher").publish(topic=path, messages=messages, retry=None, timeout=TIMEOUT).message_ids)
        except (exceptions.RetryError, exceptions.ServerError, exceptions.TooManyRequests) as error:
            raise _Later(str(error)) from error
        except exceptions.GoogleAPIError as error:
            raise BusError(f"{path}: {error}") from error
        if confirmed != len(batch):
            raise BusError(f"{path}: {confirmed} of {len(batch)} messages were confirmed")


def emulator() -> str:
    """`host:port` of the emulator that PUBSUB_EMULATOR_HOST names, or empty."""
    return os.environ.get("PUBSUB_EMULATOR_HOST", "")


def _base() -> str:
    return f"http://{emulator()}" if emulator() else "https://pubsub.googleapis.com"


def topic_path(project: str, prefix: str, topic: str) -> str:
    """A topic's full name."""
    return f"projects/{project}/topics/{prefix}{topic}"


@functools.cache
def _channel(host: str) -> Any:
    import grpc

    return grpc.insecure_channel(host, options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])


def _gapic(kind: Literal["publisher", "subscriber"]) -> Any:
    """google-cloud-pubsub's generated client, on the emulator's channel where there is one."""
    return _gapic_at(kind, emulator())


@functools.cache
def _gapic_at(kind: str, host: str) -> Any:
    from google import pubsub_v1

    client: Any = pubsub_v1.PublisherClient if kind == "publisher" else pubsub_v1.SubscriberClient
    if not host:
        return client()
    return client(transport=client.get_transport_class("grpc")(channel=_channel(host)))


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription to make. `endpoint` empty: a pull subscription. Seconds throughout; `max_attempts` 0: no dead letters."""

    name: str
    topic: str
    ack_deadline: int
    endpoint: str = ""
    backoff: tuple[float, float] = (1.0, 10.0)
    dead_letters: str = ""
    max_attempts: int = 5


class Administration:
    """Topics and subscriptions of a local run, by google-cloud-pubsub. (In the cloud they are terraform's.)"""

    def __init__(self, project: str, prefix: str = "") -> None:
        self._project = project
        self._prefix = prefix

    def create_topics(self, names: Iterable[str]) -> None:
        """Create what is missing. Raises BusError."""
        for name in names:
            self._made(_gapic("publisher").create_topic, name=topic_path(self._project, self._prefix, name))

    def names(self) -> list[str]:
        """Topics and subscriptions that are there under this prefix, without it. Raises BusError."""
        from google.api_core import exceptions

        project = f"projects/{self._project}"
        try:
            there = [topic.name for topic in _gapic("publisher").list_topics(project=project, timeout=TIMEOUT)]
            there += [subscription.name for subscription in _gapic("subscriber").list_subscriptions(project=project, timeout=TIMEOUT)]
        except exceptions.GoogleAPIError as error:
            raise BusError(f"{project} could not be listed: {error}") from error
        names = [name.rpartition("/")[2] for name in there]
        return [name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)]

    def create_subscription(self, wanted: Subscription) -> str:
        """Create it where it is missing, and return its full name. Raises BusError."""
        path = f"projects/{self._project}/subscriptions/{self._prefix}{wanted.name}"
        request: dict[str, Any] = {
            "name": path,
            "topic": topic_path(self._project, self._prefix, wanted.topic),
            "ack_deadline_seconds": min(600, max(10, wanted.ack_deadline)),
            "retry_policy": {"minimum_backoff": _duration(wanted.backoff[0]), "maximum_backoff": _duration(wanted.backoff[1])},
            "expiration_policy": {},
        }
        if wanted.endpoint:
            request["push_config"] = {"push_endpoint": wanted.endpoint}
        if wanted.dead_letters and wanted.max_attempts:
            dead = topic_path(self._project, self._prefix, wanted.dead_letters)
            request["dead_letter_policy"] = {"dead_letter_topic": dead, "max_delivery_attempts": wanted.max_attempts}
        self._made(_gapic("subscriber").create_subscription, request=request)
        return path

    def _made(self, call: Callable[..., Any], **arguments: Any) -> None:
        from google.api_core import exceptions

        try:
            call(timeout=TIMEOUT, **arguments)
        except exceptions.AlreadyExists:
            return
        except exceptions.GoogleAPIError as error:
            raise BusError(f"{arguments.get('name') or arguments['request']['name']} could not be made: {error}") from error


def _duration(seconds: float) -> Any:
    from google.protobuf import duration_pb2

    return duration_pb2.Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))


class Puller:
    """Streaming pull, by google-cloud-pubsub: `take` is called in threads of the client's, and acks or nacks what it is given."""

    def __init__(self) -> None:
        import google.cloud.pubsub_v1 as pubsub_v1

        self._client = pubsub_v1.SubscriberClient()
        self._futures: list[Any] = []

    def follow(self, subscription: str, take: Callable[[Any], None], *, in_hand: int) -> None:
        """Deliver a subscription's messages to `take`, at most `in_hand` of them unanswered at a time."""
        import google.cloud.pubsub_v1 as pubsub_v1

        control = pubsub_v1.types.FlowControl(max_messages=in_hand)
        self._futures.append(self._client.subscribe(subscription, take, flow_control=control))

    def broken(self) -> BaseException | None:
        """Why a stream has ended by itself, if one has."""
        return next((future.exception() for future in self._futures if future.done() and not future.cancelled()), None)

    def close(self) -> None:
        """End every stream; what is unanswered is delivered again later."""
        for future in self._futures:
            future.cancel()
        for future in self._futures:
            try:
                future.result(timeout=5)
            except Exception:  # noqa: S112 - cancelled, or broken and told by `broken` before
                continue
        self._client.close()
