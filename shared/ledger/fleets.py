"""All fleets of a revision, side by side: its Shoot documents, and the live ones that its Cluster documents name.

fleet/<namespace>/<name>/<n>.json   the n-th change of a cluster that lives in documents, and those before it that count from its Shoot on

The last one tells all, so that the ones before go: the KEPT last stay. A writer who was so slow that its number is free again finds the
later ones, and takes its own back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import quote

from shared.domain.actions import UNREADABLE
from shared.domain.documents.access import Outdated
from shared.domain.documents.reading import Document
from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile
from shared.domain.versions.clusters import UNKNOWN, FleetCluster, Health, VersionStep
from shared.domain.versions.fleets import FleetView, Trouble
from shared.domain.versions.identity import DOCUMENTS
from shared.domain.versions.profiles import Gardener, gardener
from shared.ledger.records import RecordUnreadable, numbered, read_as
from shared.ports import FIELD_UNREADABLE, ClusterError, Fleet, FleetAtOnce, ObjectStore, Refused, Stale, Unavailable, in_time

if TYPE_CHECKING:
    from shared.domain.documents.kinds import ClusterSpec


FLEET_SECONDS = 60.0
"""What one fleet may take of the time that all have: one that answers slowly keeps nobody else waiting for long."""
PROFILE_KINDS = ("CloudProfile", "NamespacedCloudProfile")
REREADS = 3
"""Tries at a cluster that others change at the same time."""
KEPT = 8
"""Changes of a cluster that stay. So many that no writer is overtaken by as many others between its reading and its writing."""


class DocumentFleet:
    """Clusters that are Shoot documents. What is applied to them is kept beside the documents, and counts while it starts from them."""

    def __init__(self, store: ObjectStore, shoots: Mapping[str, FleetCluster]) -> None:
        self._store = store
        self._shoots = shoots
        self.unreadable: dict[str, str] = {}
        """The clusters that were left out of `clusters`, and why."""

    def clusters(self) -> Iterator[FleetCluster]:
        changed = {key.split("/")[1] + "/" + key.split("/")[2] for key in self._store.keys("fleet/")} if self._shoots else set()
        for name, cluster in self._shoots.items():
            try:
                yield self._now(cluster) if _folder(name) in changed else _on_paper(cluster)
            except RecordUnreadable as torn:  # what it runs is unknown: it is left alone, the others go on
                self.unreadable[name] = str(torn)

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
        return _on_paper(_moved(cluster, self._changes(cluster.id)[1])[0])

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


def _on_paper(cluster: FleetCluster) -> FleetCluster:
    """A Shoot that is a document and has no status is in order: nothing runs that could not be."""
    return replace(cluster, health=Health(True)) if cluster.health == UNKNOWN else cluster


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


@runtime_checkable
class PartlyRead(Protocol):
    """A fleet that leaves out what it cannot read."""

    @property
    def unreadable(self) -> Mapping[str, str]:
        """What the last listing left out, and why: `NAMESPACE/NAME` of a cluster, `CloudProfile/NAME`."""
        ...


class Guarded:
    """A live fleet whose odd answers stay its own: what its adapter does not expect is one more reason to leave this fleet alone."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def unreadable(self) -> Mapping[str, str]:
        return self._fleet.unreadable if isinstance(self._fleet, PartlyRead) else {}

    def within(self, left: Callable[[], float], tries: int = 1) -> Guarded:
        return guarded(in_time(self._fleet, left))

    def clusters(self) -> Iterator[FleetCluster]:
        with expecting_anything():
            yield from self._fleet.clusters()

    def cluster(self, name: str) -> FleetCluster | None:
        with expecting_anything():
            return self._fleet.cluster(name)

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        with expecting_anything():
            return self._fleet.profiles()

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        with expecting_anything():
            return self._fleet.apply(name, step, dry_run=dry_run)


class GuardedAtOnce(Guarded):
    """One that moves several versions with one write."""

    def __init__(self, fleet: Fleet, at_once: FleetAtOnce) -> None:
        super().__init__(fleet)
        self._at_once = at_once

    def apply_at_once(self, name: str, steps: Sequence[VersionStep], *, dry_run: bool = False) -> Sequence[str]:
        with expecting_anything():
            return self._at_once.apply_at_once(name, steps, dry_run=dry_run)


def guarded(fleet: Fleet) -> Guarded:
    """A live fleet whose odd answers stay its own."""
    return GuardedAtOnce(fleet, fleet) if isinstance(fleet, FleetAtOnce) else Guarded(fleet)


