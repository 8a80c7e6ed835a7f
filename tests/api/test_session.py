"""A recorded Airship session, played against the service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.steps import ROOT
from shared import telemetry, wiring
from shared.adapters.simulated import Simulated
from shared.domain.documents.reading import Source, read_nodes
from tests.api.conftest import FrontDoor

SESSION: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "session.yaml").read_text())
NODES = ROOT / "examples" / "nodes.json"


@pytest.fixture
def halden() -> Iterator[FrontDoor]:
    """The example site's cluster, as its kubelets left it."""
    telemetry.write_to(None)
    door = FrontDoor()
    door.cluster = Simulated(door.world.store, "default", lambda: read_nodes(Source("nodes.json", NODES.read_bytes())))
    yield door
    wiring.install(None)


def missing(expected: Any, found: Any, where: str = "answer") -> list[str]:
    """Where an answer does not contain what is expected of it."""
    if expected == "…":
        return [] if found else [f"{where}: nothing there"]
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return [f"{where}: {found!r} is no object"]
        absent = [f"{where}.{key}: not there" for key in expected if key not in found]
        return absent + [bad for key in expected if key in found for bad in missing(expected[key], found[key], f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(found, list):
        length = [] if len(expected) == len(found) else [f"{where}: {len(found)} entries, not {len(expected)}: {found!r}"]
        return length + [bad for n, (e, f) in enumerate(zip(expected, found, strict=False)) for bad in missing(e, f, f"{where}[{n}]")]
    return [] if expected == found else [f"{where}: {found!r}, not {expected!r}"]


def filled(value: Any, kept: Mapping[str, str]) -> Any:
    """The value with {name} replaced by what was kept."""
    text = json.dumps(value)
    for name, known in kept.items():
        text = text.replace(f"{{{name}}}", known)
    return json.loads(text)


def test_an_airship_session_runs_as_recorded(halden: FrontDoor) -> None:
    kept: dict[str, str] = {}
    for number, turn in enumerate(SESSION, 1):
        method, path = filled(turn["request"], kept).split(" ", 1)
        given: dict[str, Any] = {"json": filled(turn["json"], kept)} if "json" in turn else {}
        if "yaml" in turn:
            given = {"data": (ROOT / turn["yaml"]).read_bytes(), "content_type": "application/x-yaml"}
        answer = halden.ask(method, path, **given)
        told = f"turn {number}: {turn['request']} → {answer.status}\n{answer.text[:2000]}"
        assert answer.status_code == turn["status"], told
        kept |= {name: answer.json[field] for name, field in turn.get("keep", {}).items()}
        assert missing(filled(turn.get("answer", {}), kept), answer.json) == [], told
        if "location" in turn:
            assert answer.headers["Location"] == filled(turn["location"], kept), told
        if turn.get("then") == "work":
            halden.cloud.drain()
