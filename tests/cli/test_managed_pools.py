"""`hullmark pools`: what policies give to a pool, set on the pool itself: EKS in moto, GKE in a service of its own.

moto ends an update at once and knows no throttling; what EKS answers then comes from botocore's stubber. The stand-in for GKE reads every
request and answers with google-cloud-container's messages, and refuses an etag that is not the pool's, as GKE's reference says; it has no
operations that run on, and no rights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from google.auth.credentials import AnonymousCredentials
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerRestTransport
from moto import mock_aws

from shared.adapters import eks_versions
from shared.adapters.eks_pools import EksPools
from shared.adapters.gke_pools import GkePools
from shared.domain.pools import PoolChange, PoolLabels
from shared.ports import ClusterError, Refused, Stale
from tests.cli.conftest import Hullmark
from tests.versions.providers import NAME, PLACE, Answer, Service

SITE = """apiVersion: hullmark.dev/v1
kind: Cluster
metadata: {name: prod}
spec: {provider: eks, access: {eks: {region: eu-west-1, name: prod}}}
---
apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {name: gpu}
spec:
  nodes: {matchLabels: {eks.amazonaws.com/nodegroup: gpu}}
  labels: {example.com/rack: r7, topology.kubernetes.io/rack: r7}
"""
POOL = ("--pool", "gpu", "-f", "site.yaml")


LABELS = {"pool": "gpu", "example.com/rack": "r1", "example.com/old": "1"}


@pytest.fixture(scope="module")
def aws() -> Iterator[Any]:
    """An EKS cluster with a node group; made once, because boto3 reads its models for every client."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        client = boto3.client("eks", region_name="eu-west-1")
        patch.setattr(eks_versions, "client_for", lambda *_: client)
        role = "arn:aws:iam::123456789012:role/r"
        client.create_cluster(name="prod", roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
        client.create_nodegroup(clusterName="prod", nodegroupName="gpu", subnets=["subnet-1"], nodeRole=role)
        yield client


@pytest.fixture
def eks(aws: Any, hullmark: Hullmark) -> Any:
    """The same, its node group with labels, and a site whose policy wants another."""
    Path("site.yaml").write_text(SITE)
    labels = {"addOrUpdateLabels": LABELS, "removeLabels": sorted(on_eks(aws).keys() - LABELS.keys())}
    aws.update_nodegroup_config(clusterName="prod", nodegroupName="gpu", labels=labels)
    return aws


def on_eks(client: Any) -> dict[str, str]:
    labels: dict[str, str] = client.describe_nodegroup(clusterName="prod", nodegroupName="gpu")["nodegroup"].get("labels") or {}
    return labels


def test_show_tells_what_apply_would_change_and_changes_nothing(hullmark: Hullmark, eks: Any) -> None:
    before = on_eks(eks)
    ran = hullmark("pools", "show", *POOL)
    assert (ran.code, ran.err) == (2, "")
    assert "EKS node group gpu of cluster prod would change:\n  ~ example.com/rack=r7 (was r1)\n" in ran.out
    assert "topology.kubernetes.io/rack is left out: kubelets set no other keys" in ran.out
    assert on_eks(eks) == before


def test_apply_sets_what_policies_give_and_leaves_all_others(hullmark: Hullmark, eks: Any) -> None:
    ran = hullmark("pools", "apply", *POOL, "-o", "json")
    assert (ran.code, ran.json["set"], ran.json["from"]) == (0, {"example.com/rack": "r7"}, {"example.com/rack": "r1"})
    assert on_eks(eks) == {"pool": "gpu", "example.com/rack": "r7", "example.com/old": "1"}
    assert hullmark("pools", "show", *POOL).code == 0
    assert hullmark("pools", "apply", *POOL, "-o", "json").json["applied"] is False


def test_a_label_goes_only_when_it_is_named_and_no_policy_gives_it(hullmark: Hullmark, eks: Any) -> None:
    refused = hullmark("pools", "apply", *POOL, "--remove", "example.com/rack")
    assert (refused.code, "a policy gives it to this pool" in refused.err) == (1, True)
    assert on_eks(eks)["example.com/rack"] == "r1"

    hullmark("pools", "apply", *POOL, "--remove", "example.com/old")
    assert on_eks(eks) == {"pool": "gpu", "example.com/rack": "r7"}


def test_nothing_is_written_while_the_fleet_is_paused(hullmark: Hullmark, eks: Any) -> None:
    hullmark("pause", "--reason", "an incident")
    ran = hullmark("pools", "apply", *POOL)
    assert (ran.code, "an incident" in ran.err) == (1, True)
    assert on_eks(eks)["example.com/rack"] == "r1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pool", "nope", "-f", "site.yaml"), "describe_nodegroup"),
        (("--pool", "../x", "-f", "site.yaml"), "'../x' is no name of a node group"),
        (("--pool", "gpu", "-f", "bare.yaml"), "has no access.eks or access.gke"),
        (("--pool", "gpu", "-f", "none.yaml"), "no Cluster document is named default"),
    ],
)
def test_a_pool_that_is_not_there_or_cannot_be_reached_is_told(hullmark: Hullmark, eks: Any, words: tuple[str, ...], said: str) -> None:
    Path("bare.yaml").write_text(SITE.replace("provider: eks, access: {eks: {region: eu-west-1, name: prod}}", "access: {inCluster: {}}"))
    Path("none.yaml").write_text(SITE.partition("---\n")[2])
    ran = hullmark("pools", "show", *words)
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("code", "reason", "retryable"),
    [
        ("ResourceInUseException", "UpdateRunning", True),
        ("ThrottlingException", "Unavailable", True),
        ("ResourceNotFoundException", "NotFound", False),
        ("AccessDeniedException", "AccessDeniedException", False),
    ],
)
def test_what_eks_refuses_comes_in_our_words(code: str, reason: str, retryable: bool) -> None:
    client = boto3.client("eks", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        stub.add_client_error("update_nodegroup_config", code, "no")
        with pytest.raises(ClusterError) as told:
            EksPools("prod", lambda: client).write(PoolLabels("gpu", {}), PoolChange({"rack": "r7"}))
    assert (told.value.reason, told.value.retryable) == (reason, retryable)


# --- GKE ------------------------------------------------------------------------------------------------------------------------------


class FakePool:
    """One node pool, whose etag changes with it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.pool: dict[str, Any] = {"name": "gpu", "etag": "1", "config": {"labels": {"pool": "gpu", "old": "1"}}}
        self.answers: Answer | None = None
        service.route(f"GET {NAME}/nodePools/gpu", self.get)
        service.route(f"PUT {NAME}/nodePools/gpu", self.put)

    def get(self) -> Answer:
        container_v1.NodePool.from_json(json.dumps(self.pool), ignore_unknown_fields=False)
        return 200, self.pool

    def put(self, body: dict[str, Any]) -> Answer:
        asked = container_v1.UpdateNodePoolRequest.from_json(json.dumps(body), ignore_unknown_fields=False)
        if self.answers:
            return self.answers
        if asked.etag and asked.etag != self.pool["etag"]:
            return 409, {"error": {"code": 409, "message": "etag mismatch", "status": "ABORTED"}}
        self.pool = {**self.pool, "etag": f"{self.pool['etag']}1", "config": {"labels": dict(asked.labels.labels)}}
        return 200, {"name": "operation-1"}


@pytest.fixture
def gke() -> Iterator[FakePool]:
    service = Service()
    yield FakePool(service)
    service.close()


def pools_of(gke: FakePool) -> GkePools:
    host = gke.service.url.removeprefix("http://")
    transport = ClusterManagerRestTransport(host=host, url_scheme="http", credentials=AnonymousCredentials())  # type: ignore[no-untyped-call, unused-ignore]
    return GkePools(f"{PLACE}/clusters/c", lambda: container_v1.ClusterManagerClient(transport=transport))


def test_a_gke_update_replaces_all_labels_so_it_carries_those_that_stay(gke: FakePool) -> None:
    there = pools_of(gke)
    there.write(there.read("gpu"), PoolChange({"rack": "r7"}, ("old",)))
    assert there.read("gpu").labels == {"pool": "gpu", "rack": "r7"}


def test_a_gke_pool_that_changed_since_it_was_read_is_left_as_it_is(gke: FakePool) -> None:
    there = pools_of(gke)
    before = there.read("gpu")
    gke.pool = {**gke.pool, "etag": "2", "config": {"labels": {"theirs": "1"}}}
    with pytest.raises(Stale, match="gpu changed meanwhile"):
        there.write(before, PoolChange({"rack": "r7"}))
    assert there.read("gpu").labels == {"theirs": "1"}


def test_what_gke_refuses_comes_in_our_words(gke: FakePool) -> None:
    there = pools_of(gke)
    gke.answers = (400, {"error": {"code": 400, "message": "operation-1 runs", "status": "FAILED_PRECONDITION"}})
    with pytest.raises(ClusterError) as busy:
        there.write(there.read("gpu"), PoolChange({"rack": "r7"}))
    assert (busy.value.reason, busy.value.retryable) == ("UpdateRunning", True)
    with pytest.raises(Refused) as missing:
        there.read("nope")
    assert missing.value.reason == "NotFound"
