"""Access to managed clusters, by fakes of the clouds: moto for AWS, a scripted server for Google's Container API."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError
from google.auth import exceptions
from moto import mock_aws

from shared.adapters import eks, gke
from shared.adapters.aws import session as aws_session
from shared.ports import Refused, Unavailable
from tests.adapters.test_apiserver import Scripted, says
from tests.api.identities import id_token

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
CA_DATA = base64.b64encode(CA.encode()).decode()


class Credentials:
    """Google credentials whose tokens are numbered."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.valid, self.token, self._failure = False, "", failure
        self.refreshed = 0

    def refresh(self, _: Any) -> None:
        if self._failure:
            raise self._failure
        self.refreshed += 1
        self.valid, self.token = True, f"token-{self.refreshed}"


def test_gke_gives_endpoint_ca_and_a_token_that_is_renewed() -> None:
    credentials = Credentials()
    with Scripted(says(200, {"endpoint": "34.1.2.3", "masterAuth": {"clusterCaCertificate": CA_DATA}})).running() as server:
        access = gke.access("p", "europe-west1", "c", credentials=credentials, service=server.url)
    assert server.requests[0][1] == "/v1/projects/p/locations/europe-west1/clusters/c"
    assert server.requests[0][2]["Authorization"] == "Bearer token-1"
    assert (access.server, access.ca, access.authorization()) == ("https://34.1.2.3", CA, "Bearer token-1")
    credentials.valid = False
    assert access.authorization() == "Bearer token-2"


def test_gke_without_an_ip_endpoint_is_reached_by_its_dns_endpoint() -> None:
    endpoints = {"dnsEndpointConfig": {"endpoint": "gke-1.europe-west1.gke.goog"}, "ipEndpointsConfig": {"enabled": False}}
    cluster = {"endpoint": "34.1.2.3", "masterAuth": {"clusterCaCertificate": CA_DATA}, "controlPlaneEndpointsConfig": endpoints}
    with Scripted(says(200, cluster)).running() as server:
        access = gke.access("p", "l", "c", credentials=Credentials(), service=server.url)
    assert (access.server, access.ca) == ("https://gke-1.europe-west1.gke.goog", "")


IPS = {"enabled": True, "enablePublicEndpoint": True, "publicEndpoint": "34.1.2.3", "privateEndpoint": "10.0.0.2"}
DNS = {"endpoint": "gke-1.europe-west1.gke.goog", "allowExternalTraffic": True}


def a_gke_cluster(endpoint: str = "34.1.2.3", **endpoints: Any) -> dict[str, Any]:
    return {"endpoint": endpoint, "masterAuth": {"clusterCaCertificate": CA_DATA}, **endpoints}


@pytest.mark.parametrize(
    ("cluster", "endpoint", "server", "ca"),
    [
        ({"ipEndpointsConfig": IPS, "dnsEndpointConfig": DNS}, "public", "https://34.1.2.3", CA),
        ({"ipEndpointsConfig": IPS, "dnsEndpointConfig": DNS}, "private", "https://10.0.0.2", CA),
        ({"ipEndpointsConfig": IPS, "dnsEndpointConfig": DNS}, "dns", "https://gke-1.europe-west1.gke.goog", ""),
        ({"ipEndpointsConfig": {"enabled": False}, "dnsEndpointConfig": DNS}, "dns", "https://gke-1.europe-west1.gke.goog", ""),
    ],
)
def test_gke_is_reached_by_the_endpoint_that_the_document_names(cluster: Any, endpoint: str, server: str, ca: str) -> None:
    with Scripted(says(200, a_gke_cluster(controlPlaneEndpointsConfig=cluster))).running() as google:
        access = gke.access("p", "l", "c", endpoint, credentials=Credentials(), service=google.url)
    assert (access.server, access.ca) == (server, ca)


def test_gke_clusters_that_only_know_private_cluster_config_have_both_endpoints() -> None:
    private = {"privateEndpoint": "10.0.0.2", "publicEndpoint": "34.1.2.3"}
    with Scripted(says(200, a_gke_cluster(privateClusterConfig=private))).running() as google:
        found = {
            endpoint: gke.access("p", "l", "c", endpoint, credentials=Credentials(), service=google.url).server
            for endpoint in ("public", "private")
        }
    assert found == {"public": "https://34.1.2.3", "private": "https://10.0.0.2"}


