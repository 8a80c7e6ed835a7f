"""One Kubernetes API server over kept-alive connections: requests in, answers or the port's errors out.

`http.client` and not the official client, because it costs a fifth of its CPU and starts eight times sooner (measured; see DECISIONS).
Every call is bounded: in time (down to each read of the socket), in tries, in answer size, and in how many run at once.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import math
import random
import re
import socket
import ssl
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

from shared.ports import Refused, Unavailable

CONNECT_SECONDS = 5.0
"""Until a connection and its TLS handshake stand."""
SILENCE_SECONDS = 30.0
"""The longest that the server may send nothing; an API server itself ends a write after 34 s."""
CALL_SECONDS = 60.0
"""One call with all its tries and pauses."""
SHORTEST = 0.001
"""Seconds: a socket that may block for 0 seconds would not block at all."""
TRIES = 5
MAX_ANSWER = 64 << 20
"""Bytes. A page of 500 nodes' metadata is about 1.2 MB."""
MOST_IN_FLIGHT = 32
"""An ordinary user's 256 in flight saw no 429 and 1,000 saw many; beyond 8 only the server's queue grows."""
CUT = 300
"""Characters of a server's message that we pass on: a 422 echoes the whole Node."""


def _no_authorization() -> str:
    return ""


@dataclass(frozen=True)
class Access:
    """How to reach one API server, and as whom."""

    server: str
    """`https://host:port/prefix`."""
    ca: str = ""
    """PEM of the cluster's CA; empty: the system's."""
    verify: bool = True
    server_name: str = ""
    """Host name that the certificate must carry, where it is not the server's."""
    proxy: str = ""
    """`http://[user:password@]host:port`."""
    certificate: tuple[str, str] | None = None
    """PEM of the client certificate and of its key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request (impersonation)."""
    authorization: Callable[[], str] = _no_authorization
    """The Authorization header for now; called for each request, so it answers from memory until a token expires."""


@dataclass(frozen=True)
class Patience:
    """How long and how often one caller's requests may be tried, where that is less than holds for all."""

    left: Callable[[], float] = lambda: math.inf
    """Seconds from now that the caller has."""
    tries: int = TRIES


PATIENT = Patience()


class ApiStatus(msgspec.Struct):
    """The fields of a `metav1.Status` that we act on."""

    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None


class StatusDetails(msgspec.Struct):
    """The causes of a refusal, and when to come back (seconds)."""

    causes: list[Cause] | None = None
    retryAfterSeconds: float = 0  # noqa: N815 - the API's name


class Cause(msgspec.Struct):
    """One cause; `field` is a path such as `.metadata.labels.rack`."""

    reason: str = ""
    message: str = ""
    field: str = ""


_status = msgspec.json.Decoder(ApiStatus)


class StatusError(Exception):
    """A 4xx that the caller may know more about. `refused()` is what it means when it doesn't."""

    def __init__(self, code: int, status: ApiStatus, call: str) -> None:
        self.code, self.status, self.call = code, status, call
        super().__init__(f"{call}: {code} {status.message}")

    def refused(self) -> Refused:
        """The port's error for it, with the server's words cut short."""
        words = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 422: "Invalid"}
        reason = words.get(self.code) or self.status.reason or f"HTTP{self.code}"
        remedy = f": {needed}" if self.code == 403 and (needed := role_needed(self.status.message)) else ""
        return Refused(reason, f"{self.call}: {cut(self.status.message) or reason}{remedy}")


class Login(Protocol):
    """Reads the access anew. Raises Refused, saying which file and context."""

    def __call__(self) -> Access: ...


