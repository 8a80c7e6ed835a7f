"""The main job as stories: documents in, labelled nodes out, and every outcome with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain.nodes import ALIAS_OWNER, OWNER, Node
from shared.domain.outcomes import Before
from shared.messages import NodeApply, NodeTask
from shared.ports import Refused, Unavailable
from tests.stories.fleet import Fleet, a_policy


def test_a_relabel_brings_every_node_to_its_document_and_closes_the_action(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "gone": {"rack": "r8"}})
    fleet.has_nodes(n1={"zone": "a"})

    action = fleet.relabels("n1", "gone")

    assert fleet.labels("n1") == {"zone": "a", "rack": "r7"}
    assert fleet.outcome(action) == {"n1": "changed", "gone": "missing"}
    assert fleet.ended(action).result == "partial_success"
    assert [notice["id"] for notice in fleet.notices("action.finished")] == [action]


def test_a_second_relabel_changes_nothing_and_writes_nothing(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    fleet.relabels("n1")
    before = fleet.node("n1").resource_version
    calls: list[str] = []
    fleet.cluster.before = lambda call, _node: calls.append(call)

    action = fleet.relabels("n1")

    assert fleet.outcome(action) == {"n1": "unchanged"}
    assert fleet.node("n1").resource_version == before
    assert "apply_labels" not in calls
    assert set(calls) <= {"server_version", "node", "nodes"}


def test_a_key_that_is_no_longer_declared_goes_and_one_that_others_hold_too_stays(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7", "tier": "gold"}})
    fleet.has_nodes(n1={"tier": "gold"})
    fleet.relabels("n1")
    fleet.declares({"n1": {"pool": "x"}})

    fleet.relabels("n1")

    assert fleet.labels("n1") == {"tier": "gold", "pool": "x"}


def test_a_node_that_nothing_selects_any_more_loses_what_we_own_and_nothing_else(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "n2": {"rack": "r8"}})
    fleet.has_nodes(n1={"zone": "a"}, n2={})
    fleet.relabels()
    fleet.declares({"n2": {"rack": "r8"}})

    action = fleet.relabels()

    assert fleet.labels("n1") == {"zone": "a"}
    assert fleet.outcome(action) == {"n1": "changed", "n2": "unchanged"}


def test_a_site_action_tags_its_revision_and_a_targeted_one_never_does(fleet: Fleet) -> None:
    fleet.has_nodes(n1={})
    revision = fleet.commits(a_policy("p", {}, {"rack": "r1"}), adopted=False)
    fleet.relabels()
    assert fleet.world.revisions.tags(revision) == ["committed", "site-action-success"]

    following = fleet.commits(a_policy("p", {}, {"rack": "r2"}), adopted=False)
    fleet.relabels("n1")
    assert fleet.world.revisions.tags(following) == ["committed"]
    assert fleet.labels("n1")["rack"] == "r2"


def test_a_site_action_means_every_node_also_where_the_list_of_targets_is_there_but_empty(fleet: Fleet) -> None:
    fleet.has_nodes(n1={})
    revision = fleet.commits(a_policy("p", {}, {"rack": "r1"}), adopted=False)
    action = fleet.relabels(name="update_site", target_nodes=[])
    assert fleet.outcome(action) == {"n1": "changed"}
    assert fleet.world.revisions.tags(revision) == ["committed", "site-action-success"]


def test_a_site_action_with_a_missing_node_tags_a_failure(fleet: Fleet) -> None:
    revision = fleet.commits(a_policy("p", {"names": ["gone"]}, {"rack": "r1"}), adopted=False)
    fleet.relabels()
    assert fleet.world.revisions.tags(revision) == ["committed", "site-action-failure"]


def test_a_node_that_only_policies_for_other_clusters_name_is_not_missing_here(fleet: Fleet) -> None:
    fleet.has_nodes(n1={})
    revision = fleet.commits(
        a_policy("here", {"names": ["n1", "gone"]}, {"rack": "r1"}, clusters=["default"]),
        a_policy("there", {"names": ["n1", "w1"]}, {"rack": "r2"}, clusters=["west"]),
    )
    assert fleet.outcome(fleet.relabels()) == {"n1": "changed", "gone": "missing"}

    revision = fleet.commits(a_policy("there", {"names": ["w1"]}, {"rack": "r2"}, clusters=["west"]), adopted=False)
    assert fleet.outcome(fleet.relabels(accept_removals=1)) == {"n1": "changed"}
    assert "site-action-success" in fleet.world.revisions.tags(revision)
    assert fleet.outcome(fleet.relabels("w1")) == {"w1": "missing"}


@pytest.mark.parametrize(
    ("committed", "adopted", "names", "reason"),
    [
        (False, False, ["n1"], "NoCommittedRevision"),
        (True, False, ["n1"], "NoSiteAction"),
        (True, True, ["n1", "stranger"], "UnknownNode"),
        (True, True, ["../n1"], "UnknownNode"),
    ],
)
def test_a_request_that_must_be_refused_is_told_and_leaves_no_action(
    fleet: Fleet, committed: bool, adopted: bool, names: list[str], reason: str
) -> None:
    fleet.has_nodes(n1={})
    if committed:
        fleet.commits(a_policy("p", {}, {"rack": "r1"}), adopted=adopted)

    action = fleet.sends(target_nodes=names)
    fleet.cloud.drain()

    (refused,) = fleet.notices("request.refused")
    assert [problem["reason"] for problem in refused["problems"]] == [reason]
    assert fleet.world.actions.find(action) is None
    assert fleet.labels("n1") == {}


def test_an_old_message_never_brings_an_old_declaration_back(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "old"}})
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])
    newest = 0

    def commit_before_the_write(call: str, _node: str) -> None:
        nonlocal newest
        if call == "node" and not newest:
            newest = fleet.declares({"n1": {"rack": "new"}})

    fleet.cluster.before = commit_before_the_write
    fleet.cloud.drain()

    assert fleet.labels("n1") == {"rack": "new"}
    assert fleet.ended(action).result == "success"


def test_a_node_that_is_created_again_while_its_part_travels_is_labelled_under_its_new_uid(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])
    done: list[str] = []

    def replace_before_the_write(call: str, node: str) -> None:
        if call == "apply_labels" and not done:
            done.append(node)
            fleet.cluster.delete("n1")
            fleet.cluster.create("n1", {"zone": "b"})

    fleet.cluster.before = replace_before_the_write
    fleet.cloud.drain()

    assert fleet.labels("n1") == {"zone": "b", "rack": "r7"}
    assert fleet.outcome(action) == {"n1": "changed"}


def test_a_node_that_goes_away_is_missing_and_is_not_created(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])
    fleet.cluster.before = lambda call, node: fleet.cluster.delete(node) if call == "apply_labels" else None
    fleet.cloud.drain()

    assert fleet.outcome(action) == {"n1": "missing"}
    assert fleet.cluster.node("n1") is None


@pytest.mark.parametrize(
    ("how", "outcome", "value"), [("force", "changed", "ours"), ("skip", "skipped", "theirs"), ("fail", "failed", "theirs")]
)
def test_a_key_that_another_manager_holds_is_taken_left_or_fails_its_node(fleet: Fleet, how: str, outcome: str, value: str) -> None:
    fleet.declares({"n1": {"team": "ours"}}, onConflict=how)
    fleet.has_nodes(n1={})
    fleet.cluster.set_labels("n1", {"team": "theirs"}, "a-colleague")

    action = fleet.relabels("n1")

    assert fleet.outcome(action) == {"n1": outcome}
    assert fleet.labels("n1")["team"] == value
    if how != "force":
        (told,) = fleet.ended(action).outcomes
        assert told.message == f"team is 'theirs' by a-colleague; NodeLabelPolicy/n1 declares 'ours' and says onConflict: {how}"
    else:
        (told,) = fleet.ended(action).outcomes
        assert told.changes is not None
        assert told.changes.from_ == {"team": Before(value="theirs", holders=["a-colleague"])}


@pytest.mark.parametrize("how", ["skip", "fail"])
def test_a_conflict_that_comes_up_between_planning_and_writing_is_settled_by_the_policy_too(fleet: Fleet, how: str) -> None:
    fleet.declares({"n1": {"team": "ours", "rack": "r1"}}, onConflict=how)
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])

    def a_colleague_is_quicker(call: str, node: str) -> None:
        if call == "apply_labels" and "team" not in fleet.labels(node):
            fleet.cluster.set_labels(node, {"team": "theirs"}, "a-colleague")

    fleet.cluster.before = a_colleague_is_quicker
    fleet.cloud.drain()

    assert fleet.labels("n1")["team"] == "theirs"
    assert fleet.outcome(action) == {"n1": "changed" if how == "skip" else "failed"}
    assert ("rack" in fleet.labels("n1")) == (how == "skip")
    (told,) = fleet.ended(action).outcomes
    assert told.message == f"team is 'theirs' by a-colleague; NodeLabelPolicy/n1 declares 'ours' and says onConflict: {how}"


@pytest.mark.parametrize("how", ["force", "skip", "fail"])
def test_a_dry_run_shows_the_conflicts_that_the_run_then_has(fleet: Fleet, how: str) -> None:
    fleet.declares({"n1": {"team": "ours", "rack": "r1"}}, onConflict=how)
    fleet.has_nodes(n1={})
    fleet.cluster.set_labels("n1", {"team": "theirs"}, "a-colleague")

    dry = fleet.ended(fleet.relabels("n1", dry_run=True))
    assert fleet.labels("n1") == {"team": "theirs"}
    done = fleet.ended(fleet.relabels("n1"))

    assert dry.message == "dry run: nothing was written"
    assert [(each.outcome, each.changes) for each in dry.outcomes] == [(each.outcome, each.changes) for each in done.outcomes]
    (would,), (told,) = dry.outcomes, done.outcomes
    assert would.reason == {"force": "DryRun", "skip": "Conflict", "fail": "Conflict"}[how]
    assert told.message in would.message
    assert "a-colleague" in would.message


def test_what_prune_all_takes_from_others_is_recorded(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1"}, prune="all"))
    fleet.has_nodes(n1={})
    fleet.cluster.set_labels("n1", {"mine": "1", "rack": "r9"}, "a-colleague")
    (told,) = fleet.ended(fleet.relabels("n1")).outcomes
    assert told.changes is not None
    assert told.changes.model_dump() == {
        "set": {"rack": "r1"},
        "remove": ["mine"],
        "from": {"mine": {"value": "1", "holders": ["a-colleague"]}, "rack": {"value": "r9", "holders": ["a-colleague"]}},
    }


def test_what_prune_all_takes_is_recorded_though_it_came_after_the_plan(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1"}, prune="all"))
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])

    def a_colleague_is_quicker(call: str, node: str) -> None:
        if call == "apply_labels" and "mine" not in fleet.labels(node):
            fleet.cluster.set_labels(node, {"mine": "1"}, "a-colleague")

    fleet.cluster.before = a_colleague_is_quicker
    fleet.cloud.drain()
    (told,) = fleet.ended(action).outcomes
    assert told.changes is not None
    assert told.changes.remove == ["mine"]
    assert told.changes.from_ == {"mine": Before(value="1", holders=["a-colleague"])}


@pytest.mark.parametrize("how", ["force", "skip"])
def test_what_is_taken_over_is_recorded_though_it_was_set_after_the_plan(fleet: Fleet, how: str) -> None:
    fleet.commits(a_policy("p", {}, {"team": "ours"}), a_policy("q", {}, {"rack": "r1"}, onConflict=how))
    fleet.has_nodes(n1={"team": "ours"})
    action = fleet.sends(target_nodes=["n1"])

    def a_colleague_is_quicker(call: str, node: str) -> None:
        if call == "apply_labels" and "rack" not in fleet.labels(node) and fleet.labels(node)["team"] == "ours":
            fleet.cluster.set_labels(node, {"team": "theirs"}, "a-colleague")

    fleet.cluster.before = a_colleague_is_quicker
    fleet.cloud.drain()
    assert fleet.labels("n1") == {"team": "ours", "rack": "r1"}
    (told,) = fleet.ended(action).outcomes
    assert (told.outcome, told.reason, told.message) == ("changed", "Drift", "team was 'theirs' by a-colleague")
    assert told.changes is not None
    assert told.changes.model_dump() == {
        "set": {"rack": "r1", "team": "ours"},
        "remove": [],
        "from": {"team": {"value": "theirs", "holders": ["a-colleague"]}},
    }


def test_values_taken_over_are_kept_with_the_part_and_with_the_outcome_and_cost_nothing_elsewhere(fleet: Fleet) -> None:
    names = [f"n{number}" for number in range(10, 60)]
    fleet.commits(a_policy("p", {}, {"rack": "r1"}))
    fleet.has_nodes(**{name: {} for name in names})
    fleet.cluster.set_labels("n10", {"rack": "mine"}, "a-colleague")
    action = fleet.relabels()
    kept = {
        key: fleet.world.store.get(f"actions/{action}/{key}") or b""
        for key in ("outcome.json", *(f"parts/{n:04}.json" for n in range(1, 3)))
    }
    taken = b',"from":{"rack":{"value":"mine","holders":["a-colleague"]}}'
    assert sum(body.count(taken) for body in kept.values()) == 2, "once with its part, once with the outcome"
    assert sum(body.count(b'"from"') for body in kept.values()) == 2
    assert len(taken) < 70
    told = fleet.ended(action).outcomes
    assert [each.subject for each in told if each.changes and each.changes.from_] == ["n10"]


def test_prune_all_takes_what_is_not_declared_and_spares_kubernetes_and_the_vendors(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1"}, prune="all"))
    kept = {"kubernetes.io/os": "linux", "nvidia.com/gpu": "yes", "feature.node.kubernetes.io/x": "y", "team.k8s.io/z": "1"}
    fleet.has_nodes(n1={**kept, "mine": "1", "example.com/mine": "2"})

    action = fleet.relabels("n1")

    assert fleet.labels("n1") == {**kept, "rack": "r1"}
    (told,) = fleet.ended(action).outcomes
    assert told.changes is not None
    assert told.changes.remove == ["example.com/mine", "mine"]
    assert fleet.outcome(fleet.relabels("n1")) == {"n1": "unchanged"}


def test_prune_all_goes_by_the_answer_of_its_own_write(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1"}, prune="all"))
    fleet.has_nodes(n1={"old": "v"})
    apply_labels = fleet.cluster.apply_labels

    def and_then_somebody_holds_it(*args: Any, **kwargs: Any) -> Node:
        answer = apply_labels(*args, **kwargs)
        fleet.cluster.apply("n1", {"old": "v"}, ALIAS_OWNER)
        return answer

    fleet.cluster.apply_labels = and_then_somebody_holds_it  # type: ignore[method-assign]
    fleet.relabels("n1")
    assert fleet.labels("n1") == {"rack": "r1", "old": "v"}


def test_aliases_are_part_of_the_plan_and_written_under_their_own_manager(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"})

    action = fleet.relabels("n1")

    node = fleet.node("n1")
    assert node.labels["beta.kubernetes.io/os"] == "linux"
    assert node.applied == {OWNER: frozenset({"rack"}), ALIAS_OWNER: frozenset({"beta.kubernetes.io/os"})}
    assert fleet.outcome(action) == {"n1": "changed"}
    assert fleet.outcome(fleet.relabels("n1")) == {"n1": "unchanged"}


def test_a_key_that_only_our_aliases_hold_is_no_conflict(fleet: Fleet) -> None:
    pair = {"primary": "new.io/a", "secondary": "old.io/a", "ensureSecondaryExists": True}
    fleet.has_nodes(n1={"new.io/a": "1"})
    fleet.commits({"apiVersion": "hullmark.dev/v1", "kind": "LabelAliases", "metadata": {"name": "a"}, "spec": {"pairs": [pair]}})
    fleet.relabels("n1")
    assert fleet.node("n1").owners["old.io/a"] == (ALIAS_OWNER,)

    fleet.declares({"n1": {"old.io/a": "2"}}, onConflict="skip")

    assert fleet.outcome(fleet.relabels("n1")) == {"n1": "changed"}
    assert fleet.labels("n1")["old.io/a"] == "2"
    assert fleet.outcome(fleet.relabels("n1")) == {"n1": "unchanged"}


def test_prune_all_tells_of_no_key_that_the_aliases_keep(fleet: Fleet) -> None:
    pair = {"primary": "new.io/a", "secondary": "old.io/a", "ensureSecondaryExists": True}
    fleet.has_nodes(n1={"old.io/a": "1", "junk": "x"})
    fleet.commits(
        {"apiVersion": "hullmark.dev/v1", "kind": "LabelAliases", "metadata": {"name": "a"}, "spec": {"pairs": [pair]}},
        a_policy("p", {}, {"new.io/a": "1"}, prune="all"),
    )
    (told,) = fleet.ended(fleet.relabels("n1")).outcomes
    assert told.changes is not None
    assert (told.changes.set, told.changes.remove) == ({"new.io/a": "1"}, ["junk"])
    assert fleet.labels("n1") == {"new.io/a": "1", "old.io/a": "1"}


def test_a_secondary_key_that_is_declared_fails_its_node_where_the_pair_is_in_force(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.has_nodes(n1={"beta.kubernetes.io/os": "linux", "kubernetes.io/os": "linux"})
    fleet.declares({"n1": {"kubernetes.io/os": "plan9"}}, allowProtected=True)
    monkeypatch.setattr(fleet.cluster, "server_version", lambda: "v1.17.3")
    (told,) = fleet.ended(fleet.relabels("n1")).outcomes
    assert (told.outcome, told.reason) == ("failed", "SecondaryDeclared")
    assert "NodeLabelPolicy/n1" in told.message
    assert fleet.labels("n1")["kubernetes.io/os"] == "linux"

    monkeypatch.setattr(fleet.cluster, "server_version", lambda: "v1.18.0")
    assert fleet.outcome(fleet.relabels("n1")) == {"n1": "changed"}


def test_a_policy_conflict_on_one_node_fails_that_node_and_leaves_the_others_alone(fleet: Fleet) -> None:
    fleet.commits(
        a_policy("a", {"matchLabels": {"gpu": "yes"}}, {"pool": "a"}), a_policy("b", {"matchLabels": {"big": "yes"}}, {"pool": "b"})
    )
    fleet.has_nodes(both={"gpu": "yes", "big": "yes"}, one={"gpu": "yes"})

    action = fleet.relabels()

    assert fleet.outcome(action) == {"both": "failed", "one": "changed"}
    failed = next(told for told in fleet.ended(action).outcomes if told.subject == "both")
    assert failed.reason == "PolicyConflict"
    assert "NodeLabelPolicy/a" in failed.message
    assert "NodeLabelPolicy/b" in failed.message


def test_a_cluster_that_is_away_for_a_moment_delays_the_action_and_changes_nothing_else(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])
    failures = iter([True, True, True])

    def away(call: str, _node: str) -> None:
        if call == "apply_labels" and next(failures, False):
            raise Unavailable("connection refused")

    fleet.cluster.before = away
    fleet.cloud.drain()

    assert fleet.outcome(action) == {"n1": "changed"}
    assert fleet.labels("n1") == {"rack": "r7"}


def test_a_cluster_that_stays_away_fails_its_nodes_with_the_cause(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    action = fleet.sends(target_nodes=["n1"])

    def away(call: str, _node: str) -> None:
        if call == "apply_labels":
            raise Unavailable("connection refused by 10.0.0.1:6443")

    fleet.cluster.before = away
    fleet.cloud.drain()

    (told,) = fleet.ended(action).outcomes
    assert (told.outcome, told.reason, told.retryable) == ("failed", "Unavailable", True)
    assert "10.0.0.1:6443" in told.message
    assert fleet.ended(action).result == "failure"


def test_a_refusal_by_the_server_is_told_at_once_and_not_tried_again(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})
    calls: list[str] = []

    def forbidden(call: str, node: str) -> None:
        if call == "apply_labels":
            calls.append(node)
            raise Refused("Forbidden", "nodes is forbidden: user hullmark cannot patch")

    fleet.cluster.before = forbidden
    action = fleet.relabels("n1")

    (told,) = fleet.ended(action).outcomes
    assert (told.outcome, told.reason, told.retryable) == ("failed", "Forbidden", False)
    assert calls == ["n1"]


def test_a_listing_that_never_comes_ends_the_action_as_failed_with_every_target_told(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "n2": {"rack": "r7"}})
    fleet.has_nodes(n1={}, n2={})

    def away(call: str, _node: str) -> None:
        if call in ("nodes", "node"):
            raise Unavailable("connection refused")

    fleet.cluster.before = away
    action = fleet.relabels("n1", "n2")

    assert fleet.outcome(action) == {"n1": "failed", "n2": "failed"}
    assert fleet.ended(action).reason == "Unavailable"
    assert "connection refused" in fleet.ended(action).message


def test_many_nodes_go_out_in_parts_and_come_back_as_one_result(fleet: Fleet) -> None:
    fleet.commits(a_policy("p", {}, {"rack": "r1"}))
    fleet.has_nodes(**{f"n{number:03}": {} for number in range(450)})

    action = fleet.relabels()

    plan = fleet.world.actions.plan(action)
    assert plan is not None
    assert [len(part) for part in plan.parts] == [200, 200, 50]
    assert fleet.ended(action).counts == {"changed": 450}


def test_a_dry_run_says_what_would_change_and_writes_nothing(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.has_nodes(n1={})

    action = fleet.relabels("n1", dry_run=True)

    assert fleet.labels("n1") == {}
    (told,) = fleet.ended(action).outcomes
    assert (told.outcome, told.reason) == ("changed", "DryRun")


@pytest.mark.parametrize("wanted", [{}, {"rack": "r7"}])
def test_a_dry_run_of_the_whole_site_tags_no_revision(fleet: Fleet, wanted: dict[str, str]) -> None:
    number = fleet.commits(a_policy("p", {}, wanted), adopted=False)
    fleet.has_nodes(n1={})

    assert fleet.ended(fleet.relabels(dry_run=True)).result == "success"
    assert fleet.world.revisions.tags(number) == ["committed"]
    assert fleet.ended(fleet.relabels()).result == "success"
    assert fleet.world.revisions.tags(number) == ["committed", "site-action-success"]


def test_a_write_from_before_the_first_commit_undoes_nothing_that_was_committed_since(fleet: Fleet) -> None:
    fleet.has_nodes(n1={})
    late = NodeApply(revision=0, nodes=[NodeTask(name="n1", uid=fleet.node("n1").uid, labels={})])
    fleet.declares({"n1": {"rack": "r7"}})
    fleet.relabels()

    fleet.cloud.publish(NodeApply.TOPIC, [late.outgoing()])
    fleet.cloud.drain()

    assert fleet.labels("n1") == {"rack": "r7"}
    assert fleet.node("n1").applied == {OWNER: frozenset({"rack"})}


def test_the_first_commit_counts_while_a_write_from_before_it_is_under_way(fleet: Fleet) -> None:
    fleet.has_nodes(n1={})
    early = NodeApply(revision=0, nodes=[NodeTask(name="n1", uid=fleet.node("n1").uid, labels={})])

    def commits_meanwhile(call: str, _node: str) -> None:
        if call == "apply_labels" and not fleet.world.revisions.newest():
            fleet.declares({"n1": {"rack": "r7"}})

    fleet.cluster.before = commits_meanwhile
    fleet.cloud.publish(NodeApply.TOPIC, [early.outgoing()])
    fleet.cloud.drain()

    assert fleet.labels("n1") == {"rack": "r7"}


def test_a_filter_selects_by_labels_that_nodes_are_to_carry(fleet: Fleet) -> None:
    fleet.declares({"n1": {"tier": "gold"}, "n2": {"tier": "tin"}})
    fleet.has_nodes(n1={}, n2={})
    gold = {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_labels": {"tier": "gold"}}]}

    action = fleet.sends(node_filter=gold)
    fleet.cloud.drain()

    assert fleet.outcome(action) == {"n1": "changed"}
    assert fleet.labels("n2") == {}


def test_a_part_that_is_planned_anew_reads_its_own_nodes_and_never_lists_the_cluster(fleet: Fleet) -> None:
    """Of a hundred thousand nodes, every part would."""
    names = [f"n{number}" for number in range(40)]
    fleet.has_nodes(**{name: {} for name in (*names, "bystander")})
    old = fleet.declares({name: {"rack": "old"} for name in names})
    fleet.declares({name: {"rack": "new"} for name in names})
    tasks = [NodeTask(name=name, uid=fleet.node(name).uid, labels={"rack": "old"}) for name in names]
    calls: list[str] = []
    fleet.cluster.before = lambda call, _node: calls.append(call)

    fleet.cloud.publish(NodeApply.TOPIC, [NodeApply(revision=old, nodes=tasks).outgoing()])
    fleet.cloud.drain()

    assert (calls.count("nodes"), calls.count("node"), calls.count("apply_labels")) == (0, 40, 40)
    assert {fleet.labels(name)["rack"] for name in names} == {"new"}