@pytest.mark.parametrize(
    ("cluster", "endpoint", "message"),
    [
        ({"controlPlaneEndpointsConfig": {"ipEndpointsConfig": {**IPS, "enablePublicEndpoint": False}}}, "public", "endpoint: private"),
        ({"privateClusterConfig": {"enablePrivateEndpoint": True, "privateEndpoint": "10.0.0.2"}}, "public", "endpoint: private"),
        ({}, "private", "endpoint: dns"),
        ({"controlPlaneEndpointsConfig": {"dnsEndpointConfig": {**DNS, "allowExternalTraffic": False}}}, "dns", "--enable-dns-access"),
    ],
)
def test_an_endpoint_that_a_gke_cluster_does_not_have_is_refused_with_what_to_do(cluster: Any, endpoint: str, message: str) -> None:
    with (
        Scripted(says(200, a_gke_cluster(**cluster))).running() as google,
        pytest.raises(Refused, match=f"GKE cluster p/l/c has no {endpoint} endpoint: .*{message}") as refused,
    ):
        gke.access("p", "l", "c", endpoint, credentials=Credentials(), service=google.url)
    assert refused.value.reason == "NoSuchEndpoint"


def test_gke_refusals_name_the_cluster_and_say_what_google_said() -> None:
    body = {"error": {"code": 403, "message": "Permission container.clusters.get denied", "status": "PERMISSION_DENIED"}}
    with Scripted(says(403, body)).running() as server, pytest.raises(Refused, match=r"p/l/c: .*clusters\.get denied") as refused:
        gke.access("p", "l", "c", credentials=Credentials(), service=server.url)
    assert refused.value.reason == "Forbidden"


@pytest.mark.parametrize(
    ("answer", "message"), [(b"<html>", "not an answer of the Container API"), ({"status": "PROVISIONING"}, "no endpoint yet")]
)
def test_gke_answers_that_help_nobody_are_unavailable(answer: Any, message: str) -> None:
    with Scripted(says(200, answer)).running() as server, pytest.raises(Unavailable, match=message):
        gke.access("p", "l", "c", credentials=Credentials(), service=server.url)


def test_google_credentials_that_fail_are_refused_and_a_broken_line_is_unavailable() -> None:
    with pytest.raises(Refused, match="GKE cluster p/l/c: expired"):
        gke.access("p", "l", "c", credentials=Credentials(exceptions.RefreshError("expired")))  # type: ignore[no-untyped-call]
    with pytest.raises(Unavailable, match="GKE cluster p/l/c: no route"):
        gke.access("p", "l", "c", credentials=Credentials(exceptions.TransportError("no route")))  # type: ignore[no-untyped-call]


METADATA = """\
import sys
from shared.adapters import gke
print(gke.access("p", "l", "c", service=sys.argv[1]).authorization())
"""


