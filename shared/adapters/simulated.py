"""A cluster that exists only in the object store, with the API server's ownership rules for labels.

The embedded default, and the second implementation behind every test of the port. Rules: Server-Side Apply of Kubernetes 1.35
(https://kubernetes.io/docs/reference/using-api/server-side-apply/), held to a real server by tests/adapters/test_clusters.py.

    clusters/NAME/seed.json                     the nodes at the beginning, written once
    clusters/NAME/nodes/NODE/0000000002.json    one object per version of a node that changed since; the greatest counts
    clusters/NAME/sealed/NODE/0000000000        a group of GROUP versions that is history: whoever sealed it removes them
    clusters/NAME/unschedulable/NAMESPACE/…1    how many of its pods no node was found for; the greatest counts

Of pods it knows that, and on which nodes DaemonSets have an available one, as somebody says it: nothing schedules here.

Creating the next version is the compare-and-swap, and it only is one while no version of its group was ever removed. A folder that is
listed while others write shows for certain only what is there from the beginning of the listing to its end. Therefore:

- nothing is removed from a group before its seal is there; a group is sealed when the next one has a version; seals stay;
- a writer looks for its group's seal after it created a version: without one, nobody can have made that version before;
- a reader lists the versions first and the seals second: nothing was removed from groups that are not sealed by then, so that it has seen
  all their versions that were there when it began. Versions of sealed groups do not count, whoever left them there.

A deleted node leaves a version that says so.
"""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self, TypeVar

import msgspec

from shared.domain.keys import is_subdomain, key_error, value_error
from shared.domain.labels.aliases import oldest
from shared.domain.nodes import Node, Taint, manager_error
from shared.ports import HULLMARK, Conflict, NodeGone, ObjectStore, Owner, Refused, Stale, Unavailable

T = TypeVar("T")
R = TypeVar("R")

BEFORE_FIRST_APPLY = "before-first-apply"
"""What the API server calls the owner of everything on an object without managedFields, once somebody applies to it."""
GROUP = 8
"""Versions that are sealed and removed together. A node has at most twice as many objects, and a seal for each group that it outgrew."""
_DIGITS = 10


class _Manager(msgspec.Struct, frozen=True):
    name: str
    operation: str
    """`Apply` or `Update`: with the name, what an owner is."""
    keys: frozenset[str]
    at: datetime | None = None
    """When it last set one of the keys or changed its value; None where nobody recorded it."""


class _State(msgspec.Struct, frozen=True):
    uid: str
    labels: dict[str, str]
    managers: tuple[_Manager, ...] = ()
    kubelet_version: str = ""
    tracked: bool = True
    """Whether it has managedFields at all; an object without them gets none by Updates, only by the first Apply."""
    deleted: bool = False
    ready: bool | None = True
    """Its Ready condition; None where its kubelet has reported none. A seeded node runs."""
    created: str = ""
    taints: tuple[Taint, ...] = ()
    daemon_sets: dict[str, bool] = {}
    """By DaemonSet, `NAMESPACE/NAME`, whether a pod of it is available here."""


class _Seed(msgspec.Struct, frozen=True):
    version: str
    nodes: dict[str, _State]
    origin: str = ""
    """Digest of the file that they were read from; empty where nobody recorded it."""


_states, _seeds = msgspec.json.Decoder(_State), msgspec.json.Decoder(_Seed)


def _nothing_happens(_call: str, _node: str) -> None:
    return


