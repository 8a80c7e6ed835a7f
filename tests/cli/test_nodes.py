"""`hullmark nodes`: the state of the nodes in a terminal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local.cli.client import _in_urls
from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy


@pytest.fixture
def cluster(hullmark: Hullmark, site: Callable[..., str], nodes: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """n1 and n2 with `rack=r1` of revision 1; revision 2 waits."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={'zone': 'a'}, n2={'zone': 'b'})}")
    for rack in ("r1", "r2"):
        hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": rack})))
        hullmark("documents", "commit")
        if rack == "r1":
            hullmark("relabel", "--all")
    return hullmark


def test_the_table_says_what_is_released_and_why_a_node_is_out_of_sync(cluster: Hullmark) -> None:
    cluster("simulate", "label", "n1", "rack=mine", "--no-event")
    lines = [line.rstrip().split(maxsplit=3) for line in cluster("nodes").out.splitlines()]
    assert lines == [
        ["NODE", "RELEASE", "IN", "SYNC  REASON"],
        ["n1", "revision", "1", "no       Drift: rack is 'mine' by kubectl-label, it should be 'r1'"],
        ["n2", "revision", "1", "yes      NewerRevisionWaits: revision 2 is committed and not released to it"],
        ["cluster", "default:", "2", "nodes, 1 in sync, 1 Drift, 1 NewerRevisionWaits"],
    ]


def test_names_may_stand_with_commas_and_labels_come_on_request(cluster: Hullmark) -> None:
    assert list(cluster("nodes", "n2,n1", "-o", "json").json["nodes"]) == ["n1", "n2"]
    ran = cluster("nodes", "n1", "--labels")
    lines = [line.split() for line in ran.out.splitlines()]
    assert (ran.code, lines[2:5]) == (0, [["n1"], ["LABEL", "VALUE", "HELD", "BY"], ["rack", "r1", "hullmark"]])


def test_out_of_sync_alone(cluster: Hullmark) -> None:
    assert cluster("nodes", "--out-of-sync").out == "cluster default: 0 nodes, 0 in sync\n"


def test_names_that_nobody_knows_are_an_error(cluster: Hullmark) -> None:
    for arguments, said in ((("nodes", "n9"), "unknown node n9"), (("nodes", " , "), "no nodes"), (("nodes", "--cluster", "x"), "'x'")):
        ran = cluster(*arguments)
        assert (ran.code, ran.out, said in ran.err) == (1, "", True)


def test_many_names_are_asked_for_in_several_urls() -> None:
    names = [f"node-{number:04}" for number in range(2000)]
    texts = _in_urls(names)
    assert [name for text in texts for name in text.split(",")] == names
    assert len(texts) > 1
    assert max(map(len, texts)) <= 4020
    assert _in_urls(None) == [""]
