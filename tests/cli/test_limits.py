"""What an operator sees of a mistake: at the commit, at the relabel, and on the way on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

Nodes = Callable[..., str]
Site = Callable[..., str]
NAMES = [f"n{number}" for number in range(1, 10)]
EXAMPLES = ", ".join(NAMES)


@pytest.fixture
def cluster(hullmark: Hullmark, site: Site, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """Nine nodes with `rack=r1` and `site=halden`, declared in two files of a folder and relabelled."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(**{name: {'zone': 'a'} for name in NAMES})}")
    Path("folder").mkdir()
    site(a_policy("racks", {}, {"rack": "r1"}), name="folder/racks.yaml")
    site(a_policy("site", {}, {"site": "halden"}), name="folder/site.yaml")
    hullmark("documents", "stage", "-f", "folder")
    hullmark("documents", "commit")
    assert hullmark("relabel", "--all").code == 0
    return hullmark


def test_an_empty_file_is_refused_and_one_file_of_a_folder_is_told_at_the_commit(cluster: Hullmark) -> None:
    Path("empty.yaml").write_text("")
    refused = cluster("documents", "stage", "-f", "empty.yaml")
    assert (refused.code, refused.err) == (
        1,
        "error: there is no document to stage (empty.yaml); to take all of default away: `hullmark documents remove default`\n",
    )
    cluster("documents", "stage", "-f", "folder/site.yaml")
    ran = cluster("documents", "commit")
    assert ran.code == 0
    assert ran.out.splitlines()[1] == "cluster default, 9 nodes: 9 change (9 lose labels); removed: rack on 9"
    beyond = (
        f"it removes labels from 9 of 9 nodes of cluster default: rack on 9 ({EXAMPLES}), more than 10 % of the cluster's nodes; "
        "if that is meant: `--accept-removals 9` (`accept_removals` over HTTP and in messages)"
    )
    assert ran.err == f"warning: beyond the limits: {beyond}; a relabel of the site is blocked without it\n"

    planned = cluster("plan")
    assert (planned.code, planned.err) == (2, f"warning: beyond the limits: {beyond}; a relabel of these nodes is blocked without it\n")
    assert cluster("plan", "-o", "json").json["beyond"] == {"reason": "TooManyRemovals", "message": beyond}
    assert cluster("plan", "--target", "n1,n2,n3,n4", "-o", "json").json["beyond"] is None
    assert "beyond the limits" in cluster("plan", "-f", "folder/site.yaml").err
    blocked = cluster("relabel", "--all")
    assert blocked.code == 4
    assert blocked.out.endswith(f": blocked (nothing was written): {beyond}\n")
    as_data = cluster("relabel", "--all", "-o", "json")
    assert (as_data.code, as_data.json["result"], as_data.json["reason"]) == (4, "blocked", "TooManyRemovals")
    assert (as_data.json["nodes"], as_data.json["impact"]["removed"], as_data.json["impact"]["losing"]) == ({}, {"rack": 9}, NAMES)
    assert cluster("plan", "--released", "-o", "json").json["nodes"] == {}

    assert cluster("actions", "retry", as_data.json["id"], "--accept-removals", "8").code == 4
    accepted = cluster("actions", "retry", as_data.json["id"], "--accept-removals", "9", "-o", "json")
    assert (accepted.code, accepted.json["counts"]) == (0, {"changed": 9})


def test_what_is_accepted_with_the_commit_needs_no_second_word(cluster: Hullmark) -> None:
    cluster("documents", "remove", "default")
    dry = cluster("documents", "commit", "--dry-run", "-o", "json")
    assert (dry.code, dry.json["revision"], dry.json["impact"]["removals"]) == (0, None, 9)
    assert dry.json["impact"]["clusters"]["default"]["bare"]
    assert "without any declared label" in dry.err
    committed = cluster("documents", "commit", "--accept-removals", "9", "-m", "the site is given up", "-o", "json")
    assert (committed.code, committed.err, committed.json["revision"], committed.json["impact"]["beyond"]) == (0, "", 2, {})
    assert cluster("documents", "list", "-o", "json").json["revisions"][-1]["impact"]["removals"] == 9
    assert cluster("plan", "-o", "json").json["beyond"] is None
    assert cluster("relabel", "--all", "-o", "json").json["counts"] == {"changed": 9}


def test_a_way_back_is_measured_like_the_way_there(cluster: Hullmark, site: Site) -> None:
    site(a_policy("more", {}, {"colour": "red"}), name="folder/more.yaml")
    cluster("documents", "stage", "-f", "folder")
    cluster("documents", "commit")
    assert cluster("relabel", "--all").code == 0
    back = cluster("documents", "restore", "1", "--accept-removals", "9", "-o", "json")
    assert (back.code, back.json["impact"]["clusters"]["default"]["removed"]) == (0, {"colour": 9})
    assert cluster("relabel", "--all").code == 0


def test_a_change_of_two_nodes_passes_without_a_word(cluster: Hullmark, site: Site) -> None:
    site(a_policy("racks", {}, {"rack": "r1"}, exclude={"names": ["n1", "n2"]}), name="folder/racks.yaml")
    cluster("documents", "stage", "-f", "folder")
    ran = cluster("documents", "commit")
    assert (ran.err, ran.out.splitlines()[1:]) == ("", ["cluster default, 9 nodes: 2 change (2 lose labels); removed: rack on 2"])
    assert cluster("relabel", "--all").code == 0


def test_without_a_cluster_the_documents_are_counted(hullmark: Hullmark, site: Site) -> None:
    hullmark("documents", "stage", "-f", site(a_policy("racks", {"names": NAMES}, {"rack": "r1"})))
    ran = hullmark("documents", "commit")
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith("no cluster is named to look at: counted from the documents")
