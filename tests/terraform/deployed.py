"""The archive as Cloud Build would install it: unpacked in an empty folder, with only `requirements.txt`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from local.deploy.archive import write
from local.steps import ROOT


def unpacked(folder: Path) -> Path:
    """The archive's content, which stands where `/workspace` is in the cloud."""
    workspace = folder / "workspace"
    with zipfile.ZipFile(write(folder)) as archive:
        archive.extractall(workspace)
    return workspace


def installed() -> Path:
    """The `bin` of a virtual environment with exactly the locked requirements, kept by their hash: making it takes minutes."""
    requirements = ROOT / "requirements.txt"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = hashlib.sha256(version.encode() + requirements.read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hullmark"
    done = cache / f"deployed-{key}"
    if not (done / "ready").exists():  # made where it stays, for the paths in its scripts are absolute: the marker says that it is whole
        shutil.rmtree(done, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", done], check=True)
        pip = [str(done / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(requirements)], check=True, timeout=900)
        (done / "ready").touch()
    return done / "bin"
