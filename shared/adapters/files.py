"""Files that the operator's settings and the command line name: kubeconfigs, what they refer to, node lists, documents, manifests.

Only regular files of bounded size are read. A FIFO would hold the process up, a device such as /dev/zero would never end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

CHUNK = 1 << 20
OPENING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""Without O_NONBLOCK, opening a FIFO waits for somebody who writes to it."""


HELD_OPEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Names of what whoever started this process holds open for it: a shell's `<(command)` is a pipe under one of them."""


class NotReadable(Exception):
    """A file that can't be used; the text says why, without the file's name."""


class NotThere(NotReadable):
    """There is no such file."""


def read_regular(file: Path, limit: int) -> bytes:
    """The bytes of a regular file, or of what a symlink leads to, at most `limit` of them.

    Raises NotThere, and NotReadable for everything else that is wrong with it.
    """
    with opened(file) as handle:
        return read_all(handle, limit)


def read_named(name: str, limit: int) -> bytes:
    """The same for a name on the command line, which may also be a pipe that the shell holds open."""
    with opened_named(name) as handle:
        return read_all(handle, limit)


def opened_named(name: str) -> AbstractContextManager[int]:
    """The descriptor of a file that the command line names: a regular one, or what HELD_OPEN names."""
    if name.startswith(HELD_OPEN):
        return opened(Path(name), os.O_RDONLY | os.O_CLOEXEC, any_kind=True)
    return opened(Path(name))


@contextmanager
def opened(file: Path, flags: int = OPENING, *, any_kind: bool = False) -> Iterator[int]:
    """A file's descriptor while the block runs. Raises NotThere and NotReadable, also for what goes wrong inside."""
    try:
        handle = os.open(file, flags)
    except FileNotFoundError as error:
        raise NotThere(error.strerror) from error
    except (OSError, ValueError) as error:
        raise NotReadable(getattr(error, "strerror", None) or str(error)) from error
    try:
        if not any_kind:
            _must_be_regular(os.fstat(handle).st_mode)
        yield handle
    except OSError as error:
        raise NotReadable(error.strerror or str(error)) from error
    finally:
        os.close(handle)


def _must_be_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotReadable("a folder, where a file belongs" if stat.S_ISDIR(mode) else "not a regular file")


def read_all(handle: int, limit: int) -> bytes:
    """What an open file holds, whatever size it says it has. Raises NotReadable and OSError."""
    read, body = 0, []
    while chunk := os.read(handle, CHUNK):
        read += len(chunk)
        if read > limit:
            raise too_large(limit)
        body.append(chunk)
    return b"".join(body)


def too_large(limit: int) -> NotReadable:
    """A file has more than `limit` bytes."""
    return NotReadable(f"larger than {limit >> 20} MiB")
