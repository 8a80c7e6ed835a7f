"""All fleets of a revision, side by side: its Shoot documents, and the live ones that its Cluster documents name.

fleet/<namespace>/<name>/<n>.json   the n-th change of a cluster that lives in documents, and those before it that count from its Shoot on

The last one tells all, so that the ones before go: the KEPT last stay. A writer who was so slow that its number is free again finds the
later ones, and takes its own back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import quote

from shared.domain.actions import UNREADABLE
from shared.domain.documents.access import Outdated
from shared.domain.documents.reading import Document
from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile
from shared.domain.versions.clusters import UNKNOWN, FleetCluster, Health, VersionStep, shoot_id
from shared.domain.versions.ends import UNSAID, Progress
from shared.domain.versions.fleets import FleetView, Trouble
from shared.domain.versions.identity import DOCUMENTS
from shared.domain.versions.profiles import Gardener, gardener
from shared.domain.versions.shards import shard_of
from shared.ledger.records import RecordUnreadable, numbered, read_as
from shared.ports import (
    FIELD_UNREADABLE,
    ONE_BY_ONE,
    ClusterError,
    Fleet,
    FleetAtOnce,
    ObjectStore,
    Refused,
    Stale,
    TellsProgress,
    Unavailable,
    Workers,
    in_time,
)

if TYPE_CHECKING:
    from shared.domain.documents.kinds import ClusterSpec


FLEET_SECONDS = 30.0
"""What one fleet may take of the time that all have: one that answers slowly keeps nobody else waiting for long."""
SHOOT = "Shoot"
PROFILE_KINDS = ("CloudProfile", "NamespacedCloudProfile")
REREADS = 3
"""Tries at a cluster that others change at the same time."""
KEPT = 8
"""Changes of a cluster that stay. So many that no writer is overtaken by as many others between its reading and its writing."""


class DocumentFleet:
    """Clusters that are Shoot documents. What is applied to them is kept beside the documents, and counts while it starts from them."""

    def __init__(self, store: ObjectStore, shoots: Mapping[str, FleetCluster], workers: Workers = ONE_BY_ONE) -> None:
        self._store = store
        self._shoots = shoots
        self._workers = workers
        self.unreadable: dict[str, str] = {}
        """The clusters that were left out of `clusters`, and why."""

    def clusters(self) -> Iterator[FleetCluster]:
        """All of them: one listing, and one read for each that was ever changed."""
        changes: dict[str, list[str]] = {}
        for key in self._store.keys("fleet/") if self._shoots else ():
            changes.setdefault(key.removeprefix("fleet/").rpartition("/")[0], []).append(key)
        changed = [cluster for name, cluster in self._shoots.items() if _folder(name) in changes]
        now = dict(self._workers.each(lambda cluster: (cluster.id, self._readable(cluster, changes[_folder(cluster.id)])), changed))
        for name, cluster in self._shoots.items():
            found = now[name] if name in now else on_paper(cluster)
            if found is not None:
                yield found

    def _readable(self, cluster: FleetCluster, keys: Iterable[str]) -> FleetCluster | None:
        """The cluster as it is now. None where that can't be read: it is left alone, the others go on."""
        try:
            return on_paper(_moved(cluster, self._steps(numbered(keys)))[0])
        except RecordUnreadable as torn:
            self.unreadable[cluster.id] = str(torn)
            return None

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
        return on_paper(_moved(cluster, self._changes(cluster.id)[1])[0])

    def _numbers(self, name: str) -> dict[int, str]:
        return numbered(self._store.keys(f"fleet/{_folder(name)}/"))

    def _changes(self, name: str) -> tuple[int, list[VersionStep]]:
        """The number of the last change, and all that count, in order: the last one tells, where no earlier release wrote it."""
        keys = self._numbers(name)
        return max(keys, default=0), self._steps(keys)

    def _steps(self, keys: Mapping[int, str]) -> list[VersionStep]:
        steps: list[VersionStep] = []
        for number in sorted(keys, reverse=True):
            body = self._store.get(keys[number])
            if body is None:
                continue
            step, before = read_as(keys[number], body, _steps)
            steps = [*(before or ()), step, *steps]
            if before is not None:
                break
        return steps


def on_paper(cluster: FleetCluster) -> FleetCluster:
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

    def progress(self, name: str, step: VersionStep) -> Progress:
        """What the provider says of its last update to a step's version. Raises Refused and Unavailable."""
        with expecting_anything():
            return self._fleet.progress(name, step) if isinstance(self._fleet, TellsProgress) else UNSAID


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
    except (ClusterError, RecordUnreadable, ModuleNotFoundError):  # a library that is missing here says nothing of the fleet
        raise
    except Exception as odd:
        error = Unavailable(f"it answered something unexpected ({type(odd).__name__}: {odd})")
        error.reason = "UnexpectedAnswer"
        raise error from odd


def share_of(left: Callable[[], float]) -> Callable[[], float]:
    """What one fleet may spend of the seconds that are left."""
    reserve = left() - FLEET_SECONDS
    return lambda: min(left(), left() - reserve)


Opener = Callable[[str, "ClusterSpec"], Fleet]
"""(name, spec of a Cluster document) → the fleet behind it. Raises Refused."""


