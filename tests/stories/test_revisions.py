"""Documents become revisions: staged, replaced, kept, refused whole, raced for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
import yaml

from shared.adapters.store import open_store
from shared.domain.documents.reading import DocumentsRefused, Source
from shared.ledger.revisions import EmptyStage, NothingStaged, Revisions, UnknownCollection, UnknownRevision
from shared.ports import ObjectStore, StoreError
from tests.stories.fleet import START, Fleet, a_policy


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
        with suppress(NothingStaged):  # the other's commit took ours along before this one began
            assert collection in revisions.commit(collection, START)[0].about.collections

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


# -- one way: a dry run is the commit without its writing


def keys_of(revisions: Revisions) -> list[str]:
    return [key for prefix in ("staged/", "revisions/", "tags/") for key in revisions._store.keys(prefix)]


EXPIRED = """\
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: p}
spec:
  kubernetes: {versions: [{version: 1.27.3}, {version: 1.26.0, expirationDate: "2020-01-01T00:00:00Z"}]}
  machineImages: [{name: linux, versions: [{version: 1.0.0}]}]
"""


def test_what_a_commit_would_refuse_its_proposal_refuses_and_writes_nothing(revisions: Revisions) -> None:
    """An expired version is refused because it is new: only what knows the time and the revision before can say so."""
    revisions.stage("c", [Source("p.yaml", EXPIRED.encode())], "eve", START)
    before = keys_of(revisions)
    with pytest.raises(DocumentsRefused) as dry:
        revisions.propose(START)
    assert keys_of(revisions) == before
    with pytest.raises(DocumentsRefused) as real:
        revisions.commit("eve", START)
    assert dry.value.problems == real.value.problems


def test_what_was_accepted_is_accepted_again_also_when_its_versions_have_expired_since(revisions: Revisions) -> None:
    document = Source("p.yaml", EXPIRED.replace("2020", "2999").encode())
    revisions.stage("c", [document], "eve", START)
    revisions.commit("eve", START)
    revisions.stage("c", [document], "eve", START)
    assert revisions.propose(START.replace(year=3000)).site.warnings == []
    assert revisions.commit("eve", START.replace(year=3000))[0].number == 2


# -- races


class Interrupted:
    """A store in which somebody else acts right before a revision is written."""

    def __init__(self, store: ObjectStore, before: Callable[[], None]) -> None:
        self._store, self._before = store, [before]

    def create(self, key: str, body: bytes) -> bool:
        if key.endswith("/revision.json") and self._before:
            self._before.pop()()
        return self._store.create(key, body)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_who_loses_the_race_to_a_commit_of_the_same_documents_gets_that_commits_revision() -> None:
    store = open_store("memory:")
    adam = Revisions(store)
    adam.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    eve = Revisions(cast("ObjectStore", Interrupted(store, lambda: adam.commit("adam", START) and None)))
    revision, _ = eve.commit("eve", START)
    assert (revision.number, revision.about.by, adam.numbers()) == (1, "adam", [1])
    with pytest.raises(NothingStaged, match="revision 1, which adam committed"):
        eve.commit("eve", START)


def test_who_loses_the_race_to_an_older_stage_gets_the_revision_that_took_theirs() -> None:
    store = open_store("memory:")
    adam, eve = Revisions(store), Revisions(store)
    adam.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "adam", START)
    old = adam.propose(START)
    eve.stage("c", [source("a.yaml", a_node_policy("n2", rack="r1"))], "eve", START)

    def adam_commits_the_old_stage_and_zoe_the_new_one() -> None:
        assert adam._made(old, "adam", START, "", "")
        Revisions(store).commit("zoe", START)

    eve._store = cast("ObjectStore", Interrupted(store, adam_commits_the_old_stage_and_zoe_the_new_one))
    revision, _ = eve.commit("eve", START)
    assert (revision.number, revision.about.by, [node.name for node in revision.nodes()]) == (2, "zoe", ["n2"])


def test_who_loses_the_race_begins_again_on_top_of_the_winner() -> None:
    store = open_store("memory:")
    adam = Revisions(store)
    adam.stage("one", [source("a.yaml", a_node_policy("n1", rack="r1"))], "adam", START)

    def another_stages_and_commits() -> None:
        adam.commit("adam", START)
        adam.stage("two", [source("b.yaml", a_node_policy("n2", rack="r1"))], "eve", START)

    eve = Revisions(cast("ObjectStore", Interrupted(store, another_stages_and_commits)))
    revision, _ = eve.commit("eve", START)
    assert (revision.number, revision.about.by, list(revision.about.collections)) == (2, "eve", ["one", "two"])


def test_a_number_that_a_listing_does_not_show_yet_is_not_taken_twice(revisions: Revisions) -> None:
    first = revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)

    class Lagging:
        """A store whose listings show nothing yet."""

        def keys(self, prefix: str, after: str = "") -> list[str]:
            return []

        def __getattr__(self, name: str) -> Any:
            return getattr(revisions._store, name)

    Revisions(cast("ObjectStore", Lagging())).stage("c", [source("a.yaml", a_node_policy("n2", rack="r1"))], "adam", START)
    assert revisions.staged("staged/c/000001.json") == first
    assert revisions.staged("staged/c/000002.json").by == "adam"


def test_to_know_the_newest_revision_reads_one_object_however_many_there_are(revisions: Revisions) -> None:
    for number in range(3):
        revisions.stage("c", [source("a.yaml", a_node_policy(f"n{number}", rack="r1"))], "eve", START)
        revisions.commit("eve", START)
    assert revisions.newest() == 3
    calls: list[str] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                calls.append(f"{name} {args[0]}")
                return getattr(store, name)(*args, **kwargs)

            return call

    store, revisions._store = revisions._store, cast("ObjectStore", Counted())
    assert revisions.newest() == 3
    assert calls == ["get revisions/000004/revision.json"]
    cold = Revisions(cast("ObjectStore", Counted()))
    assert (cold.newest(), calls[1:]) == (3, ["keys heads/", "get revisions/000003/revision.json", calls[0]])


# -- emptied, removed, restored


@pytest.mark.parametrize("text", [b"", b"# a comment\n", b"---\n---\n", b"kind: List\nitems: []\n"])
def test_a_stage_without_any_document_is_refused_and_says_how_it_is_meant(revisions: Revisions, text: bytes) -> None:
    with pytest.raises(EmptyStage, match="hullmark documents remove c"):
        revisions.stage("c", [Source("a.yaml", text)], "eve", START)
    with pytest.raises(EmptyStage):
        revisions.stage("c", [], "eve", START)
    assert keys_of(revisions) == []
    revisions.stage("c", [Source("a.yaml", text), source("b.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    revisions.stage("c", [Source("a.yaml", b"a: [")], "eve", START)


def test_a_removed_collection_is_gone_with_the_next_commit_and_stays_gone(revisions: Revisions) -> None:
    for name in ("one", "two"):
        revisions.stage(name, [source("a.yaml", a_node_policy(f"node-{name}", rack="r1"))], "eve", START)
    revisions.commit("eve", START)
    revisions.remove("one", "eve", START)
    assert list(revisions.buffers()) == ["one"]
    revision, _ = revisions.commit("eve", START)
    assert [node.name for node in revision.nodes()] == ["node-two"]
    assert list(revision.about.collections) == ["two"]
    assert revisions.buffers() == {}
    revisions.remove("two", "eve", START)
    assert list(revisions.commit("eve", START)[0].nodes()) == []
    revisions.stage("one", [source("a.yaml", a_node_policy("node-one", rack="r1"))], "eve", START)
    assert [node.name for node in revisions.commit("eve", START)[0].nodes()] == ["node-one"]


def test_what_was_only_staged_is_removed_from_its_buffer_and_what_is_unknown_is_refused(revisions: Revisions) -> None:
    revisions.stage("one", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    with pytest.raises(UnknownCollection, match="no collection two; there are: one"):
        revisions.remove("two", "eve", START)
    revisions.remove("one", "eve", START)
    with pytest.raises(NothingStaged):
        revisions.commit("eve", START)


def test_a_restored_revision_holds_the_old_documents_and_leaves_what_is_staged_staged(revisions: Revisions) -> None:
    revisions.stage("c", [source("a.yaml", a_node_policy("n1", rack="r1"))], "eve", START)
    revisions.commit("eve", START, message="the first", source="git:1234")
    revisions.stage("c", [source("a.yaml", a_node_policy("n2", rack="r1"))], "eve", START)
    revisions.stage("d", [source("b.yaml", a_node_policy("n3", rack="r1"))], "eve", START)
    revisions.commit("eve", START)
    revisions.stage("d", [source("b.yaml", a_node_policy("n4", rack="r1"))], "eve", START)

    revision, rejected = revisions.restore(1, "adam", START)
    assert rejected == [2]

    about = revision.about
    assert (about.number, about.by, about.message, about.digest) == (3, "adam", "restores revision 1", revisions.get(1).about.digest)
    assert (revisions.get(1).about.message, revisions.get(1).about.source) == ("the first", "git:1234")
    assert [node.name for node in revision.nodes()] == ["n1"]
    assert list(revisions.buffers()) == ["d"]
    assert [node.name for node in revisions.commit("eve", START)[0].nodes()] == ["n1", "n4"]
    assert revisions.buffers() == {}
    with pytest.raises(UnknownRevision):
        revisions.restore(9, "adam", START)


def test_a_restored_profile_is_accepted_although_its_versions_have_expired(revisions: Revisions) -> None:
    revisions.stage("c", [Source("p.yaml", EXPIRED.replace("2020", "2999").encode())], "eve", START)
    revisions.commit("eve", START)
    revisions.remove("c", "eve", START)
    revisions.commit("eve", START)
    assert revisions.restore(1, "eve", START.replace(year=3000))[0].about.documents == 1


def test_a_site_that_an_earlier_version_accepted_can_be_committed_on(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes without hardware profile were no problem then."""
    bare = {
        "schema": "drydock/BaremetalNode/v1",
        "metadata": {"schema": "metadata/Document/v1", "name": "n1"},
        "data": {"addressing": [{"network": "mgmt", "address": "10.0.0.1"}]},
    }
    with monkeypatch.context() as earlier:
        earlier.setattr("shared.domain.documents.airship._Resolver.check_hardware", lambda *_: None)
        fleet.commits(bare)
    assert fleet.commits(bare, a_policy("p", {}, {"rack": "r1"})) == 2
    bare["data"]["addressing"][0]["address"] = "10.0.0.2"  # type: ignore[index]
    with pytest.raises(DocumentsRefused, match="n1 has no hardware profile"):
        fleet.commits(bare)
