"""The house as it stands: every module is on a floor of the import contracts, and the page about it is true."""

from __future__ import annotations

import re
import subprocess
import tomllib

from local.steps import ROOT


def tracked(suffix: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", "--", f"*{suffix}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name]


def test_every_python_file_is_in_a_package_that_the_import_contracts_hold() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    modules = [module for module in tracked(".py") if module != "setup.py"]
    assert modules
    assert [module for module in modules if module.split("/")[0] not in contracts["root_packages"]] == []


def test_every_room_and_file_that_the_page_on_architecture_names_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:shared|functions|local|tests|terraform|docs)/[\w/.-]+)`", page))
    assert named
    assert [place for place in sorted(named) if not (ROOT / place).exists()] == []
