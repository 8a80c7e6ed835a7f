"""The source archive that every function is built from: the same sources give the same bytes, on any machine.

`requirements.txt` (locked, with hashes) at the root, `functions/` and `shared/`; no tests, no `local/`, no `terraform/`: the buildpack
compiles every Python file it is given, and one syntax error anywhere fails every function.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

from local.steps import ROOT

FOLDERS = ("functions", "shared")
REQUIREMENTS = "requirements.txt"
SUFFIXES = frozenset({".py", ".yaml", ".json", ".html", ".css", ".js", ".svg", ".typed"})
"""What a function may need at run time. Another kind of file beside the code is a mistake that is named, not shipped."""
EPOCH = (1980, 1, 1, 0, 0, 0)


class NotArchived(Exception):
    """The sources can't be deployed as they are; the message names the file."""


def sources(root: Path = ROOT) -> dict[str, bytes]:
    """Path in the archive → bytes. Raises NotArchived for a Python file that does not compile and for a file of an unexpected kind."""
    files = {REQUIREMENTS: _requirements(root)}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if not path.is_file() or any(part.startswith((".", "__pycache__")) for part in path.relative_to(root).parts):
                continue
            if path.suffix not in SUFFIXES or path.is_symlink():
                raise NotArchived(
                    f"{name}: only {', '.join(sorted(SUFFIXES))} are deployed, and no links: move it, or add its kind to {__name__}"
                )
            files[name] = path.read_bytes()
            if path.suffix == ".py":
                _must_compile(name, files[name])
    return dict(sorted(files.items()))


def _requirements(root: Path) -> bytes:
    path = root / REQUIREMENTS
    if not path.is_file():
        raise NotArchived(f"{REQUIREMENTS}: not there; `make lock` makes it")
    text = path.read_bytes()
    if b"--hash=" not in text:
        raise NotArchived(f"{REQUIREMENTS}: has no hashes: what is installed would not be what was tested; `make lock` makes it anew")
    return text


def _must_compile(name: str, text: bytes) -> None:
    try:
        compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise NotArchived(f"{name}{f':{line}' if line else ''}: {error}; not one function would build") from error


def packed(files: dict[str, bytes]) -> bytes:
    """The zip. Stored, not deflated: two releases of zlib do not agree on bytes, and this is small."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, body in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # as if written on Unix, wherever it is
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, body)
    return out.getvalue()


def write(folder: Path = ROOT / "dist", root: Path = ROOT) -> Path:
    """Write `hullmark-<hash>.zip` into `folder`, in place of older ones; its path. Raises NotArchived."""
    body = packed(sources(root))
    path = folder / f"hullmark-{hashlib.sha256(body).hexdigest()[:16]}.zip"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("hullmark-*.zip"):
        if old != path:
            old.unlink()
    path.write_bytes(body)
    return path
