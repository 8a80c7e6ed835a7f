"""Access to a GKE cluster: endpoint and CA from the Container API, the caller's own Google token as bearer."""

from __future__ import annotations

import base64
import threading
from typing import Any

import msgspec

from shared.adapters.apiserver import Access, ApiServer, StatusError, cut
from shared.ports import Refused, Unavailable

SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email")
"""The second is for the API server: without it GKE knows a service account by its number, and RBAC by e-mail matches nothing."""


def access(
    project: str,
    location: str,
    name: str,
    endpoint: str | None = None,
    *,
    credentials: Any = None,
    service: str = "https://container.googleapis.com",
) -> Access:
    """Access by application default credentials, which need roles/container.clusterViewer and RBAC in the cluster.

    `endpoint` is public, private or dns; without it the cluster's IP endpoint counts, and where it has none its DNS endpoint, whose
    certificate the system's CAs vouch for. Raises Refused and Unavailable, naming the cluster.
    """
    where = f"GKE cluster {project}/{location}/{name}"
    token = _Token(credentials, where)
    server = ApiServer(lambda: Access(service, authorization=token))
    try:
        answer = server.request("GET", f"/v1/projects/{project}/locations/{location}/clusters/{name}")
    except StatusError as rejected:
        refused = rejected.refused()
        raise Refused(refused.reason, f"{where}: {refused}") from rejected
    finally:
        server.close()
    try:
        cluster = msgspec.json.decode(answer, type=_Cluster)
        ca = base64.b64decode(cluster.auth.ca).decode()
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unavailable(f"{where}: not an answer of the Container API: {error}") from error
    if endpoint is not None:
        address = cluster.address(endpoint)
        if not address:
            raise Refused("NoSuchEndpoint", f"{where} has no {endpoint} endpoint: {_OPENED[endpoint].format(name=name, location=location)}")
        return Access(f"https://{address}", ca="" if endpoint == "dns" else ca, authorization=token)
    endpoints = cluster.endpoints
    if cluster.endpoint and ca and endpoints.ip.enabled:
        return Access(f"https://{cluster.endpoint}", ca=ca, authorization=token)
    if endpoints.dns.endpoint:
        return Access(f"https://{endpoints.dns.endpoint}", authorization=token)
    raise Unavailable(f"{where} has no endpoint yet")


_OPENED = {
    "public": "it was switched off; use endpoint: private (with terraform's `network`) or endpoint: dns",
    "private": "it is no VPC-native cluster, or its IP endpoints are off; use endpoint: dns",
    "dns": "gcloud container clusters update {name} --location={location} --enable-dns-access opens it",
}
"""What to do where a cluster does not have the endpoint that its document names."""


class _Auth(msgspec.Struct):
    ca: str = msgspec.field(default="", name="clusterCaCertificate")


class _Dns(msgspec.Struct):
    endpoint: str = ""
    open: bool = msgspec.field(default=False, name="allowExternalTraffic")


class _Ip(msgspec.Struct):
    enabled: bool = True
    has_public: bool | None = msgspec.field(default=None, name="enablePublicEndpoint")
    public: str = msgspec.field(default="", name="publicEndpoint")
    private: str = msgspec.field(default="", name="privateEndpoint")


class _Private(msgspec.Struct):
    """Where clusters said it before `controlPlaneEndpointsConfig`; they still do."""

    only: bool = msgspec.field(default=False, name="enablePrivateEndpoint")
    private: str = msgspec.field(default="", name="privateEndpoint")
    public: str = msgspec.field(default="", name="publicEndpoint")


class _Endpoints(msgspec.Struct):
    dns: _Dns = msgspec.field(default_factory=_Dns, name="dnsEndpointConfig")
    ip: _Ip = msgspec.field(default_factory=_Ip, name="ipEndpointsConfig")


class _Cluster(msgspec.Struct):
    endpoint: str = ""
    auth: _Auth = msgspec.field(default_factory=_Auth, name="masterAuth")
    endpoints: _Endpoints = msgspec.field(default_factory=_Endpoints, name="controlPlaneEndpointsConfig")
    private: _Private = msgspec.field(default_factory=_Private, name="privateClusterConfig")

    def address(self, endpoint: str) -> str:
        """The host of one of its endpoints; empty where it does not have it, or lets nobody in by it."""
        ip, old = self.endpoints.ip, self.private
        match endpoint:
            case "dns":
                return self.endpoints.dns.endpoint if self.endpoints.dns.open else ""
            case "private":
                return (ip.private or old.private) if ip.enabled else ""
            case _:
                is_public = not old.only if ip.has_public is None else ip.has_public
                return (ip.public or old.public or self.endpoint) if ip.enabled and is_public else ""


class _Token:
    """A Google access token, renewed when google-auth says that it is no longer valid."""

    def __init__(self, credentials: Any, where: str) -> None:
        self._credentials, self._where = credentials, where
        self._lock = threading.Lock()

    def __call__(self) -> str:
        import urllib3
        from google.auth import default, exceptions
        from google.auth.transport.urllib3 import Request

        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials, _ = default(scopes=SCOPES)
                if not self._credentials.valid:
                    self._credentials.refresh(Request(urllib3.PoolManager()))  # type: ignore[no-untyped-call]
            except exceptions.TransportError as error:
                raise Unavailable(f"{self._where}: {cut(str(error))}") from error
            except exceptions.GoogleAuthError as error:
                raise Refused("Unauthorized", f"{self._where}: {cut(str(error))}") from error
            return f"Bearer {self._credentials.token}"
