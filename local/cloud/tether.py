"""Run a command that ends when the process that started it does, however that came, kill -9 included.

Whoever starts a child here passes it the reading end of a pipe whose writing end only it holds: the kernel closes that end with the
process, on every system, while PR_SET_PDEATHSIG is Linux' alone and looks at threads. Run as a file, so that it imports little.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

GRACE_SECONDS = 5.0
"""From SIGTERM to SIGKILL where nobody is left to wait for."""
HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@functools.cache
def lifeline() -> int:
    """The reading end for every child of this process; its other end stays open, here and nowhere else, as long as the process lives."""
    reading, _ = os.pipe()
    return reading


def tethered(command: Sequence[str], *descriptors: int, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command in a session of its own, with these descriptors, its output in one pipe, and its life bound to this process."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(lifeline()), *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(lifeline(), *descriptors),
        start_new_session=True,  # Ctrl-C is the parent's to pass on; a signal to the group reaches grandchildren too
    )


def to_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Signal a tethered command and all that it started."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return


def _end_with(descriptor: int) -> None:
    """Wait for the end of the pipe, which is the parent's; then end the whole group."""
    while os.read(descriptor, 1):
        continue
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


def main(descriptor: int, command: Sequence[str]) -> int:
    """Run the command; its exit code, as a shell counts signals."""
    for number in HANDED_ON:
        signal.signal(number, lambda *_: None)  # the group gets it too, and the command decides; a handler is not inherited
    os.set_inheritable(descriptor, False)
    process = subprocess.Popen(command, close_fds=False)
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