class ApiServer:
    """Requests to one API server, at most `in_flight` at a time, writes at most `writes_per_second` (0: no limit of ours)."""

    def __init__(
        self,
        login: Login,
        *,
        in_flight: int = 8,
        writes_per_second: float = 0,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        connect_seconds: float = CONNECT_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self.in_flight = max(1, min(in_flight, MOST_IN_FLIGHT))
        self._login, self._sleep, self._monotonic, self._jitter = login, sleep, monotonic, jitter
        self._connect_seconds, self._silence_seconds, self._call_seconds = connect_seconds, silence_seconds, call_seconds
        self._slots = threading.BoundedSemaphore(self.in_flight)
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._gap = 1 / writes_per_second if writes_per_second > 0 else 0.0
        self._next_write = 0.0

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        patience: Patience = PATIENT,
    ) -> bytes:
        """Send an idempotent request and return the body of its 2xx. Raises StatusError (4xx), Refused (401 twice) and Unavailable."""
        target = f"{path}?{urlencode(query)}" if query else path
        call = f"{method} {path.partition('?')[0]}"
        wait = max(0.0, min(self._call_seconds, patience.left()))
        if not self._slots.acquire(timeout=wait):
            raise Unavailable(f"{call}: {self.in_flight} other requests took longer than {wait:.0f} s")
        try:
            if method != "GET":
                self._wait_for_turn(call, patience)
            return self._tries(call, method, target, body, headers or {}, patience)
        finally:
            self._slots.release()

    def follow(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], silence_seconds: float) -> Iterator[bytes]:
        """Yield the lines of one watch until the server ends it; a connection of its own, one try. Raises StatusError and Unavailable.

        `silence_seconds`: how long the server may send nothing (bookmarks come about once a minute).
        """
        call = f"GET {path} (watch)"
        line = self._open()
        try:
            yield from line.follow(f"{path}?{urlencode(query)}", headers, silence_seconds)
        except (OSError, http.client.HTTPException) as error:
            raise line.unavailable(call, error) from error
        except _Answered as answered:
            if answered.code == 401:
                self._reopen(line)
            if answered.code in (401, 429) or answered.code >= 500:
                raise Unavailable(f"{call}: {answered.code}", answered.retry_after or None) from answered
            raise StatusError(answered.code, _read_status(answered.body), f"{call} at {line.access.server}") from answered

    def _tries(self, call: str, method: str, target: str, body: bytes, headers: Mapping[str, str], patience: Patience) -> bytes:
        end = self._monotonic() + min(self._call_seconds, patience.left())
        renewed = False
        failure: Unavailable | None = None
        for attempt in range(patience.tries + 1):  # the one more is for credentials that expired
            if attempt == patience.tries and not renewed:
                break
            if failure is not None:
                self._pause(attempt, failure, end)
            if self._monotonic() >= end:
                raise failure or Unavailable(f"{call}: not sent, no time was left")
            line = self._open()
            try:
                code, retry_after, answer = line.send(method, target, body, headers, end)
            except (OSError, http.client.HTTPException) as error:
                failure = line.unavailable(call, error)
                continue
            if code < 300:
                return answer
            status = _read_status(answer)
            if code == 401 and not renewed:
                renewed = True
                self._reopen(line)
                failure = Unavailable(f"{call}: 401 {cut(status.message)}", retry_after=0.0)
                continue
            if code != 429 and code < 500:
                raise StatusError(code, status, f"{call} at {line.access.server}")
            named = retry_after or (status.details.retryAfterSeconds if status.details else 0)
            failure = Unavailable(f"{call} at {line.access.server}: {code} {cut(status.message)}".rstrip(), named or None)
        raise failure or Unavailable(f"{call}: no try left")

    def _pause(self, attempt: int, failure: Unavailable, end: float) -> None:
        """Wait as long as the server named, else longer each time; a random part keeps many clients from coming back together."""
        if failure.retry_after == 0.0:
            return
        pause = failure.retry_after or 0.1 * 2**attempt
        pause *= 1 + 0.25 * self._jitter() if failure.retry_after else 0.5 + self._jitter()
        if self._monotonic() + pause >= end:
            raise failure
        self._sleep(pause)

    def _wait_for_turn(self, call: str, patience: Patience) -> None:
        if not self._gap:
            return
        with self._lock:
            now = self._monotonic()
            turn = max(now, self._next_write)
            if turn - now > patience.left():
                raise Unavailable(f"{call}: not sent, its turn among the writes comes too late")
            self._next_write = turn + self._gap
        if turn > now:
            self._sleep(turn - now)

    def _open(self) -> _Line:
        with self._lock:
            if self._line is None:
                self._line = _Line(self._login(), self._connect_seconds, self._silence_seconds, self._monotonic)
            return self._line

    def _reopen(self, used: _Line) -> None:
        """Drop credentials that the server refused, once for all requests that used them."""
        with self._lock:
            if self._line is used:
                self._line = None
                used.close()

    def close(self) -> None:
        """Close what is kept alive."""
        with self._lock:
            if self._line is not None:
                self._line.close()
            self._line = None


