"""A mistake in the documents is caught before it touches a node, whoever asks; what is accepted goes through; small changes pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ulid import ULID

from shared.domain.names import DRIFT_SWEEP
from shared.ports import Unavailable
from tests.stories.fleet import START, a_policy
from tests.stories.sites import Site, design, policies, racks


def without_the_policies(site: Site, nodes: int) -> None:
    site.world.revisions.remove("policies", "ada", site.now)


def one_file_of_the_folder(site: Site, nodes: int) -> None:
    folder = design(nodes)
    site.stages("design", {name: folder[name] for name in ("profiles.yaml", "racks/r00.yaml")})


def another_sites_folder(site: Site, nodes: int) -> None:
    site.stages("design", design(nodes, prefix="elsewhere"))


def without_a_policy(site: Site, nodes: int) -> None:
    site.stages("policies", policies(gpu=False))


def a_slip_in_a_selector(site: Site, nodes: int) -> None:
    site.stages("policies", policies("acelerator"))


def nothing_in_the_profile(site: Site, nodes: int) -> None:
    site.stages("design", design(nodes, owner_data={}))


MISTAKES: dict[Callable[[Site, int], None], dict[str, int]] = {
    without_the_policies: {"driver": 1, "site": 1},
    one_file_of_the_folder: {"tier": 1},
    another_sites_folder: {"tier": 1},
    without_a_policy: {"driver": 1},
    a_slip_in_a_selector: {"driver": 1},
    nothing_in_the_profile: {"tier": 1},
}
"""What somebody did, and the keys that nodes would lose by it."""
CASES = [(mistake, nodes) for nodes in (9, 200) for mistake in MISTAKES] + [(a_slip_in_a_selector, 3000), (one_file_of_the_folder, 3000)]


@pytest.mark.parametrize(("mistake", "nodes"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_mistake_reaches_no_node_whoever_asks_and_goes_through_once_it_is_accepted(
    a_site: Callable[[int], Site], mistake: Callable[[Site, int], None], nodes: int
) -> None:
    site = a_site(nodes)
    before = site.carried()
    losing = nodes - nodes // racks(nodes) if mistake is one_file_of_the_folder else nodes
    mistake(site, nodes)

    impact = site.commits_it()
    assert (impact.removals, impact.nodes) == (losing, nodes)
    assert impact.clusters["default"].removed == dict.fromkeys(MISTAKES[mistake], losing)
    assert impact.beyond["default"].reason == "TooManyRemovals"

    asked = [
        site.relabels(),
        site.relabels(node_filter={"filter_set_type": "union", "filter_set": []}, name="relabel_nodes"),
        site.create("update_site").json["id"],
        site.create("relabel_nodes", node_filter={}).json["id"],
        site.post("/v1.0/tasks", {"action": "relabel_nodes", "design_ref": "committed"}).json["task_id"],
    ]
    site.cloud.drain()
    for action in asked:
        ended = site.ended(action)
        assert (ended.result, ended.reason, ended.outcomes) == ("blocked", "TooManyRemovals", [])
        assert f"from {losing} of {nodes} nodes of cluster default" in ended.message
        assert all(f"{key} on {losing}" in ended.message for key in MISTAKES[mistake])
        assert f"`--accept-removals {losing}`" in ended.message
        assert ended.impact
        assert len(ended.impact.losing) == min(10, losing)
    site.sends(name=DRIFT_SWEEP)
    site.cloud.drain()
    for name in ("n0000", f"n{nodes - 1:04}"):
        site.hears_of(name)
    assert site.carried() == before
    assert "site-action-success" not in site.world.revisions.tags(2)
    assert "site-action-failure" not in site.world.revisions.tags(2)

    too_few = site.ended(site.relabels(accept_removals=losing - 1))
    assert (too_few.result, site.carried()) == ("blocked", before)
    assert f"more than the {losing - 1} that were accepted" in too_few.message
    accepted = site.relabels(accept_removals=losing)
    assert site.ended(accepted).result in ("success", "partial_success")  # another site's nodes are missing here
    gone = [name for name, labels in site.carried().items() if not MISTAKES[mistake].keys() & labels.keys()]
    assert len(gone) == losing
    [kept] = site.world.acceptances.of(2, "default")
    assert (kept.removals, kept.base, kept.reason) == (losing, 1, f"with action {accepted}")


@pytest.mark.parametrize("nodes", [9, 200])
def test_a_small_change_passes_without_a_word(a_site: Callable[[int], Site], nodes: int) -> None:
    site = a_site(nodes)
    few = 2 if nodes == 9 else nodes // 10
    names = [f"n{number:04}" for number in range(few)]
    listed = policies()["policies.yaml"]
    listed[0]["spec"]["exclude"] = {"names": names}
    site.stages("policies", {"policies.yaml": [*listed, a_policy("more", {}, {"owner": "ada"})]})
    impact = site.commits_it()
    assert (impact.removals, impact.changes, impact.beyond) == (few, nodes, {})
    assert site.ended(site.relabels()).result == "success"
    assert [name for name, labels in site.carried().items() if "driver" not in labels] == names


def test_taking_many_nodes_over_from_others_is_caught_and_says_from_whom(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    for number in range(3):
        site.cluster.set_labels(f"n{number:04}", {"owner": "bob"}, "kubectl-label")
    site.stages("policies", {"policies.yaml": [*policies()["policies.yaml"], a_policy("mine", {}, {"owner": "ada"})]})
    impact = site.commits_it()
    assert impact.clusters["default"].taken == {"owner": {"kubectl-label": 3}}
    blocked = site.ended(site.relabels())
    assert (blocked.result, blocked.reason) == ("blocked", "TooManyTakeovers")
    assert "owner from kubectl-label on 3" in blocked.message
    assert site.ended(site.relabels(accept_takeovers=3)).result == "success"


def test_what_others_changed_since_is_repaired_without_a_word(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    for number in range(9):
        site.cluster.set_labels(f"n{number:04}", {"site": "mine"}, "kubectl-label")
    assert site.outcome(site.relabels()) == {f"n{number:04}": "changed" for number in range(9)}


def test_named_nodes_are_the_persons_word(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    without_a_policy(site, 9)
    site.commits_it()
    names = [f"n{number:04}" for number in range(9)]
    assert site.ended(site.relabels(*names)).result == "success"


def test_an_acceptance_is_given_with_the_commit_or_over_http(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    without_a_policy(site, 9)
    assert not site.commits_it(accept_removals=9).beyond
    assert site.ended(site.relabels()).result == "success"

    site.stages("policies", policies())
    site.commits_it()
    nothing_in_the_profile(site, 9)
    site.commits_it()
    answer = site.post("/v1.0/revisions/4/acceptances", {"removals": 9, "reason": "agreed"})
    assert answer.status_code == 201
    assert [each["base"] for each in answer.json["acceptances"]] == [2]
    assert site.ended(site.relabels()).result == "success"


def test_an_acceptance_must_say_something_about_a_cluster_that_is_there(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    for body in ({}, {"reason": "just so"}, {"removals": -1}, {"removals": True}, {"removals": 1, "cluster": "nowhere"}):
        assert site.post("/v1.0/revisions/1/acceptances", body).status_code == 400, body
    assert site.post("/v1.0/revisions/9/acceptances", {"removals": 1}).status_code == 404
    assert site.post("/v1.0/revisions/1/acceptances", {"removals": "3"}).status_code == 201


def test_a_commit_does_not_take_its_own_guard_away(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    strict = {"apiVersion": "hullmark.dev/v1", "kind": "Limits", "metadata": {"name": "l"}, "spec": {"removals": {"nodes": 0}}}
    site.stages("limits", {"l.yaml": [strict]})
    site.commits_it()
    assert site.ended(site.relabels()).result == "success"

    loose = strict | {"spec": {"removals": {"nodes": "100%"}}}
    site.stages("limits", {"l.yaml": [loose]})
    without_a_policy(site, 9)
    assert site.commits_it().beyond["default"].reason == "TooManyRemovals"
    assert site.ended(site.relabels()).result == "blocked"

    site.stages("policies", policies())  # loosened by itself, it holds from the next release on
    site.commits_it()
    assert site.ended(site.relabels()).result == "success"
    without_a_policy(site, 9)
    assert not site.commits_it().beyond
    assert site.ended(site.relabels()).result == "success"


def test_where_no_cluster_answers_a_commit_counts_from_the_design_and_says_so(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    site.unreachable(Unavailable("no route to host"))
    nothing_in_the_profile(site, 9)
    impact = site.commits_it()
    [seen] = impact.clusters.values()
    assert (seen.removals, seen.nodes, seen.removed) == (9, 9, {"tier": 9})
    assert "does not answer (no route to host)" in seen.unseen
    assert impact.beyond["default"].reason == "TooManyRemovals"


def test_a_dry_run_shows_the_impact_and_that_the_real_run_would_be_blocked(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    without_a_policy(site, 9)
    asked = site.post("/v1.0/commitconfigdocs?dryrun=true").json
    assert (asked["revision"], asked["impact"]["removals"]) == (None, 9)
    assert [each["reason"] for each in asked["details"]["messageList"]] == ["TooManyRemovals"]
    committed = site.post("/v1.0/commitconfigdocs").json
    assert (committed["revision"], committed["impact"]) == (2, asked["impact"])
    assert site.get("/v1.0/revisions/2").json["impact"] == asked["impact"]
    ended = site.ended(site.relabels(dry_run=True))
    assert (ended.result, len(ended.outcomes)) == ("success", 9)
    assert "for real it would be blocked: it removes labels from 9 of 9 nodes" in ended.message


def test_a_blocked_action_is_shown_told_and_retried_with_the_acceptance(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    without_a_policy(site, 9)
    site.commits_it()
    action = site.relabels()
    shown = site.get(f"/v1.0/actions/{action}").json
    assert (shown["action_lifecycle"], shown["result"], shown["reason"]) == ("Failed", "blocked", "TooManyRemovals")
    assert (shown["impact"]["removals"], shown["impact"]["removed"]) == (9, {"driver": 9})
    assert [step["state"] for step in shown["steps"]] == ["failed", "upstream_failed", "success"]
    notice = site.notices("action.finished")[-1]
    assert (notice["result"], notice["impact"]["removals"]) == ("blocked", 9)
    task = site.get(f"/v1.0/tasks/{action}").json
    assert (task["status"], task["result"]["status"], task["result"]["reason"]) == ("complete", "failure", "TooManyRemovals")

    again = site.post(f"/v1.0/actions/{action}/control/retry")
    site.cloud.drain()
    assert site.ended(again.json["id"]).result == "blocked"
    again = site.post(f"/v1.0/actions/{action}/control/retry?accept_removals=9")
    site.cloud.drain()
    assert site.ended(again.json["id"]).result == "success"


def test_a_redelivered_request_says_what_it_said_the_first_time(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    without_a_policy(site, 9)
    site.commits_it()
    lost = site.loses_the_first_notice()
    action = str(ULID())
    site.sends(action=action, name="update_site")
    site.cloud.drain()
    site.sends(action=action, name="update_site", accept_removals=9)  # the record stands
    site.cloud.drain()
    assert lost
    assert site.ended(action).result == "blocked"
    assert site.world.releases.look().state("default").base == 1


def test_what_is_accepted_is_also_said_in_text(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    without_a_policy(site, 9)
    site.commits_it()
    assert site.create("update_site", accept_removals="nine").status_code == 400
    assert site.create("update_site", accept_removals=True).status_code == 400
    action = site.create("update_site", accept_removals="9").json["id"]
    site.cloud.drain()
    assert site.ended(action).result == "success"
    assert site.world.actions.request(action).accept_removals == 9


def test_a_cluster_that_is_not_declared_any_more_is_told(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    cluster = {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "west"}, "spec": {"access": {"inCluster": {}}}}
    site.stages("clusters", {"c.yaml": [cluster]})
    site.commits_it()
    site.world.revisions.remove("clusters", "ada", START)
    assert "not declared any more" in site.commits_it().clusters["west"].unseen