@contextmanager
def expecting_anything() -> Iterator[None]:
    """Raises Unavailable in place of an error that nobody named."""
    try:
        yield
    except (ClusterError, RecordUnreadable):
        raise
    except Exception as odd:
        error = Unavailable(f"it answered something unexpected ({type(odd).__name__}: {odd})")
        error.reason = "UnexpectedAnswer"
        raise error from odd


def share_of(left: Callable[[], float]) -> Callable[[], float]:
    """What one fleet may spend of the seconds that are left."""
    reserve = left() - FLEET_SECONDS
    return lambda: min(left(), left() - reserve)


@dataclass
class Fleets:
    """Several fleets side by side, by name. A profile of the documents serves clusters whose own fleet has none of that name."""

    parts: Mapping[str, Fleet]
    documents: Gardener = field(default_factory=Gardener)
    troubles: list[Trouble] = field(default_factory=list)
    """What could not be opened, listed or read; everything else is decided all the same."""

    @property
    def unreachable(self) -> list[str]:
        """The troubles, one line each."""
        return [str(trouble) for trouble in self.troubles]

    def view(self, left: Callable[[], float] | None = None) -> FleetView:
        """All clusters and profiles as they are now. `left`: seconds that may be spent; no fleet gets more than FLEET_SECONDS of them."""
        seen = {DOCUMENTS: replace(self.documents, clusters={})}
        for name, part in self.parts.items():
            try:
                seen[name] = self._seen(name, in_time(part, share_of(left)) if left else part)
            except ClusterError as error:
                self.troubles.append(Trouble(name, error.reason, str(error)))
        return FleetView(seen)

    def _seen(self, name: str, part: Fleet) -> Gardener:
        profiles, namespaced = part.profiles()
        clusters = {cluster.id: replace(cluster, fleet=name) for cluster in part.clusters()}
        unreadable = part.unreadable if isinstance(part, PartlyRead) else {}
        reason = UNREADABLE if isinstance(part, DocumentFleet) else FIELD_UNREADABLE
        self.troubles += [Trouble(name, reason, message, what) for what, message in unreadable.items()]
        if name == DOCUMENTS:
            return replace(self.documents, clusters=clusters)
        own = {(profile.namespace, profile.name): profile for profile in namespaced}
        lost = frozenset(tuple(what.split("/")[1:]) for what in unreadable if what.split("/")[0] in PROFILE_KINDS)
        return Gardener({profile.name: profile for profile in profiles}, own, clusters, unreadable=lost)

    def find(self, name: str, fleet: str | None = None) -> tuple[Fleet, FleetCluster] | None:
        """The fleet that has a cluster of this id, and the cluster read anew.

        `fleet` None: any that has it, for the messages and records of earlier releases, which name no fleet. Raises Refused where
        several have it, and where the fleet could not be opened.
        """
        parts = self.parts if fleet is None else {fleet: self.parts[fleet]} if fleet in self.parts else {}
        if fleet is not None and fleet not in self.parts:
            for trouble in self.troubles:
                if trouble.subject == fleet:
                    raise Refused(trouble.reason, str(trouble))
        found = {part: cluster for part, fleet_there in parts.items() if (cluster := fleet_there.cluster(name)) is not None}
        if len(found) > 1:
            raise Refused("AmbiguousCluster", f"{name} is in several fleets: {', '.join(part or 'the documents' for part in found)}")
        return next(((self.parts[part], replace(cluster, fleet=part)) for part, cluster in found.items()), None)


Opener = Callable[[str, "ClusterSpec"], Fleet]
"""(name, spec of a Cluster document) → the fleet behind it. Raises Refused."""


def fleets_of(store: ObjectStore, documents: list[Document], declared: Mapping[str, ClusterSpec | Outdated], opened: Opener) -> Fleets:
    """The fleets of a revision: its Shoots, then whatever its Cluster documents' `provider` opens."""
    read = gardener(documents)
    parts: dict[str, Fleet] = {DOCUMENTS: DocumentFleet(store, read.clusters)}
    troubles: list[Trouble] = []
    for name, spec in declared.items():
        if isinstance(spec, Outdated):
            troubles.append(Trouble(name, "ClusterUnknown", spec.message))
        elif spec.provider != "none":
            try:
                with expecting_anything():
                    parts[name] = guarded(opened(name, spec))
            except ClusterError as error:
                troubles.append(Trouble(name, error.reason, str(error)))
    return Fleets(parts, read, troubles)
