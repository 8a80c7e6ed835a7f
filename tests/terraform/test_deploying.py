"""`make deploy` and `make destroy` with the real Terraform, the provider's stand-in, and a gcloud that says yes."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest

from local.deploy import deployment as deploy
from local.deploy.deployment import STORE, Deployment
from tests.terraform.running import PROJECT, REGION, Terraform, copied

GCLOUD = """\
#!{python}
import json, pathlib, sys
here, asked = pathlib.Path({folder!r}), " ".join(sys.argv[1:])
if asked.startswith("config get-value account"):
    print("me@example.com")
if asked.startswith("services list"):
    print("cloudresourcemanager.googleapis.com")
if asked.startswith("storage buckets describe"):
    sys.exit(0 if (here / "bucket-is-there").exists() else 1)
if "subscriptions pull" in asked:
    print((here / "answer").read_text())
"""
ACTION = "01KAJ3Z8Q0000000000000000A"


@pytest.fixture
def deployment(terraform: Terraform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    notice = {"subject": ACTION, "type": "dev.hullmark.action.finished.v1", "data": {"result": "success", "counts": {}}}
    answer = [{"message": {"data": base64.b64encode(json.dumps(notice).encode()).decode()}}]
    (tmp_path / "answer").write_text(json.dumps(answer))
    gcloud = tmp_path / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text(GCLOUD.format(python=sys.executable, folder=str(tmp_path)))
    gcloud.chmod(0o755)
    for name, value in terraform.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{gcloud.parent}:{terraform.environment['PATH']}")
    monkeypatch.setattr(deploy, "ULID", lambda: ACTION)
    return Deployment(PROJECT, REGION, copied(tmp_path), say=said.append)


said: list[str] = []


def test_what_is_deployed_can_be_destroyed_but_for_the_store_and_deployed_again(
    deployment: Deployment, terraform: Terraform, tmp_path: Path
) -> None:
    said.clear()
    deployment.check()
    assert deployment.plan()
    deployment.deploy()
    assert "smoke test: dry run success: {}" in said
    assert STORE in terraform.run(deployment.root, "state", "list").split()
    assert not deployment.plan(), "what was just applied would change again"

    deployment.destroy()
    assert terraform.run(deployment.root, "state", "list").split() == []
    assert any(f"left: bucket gs://{PROJECT}-hullmark" in line for line in said)

    (tmp_path / "bucket-is-there").touch()
    deployment.deploy()
    assert f"taking up the store gs://{PROJECT}-hullmark again" in said
    assert STORE in terraform.run(deployment.root, "state", "list").split()