class _Answered(Exception):
    """A watch that was answered with something else."""

    def __init__(self, code: int, retry_after: float, body: bytes) -> None:
        self.code, self.retry_after, self.body = code, retry_after, body
        super().__init__(code)


class _Line:
    """One reading of the access, and the idle connections opened with it."""

    def __init__(self, access: Access, connect_seconds: float, silence_seconds: float, monotonic: Callable[[], float]) -> None:
        self.access = access
        self._connect_seconds, self._silence_seconds, self._monotonic = connect_seconds, silence_seconds, monotonic
        url = urlsplit(access.server)
        try:
            port = url.port
        except ValueError as error:
            raise Refused("KubeconfigInvalid", f"server {access.server!r}: {error}") from error
        if url.scheme not in ("https", "http") or not url.hostname:
            raise Refused("KubeconfigInvalid", f"server {access.server!r} is no http(s)://host:port")
        self._host, self._port, self._prefix = url.hostname, port or (443 if url.scheme == "https" else 80), url.path.rstrip("/")
        self._context = _tls(access) if url.scheme == "https" else None
        self._idle: deque[_Connection] = deque()
        self.close = weakref.finalize(self, _close_all, self._idle)

    def send(self, method: str, target: str, body: bytes, headers: Mapping[str, str], end: float) -> tuple[int, float, bytes]:
        """Status code, Retry-After (seconds; 0: none) and body. A kept connection that the server had closed is replaced once."""
        sent = {"User-Agent": "hullmark", **self.access.headers, **headers}
        if authorization := self.access.authorization():
            sent["Authorization"] = authorization
        while True:
            try:
                connection, kept = self._idle.pop(), True
            except IndexError:
                connection, kept = self._connect(end), False
            try:
                connection.begin(self._silence_seconds, end)
                connection.request_at_once(method, self._prefix + target, body, sent)
                response = connection.getresponse()
                answer = self._read(response)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.close()
                if kept:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            if response.will_close:
                connection.close()
            else:
                self._idle.append(connection)
            return response.status, _seconds(response.getheader("Retry-After", "")), answer

    def follow(self, target: str, headers: Mapping[str, str], silence_seconds: float) -> Iterator[bytes]:
        """Yield the lines of one streamed answer. Raises _Answered for any other than 200."""
        sent = {"User-Agent": "hullmark", **self.access.headers, **headers}
        if authorization := self.access.authorization():
            sent["Authorization"] = authorization
        connection = self._connect()
        try:
            connection.begin(silence_seconds)
            connection.request("GET", self._prefix + target, headers=sent)
            response = connection.getresponse()
            if response.status != 200:
                connection.begin(silence_seconds, self._monotonic() + silence_seconds)
                body = self._read(response)
                raise _Answered(response.status, _seconds(response.getheader("Retry-After", "")), body)
            while piece := response.readline():
                yield piece
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        pieces, size = [], 0
        while piece := response.read1(1 << 18):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER:
                raise http.client.HTTPException(f"an answer of more than {MAX_ANSWER >> 20} MiB")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        response.close()  # read1 leaves it open after the last byte, and the connection unusable
        return b"".join(pieces)

    def _connect(self, end: float = math.inf) -> _Connection:
        host, port, tunnel = self._host, self._port, None
        if self.access.proxy:
            proxy = urlsplit(self.access.proxy)
            if proxy.scheme != "http" or not proxy.hostname:
                raise Refused("ProxyUnsupported", f"proxy-url {proxy.scheme}://{proxy.hostname}: only http:// proxies are supported")
            host, port, tunnel = proxy.hostname, proxy.port or 80, proxy
        seconds = min(self._connect_seconds, max(SHORTEST, end - self._monotonic()))
        connection = _Connection(host, port, seconds, self._context, self.access.server_name or self._host, self._monotonic)
        connection.allow(seconds, end)
        if tunnel is not None:
            connection.set_tunnel(self._host, self._port, _proxy_login(tunnel.username, tunnel.password))
        connection.connect()
        return connection

    def unavailable(self, call: str, error: Exception) -> Unavailable:
        """What a broken connection means: later may help, except where the certificate is the trouble."""
        if isinstance(error, ssl.SSLCertVerificationError):
            raise Refused("CertificateUntrusted", f"{call} at {self.access.server}: {error.verify_message}") from error
        if isinstance(error, TimeoutError):
            return Unavailable(f"{call} at {self.access.server}: timed out ({cut(str(error))})")
        return Unavailable(f"{call} at {self.access.server}: {broken(error)}")


