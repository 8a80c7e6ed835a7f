"""Node templates: what each system takes, held to its own published shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.domain.documents.kinds import NodeLabelPolicy
from shared.domain.labels.policies import Policies, PolicyConflict
from shared.domain.labels.templates import FORMATS, Format, Template, rendered, template
from shared.domain.nodes import Taint
from tests.stories.fleet import a_policy

UNTIL = {"taint": {"key": "hullmark.dev/unlabelled", "effect": "NoSchedule"}}
LABELS = {"example.com/rack": "r7", "accelerator": "a100"}


def policies(*documents: dict[str, Any]) -> Policies:
    return Policies([NodeLabelPolicy.model_validate(document) for document in documents])


def of(labels: dict[str, str], form: Format, **own: str) -> Template:
    made = template("gpu", own or {"pool": "gpu"}, policies(a_policy("p", {}, labels)), "default", form)
    assert isinstance(made, Template)
    return made


@pytest.fixture
def site() -> Policies:
    return policies(
        a_policy("gpu", {"matchLabels": {"pool": "gpu"}}, LABELS, until=UNTIL),
        a_policy("other", {"matchLabels": {"pool": "cpu"}}, {"example.com/rack": "r1"}),
        a_policy("named", {"names": ["gpu"]}, {"example.com/named": "x"}),
    )


def made(site: Policies, form: Format) -> Any:
    found = template("gpu", {"pool": "gpu"}, site, "default", form)
    assert isinstance(found, Template)
    text = rendered(found, form)
    return text if form == "kubelet" else json.loads(text)


def test_a_pool_has_its_own_labels_those_of_the_policies_that_select_it_and_their_startup_taints(site: Policies) -> None:
    found = template("gpu", {"pool": "gpu"}, site, "default", "kubelet")

    assert found == Template("gpu", {"pool": "gpu", **LABELS}, (Taint("hullmark.dev/unlabelled", "NoSchedule"),))


def test_a_pools_name_is_no_nodes_name(site: Policies) -> None:
    assert "example.com/named" not in made(site, "eks-nodegroup")["labels"]


def test_kubelet_gets_its_flags_in_order(site: Policies) -> None:
    assert made(site, "kubelet") == (
        "--node-labels=accelerator=a100,example.com/rack=r7,pool=gpu\n--register-with-taints=hullmark.dev/unlabelled=:NoSchedule\n"
    )


def test_karpenter_gets_startup_taints_and_not_taints(site: Policies) -> None:
    pool = made(site, "karpenter")

    assert (pool["apiVersion"], pool["kind"], pool["metadata"]) == ("karpenter.sh/v1", "NodePool", {"name": "gpu"})
    assert pool["spec"]["template"] == {
        "metadata": {"labels": {"accelerator": "a100", "example.com/rack": "r7", "pool": "gpu"}},
        "spec": {"startupTaints": [{"key": "hullmark.dev/unlabelled", "effect": "NoSchedule"}]},
    }


def test_eks_takes_what_is_made_for_it(site: Policies) -> None:
    botocore = pytest.importorskip("botocore.session")
    shape = botocore.get_session().get_service_model("eks").operation_model("CreateNodegroup").input_shape
    needed = {"clusterName": "c", "subnets": ["s"], "nodeRole": "r"}
    report = pytest.importorskip("botocore.validate").ParamValidator().validate({**made(site, "eks-nodegroup"), **needed}, shape)

    assert report.generate_report() == ""
    assert made(site, "eks-nodegroup")["taints"] == [{"key": "hullmark.dev/unlabelled", "effect": "NO_SCHEDULE"}]


def test_gke_takes_what_is_made_for_it(site: Policies) -> None:
    assert made(site, "gke-nodepool") == {
        "name": "gpu",
        "config": {
            "labels": {"accelerator": "a100", "example.com/rack": "r7", "pool": "gpu"},
            "taints": [{"key": "hullmark.dev/unlabelled", "value": "", "effect": "NO_SCHEDULE"}],
        },
    }


@pytest.mark.parametrize("form", FORMATS)
def test_the_order_of_documents_and_labels_makes_no_difference(form: Format, site: Policies) -> None:
    turned = Policies(list(reversed(site.all)))

    assert made(turned, form) == made(site, form)


@pytest.mark.parametrize(
    ("form", "key", "why"),
    [
        ("kubelet", "node-restriction.kubernetes.io/team", "NodeRestriction"),
        ("kubelet", "topology.kubernetes.io/rack", "kubelets set no other keys"),
        ("kubelet", "node-role.kubernetes.io/gpu", "kubelets set no other keys"),
        ("kubelet", "x.k8s.io/a", "kubelets set no other keys"),
        ("kubelet", "node.kubernetes.io/team", ""),
        ("kubelet", "sub.node.kubernetes.io/team", ""),
        ("kubelet", "kubelet.kubernetes.io/team", ""),
        ("kubelet", "topology.kubernetes.io/zone", ""),
        ("kubelet", "notkubernetes.io/team", ""),
        ("karpenter", "karpenter.sh/team", "keeps the domain"),
        ("karpenter", "kubernetes.io/hostname", "every node has its own"),
        ("karpenter", "topology.kubernetes.io/rack", "refuses keys"),
        ("karpenter", "node-restriction.kubernetes.io/team", ""),
        ("eks-nodegroup", "eks.amazonaws.com/team", "keeps the domain"),
        ("eks-nodegroup", "example.com/" + "k" * 52, "at most 63 bytes"),
        ("eks-nodegroup", "example.com/" + "k" * 51, ""),
        ("gke-nodepool", "cloud.google.com/gke-nodepool", "keeps the domain"),
        ("gke-nodepool", "example.com/" + "k" * 52, ""),
    ],
)
def test_what_a_system_would_refuse_is_left_out_and_said(form: Format, key: str, why: str) -> None:
    found = of({key: "x"}, form)

    assert (key in found.labels) == (not why)
    assert why in found.left_out.get(key, "")
    assert bool(found.left_out) == bool(why)


def test_eks_gets_no_empty_value_and_the_others_do() -> None:
    assert of({"a": ""}, "eks-nodegroup").left_out == {"a": "EKS takes no empty value"}
    assert of({"a": ""}, "kubelet").labels["a"] == ""


def test_policies_that_contradict_each_other_make_no_template() -> None:
    quarrel = policies(a_policy("a", {}, {"k": "1"}), a_policy("b", {}, {"k": "2"}))

    assert isinstance(template("gpu", {}, quarrel, "default", "kubelet"), PolicyConflict)
