"""How far the kubelets of a cluster may be behind its control plane: what a provider refuses is held (docs/versions.md, Held). Pure.

Kubernetes' version skew policy, which Gardener's API server enforces: no kubelet is newer than the control plane, or more than three
minors older; before control plane 1.28 two. Judged by what the pools run now: their new nodes come after the new control plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.domain.reasons.versions import sentence
from shared.domain.versions.clusters import FleetCluster, Pool
from shared.domain.versions.decisions import CONTROL_PLANE, Decision, Update
from shared.domain.versions.held import Held
from shared.domain.versions.semver import InvalidVersion, Version, parse

THREE_MINORS_FROM = (1, 28)
"""The first control plane that takes kubelets of three minors before it."""


def within_skew(decisions: Sequence[Decision], cluster: FleetCluster) -> list[Decision]:
    """These decisions, with a control plane's held back that would leave kubelets too far behind, and the pools that wait for it."""
    return behind([_checked(decision, decisions, cluster) for decision in decisions])


def behind(decisions: Sequence[Decision]) -> list[Decision]:
    """These decisions, with the pools held back that would go above a control plane whose own update is held."""
    control_plane = next((decision for decision in decisions if decision.component == CONTROL_PLANE), None)
    if control_plane is None or control_plane.held is None:
        return list(decisions)
    return [_waiting(decision, control_plane, control_plane.held) for decision in decisions]


def oldest_kubelet(control_plane: Version) -> tuple[int, int]:
    """The oldest minor of kubelets that a control plane takes."""
    return control_plane.major, control_plane.minor - (3 if (control_plane.major, control_plane.minor) >= THREE_MINORS_FROM else 2)


def _checked(decision: Decision, decisions: Sequence[Decision], cluster: FleetCluster) -> Decision:
    if decision.component != CONTROL_PLANE or not isinstance(decision.outcome, Update) or decision.held:
        return decision
    target = _read(decision.outcome.to)
    behind = [pool for pool in cluster.pools if target and _too_old(pool, target)]
    if target is None or not behind:
        return decision
    return replace(decision, held=Held("SkewTooWide", _who_moves_first(target, behind, decisions)))


def _too_old(pool: Pool, target: Version) -> bool:
    kubelet = _read(pool.kubernetes or "")
    return kubelet is not None and (kubelet.major, kubelet.minor) < oldest_kubelet(target)


def _who_moves_first(target: Version, behind: Sequence[Pool], decisions: Sequence[Decision]) -> str:
    major, minor = oldest_kubelet(target)
    pools = "; ".join(f"pool {pool.name!r} is on {pool.kubernetes} and {_way_on(pool, decisions)}" for pool in behind)
    return f"{target} takes kubelets from {major}.{minor} on, so pools move first: {pools}"


def _way_on(pool: Pool, decisions: Sequence[Decision]) -> str:
    """What becomes of a pool that is too far behind, by its own decision."""
    own = next((each for each in decisions if (each.component, each.subject) == (f"worker/{pool.name}", "kubernetes")), None)
    if own is None:
        return "nothing is decided for it"
    if isinstance(own.outcome, Update) and own.changes:
        return f"goes to {own.outcome.to} next"
    if own.forced and own.expires:
        return f"stays there until it expires on {own.expires:%Y-%m-%d} unless somebody moves it: {sentence(own.outcome.code)}"
    return f"stays there until somebody moves it: {sentence(own.outcome.code)}"


def _waiting(decision: Decision, control_plane: Decision, held: Held) -> Decision:
    """A pool's decision, held where it leads above the control plane as it stays."""
    limit, target = _read(control_plane.current or ""), _read(decision.outcome.to) if isinstance(decision.outcome, Update) else None
    above = limit is not None and target is not None and target.key > limit.key
    if decision.subject != "kubernetes" or decision.component == CONTROL_PLANE or decision.held or not above:
        return decision
    message = f"no pool goes above its control plane, which stays on {control_plane.current}: {held.reason}"
    return replace(decision, held=Held("ControlPlaneBehind", message, held.until), waived=None)


def _read(text: str) -> Version | None:
    try:
        return parse(text)
    except InvalidVersion:
        return None