def _close_all(connections: deque[_Connection]) -> None:
    while connections:
        connections.pop().close()


class _Connection(http.client.HTTPConnection):
    """HTTPS whose certificate may carry another name than the address dialled; plain HTTP without a context."""

    def __init__(
        self, host: str, port: int, timeout: float, context: ssl.SSLContext | None, server_name: str, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(host, port, timeout=timeout)
        self._context, self._server_name, self._monotonic = context, server_name, monotonic
        self._held: list[bytes] | None = None
        self._silence, self._end = timeout, math.inf
        self.response_class = self._response  # type: ignore[assignment]

    def allow(self, silence: float, end: float = math.inf) -> None:
        """From now on the server may send nothing for so many seconds, and must have sent everything by `end`."""
        self._silence, self._end = silence, end

    def begin(self, silence: float, end: float = math.inf) -> None:
        """`allow`, for the next request on this connection."""
        self.allow(silence, end)
        self.sock.settimeout(self._seconds())

    def _seconds(self) -> float:
        """How long the socket may block now. Raises TimeoutError."""
        left = self._end - self._monotonic()
        if left <= 0:
            raise TimeoutError("an answer still incomplete at the end of its time")
        return max(SHORTEST, min(self._silence, left))

    def _response(self, sock: Any, *rest: Any, **named: Any) -> http.client.HTTPResponse:
        return http.client.HTTPResponse(cast("socket.socket", _Answers(sock, self._seconds)), *rest, **named)

    def request_at_once(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send head and body in one piece: in two they are two TLS records, two packets and two wake-ups of the server."""
        self._held = []
        try:
            self.request(method, target, body or None, headers)
        finally:
            held, self._held = self._held, None
        self.send(b"".join(held))

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)

    def connect(self) -> None:
        super().connect()
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._server_name)


@dataclass(frozen=True)
class _Answers:
    """A socket's reading end, as far as `http.client` uses it."""

    sock: socket.socket
    seconds: Callable[[], float]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Bounded(self.sock, self.seconds))


class _Bounded(io.RawIOBase):
    """Reads of a socket that set its timeout anew: an answer that comes byte by byte ends in time too, be it in its headers."""

    def __init__(self, sock: socket.socket, seconds: Callable[[], float]) -> None:
        self._sock, self._seconds = sock, seconds
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._seconds())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _tls(access: Access) -> ssl.SSLContext:
    """Chain and host name are checked. RFC 5280's strictness is not, for the cluster's own CA: EKS's and microk8s's lack keyUsage,
    and Python 3.13 would refuse them.
    """
    try:
        context = ssl.create_default_context(cadata=access.ca or None)
    except (ssl.SSLError, ValueError) as error:
        raise Refused("KubeconfigInvalid", f"certificate authority of {access.server}: {error}") from error
    if access.ca:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not access.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if access.certificate:
        # `ssl` takes them only as a file: a private one, gone at once.
        with tempfile.NamedTemporaryFile("w", prefix="hullmark-", suffix=".pem") as file:
            file.write("\n".join(access.certificate))
            file.flush()
            try:
                context.load_cert_chain(file.name)
            except ssl.SSLError as error:
                raise Refused("KubeconfigInvalid", f"client certificate for {access.server}: {error}") from error
    return context


