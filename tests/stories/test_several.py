"""One action over several clusters: an action for each of them, rolled up, steered and retried as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from functions.relabel_request.main import handle
from functions.result_rollup.main import sweep
from shared import wiring
from shared.domain.actions import children_of
from shared.domain.labels import impact
from shared.domain.labels.impact import Accepting
from shared.ledger.actions import WrongState
from shared.ledger.releases import Releases
from shared.messages import RelabelRequest
from shared.work.control import control, retried
from tests.stories.clusters import LABELS, Clusters, a_cluster
from tests.stories.fleet import a_policy

EVERY = ["*"]
SUCCEEDED, FAILED = ["committed", "site-action-success"], ["committed", "site-action-failure"]


@pytest.fixture
def site() -> Iterator[Clusters]:
    yield Clusters()
    wiring.install(None)


def deliver_one(site: Clusters) -> None:
    """Deliver the oldest message alone."""
    queue = site.cloud._queue
    queue.sort()
    site.cloud._deliver(queue.pop(0))


# --- which clusters


def test_a_relabel_of_every_cluster_is_one_action_with_one_for_each_of_them(site: Clusters) -> None:
    action = site.relabels(clusters=EVERY)
    assert site.racks() == {"east": "r1 r1", "north": "r1 r1", "west": "r1 r1"}
    assert (site.ended(action).result, site.ended(action).counts) == ("success", {"changed": 3})
    assert site.outcome(action) == {"east": "changed", "north": "changed", "west": "changed"}
    assert [(cluster, child.counts) for cluster, child in site.children(action).items()] == [
        (cluster, {"changed": 2}) for cluster in ("east", "north", "west")
    ]
    assert {site.world.actions.request(site.child(action, cluster)).parent for cluster in site.clusters} == {action}


@pytest.mark.parametrize(
    ("clusters", "meant"),
    [
        (["west", "east"], ["east", "west"]),
        ("west, east", ["east", "west"]),
        ("*", ["east", "north", "west"]),
        ({"matchLabels": {"env": "prod"}}, ["north", "west"]),
        ({"names": ["east", "north"]}, ["east", "north"]),
        ({"names": ["east", "north"], "matchLabels": {"env": "prod"}}, ["north"]),
        ({"matchLabels": {"env": "dev"}}, ["east"]),
        (["west"], ["west"]),
    ],
)
def test_clusters_are_chosen_by_name_and_by_label(site: Clusters, clusters: Any, meant: list[str]) -> None:
    action = site.relabels(clusters=clusters)
    assert site.racks() == {name: "r1 r1" if name in meant else "- -" for name in site.clusters}
    asked = site.world.actions.request(action)
    assert (asked.clusters, asked.cluster) == ((meant, "") if len(meant) > 1 else (None, meant[0]))


THERE = "(there: east, north, west)"
NAME_IT = "name the cluster: the revision declares east, north, west"


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"name": "update_site"}, f'{NAME_IT}; or ask for all of them: `--all-clusters`, in requests `"clusters": "*"`'),
        (
            {"name": "update_site", "clusters": ["east", "wets", "q"]},
            f"no cluster 'wets': did you mean west? {THERE}; no cluster 'q' {THERE}",
        ),
        (
            {"name": "update_site", "clusters": {"matchLabels": {"env": "test"}}},
            "no cluster has env=test; there: east (env=dev), north (env=prod, tier=gold), west (env=prod)",
        ),
        ({"target_nodes": ["n1"]}, NAME_IT),
    ],
)
def test_clusters_that_are_not_there_are_refused_with_those_that_are(site: Clusters, request_: dict[str, Any], says: str) -> None:
    site.world.revisions.tag(site.revision, "site-action-success", "an operator", site.now)
    action = site.sends(**request_)
    site.cloud.drain()
    assert site.world.actions.find(action) is None
    (refused,) = site.notices("request.refused")
    assert "; ".join(problem["message"] for problem in refused["problems"]) == says


def test_every_cluster_is_those_of_the_documents_and_the_cluster_of_the_settings_is_meant_by_name(site: Clusters) -> None:
    site.world.settings = site.world.settings.model_copy(update={"cluster": "simulated:elsewhere"})
    asked = [
        site.world.actions.request(site.sends_and_delivers(clusters=clusters)).clusters for clusters in ("*", "default,east", "*,default")
    ]
    assert asked == [["east", "north", "west"], ["default", "east"], ["default", "east", "north", "west"]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "update_site", "cluster": "east", "clusters": ["west"]},
        {"target_nodes": ["n1"], "clusters": ["west"]},
        {"name": "update_site", "clusters": {}},
        {"name": "update_site", "clusters": {"matchLabel": {"a": "b"}}},
        {"name": "update_site", "clusters": {"names": []}},
        {"name": "update_site", "clusters": 3},
    ],
)
def test_what_names_clusters_in_two_ways_or_in_none_is_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RelabelRequest.model_validate(wrong)


def test_a_filter_means_the_nodes_of_every_cluster(site: Clusters) -> None:
    site.world.revisions.tag(site.revision, "site-action-success", "an operator", site.now)
    which = {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["n2"]}]}
    action = site.sends(node_filter=which, clusters=["east", "west"])
    site.cloud.drain()
    assert site.racks() == {"east": "- r1", "north": "- -", "west": "- r1"}
    assert site.ended(action).result == "success"


def test_clusters_that_are_in_sync_are_unchanged_and_a_dry_run_writes_to_none(site: Clusters) -> None:
    rehearsed = site.relabels(clusters=EVERY, dry_run=True)
    assert site.racks() == dict.fromkeys(site.clusters, "- -")
    assert {told.reason for told in site.ended(rehearsed).outcomes} == {"DryRun"}
    assert site.world.revisions.tags(site.revision) == ["committed"]
    site.relabels(clusters=EVERY)
    again = site.relabels(clusters=EVERY)
    assert (site.ended(again).result, site.ended(again).counts) == ("success", {"unchanged": 3})


# --- how it ends


def test_a_cluster_that_does_not_answer_fails_alone_and_a_retry_asks_it_alone(site: Clusters) -> None:
    site.does_not_answer("north")
    action = site.relabels(clusters=EVERY)
    assert site.racks() == {"east": "r1 r1", "north": "- -", "west": "r1 r1"}
    ended = site.ended(action)
    assert (ended.result, ended.counts) == ("partial_success", {"changed": 2, "failed": 1})
    (north,) = [told for told in ended.outcomes if told.subject == "north"]
    assert (north.reason, north.retryable) == ("Unavailable", True)
    assert "north does not answer" in north.message
    assert f"action {site.child(action, 'north')}" in north.message
    assert site.world.revisions.tags(site.revision) == FAILED

    site.answers("north")
    again = retried(action, "an operator", site.world)
    assert (again.clusters, again.retry_of) == (["north"], action)
    site.relabels(**again.model_dump(include={"action", "clusters", "retry_of"}))
    assert site.racks()["north"] == "r1 r1"


def test_the_revision_is_tagged_once_and_by_the_parent(site: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    tagged: list[int] = []
    tag = site.world.revisions.tag

    def counted(number: int, *rest: Any) -> None:
        tagged.append(number)
        tag(number, *rest)

    monkeypatch.setattr(site.world.revisions, "tag", counted)
    site.relabels(clusters=EVERY)
    assert (tagged, site.world.revisions.tags(site.revision)) == ([site.revision], SUCCEEDED)


def test_a_cluster_some_of_whose_nodes_fail_has_partly_succeeded(site: Clusters) -> None:
    for name in ("east", "west"):
        site.clusters[name].delete("n2")
    action = site.relabels(clusters=["east", "west"])
    ended = site.ended(action)
    assert (ended.result, ended.counts) == ("partial_success", {"failed": 2})
    assert [(told.subject, told.reason) for told in ended.outcomes] == [("east", "PartialSuccess"), ("west", "PartialSuccess")]
    assert ended.outcomes[0].message.startswith("1 changed, 1 missing; action ")
    assert retried(action, "an operator", site.world).clusters == ["east", "west"]


def test_one_notice_tells_of_the_whole_and_names_its_parts(site: Clusters) -> None:
    action = site.relabels(clusters=["east", "west"])
    told = {notice["id"]: notice for notice in site.notices("action.finished")}
    east = site.child(action, "east")
    assert (told[action]["parent"], told[action]["clusters"]["east"], told[east]["parent"]) == (None, east, action)


def test_a_list_shows_the_whole_and_not_its_parts(site: Clusters) -> None:
    first, second = site.relabels(clusters=EVERY), site.relabels(cluster="east")
    assert site.world.actions.ids() == [first, second]
    assert site.world.actions.ids(limit=1) == [second]


def test_actions_on_the_clusters_are_forgotten_with_their_parent(site: Clusters) -> None:
    site.relabels(clusters=EVERY)
    assert site.world.actions.forget(site.now + timedelta(days=1), 50) == 4
    assert not site.world.store.keys("actions/")


# --- delivered again, cut off, late


def test_a_second_delivery_makes_the_same_actions_and_no_more(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    message = site.cloud._queue[0].message
    deliver_one(site)
    before = site.world.store.keys("actions/")
    again = RelabelRequest.parse(message.data)
    assert handle(again, action, site.world, site.now + timedelta(minutes=5)) == "3 clusters"
    assert site.world.store.keys("actions/") == before
    site.cloud.drain()
    assert handle(again, action, site.world, site.now) == "ended already"
    assert site.ended(action).counts == {"changed": 3}


def test_a_parent_that_ends_by_its_deadline_says_what_is_known_of_its_clusters(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    for child in children_of(site.world.actions.request(action))[:1]:
        site.cloud._deliver(next(one for one in site.cloud._queue if child.id.encode() in one.message.data))
        site.cloud._queue[:] = [one for one in site.cloud._queue if one.topic == "node-applies"]
    deliver_one(site)  # the nodes of east
    deliver_one(site)  # its result: east has ended, and the parent is not told yet
    site.cloud._queue.clear()
    site.now = site.world.actions.request(action).deadline
    sweep(site.world, site.now)
    site.cloud.drain()
    sweep(site.world, site.now)
    ended = site.ended(action)
    assert ended.result == "expired"
    assert [(told.subject, told.outcome, told.reason) for told in ended.outcomes] == [
        ("east", "changed", ""),
        ("north", "failed", "Expired"),
        ("west", "failed", "Expired"),
    ]
    assert site.world.actions.open() == []
    assert retried(action, "an operator", site.world).clusters == ["north", "west"]


# --- stop, pause, unpause, retry


def test_a_stop_reaches_every_cluster(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    control(action, "stop", "eve", site.world, site.now)
    site.cloud.drain()
    assert site.racks() == dict.fromkeys(site.clusters, "- -")
    assert (site.ended(action).result, site.ended(action).counts) == ("stopped", {"stopped": 3})
    assert [command.by for command in site.world.actions.commands(site.child(action, "west"))] == ["eve"]
    assert site.world.revisions.tags(site.revision) == FAILED
    with pytest.raises(WrongState):
        control(action, "stop", "eve", site.world, site.now)


def test_a_stop_before_anything_was_sent_out_reaches_every_cluster_too(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    stopped: list[str] = []
    accept = site.world.actions.accept

    def accept_and_stop(request: Any) -> Any:
        accepted = accept(request)
        if request.id == action and not stopped:
            stopped.append(action)
            control(action, "stop", "eve", site.world, site.now)
        return accepted

    site.world.actions.accept = accept_and_stop  # type: ignore[method-assign]
    site.cloud.drain()
    assert site.racks() == dict.fromkeys(site.clusters, "- -")
    assert site.ended(action).result == "stopped"


def test_a_pause_holds_every_cluster_until_the_unpause(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    control(action, "pause", "eve", site.world, site.now)
    site.cloud.drain()
    assert site.racks() == dict.fromkeys(site.clusters, "- -")
    assert site.world.actions.lifecycle(action) == "Paused"
    control(action, "unpause", "eve", site.world, site.now)
    site.cloud.drain()
    assert site.ended(action).result == "success"
    assert site.racks() == dict.fromkeys(site.clusters, "r1 r1")


@pytest.mark.parametrize(
    ("verbs", "state"),
    [(["pause"], "Paused"), (["pause", "unpause"], "Complete"), (["pause", "unpause", "pause"], "Paused"), (["pause", "stop"], "Failed")],
)
@pytest.mark.parametrize("moment", ["recorded", "half recorded", "published"])
def test_verbs_given_while_the_clusters_are_sent_out_reach_them_all(site: Clusters, verbs: list[str], state: str, moment: str) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    at_call = {"recorded": 1, "half recorded": 3, "published": 5}[moment]
    calls: list[str] = []
    accept, publish = site.world.actions.accept, site.cloud.publish

    def meanwhile(act: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            done = act(*args)
            calls.append(act.__name__)
            if len(calls) == at_call:
                for verb in verbs:
                    control(action, verb, "eve", site.world, site.now)
            return done

        return counted

    site.world.actions.accept = meanwhile(accept)  # type: ignore[method-assign]
    site.world.bus.publish = meanwhile(publish)  # type: ignore[method-assign]
    site.cloud.drain()
    assert site.world.actions.lifecycle(action) == state
    assert {site.world.actions.lifecycle(site.child(action, name)) for name in site.clusters} == {state}


@pytest.mark.parametrize(("first", "then", "state"), [("pause", "unpause", "Complete"), ("pause", "stop", "Failed")])
def test_two_verbs_at_one_moment_leave_every_cluster_as_the_last_one_says(
    site: Clusters, monkeypatch: pytest.MonkeyPatch, first: str, then: str, state: str
) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    ledger, given = site.world.actions.control, list[str]()

    def slow(subject: str, verb: str, by: str, now: Any) -> None:
        ledger(subject, verb, by, now)
        if subject == site.child(action, "east") and not given:  # somebody else, while the first verb has reached east alone
            given.append(then)
            ledger(action, then, "adam", now)

    monkeypatch.setattr(site.world.actions, "control", slow)
    control(action, first, "eve", site.world, site.now)
    site.cloud.drain()
    assert given == [then]
    assert {site.world.actions.lifecycle(site.child(action, name)) for name in site.clusters} == {state}


def test_a_cluster_can_be_stopped_alone(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    control(site.child(action, "west"), "stop", "eve", site.world, site.now)
    site.cloud.drain()
    assert site.racks() == {"east": "r1 r1", "north": "r1 r1", "west": "- -"}
    assert (site.ended(action).result, site.outcome(action)["west"]) == ("stopped", "stopped")


def test_a_pause_that_was_cut_off_half_way_may_be_said_again(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    site.world.actions.control(action, "pause", "eve", site.now)  # and its process died
    control(action, "pause", "eve", site.world, site.now)
    site.cloud.drain()
    assert site.racks() == dict.fromkeys(site.clusters, "- -")
    with pytest.raises(WrongState):
        control(action, "pause", "eve", site.world, site.now)


def test_what_succeeded_can_not_be_retried(site: Clusters) -> None:
    action = site.relabels(clusters=EVERY)
    with pytest.raises(WrongState, match="no cluster of it failed"):
        retried(action, "eve", site.world)


def test_an_action_that_is_recorded_while_a_sweep_looks_for_old_ones_stays_out_of_lists(
    site: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    keys, folders, calls = site.world.store.keys, site.world.store.folders, list[str]()

    def meanwhile(act: Callable[..., Any]) -> Callable[..., Any]:
        def listed(*args: Any, **options: Any) -> Any:
            found = act(*args, **options)
            if args[0] in ("actions/", "actions-by-day/") and not calls:
                calls.append(args[0])
                deliver_one(site)
            return found

        return listed

    monkeypatch.setattr(site.world.store, "keys", meanwhile(keys))
    monkeypatch.setattr(site.world.store, "folders", meanwhile(folders))
    site.world.actions.list_old(site.now, 100)
    assert calls
    assert site.world.actions.ids() == [action]


# --- limits


@pytest.fixture
def three_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds without a Limits document: three nodes over all clusters, in place of a thousand."""
    monkeypatch.setattr(impact, "UNSAID", frozenset({impact.Bound(nodes=3, together=True)}))


