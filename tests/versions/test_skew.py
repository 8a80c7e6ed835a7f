"""Kubelets that are too old for the version their control plane is due to move to: the provider would refuse it, so it is held."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import Decision, Update
from shared.domain.versions.forecast import forecast
from shared.domain.versions.holding import Holding, nothing_holds
from shared.domain.versions.plans import Planner, after, going
from shared.domain.versions.profiles import Gardener
from shared.domain.versions.semver import parse
from shared.domain.versions.skew import oldest_kubelet
from tests.versions.shorthand import NOW, cluster, day, pool, profile, short

OFFERED = ["1.30.14", "1.31.9", "1.32.5", "1.33.6 expired", "1.33.9 expired", "1.34.1"]


def a_fleet(running: FleetCluster, offered: list[str]) -> Gardener:
    return Gardener(profiles={"p": profile(offered)}, clusters={running.id: running})


def decided(running: FleetCluster, offered: list[str], holding: Holding = nothing_holds) -> dict[str, Decision]:
    return {each.component: each for each in Planner(a_fleet(running, offered), holding).decide(running, NOW)}


def test_a_control_plane_waits_for_a_pool_whose_kubelets_are_too_old_for_its_target() -> None:
    decision = decided(cluster("1.33.6", pool(kubernetes="1.30.14")), OFFERED)["controlPlane"]
    assert short(decision.outcome) == "force 1.34.1"
    assert decision.held
    assert decision.held.reason == "SkewTooWide"
    assert "1.31" in decision.held.message
    assert "pool 'w' is on 1.30.14 and stays there until somebody moves it: there is no newer version" in decision.held.message


def test_the_message_says_where_the_pool_goes_by_itself() -> None:
    expired = ["1.30.14 expired", *OFFERED[1:]]
    both = decided(cluster("1.33.6", pool(kubernetes="1.30.14")), expired)
    assert both["controlPlane"].held
    assert "pool 'w' is on 1.30.14 and goes to 1.31.9 next" in both["controlPlane"].held.message
    assert going(both.values()) == [both["worker/w"]]


def test_the_message_says_when_expiry_moves_a_pool() -> None:
    decision = decided(cluster("1.33.6", pool(kubernetes="1.30.14"), auto=False), ["1.30.14 supported+30", *OFFERED[1:]])["controlPlane"]
    assert decision.held
    assert "until it expires on 2026-12-21 unless somebody moves it" in decision.held.message


@pytest.mark.parametrize(
    ("control_plane", "target", "kubelet", "held"),
    [
        ("1.33.6", "1.34.1", "1.31.0", False),
        ("1.33.6", "1.34.1", "1.30.0", True),
        ("1.27.1", "1.28.0", "1.25.0", False),
        ("1.26.1", "1.27.0", "1.24.0", True),
        ("1.26.1", "1.27.0", "1.25.0", False),
    ],
)
def test_kubelets_may_be_three_minors_older_from_1_28_on_and_two_before(control_plane: str, target: str, kubelet: str, held: bool) -> None:
    offered = [f"{control_plane} expired", target, kubelet]
    decision = decided(cluster(control_plane, pool(kubernetes=kubelet)), offered)["controlPlane"]
    assert short(decision.outcome) == f"force {target}"
    assert (decision.held is not None) == held


def test_a_patch_is_held_where_the_kubelets_are_too_old_already() -> None:
    """The provider refuses every change of a cluster that is outside the policy."""
    decision = decided(cluster("1.34.0", pool(kubernetes="1.30.14")), ["1.30.14", "1.34.0", "1.34.1"])["controlPlane"]
    assert (short(decision.outcome), decision.held is not None) == ("auto 1.34.1", True)


def test_a_pool_that_follows_its_control_plane_holds_nothing_up() -> None:
    assert decided(cluster("1.33.6", pool()), OFFERED)["controlPlane"].held is None


def test_a_pool_waits_with_a_control_plane_that_is_held_by_another_pool() -> None:
    running = cluster("1.33.6", pool(kubernetes="1.30.14"), replace(pool(kubernetes="1.33.6"), name="near"))
    decisions = decided(running, OFFERED)
    assert short(decisions["worker/near"].outcome) == "force 1.34.1"
    held = decisions["worker/near"].held
    assert held
    assert (held.reason, "stays on 1.33.6: SkewTooWide" in held.message) == ("ControlPlaneBehind", True)


def test_a_pool_that_stays_below_a_control_plane_that_is_held_goes_on() -> None:
    running = cluster("1.33.6", pool(kubernetes="1.30.14"), replace(pool(kubernetes="1.31.2"), name="far"))
    decisions = decided(running, [*OFFERED, "1.31.2"])
    assert [each.component for each in going(decisions.values())] == ["worker/far"]


def test_window_by_window_pools_that_expire_bring_their_control_plane_on() -> None:
    offered = ["1.30.14 expired", "1.31.9", "1.33.6 expired", "1.34.1"]
    running = cluster("1.33.6", pool(kubernetes="1.30.14"))
    events = forecast(Planner(a_fleet(running, offered)), NOW, until=day(10))
    steps = [(event.decision.component, short(event.decision.outcome), event.stuck) for event in events]
    assert steps == [
        ("controlPlane", "force 1.34.1", True),
        ("worker/w", "force 1.31.9", False),
        ("controlPlane", "force 1.34.1", False),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_expires_no_step_of_a_cluster_leaves_the_skew_policy(seed: int) -> None:
    chance = random.Random(seed)
    offered = [f"1.{minor}.{patch} supported+{chance.randint(-30, 400)}" for minor in range(26, 35) for patch in (1, 5)] + ["1.35.1"]
    pools = [replace(pool(kubernetes=f"1.{chance.randint(26, 29)}.1"), name=f"w{number}") for number in range(chance.randint(1, 3))]
    running = cluster(f"1.{chance.randint(29, 30)}.1", *pools, auto=chance.random() < 0.5)
    planner = Planner(a_fleet(running, offered))
    steps = 0
    for number in range(0, 500, 3):
        decisions = planner.decide(running, day(number))
        must_wait_by_name(decisions, running)
        running = after(running, going(decisions))
        steps += len(going(decisions))
    assert steps


def must_wait_by_name(decisions: list[Decision], running: FleetCluster) -> None:
    """Whatever goes leaves every kubelet within the policy, before the pools have new nodes and after."""
    moved = after(running, going(decisions))
    control_plane = parse(moved.kubernetes or "")
    for old, new in zip(running.pools, moved.pools, strict=True):
        assert parse(new.kubernetes or "").key <= control_plane.key
        if moved.kubernetes != running.kubernetes:
            kubelet = parse(old.kubernetes or "")
            assert (kubelet.major, kubelet.minor) >= oldest_kubelet(control_plane)
    for decision in decisions:
        if isinstance(decision.outcome, Update) and decision.held:
            assert decision.held.reason in ("SkewTooWide", "ControlPlaneBehind")
            assert decision.held.message
