"""What an installation weighs and how fast it starts: the wheel, with and without its extras, and the image.

    python -m bench.install [--runs N] [--extras]

Builds the wheel of these sources, installs it into an empty environment (from the package index: needs the network), and times
`hullmark --help`, `hullmark migrate` on an empty folder and `hullmark demo`, interleaved with a Python that does nothing. Wall time is what
a person waits, CPU time what a busy machine changes least. The image is built where docker answers. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "hullmark-bench-install"


def main() -> None:
    """Build, install, time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--extras", action="store_true", help="Install the extras too, and say what they weigh.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        wheel = build(work)
        answer: dict[str, Any] = {"load": os.getloadavg(), "wheel_bytes": wheel.stat().st_size}
        python = installed(work / "plain", str(wheel))
        answer["installed_bytes"] = size(work / "plain")
        if options.extras:
            installed(work / "extras", f"{wheel}[aws,gcp]")
            answer["installed_bytes_with_extras"] = size(work / "extras")
        answer["seconds"] = timed(python, work, options.runs)
    answer["image"] = image()
    print(json.dumps(answer, indent=2))


def build(work: Path) -> Path:
    """The wheel of what git knows of these sources, so that nothing built before is in it."""
    sources = work / "sources"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        target = sources / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(work), str(sources)]
    subprocess.run(command, check=True)
    return next(work.glob("*.whl"))


def installed(environment: Path, what: str) -> Path:
    """A fresh environment with this in it, byte-compiled as pip leaves it; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check", what]
    subprocess.run(command, check=True)
    return python


def size(folder: Path) -> int:
    """Bytes of all files, links not followed."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def timed(python: Path, work: Path, runs: int) -> dict[str, dict[str, float]]:
    """Median wall and CPU seconds of each, in turn; the first round, which reads from the disk, is not counted."""
    hullmark = str(python.parent / "hullmark")
    empty = work / "empty"
    empty.mkdir()
    contestants = {
        "python -c pass": [str(python), "-c", "pass"],
        "hullmark --help": [hullmark, "--help"],
        "hullmark migrate (empty folder)": [hullmark, "migrate", str(empty)],
        "hullmark demo": [hullmark, "demo"],
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for turn in range(runs + 1):
        for name, command in contestants.items():
            if name == "hullmark demo" and turn > 2:  # half a minute of work: twice is enough for a median that nobody compares closely
                continue
            taken[name].append(once(command, work))
    medians = {name: [statistics.median(column) for column in zip(*times[1:], strict=True)] for name, times in taken.items()}
    return {name: {"wall": round(wall, 3), "cpu": round(cpu, 3)} for name, (wall, cpu) in medians.items()}


def once(command: list[str], work: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one run, in a folder of its own with nothing of ours in the environment."""
    with tempfile.TemporaryDirectory(dir=work) as here:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, cwd=here, env={"PATH": os.environ["PATH"], "HOME": here}, capture_output=True, check=True)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def image() -> dict[str, Any] | str:
    """The image's bytes and what `--help` takes in it; why not, where there is no docker."""
    if shutil.which("docker") is None:
        return "not measured: there is no docker here"
    built = subprocess.run(["docker", "build", "--quiet", "--tag", IMAGE, str(ROOT)], capture_output=True, text=True, check=False)
    if built.returncode:
        return f"not measured: {built.stderr.strip().splitlines()[-1:] or 'docker build failed'}"
    told = subprocess.run(["docker", "image", "inspect", "--format", "{{.Size}}", IMAGE], capture_output=True, text=True, check=True)
    start = time.perf_counter()
    subprocess.run(["docker", "run", "--rm", IMAGE, "--help"], capture_output=True, check=True)
    return {"bytes": int(told.stdout), "hullmark --help": round(time.perf_counter() - start, 3)}


if __name__ == "__main__":
    main()
