"""A cluster's version as text, to be compared. Imports nothing: `hullmark migrate` starts with it."""

from __future__ import annotations

import re

ClusterVersion = tuple[int, int, int]
"""Major, minor, patch. Suffixes (`-gke.5`, `-eks-1a2b`, `-beta.1`, `+k3s1`) say nothing about a pair."""

NEWEST: ClusterVersion = (1 << 31, 0, 0)
"""Stands for a cluster that does not tell its version: the rules of today."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)\+?(?:\.(\d+))?(?=[-+.]|\Z)")


def cluster_version(text: str) -> ClusterVersion:
    """Read `v1.17.3-gke.5`, `1.18`, `1.17+`. What says no version (empty, unknown) counts as the newest."""
    match = _VERSION.match(text.strip())
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else NEWEST
