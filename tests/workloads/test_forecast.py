"""What a change of labels does to pods, on small clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from shared.domain.labels.plans import NodePlan
from shared.domain.nodes import Taint
from shared.domain.workloads.impact import BudgetTouched, NodeWorkloads, WorkloadImpact, in_words
from shared.domain.workloads.placement import NO_SCHEDULE, Host
from shared.ports import Cluster
from shared.work.workloads import workload_impact
from tests.workloads.pods import Pods, a_budget, a_daemon_set, a_pod

GPU: dict[str, Any] = {"nodeSelector": {"pool": "gpu"}}


def becomes(set_: dict[str, str] | None = None, *remove: str, untaint: Sequence[Taint] = ()) -> NodePlan:
    return NodePlan(set=set_ or {}, remove=list(remove), from_={}, takeovers=[], reasons={}, untaint=list(map(str, untaint)))


def judged(there: Pods, **changes: NodePlan) -> WorkloadImpact:
    return workload_impact("eu", changes, cast("Cluster", there))


def three(**first: str) -> list[Host]:
    """n1 with these labels, n2 and n3 in the pool gpu."""
    return [Host("n1", first), Host("n2", {"pool": "gpu"}), Host("n3", {"pool": "gpu"})]


def of_set(name: str, node: str, **spec: Any) -> Any:
    return a_pod(f"{name}-{node}", node, f"DaemonSet/{name}", {"app": name}, **spec)


def test_a_daemon_set_starts_where_the_label_comes_and_ends_where_it_goes() -> None:
    there = Pods(three(), [a_daemon_set("driver", **GPU), a_daemon_set("cni")], [of_set("driver", "n2"), of_set("driver", "n3")])
    impact = judged(there, n1=becomes({"pool": "gpu"}), n2=becomes({}, "pool"), n3=becomes({"rack": "r1"}))
    assert (impact.starts, impact.stops) == (1, 1)
    assert impact.nodes == {"n1": NodeWorkloads(starts=["kube-system/driver"]), "n2": NodeWorkloads(stops=["kube-system/driver"])}
    assert in_words(impact) == "DaemonSets end 1 pod (kube-system/driver on 1); DaemonSets start 1 pod (kube-system/driver on 1)"


def test_a_pod_of_a_daemon_set_that_is_not_bound_yet_counts_where_it_is_meant_to_go() -> None:
    pinned = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pinned}}}
    there = Pods(three(), [a_daemon_set("driver", **GPU)], [a_pod("driver-x", "", "DaemonSet/driver", affinity=affinity)])
    assert judged(there, n2=becomes({}, "pool"), n3=becomes({}, "pool")).nodes == {"n2": NodeWorkloads(stops=["kube-system/driver"])}


def test_on_a_node_whose_taint_keeps_new_ones_out_a_daemon_sets_pod_ends_with_its_label_and_none_starts() -> None:
    tainted = [Host(name, {"pool": "gpu"}, (Taint("team", NO_SCHEDULE),)) for name in ("n1", "n2")]
    there = Pods(tainted, [a_daemon_set("driver", **GPU)], [of_set("driver", "n1")])
    gone = judged(there, n1=becomes({}, "pool"), n2=becomes({}, "pool"))
    assert gone.nodes == {"n1": NodeWorkloads(stops=["kube-system/driver"])}
    there.nodes = [Host("n1", {}, (Taint("team", NO_SCHEDULE),))]
    there.pods = []
    assert judged(there, n1=becomes({"pool": "gpu"})).nothing


def test_a_startup_taint_that_goes_lets_in_what_it_kept_out_and_another_one_still_keeps_it_out() -> None:
    startup, team = Taint("hullmark.dev/unlabelled", NO_SCHEDULE), Taint("team", NO_SCHEDULE, "blue")
    held, guarded = Host("n1", {"pool": "gpu"}, (startup,)), Host("n2", {"pool": "gpu"}, (startup, team))
    there = Pods([held, guarded], [a_daemon_set("driver", **GPU)], [a_pod("job", "", "Job/train", **GPU)])
    opened = judged(there, n1=becomes(untaint=[startup]), n2=becomes(untaint=[startup]))
    assert opened.nodes == {"n1": NodeWorkloads(starts=["kube-system/driver"], fits=1)}
    assert judged(there, n1=becomes({"rack": "r1"}), n2=becomes({"rack": "r1"})).nothing


def test_running_pods_whose_node_no_longer_is_what_they_require_could_not_come_back() -> None:
    pods = [a_pod(f"web-{number}", f"n{number}", labels={"app": "web"}, **GPU) for number in (2, 3)]
    there = Pods(three(), [], [*pods, a_pod("plain", "n2"), a_pod("alone", "n2", "", **GPU), a_pod("static", "n2", "Node/n2", **GPU)])
    impact = judged(there, n2=becomes({"pool": "cpu"}))
    assert impact.nodes == {"n2": NodeWorkloads(stranded=2)}
    assert [(each.owner, each.pods, each.nodes, each.elsewhere, each.examples) for each in impact.stranded_pods] == [
        ("", 1, 1, 1, ["alone"]),
        ("ReplicaSet/web", 1, 1, 1, ["web-2"]),
    ]


def test_what_could_not_come_back_before_is_not_the_changes_doing() -> None:
    there = Pods([Host("n1", {"pool": "cpu"}), Host("n2", {"pool": "gpu"}, unschedulable=True)], [], [])
    there.pods = [a_pod("web-1", "n1", **GPU), a_pod("web-2", "n2", **GPU)]
    assert judged(there, n1=becomes({"pool": "old"}), n2=becomes({"pool": "old"})).nothing


def test_pending_pods_may_be_placed_where_they_fit_anew() -> None:
    waits = [a_pod(f"job-{number}", "", "Job/train", nodeSelector={"pool": "tpu"}) for number in range(5)]
    gated = a_pod("gated", "", schedulingGates=[{"name": "quota"}], nodeSelector={"pool": "tpu"})
    there = Pods(three(), [], [*waits, gated, a_pod("anywhere", "")])
    impact = judged(there, n1=becomes({"pool": "tpu"}), n2=becomes({"pool": "tpu"}), n3=becomes({"rack": "r1"}))
    assert impact.nodes == {"n1": NodeWorkloads(fits=5), "n2": NodeWorkloads(fits=5)}
    (train,) = impact.fitting_pods
    assert (train.owner, train.pods, train.nodes, train.elsewhere) == ("Job/train", 5, 2, 0)
    assert train.examples == ["job-0", "job-1", "job-2"]


def test_budgets_are_touched_by_pods_that_end_or_could_not_come_back() -> None:
    pods = [a_pod("web-2", "n2", labels={"app": "web"}, **GPU), a_pod("driver-2", "n2", "DaemonSet/driver", {"app": "driver"})]
    guards = [a_budget("web", app="web"), a_budget("all"), a_budget("other", app="other"), a_budget("none")._replace(selector=None)]
    there = Pods(three(), [a_daemon_set("driver", **GPU)], pods, guards)
    assert judged(there, n2=becomes({}, "pool")).budgets == {
        "default/all": BudgetTouched(pods=2, allowed=1),
        "default/web": BudgetTouched(pods=1, allowed=1),
    }


@pytest.mark.parametrize("after", [0, 1])
def test_where_pods_may_not_be_listed_daemon_sets_are_judged_by_labels_and_that_is_said(after: int) -> None:
    pods = [a_pod("web-2", "n2", **GPU), of_set("driver", "n2")]
    there = Pods(three(), [a_daemon_set("driver", **GPU)], pods, forbidden=("pods",), after=after)
    impact = judged(there, n1=becomes({"pool": "gpu"}), n2=becomes({}, "pool"))
    assert (impact.starts, impact.stops, impact.stranded) == (1, 1, 0)
    assert [(each.what, each.reason) for each in impact.unseen] == [("pods", "Forbidden")]
    assert in_words(impact).endswith("not seen: pods")


def test_where_nodes_may_not_be_listed_nothing_is_said_of_pods() -> None:
    impact = judged(Pods(three(), forbidden=("nodes",)), n1=becomes({"pool": "gpu"}))
    assert impact.nothing
    assert [each.what for each in impact.unseen] == ["nodes"]


def test_where_daemon_sets_may_not_be_listed_their_pods_are_not_taken_for_others() -> None:
    there = Pods(three(), [], [of_set("driver", "n2", **GPU)], forbidden=("daemonsets", "poddisruptionbudgets"))
    impact = judged(there, n2=becomes({}, "pool"))
    assert impact.nothing
    assert [each.what for each in impact.unseen] == ["daemonsets", "poddisruptionbudgets"]


def test_of_many_owners_the_largest_are_listed_and_all_are_counted() -> None:
    pods = [a_pod(f"p{number}", "n2", f"ReplicaSet/r{number:03}", **GPU) for number in range(150)]
    impact = judged(Pods(three(), [], [*pods, a_pod("again", "n2", "ReplicaSet/r149", **GPU)]), n2=becomes({}, "pool"))
    assert (impact.stranded, len(impact.stranded_pods)) == (151, 100)
    assert (impact.stranded_pods[0].owner, impact.stranded_pods[0].pods) == ("ReplicaSet/r149", 2)
