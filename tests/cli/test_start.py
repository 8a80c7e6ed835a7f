"""A command starts quickly: it imports what it needs and nothing else. Modules are counted, not milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local.cli import main
from local.steps import ROOT
from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

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


def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What bash would be offered for the last of these words."""
    monkeypatch.setenv("_HULLMARK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("hullmark", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([])
    monkeypatch.delenv("_HULLMARK_COMPLETE")
    return [line.partition(",")[2] for line in capsys.readouterr().out.splitlines() if line]


def test_a_shell_completes_ids_and_names(
    hullmark: Hullmark,
    site: Callable[..., str],
    nodes: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def offered(*words: str) -> list[str]:
        return completed(monkeypatch, capsys, *words)

    assert (offered("actions", "show", ""), offered("nodes", "")) == ([], [])
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={})}")
    hullmark("documents", "stage", "-f", site(a_policy("racks", {"names": ["n1", "m2"]}, {"rack": "r7"})))
    hullmark("documents", "commit")
    action = hullmark("relabel", "--all", "-o", "json").json["id"]
    assert offered("actions", "show", "") == [action]
    assert offered("actions", "retry", "x") == []
    assert offered("documents", "show", "") == ["1"]
    assert offered("nodes", "") == ["m2", "n1"]
    assert offered("explain", "n") == ["n1"]
    assert offered("rollout", "status", "") == []
    monkeypatch.setenv("HULLMARK_STORE", "nothing:that can be opened")
    assert offered("actions", "show", "") == []
