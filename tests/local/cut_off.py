"""`hullmark`, but at its Nth call of the store the process gets a signal: `python -m tests.local.cut_off N SIGNAL relabel --all`.

With N = 0 nothing happens, and the number of calls is the last line of stderr.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from local.cli import main
from shared.adapters.store import Store


def counted(method: Callable[..., Any], numbers: itertools.count[int], number: int, what: signal.Signals) -> Callable[..., Any]:
    """The method of a store; before call `number` the signal comes, and the call never returns."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(numbers) == number:
            os.kill(os.getpid(), what)
            if threading.current_thread() is not threading.main_thread():
                threading.Event().wait()
        return method(*args, **kwargs)

    return call


if __name__ == "__main__":
    numbers = itertools.count(1)
    for name in ("create", "get", "keys", "folders", "delete"):
        setattr(Store, name, counted(getattr(Store, name), numbers, int(sys.argv[1]), signal.Signals[sys.argv[2]]))
    try:
        main(sys.argv[3:])
    finally:
        sys.stderr.write(f"{next(numbers) - 1}\n")