def _proxy_login(user: str | None, password: str | None) -> dict[str, str]:
    if not user:
        return {}
    from base64 import b64encode

    return {"Proxy-Authorization": "Basic " + b64encode(f"{unquote(user)}:{unquote(password or '')}".encode()).decode()}


def _seconds(retry_after: str) -> float:
    """Retry-After in seconds; API servers send no dates."""
    return float(retry_after) if retry_after.isdecimal() else 0.0


def _read_status(answer: bytes) -> ApiStatus:
    """The Status, or in its place whatever text the answer is (a proxy's page, another API's error)."""
    with contextlib.suppress(msgspec.DecodeError):
        status = _status.decode(answer)
        if status.message or status.reason:
            return status
    return ApiStatus(message=answer[: 2 * CUT].decode(errors="replace"))


_DENIED = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[\w/]+)"')
"""How the API server says that RBAC does not allow something; an admission plugin's refusal reads otherwise."""
ROLES: Mapping[tuple[str, str], str] = {
    ("get", "nodes"): "hullmark-reader",
    ("list", "nodes"): "hullmark-reader",
    ("watch", "nodes"): "hullmark-reader",
    ("patch", "nodes"): "hullmark-labeler",
    ("get", "pods"): "hullmark-pod-reader",
    ("list", "pods"): "hullmark-workload-reader",
    ("list", "daemonsets"): "hullmark-workload-reader",
}
"""Which ClusterRole of examples/rbac.yaml allows what."""


def role_needed(message: str) -> str:
    """What to grant where RBAC denied a request; empty for another refusal."""
    denied = _DENIED.search(message)
    if denied is None:
        return ""
    verb, resource = denied["verb"], denied["resource"]
    role = ROLES.get((verb, resource))
    which = f"ClusterRole {role} of examples/rbac.yaml" if role else "a role with it"
    return f"grant {which}; `kubectl auth can-i {verb} {resource}` says whether it is there"


_POOL = re.compile(r"HTTPS?ConnectionPool\(host='(?P<host>[^']*)', port=(?P<port>\d+)\): ")
_WRAPPED = re.compile(r"(?:Max retries exceeded with url: \S+ )?\(Caused by \w+\(['\"]?(?P<cause>.*?)['\"]?\)\)")
_OBJECT = re.compile(r"(?:<[\w.]+ object at 0x[0-9a-f]+>|[\w.]+\(host='[^']*', port=\d+\)): ")
_ERRNO = re.compile(r"\[Errno -?\d+\] ")


def plain(text: str) -> str:
    """A network library's words without its own names: where, and what went wrong."""
    text = _WRAPPED.sub(lambda match: match["cause"], _POOL.sub(lambda match: f"{match['host']}:{match['port']}: ", text))
    return _ERRNO.sub("", _OBJECT.sub("", text)).replace("Failed to establish a new connection: ", "")


def broken(error: Exception) -> str:
    """What a connection that could not be made or broke says to a person, and what to look at."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there (connection refused): is it running, and is this its address?"
    if isinstance(error, socket.gaierror):
        return "no such host: is the name right, and the network there?"
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return f"it closed the connection ({plain(str(error)) or type(error).__name__})"
    return plain(cut(str(error))) or type(error).__name__


def cut(message: str) -> str:
    """A server's message as one short line."""
    line = plain(" ".join(message.split()))
    return line if len(line) <= CUT else line[:CUT] + " …"
