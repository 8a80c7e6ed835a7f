"""Small parts, a quiet log, and the count of schedules at the end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from shared.domain import actions
from tests.faults.tally import EVERYTHING, TALLY


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two nodes; and no line of the log for each fault."""
    monkeypatch.setattr(actions, "PART_SIZE", 2)
    monkeypatch.setattr(logging.getLogger("hullmark.local"), "disabled", True)


@pytest.fixture(scope="session", autouse=True)
def told(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    which = "every one there is" if EVERYTHING else "a sample; `make faults` runs all"
    by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(TALLY.kinds.items()))
    by_step = ", ".join(f"{step} {count}" for step, count in sorted(TALLY.steps.items()))
    with capture.global_and_fixture_disabled():
        sys.stdout.write(f"\nfault schedules: {len(TALLY.names)} ({which})\n  by kind: {by_kind}\n  by function: {by_step}\n")
