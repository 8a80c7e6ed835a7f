"""One functions-framework process per function of `functions/steps.yaml`, as Cloud Run has one container each.

Each runs behind the guard (local/cloud/hosted.py) on a socket bound here, and ends when this process does. A process that dies is
started again, later each time it dies young.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from local.cloud.guard import HOST, READ_SECONDS
from local.cloud.hosted import PERSON, SECRET
from local.cloud.tether import tethered, to_group
from local.steps import ROOT, FunctionStep

READY_SECONDS = 60.0
"""For one process to answer; eight of them start together on two cores."""
STOP_SECONDS = 12.0
"""From SIGTERM to SIGKILL: gunicorn lets requests end, Cloud Run gives it ten seconds."""
YOUNG_SECONDS = 5.0
"""A process that dies before this age is started again with a growing pause."""


class PortTaken(Exception):
    """Somebody else listens there."""

    def __init__(self, port: int, error: OSError) -> None:
        why = f"can't serve on {HOST}:{port}: {error.strerror}"
        super().__init__(f"{why}; stop what listens there (an earlier `hullmark serve`?), or choose another port with --port N")


class NotReady(Exception):
    """A function's process did not come up; its last lines are in the message."""


@dataclass
class FunctionProcess:
    """One function's process, and its successors on the same port."""

    step: FunctionStep
    environment: Mapping[str, str]
    say: Callable[[str], None]
    port: int = 0
    person: str = ""
    secret: str = ""
    restarts: int = 0
    _process: subprocess.Popen[str] | None = None
    _ending: threading.Event = field(default_factory=threading.Event)
    _last: list[str] = field(default_factory=list)
    _keeper: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._listener = listener(self.port)
        self.port = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The leader of its process group; 0 while there is none."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    def start(self) -> None:
        """Start it, and a thread that starts it again whenever it dies."""
        self._keeper = threading.Thread(target=self._keep, name=f"keep-{self.step.name}", daemon=True)
        self._keeper.start()

    def _keep(self) -> None:
        pause = 0.2
        while not self._ending.is_set():
            began = time.monotonic()
            code = self._run()
            if self._ending.is_set():
                return
            pause = 0.2 if time.monotonic() - began > YOUNG_SECONDS else min(pause * 2, 10.0)
            self.restarts += 1
            self.say(f"{self.step.name}: process ended with code {code}; started again in {pause:.1f} s")
            self._ending.wait(pause)

    def _run(self) -> int:
        listener = str(self._listener.fileno())
        command = [sys.executable, "-P", "-m", "local.cloud.hosted", listener, str(self.step.source), self.step.name]
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "WORKERS": "1",
            "THREADS": str(self.step.concurrency),
            "HULLMARK_TIMEOUT_SECONDS": str(self.step.timeout),
            "FUNCTION_TARGET": self.step.name,
            "K_SERVICE": f"hullmark-{self.step.name.replace('_', '-')}",
            PERSON if self.step.http else SECRET: self.person if self.step.http else self.secret,
        }
        self._process = process = tethered(command, self._listener.fileno(), environment=environment)
        if self._ending.is_set():
            self._signal(signal.SIGTERM)
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        with process.stdout as lines:
            for line in lines:
                self._last = [*self._last[-19:], line.rstrip()]
                self.say(f"{self.step.name}: {line.rstrip()}")
        return process.wait()

    def answers(self) -> bool:
        """Whether HTTP comes back, whatever the status."""
        try:
            with urllib.request.urlopen(f"{self.url}/robots.txt", timeout=2):  # noqa: S310 - our own loopback
                return True
        except urllib.error.HTTPError:
            return True
        except (urllib.error.URLError, OSError):
            return False

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Return when it answers. Raises NotReady."""
        deadline = time.monotonic() + seconds
        while not self.answers():
            if time.monotonic() > deadline or self.restarts > 3:
                raise NotReady(f"{self.step.name} does not answer on {self.url}:\n" + "\n".join(self._last))
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL to the whole group, as a machine that dies; it is started again."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end; it is not started again."""
        self._ending.set()
        self._signal(signal.SIGTERM)

    def join(self) -> None:
        """Wait for its end after `terminate`, insist after STOP_SECONDS, and give the port back."""
        if self._keeper is not None:
            self._keeper.join(STOP_SECONDS)
            if self._keeper.is_alive():
                self._signal(signal.SIGKILL)
                self._keeper.join()
        self._listener.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process:
            to_group(self._process, number)


class Processes:
    """The processes of several functions, by step name."""

    def __init__(
        self,
        steps: list[FunctionStep],
        environment: Mapping[str, str],
        say: Callable[[str], None],
        ports: Mapping[str, int] | None = None,
        *,
        person: str = "",
        secret: str = "",
    ) -> None:
        self.by_step: dict[str, FunctionProcess] = {}
        try:
            for step in steps:
                port = (ports or {}).get(step.name, 0)
                self.by_step[step.name] = FunctionProcess(step, environment, say, port, person, secret)
        except PortTaken:
            self.stop()
            raise

    def start(self) -> None:
        """Start all, and return when all answer. Raises NotReady, with nothing left running."""
        for process in self.by_step.values():
            process.start()
        try:
            for process in self.by_step.values():
                process.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all of them at once, and wait."""
        for process in self.by_step.values():
            process.terminate()
        for process in self.by_step.values():
            process.join()


def listener(port: int) -> socket.socket:
    """A listening socket of the loopback, of this process before there is a child: what answers there is its own. Raises PortTaken.

    A client that goes quiet in the middle of a request is let go after READ_SECONDS: sockets accepted here inherit the option.
    """
    try:
        bound = socket.create_server((HOST, port), backlog=256)
    except OSError as error:
        raise PortTaken(port, error) from error
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", READ_SECONDS, 0))
    return bound
