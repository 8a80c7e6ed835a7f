from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared import telemetry, wiring
from tests.rollouts.rolling import Rolling


@pytest.fixture
def fleet() -> Iterator[Rolling]:
    telemetry.write_to(None)
    yield Rolling()
    wiring.install(None)
