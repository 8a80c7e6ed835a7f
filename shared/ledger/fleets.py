"""All fleets of a revision as one: its Shoot documents, and the live ones that its Cluster documents name.

fleet/<namespace>/<name>/<n>.json   the n-th change of a cluster that lives in documents, and those before it that count from its Shoot on

The last one tells all, so that the ones before go: the KEPT last stay. A writer who was so slow that its number is free again finds the
later ones, and takes its own back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from shared.domain.documents.access import Outdated
from shared.domain.documents.reading import Document
from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.profiles import Gardener, gardener
from shared.ledger.records import RecordUnreadable, numbered, read_as
from shared.ports import ClusterError, Fleet, ObjectStore, Refused, Stale

if TYPE_CHECKING:
    from shared.domain.documents.kinds import ClusterSpec


REREADS = 3
"""Tries at a cluster that others change at the same time."""
KEPT = 8
"""Changes of a cluster that stay. So many that no writer is overtaken by as many others between its reading and its writing."""


class DocumentFleet:
    """Clusters that are Shoot documents. What is applied to them is kept beside the documents, and counts while it starts from them."""

    def __init__(self, store: ObjectStore, shoots: Mapping[str, FleetCluster]) -> None:
        self._store = store
        self._shoots = shoots
        self.unreadable: list[str] = []
        """Why a cluster was left out of `clusters`."""

    def clusters(self) -> Iterator[FleetCluster]:
        changed = {key.split("/")[1] + "/" + key.split("/")[2] for key in self._store.keys("fleet/")} if self._shoots else set()
        for name, cluster in self._shoots.items():
            try:
                yield self._now(cluster) if _folder(name) in changed else cluster
            except RecordUnreadable as torn:  # what it runs is unknown: it is left alone, the others go on
                self.unreadable.append(f"{name}: {torn}")

    def cluster(self, name: str) -> FleetCluster | None:
        return self._now(self._shoots[name]) if name in self._shoots else None

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        return [], []

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        for _ in range(REREADS):
            last, steps = self._changes(name)
            shoot = self._shoots.get(name)
            cluster, counting = _moved(shoot, steps) if shoot else (None, [])
            current = step.version_in(cluster) if cluster else None
            if current is None:
                raise Refused("NotFound", f"{name} has no {step.key}")
            if current == step.to:
                return False
            if current != step.current:
                raise Stale(f"{step.key} of {name} is {current} now, not {step.current}")
            if dry_run or self._recorded(name, step, last, counting):
                return True
        raise Stale(f"{name} is being changed by somebody else")

    def _recorded(self, name: str, step: VersionStep, last: int, counting: list[VersionStep]) -> bool:
        """Write the change that follows number `last`, on which it was decided. False where another was first."""
        body = json.dumps(_json(step) | {"before": [_json(each) for each in counting]}).encode()
        mine = _change(name, last + 1)
        if not self._store.create(mine, body):
            return False
        there = self._numbers(name)
        if max(there, default=0) > last + KEPT:
            self._store.delete(mine)
            return False
        for number, key in there.items():
            if number <= last + 1 - KEPT:
                self._store.delete(key)
        return True

    def _now(self, cluster: FleetCluster) -> FleetCluster:
        return _moved(cluster, self._changes(cluster.id)[1])[0]

    def _numbers(self, name: str) -> dict[int, str]:
        return numbered(self._store.keys(f"fleet/{_folder(name)}/"))

    def _changes(self, name: str) -> tuple[int, list[VersionStep]]:
        """The number of the last change, and all that count, in order: the last one tells, where no earlier release wrote it."""
        keys = self._numbers(name)
        steps: list[VersionStep] = []
        for number in sorted(keys, reverse=True):
            body = self._store.get(keys[number])
            if body is None:
                continue
            step, before = read_as(keys[number], body, _steps)
            steps = [*(before or ()), step, *steps]
            if before is not None:
                break
        return max(keys, default=0), steps


def _moved(cluster: FleetCluster, steps: Iterable[VersionStep]) -> tuple[FleetCluster, list[VersionStep]]:
    """The cluster after these steps, and those of them that count: each starts from what the cluster runs by then."""
    counting = []
    for step in steps:
        if step.version_in(cluster) == step.current:
            cluster = cluster.with_versions({(step.component, step.subject): step.to})
            counting.append(step)
    return cluster, counting


def _steps(body: bytes) -> tuple[VersionStep, list[VersionStep] | None]:
    """A change, and those before it; None where it does not tell of them."""
    change = json.loads(body)
    return _step(change), [_step(each) for each in change["before"]] if "before" in change else None


def _step(change: Mapping[str, object]) -> VersionStep:
    return VersionStep(*(str(change[name]) for name in ("component", "subject", "from", "to")))


def _json(step: VersionStep) -> dict[str, object]:
    return {"component": step.component, "subject": step.subject, "from": step.current, "to": step.to}


def _change(name: str, number: int) -> str:
    return f"fleet/{_folder(name)}/{number:06}.json"


def _folder(name: str) -> str:
    return "/".join(quote(part, safe="") for part in name.split("/", 1))


@dataclass
class Fleets:
    """Several fleets as one, under the profiles of the documents (which win over a fleet's own of the same name)."""

    parts: Sequence[Fleet]
    documents: Gardener = field(default_factory=Gardener)
    unreachable: list[str] = field(default_factory=list)
    """Why a fleet could not be listed; the others are decided all the same."""

    def view(self) -> Gardener:
        """All clusters and profiles as they are now."""
        seen = Gardener()
        for part in self.parts:
            try:
                profiles, namespaced = part.profiles()
                listed = list(part.clusters())
            except ClusterError as error:
                self.unreachable.append(str(error))
                continue
            self.unreachable += part.unreadable if isinstance(part, DocumentFleet) else []
            seen.profiles |= {profile.name: profile for profile in profiles}
            seen.namespaced |= {(own.namespace, own.name): own for own in namespaced}
            seen.clusters |= {cluster.id: cluster for cluster in listed}
        seen.profiles |= self.documents.profiles
        seen.namespaced |= self.documents.namespaced
        return seen

    def find(self, name: str) -> tuple[Fleet, FleetCluster] | None:
        """The fleet that has a cluster of this id, and the cluster read anew."""
        for part in reversed(self.parts):
            cluster = part.cluster(name)
            if cluster is not None:
                return part, cluster
        return None


Opener = Callable[[str, "ClusterSpec"], Fleet]
"""(name, spec of a Cluster document) → the fleet behind it. Raises Refused."""


def fleets_of(store: ObjectStore, documents: list[Document], declared: Mapping[str, ClusterSpec | Outdated], opened: Opener) -> Fleets:
    """The fleets of a revision: its Shoots, then whatever its Cluster documents' `provider` opens."""
    read = gardener(documents)
    parts: list[Fleet] = [DocumentFleet(store, read.clusters)]
    unreachable: list[str] = []
    for name, spec in declared.items():
        if isinstance(spec, Outdated):
            unreachable.append(spec.message)
        elif spec.provider != "none":
            try:
                parts.append(opened(name, spec))
            except Refused as error:
                unreachable.append(str(error))
    return Fleets(parts, read, unreachable)
