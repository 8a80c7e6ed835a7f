from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shared import telemetry, wiring
from tests.stories.fleet import Fleet
from tests.stories.sites import Site, a_copy


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    telemetry.write_to(None)
    yield Fleet()
    wiring.install(None)


@pytest.fixture
def a_site() -> Iterator[Callable[[int], Site]]:
    """A site of so many nodes, with its first revision at every one of them."""
    yield a_copy
    wiring.install(None)
