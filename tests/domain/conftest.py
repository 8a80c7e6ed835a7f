from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def airship_sites() -> Path:
    """The real designs, beside the repository (or beside the repository of this worktree)."""
    root = Path(__file__).resolve().parents[2]
    for place in (root.parent / "shared", root.parent.parent / "shared"):
        if (place / "data" / "airship-sites").is_dir():
            return place / "data" / "airship-sites"
    pytest.skip("no real site designs beside the repository (../shared/data/airship-sites)")
