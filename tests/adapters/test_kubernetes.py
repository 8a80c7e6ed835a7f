"""What only the real API server has to say: credentials, certificates, its own limits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from shared.adapters.kubeconfig import from_kubeconfig
from shared.adapters.kubernetes import Kubernetes
from shared.ports import Refused, Unavailable
from tests.conftest import require_real
from tests.kube_apiserver import HOW, Fleet, KubeApiserver, assets

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def narrow() -> Iterator[KubeApiserver]:
    """A server that takes few requests at a time, and whose CA lacks what Python 3.13 demands, as EKS's and microk8s's do."""
    require_real("kube-apiserver", assets(), HOW)
    limits = "--max-requests-inflight=4", "--max-mutating-requests-inflight=2", "--enable-priority-and-fairness=false"
    with KubeApiserver(*limits, bare_ca=True) as server:
        Fleet(server).post(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "labeller"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
            },
        )
        yield server


@pytest.mark.parametrize("context", ["admin", "certificate"])
def test_a_kubeconfig_of_each_kind_opens_the_cluster(kube: KubeApiserver, real_fleet: Fleet, context: str) -> None:
    real_fleet.create("n1", {"zone": "a"})
    cluster = Kubernetes(lambda: from_kubeconfig(str(kube.kubeconfig()), context))
    assert [node.labels for node in cluster.nodes()] == [{"zone": "a"}]
    assert cluster.server_version().startswith("v1.")


def test_who_may_not_is_refused_as_forbidden(kube: KubeApiserver, real_fleet: Fleet) -> None:
    uid = real_fleet.create("n1")
    cluster = Kubernetes(lambda: kube.access("nobody"))
    for call in (cluster.nodes, lambda: cluster.node("n1"), lambda: cluster.apply_labels("n1", uid, {"a": "1"})):
        with pytest.raises(Refused, match='User "nobody" cannot') as refused:
            call()
        assert refused.value.reason == "Forbidden"


def test_an_unknown_token_is_refused_as_unauthorized(kube: KubeApiserver) -> None:
    cluster = Kubernetes(lambda: replace(kube.access(), authorization=lambda: "Bearer wrong"))
    with pytest.raises(Refused) as refused:
        cluster.nodes()
    assert refused.value.reason == "Unauthorized"


def test_impersonation_acts_as_the_other_user(kube: KubeApiserver) -> None:
    cluster = Kubernetes(lambda: replace(kube.access(), headers={"Impersonate-User": "jane"}))
    with pytest.raises(Refused, match='User "jane" cannot list'):
        cluster.nodes()


def test_another_ca_is_not_trusted(kube: KubeApiserver, narrow: KubeApiserver) -> None:
    cluster = Kubernetes(lambda: replace(kube.access(), ca=narrow.ca))
    with pytest.raises(Refused, match=r"self.signed|unable to get local issuer|signature failure|certificate verify failed") as refused:
        cluster.nodes()
    assert refused.value.reason == "CertificateUntrusted"


def test_a_certificate_for_another_name_is_not_trusted_unless_that_name_is_expected(kube: KubeApiserver) -> None:
    with pytest.raises(Refused, match=r"other\.example"):
        Kubernetes(lambda: replace(kube.access(), server_name="other.example")).nodes()
    Kubernetes(lambda: replace(kube.access(), server_name="kubernetes.default")).nodes()


def test_a_ca_without_key_usage_is_trusted_when_it_is_the_clusters_own(narrow: KubeApiserver) -> None:
    assert Kubernetes(narrow.access).nodes() == []


def test_a_server_that_answers_429_gets_its_pauses_and_every_write_arrives(narrow: KubeApiserver) -> None:
    fleet = Fleet(narrow)
    names = [f"n{i}" for i in range(100)]
    uids = {name: fleet.create(name) for name in names}
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(min(seconds, 0.05))

    # system:masters, whom the token `admin` belongs to, is exempt from the limits.
    cluster = Kubernetes(lambda: narrow.access("nobody"), in_flight=32, sleep=sleep)
    cluster.spread(lambda name: _until_done(cluster, name, uids[name]), names)

    assert {node.labels["rack"] for node in cluster.nodes()} == {"r1"}
    assert pauses, "this server should have said 429"
    assert all(pause >= 1 for pause in pauses)


def _until_done(cluster: Kubernetes, name: str, uid: str) -> None:
    for _ in range(20):
        with contextlib.suppress(Unavailable):
            cluster.apply_labels(name, uid, {"rack": "r1"})
            return
    pytest.fail(f"{name} was never written")
