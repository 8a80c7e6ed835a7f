"""What a relabel would change now: the same gathering and the same decisions, and nothing is written."""

from __future__ import annotations

from shared.domain.labels.plans import LabelPlan, PlanRequest, label_plan
from shared.ports import Refused
from shared.work.intake import NO_REVISION, Refusal, Rejected, refuse_unknown
from shared.work.planning import Declarations, Ground, Observed, decisions
from shared.world import World


def plan_committed(asked: PlanRequest, world: World) -> LabelPlan:
    """Plan against the newest revision and the cluster itself.

    Raises Rejected (nothing committed, an unknown cluster or node) and what the cluster raises.
    """
    revision = world.releases.look().committed
    if revision is None:
        raise Rejected(NO_REVISION)
    return plan_documents(asked, revision, world)


def plan_documents(asked: PlanRequest, declared: Declarations, world: World) -> LabelPlan:
    """Plan these documents against the cluster itself. Raises what `plan_committed` raises."""
    try:
        name = asked.cluster or world.default_cluster(declared)
        cluster = world.cluster(name, declared)
    except Refused as refused:
        raise Rejected(Refusal(refused.reason, str(refused))) from refused
    return plan_nodes(asked, declared, cluster, name)


def plan_nodes(asked: PlanRequest, declared: Declarations, cluster: Observed, name: str) -> LabelPlan:
    """Plan these documents against these nodes. Raises Rejected for nodes that neither knows."""
    refuse_unknown(asked.target_nodes or (), declared, cluster, name)
    ground = Ground.of(name, cluster, declared, asked.server_version)
    return label_plan(decisions(asked, ground), revision=declared.number, cluster=name, server_version=ground.server_version)
