"""What keeps an update of an EKS or GKE cluster back by its own word: switches, window, exclusions, images of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from shared.domain.versions.clusters import OWN_IMAGE, Exclusion, FleetCluster
from shared.domain.versions.decisions import CONTROL_PLANE, Decision, Update
from shared.domain.versions.held import Held
from shared.domain.versions.semver import InvalidVersion, parse


def own_holds(cluster: FleetCluster, decision: Decision, now: datetime) -> Iterator[Held]:
    """What a provider's cluster says of itself. A Shoot says nothing here: Gardener forces what has expired whatever its switches say."""
    if not cluster.asked_for:
        return
    auto = cluster.auto_image if decision.subject == "machineImage" else cluster.auto_kubernetes
    if not auto:
        yield Held("AutoUpdateOff", f"autoUpdate is off in the Cluster document of {cluster.full_name}: updates are announced only")
    if cluster.window.never:
        yield Held("NoMaintenanceWindow", f"the Cluster document of {cluster.full_name} has no timeWindow: updates are announced only")
    if any(pool.own_image for pool in cluster.pools if f"worker/{pool.name}" == decision.component):
        yield Held(OWN_IMAGE, f"the launch template of {decision.component} names its image: its versions are its owner's to move")
    for exclusion in cluster.exclusions:
        if exclusion.begin <= now < exclusion.end and _excluded(exclusion, decision):
            yield Held("MaintenanceExclusion", f"{exclusion.name} ({exclusion.scope}) of {cluster.full_name}", exclusion.end)


def with_their_kubernetes(decisions: Sequence[Decision], cluster: FleetCluster) -> list[Decision]:
    """These decisions, with the images held back of pools whose Kubernetes version moves: on EKS that brings an image of its own, and the
    nodes are replaced once. A Shoot gets both with one write.
    """
    if not cluster.asked_for:
        return list(decisions)
    moving = {each.component for each in decisions if each.subject == "kubernetes" and each.changes and each.held is None}
    return [_coming(each) if each.subject == "machineImage" and each.changes and each.component in moving else each for each in decisions]


def _coming(decision: Decision) -> Decision:
    held = Held("ComesWithKubernetes", f"the Kubernetes update of {decision.component} brings the newest image of its version")
    return replace(decision, held=decision.held or held, waived=None)


def _excluded(exclusion: Exclusion, decision: Decision) -> bool:
    """Whether an exclusion is about an update of this kind. A scope that is not known keeps everything back."""
    minor = not _same_minor(decision)
    return {"NO_MINOR_UPGRADES": minor, "NO_MINOR_OR_NODE_UPGRADES": minor or decision.component != CONTROL_PLANE}.get(
        exclusion.scope, True
    )


def _same_minor(decision: Decision) -> bool:
    if not isinstance(decision.outcome, Update) or decision.current is None:
        return True
    try:
        old, new = parse(decision.current), parse(decision.outcome.to)
    except InvalidVersion:
        return False
    return (old.major, old.minor) == (new.major, new.minor)
