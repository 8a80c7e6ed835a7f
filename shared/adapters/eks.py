"""Access to an EKS cluster: endpoint and CA from EKS, and as bearer a presigned STS request that proves who we are."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shared.adapters.apiserver import Access, cut
from shared.ports import Refused, Unavailable

TOKEN_SECONDS = 600.0
"""EKS takes a token for 15 minutes after it was signed, whatever the URL's own expiry says."""


def access(region: str, name: str, role: str | None = None, *, session: Any = None) -> Access:
    """Access by a role that our Google identity assumes, or by the AWS credentials found as every AWS tool finds them. They need
    eks:DescribeCluster and an access entry.

    Raises Refused and Unavailable, naming the cluster.
    """
    from botocore.config import Config

    from shared.adapters import aws

    where = f"EKS cluster {name} in {region}"
    bounded = Config(connect_timeout=5, read_timeout=20, retries={"max_attempts": 3, "mode": "standard"})
    with _translated(where):
        session = session or aws.session(region, role)
        cluster = session.client("eks", region_name=region, config=bounded).describe_cluster(name=name)["cluster"]
        sts = session.client("sts", region_name=region).meta.endpoint_url
    if not cluster.get("endpoint"):
        raise Unavailable(f"{where} is {cluster.get('status', 'unknown')} and has no endpoint yet")
    try:
        ca = base64.b64decode(cluster["certificateAuthority"]["data"], validate=True).decode("ascii")
    except (KeyError, ValueError) as error:
        raise Unavailable(f"{where}: its certificate authority is no PEM: {error}") from error
    return Access(cluster["endpoint"], ca=ca, authorization=_Token(session, region, name, sts))


@contextmanager
def _translated(where: str) -> Iterator[None]:
    """What AWS and its client say, as Refused and Unavailable that name the cluster."""
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "ClientError")
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= 500 or "Throttl" in code:
            raise Unavailable(f"{where}: {cut(str(error))}") from error
        raise Refused(code, f"{where}: {cut(str(error))}") from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound) as error:
        raise Refused("Unauthorized", f"{where}: {error}") from error
    except exceptions.BotoCoreError as error:
        raise Unavailable(f"{where}: {cut(str(error))}") from error
    except Refused as refused:
        raise Refused(refused.reason, f"{where}: {refused}") from refused
    except Unavailable as unavailable:
        raise Unavailable(f"{where}: {unavailable}") from unavailable


class _Token:
    """A GetCallerIdentity request, presigned for this one cluster, as `aws eks get-token` makes it."""

    def __init__(self, session: Any, region: str, cluster: str, sts: str) -> None:
        self._session, self._region, self._cluster, self._sts = session, region, cluster, sts
        self._lock = threading.Lock()
        self._header, self._until = "", 0.0

    def __call__(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                with _translated(f"EKS cluster {self._cluster} in {self._region}"):
                    self._header = f"Bearer k8s-aws-v1.{self._signed()}"
                self._until = time.monotonic() + TOKEN_SECONDS
            return self._header

    def _signed(self) -> str:
        from botocore.model import ServiceId
        from botocore.signers import RequestSigner

        credentials = self._session.get_credentials()
        if credentials is None:
            raise Refused("Unauthorized", "no AWS credentials found")
        signer = RequestSigner(ServiceId("STS"), self._region, "sts", "v4", credentials, self._session.events)
        request = {
            "method": "GET",
            "url": f"{self._sts.rstrip('/')}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": self._cluster},
            "context": {},
        }
        url = signer.generate_presigned_url(request, region_name=self._region, expires_in=60, operation_name="")
        return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
