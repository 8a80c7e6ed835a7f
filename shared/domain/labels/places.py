"""Where a node stands in a rollout: a stage, and within it a place by a hash of its name. Pure.

The hash is stable, so that a larger percentage contains a smaller one, and so that "how far" is one number however many nodes there are.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

HASH_BYTES = 6
LAST = 1 << (8 * HASH_BYTES)
"""Beyond the last place."""
StageOf = Callable[[str, str], int]
"""(rollout, node) → the number of the node's stage, from 0."""


def place_of(node: str) -> int:
    """A node's place among those of its stage: the same in every process and version."""
    return int.from_bytes(blake2b(node.encode(), digest_size=HASH_BYTES).digest(), "big")


def nowhere(rollout: str, node: str) -> int:
    """For states that no rollout moves."""
    raise LookupError(f"where is {node} in rollout {rollout}?")
