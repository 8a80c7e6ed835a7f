"""Prometheus' own rule tests: whether a query fires on these series."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import require_real


def promtool() -> str:
    """On the PATH, or where `make promtool` keeps it."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hullmark" / "promtool"
    found = shutil.which("promtool") or (str(kept) if kept.is_file() else None)
    require_real("promtool", found, "make promtool, or the package prometheus")
    return str(found)


def firing(alert: str, query: str, lasting: str, series: Mapping[str, str], at: str, folder: Path) -> bool:
    """Whether the alert has fired `at` a time after the series began (one sample a minute)."""
    tool, rules, tests = promtool(), folder / "rules.yaml", folder / "tests.yaml"
    rule = {"alert": alert, "expr": query, "for": lasting}
    rules.write_text(yaml.safe_dump({"groups": [{"name": "hullmark", "interval": "1m", "rules": [rule]}]}))
    expected: dict[bool, Any] = {True: [{"labels": "{}", "value": 1}], False: []}
    answers = {}
    for fires, samples in expected.items():
        asked = {
            "expr": f'clamp_max(count(ALERTS{{alertname="{alert}",alertstate="firing"}}), 1)',
            "eval_time": at,
            "exp_samples": samples,
        }
        case = {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [asked],
        }
        tests.write_text(yaml.safe_dump({"rule_files": [rules.name], "evaluation_interval": "1m", "tests": [case]}))
        done = subprocess.run([tool, "test", "rules", tests], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        answers[fires] = done.returncode == 0
        said = done.stdout + done.stderr
        assert done.returncode in (0, 1), said
        assert done.returncode == 0 or "nil" in said or "exp" in said, said
    assert answers[True] != answers[False], "promtool refused the rule itself"
    return answers[True]
