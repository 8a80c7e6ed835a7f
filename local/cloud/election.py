"""One active, the others standing by: a process that shares a Lease with others like it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from shared.domain.leases import Lease, Terms, given_up, held, judge
from shared.ports import ClusterError, Stale, Unavailable

_log = logging.getLogger("hullmark.election")


class LeaseStore(Protocol):
    """Where the Lease is kept. Both raise Refused and Unavailable."""

    def read(self) -> Lease:
        """The Lease; one without a version where there is none."""
        ...

    def write(self, lease: Lease) -> Lease:
        """Raises Stale where it is no longer as it was read."""
        ...


def wall_clock() -> datetime:
    """The time that stands in the Lease, for people: nobody decides by it."""
    return datetime.now(UTC)


class Election:
    """Whether this process is active, looked at step by step."""

    def __init__(
        self,
        store: LeaseStore,
        me: str,
        terms: Terms,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = wall_clock,
    ) -> None:
        """`me`: a name that no other process has, not even this one's successor."""
        self._store, self._me, self.terms = store, me, terms
        self._monotonic, self._now = monotonic, now
        self._seen: Lease | None = None
        self._since = self._renewed = 0.0
        self.active = False

    @property
    def holder(self) -> str:
        """Who was active when it was looked at last; empty where nobody was, or nobody looked yet."""
        return self._seen.holder if self._seen else ""

    @property
    def known(self) -> bool:
        """Whether the Lease was read at all."""
        return self._seen is not None

    def step(self) -> bool:
        """Look, take or renew; whether this process is active from here on. Raises Refused."""
        asked = self._monotonic()
        try:
            self._step(asked)
        except (Unavailable, Stale) as error:
            _log.warning("the lease: %s", error)
        if self.active and self._monotonic() - self._renewed >= self.terms.renew:
            self.active = False
        return self.active

    def _step(self, asked: float) -> None:
        lease = self._store.read()
        if lease != self._seen:
            self._seen, self._since = lease, asked
        if judge(lease, self._me, asked - self._since) == "wait":
            self.active = False
            return
        self._seen, self._since = self._store.write(held(lease, self._me, self.terms, self._stamp())), asked
        self.active, self._renewed = True, asked

    def leave(self) -> None:
        """Let the next one take over at once, where this one is active."""
        try:
            lease = self._store.read()
            if lease.holder == self._me:
                self._store.write(given_up(lease, self._stamp()))
        except ClusterError as error:
            _log.warning("the lease was not given up, it runs out in %d s: %s", self.terms.good, error)

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Alone:
    """No election: this process is active."""

    terms = Terms()
    active = True
    known = True
    holder = ""

    def step(self) -> bool:
        """Active."""
        return True

    def leave(self) -> None:
        """Nobody waits."""


class Ended(Exception):
    """The work ended, or this process is no longer the active one. The text says which."""


class Post:
    """A process at its post: it stands by until it is active, then works, until it is told to end or loses its Lease."""

    def __init__(self, election: Election | Alone, work: Callable[[], None]) -> None:
        """`work` runs in a thread of its own, once, as long as the process is active; it never returns by itself."""
        self._election, self._work = election, work
        self._told = threading.Event()
        self._failed: BaseException | None = None
        self._thread: threading.Thread | None = None

    def end(self) -> None:
        """Have `keep` return; from any thread, or a signal's handler."""
        self._told.set()

    def keep(self, stepped: Callable[[bool], None] = lambda _active: None) -> None:
        """Stay until told to end. Raises Ended where the Lease is lost, and what the work raised; the process should end then, so that
        nothing of it goes on beside the next active one. `stepped` hears of each look.
        """
        try:
            while not self._told.is_set():
                active = self._election.step()
                stepped(active)
                self._judge(active)
                self._told.wait(self._election.terms.retry)
            if self._failed:
                raise self._failed
        finally:
            if self._election.active:
                self._election.leave()

    def _judge(self, active: bool) -> None:
        if active and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="active", daemon=True)
            self._thread.start()
        elif not active and self._thread:
            raise Ended(f"the lease went to {self._election.holder or 'nobody'}")

    def _run(self) -> None:
        try:
            self._work()
            self._failed = Ended("the work ended by itself")
        except BaseException as error:  # handed over to whoever keeps the post
            self._failed = error
        self._told.set()
