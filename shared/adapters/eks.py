"""Access to an EKS cluster: endpoint and CA from EKS, and as bearer a presigned STS request that proves who we are."""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

from shared.adapters.apiserver import Access, cut
from shared.ports import Refused, Unavailable

TOKEN_SECONDS = 600.0
"""EKS takes a token for 15 minutes after it was signed, whatever the URL's own expiry says."""


def access(region: str, name: str, *, session: Any = None) -> Access:
    """Access by the AWS credentials found as every AWS tool finds them; they need eks:DescribeCluster and an access entry.

    Raises Refused and Unavailable, naming the cluster.
    """
    import boto3
    from botocore import exceptions
    from botocore.config import Config

    where = f"EKS cluster {name} in {region}"
    bounded = Config(connect_timeout=5, read_timeout=20, retries={"max_attempts": 3, "mode": "standard"})
    try:
        session = session or boto3.Session(region_name=region)
        cluster = session.client("eks", region_name=region, config=bounded).describe_cluster(name=name)["cluster"]
        sts = session.client("sts", region_name=region).meta.endpoint_url
    except exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "ClientError")
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= 500 or "Throttl" in code:
            raise Unavailable(f"{where}: {cut(str(error))}") from error
        raise Refused(code, f"{where}: {cut(str(error))}") from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound) as error:
        raise Refused("Unauthorized", f"{where}: {error}") from error
    except exceptions.BotoCoreError as error:
        raise Unavailable(f"{where}: {cut(str(error))}") from error
    if not cluster.get("endpoint"):
        raise Unavailable(f"{where} is {cluster.get('status', 'unknown')} and has no endpoint yet")
    try:
        ca = base64.b64decode(cluster["certificateAuthority"]["data"], validate=True).decode("ascii")
    except (KeyError, ValueError) as error:
        raise Unavailable(f"{where}: its certificate authority is no PEM: {error}") from error
    return Access(cluster["endpoint"], ca=ca, authorization=_Token(session, region, name, sts))


class _Token:
    """A GetCallerIdentity request, presigned for this one cluster, as `aws eks get-token` makes it."""

    def __init__(self, session: Any, region: str, cluster: str, sts: str) -> None:
        self._session, self._region, self._cluster, self._sts = session, region, cluster, sts
        self._lock = threading.Lock()
        self._header, self._until = "", 0.0

    def __call__(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                self._header = f"Bearer k8s-aws-v1.{self._signed()}"
                self._until = time.monotonic() + TOKEN_SECONDS
            return self._header

    def _signed(self) -> str:
        from botocore.model import ServiceId
        from botocore.signers import RequestSigner

        credentials = self._session.get_credentials()
        if credentials is None:
            raise Refused("Unauthorized", f"EKS cluster {self._cluster}: no AWS credentials found")
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