def drops_rack(site: Clusters) -> None:
    """Bring `rack` and another label to every cluster, then commit documents without it."""
    both = {"rack": "r1", "site": "halden"}
    clusters = [a_cluster(name, labels) for name, labels in LABELS.items()]
    site.commits(a_policy("rack", {"names": ["n1", "n2"]}, both), *clusters, adopted=False)
    site.relabels(clusters=EVERY)
    site.commits(a_policy("rack", {"names": ["n1", "n2"]}, {"site": "halden"}), *clusters, adopted=False)


def test_a_limit_over_all_clusters_counts_what_the_others_lose(site: Clusters, three_in_all: None) -> None:
    drops_rack(site)
    alone = site.relabels(cluster="east")
    assert site.ended(alone).result == "success"  # two nodes
    action = site.relabels(clusters=["north", "west"])
    ended = site.ended(action)
    assert sorted(site.racks().values()) == ["- -", "- -", "r1 r1"]  # of the two, the one that was counted last waits
    assert (ended.result, ended.reason, ended.counts) == ("partial_success", "TooManyRemovals", {"changed": 1, "failed": 1})
    assert "it removes labels from 2 of 2 nodes of cluster " in ended.message
    assert "(and 2 of other clusters), more than 3 nodes over all clusters" in ended.message
    assert ended.message.endswith("to accept all of that: retry with `--accept-removals 2`")

    again = retried(action, "an operator", site.world, Accepting(accept_removals=2))
    assert again.action
    site.cloud.publish(RelabelRequest.TOPIC, [again.outgoing()])
    site.cloud.drain()
    assert site.ended(again.action).result == "success"
    assert set(site.racks().values()) == {"- -"}


