"""A store that the last release without releases wrote: everything works on it, and reads it as if its newest site action were released."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from functions.api.app import application
from shared import telemetry, wiring
from shared.adapters.store import open_store
from shared.domain.labels.plans import PlanRequest
from shared.domain.labels.releases import Mark
from shared.work.commits import restore
from shared.work.plans import plan_committed
from shared.world import World
from tests.stories.fleet import START, Fleet

STORE = json.loads(Path(__file__).with_name("before_releases.json").read_text())
EVERY = PlanRequest(all=True)
FIRST = {"rack": "r7", "tier": "1"}


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Fleet]:
    """The store in a folder, taken up by this release. The simulated cluster is in it."""
    telemetry.write_to(None)
    store = open_store(f"file:{tmp_path / 'store'}")
    for key, body in STORE.items():
        store.create(key, body.encode())
    fleet = Fleet(store=f"file:{tmp_path / 'store'}")
    fleet.now = START + timedelta(hours=1)
    yield fleet
    wiring.install(None)


def labels(fleet: Fleet) -> dict[str, dict[str, str]]:
    """Of every node, without what kubelets say."""
    return {
        node.name: {key: value for key, value in node.labels.items() if key in ("rack", "row", "tier", "accelerator")}
        for node in fleet.cluster.nodes()
    }


def marks(world: World, *names: str) -> list[int]:
    look = world.releases.look()
    return [look.mark("default", name).revision for name in names]


def test_the_newest_site_action_counts_as_released_to_everybody(old: Fleet) -> None:
    assert marks(old.world, "n1", "n2", "n4", "joins-later") == [1, 1, 1, 1]
    assert old.world.releases.look().mark("default", "n1") == Mark(1)
    assert list(old.world.store.keys("releases/")) == [], "looking writes nothing"


def test_a_plan_is_for_the_newest_commit_and_drift_for_the_site_action(old: Fleet) -> None:
    newest = plan_committed(EVERY, old.world)
    assert newest.revision == 3
    assert {name: (node.set, node.remove) for name, node in newest.nodes.items()} == {
        "n1": ({"rack": "r9"}, ["accelerator", "row"]),
        "n2": ({"rack": "r9"}, ["tier"]),
        "n3": ({"rack": "r9"}, ["tier"]),
    }
    drift = plan_committed(PlanRequest(all=True, released=True), old.world)
    assert {name: (node.set, node.remove) for name, node in drift.nodes.items()} == {"n1": (FIRST, ["row"])}, "its relabel was no release"
    assert newest.waits is not None
    assert newest.blocked == {}, "whatever any revision of then declared is ours"


def test_a_sweep_repairs_to_the_site_action_and_brings_nothing_that_waits(old: Fleet) -> None:
    assert old.outcome(old.relabels(name="drift_sweep"))["n1"] == "changed"
    assert labels(old) == {"n1": {"accelerator": "hopper", **FIRST}, "n2": FIRST, "n3": FIRST, "n4": {}}


def test_a_relabel_of_one_node_releases_to_it_alone(old: Fleet) -> None:
    assert old.outcome(old.relabels("n2")) == {"n2": "changed"}
    assert labels(old)["n2"] == {"rack": "r9"}
    assert marks(old.world, "n1", "n2", "n3") == [1, 3, 1]
    old.relabels(name="drift_sweep")
    assert labels(old)["n2"] == {"rack": "r9"}
    assert labels(old)["n3"] == FIRST


def test_a_site_action_releases_to_all_and_removes_what_only_a_relabel_of_then_had_set(old: Fleet) -> None:
    blocked = old.relabels()
    assert old.ended(blocked).result == "blocked", "limits hold on an old store, too"
    done = old.relabels(accept_removals=3)
    assert old.ended(done).result == "success"
    assert labels(old) == {"n1": {"rack": "r9"}, "n2": {"rack": "r9"}, "n3": {"rack": "r9"}, "n4": {}}
    assert marks(old.world, "n1", "n4") == [3, 3]


def test_labels_are_put_on_a_node_and_kept(old: Fleet) -> None:
    wiring.install(old.world)
    answer = application().test_client().put("/v1.0/node-labels/n3", json={"rack": "by-hand"})
    assert (answer.status_code, answer.get_json()["changes"]) == (200, {"set": {"rack": "by-hand"}, "remove": ["tier"]})
    old.relabels(name="drift_sweep")
    assert labels(old)["n3"] == {"rack": "by-hand"}
    assert marks(old.world, "n1", "n2") == [1, 1]


def test_a_revision_of_then_is_restored_and_released(old: Fleet) -> None:
    revision, rejected, _ = restore(1, old.world, "ada", old.now)
    assert (revision.number, rejected) == (4, [2, 3])
    assert old.ended(old.relabels()).result == "success"
    assert labels(old) == {"n1": {"accelerator": "hopper", **FIRST}, "n2": FIRST, "n3": FIRST, "n4": {}}
    assert marks(old.world, "n1", "n4") == [4, 4]


def test_what_was_only_committed_after_the_upgrade_explains_nothing(old: Fleet) -> None:
    """A commit of then may be on any node; a later one only once it is released."""
    old.relabels("n2")
    old.cluster.apply_labels("n3", old.node("n3").uid, {**FIRST, "team": "theirs"})
    old.declares({"n1": {"team": "ours"}}, adopted=False)
    assert plan_committed(PlanRequest(target_nodes=["n3"]), old.world).nodes["n3"].remove == ["tier"]
    old.relabels("n3")
    assert old.labels("n3") == {"owner": "platform", "rack": "r9", "team": "theirs"}


def test_its_actions_and_documents_are_shown(old: Fleet) -> None:
    assert len(old.world.actions.ids()) == 2
    assert [old.world.actions.lifecycle(action) for action in old.world.actions.ids()] == ["Complete", "Complete"]
    assert [about.number for about, trouble in old.world.revisions.listed() if not trouble] == [1, 2, 3]
    assert old.world.revisions.get(3).about.label_keys is None
    assert next(iter(old.world.revisions.files(1).values()))[0].file == "./one.yaml"


def test_another_process_goes_on_where_the_first_one_left_it(old: Fleet, tmp_path: Path) -> None:
    old.relabels("n2")
    again = Fleet(store=f"file:{tmp_path / 'store'}")
    assert marks(again.world, "n1", "n2") == [1, 3]
