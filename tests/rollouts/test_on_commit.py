"""`start: onCommit`: a commit starts its rollouts, once, whoever is cut off and whatever is on its way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
import yaml

from shared.domain.documents.reading import DocumentsRefused, Source
from shared.domain.rollouts.on_commit import OnCommit
from shared.ports import StoreError
from shared.work.commits import commit, restore, would_commit
from tests.rollouts.rolling import CANARY, HALF, Rolling, a_rollout
from tests.stories.clusters import LABELS, Clusters, a_cluster
from tests.stories.fleet import a_policy

SOON = a_rollout(CANARY, start="onCommit")
EVERY = [f"n{number}" for number in range(10)]


def merges(fleet: Rolling, tier: str, *documents: Mapping[str, Any], drain: bool = True) -> list[OnCommit]:
    """Stage and commit, as a merge to main does; what starts with it."""
    text = yaml.safe_dump_all([a_policy("tiers", {}, {"tier": tier}), *documents])
    fleet.world.revisions.stage("site", [Source("site.yaml", text.encode())], "ada", fleet.now)
    made = commit(fleet.world, "ada", fleet.now)
    if drain:
        fleet.cloud.drain()
    fleet.rollout = next((each.id for each in made.rollouts if each.id), "")
    return made.rollouts


@pytest.fixture
def fleet() -> Rolling:
    """Ten nodes that have `tier: old`."""
    fleet = Rolling()
    fleet.has_nodes(**{name: {} for name in EVERY})
    fleet.commits(a_policy("tiers", {}, {"tier": "old"}))
    fleet.relabels()
    return fleet


def test_a_commit_starts_its_rollout_and_says_which(fleet: Rolling) -> None:
    (started,) = merges(fleet, "new", SOON)
    assert (started.name, started.clusters, started.reason) == ("careful", ["default"], "")
    assert (fleet.new(), fleet.status.reason, fleet.status.started_by) == (["n0"], "Soaking", "ada")
    fleet.later(minutes=10)
    assert (fleet.new(), fleet.status.phase) == (EVERY, "done")


def test_a_rollout_that_is_started_by_hand_is_not_started_by_a_commit(fleet: Rolling) -> None:
    assert merges(fleet, "new", a_rollout(CANARY)) == []
    fleet.later(minutes=10)
    assert (fleet.new(), fleet.world.rollouts.ids()) == ([], [])


def test_a_dry_run_says_what_would_start_and_starts_nothing(fleet: Rolling) -> None:
    text = yaml.safe_dump_all([a_policy("tiers", {}, {"tier": "new"}), SOON])
    fleet.world.revisions.stage("site", [Source("site.yaml", text.encode())], "ada", fleet.now)
    (would,) = would_commit(fleet.world, fleet.now).rollouts
    assert (would.name, would.id, would.reason) == ("careful", "", "")
    fleet.later(minutes=10)
    assert (fleet.new(), fleet.world.rollouts.ids()) == ([], [])


@pytest.mark.parametrize("breaks", ["rollouts-begun/", "open-rollouts/", "rollouts/"])
def test_a_commit_that_is_cut_off_before_its_rollout_is_recorded_is_made_up_for_by_the_clock_once(fleet: Rolling, breaks: str) -> None:
    create, away = fleet.world.store.create, [True]

    def cut_off(key: str, body: bytes) -> bool:
        if away and key.startswith(breaks):
            raise StoreError("the bucket is away")
        return create(key, body)

    fleet.world.store.create = cut_off  # type: ignore[method-assign]
    (promised,) = merges(fleet, "new", SOON)
    away.clear()
    fleet.later(minutes=1)
    fleet.later(minutes=1)
    assert fleet.world.rollouts.ids() == [promised.id]
    assert fleet.new() == ["n0"]


def test_a_commit_whose_writer_is_killed_starts_its_rollout_by_the_clock(fleet: Rolling) -> None:
    fleet.commits(a_policy("tiers", {}, {"tier": "new"}), SOON, adopted=False)
    fleet.later(minutes=1)
    assert fleet.new() == ["n0"]
    assert len(fleet.world.rollouts.ids()) == 1


def test_what_a_person_ended_is_not_started_again_by_the_clock(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    fleet.says("abort")
    fleet.later(hours=1)
    assert (fleet.new(), fleet.world.rollouts.ids()) == (["n0"], [fleet.rollout])


def test_the_clock_does_not_judge_a_commit_anew(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    first = fleet.rollout
    (none,) = merges(fleet, "new", SOON, {"apiVersion": "hullmark.dev/v1", "kind": "Limits", "metadata": {"name": "limits"}})
    assert none.reason == "NothingToRelease"
    fleet.rollout = first
    fleet.says("abort")
    fleet.later(hours=1)
    assert (fleet.new(), fleet.world.rollouts.ids()) == (["n0"], [first])


def test_a_commit_during_a_pause_starts_a_rollout_that_waits(fleet: Rolling) -> None:
    fleet.world.pauses.say("pause", "ada", fleet.now, "network maintenance")
    merges(fleet, "new", SOON)
    assert (fleet.status.reason, fleet.new()) == ("Paused", [])
    fleet.world.pauses.say("resume", "ada", fleet.now)
    fleet.later(minutes=1)
    assert fleet.new() == ["n0"]


def test_a_commit_during_a_freeze_starts_a_rollout_that_waits(fleet: Rolling) -> None:
    until = fleet.now + timedelta(hours=1)
    span = {"from": fleet.now.isoformat(), "until": until.isoformat(), "reason": "closing"}
    merges(fleet, "new", SOON, {"apiVersion": "hullmark.dev/v1", "kind": "Freeze", "metadata": {"name": "now"}, "spec": span})
    assert (fleet.status.reason, fleet.new()) == ("Frozen", [])
    fleet.later(hours=1)
    assert fleet.new() == ["n0"]


def test_a_newer_commit_takes_the_place_of_the_rollout_that_is_on_its_way_and_begins_with_what_it_reached(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    first = fleet.rollout
    other = {"name": "canary", "nodes": {"names": ["n1"]}, "soak": "10m"}
    merges(fleet, "newer", a_rollout(other, start="onCommit"))
    assert fleet.world.rollouts.get(first).phase == "superseded"
    assert fleet.world.rollouts.get(fleet.rollout).replaces == [first]
    assert {name for name, tier in fleet.tiers().items() if tier == "newer"} == {"n0", "n1"}
    fleet.says("revert")
    assert set(fleet.tiers().values()) == {"old"}


def test_what_a_person_paused_stays_paused_when_a_newer_commit_takes_its_place(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    fleet.says("pause", message="the switch is being replaced")
    merges(fleet, "newer", SOON)
    assert (fleet.status.phase, "the switch is being replaced" in fleet.status.message) == ("paused", True)
    assert fleet.new() == ["n0"]
    fleet.says("resume")
    assert (fleet.status.phase, fleet.tiers()["n0"]) == ("running", "newer")


def test_two_commits_at_once_leave_the_rollout_of_the_newer_one(fleet: Rolling) -> None:
    (older,) = merges(fleet, "new", SOON, drain=False)
    (newer,) = merges(fleet, "newer", SOON, drain=False)
    fleet.cloud._queue.reverse()  # the newer one's step comes first
    fleet.cloud.drain()
    fleet.later(minutes=1)
    phases = {rollout: fleet.world.rollouts.get(rollout).phase for rollout in (older.id, newer.id)}
    assert phases == {older.id: "superseded", newer.id: "running"}
    assert (fleet.new(), fleet.tiers()["n0"]) == ([], "newer")


def test_a_commit_that_changes_nothing_for_the_rollouts_clusters_starts_nothing_and_says_so(fleet: Rolling) -> None:
    (none,) = merges(fleet, "old", SOON)
    assert (none.id, none.reason) == ("", "NothingToRelease")
    fleet.later(minutes=1)
    assert fleet.world.rollouts.ids() == []


def test_a_commit_that_changes_nothing_leaves_the_rollout_that_is_on_its_way_alone(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    under_way = fleet.rollout
    limits = {"apiVersion": "hullmark.dev/v1", "kind": "Limits", "metadata": {"name": "limits"}, "spec": {"removals": {"nodes": 1}}}
    (none,) = merges(fleet, "new", SOON, limits)
    assert none.reason == "NothingToRelease"
    fleet.later(minutes=10)
    assert fleet.world.rollouts.get(under_way).phase == "done"


def test_an_aborted_rollouts_documents_committed_again_start_again(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    fleet.says("abort")
    merges(fleet, "new", SOON, {"apiVersion": "hullmark.dev/v1", "kind": "Limits", "metadata": {"name": "limits"}})
    fleet.later(minutes=10)
    assert (fleet.new(), fleet.status.phase) == (EVERY, "done")


def test_what_a_person_took_back_is_not_brought_again_by_the_next_commit_that_says_the_same(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    fleet.says("revert")
    (none,) = merges(fleet, "new", SOON, {"apiVersion": "hullmark.dev/v1", "kind": "Limits", "metadata": {"name": "limits"}})
    assert none.reason == "RejectedBefore"
    fleet.later(minutes=10)
    assert fleet.new() == []
    merges(fleet, "newer", SOON)
    assert fleet.tiers()["n0"] == "newer"


def test_a_restore_starts_the_rollout_of_what_it_restores(fleet: Rolling) -> None:
    merges(fleet, "newer", SOON)
    fleet.later(minutes=10)
    merges(fleet, "new", SOON)
    fleet.later(minutes=10)
    assert fleet.new() == EVERY
    made = restore(2, fleet.world, "ada", fleet.now)
    fleet.cloud.drain()
    assert made.rollouts[0].id
    assert {name for name, tier in fleet.tiers().items() if tier == "newer"} == {"n0"}


def test_a_rollout_that_a_commit_started_waits_until_the_site_action_before_it_has_ended(fleet: Rolling) -> None:
    merges(fleet, "newer")
    action = fleet.sends(name="update_site")
    while "node-applies" not in {waiting.topic for waiting in fleet.cloud._queue}:
        fleet.cloud._deliver(fleet.cloud._queue.pop(0))
    held = [waiting for waiting in fleet.cloud._queue if waiting.topic == "node-applies"]
    fleet.cloud._queue[:] = [waiting for waiting in fleet.cloud._queue if waiting not in held]
    (started,) = merges(fleet, "new", SOON)
    assert (fleet.status.reason, action in fleet.status.message) == ("ActionRunning", True)
    assert fleet.world.releases.head("default").about.next is None
    fleet.cloud._queue.extend(held)
    fleet.cloud.drain()
    fleet.later(minutes=1)
    assert (fleet.new(), fleet.rollout) == (["n0"], started.id)


def test_several_rollouts_start_with_a_commit_where_their_clusters_are_others_and_only_where_something_changes() -> None:
    site = Clusters()
    for name in LABELS:
        site.relabels(cluster=name)
    clusters = [a_cluster(name, labels) for name, labels in LABELS.items()]
    starts = [
        a_rollout(name="dev", start="onCommit", clusters={"matchLabels": {"env": "dev"}}, health={"nodesReady": False}),
        a_rollout(name="prod", start="onCommit", clusters={"matchLabels": {"env": "prod"}}, health={"nodesReady": False}),
    ]
    own = {"clusters": {"names": ["east"]}}
    documents = [a_policy("rack", {"names": ["n1", "n2"]}, {"rack": "r1"}), a_policy("lane", {}, {"lane": "fast"}, **own)]
    site.world.revisions.stage(
        "site", [Source("site.yaml", yaml.safe_dump_all([*documents, *clusters, *starts]).encode())], "ada", site.now
    )
    dev, prod = commit(site.world, "ada", site.now).rollouts
    site.cloud.drain()
    assert (dev.clusters, dev.reason, prod.clusters, prod.reason) == (["east"], "", ["north", "west"], "NothingToRelease")
    assert site.world.rollouts.get(dev.id).phase == "done"
    lanes = {name: [node.labels.get("lane") for node in cluster.nodes()] for name, cluster in site.clusters.items()}
    assert lanes == {"east": ["fast", "fast"], "north": [None, None], "west": [None, None]}


def test_a_rollout_that_means_no_cluster_does_not_start_and_the_commit_says_so(fleet: Rolling) -> None:
    (none,) = merges(fleet, "new", a_rollout(CANARY, start="onCommit", clusters={"names": ["nowhere"]}))
    assert (none.id, none.reason) == ("", "NoClusterMeant")


def test_two_rollouts_that_would_start_in_one_cluster_are_refused_with_the_place(fleet: Rolling) -> None:
    with pytest.raises(DocumentsRefused) as refused:
        merges(fleet, "new", SOON, a_rollout(HALF, name="bold", start="onCommit"))
    (problem,) = refused.value.problems
    assert (problem.path, "Rollout/careful starts with each commit in cluster default already" in problem.message) == ("spec.start", True)


def test_a_rollout_begins_in_no_cluster_where_a_newer_revisions_is_on_its_way(fleet: Rolling) -> None:
    merges(fleet, "new", SOON)
    chain = fleet.world.releases
    before = chain.head("default").k
    chain.begin_rollout("default", "01M7ZBXTWV1ZFW0GSK0VTJ4ER0", 1, since=before, by="ada", at=fleet.now)
    assert chain.head("default").k == before