def test_whoever_counts_last_sees_all_so_that_no_order_lets_more_through(site: Clusters, three_in_all: None) -> None:
    drops_rack(site)
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    for waiting in sorted(site.cloud._queue, reverse=True):
        site.cloud._queue.remove(waiting)
        site.cloud._deliver(waiting)
    site.cloud.drain()
    assert sorted(site.racks().values()) == ["- -", "r1 r1", "r1 r1"]
    assert site.ended(action).counts == {"changed": 1, "failed": 2}


def test_what_is_accepted_for_several_clusters_is_a_bound_for_all_of_them_together(site: Clusters, three_in_all: None) -> None:
    drops_rack(site)
    for accepted, result in ((3, "partial_success"), (6, "success")):
        action = site.relabels(clusters=EVERY, accept_removals=accepted)
        assert site.ended(action).result == result
    assert set(site.racks().values()) == {"- -"}


def test_where_every_cluster_is_blocked_so_is_the_whole(site: Clusters) -> None:
    site.relabels(clusters=EVERY)
    site.commits(*(a_cluster(name, labels) for name, labels in LABELS.items()), adopted=False)  # no policy is left
    action = site.relabels(clusters=EVERY)
    ended = site.ended(action)
    assert set(site.racks().values()) == {"r1 r1"}
    assert (ended.result, ended.reason, ended.counts) == ("blocked", "TooManyRemovals", {"failed": 3})
    assert ended.message.startswith("east: it removes labels from 2 of 2 nodes of cluster east: rack")
    assert ended.message.endswith("to accept all of that: retry with `--accept-removals 6`")
    assert site.world.revisions.tags(site.world.revisions.newest()) == ["committed"]


