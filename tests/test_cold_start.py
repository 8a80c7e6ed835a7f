"""Cold start is a feature: a step imports only what its own path needs. Modules are counted, not milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from local.steps import ROOT, load

HEAVY = ("kubernetes", "google", "grpc", "boto3", "botocore", "obstore", "yaml", "rich", "requests", "opentelemetry", "icalendar")
"""Clients and libraries that are imported on first use, by the one call that needs them."""
BUDGET = {"api": 320, "api_reader": 320, "relabel_request": 140, "rollout": 141, "version_check": 155, "version_apply": 146}
"""Modules beyond functions-framework's own; 130 is pydantic, msgspec and our own handful. relabel_request and rollout plan, judge limits,
look for freezes and release; version_check reads documents, decides and looks for what holds updates back; version_apply looks for
freezes again.
"""
SCRIPT = """
import json, sys
import functions_framework
before = set(sys.modules)
import functions.{step}.main
print(json.dumps(sorted(set(sys.modules) - before)))
"""
STEPS = [name for name, step in load().steps.items() if step.source.exists()]


def imported(step: str) -> list[str]:
    """What a process imports for this step beyond functions-framework."""
    script = SCRIPT.format(step=load().steps[step].folder)
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: list[str] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("step", STEPS)
def test_a_step_imports_no_client_before_it_needs_one(step: str) -> None:
    modules = imported(step)
    assert [module for module in modules if module.split(".")[0] in HEAVY] == []
    assert len(modules) <= BUDGET.get(step, 130), f"{step} imports {len(modules)} modules"


def test_applying_labels_imports_no_model_of_a_document() -> None:
    modules = imported("node_apply")
    assert "shared.domain.documents.kinds" not in modules
    assert "shared.domain.site" not in modules


def test_every_step_has_its_function() -> None:
    assert set(STEPS) == set(load().steps)
