"""Rollouts that start with a commit: which of its Rollout documents, and whether there is anything that they would bring. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from shared.domain.documents.kinds import RolloutSpec
from shared.domain.labels.policies import Policies


class OnCommit(BaseModel):
    """What comes of a Rollout document with `start: onCommit` when it is committed."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    name: str
    """Of the document."""
    id: str = ""
    """Of the rollout; empty where none starts, and for a dry run."""
    clusters: list[str] = []
    reason: str = ""
    """Why none starts: a code; else empty."""
    message: str = ""

    def __str__(self) -> str:
        where = f"rollout {self.name} to {', '.join(self.clusters) or 'no cluster'}"
        if self.reason:
            return f"{where} does not start ({self.reason}): {self.message}"
        return f"{where} starts" + (f": {self.id}; `hullmark rollout watch {self.id}`" if self.id else " with the commit")


def starting(policies: Policies) -> list[tuple[str, RolloutSpec]]:
    """The Rollout documents that start with a commit, by name."""
    return [(name, spec) for name, spec in sorted(policies.rollouts.items()) if spec.start == "onCommit"]


def content_of(policies: Policies, design: str, cluster: str) -> str:
    """A digest of all that a release of these documents brings to one cluster. `design`: a digest of the nodes that they name.

    What a commit puts in force at once, how clusters are reached, limits, freezes and rollouts, is no part of it.
    """
    labels = policies.cluster_labels.get(cluster, {})
    meant = [policy.to_json() for policy in policies.all if policy.spec.where is None or policy.spec.where.means(cluster, labels)]
    whole = policies.to_json()
    parts = [meant, design, *(whole[part] for part in ("aliasPairs", "podPolicies", "keepDomains", "allowProtected", "onConflict"))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def needless(new: Mapping[str, str], there: Mapping[str, Sequence[str]], rejected: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """Why nothing starts by itself: a reason and what it means. By cluster, the content `new`, what is `there`, and what was `rejected`.
    None where some cluster would get something that nobody took back.
    """
    changes = [cluster for cluster, content in new.items() if not there[cluster] or {*there[cluster]} != {content}]
    if not changes:
        return "NothingToRelease", "nothing changes for the nodes of its clusters; `hullmark rollout start` starts it all the same"
    if all(new[cluster] in rejected[cluster] for cluster in changes):
        said = "its documents say what a rejected revision said; change them, or `hullmark rollout start` if it is meant"
        return "RejectedBefore", said
    return None