def test_a_dry_run_says_of_each_cluster_that_it_would_be_blocked(site: Clusters) -> None:
    site.relabels(clusters=EVERY)
    site.commits(*(a_cluster(name, labels) for name, labels in LABELS.items()), adopted=False)
    ended = site.ended(site.relabels(clusters=EVERY, dry_run=True))
    assert (ended.result, ended.message) == ("success", "dry run: nothing was written")
    assert ended.outcomes[0].message.startswith("2 would change; for real it would be blocked: it removes labels from 2 of 2 nodes")


def test_a_revision_that_was_taken_back_meanwhile_blocks_every_cluster_and_the_whole(site: Clusters) -> None:
    action = site.sends(name="update_site", clusters=EVERY)
    deliver_one(site)
    site.world.revisions.tag(site.revision, "rejected", "eve", site.now)
    site.cloud.drain()
    ended = site.ended(action)
    assert (ended.result, ended.reason, set(site.racks().values())) == ("blocked", "RevisionRejected", {"- -"})
    assert "--accept" not in ended.message


def test_a_sweep_of_several_clusters_that_changed_nothing_is_kept_whole(site: Clusters) -> None:
    site.relabels(clusters=EVERY)
    sweeps = [site.relabels(name="drift_sweep", requested_by="unknown", clusters=EVERY) for _ in range(2)]
    for sweep_ in sweeps:
        assert site.ended(sweep_).counts == {"unchanged": 3}
        assert len(site.children(sweep_)) == 3
    assert site.world.store.keys("quiet-sweeps/") == []


def test_a_head_that_can_not_be_read_stops_its_cluster_and_no_other_until_it_is_restored(site: Clusters) -> None:
    site.relabels(clusters=EVERY)
    key = f"releases/east/{site.world.releases.head('east').k:06}.json"
    kept = site.world.store.get(key)
    assert kept is not None
    site.world.store.delete(key)
    site.world.store.create(key, kept[: len(kept) // 2])
    site.world.releases = Releases(site.world.store, site.world.revisions)
    site.declares_rack("r2")

    action = site.relabels(clusters=EVERY)
    assert site.racks() == {"east": "r1 r1", "north": "r2 r2", "west": "r2 r2"}
    told = {name: (child.result, child.reason) for name, child in site.children(action).items()}
    assert told == {"east": ("failure", "RecordUnreadable"), "north": ("success", ""), "west": ("success", "")}
    assert key in site.children(action)["east"].message

    site.world.store.delete(key)
    site.world.store.create(key, kept)
    again = site.relabels(clusters=["east"])
    assert (site.ended(again).result, site.racks()["east"]) == ("success", "r2 r2")
