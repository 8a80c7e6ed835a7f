"""`hullmark explain` and `history`, as people type them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

Nodes = Callable[..., str]
Site = Callable[..., str]


@pytest.fixture
def racks(hullmark: Hullmark, site: Site, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """n1 was in a rack that somebody else said; a site action took it over."""
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={'rack': 'mine', 'zone': 'a'}, n2={})}")
    monkeypatch.setenv("HULLMARK_NOW", "2026-11-21T12:00:00Z")
    hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r1"})))
    hullmark("documents", "commit", "-m", "racks as they are labelled", "--source", "https://git.example.com/site@4f2a")
    assert hullmark("relabel", "--all").code == 0
    return hullmark


def test_a_key_is_explained_in_a_few_lines(racks: Hullmark) -> None:
    ran = racks("explain", "n1", "rack")
    assert ran.code == 0
    for told in (
        "n1 of cluster default: revision 1, in sync",
        "at 2026-11-21 12:00 UTC: racks as they are labelled (https://git.example.com/site@4f2a)",
        "rack = r1",
        "  held by   hullmark",
        "  declared  'r1' by NodeLabelPolicy/racks (site.yaml:8, collection default)",
        "  written   update_site ",
        "  before    mine (kubelet)",
    ):
        assert told in ran.out


def test_every_label_is_in_the_table_with_who_holds_it(racks: Hullmark) -> None:
    lines = [" ".join(line.split()) for line in racks("explain", "n1").out.splitlines()]
    assert any(line.startswith("rack r1 hullmark NodeLabelPolicy/racks (site.yaml:8") for line in lines)
    assert any(line.startswith("zone a kubelet") for line in lines)


def test_a_key_that_is_nowhere_says_so(racks: Hullmark) -> None:
    out = racks("explain", "n1", "row").out
    for told in (
        "row: the node does not have it",
        "held by   nobody",
        "by nothing that is released to it",
        "no action that is kept wrote it",
    ):
        assert told in out


def test_drift_shows_both_values(racks: Hullmark) -> None:
    racks("simulate", "label", "n1", "rack=theirs", "--no-event")
    assert "theirs (declared r1)" in racks("explain", "n1").out


def test_history_is_newest_first_and_says_how_far_it_looked(racks: Hullmark) -> None:
    racks("relabel", "n1", "--cluster", "default")
    ran = racks("history", "n1")
    assert ran.code == 0
    assert "revision 1 “racks as they are labelled” released; update_site" in ran.out
    assert "rack=r1" in ran.out
    assert "looked back" not in ran.out
    assert "looked back to" in racks("history", "n1", "--look-back", "1").out


def test_a_node_that_nobody_knows_is_an_error(racks: Hullmark) -> None:
    for command in ("explain", "history"):
        ran = racks(command, "nobody")
        assert (ran.code, "unknown node nobody" in ran.err) == (1, True)
