"""Which policies a backfill goes by: those that pod_binding goes by, and no others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from local.cli import main
from local.cli.pods import policies_in_force
from shared.adapters.store import open_store
from shared.domain.documents.reading import Source
from shared.ledger.releases import Releases
from shared.ledger.revisions import Revisions
from shared.ports import Refused
from shared.world import Settings

NOW = datetime(2026, 11, 22, tzinfo=UTC)
CLUSTER = "{apiVersion: hullmark.dev/v1, kind: Cluster, metadata: {name: blue}, spec: {access: {inCluster: {}}}}"


def a_policy(key: str) -> str:
    return f"{{apiVersion: hullmark.dev/v1, kind: PodLabelPolicy, metadata: {{name: it}}, spec: {{extra: [{key}]}}}}"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A store in which one policy is released to blue, and another is committed and waits."""
    store = open_store(f"file:{tmp_path}")
    revisions = Revisions(store)
    for key in ("example.com/old", "example.com/new"):
        revisions.stage("site", [Source("site.yaml", f"{CLUSTER}\n---\n{a_policy(key)}".encode())], "me", NOW)
        revisions.commit("me", NOW)
        Releases(store, revisions).adopt("blue", 1, "me", NOW)
    return Settings(store=f"file:{tmp_path}")


def test_a_policy_that_is_committed_and_not_released_fills_nothing_in(settings: Settings) -> None:
    (policy,) = policies_in_force("blue", settings)

    assert policy.extra == ["example.com/old"]


def test_a_cluster_that_no_document_names_is_refused(settings: Settings) -> None:
    with pytest.raises(Refused, match="green"):
        policies_in_force("green", settings)


def test_a_simulated_cluster_has_no_pods(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setenv("HULLMARK_CLUSTER", "simulated:nodes.json")
    (tmp_path / "policy.yaml").write_text(a_policy("example.com/x"))

    with pytest.raises(SystemExit) as ended:
        main(["pods", "backfill", "-f", str(tmp_path)])

    assert ended.value.code == 1
    assert "has no bound pods" in capsys.readouterr().err
