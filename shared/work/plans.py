"""What a relabel would change now: the same gathering and the same decisions, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shared.domain.labels.planning import Settled, Write
from shared.domain.labels.plans import LabelPlan, PlanRequest, Waits, dated, label_plan
from shared.domain.labels.tally import Tally
from shared.ledger.declared import Declared
from shared.ledger.releases import InForce
from shared.ledger.revisions import Revision
from shared.ports import Cluster, LastWrites, Refused
from shared.work.intake import NO_REVISION, Refusal, Rejected, refuse_unknown
from shared.work.limits import would_exceed
from shared.work.planning import ByRelease, Counted, Declarations, Ground, Observed, decisions, record_of, showing_taints
from shared.work.workloads import with_workloads
from shared.world import World

DATED = 500
"""Drifted nodes that are read again, one by one, for when their labels' holders last wrote; a plan of more shows no times for the rest."""


def plan_committed(asked: PlanRequest, world: World) -> LabelPlan:
    """Plan against the newest revision, or what is released to each node, and the cluster itself.

    Raises Rejected (nothing committed, an unknown cluster or node) and what the cluster raises.
    """
    in_force = world.releases.look()
    revision = in_force.committed
    if revision is None:
        raise Rejected(NO_REVISION)
    name, cluster = _cluster(asked, revision, world)
    if asked.released:
        plan = _plan_released(asked, name, in_force, revision, world)
    else:
        plan = _plan_measured(asked, revision, cluster, name, in_force, world)
    plan = plan.model_copy(update={"waits": Waits.of(revision.number, in_force.state(name).base)})
    return with_workloads(plan, cluster) if asked.workloads else plan


def _plan_released(asked: PlanRequest, name: str, in_force: InForce, committed: Revision, world: World) -> LabelPlan:
    """Plan each node by its release."""
    basis = ByRelease(name, world, in_force, asks_version=True, adopt=asked.adopt)
    refuse_unknown(asked.target_nodes or (), committed, basis.cluster, name)
    unreleased = 0

    def decided() -> Iterator[tuple[str, Settled | Write]]:
        nonlocal unreleased
        for node, decision in decisions(asked, basis):
            unreleased += not basis.mark(node).released
            yield node, decision

    plan = label_plan(decided(), revision=basis.revision or None, cluster=name, server_version=basis.main().server_version)
    _say_when(plan, basis.cluster)
    return plan.model_copy(update={"released": True, "unreleased": unreleased})


def _say_when(plan: LabelPlan, cluster: Observed) -> None:
    """Add when the holders of drifted labels last wrote, where the cluster says so: one read for each node, of few enough nodes."""
    if isinstance(cluster, LastWrites):
        names = [name for name, node in plan.nodes.items() if node.from_][:DATED]
        for name, writes in zip(names, cluster.spread(cluster.last_writes, names), strict=True):
            plan.nodes[name] = dated(plan.nodes[name], writes)


def plan_documents(asked: PlanRequest, declared: Declarations, world: World) -> LabelPlan:
    """Plan these documents against the cluster itself. Raises what `plan_committed` raises."""
    name, cluster = _cluster(asked, declared, world)
    plan = _plan_measured(asked, declared, cluster, name, world.releases.look(), world)
    return with_workloads(plan, cluster) if asked.workloads else plan


def _plan_measured(asked: PlanRequest, declared: Declarations, cluster: Cluster, name: str, in_force: InForce, world: World) -> LabelPlan:
    """Plan these documents, and say whether a limit would keep a relabel from being sent out. Nodes that are named are not measured."""
    counted, tally = Counted(showing_taints(cluster, declared.policies.startup_taints)), Tally(name)
    plan = plan_nodes(asked, declared, counted, name, record_of(name, in_force, world, adopt=asked.adopt), tally)
    if asked.target_nodes is not None:
        return plan
    impact = tally.impact(counted.count, whole=asked.node_filter is None)
    return plan.model_copy(update={"impact": impact, "beyond": would_exceed(impact, declared, in_force, world)})


def _cluster(asked: PlanRequest, declared: Declarations, world: World) -> tuple[str, Cluster]:
    try:
        name = asked.cluster or world.default_cluster(declared)
        return name, world.cluster(name, declared)
    except Refused as refused:
        raise Rejected(Refusal(refused.reason, str(refused))) from refused


def plan_nodes(
    asked: PlanRequest, declared: Declarations, cluster: Observed, name: str, record: Declared | None = None, tally: Tally | None = None
) -> LabelPlan:
    """Plan these documents against these nodes. `record`: what the store has declared so far. `tally` counts along. Raises Rejected for
    nodes that neither knows.
    """
    tally = tally or Tally(name)
    refuse_unknown(asked.target_nodes or (), declared, cluster, name)
    ground = replace(Ground.of(name, cluster, declared, asked.server_version), record=record)
    return label_plan(
        tally.counting(decisions(asked, ground)), revision=declared.number, cluster=name, server_version=ground.server_version
    )