def test_the_token_for_gke_names_the_account_by_its_email(tmp_path: Path) -> None:
    """As on Cloud Run: google-auth asks the metadata server, which puts into the token the scopes that it is asked for."""
    endpoint = {"endpoint": "34.1.2.3", "masterAuth": {"clusterCaCertificate": CA_DATA}}
    account = {"email": "hullmark-node-apply@p.iam.gserviceaccount.com", "scopes": [], "aliases": ["default"]}

    def metadata(handler: Any) -> None:
        token = {"access_token": "of-the-function", "expires_in": 3600, "token_type": "Bearer"}
        headers = {"Metadata_Flavor": "Google", "Content_Type": "application/json"}
        says(200, token if "/token" in handler.path else account, **headers)(handler)

    with Scripted(metadata).running() as google, Scripted(says(200, endpoint)).running() as container:
        host = google.url.removeprefix("http://")
        environment = {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, "CLOUDSDK_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
        asked = subprocess.run(
            [sys.executable, "-c", METADATA, container.url], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
    assert asked.stdout == "Bearer of-the-function\n"
    (scopes,) = {parse_qs(urlsplit(path).query)["scopes"][0] for _, path, *_ in google.requests if "/token" in path}
    assert set(scopes.split(",")) == {f"https://www.googleapis.com/auth/{scope}" for scope in ("cloud-platform", "userinfo.email")}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = boto3.client("eks", region_name="eu-west-1")
        client.create_cluster(name="c", roleArn="arn:aws:iam::123456789012:role/r", resourcesVpcConfig={})
        yield client


class SessionWithCa(boto3.Session):  # type: ignore[misc]
    """moto's certificate authorities are random bytes: put a PEM in their place."""

    def client(self, service: str, **settings: Any) -> Any:
        client = super().client(service, **settings)
        if service == "eks":
            describe = client.describe_cluster
            authority = {"certificateAuthority": {"data": CA_DATA}}
            client.describe_cluster = lambda **asked: {"cluster": {**describe(**asked)["cluster"], **authority}}
        return client


def test_a_certificate_authority_that_is_no_pem_is_not_used(aws: Any) -> None:
    with pytest.raises(Unavailable, match="certificate authority is no PEM"):
        eks.access("eu-west-1", "c")


def test_eks_gives_endpoint_ca_and_a_presigned_identity_for_this_cluster(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    access = eks.access("eu-west-1", "c", session=SessionWithCa())
    told = aws.describe_cluster(name="c")["cluster"]
    assert access.server == told["endpoint"]
    assert access.ca == CA

    header = access.authorization()

    kind, _, token = header.removeprefix("Bearer ").partition(".")
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = parse_qs(url.query)
    assert kind == "k8s-aws-v1"
    assert url.netloc == "sts.eu-west-1.amazonaws.com"
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert "/eu-west-1/sts/aws4_request" in query["X-Amz-Credential"][0]
    assert access.authorization() == header
    later = time.monotonic() + eks.TOKEN_SECONDS
    monkeypatch.setattr("shared.adapters.eks.time.monotonic", lambda: later)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_: datetime(2030, 1, 1, tzinfo=UTC))
    assert access.authorization() != header


ROLE = "arn:aws:iam::123456789012:role/hullmark"


def test_a_role_for_eks_is_assumed_with_googles_word_for_who_we_are(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    asked: list[str] = []
    session = aws_session("eu-west-1", ROLE, lambda: asked.append("a token") or "of.google.signed")  # type: ignore[func-returns-value]
    assert asked == [], "nobody is asked before a call needs it"
    assert session.client("eks").describe_cluster(name="c")["cluster"]["name"] == "c"
    identity = session.client("sts").get_caller_identity()["Arn"]
    assert identity == "arn:aws:sts::123456789012:assumed-role/hullmark/hullmark"
    assert asked == ["a token"], "and once for an hour"
    credentials = session.get_credentials().get_frozen_credentials()
    assert credentials.token, "temporary: it ends"


def test_the_token_for_eks_is_of_the_assumed_role(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = aws_session("eu-west-1", ROLE, lambda: "of.google.signed")
    token = eks._Token(session, "eu-west-1", "c", "https://sts.eu-west-1.amazonaws.com")()
    url = base64.urlsafe_b64decode(token.partition(".")[2] + "==").decode()
    assert parse_qs(urlsplit(url).query)["X-Amz-Security-Token"] == [session.get_credentials().get_frozen_credentials().token]


IDENTITY = """\
from shared.adapters import aws
print(aws.google_identity())
"""


def test_the_metadata_server_says_who_the_function_is(tmp_path: Path) -> None:
    signed = id_token(sub="1234", aud="sts.amazonaws.com", exp=2_000_000_000).removeprefix("Bearer ")

    def metadata(handler: Any) -> None:
        if "/identity" in handler.path:
            return says(200, signed.encode(), Metadata_Flavor="Google", Content_Type="text/html")(handler)
        return says(200, {"email": "a@p.iam.gserviceaccount.com"}, Metadata_Flavor="Google", Content_Type="application/json")(handler)

    with Scripted(metadata).running() as google:
        host = google.url.removeprefix("http://")
        environment = {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, "CLOUDSDK_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", IDENTITY], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{signed}\n"
    audiences = {parse_qs(urlsplit(path).query)["audience"][0] for _, path, *_ in google.requests if "/identity" in path}
    assert audiences == {"sts.amazonaws.com"}


def test_a_role_without_a_google_identity_is_refused_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(*_: Any) -> str:
        raise exceptions.DefaultCredentialsError("no credentials")  # type: ignore[no-untyped-call]

    monkeypatch.setattr("google.oauth2.id_token.fetch_id_token", nobody)
    with pytest.raises(Refused, match=r"EKS cluster c in eu-west-1: no Google identity to assume an AWS role with: .*leave roleArn out"):
        eks.access("eu-west-1", "c", ROLE)


def test_a_role_that_does_not_trust_us_is_refused_in_awss_words(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"Error": {"Code": "AccessDenied", "Message": "Not authorized to perform sts:AssumeRoleWithWebIdentity"}}

    def denied() -> str:
        raise ClientError(refusal, "AssumeRoleWithWebIdentity")

    with pytest.raises(Refused, match=r"EKS cluster c in eu-west-1: .*Not authorized to perform sts") as refused:
        eks.access("eu-west-1", "c", ROLE, session=aws_session("eu-west-1", ROLE, denied))
    assert refused.value.reason == "AccessDenied"


def test_an_unknown_eks_cluster_is_refused_by_name(aws: Any) -> None:
    with pytest.raises(Refused, match="EKS cluster nope in eu-west-1") as refused:
        eks.access("eu-west-1", "nope")
    assert refused.value.reason == "ResourceNotFoundException"


def test_eks_without_credentials_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(Refused, match="EKS cluster c in eu-west-1") as refused:
        eks.access("eu-west-1", "c")
    assert refused.value.reason == "Unauthorized"


def test_the_clouds_clients_are_imported_only_when_they_are_asked() -> None:
    clients = ("boto3", "botocore", "google.auth")
    code = f"import sys, shared.adapters.gke, shared.adapters.eks; sys.exit(any(m in sys.modules for m in {clients}))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