class Fleets:
    """Several fleets side by side, by name. A profile of the documents serves clusters whose own fleet has none of that name.

    Nothing is opened or read before it is asked for.
    """

    def __init__(
        self,
        store: ObjectStore,
        documents: Sequence[Document],
        declared: Mapping[str, ClusterSpec | Outdated],
        opened: Opener,
        workers: Workers = ONE_BY_ONE,
    ) -> None:
        self._store = store
        self._documents = documents
        self._declared = {name: spec for name, spec in declared.items() if isinstance(spec, Outdated) or spec.provider != "none"}
        self._opener = opened
        self._workers = workers
        self._opened: dict[str, Fleet] = {}
        self.troubles: list[Trouble] = []
        """What could not be opened, listed or read; everything else is decided all the same."""

    @property
    def names(self) -> list[str]:
        """Every fleet that there is, the documents' first."""
        return [DOCUMENTS, *self._declared]

    def of_shard(self, shard: int | None) -> list[str]:
        """The fleets of a shard; of none, all."""
        return [name for name in self.names if shard is None or shard_of(name) == shard]

    @property
    def unreachable(self) -> list[str]:
        """The troubles, one line each."""
        return [str(trouble) for trouble in self.troubles]

    def view(self, left: Callable[[], float] | None = None, shard: int | None = None) -> FleetView:
        """All clusters and profiles as they are now; of a shard, its fleets' beside the documents' profiles.

        `left`: seconds that may be spent; no fleet gets more than FLEET_SECONDS of them.
        """
        names = self.of_shard(shard)
        seen: dict[str, Gardener] = {}
        if DOCUMENTS not in names:
            seen[DOCUMENTS] = gardener(document for document in self._documents if document.kind != SHOOT)
        for name, (found, troubles) in zip(names, self._workers.each(lambda name: self._looked_at(name, left), names), strict=True):
            self.troubles += troubles
            if found is not None:
                seen[name] = found
        return FleetView(seen)

    def _looked_at(self, name: str, left: Callable[[], float] | None) -> tuple[Gardener | None, list[Trouble]]:
        try:
            if name == DOCUMENTS:
                read = gardener(self._documents)
                shoots = DocumentFleet(self._store, read.clusters, self._workers)
                clusters = {cluster.id: cluster for cluster in shoots.clusters()}
                torn = [Trouble(name, UNREADABLE, message, what) for what, message in shoots.unreadable.items()]
                return replace(read, clusters=clusters), torn
            return _seen(name, in_time(fleet, share_of(left)) if (fleet := self._open(name)) and left else fleet)
        except ClusterError as error:
            return None, [Trouble(name, error.reason, str(error))]

    def _open(self, name: str) -> Fleet:
        """A live fleet. Raises Refused, and Unavailable for an adapter that fails in a way nobody foresaw."""
        spec = self._declared[name]
        if isinstance(spec, Outdated):
            raise Refused("ClusterUnknown", spec.message)
        if name not in self._opened:
            with expecting_anything():
                self._opened[name] = guarded(self._opener(name, spec))
        return self._opened[name]

    def progress(self, cluster: FleetCluster, step: VersionStep) -> Progress:
        """What a cluster's provider says of its last update to a step's version. Raises Refused and Unavailable."""
        fleet = self._open(cluster.fleet)
        return fleet.progress(cluster.id, step) if isinstance(fleet, TellsProgress) else UNSAID

    def find(self, name: str, fleet: str | None = None) -> tuple[Fleet, FleetCluster] | None:
        """The fleet that has a cluster of this id, and the cluster read anew. Of the documents, only its Shoot is read.

        `fleet` None: any that has it, for the messages and records of earlier releases, which name no fleet. Raises Refused where
        several have it, and where the fleet could not be opened.
        """
        names = [DOCUMENTS, *self._declared] if fleet is None else [fleet] if fleet == DOCUMENTS or fleet in self._declared else []
        there = {each: part for each in names if (part := self._part(each, name, only=fleet is not None))}
        found = {each: cluster for each, part in there.items() if (cluster := part.cluster(name)) is not None}
        if len(found) > 1:
            raise Refused("AmbiguousCluster", f"{name} is in several fleets: {', '.join(part or 'the documents' for part in found)}")
        return next(((there[each], replace(cluster, fleet=each)) for each, cluster in found.items()), None)

    def _part(self, fleet: str, cluster: str, *, only: bool) -> Fleet | None:
        """A fleet as far as one cluster needs it. None where it can't be opened, and is not the only one that is asked."""
        if fleet == DOCUMENTS:
            alike = [document for document in self._documents if document.kind == SHOOT and cluster.endswith(f"/{document.name}")]
            shoot = [document for document in alike if shoot_id(document) == cluster]
            return DocumentFleet(self._store, gardener(shoot).clusters)
        try:
            return self._open(fleet)
        except ClusterError as error:
            if only:
                raise Refused(error.reason, str(Trouble(fleet, error.reason, str(error)))) from error
            self.troubles.append(Trouble(fleet, error.reason, str(error)))
            return None


def _seen(name: str, fleet: Fleet) -> tuple[Gardener, list[Trouble]]:
    """What a live fleet answers, and what of it could not be read."""
    profiles, namespaced = fleet.profiles()
    clusters = {cluster.id: replace(cluster, fleet=name) for cluster in fleet.clusters()}
    unreadable = fleet.unreadable if isinstance(fleet, PartlyRead) else {}
    own = {(profile.namespace, profile.name): profile for profile in namespaced}
    lost = frozenset(tuple(what.split("/")[1:]) for what in unreadable if what.split("/")[0] in PROFILE_KINDS)
    troubles = [Trouble(name, FIELD_UNREADABLE, message, what) for what, message in unreadable.items()]
    return Gardener({profile.name: profile for profile in profiles}, own, clusters, unreadable=lost), troubles
