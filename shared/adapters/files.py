"""Files that the operator's settings name: kubeconfigs, what they refer to, node lists.

Only regular files of bounded size are read. A FIFO would hold the process up, a device such as /dev/zero would never end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

CHUNK = 1 << 20


class NotReadable(Exception):
    """A file that can't be used; the text says why, without the file's name."""


class NotThere(NotReadable):
    """There is no such file."""


def read_regular(file: Path, limit: int) -> bytes:
    """The bytes of a regular file, or of what a symlink leads to, at most `limit` of them.

    Raises NotThere, and NotReadable for everything else that is wrong with it.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO waits for somebody who writes to it.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise NotThere(error.strerror) from error
    except (OSError, ValueError) as error:
        raise NotReadable(getattr(error, "strerror", None) or str(error)) from error
    try:
        return _read(handle, limit)
    except OSError as error:
        raise NotReadable(error.strerror or str(error)) from error
    finally:
        os.close(handle)


def _read(handle: int, limit: int) -> bytes:
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        raise NotReadable("a folder, where a file belongs" if stat.S_ISDIR(about.st_mode) else "not a regular file")
    read, body = 0, []
    while chunk := os.read(handle, CHUNK):
        read += len(chunk)
        if read > limit:
            raise NotReadable(f"larger than {limit >> 20} MiB")
        body.append(chunk)
    return b"".join(body)
