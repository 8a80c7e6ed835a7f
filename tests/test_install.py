"""The wheel: what it puts into other people's site-packages, what it needs, and that it works from an empty folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from local.steps import ROOT

BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class WithoutExtras(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        extras = ("boto3", "botocore", "google.auth", "google.api_core", "google.pubsub", "google.cloud.pubsub", "google.cloud.container")
        if name.startswith(extras):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, WithoutExtras())
sys.path.insert(0, sys.argv.pop(1))
import hullmark
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of these sources."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            (sources / name).write_bytes((ROOT / name).read_bytes())
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(sources)], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder as site-packages would be."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site-packages")
    return wheel.parent / "site-packages"


def run(installed: Path, folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the wheel in front of everything, without the extras' libraries, from an empty folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HULLMARK_", "PYTHONPATH", "COVERAGE"))}
    command = [sys.executable, "-c", BLOCKED + program, str(installed), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_site_packages_gain_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"hullmark"}
    shipped = {name.removeprefix("hullmark/") for name in names}
    beside = {"bench", "docs", "kube", "terraform", "tests"}
    assert not {name.split("/")[0] for name in shipped} & beside
    house = [path for folder in ("functions", "shared", "local", "examples") for path in (ROOT / folder).rglob("*.*")]
    assert {path.relative_to(ROOT).as_posix() for path in house if "__pycache__" not in path.parts} <= shipped


def test_importing_it_brings_no_other_name_along(installed: Path, tmp_path: Path) -> None:
    ran = run(installed, tmp_path, "print(sorted({'shared', 'local', 'functions'} & set(sys.modules)), hullmark.__file__)")
    assert ran.stdout.split("]")[0] == "[", ran.stderr
    assert str(installed) in ran.stdout


def test_the_demo_runs_from_an_empty_folder_without_the_extras(installed: Path, tmp_path: Path) -> None:
    ran = run(installed, tmp_path, "hullmark.main()", "demo", "--pace", "0")
    assert ran.returncode == 0, ran.stderr
    assert "That's it." in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(installed: Path, tmp_path: Path) -> None:
    policy = tmp_path / "fleet.yaml"
    policy.write_text(
        "apiVersion: hullmark.dev/v1\nkind: Cluster\nmetadata: {name: c}\n"
        "spec: {provider: eks, access: {eks: {region: eu-north-1, name: c}}}\n"
    )
    ran = run(installed, tmp_path, "hullmark.main()", "versions", "plan", "--live", "-f", str(policy), "-o", "json")
    assert ran.returncode == 1
    (error,) = json.loads(ran.stdout)["errors"]
    assert error["reason"] == "MissingExtra"
    assert "hullmark[aws]" in error["message"]


def test_the_wheel_asks_for_what_the_functions_are_deployed_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    deployed = [line for line in (ROOT / "requirements.in").read_text().splitlines() if line and not line.startswith("#")]
    assert sorted(map(_name, asked)) == sorted(map(_name, deployed))
    assert [each for each in asked if ">=" not in each] == []


def _name(requirement: str) -> str:
    return re.split(r"[\[!<>=]", requirement)[0].lower()
