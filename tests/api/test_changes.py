"""The pages of revisions: which nodes gain, lose and change which labels."""

from __future__ import annotations

import pytest

from shared.ports import Unavailable
from tests.api.conftest import FrontDoor, policies
from tests.api.test_sync import text_of
from tests.stories.fleet import a_policy


@pytest.fixture
def twice(door: FrontDoor) -> FrontDoor:
    """Two revisions over three nodes."""
    door.has_nodes(n1={}, n2={}, n3={})
    door.commits(
        a_policy("racks", {"names": ["n1", "n2"]}, {"rack": "r7", "row": "7"}), a_policy("three", {"names": ["n3"]}, {"rack": "r9"})
    )
    door.commits(
        a_policy("racks", {"names": ["n1", "n2"]}, {"rack": "r8"}), a_policy("three", {"names": ["n3"]}, {"rack": "r9", "gpu": "a100"})
    )
    return door


def test_a_revision_says_which_nodes_gain_lose_and_change_which_labels(twice: FrontDoor) -> None:
    page = twice.get("/revisions/2")
    told = text_of(page.text)
    assert "gpu 1 node n3: a100" in told
    assert "rack 2 nodes n1: r7 → r8, n2: r7 → r8" in told
    assert "row 2 nodes n1: 7, n2: 7" in told
    assert "<del><code>row=7</code></del>" in page.text
    assert "<ins><code>gpu=a100</code></ins>" in page.text
    assert "n1 row=7 rack: r7 → r8" in told


def test_a_revision_is_compared_with_the_one_that_is_asked_for(twice: FrontDoor) -> None:
    assert "No label of any node." in text_of(twice.get("/revisions/2?against=2").text)
    assert "first revision" in text_of(twice.get("/revisions/1").text)
    for path in ("/revisions/3", "/revisions/0", "/revisions/x", "/revisions/2?against=7"):
        assert twice.get(path).status_code == 404, path


def test_a_cluster_that_does_not_answer_is_compared_by_its_documents(twice: FrontDoor) -> None:
    twice.unreachable(Unavailable("no route to host"))
    told = text_of(twice.get("/revisions/2").text)
    assert "did not answer" in told
    assert "no route to host" in told


def test_revisions_are_listed_newest_first_with_what_they_remove(twice: FrontDoor) -> None:
    page = twice.get("/revisions").text
    assert page.index('href="/revisions/2"') < page.index('href="/revisions/1"')
    assert 'href="/revisions/2"' in twice.get("/").text


def test_what_a_revision_says_of_itself_is_text_and_never_markup(door: FrontDoor) -> None:
    evil = "<img src=x onerror=alert(1)>"
    door.stage(policies({"n1": {"rack": "r7"}}))
    door.world.revisions.commit(evil, door.now, message=evil, source=evil)
    for path in ("/revisions", "/revisions/1"):
        page = door.get(path).text
        assert "&lt;img" in page
        assert "<img" not in page
