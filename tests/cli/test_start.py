"""A command starts quickly: it imports what it needs and nothing else. Modules are counted, not milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from local.steps import ROOT
from tests.cli.conftest import Hullmark

HEAVY = ("pydantic", "msgspec", "rich", "yaml", "urllib3", "kubernetes", "google", "flask", "functions_framework", "opentelemetry")
SCRIPT = """
import json, sys
import click
before = set(sys.modules)
from local.cli import main
try:
    main({arguments!r})
except SystemExit as ending:
    print(json.dumps([ending.code, sorted(set(sys.modules) - before)]), file=sys.stderr)
"""


def imported(*arguments: str) -> list[str]:
    """What a process imports for these arguments beyond click; the command has to succeed."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(arguments=arguments)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    code, modules = json.loads(ran.stderr.splitlines()[-1])
    assert code == 0, ran.stderr
    return list(modules)


@pytest.mark.parametrize(("arguments", "most"), [(["--help"], 24), ([], 24), (["migrate", "--help"], 42), (["migrate"], 42)])
def test_what_draws_no_table_and_reads_no_document_starts_without_a_library(tmp_path: Path, arguments: list[str], most: int) -> None:
    where = [str(tmp_path)] if arguments == ["migrate"] else []
    modules = imported(*arguments, *where)
    assert [module for module in modules if module.split(".")[0] in HEAVY] == []
    assert len(modules) <= most, f"{len(modules)} modules: {', '.join(modules)}"


@pytest.mark.parametrize("arguments", [(), ("actions",)])
def test_a_bare_command_shows_its_help(hullmark: Hullmark, arguments: tuple[str, ...]) -> None:
    ran = hullmark(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: hullmark")
