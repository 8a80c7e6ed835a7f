"""Many small filters are judged like one that does all of it, within the hour."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.stories.fleet import Fleet, a_policy


@pytest.fixture
def fleet() -> Fleet:
    """Forty nodes with a label that the newest revision takes away; four may lose one unasked."""
    fleet = Fleet()
    fleet.has_nodes(**{f"n{number:02}": {} for number in range(40)})
    fleet.commits(a_policy("tiers", {}, {"tier": "gold", "lane": "fast"}))
    fleet.relabels()
    fleet.commits(a_policy("tiers", {}, {"tier": "gold"}), adopted=False)
    return fleet


def filters(fleet: Fleet, *numbers: int, **request: object) -> tuple[str, str]:
    """Relabel these nodes by a filter; how that ended, and why."""
    names = [f"n{number:02}" for number in numbers]
    chosen = {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": names}]}
    action = fleet.sends(node_filter=chosen, **request)
    fleet.cloud.drain()
    ended = fleet.ended(action)
    return ended.result, ended.reason


def losers(fleet: Fleet) -> int:
    return sum("lane" not in node.labels for node in fleet.cluster.nodes())


def test_small_filters_one_after_the_other_are_blocked_where_one_that_did_all_would_be(fleet: Fleet) -> None:
    assert filters(fleet, 0, 1) == ("success", "")
    assert filters(fleet, 2, 3) == ("success", "")
    assert filters(fleet, 4, 5) == ("blocked", "TooManyRemovals")
    assert losers(fleet) == 4


def test_one_filter_is_judged_by_every_limit_as_a_site_action_is(fleet: Fleet) -> None:
    limits = {"apiVersion": "hullmark.dev/v1", "kind": "Limits", "metadata": {"name": "site"}, "spec": {"changes": {"nodes": 2}}}
    fleet.commits(a_policy("tiers", {}, {"tier": "new", "lane": "fast"}), limits, adopted=False)
    assert filters(fleet, 0, 1) == ("success", "")
    assert filters(fleet, 2, 3, 4) == ("blocked", "TooManyChanges")


def test_filters_that_are_asked_at_the_same_moment_are_counted_together(fleet: Fleet) -> None:
    chosen = [{"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": [f"n{n:02}"]}]} for n in range(10)]
    actions = [fleet.sends(node_filter=each) for each in chosen]
    fleet.cloud.drain()
    results = [fleet.ended(action).result for action in actions]
    assert (results.count("success"), results.count("blocked"), losers(fleet)) == (4, 6, 4)


def test_a_person_accepts_what_a_filter_does_beyond_the_others(fleet: Fleet) -> None:
    filters(fleet, 0, 1, 2, 3)
    assert filters(fleet, 4, 5, accept_removals=2) == ("success", "")
    assert losers(fleet) == 6


def test_the_same_filter_again_counts_its_nodes_once_and_a_new_hour_begins_anew(fleet: Fleet) -> None:
    for _ in range(3):
        assert filters(fleet, 0, 1, 2, 3) == ("success", "")
    assert filters(fleet, 4) == ("blocked", "TooManyRemovals")
    fleet.now += timedelta(hours=1)
    assert filters(fleet, 4) == ("success", "")


def test_a_dry_run_says_that_it_would_be_blocked_and_takes_nothing_of_what_others_may(fleet: Fleet) -> None:
    filters(fleet, 0, 1)
    filters(fleet, 6, 7, dry_run=True)
    assert filters(fleet, 2, 3) == ("success", "")
    action = fleet.sends(
        node_filter={"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["n09"]}]}, dry_run=True
    )
    fleet.cloud.drain()
    assert "for real it would be blocked: with the filters of this hour" in fleet.ended(action).message


def test_nodes_that_a_person_names_are_that_persons_word_and_count_for_no_filter(fleet: Fleet) -> None:
    fleet.relabels(*(f"n{number:02}" for number in range(20)))
    assert losers(fleet) == 20
    assert filters(fleet, 20, 21, 22, 23) == ("success", "")


def test_what_was_accepted_for_the_revision_holds_for_filters_together(fleet: Fleet) -> None:
    from shared.domain.labels.impact import Accepting
    from shared.work.limits import accept

    accept(2, ["default"], Accepting(accept_removals=6), fleet.world, by="ada", now=fleet.now)
    assert filters(fleet, 0, 1, 2) == ("success", "")
    assert filters(fleet, 3, 4, 5) == ("success", "")
    assert filters(fleet, 6) == ("blocked", "TooManyRemovals")
