"""`versions plan|calendar -f`: the freezes and rollouts among the files count, although nothing of them is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.cli.conftest import Hullmark
from tests.versions.test_functions import cloud_profile
from tests.waves.test_line import VERSIONS, a_shoot, rollout

NOW = "2026-11-21T12:00:00Z"


def a_freeze(**spec: Any) -> dict[str, Any]:
    body = {"from": "2026-11-20T00:00:00Z", "until": "2026-12-01T00:00:00Z", "reason": "quarter-end", **spec}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Freeze", "metadata": {"name": "quiet"}, "spec": body}


def written(folder: Path, *documents: dict[str, Any]) -> str:
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump_all([cloud_profile(VERSIONS), a_shoot("d", "dev"), a_shoot("p", "prod"), *documents]))
    return str(path)


def told(hullmark: Hullmark, command: str, path: str) -> list[str]:
    answer = hullmark("versions", command, "-f", path, "--now", NOW, "-o", "json").json
    entries = [each for each in answer.get("events") or answer["decisions"] if each["component"] == "controlPlane"]
    return [
        f"{each.get('at', '')} {each['cluster'][7:]} {each['held']['reason'] if each['held'] else each['to']}".strip() for each in entries
    ]


def test_a_freeze_among_the_files_holds_what_they_are_planned_to_and_moves_the_calendar(hullmark: Hullmark, tmp_path: Path) -> None:
    path = written(tmp_path, a_freeze())
    assert told(hullmark, "plan", path) == ["d Frozen", "p Frozen"]
    assert told(hullmark, "calendar", path) == ["2026-12-01T22:00:00Z d 1.30.4", "2026-12-01T22:00:00Z p 1.30.4"]


def test_a_rollout_among_the_files_is_shown_as_if_it_were_started_now(hullmark: Hullmark, tmp_path: Path) -> None:
    path = written(tmp_path, rollout())
    assert told(hullmark, "plan", path) == ["d 1.30.4", "p WaitingForStage"]
    assert told(hullmark, "calendar", path) == ["2026-11-21T22:00:00Z d 1.30.4", "2026-11-22T22:00:00Z p 1.30.4"]


def test_a_freeze_that_cannot_be_read_is_an_error_and_somebody_elses_rollout_is_none_of_ours(hullmark: Hullmark, tmp_path: Path) -> None:
    argo = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web"}, "spec": {"replicas": 3}}
    assert told(hullmark, "plan", written(tmp_path, argo)) == ["d 1.30.4", "p 1.30.4"]
    refused = hullmark("versions", "plan", "-f", written(tmp_path, a_freeze(untill="x")), "--now", NOW)
    assert refused.code == 1
    assert "Freeze/quiet" in refused.err
    assert "untill" in refused.err
