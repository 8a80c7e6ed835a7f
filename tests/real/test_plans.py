"""Plans on the nodes of a real kube-apiserver: what it says of values and holders is what a plan shows, and what binds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared import telemetry, wiring
from shared.adapters.kubernetes import Kubernetes
from shared.domain.labels.plans import LabelPlan, PlanRequest
from shared.domain.outcomes import Before
from shared.work.plans import plan_committed
from tests.kube_apiserver import Fleet as RealNodes
from tests.stories.fleet import Fleet, a_policy
from tests.stories.test_bound_plans import STALE, goes_on, paused

pytestmark = pytest.mark.real


@pytest.fixture
def fleet(real_cluster: Kubernetes, real_fleet: RealNodes) -> Iterator[Fleet]:
    """Three nodes, of which a colleague holds a label of the second; a key of ours is to go."""
    telemetry.write_to(None)
    fleet = Fleet()
    fleet.world.open_cluster = lambda _access, _name: real_cluster
    fleet.cluster = real_cluster  # type: ignore[assignment]
    for name in ("n1", "n2", "n3"):
        real_fleet.create(name, {"zone": "a"}, manager="kubelet")
    fleet.commits(a_policy("racks", {}, {"old": "1"}))
    fleet.relabels()
    fleet.commits(a_policy("racks", {}, {"rack": "platform"}))
    real_fleet.set_labels("n2", {"rack": "mine"}, manager="kubectl-label")
    yield fleet
    wiring.install(None)


def planned(fleet: Fleet) -> LabelPlan:
    return plan_committed(PlanRequest(all=True), fleet.world)


def test_a_plan_shows_what_the_api_server_says_and_binds_to_it(fleet: Fleet, real_fleet: RealNodes) -> None:
    plan = planned(fleet)
    assert plan.nodes["n2"].from_ == {
        "rack": Before(value="mine", holders=["kubectl-label"]),
        "old": Before(value="1", holders=["hullmark"]),
    }
    assert (plan.nodes["n2"].takeovers, plan.nodes["n1"].takeovers) == (["rack"], [])
    real_fleet.set_labels("n2", {"rack": "yours"}, manager="kubectl-edit")
    stale = fleet.sends(plan=plan.bound())
    fleet.cloud.drain()
    assert "now due old: 1 → (removed) (hullmark)" not in fleet.ended(stale).message, "what is due as it was planned is no difference"
    assert (fleet.ended(stale).reason, fleet.labels("n1")) == (STALE, {"zone": "a", "old": "1"})
    applied = fleet.sends(plan=planned(fleet).bound(), accept_removals=3)
    fleet.cloud.drain()
    assert fleet.ended(applied).counts == {"changed": 3}
    assert fleet.labels("n2") == {"zone": "a", "rack": "platform"}
    again = fleet.sends(plan=plan.bound())
    fleet.cloud.drain()
    assert fleet.ended(again).counts == {"unchanged": 3}


def test_a_node_that_changes_while_a_bound_action_waits_is_left_as_it_is(fleet: Fleet, real_fleet: RealNodes) -> None:
    action = paused(fleet, planned(fleet).bound(), accept_removals=3)
    real_fleet.set_labels("n2", {"rack": "yours"}, manager="kubectl-edit")
    assert goes_on(fleet, action) == {"n1": ("changed", ""), "n2": ("failed", STALE), "n3": ("changed", "")}
    assert fleet.labels("n2") == {"zone": "a", "rack": "yours", "old": "1"}
