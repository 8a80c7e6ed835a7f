"""How an update ends that a provider has accepted: what the cluster runs, and what the provider says of it. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, NamedTuple

from shared.domain.outcomes import Outcome
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.semver import InvalidVersion, parse

State = Literal["running", "done", "failed", "unknown"]
PATIENCE = timedelta(minutes=30)
"""So long a provider that rests may say nothing of an update that it accepted."""
UPDATE_FAILED = "ProviderUpdateFailed"


class Progress(NamedTuple):
    """What a provider says of its last update to a version. `message`: why it failed, or why nobody can say."""

    state: State
    message: str = ""


UNSAID = Progress("unknown")


def reached(step: VersionStep, cluster: FleetCluster) -> bool:
    """Whether a cluster runs what a step asked for, or something higher. What can't be read as a version says nothing."""
    runs = step.version_in(cluster)
    try:
        return runs is not None and parse(runs).key >= parse(step.to).key
    except InvalidVersion:
        return False


def end_of(step: VersionStep, begun: Outcome, cluster: FleetCluster, said: Progress, waited: timedelta) -> Outcome | None:
    """How a step has ended whose cluster rests; None while nobody can say. `begun`: what was told when it was accepted."""
    if reached(step, cluster):
        return begun.model_copy(update={"reason": ""})
    if said.state == "failed" or (said.state != "running" and waited > PATIENCE):
        words = said.message or "the provider does not say why"
        return Outcome(subject=step.key, outcome="failed", reason=UPDATE_FAILED, message=words)
    return None


def gone(step: VersionStep, cluster: str) -> Outcome:
    """How a step has ended whose cluster is gone."""
    return Outcome(subject=step.key, outcome="missing", reason="ClusterNotFound", message=f"no fleet has a cluster {cluster} any more")


def stopped(begun: Outcome) -> Outcome:
    """How a step ends for its action, where somebody stopped that: a provider can't be stopped."""
    message = f"the action was stopped; the provider goes on with it ({begun.message})"
    return Outcome(subject=begun.subject, outcome="stopped", reason="Stopped", message=message)
