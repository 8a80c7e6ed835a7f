"""Manifest files on disk: found in trees, read cheaply, replaced whole or not at all."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from shared.adapters.files import OPENING, opened_named, read_all
from shared.domain.manifests.findings import Bytes

SUFFIXES = (".yaml", ".yml", ".json", ".tpl", ".gotmpl", ".tmpl", ".j2")
"""What counts as a manifest or a template of one. Other files of a tree are passed by; one named outright is read and only reported."""

_SKIPPED = frozenset({".git", ".hg", ".svn"})
_BINARY_LOOK = 8192
_MAPPED_FROM = 1 << 20
_LARGEST = 256 << 20
"""The most that is taken from what says no size of its own: a pipe, or a file that grows."""


class ChangedMeanwhile(Exception):
    """The file is no longer what was read: nothing was written."""


def is_manifest(name: str) -> bool:
    """Whether a file's name says that it is a manifest, a values file or a template of one."""
    lower = name.lower()
    return lower.endswith(SUFFIXES) or ".yaml." in lower or ".yml." in lower


def walk(path: str, excluded: Callable[[str], bool] = lambda _: False) -> Iterator[str]:
    """Yield a file, or the manifests below a folder in sorted order. Links inside a tree are not followed (as `grep -r`); a file or folder
    of it whose path is `excluded` is passed by.

    Raises OSError for what is not there or can't be listed.
    """
    if not stat.S_ISDIR(os.stat(path).st_mode):
        yield path
        return
    with os.scandir(path) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIPPED and not excluded(entry.path):
                yield from walk(entry.path, excluded)
        elif is_manifest(entry.name) and entry.is_file(follow_symlinks=False) and not excluded(entry.path):
            yield entry.path


def read_if(path: str, wanted: Callable[[Bytes], bool]) -> bytes | None:
    """A text file's bytes if `wanted` says so; None for the others and for binary files. Large files are looked through where they lie
    and come into memory only if wanted. Raises NotReadable.
    """
    small = _small(path)
    if small is not None:
        return small if wanted(small) and not _binary(small) else None
    with opened_named(path) as handle:
        if os.fstat(handle).st_size < _MAPPED_FROM:
            data = read_all(handle, _LARGEST)
            return data if wanted(data) and not _binary(data) else None
        with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as mapped:
            return mapped[:] if wanted(mapped) and not _binary(mapped[:_BINARY_LOOK]) else None


def _small(path: str) -> bytes | None:
    """A small regular file's bytes, in as few calls as there can be: a tree has tens of thousands. None for what is read with care."""
    try:
        handle = os.open(path, OPENING)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size >= _MAPPED_FROM:
            return None
        data = os.read(handle, status.st_size + 1)
        return data if len(data) == status.st_size else None
    except OSError:
        return None
    finally:
        os.close(handle)


def _binary(head: bytes) -> bool:
    return b"\0" in head[:_BINARY_LOOK] and not head.startswith((b"\xff\xfe", b"\xfe\xff"))


def replace(path: str, before: bytes, after: bytes) -> None:
    """Put new bytes in a file's place in one step: a reader sees the old file or the new one. Mode and owner stay; a symbolic link
    stays a link and its target changes. Raises ChangedMeanwhile and OSError; the file is then as it was.
    """
    import tempfile

    real = os.path.realpath(path)
    if not os.access(real, os.W_OK):
        raise PermissionError(13, "the file is read-only", path)
    was = os.stat(real)
    handle, temporary = tempfile.mkstemp(prefix=".hullmark-", dir=os.path.dirname(real))
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(PermissionError):
                os.fchown(handle, was.st_uid, was.st_gid)
            os.fchmod(handle, stat.S_IMODE(was.st_mode))
            file.write(after)
            file.flush()
            os.fsync(handle)
        with open(real, "rb") as file:
            if file.read() != before:
                raise ChangedMeanwhile(f"{path}: changed while it was being migrated: left alone; run again")
        os.replace(temporary, real)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
