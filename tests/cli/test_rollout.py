"""`hullmark rollout`, as people type it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.cli.conftest import Hullmark
from tests.rollouts.rolling import a_rollout
from tests.stories.fleet import a_policy

Nodes = Callable[..., str]
Site = Callable[..., str]
STAGES = ({"name": "canary", "nodes": {"names": ["n1"]}, "approval": "after"},)


@pytest.fixture
def cluster(hullmark: Hullmark, site: Site, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """Three nodes with `rack=r1`; `rack=r2` is committed, with a rollout that begins with n1."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={}, n2={}, n3={})}")
    monkeypatch.setenv("HULLMARK_NOW", "2026-11-21T12:00:00Z")
    hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r1"})))
    hullmark("documents", "commit")
    assert hullmark("relabel", "--all").code == 0
    hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r2"}), a_rollout(*STAGES)))
    assert hullmark("documents", "commit").code == 0
    return hullmark


def racks(hullmark: Hullmark) -> dict[str, str]:
    return {name: node["labels"]["rack"] for name, node in hullmark("nodes", "--labels", "-o", "json").json["nodes"].items()}


def test_a_rollout_is_started_approved_and_done(cluster: Hullmark) -> None:
    started = cluster("rollout", "start", "-o", "json").json
    assert (started["name"], started["revision"], started["reason"]) == ("careful", 2, "AwaitingApproval")
    assert racks(cluster) == {"n1": "r2", "n2": "r1", "n3": "r1"}

    watched = cluster("rollout", "watch", "--timeout", "0")
    assert watched.code == 4
    assert "it needs somebody who may approve it" in watched.out

    approved = cluster("rollout", "approve", started["id"], "canary", "-o", "json")
    assert approved.json["phase"] == "done"
    assert set(racks(cluster).values()) == {"r2"}
    assert cluster("rollout", "watch", started["id"]).code == 0
    assert [line.split()[1:4] for line in cluster("rollout", "status").out.splitlines()[1:]] == [["careful", "2", "done"]]


def test_a_rollout_is_taken_back_and_its_revision_is_rejected(cluster: Hullmark) -> None:
    rollout = cluster("rollout", "start", "-o", "json").json["id"]
    assert cluster("rollout", "revert", rollout, "--reason", "it blinked").code == 0
    assert set(racks(cluster).values()) == {"r1"}
    again = cluster("rollout", "start")
    assert (again.code, "rejected" in again.err) == (1, True)
    assert cluster("rollout", "watch", rollout).code == 3
    assert re.search(r"reverted by \S+ at 2026-11-21 12:00 UTC: it blinked", cluster("rollout", "status", rollout).out)


def test_a_site_action_takes_the_place_of_a_rollout_where_it_says_so(cluster: Hullmark) -> None:
    rollout = cluster("rollout", "start", "-o", "json").json["id"]
    refused = cluster("relabel", "--all")
    assert (refused.code, "`--supersede`" in refused.err) == (1, True)
    assert cluster("relabel", "n2", "--supersede").code == 1
    assert cluster("relabel", "--all", "--supersede").code == 0
    assert set(racks(cluster).values()) == {"r2"}
    assert cluster("rollout", "status", rollout, "-o", "json").json["phase"] == "superseded"


def test_a_merge_to_main_is_the_whole_workflow(cluster: Hullmark, site: Site) -> None:
    cluster("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r3"}), a_rollout(*STAGES, start="onCommit")))
    dry = cluster("documents", "commit", "--dry-run", "-o", "json").json
    assert [(each["name"], each["id"]) for each in dry["rollouts"]] == [("careful", "")]
    assert set(racks(cluster).values()) == {"r1"}

    (started,) = cluster("documents", "commit", "-o", "json").json["rollouts"]
    assert racks(cluster) == {"n1": "r3", "n2": "r1", "n3": "r1"}
    assert cluster("rollout", "approve", started["id"], "canary").code == 0
    assert cluster("rollout", "watch", started["id"]).code == 0
    assert set(racks(cluster).values()) == {"r3"}

    cluster("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r3"}), a_rollout(start="onCommit")))
    assert "rollout careful to default does not start (NothingToRelease)" in cluster("documents", "commit").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("start", "bold"), "has no Rollout 'bold' (there: careful)"),
        (("status", "nothing"), "no rollout nothing"),
        (("approve", "01M7ZBXTWV1ZFW0GSK0VTJ4ER0", "canary"), "no rollout 01M7ZBXTWV1ZFW0GSK0VTJ4ER0"),
        (("watch",), "not finished: none"),
        (("pause", "01M7ZBXTWV1ZFW0GSK0VTJ4ER0"), "--reason"),
    ],
)
def test_what_cannot_be_done_says_so(cluster: Hullmark, words: tuple[str, ...], said: str) -> None:
    ran = cluster("rollout", *words)
    assert ran.code == 1
    assert said in ran.err
