"""A garden cluster's Shoots and profiles as a fleet: `shared.ports.Fleet` over the Kubernetes API.

A version is moved by a JSON Patch that first tests what it starts from, so that nothing is overwritten that changed since it was read.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import quote

from shared.adapters.apiserver import PATIENT, TRIES, ApiServer, Login, Patience, StatusError
from shared.domain.documents.reading import Document, Problem
from shared.domain.keys import is_subdomain
from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile, read_namespaced_profile, read_profile
from shared.domain.versions.clusters import OPERATION, FleetCluster, VersionStep, check_window, read_shoot
from shared.domain.versions.shoot_fields import CREDENTIALS_BINDING, SECRET_BINDING, binding_to_migrate, pointer, removals
from shared.ports import FIELD_UNREADABLE, HULLMARK, Owner, Refused, Stale, Unavailable

P = TypeVar("P", CloudProfile, NamespacedCloudProfile)
GROUP = "/apis/core.gardener.cloud/v1beta1"
SECURITY_GROUP = "/apis/security.gardener.cloud/v1alpha1"
CONTROL_PLANE_STEP = "controlPlane/kubernetes"
PAGE = 250
"""Shoots a page: a Shoot is up to 20 kB."""


class Garden:
    """`shared.ports.Fleet` over one garden cluster."""

    def __init__(self, login: Login, owner: Owner = HULLMARK, **settings: Any) -> None:
        self.server = ApiServer(login, **settings)
        self._owner = owner
        self._patience = PATIENT
        self.unreadable: dict[str, str] = {}
        """The Shoots and profiles that the last listing left out, and why."""

    def within(self, left: Callable[[], float], tries: int = TRIES) -> Self:
        limited = copy.copy(self)
        limited._patience = Patience(left, tries)
        return limited

    def clusters(self) -> Iterator[FleetCluster]:
        for shoot in self._list("shoots"):
            cluster, problems = _read(shoot)
            if problems:
                self.unreadable[cluster.id] = _said(problems)
            else:
                yield cluster

    def cluster(self, name: str) -> FleetCluster | None:
        shoot = self._shoot(name)
        return None if shoot is None else _readable(shoot)

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        self.unreadable.clear()
        profiles = self._profiles("CloudProfile", read_profile)
        return list(profiles), list(self._profiles("NamespacedCloudProfile", read_namespaced_profile))

    def _profiles(self, kind: str, read: Callable[[Document, list[Problem]], P]) -> Iterator[P]:
        """The profiles of a kind that can be read: with a date misread, a version might count as expired, or never expire."""
        for resource in self._list(f"{kind.lower()}s"):
            problems: list[Problem] = []
            profile = read(_document(kind, resource), problems)
            if problems:
                self.unreadable[_key(kind, profile)] = _said(problems)
            else:
                yield profile

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        shoot = self._shoot(name)
        if shoot is not None and step.version_in(_readable(shoot)) == step.to:
            return False
        self._move(name, shoot, [step], dry_run=dry_run)
        return True

    def apply_at_once(self, name: str, steps: Sequence[VersionStep], *, dry_run: bool = False) -> list[str]:
        return self._move(name, self._shoot(name), steps, dry_run=dry_run)

    def _move(self, name: str, shoot: dict[str, Any] | None, steps: Sequence[VersionStep], *, dry_run: bool) -> list[str]:
        """Move versions of a Shoot as it was read, all in one write. Says what had to go for it."""
        moves = [_move_of(name, step, shoot) for step in steps]
        if shoot is None:
            raise Refused("NotFound", f"there is no Shoot {name}")
        crossing = next((step for step in steps if step.key == CONTROL_PLANE_STEP), None)
        going = removals(shoot, crossing.current, crossing.to) if crossing else []
        binding = self._other_binding(name, shoot, crossing) if crossing else None
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": shoot["metadata"]["resourceVersion"]},
            *moves,
            *({"op": "remove", "path": pointer(removal.path)} for removal in going),
            *(_with_binding(binding) if binding else ()),
            *_asked_for_no_more(shoot),
        ]
        query = {"fieldManager": self._owner.name, **({"dryRun": "All"} if dry_run else {})}
        try:
            self._request("PATCH", _path(name), query, json.dumps(patch).encode(), {"Content-Type": "application/json-patch+json"})
        except StatusError as rejected:
            if rejected.code == 409 or "testing value" in rejected.status.message or "test failed" in rejected.status.message:
                raise Stale(f"{name} changed while it was being updated") from rejected
            raise rejected.refused() from rejected
        migrated = [f"spec.{SECRET_BINDING} gave way to spec.{CREDENTIALS_BINDING} {binding}"] if binding else []
        return [*(removal.message for removal in going), *migrated]

    def _other_binding(self, name: str, shoot: dict[str, Any], crossing: VersionStep) -> str | None:
        """The CredentialsBinding that leads where the SecretBinding led which the Shoot may name no longer; None where it need not go.

        Raises Refused where there is none: Hullmark changes versions, and hands no credentials around.
        """
        secret_binding = binding_to_migrate(shoot, crossing.current, crossing.to)
        if not secret_binding:
            return None
        namespace = quote(name.partition("/")[0], safe="")
        try:
            led = json.loads(self._request("GET", f"{GROUP}/namespaces/{namespace}/secretbindings/{quote(secret_binding, safe='')}"))
            found = json.loads(self._request("GET", f"{SECURITY_GROUP}/namespaces/{namespace}/credentialsbindings"))
        except StatusError as rejected:
            raise rejected.refused() from rejected
        same = sorted(each["metadata"]["name"] for each in found.get("items") or () if _leads_there(each, led))
        if not same:
            where = f"{name} names SecretBinding {secret_binding}, which Kubernetes 1.34 and later forbid"
            raise Refused("CredentialsBindingMissing", f"{where}; create a CredentialsBinding for the same Secret, and name that")
        return str(same[0])

    def _shoot(self, name: str) -> dict[str, Any] | None:
        try:
            shoot: dict[str, Any] = json.loads(self._request("GET", _path(name)))
        except StatusError as rejected:
            if rejected.code == 404:
                return None
            raise rejected.refused() from rejected
        return shoot

    def _request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        return self.server.request(method, path, query, body, headers, self._patience)

    def _list(self, resource: str) -> Iterator[dict[str, Any]]:
        page = ""
        while True:
            query = {"limit": str(PAGE), **({"continue": page} if page else {})}
            try:
                answer = json.loads(self._request("GET", f"{GROUP}/{resource}", query))
            except StatusError as rejected:
                if rejected.code == 404:  # the garden has no such kind
                    return
                if rejected.code == 410:
                    raise Unavailable(f"the listing of {resource} expired between its pages") from rejected
                raise rejected.refused() from rejected
            yield from answer.get("items") or ()
            page = (answer.get("metadata") or {}).get("continue") or ""
            if not page:
                return


def _read(shoot: dict[str, Any]) -> tuple[FleetCluster, list[Problem]]:
    """A Shoot, and what of it cannot be read: a zone, a freeze or a window that is mistyped must not count as none."""
    document, problems = _document("Shoot", shoot), list[Problem]()
    cluster = read_shoot(document, problems)
    return cluster, problems or check_window(document)


def _readable(shoot: dict[str, Any]) -> FleetCluster:
    """A Shoot. Raises Refused where something of it cannot be read."""
    cluster, problems = _read(shoot)
    if problems:
        raise Refused(FIELD_UNREADABLE, _said(problems))
    return cluster


def _said(problems: Iterable[Problem]) -> str:
    return "; ".join(f"{problem.path}: {problem.message}" for problem in problems)


def _key(kind: str, profile: CloudProfile | NamespacedCloudProfile) -> str:
    namespace = f"{profile.namespace}/" if isinstance(profile, NamespacedCloudProfile) else ""
    return f"{kind}/{namespace}{profile.name}"


def _path(name: str) -> str:
    namespace, _, shoot = name.partition("/")
    if not (is_subdomain(namespace) and is_subdomain(shoot)):  # it becomes a part of the URL
        raise Refused("NotFound", f"{name!r} is no namespace/name of a Shoot")
    return f"{GROUP}/namespaces/{quote(namespace, safe='')}/shoots/{quote(shoot, safe='')}"


def _document(kind: str, resource: dict[str, Any]) -> Document:
    return Document("garden", 0, 0, kind, str(resource.get("metadata", {}).get("name", "")), resource)


def _move_of(name: str, step: VersionStep, shoot: dict[str, Any] | None) -> dict[str, str]:
    """The operation that moves one version. Raises Refused where there is nothing to move, and Stale where it has moved."""
    path = None if shoot is None else _path_to(step, shoot)
    if shoot is None or path is None:
        raise Refused("NotFound", f"{name} has no {step.key}")
    current = step.version_in(_readable(shoot))
    if current != step.current:
        raise Stale(f"{step.key} of {name} is {current} now, not {step.current}")
    return {"op": "replace", "path": path, "value": step.to}


def _leads_there(binding: Mapping[str, Any], secret_binding: Mapping[str, Any]) -> bool:
    """Whether a CredentialsBinding leads to the Secret, and the quotas, of a SecretBinding."""
    there, here = binding.get("credentialsRef") or {}, secret_binding.get("secretRef") or {}
    same = (there.get("namespace"), there.get("name")) == (here.get("namespace"), here.get("name"))
    return there.get("kind") == "Secret" and there.get("apiVersion") == "v1" and same and _quotas(binding) == _quotas(secret_binding)


def _quotas(binding: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(str(quota.get("namespace") or ""), str(quota.get("name"))) for quota in binding.get("quotas") or ()}


def _with_binding(binding: str) -> list[dict[str, str]]:
    return [
        {"op": "remove", "path": f"/spec/{SECRET_BINDING}"},
        {"op": "add", "path": f"/spec/{CREDENTIALS_BINDING}", "value": binding},
    ]


def _path_to(step: VersionStep, shoot: dict[str, Any]) -> str | None:
    """The JSON Pointer to the version that a step moves; None where the Shoot has no such place."""
    if not step.pool:
        return "/spec/kubernetes/version"
    workers = ((shoot.get("spec") or {}).get("provider") or {}).get("workers") or []
    number = next((number for number, worker in enumerate(workers) if worker.get("name") == step.pool), None)
    within = "machine/image/version" if step.subject == "machineImage" else "kubernetes/version"
    return None if number is None else f"/spec/provider/workers/{number}/{within}"


def _asked_for_no_more(shoot: dict[str, Any]) -> list[dict[str, str]]:
    """Takes `maintain` out of the operations asked for, as the run that it asked for does (docs/versions.md §7)."""
    asked = str((shoot["metadata"].get("annotations") or {}).get(OPERATION) or "")
    rest = [operation for operation in asked.split(";") if operation.strip() != "maintain"]
    if not asked or len(rest) == len(asked.split(";")):
        return []
    path = "/metadata/annotations/" + OPERATION.replace("~", "~0").replace("/", "~1")
    return [{"op": "replace", "path": path, "value": ";".join(rest)}] if rest else [{"op": "remove", "path": path}]
