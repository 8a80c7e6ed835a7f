"""Plant each bug of the list in a copy of the tree, and see that its tests fail: `make mutants`.

`python -m tests.mutants WORD` takes those with WORD in their name or file.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import NoReturn

import pytest

from tests.mutants.planted import ROOT, Planted, planted

WORKERS = 2
SECONDS = 120
"""Longer than the tests of one bug take by far, on a busy machine too: a run that is not over by then hangs, which is a failure as well."""
FAILED = int(pytest.ExitCode.TESTS_FAILED)
"""Tests that ran and failed. Those that can't even be collected end with another code, and catch nothing."""
CAUGHT, SURVIVED, ROTTEN = "caught", "SURVIVED", "ROTTEN"
OPTIONS = ("-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-m", "not real")
KNOWN_ALREADY = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""hypothesis is there before pytest could rewrite it, which would be an error like all warnings."""
PRELOADED = (
    "hypothesis",
    "pydantic.main",
    "flask",
    "werkzeug.test",
    "functions_framework",
    "cryptography.x509",
    "obstore",
    "anyio",
    "yaml",
)
"""What others wrote is imported once for all runs; a run imports only this repository, as it is with its bug."""
OURS = ("functions", "local", "shared", "tests")


def main(words: Sequence[str]) -> int:
    """Run the list; 1 where a bug survived or could not be planted."""
    bugs = [bug for bug in planted() if all(word in f"{bug.name} {bug.file}" for word in words)]
    began = time.monotonic()
    caught = sum(_told(bug, verdict, why) for bug, verdict, why in verdicts(bugs))
    sys.stdout.write(f"{caught} of {len(bugs)} caught in {time.monotonic() - began:.0f} s\n")
    return 0 if bugs and caught == len(bugs) else 1


def _told(bug: Planted, verdict: str, why: str) -> bool:
    sys.stdout.write(f"{verdict:8}  {bug.name}{f' ({bug.file}): {why}' if why else ''}\n")
    sys.stdout.flush()
    return verdict == CAUGHT


def verdicts(bugs: Sequence[Planted]) -> Iterator[tuple[Planted, str, str]]:
    """Each bug with its verdict and what there is to say of it, as the workers come to it."""
    forked = multiprocessing.get_context("fork")
    answers: SimpleQueue[tuple[int, str, str]] = forked.SimpleQueue()
    shares = [dict(list(enumerate(bugs))[first::WORKERS]) for first in range(WORKERS)]
    workers = [forked.Process(target=work, args=(share, answers)) for share in shares if share]
    for worker in workers:
        worker.start()
    for _ in bugs:
        number, verdict, why = answers.get()
        yield bugs[number], verdict, why
    for worker in workers:
        worker.join()


def work(share: Mapping[int, Planted], answers: SimpleQueue[tuple[int, str, str]]) -> None:
    """See that the tests of these bugs pass, then plant one after the other."""
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="hullmark-mutants-") as folder:
        tree = copy_of_the_tree(Path(folder))
        code, output = run(sorted({test for bug in share.values() for test in bug.tests}), tree, seconds=SECONDS * len(share))
        for number, bug in share.items():
            verdict = (ROTTEN, f"without any bug its worker's tests end with {code}:\n{output}") if code else verdict_on(bug, tree)
            answers.put((number, *verdict))


def copy_of_the_tree(folder: Path) -> Path:
    """The files that git knows, and those it does not ignore, as they are now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def verdict_on(bug: Planted, tree: Path) -> tuple[str, str]:
    """Plant the bug, run its tests, take it out again."""
    if problem := bug.problem(tree):
        return ROTTEN, problem
    path = tree / bug.file
    before, written = path.read_bytes(), path.stat().st_mtime_ns
    path.write_text(bug.changed(tree))
    try:
        code, output = run(bug.tests, tree, seconds=SECONDS, planted=True)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(written, written))
    if code in (FAILED, -signal.SIGALRM):
        return CAUGHT, "" if code == FAILED else "its tests never end"
    return (SURVIVED, "") if code == 0 else (ROTTEN, f"its tests end with {code}:\n{output}")


def run(tests: Sequence[str], tree: Path, *, seconds: int, planted: bool = False) -> tuple[int, str]:
    """Run tests in a process of their own, forked from this one; its exit code and its last words."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            _become_pytest(tests, tree, output.fileno(), seconds, planted)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read().decode(errors="replace")[-2000:]


def _become_pytest(tests: Sequence[str], tree: Path, output: int, seconds: int, planted: bool) -> NoReturn:
    code = 99
    try:
        signal.alarm(2 * seconds)  # for what pytest's own limit can't end
        os.dup2(output, 1)
        os.dup2(output, 2)
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        os.chdir(tree)
        sys.path.insert(0, str(tree))
        os.environ["PYTHONPATH"] = str(tree)  # for the programs that tests start
        sys.dont_write_bytecode = planted
        code = int(pytest.main([*OPTIONS, *KNOWN_ALREADY, f"--timeout={seconds}", *tests]))
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
