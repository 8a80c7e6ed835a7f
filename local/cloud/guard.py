"""What stands in front of every port that `serve` opens: this machine's names only, no page of another site, and who calls.

In the cloud, IAM and Cloud Run do this before a request comes to a function; on loopback nobody else would.
"""

from __future__ import annotations

import contextlib
import hmac
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import parse_qs

from functions.api.answers import ApiError, Said, failure
from functions.api.identity import host_name, split

HOST = "127.0.0.1"
NAMES = (HOST, "localhost", "::1")
READ_SECONDS = 30
"""How long a request may take to arrive."""
SECRET = "run"  # noqa: S105 - a parameter's name
"""The parameter of a push endpoint's URL that carries the secret of this run."""
Application = Callable[..., Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Guard:
    """A WSGI application behind the guard.

    `person` is who counts as the caller, in WSGI's own word, which no header becomes. `secret`: only a URL that carries it may call.
    """

    app: Application
    person: str = ""
    secret: str = ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer, or refuse in the API's form."""
        try:
            self._check(environ)
        except ApiError as refused:
            return failure(refused)(environ, start_response)
        return self.app({**environ, "REMOTE_USER": self.person} if self.person else environ, start_response)

    def _check(self, environ: dict[str, Any]) -> None:
        here(environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN"))
        given = parse_qs(environ.get("QUERY_STRING", "")).get(SECRET, [""])[0]
        if self.secret and not hmac.compare_digest(given.encode(), self.secret.encode()):
            raise refusal("this port accepts only messages from this run's bus: publish to the topic instead")


def here(host: str, origin: str | None) -> None:
    """Raise ApiError 400 for what is no host, 403 for another machine's name and for a page that this server did not send."""
    if host_name(host) not in NAMES:
        raise refusal(f"{host[:100]!r}: this server is for this machine only: use 127.0.0.1 or localhost")
    if origin is not None and split("Origin", origin).netloc != host:
        raise refusal(f"a page of {origin[:100]!r} may not call this server")


def refusal(cause: str) -> ApiError:
    """A 403."""
    return ApiError(403, "Forbidden", cause, [Said(message=cause, reason="Forbidden")])


class Told:
    """What a signal's handler may set while the same thread waits for it.

    `threading.Event` is no such thing: its lock is not reentrant, so a signal that arrives while `wait` holds it blocks for ever.
    """

    def __init__(self) -> None:
        self._signals: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """End the wait."""
        self._signals.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, for so many seconds at most; whether it was set."""
        try:
            self._signals.get(timeout=timeout)
        except Empty:
            return False
        return True


@contextlib.contextmanager
def until_told() -> Iterator[Told]:
    """What Ctrl-C, SIGTERM and SIGHUP (the terminal is closed) set."""
    ended = Told()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, lambda *_: ended.set()) for number in numbers}
    try:
        yield ended
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
