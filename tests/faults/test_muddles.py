"""However commits, relabels, sweeps, events, people and faults come together: a node is only ever brought to what was released to it."""

from __future__ import annotations

import pytest

from shared.ledger import releases
from tests.faults.harness import Finding
from tests.faults.muddles import Muddle
from tests.faults.tally import TALLY, thinned

SEEDS = 3000
ONE_IN = 60


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("inline", [1, 1000], ids=["in shares", "in one object"])
def test_a_node_is_only_ever_brought_to_what_was_released_to_it(inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "NAMES_INLINE", inline)
    broken = []
    seeds = thinned(range(inline == 1, SEEDS, 2), ONE_IN)
    for seed in seeds:
        found, muddle = Finding(), Muddle(seed)
        done = muddle.run(found)
        TALLY.count("muddles", str(seed), sorted({call.step for call in muddle.site.calls if call.step}))
        if found.broken:
            broken.append(f"seed {seed}: {done}: " + "; ".join(found.broken))
    assert not broken, f"{len(broken)} of {len(seeds)} muddles:\n" + "\n".join(broken[:20])
