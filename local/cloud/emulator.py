"""The Pub/Sub emulator of the Google Cloud SDK as a child process: found, started fast, ended cleanly.

Started with `java -jar` and an AppCDS archive that its first run leaves in the cache: ready in under a second instead of two to six.
All of its state is in memory.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.cloud.tether import tethered, to_group

PLACES = (
    "/usr/lib/google-cloud-sdk",
    "/opt/google-cloud-sdk",
    "/usr/share/google-cloud-sdk",
    "/snap/google-cloud-sdk/current",
    "~/google-cloud-sdk",
)
READY_SECONDS = 30.0


class EmulatorMissing(Exception):
    """No emulator or no Java here; the message says how to get it."""


PORTS_TRIED = 5
"""Free ports that are tried where none was named."""


def find_jar() -> Path:
    """`PUBSUB_EMULATOR_JAR`, else the newest jar in the Google Cloud SDK. Raises EmulatorMissing."""
    named = os.environ.get("PUBSUB_EMULATOR_JAR")
    if named:
        if Path(named).is_file():
            return Path(named)
        raise EmulatorMissing(f"PUBSUB_EMULATOR_JAR={named}: no such file")
    gcloud = shutil.which("gcloud")
    roots = [Path(gcloud).resolve().parent.parent] if gcloud else []
    roots += [Path(place).expanduser() for place in PLACES]
    for root in roots:
        jars = sorted((root / "platform" / "pubsub-emulator" / "lib").glob("cloud-pubsub-emulator-*-all.jar"))
        if jars:
            return jars[-1]
    how = "`gcloud components install pubsub-emulator`, or install the package google-cloud-cli-pubsub-emulator"
    raise EmulatorMissing(f"no Pub/Sub emulator found: {how}, or name its jar in PUBSUB_EMULATOR_JAR")


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cache_folder() -> Path:
    """Where archives and binaries are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "hullmark"


class Emulator:
    """One running emulator. `host` is what PUBSUB_EMULATOR_HOST must say."""

    def __init__(self, port: int = 0) -> None:
        jar = find_jar()
        java = shutil.which("java")
        if java is None:
            raise EmulatorMissing("the Pub/Sub emulator needs Java 11 or later: no `java` on the PATH")
        archive = cache_folder() / f"{jar.stem}.jsa"
        archive.parent.mkdir(parents=True, exist_ok=True)
        self._new_archive = None if archive.exists() else archive.with_suffix(f".{os.getpid()}.new")
        self._archive = archive
        share = f"-XX:ArchiveClassesAtExit={self._new_archive}" if self._new_archive else f"-XX:SharedArchiveFile={archive}"
        flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", share]
        self._command = [java, *flags, "-jar", str(jar), "--host=127.0.0.1"]
        for attempt in range(PORTS_TRIED):
            try:
                self._start(port or free_port())
                return
            except EmulatorMissing as missing:
                taken = "Address already in use" in str(missing)  # a free port is anybody's until it is listened on
                if port or not taken or attempt + 1 == PORTS_TRIED:
                    raise

    def _start(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self._process = tethered([*self._command, f"--port={port}"])
        self._listens = threading.Event()
        self._last: list[str] = []
        threading.Thread(target=self._follow, args=(str(port),), name="emulator", daemon=True).start()
        self._wait()

    def _follow(self, port: str) -> None:
        """Read what it says until its end, or its pipe fills. Only its own word counts as ready: on that port may answer a stranger."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        with self._process.stdout as lines:
            for line in lines:
                self._last = [*self._last[-4:], line.rstrip()] if not line.startswith("\tat ") else self._last
                if line.rstrip().endswith(f"listening on {port}"):
                    self._listens.set()
                if line.startswith('Exception in thread "main"'):  # a port that is taken, say; its other threads would live on
                    to_group(self._process, signal.SIGTERM)

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self._listens.wait(0.05):
            if not self.running():
                said = "\n".join(self._last)
                raise EmulatorMissing(f"the Pub/Sub emulator ended at once with code {self._process.returncode} on {self.host}:\n{said}")
            if time.monotonic() > deadline:
                self.stop()
                raise EmulatorMissing(f"the Pub/Sub emulator did not listen on {self.host} within {READY_SECONDS:.0f} s")

    @property
    def pid(self) -> int:
        """The leader of its process group."""
        return self._process.pid

    def running(self) -> bool:
        """Whether it is still there."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it; the archive of a first run is kept only when it was written whole."""
        if self.running():
            to_group(self._process, signal.SIGTERM)
            try:
                self._process.wait(15 if self._new_archive else 5)
            except subprocess.TimeoutExpired:
                to_group(self._process, signal.SIGKILL)
                self._process.wait()
        if self._new_archive and self._new_archive.exists():
            if self._process.returncode in (0, 143):
                self._new_archive.replace(self._archive)
            else:
                self._new_archive.unlink()
        self._new_archive = None


@contextmanager
def emulator(port: int = 0) -> Iterator[Emulator]:
    """An emulator for the length of a `with`."""
    running = Emulator(port)
    try:
        yield running
    finally:
        running.stop()