class Simulated:
    """`shared.ports.Cluster` in a store, seeded once with `seed()`. Several processes may use one store at the same time.

    `before(call, node)` runs at the start of every call of the port (`node` is empty for a listing) and may raise what a real server
    would. `interrupt()` runs between reading a node and writing it, so that a test can let others in.
    """

    def __init__(
        self,
        store: ObjectStore,
        name: str = "default",
        seed: Callable[[], Iterable[Node]] = tuple,
        *,
        version: str = "",
        owner: Owner = HULLMARK,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        before: Callable[[str, str], None] = _nothing_happens,
        interrupt: Callable[[], None] = lambda: None,
        origin: Callable[[], str] = str,
    ) -> None:
        self.before, self.interrupt, self.owner = before, interrupt, owner
        self._store, self._folder = store, f"clusters/{name}/"
        self._seed_nodes, self._seed_version, self._clock = seed, version, clock
        self._origin = origin
        self._seeded: _Seed | None = None
        self._lock = threading.RLock()
        self._known: dict[str, tuple[int, _State]] = {}
        self._taints = False

    # -- the port

    def server_version(self) -> str:
        self.before("server_version", "")
        seed = self._seed()
        return seed.version or oldest(state.kubelet_version for state in seed.nodes.values())

    def nodes(self) -> list[Node]:
        self.before("nodes", "")
        return [self._shown(_node(name, version, state)) for name, version, state in self._there()]

    def readiness(self) -> Mapping[str, bool | None]:
        self.before("readiness", "")
        return {name: state.ready for name, _, state in self._there()}

    def daemon_sets(self, nodes: Collection[str]) -> Mapping[str, Collection[str]]:
        self.before("daemon_sets", "")
        there = [(name, state.daemon_sets) for name, _, state in self._there()]
        every = {each for _, found in there for each in found}
        return {each: {name for name, found in there if name in nodes and found.get(each)} for each in every}

    def unschedulable(self) -> Mapping[str, int]:
        self.before("unschedulable", "")
        newest = _greatest(self._store.keys(f"{self._folder}unschedulable/"))
        counts = {namespace: int(self._store.get(self._pending(namespace, number)) or 0) for namespace, number in newest.items()}
        return {namespace: count for namespace, count in counts.items() if count}

    def node(self, name: str) -> Node | None:
        self.before("node", name)
        version, state = self._newest(name)
        return None if state is None or state.deleted else self._shown(_node(name, version, state))

    def _shown(self, node: Node) -> Node:
        """The node as somebody sees it who asks for metadata alone, or for taints too."""
        return node if self._taints else replace(node, taints=None)

    def last_writes(self, name: str) -> Mapping[str, datetime]:
        self.before("last_writes", name)
        _, state = self._newest(name)
        if state is None or state.deleted:
            return {}
        recorded = sorted((entry.at, entry.name) for entry in state.managers if entry.at)
        return {manager: at for at, manager in recorded}

    def apply_labels(self, name: str, uid: str, labels: Mapping[str, str], *, manager: str = "", force: bool = True) -> Node:
        self.before("apply_labels", name)
        _check(labels, manager or self.owner.name)

        def applied(_: int, state: _State) -> _State:
            if state.uid != uid:
                raise NodeGone(f"node {name!r} with uid {uid} is gone")
            return _apply(state, manager or self.owner.name, dict(labels), force)

        return self._change(name, applied)

    def with_taints(self) -> Self:
        showing = copy.copy(self)
        showing._taints = True
        return showing

    def remove_taint(self, name: str, uid: str, taint: Taint, labels: Mapping[str, str]) -> bool:
        self.before("remove_taint", name)
        held = False

        def removed(_: int, state: _State) -> _State:
            nonlocal held
            if state.uid != uid:
                raise NodeGone(f"node {name!r} with uid {uid} is gone")
            held = taint in state.taints
            if held and any(state.labels.get(key) != value for key, value in labels.items()):
                raise Stale(f"node {name!r}: its labels changed while {taint} was to be taken off")
            return msgspec.structs.replace(state, taints=tuple(each for each in state.taints if each != taint))

        self._change(name, removed)
        return held

    def remove_labels(self, name: str, keys: Sequence[str], *, resource_version: str, manager: str = "") -> Node:
        self.before("remove_labels", name)
        return self._merge(name, dict.fromkeys(keys), resource_version, manager or self.owner.name)

    def patch_labels(self, name: str, labels: Mapping[str, str], *, resource_version: str, manager: str) -> Node:
        self.before("patch_labels", name)
        _check(labels, manager)
        return self._merge(name, labels, resource_version, manager)

    def _merge(self, name: str, labels: Mapping[str, str | None], resource_version: str, manager: str) -> Node:
        def merged(version: int, state: _State) -> _State:
            if str(version) != resource_version:
                raise Stale(f"node {name!r} changed since it was read")
            return _update(state, manager, labels)

        return self._change(name, merged)

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return [work(item) for item in items]

    # -- what others do to the cluster

    def create(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        manager: str = "kubelet",
        *,
        ready: bool | None = None,
        kubelet_version: str = "",
        taints: Iterable[Taint] = (),
        created: str = "",
    ) -> str:
        """A node registered by `manager`; of a name that was deleted before, a new one. Returns its uid. Raises Refused where it exists."""
        if not is_subdomain(name):
            raise Refused("Invalid", f"metadata.name: {name[:80]!r} is not a DNS name of lower-case letters, digits, - and .")
        _check(labels or {}, manager)
        version, state = self._newest(name)
        if state is not None and not state.deleted:
            raise Refused("AlreadyExists", f'nodes "{name}" already exists')
        registered = _State(str(uuid.uuid4()), {}, kubelet_version=kubelet_version, ready=ready, taints=tuple(taints), created=created)
        new = _stamped(registered, _update(registered, manager, dict(labels or {})), self._clock())
        if not self._write(name, version, new):
            _, there = self._newest(name)
            if there is None or there.uid != new.uid:
                raise Refused("AlreadyExists", f'nodes "{name}" already exists')
        return new.uid

    def delete(self, name: str) -> None:
        """Delete a node. Raises NodeGone."""
        self._change(name, lambda _, state: _State(state.uid, {}, deleted=True))

    def set_labels(self, name: str, labels: Mapping[str, str | None], manager: str = "kubectl-label") -> None:
        """Set (or, with None, remove) labels by Update, as kubelets and `kubectl label` do. Raises NodeGone and Refused."""
        _check({key: value for key, value in labels.items() if value is not None}, manager)
        self._change(name, lambda _, state: _update(state, manager, labels))

    def set_taints(self, name: str, taints: Iterable[Taint]) -> None:
        """Put these taints in the place of a node's, as `kubectl taint` does. Raises NodeGone."""
        self._change(name, lambda _, state: msgspec.structs.replace(state, taints=tuple(taints)))

    def set_ready(self, name: str, ready: bool) -> None:
        """Report the Ready condition, as a kubelet does, or the node lifecycle controller for one that is silent. Raises NodeGone."""
        self._change(name, lambda _, state: msgspec.structs.replace(state, ready=ready))

    def set_daemon_set(self, name: str, daemon_set: str, available: bool) -> None:
        """Say whether a DaemonSet, `NAMESPACE/NAME`, has an available pod on a node. Raises NodeGone and Refused."""
        namespace, _, named = daemon_set.partition("/")
        if not (is_subdomain(namespace) and is_subdomain(named)):
            raise Refused("Invalid", f"{daemon_set[:80]!r} is not NAMESPACE/NAME of a DaemonSet")
        self._change(name, lambda _, state: msgspec.structs.replace(state, daemon_sets={**state.daemon_sets, daemon_set: available}))

    def set_unschedulable(self, namespace: str, count: int) -> None:
        """Say how many pods of a namespace the scheduler has found no node for. Raises Refused."""
        if not is_subdomain(namespace):
            raise Refused("Invalid", f"{namespace[:80]!r} is not the name of a namespace")
        number = _greatest(self._store.keys(f"{self._folder}unschedulable/{namespace}/")).get(namespace, 0)
        while not self._store.create(self._pending(namespace, number + 1), str(count).encode()):
            number += 1

    def ready(self, name: str) -> bool | None:
        """The Ready condition; None where there is none, and for no node."""
        _, state = self._newest(name)
        return None if state is None or state.deleted else state.ready

    def apply(self, name: str, labels: Mapping[str, str], manager: str) -> None:
        """Server-Side Apply of another manager, forced. Raises NodeGone and Refused."""
        _check(labels, manager)
        self._change(name, lambda _, state: _apply(state, manager, dict(labels), force=True))

    def forget_managers(self, name: str) -> None:
        """Drop managedFields, as an object from before Server-Side Apply has none. Raises NodeGone."""
        self._change(name, lambda _, state: msgspec.structs.replace(state, managers=(), tracked=False))

    # -- versions in the store

    def _there(self) -> Iterator[tuple[str, int, _State]]:
        """Every node that is not deleted, with its newest version."""
        newest = self._listed()
        for name in sorted(self._seed().nodes.keys() | newest.keys()):
            version, state = self._at(name, newest[name]) if name in newest else (1, self._seed().nodes[name])
            if not state.deleted:
                yield name, version, state

    def _change(self, name: str, change: Callable[[int, _State], _State]) -> Node:
        """Read, decide, create the next version; again while others are faster. What changes nothing is not written."""
        for _ in range(100):
            version, state = self._newest(name)
            if state is None or state.deleted:
                raise NodeGone(f"no node {name!r}")
            changed = _stamped(state, change(version, state), self._clock())
            if changed == state:
                return self._shown(_node(name, version, state))
            self.interrupt()
            if self._write(name, version, changed):
                return self._shown(_node(name, version + 1, changed))
        raise Unavailable(f"node {name!r} in {self._folder}: others wrote it a hundred times in a row")

    def _write(self, name: str, version: int, state: _State) -> bool:
        """Write `version` + 1. False where another writer was first, or may have been, because the group was sealed in the meantime:
        then others either built on this version, or it counts for nobody. To decide again on the newest one is right in both cases.
        """
        mine = version + 1
        if not self._store.create(self._key(name, mine), msgspec.json.encode(state)):
            return False
        group = mine // GROUP
        if self._store.get(self._seal(name, group)) is not None:
            self._store.delete(self._key(name, mine))
            return False
        with self._lock:
            self._known[name] = mine, state
        if mine % GROUP == 0 and version:
            self._forget(name, group)
        return True

    def _forget(self, name: str, before: int) -> None:
        """Seal the groups below `before`, which has a version, and remove what they hold. A seal that a writer who broke off left out comes
        first: below a sealed group all are.
        """
        sealed = _greatest(self._store.keys(f"{self._folder}sealed/{name}/")).get(name, -1)
        for group in range(sealed + 1, before):
            self._store.create(self._seal(name, group), b"")
        for key in self._store.keys(f"{self._folder}nodes/{name}/"):
            if _number(key) // GROUP < before:
                self._store.delete(key)

    def _listed(self, name: str = "") -> dict[str, int]:
        """The newest version of each node that changed, or of this one."""
        folder = f"{name}/" if name else ""
        versions = _greatest(self._store.keys(f"{self._folder}nodes/{folder}"))
        sealed = _greatest(self._store.keys(f"{self._folder}sealed/{folder}"))
        for node, group in sealed.items():
            if versions.get(node, 0) // GROUP <= group:
                versions[node] = self._listed_anew(node)
        return versions

    def _listed_anew(self, name: str) -> int:
        """The newest version of a node whose group was sealed while it was being listed."""
        for _ in range(100):
            version = max(_greatest(self._store.keys(f"{self._folder}nodes/{name}/")).values(), default=0)
            if version and self._store.get(self._seal(name, version // GROUP)) is None:
                return version
        raise Unavailable(f"node {name!r} in {self._folder}: others wrote it faster than it can be listed, or its versions were removed")

    def _newest(self, name: str) -> tuple[int, _State | None]:
        if not is_subdomain(name):
            return 0, None
        newest = self._listed(name).get(name)
        if newest is not None:
            return self._at(name, newest)
        seeded = self._seed().nodes.get(name)
        return (1, seeded) if seeded else (0, None)

    def _at(self, name: str, version: int) -> tuple[int, _State]:
        """That version, or the newest where it is history since it was listed."""
        known = self._known.get(name)
        if known and known[0] == version:
            return known
        body = self._store.get(self._key(name, version))
        if body is None or self._store.get(self._seal(name, version // GROUP)) is not None:
            return self._at(name, self._listed_anew(name))
        with self._lock:
            self._known[name] = version, _decoded(_states, self._key(name, version), body)
            return self._known[name]

    def _key(self, name: str, version: int) -> str:
        return f"{self._folder}nodes/{name}/{version:0{_DIGITS}}.json"

    def _pending(self, namespace: str, number: int) -> str:
        return f"{self._folder}unschedulable/{namespace}/{number:0{_DIGITS}}.json"

    def _seal(self, name: str, group: int) -> str:
        return f"{self._folder}sealed/{name}/{group:0{_DIGITS}}"

    def outdated(self) -> bool:
        """Whether the file has changed since its nodes were taken over, or is gone: it is not read again."""
        body = self._store.get(f"{self._folder}seed.json")
        taken = _decoded(_seeds, f"{self._folder}seed.json", body).origin if body else ""
        return bool(taken) and taken != self._origin()

    def _seed(self) -> _Seed:
        """The nodes at the beginning: what the first process found in the file, whoever asks."""
        with self._lock:
            if self._seeded is None:
                key = f"{self._folder}seed.json"
                body = self._store.get(key)
                if body is None:
                    origin = self._origin()  # before the nodes: a file that changes in between counts as changed
                    seed = _Seed(self._seed_version, {node.name: _state(node) for node in self._seed_nodes()}, origin)
                    body = msgspec.json.encode(seed)
                    if not self._store.create(key, body):
                        body = self._store.get(key) or body
                self._seeded = _decoded(_seeds, key, body)
            return self._seeded


def _number(key: str) -> int:
    return int(key.rpartition("/")[2].removesuffix(".json"))


def _greatest(keys: Iterable[str]) -> dict[str, int]:
    """The greatest number in each folder."""
    greatest: dict[str, int] = {}
    for key in keys:
        folder = key.rsplit("/", 2)[-2]
        greatest[folder] = max(greatest.get(folder, 0), _number(key))
    return greatest


def _decoded(decoder: msgspec.json.Decoder[T], key: str, body: bytes) -> T:
    """The object's contents. Raises Refused: a cluster of which a part can't be read answers nothing that could be mistaken for it."""
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise Refused("RecordUnreadable", f"{key} in the store can't be read: {error}") from error


def _check(labels: Mapping[str, str], manager: str) -> None:
    if problem := manager_error(manager):
        raise Refused("Invalid", f"fieldManager: {problem}")
    for key, value in labels.items():
        problem = key_error(key) or value_error(value)
        if problem:
            raise Refused("Invalid", f"metadata.labels: {key}: {problem}")


def _apply(state: _State, manager: str, labels: dict[str, str], force: bool) -> _State:
    """Server-Side Apply: conflicts where others hold another value; `force` takes those keys from them; equal values are shared;
    a key applied before and left out now goes unless somebody else holds it.
    """
    managers = state.managers
    if not state.tracked:
        managers = (_Manager(BEFORE_FIRST_APPLY, "Update", frozenset(state.labels)),)
    mine = [entry for entry in managers if (entry.name, entry.operation) == (manager, "Apply")]
    others = [entry for entry in managers if entry not in mine]
    taken = {key for key, value in labels.items() if key in state.labels and state.labels[key] != value}
    held: dict[str, set[str]] = {}
    for entry in others:
        for key in entry.keys & taken:
            held.setdefault(key, set()).add(entry.name)
    if held and not force:
        raise Conflict({key: ", ".join(sorted(names)) for key, names in held.items()})
    others = [msgspec.structs.replace(entry, keys=entry.keys - taken) for entry in others]
    kept = frozenset[str]().union(*(entry.keys for entry in others))
    dropped = {key for entry in mine for key in entry.keys} - labels.keys() - kept
    result = {key: value for key, value in state.labels.items() if key not in dropped} | labels
    return _with(state, result, [*others, _Manager(manager, "Apply", frozenset(labels))])


def _update(state: _State, manager: str, labels: Mapping[str, str | None]) -> _State:
    """A merge patch: keys whose value changes are taken from everybody; what stays equal changes no ownership."""
    changed = {key for key, value in labels.items() if state.labels.get(key) != value}
    gained = {key for key in changed if labels[key] is not None}
    result = {key: value for key, value in state.labels.items() if key not in changed}
    result |= {key: value for key, value in labels.items() if key in gained and value is not None}
    if not state.tracked:
        return msgspec.structs.replace(state, labels=result)
    mine = (manager, "Update")
    others = [
        msgspec.structs.replace(entry, keys=entry.keys - changed | (gained if (entry.name, entry.operation) == mine else frozenset()))
        for entry in state.managers
    ]
    if not any((entry.name, entry.operation) == mine for entry in others):
        others.append(_Manager(*mine, frozenset(gained)))
    return _with(state, result, others)


def _with(state: _State, labels: dict[str, str], managers: Iterable[_Manager]) -> _State:
    """The state with these labels; managers without keys go, and their order never makes a difference."""
    kept = sorted((entry for entry in managers if entry.keys), key=lambda entry: (entry.name, entry.operation))
    return msgspec.structs.replace(state, labels=labels, managers=tuple(kept), tracked=True)


def _stamped(before: _State, after: _State, now: datetime) -> _State:
    """The state with the times of its managers: now for whoever gained a key or changed the value of one."""

    def at(entry: _Manager) -> datetime | None:
        was = next((each for each in before.managers if (each.name, each.operation) == (entry.name, entry.operation)), None)
        same = was is not None and entry.keys <= was.keys and all(before.labels.get(key) == after.labels.get(key) for key in entry.keys)
        return was.at if was and same else now

    return msgspec.structs.replace(after, managers=tuple(msgspec.structs.replace(entry, at=at(entry)) for entry in after.managers))


def _state(node: Node) -> _State:
    """A listed node: its managers as far as a listing tells them."""
    keys: dict[tuple[str, str], set[str]] = {(name, "Apply"): set(keys) for name, keys in node.applied.items()}
    for key, names in node.owners.items():
        for name in names:
            if key not in node.applied.get(name, ()):
                keys.setdefault((name, "Update"), set()).add(key)
    managers = [_Manager(*identity, frozenset(held)) for identity, held in keys.items()]
    uid, taints = node.uid or str(uuid.uuid4()), node.taints or ()
    state = _State(uid, dict(node.labels), (), node.kubelet_version, tracked=False, created=node.created, taints=taints)
    return _with(state, state.labels, managers) if managers or not state.labels else state


def _node(name: str, version: int, state: _State) -> Node:
    owners: dict[str, list[str]] = {}
    for entry in state.managers:
        for key in entry.keys:
            names = owners.setdefault(key, [])
            if entry.name not in names:
                names.append(entry.name)
    applied = {entry.name: entry.keys for entry in state.managers if entry.operation == "Apply"}
    return Node(
        name=name,
        uid=state.uid,
        labels=state.labels,
        resource_version=str(version),
        owners={key: tuple(names) for key, names in owners.items()},
        applied=applied,
        kubelet_version=state.kubelet_version,
        created=state.created,
        taints=state.taints,
        may_have_taints=bool(state.taints),
    )
