"""Three years of a fleet in simulated time.

Seconds by default: 25 clusters, every second day. The whole, 500 clusters day by day: `make years`.
"""

from __future__ import annotations

import logging
import os

import pytest

from shared.domain.versions.semver import parse
from tests.waves.years import Years

CLUSTERS = int(os.environ.get("WAVES_CLUSTERS", "25"))
EVERY = int(os.environ.get("WAVES_EVERY", "2"))
SEEDS = [int(seed) for seed in os.environ.get("WAVES_SEEDS", "1").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_cluster_skips_a_minor_moves_in_a_freeze_or_before_its_stage_or_stays_expired_without_a_reason(seed: int) -> None:
    years = Years(seed, CLUSTERS, every=EVERY)
    years.run()
    assert years.moved["in its stage"] > CLUSTERS
    assert {"Soaking", "WaitingForStage", "AwaitingApproval"} <= years.held.keys()
    behind = [name for name, truth in years.truth.items() if parse(truth.version()).minor < 34]
    assert not behind, f"left behind for years: {behind}"
    moves, held = years.moved.most_common(), years.held.most_common()
    logging.getLogger(__name__).info("seed %d, %d clusters: updates %s; looks at which something was held %s", seed, CLUSTERS, moves, held)
