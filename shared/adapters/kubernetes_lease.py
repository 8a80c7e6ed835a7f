"""One Lease of a real cluster (coordination.k8s.io/v1): read, and written only as it was read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import msgspec

from shared.adapters.apiserver import ApiServer, Patience, StatusError
from shared.domain.leases import Lease
from shared.ports import Stale, Unavailable

CALL_SECONDS = 3.0
"""For one call: a holder that waits longer for an answer loses its Lease over it."""


class _Spec(msgspec.Struct):
    holder: str | None = msgspec.field(default=None, name="holderIdentity")
    seconds: int | None = msgspec.field(default=None, name="leaseDurationSeconds")
    acquired: str | None = msgspec.field(default=None, name="acquireTime")
    renewed: str | None = msgspec.field(default=None, name="renewTime")
    transitions: int | None = msgspec.field(default=None, name="leaseTransitions")


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_object = msgspec.json.Decoder(_Object)


class ClusterLease:
    """`namespace/name` on one API server. Every method raises Refused and Unavailable."""

    def __init__(self, server: ApiServer, namespace: str, name: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server, self._name, self._monotonic = server, name, monotonic
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def read(self) -> Lease:
        """The Lease; one without a version where there is none."""
        try:
            return _read(self._request("GET", f"{self._all}/{self._name}"))
        except StatusError as rejected:
            if rejected.code == 404:
                return Lease()
            raise rejected.refused() from rejected

    def write(self, lease: Lease) -> Lease:
        """Create it, or change it from the version that it was read at. Raises Stale where somebody else was faster."""
        metadata = {"name": self._name, **({"resourceVersion": lease.version} if lease.version else {})}
        spec = {
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": lease.seconds,
            "acquireTime": lease.acquired,
            "renewTime": lease.renewed,
            "leaseTransitions": lease.transitions,
        }
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        try:
            if lease.version:
                return _read(self._request("PATCH", f"{self._all}/{self._name}", body, "application/merge-patch+json"))
            return _read(self._request("POST", self._all, body, "application/json"))
        except StatusError as rejected:
            if rejected.code == 409 or (lease.version and rejected.code == 404):
                raise Stale(str(rejected)) from rejected
            raise rejected.refused() from rejected

    def _request(self, method: str, path: str, body: object = None, content: str = "") -> bytes:
        end = self._monotonic() + CALL_SECONDS
        patience = Patience(lambda: end - self._monotonic(), tries=1)
        data = json.dumps(body).encode() if body else b""
        return self._server.request(method, path, body=data, headers={"Content-Type": content} if content else None, patience=patience)


def _read(answer: bytes) -> Lease:
    try:
        read = _object.decode(answer)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"not a Lease: {error}") from error
    spec = read.spec
    return Lease(
        spec.holder or "", spec.seconds or 0, spec.acquired or "", spec.renewed or "", spec.transitions or 0, read.metadata.version
    )
