"""One functions-framework process per function of `functions/steps.yaml`, as Cloud Run has one container each.

Started through the console script, which is what the buildpack runs: `python -m` would put the wrong folder on the import path and
hide a fault. A process that dies is started again, later each time it dies young.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.cloud.emulator import free_port
from local.steps import ROOT, Step

READY_SECONDS = 60.0
"""For one process to answer; eight of them start together on two cores."""
STOP_SECONDS = 12.0
"""From SIGTERM to SIGKILL: gunicorn lets requests end, Cloud Run gives it ten seconds."""
YOUNG_SECONDS = 5.0
"""A process that dies before this age is started again with a growing pause."""


class NotReady(Exception):
    """A function's process did not come up; its last lines are in the message."""


@dataclass
class FunctionProcess:
    """One function's process, and its successors on the same port."""

    step: Step
    environment: Mapping[str, str]
    say: Callable[[str], None]
    port: int = field(default_factory=free_port)
    restarts: int = 0
    _process: subprocess.Popen[str] | None = None
    _ending: threading.Event = field(default_factory=threading.Event)
    _last: list[str] = field(default_factory=list)
    _keeper: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The leader of its process group (gunicorn's master); 0 while there is none."""
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
        command = [
            console_script(),
            "--source",
            str(self.step.source),
            "--target",
            self.step.name,
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "WORKERS": "1",
            "THREADS": str(self.step.concurrency),
            "FUNCTION_TARGET": self.step.name,
            "K_SERVICE": f"hullmark-{self.step.name.replace('_', '-')}",
        }
        self._process = process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # its own group: Ctrl-C reaches it through `stop`, a kill reaches its workers too
        )
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
        """Wait for its end after `terminate`, and insist after STOP_SECONDS."""
        if self._keeper is None:
            return
        self._keeper.join(STOP_SECONDS)
        if self._keeper.is_alive():
            self._signal(signal.SIGKILL)
            self._keeper.join()

    def _signal(self, number: signal.Signals) -> None:
        if self.pid:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return


class Processes:
    """The processes of several functions, by step name."""

    def __init__(
        self, steps: list[Step], environment: Mapping[str, str], say: Callable[[str], None], world: Mapping[str, int] | None = None
    ) -> None:
        fixed = world or {}
        self.by_step = {step.name: FunctionProcess(step, environment, say, fixed.get(step.name) or free_port()) for step in steps}

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


def console_script() -> str:
    """functions-framework's console script of this Python, else of the PATH. Raises NotReady."""
    beside = Path(sys.executable).parent / "functions-framework"
    found = str(beside) if beside.exists() else shutil.which("functions-framework")
    if not found:
        raise NotReady("no `functions-framework` beside this Python or on the PATH: install requirements.txt")
    return found
