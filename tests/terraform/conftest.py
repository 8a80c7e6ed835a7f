from __future__ import annotations

from pathlib import Path

import pytest

from tests.terraform.running import Planned, Terraform, copied, usual


@pytest.fixture(scope="session")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    """Terraform with the stub for its provider."""
    return Terraform(tmp_path_factory.mktemp("terraform"))


@pytest.fixture(scope="session")
def deployment(terraform: Terraform, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """What the example root would make with everything switched on."""
    root: Path = copied(tmp_path_factory.mktemp("deployment"))
    return terraform.plan(root, usual(root))
