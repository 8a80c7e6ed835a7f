"""Rollouts that count what the labels of a stage do to pods before it opens (`stopWhen.impact`)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from shared.domain.documents.kinds import RolloutSpec
from shared.domain.workloads.placement import Host
from tests.rollouts.rolling import CANARY, HALF, Rolling
from tests.workloads.pods import Pods, a_daemon_set, a_pod

OLD = [{"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["new"]}]}]
NOT_NEW = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": OLD}}}


def with_agents(fleet: Rolling, *nodes: str) -> Pods:
    """Agents on these nodes that want no node of the new tier."""
    pods = [a_pod(f"agent-{name}", name, "DaemonSet/agent") for name in nodes]
    there = Pods([], [a_daemon_set("agent", affinity=NOT_NEW)], pods)
    cluster: Any = fleet.cluster
    there.hosts = lambda: iter([Host(node.name, node.labels) for node in cluster.nodes()])  # type: ignore[method-assign]
    for method in ("hosts", "daemon_set_pods", "budgets", "placed"):
        setattr(cluster, method, getattr(there, method))
    return there


def test_a_stage_whose_labels_end_more_pods_than_may_end_does_not_open_and_a_retry_lets_so_many_end(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, stopWhen={"impact": 1})
    there = with_agents(fleet, *(f"n{number}" for number in range(8)))
    fleet.starts()
    assert fleet.new() == ["n0"]
    assert fleet.status.stages[0].pods == "DaemonSets end 1 pod (kube-system/agent on 1)"
    there.pods = there.pods[1:]
    fleet.later(minutes=11)
    assert (fleet.status.phase, fleet.status.reason, fleet.new()) == ("stopped", "TooMuchImpact", ["n0"])
    assert fleet.status.message == "stage rest: 7 pods would end, and 1 may: DaemonSets end 7 pods (kube-system/agent on 7)"
    there.pods.append(a_pod("agent-n8", "n8", "DaemonSet/agent"))
    fleet.says("retry")
    assert len(fleet.new()) == 10, "what was counted a moment ago counts"


def test_what_is_counted_anew_after_a_retry_may_not_be_more_than_was_accepted(fleet: Rolling) -> None:
    fleet.ten_nodes(stopWhen={"impact": 0})
    there = with_agents(fleet, "n1", "n2")
    fleet.starts()
    assert (fleet.status.reason, fleet.new()) == ("TooMuchImpact", [])
    there.pods.append(a_pod("agent-n3", "n3", "DaemonSet/agent"))
    fleet.later(minutes=6)
    fleet.says("retry")
    assert (fleet.status.phase, fleet.status.reason, fleet.new()) == ("stopped", "TooMuchImpact", [])
    assert "3 pods would end, and 2 may" in fleet.status.message
    fleet.says("retry")
    assert len(fleet.new()) == 10


def test_with_on_stop_revert_what_is_out_is_taken_back(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, stopWhen={"impact": 1}, onStop="revert")
    with_agents(fleet, "n3", "n4")
    fleet.starts()
    fleet.later(minutes=11)
    assert (fleet.status.phase, fleet.status.reason, fleet.new()) == ("reverted", "TooMuchImpact", [])


def test_what_is_forbidden_to_see_opens_nothing_until_somebody_says_that_it_may_be_seen(fleet: Rolling) -> None:
    fleet.ten_nodes(stopWhen={"impact": 5})
    there = with_agents(fleet, "n1")
    there.forbidden = ("pods",)
    fleet.starts()
    for _ in range(3):
        assert (fleet.status.phase, fleet.status.reason, fleet.new()) == ("running", "ImpactUnknown", [])
        assert "pods of cluster default" in fleet.status.message
        assert "retry" in fleet.status.who
        fleet.later(minutes=6)
    there.forbidden = ()
    fleet.later(minutes=6)
    assert fleet.new() == [], "it is not asked again and again"
    fleet.says("retry")
    assert len(fleet.new()) == 10


def test_a_cluster_that_does_not_answer_is_asked_again_by_itself(fleet: Rolling, monkeypatch: pytest.MonkeyPatch) -> None:
    from shared.ports import Unavailable

    def silent(_nodes: object) -> Any:
        raise Unavailable("GET /api/v1/pods: timed out")

    fleet.ten_nodes(stopWhen={"impact": 5})
    there = with_agents(fleet, "n1")
    monkeypatch.setattr(fleet.cluster, "placed", silent, raising=False)
    fleet.starts()
    assert (fleet.status.reason, fleet.status.who, fleet.new()) == ("ImpactUnknown", "", [])
    written = fleet.world.rollouts.get(fleet.rollout)
    fleet.later(minutes=6)
    assert fleet.world.rollouts.get(fleet.rollout) == written, "the same answer is kept once"
    monkeypatch.setattr(fleet.cluster, "placed", there.placed, raising=False)
    fleet.later(minutes=1)
    assert len(fleet.new()) == 10


def test_an_approval_comes_first_and_the_count_is_of_the_moment_when_the_stage_opens(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY, HALF, stopWhen={"impact": 2})
    there = with_agents(fleet)
    fleet.starts()
    fleet.later(minutes=11)
    assert fleet.status.reason == "AwaitingApproval"
    there.pods = [a_pod(f"agent-{number}", f"n{number}", "DaemonSet/agent") for number in range(1, 10)]
    fleet.says("approve", "half")
    assert (fleet.status.phase, fleet.status.reason, fleet.new()) == ("stopped", "TooMuchImpact", ["n0"])


def test_nothing_is_counted_where_no_document_asks_for_it(fleet: Rolling) -> None:
    fleet.ten_nodes(CANARY)
    there = with_agents(fleet, "n0")
    there.forbidden = ("nodes", "pods", "daemonsets")
    fleet.starts()
    assert (fleet.new(), fleet.status.stages[0].pods) == (["n0"], "")


def test_a_simulated_cluster_has_no_pods_that_could_end(fleet: Rolling) -> None:
    fleet.ten_nodes(stopWhen={"impact": 0})
    fleet.starts()
    assert len(fleet.new()) == 10


@pytest.mark.parametrize("spec", [{"stopWhen": {"impact": -1}}, {"stopWhen": {"impact": "5%"}}, {"stopWhen": {"impact": True}}])
def test_the_number_is_a_whole_one(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RolloutSpec.model_validate(spec)


def test_a_rollout_of_versions_ends_no_pods_by_labels() -> None:
    with pytest.raises(ValidationError, match="changes no labels"):
        RolloutSpec.model_validate({"change": "versions", "stopWhen": {"impact": 1}})
