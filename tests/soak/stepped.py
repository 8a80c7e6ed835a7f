"""The function that FUNCTION_TARGET names, behind a clock that the soak steps: it goes by the system's, plus the seconds in a file.

Loaded by functions-framework in place of the function's own main.py; everything else of it is as deployed.
"""

from __future__ import annotations

import importlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from local.steps import load
from shared import wiring

CLOCKS = "SOAK_CLOCKS"
"""The variable with the folder of these files, one for each function, so that their clocks may differ."""


def seconds(file: Path) -> float:
    """How far this clock is off; a function whose clock was never stepped has no file."""
    try:
        return float(file.read_text() or 0)
    except FileNotFoundError:
        return 0.0


def stepped_clock() -> datetime:
    """The function's time."""
    return datetime.now(UTC) + timedelta(seconds=seconds(_file))


if CLOCKS in os.environ and (_target := os.environ.get("FUNCTION_TARGET", "")):
    _file = Path(os.environ[CLOCKS]) / _target
    wiring.clock_from = lambda settings: stepped_clock
    globals()[_target] = getattr(importlib.import_module(f"functions.{load().steps[_target].folder}.main"), _target)
