from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.cli import main
from local.cli.cloud import service
from shared import wiring


@dataclass
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Hullmark = Callable[..., Ran]


@pytest.fixture
def hullmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Hullmark]:
    """The command, as a new process would run it: its store in a folder of the test, nothing kept from the call before."""
    monkeypatch.chdir(tmp_path)
    for name in ("STORE", "CLUSTER", "NOW", "BUS"):
        monkeypatch.delenv(f"HULLMARK_{name}", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def run(*arguments: str) -> Ran:
        service.cache_clear()
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(int(ending.value.code or 0), out, err)

    yield run
    service.cache_clear()
    wiring.install(None)


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., str]:
    """Write documents to site.yaml; the file's name."""

    def write(*documents: Any, name: str = "site.yaml") -> str:
        (tmp_path / name).write_text(yaml.safe_dump_all(documents, sort_keys=False))
        return name

    return write


@pytest.fixture
def nodes(tmp_path: Path) -> Callable[..., str]:
    """Write nodes with these labels to nodes.json, as kubectl does with managedFields; the file's name."""

    def write(**found: dict[str, str]) -> str:
        items = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "labels": labels,
                    "managedFields": [
                        {
                            "manager": "kubelet",
                            "operation": "Update",
                            "fieldsV1": {"f:metadata": {"f:labels": {f"f:{k}": {} for k in labels}}},
                        }
                    ],
                },
                "status": {"nodeInfo": {"kubeletVersion": "v1.35.4"}},
            }
            for name, labels in found.items()
        ]
        (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        return "nodes.json"

    return write
