"""What the processes of the soak use, and which of them are left: read from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

EVERY_SECONDS = 5.0
SETTLED_SECONDS = 20.0
"""A process this old has imported what it needs, and handled its first messages."""
LONG_SECONDS = 90.0
"""A process that was killed younger than this says nothing about growth."""
GROWTH = 1.3
ALLOWANCE = 24 << 20
"""A process has grown when its last size is more than GROWTH times its settled one, and ALLOWANCE bytes."""
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Life:
    """One process group from its first sample to its last: (seconds, bytes)."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    @property
    def settled(self) -> list[int]:
        """Its sizes since it was SETTLED_SECONDS old; the last one where it did not get so old."""
        began = self.samples[0][0]
        return [size for at, size in self.samples if at - began >= SETTLED_SECONDS] or [self.samples[-1][1]]

    @property
    def seconds(self) -> float:
        return self.samples[-1][0] - self.samples[0][0]

    @property
    def grew(self) -> bool:
        """Whether a process that lived long enough to tell ended larger than it settled."""
        first, last = self.settled[0], self.settled[-1]
        return self.seconds >= LONG_SECONDS and last > first * GROWTH + ALLOWANCE


class Sizes(threading.Thread):
    """Samples the process groups that `groups` names, every few seconds until told to end."""

    def __init__(self, groups: Callable[[], Mapping[str, int]]) -> None:
        super().__init__(name="sizes", daemon=True)
        self.lives: dict[str, dict[int, Life]] = defaultdict(dict)
        self._groups = groups
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            self.sample()

    def sample(self) -> None:
        """Look once."""
        sizes, now = resident(), time.monotonic()
        for name, group in self._groups().items():
            if group and group in sizes:
                self.lives[name].setdefault(group, Life()).samples.append((now, sizes[group]))

    def end(self) -> None:
        self._ended.set()
        self.join()
        self.sample()

    def problems(self, names: Iterable[str]) -> Iterator[str]:
        """Which of these grew."""
        for name in names:
            for life in self.lives[name].values():
                if life.grew:
                    yield f"{name} grew from {mib(life.settled[0])} to {mib(life.settled[-1])} MiB in {life.seconds:.0f} s"

    def lines(self) -> Iterator[str]:
        """For each function: its first settled size, its last, the most, and how many processes it had."""
        for name, lives in sorted(self.lives.items()):
            each = list(lives.values())
            most = max(size for life in each for _, size in life.samples)
            oldest = max(life.seconds for life in each)
            first, last = each[0].settled[0], each[-1].settled[-1]
            yield (
                f"{name:16} first {mib(first):4}  last {mib(last):4}  most {mib(most):4} MiB   "
                f"{len(each):3} processes, the oldest {oldest:.0f} s"
            )


def mib(size: int) -> int:
    return round(size / (1 << 20))


def resident() -> dict[int, int]:
    """Resident bytes by process group."""
    found: dict[int, int] = defaultdict(int)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(fields[2])] += int(fields[21]) * PAGE
    return found


def running_with(mark: str) -> list[str]:
    """The command lines of other processes that have this text in their environment, as all that a cloud starts inherits its store."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environ.read_bytes() and int(environ.parent.name) != os.getpid():
                found.append(f"{environ.parent.name} {(environ.parent / 'cmdline').read_text().replace(chr(0), ' ')[:200]}")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
