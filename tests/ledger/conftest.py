from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared import telemetry, wiring
from tests.stories.fleet import Fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    telemetry.write_to(None)
    yield Fleet()
    wiring.install(None)
