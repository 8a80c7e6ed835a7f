"""`hullmark` in processes of their own, each of which gets a signal at its Nth call of the store; with N = 0 nothing happens.

Started once, it imports what commands import and then forks for each that it reads: a JSON object in a line of stdin, {"folder", "number",
"signal", "words"}. The command's output goes to the files `out` and `err` of the folder, its exit code to stdout. The number of calls is
the last line of `err`.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from local.cli import main
from shared.adapters.store import Store

IMPORTED = (
    *(f"local.cli.{name}" for name in ("actions", "documents", "relabel")),
    "local.cloud.embedded",
    *(f"functions.{name}.main" for name in ("relabel_request", "node_apply", "result_rollup")),
)


def counted(method: Callable[..., Any], numbers: itertools.count[int], number: int, what: signal.Signals) -> Callable[..., Any]:
    """The method of a store; before call `number` the signal comes, and the call never returns."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(numbers) == number:
            os.kill(os.getpid(), what)
            if threading.current_thread() is not threading.main_thread():
                threading.Event().wait()
        return method(*args, **kwargs)

    return call


def run(folder: str, number: int, what: str, words: list[str]) -> None:
    """One command, in the process that was made for it."""
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, file in ((1, "out"), (2, "err")):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background inherits that it is ignored
    numbers = itertools.count(1)
    for name in ("create", "get", "keys", "folders", "delete"):
        setattr(Store, name, counted(getattr(Store, name), numbers, number, signal.Signals[what]))
    try:
        main(words)
    finally:
        sys.stderr.write(f"{next(numbers) - 1}\n")


def serve() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        process = os.fork()
        if not process:
            run(asked["folder"], asked["number"], asked["signal"], asked["words"])
            return
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
