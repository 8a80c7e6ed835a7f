"""Where the real site designs are: beside the project, on machines that have them."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SITES = (
    "drydock-sample-fullsite.yaml",
    "treasuremap-v1.8-prime-stl1.yaml",
    "treasuremap-v1.9-airsloop.yaml",
    "treasuremap-v1.9-seaworthy-virt.yaml",
    "treasuremap-v1.9-seaworthy.yaml",
)


def site_file(name: str) -> Path:
    """The file of a real site. Skips the test where the designs are not beside the project."""
    for beside in (ROOT.parent, ROOT.parent.parent):
        file = beside / "shared" / "data" / "airship-sites" / name
        if file.exists():
            return file
    pytest.skip(f"the real site {name} is not beside the project (../shared/data/airship-sites)")
