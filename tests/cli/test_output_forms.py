"""What `-o` may be besides a table and JSON, and tables that stay readable: ages, the newest first, many rows as few."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from local.cli.inputs import age
from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

Write = Callable[..., str]
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def hundred(hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    """A hundred nodes, one of them already as revision 1 wants it."""
    names: dict[str, dict[str, str]] = {f"n{number:03}": {} for number in range(99)}
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(**names, odd={'rack': 'r1'})}")
    hullmark("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r1"})))
    hullmark("documents", "commit", "-m", "racks as the design names them since the hall was rebuilt")
    return hullmark


def test_names_come_one_a_line_for_the_next_command(hundred: Hullmark) -> None:
    assert hundred("plan", "--target", "n001,n002,odd", "-o", "name").out == "n001\nn002\n"
    hundred("documents", "tag", "1", "site-action-success")
    assert hundred("relabel", "n001", "n002", "-o", "name").out == "n001\nn002\n"
    first = hundred("actions", "list", "-o", "name").out
    hundred("relabel", "n003")
    newest, *older = hundred("actions", "list", "-o", "name").out.splitlines()
    assert older == first.splitlines()
    assert hundred("actions", "show", newest, "-o", "name").out == "n003\n"
    assert hundred("documents", "list", "-o", "name").out == "1\n"
    assert hundred("nodes", "odd", "-o", "name").out == "odd\n"


def test_jsonpath_picks_from_what_json_has(hundred: Hullmark) -> None:
    ran = hundred("nodes", "n001", "odd", "-o", "jsonpath={.nodes.odd.labels.rack} of {.cluster}")
    assert (ran.code, ran.out) == (0, "r1 of default")
    ran = hundred("nodes", "-o", "jsonpath=.nodes")
    assert (ran.code, "in braces" in ran.err) == (1, True)


def test_a_plan_of_many_nodes_groups_what_is_alike_and_wide_names_each(hundred: Hullmark) -> None:
    table = hundred("plan").out
    assert len(table.splitlines()) < 10
    assert "99 rows, those alike as one: -o wide shows every row" in table
    assert all(f"n{number:03}" in hundred("plan", "-o", "wide").out for number in (0, 98))
    result = hundred("relabel", "--all").out
    assert len(result.splitlines()) < 10
    assert "99" in result
    states = hundred("nodes").out
    assert len(states.splitlines()) < 10
    assert "rack=r1" in hundred("nodes", "-o", "wide").out


def test_lists_say_how_old_a_thing_is_and_begin_with_the_newest(hundred: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_NOW", "2030-01-01T00:00:00Z")
    hundred("relabel", "--all")
    monkeypatch.setenv("HULLMARK_NOW", "2030-01-01T03:10:00Z")
    hundred("relabel", "n001", "--dry-run")
    monkeypatch.setenv("HULLMARK_NOW", "2030-01-03T04:00:00Z")
    head, *rows = hundred("actions", "list").out.splitlines()
    assert head.split() == ["ID", "NAME", "CLUSTER", "RESULT", "AGE"]
    assert [row.split()[-1] for row in rows] == ["2d", "2d"]
    assert [("dry run" in row) for row in rows] == [True, False]
    assert max(map(len, [head, *rows])) <= 80
    assert "2030-01-01T03:10:00" in hundred("actions", "list", "-o", "wide").out
    assert hundred("documents", "list").out.splitlines()[0].split() == ["REV", "AGE", "BY", "TAGS", "RELEASED", "WHY"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172799, "47h"), (172800, "2d"), (63072000, "2y")],
)
def test_an_age_is_short(seconds: int, said: str) -> None:
    assert age(START, START + timedelta(seconds=seconds)) == said
