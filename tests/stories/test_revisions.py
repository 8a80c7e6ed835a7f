"""Documents become revisions: staged, replaced, kept, refused whole, raced for."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import yaml

from shared.adapters.store import open_store
from shared.domain.documents.reading import DocumentsRefused, Source
from shared.ledger.revisions import NothingStaged, Revisions, UnknownRevision
from shared.ports import StoreError
from tests.stories.fleet import START, a_policy


def source(name: str, *documents: dict[str, Any]) -> Source:
    return Source(name, yaml.safe_dump_all(documents).encode())


def a_node_policy(node: str, **labels: str) -> dict[str, Any]:
    return a_policy(f"{node}-{'-'.join(labels)}", {"names": [node]}, labels)


@pytest.fixture
def revisions() -> Revisions:
    return Revisions(open_store("memory:"))


def test_a_commit_replaces_the_staged_collections_and_keeps_the_others(revisions: Revisions) -> None:
    revisions.stage("racks", [source("r.yaml", a_node_policy("n1", rack="r1"), a_node_policy("n9", rack="r9"))], "eve", START)
    revisions.stage("pools", [source("p.yaml", a_node_policy("n2", pool="x"))], "eve", START)
    first, _ = revisions.commit("eve", START)
    revisions.stage("racks", [source("r.yaml", a_node_policy("n1", rack="r2"))], "adam", START)
    second, _ = revisions.commit("adam", START)

    assert (first.number, second.number) == (1, 2)
    assert [node.name for node in revisions.get(1).nodes()] == ["n1", "n2", "n9"]
    assert [node.name for node in revisions.get(2).nodes()] == ["n1", "n2"]
    assert revisions.get(2).about.by == "adam"
    assert revisions.buffers() == {}


def test_the_last_staging_of_a_collection_counts(revisions: Revisions) -> None:
    revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    revisions.stage("c", [source("a.yaml", a_node_policy("n2", rack="r1"))], "eve", START)
    revision, _ = revisions.commit("eve", START)
    assert [node.name for node in revision.nodes()] == ["n2"]


def test_there_must_be_something_staged(revisions: Revisions) -> None:
    with pytest.raises(NothingStaged, match="documents stage"):
        revisions.commit("eve", START)


def test_a_refused_commit_leaves_the_newest_revision_and_the_buffer_as_they_were(revisions: Revisions) -> None:
    revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    revisions.commit("eve", START)
    revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="not a value!"))], "eve", START)
    with pytest.raises(DocumentsRefused) as refused:
        revisions.commit("eve", START)
    assert [problem.path for problem in refused.value.problems] == ["spec.labels.rack"]
    assert revisions.newest() == 1
    assert list(revisions.buffers()) == ["c"]


def test_what_is_not_text_is_refused_when_it_is_staged(revisions: Revisions) -> None:
    with pytest.raises(DocumentsRefused, match="not UTF-8 text"):
        revisions.stage("c", [Source("a.yaml", b"\x80\x00\x01")], "eve", START)


def test_two_committers_at_once_both_succeed_and_nothing_is_lost(revisions: Revisions) -> None:
    def change(collection: str) -> None:
        revisions.stage(collection, [source(f"{collection}.yaml", a_node_policy(f"node-{collection}", rack="r1"))], collection, START)
        try:
            revisions.commit(collection, START)
        except NothingStaged:
            return  # the other's commit took ours along

    threads = [threading.Thread(target=change, args=(name,)) for name in ("a", "b", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    newest = revisions.get(revisions.newest())
    assert [node.name for node in newest.nodes()] == ["node-a", "node-b", "node-c", "node-d"]
    assert revisions.numbers() == list(range(1, newest.number + 1))


def test_a_commit_that_broke_off_is_no_revision(revisions: Revisions) -> None:
    revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    revisions.commit("eve", START)
    revisions._store.create("revisions/000002/01BROKENOFF/policies.json", b"{}")
    assert revisions.newest() == 1
    revisions.stage("c", [source("a.yaml", a_node_policy("n2", rack="r1"))], "eve", START)
    assert revisions.commit("eve", START)[0].number == 2


def test_a_revision_that_is_not_whole_says_which_object_is_missing(revisions: Revisions) -> None:
    revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    revision, _ = revisions.commit("eve", START)
    (shard,) = (key for key in revisions._store.keys("revisions/") if "/nodes/" in key)
    revisions._store.delete(shard)
    with pytest.raises(StoreError, match=r"nodes/00000\.json in the store can.t be read: it is missing, revision 1 is not whole"):
        revision.node("n1")
    revisions._store.create(shard, b'{"n1": ')
    with pytest.raises(StoreError, match=r"00000\.json in the store can.t be read: JSONDecodeError"):
        revision.node("n1")


def test_a_node_is_found_in_its_shard_and_a_stranger_in_none(revisions: Revisions) -> None:
    names = [f"n{number:04}" for number in range(1201)]
    revisions.stage("c", [source("a.yaml", *(a_node_policy(name, rack="r1") for name in names))], "eve", START)
    revision, _ = revisions.commit("eve", START)
    assert revision.about.bounds == ["n0000", "n0500", "n1000"]
    assert [node.name for node in revision.nodes()] == names
    for name in ("n0000", "n0499", "n0500", "n1200"):
        found = revision.node(name)
        assert found is not None
        assert found.name == name
    assert revision.unknown(["a", "n0001", "n0499x", "zz"]) == ["a", "n0499x", "zz"]
    assert len(revision._shards) == 3


def test_tags_are_set_once_and_found_both_ways(revisions: Revisions) -> None:
    revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    revisions.commit("eve", START)
    revisions.tag(1, "site-action-success", "eve", START)
    revisions.tag(1, "site-action-success", "eve", START)
    assert revisions.tags(1) == ["committed", "site-action-success"]
    assert revisions.tagged("site-action-success") == [1]
    with pytest.raises(UnknownRevision, match="no revision 7; the newest is 1"):
        revisions.tag(7, "x", "eve", START)
