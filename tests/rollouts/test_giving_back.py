"""A revert gives back what the rollout took over from others: their values stand, and our field manager holds nothing of them."""

from __future__ import annotations

from tests.rollouts.rolling import CANARY, Rolling, a_rollout
from tests.stories.fleet import a_policy

THEIRS = {"lane": "slow"}


def test_a_value_that_was_taken_from_another_manager_is_there_again_after_a_revert(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.cluster.set_labels("n0", THEIRS, manager="platform")
    fleet.starts()
    assert fleet.node("n0").labels == {"tier": "new", "lane": "fast"}
    fleet.says("revert")
    node = fleet.node("n0")
    assert node.labels == {"tier": "old", "lane": "slow"}
    assert node.owners == {"tier": ("hullmark",), "lane": ("hullmark-revert",)}
    (told,) = fleet.ended(fleet.world.rollouts.get(fleet.rollout).batches[-1].action).outcomes
    assert told.changes is not None
    assert (told.changes.set, told.changes.remove) == ({"tier": "old", "lane": "slow"}, [])
    assert "lane is 'slow' again" in told.message


def test_sweeps_leave_what_was_given_back_and_its_old_manager_can_have_it_again(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.cluster.apply("n0", THEIRS, manager="platform")
    fleet.starts()
    fleet.says("revert")
    before = fleet.node("n0")
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    assert fleet.node("n0") == before
    fleet.cluster.apply("n0", {"lane": "slower"}, manager="platform")
    assert fleet.node("n0").owners["lane"] == ("platform",)


def test_what_somebody_else_has_set_since_stays(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.cluster.set_labels("n0", THEIRS, manager="platform")
    fleet.starts()
    fleet.cluster.set_labels("n0", {"lane": "theirs"}, manager="ada")
    fleet.says("revert")
    assert (fleet.node("n0").labels["lane"], fleet.node("n0").owners["lane"]) == ("theirs", ("ada",))


def test_what_the_fallback_declares_is_as_it_says_whoever_it_was_taken_from(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.cluster.set_labels("n0", {"tier": "drifted"}, manager="platform")
    fleet.starts()
    fleet.says("revert")
    assert fleet.node("n0").labels == {"tier": "old"}


def test_a_label_that_a_sweep_took_away_before_the_batch_came_is_given_back_all_the_same(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.cluster.set_labels("n0", THEIRS, manager="platform")
    fleet.starts()
    fleet.cluster.apply_labels("n0", fleet.node("n0").uid, {"tier": "old"})  # what an event does right after the release is taken back
    fleet.says("revert")
    assert fleet.node("n0").labels == {"tier": "old", "lane": "slow"}


def test_the_first_rollout_of_a_site_gives_back_too(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, released=False)
    fleet.cluster.set_labels("n0", {"lane": "slow", "tier": "theirs"}, manager="platform")
    fleet.starts()
    fleet.says("revert")
    assert fleet.node("n0").labels == {"lane": "slow", "tier": "theirs"}
    assert "hullmark" not in fleet.node("n0").applied


def test_a_rollout_that_took_anothers_place_gives_back_what_that_one_took(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    fleet.cluster.set_labels("n0", THEIRS, manager="platform")
    fleet.starts()
    fleet.commits(a_policy("tiers", {}, {"tier": "newer", "lane": "slow"}), a_rollout(CANARY), adopted=False)
    fleet.starts(supersede=True)
    fleet.says("revert")
    node = fleet.node("n0")
    assert (node.labels, node.owners["lane"]) == ({"tier": "old", "lane": "slow"}, ("hullmark-revert",))


def test_where_the_fallback_prunes_what_it_does_not_declare_nothing_of_it_is_given_back(fleet: Rolling) -> None:
    fleet.ten_nodes()
    fleet.commits(a_policy("tiers", {}, {"tier": "old"}, prune="all"))
    fleet.cluster.set_labels("n0", THEIRS, manager="platform")
    fleet.commits(a_policy("tiers", {}, {"tier": "new", "lane": "fast"}), a_rollout(CANARY), adopted=False)
    fleet.starts()
    fleet.says("revert")
    assert fleet.node("n0").labels == {"tier": "old"}


def test_a_label_of_others_that_the_rollout_pruned_is_there_again(fleet: Rolling) -> None:
    fleet.ten_nodes()
    fleet.cluster.set_labels("n0", {"note": "theirs"}, manager="platform")
    fleet.commits(a_policy("tiers", {}, {"tier": "old"}, prune="all"), a_rollout(CANARY), adopted=False)
    fleet.starts(accept_removals=1)
    assert fleet.node("n0").labels == {"tier": "old"}
    fleet.says("revert")
    assert fleet.node("n0").labels == {"tier": "old", "note": "theirs"}
