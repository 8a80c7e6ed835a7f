# ruff: noqa: E501 -- a row of a table stays on its line
from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.documents.access import Access
from shared.domain.documents.kinds import PodLabelPolicySpec
from shared.domain.documents.reading import DocumentsRefused, Source
from shared.domain.labels.aliases import KEP_793
from shared.domain.labels.policies import KEEP_DOMAINS, Policies
from shared.domain.site import check, load

HEAD = "apiVersion: hullmark.dev/v1\nkind: {kind}\nmetadata:\n  name: x\n"


def hullmark(kind: str, name: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"apiVersion": "hullmark.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec or {}}


def policy(name: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    return hullmark("NodeLabelPolicy", name, {"labels": labels, **spec})


def node(name: str, address: str, **metadata: Any) -> dict[str, Any]:
    addressing = [{"network": "m", "address": address}]
    data = {"addressing": addressing, "hardware_profile": "hw", "metadata": metadata}
    return {"schema": "drydock/BaremetalNode/v1", "metadata": {"name": name}, "data": data}


HARDWARE = {"schema": "drydock/HardwareProfile/v1", "metadata": {"name": "hw"}, "data": {}}


def sources(*documents: dict[str, Any]) -> list[Source]:
    return [Source("site.yaml", yaml.safe_dump_all(documents, sort_keys=False).encode())]


def told(kind: str, rest: str) -> list[tuple[int, str, str]]:
    return [(p.line, p.path, p.type) for p in check([Source("f", (HEAD.format(kind=kind) + rest).encode())])[0]]


def messages(*documents: dict[str, Any]) -> list[str]:
    return [problem.message for problem in check(sources(*documents))[0]]


# --- shapes


@pytest.mark.parametrize(
    ("kind", "rest", "expected"),
    [
        ("NodeLabelPolicy", "", [(1, "spec", "Required")]),
        ("NodeLabelPolicy", "spec: []\n", [(5, "spec", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  label: {}\n", [(6, "spec.label", "Unknown")]),
        ("NodeLabelPolicy", "spec:\n  labels:\n    a: 1\n    b: true\n    c:\n", [(7, "spec.labels.a", "Invalid"), (8, "spec.labels.b", "Invalid"), (9, "spec.labels.c", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  labels:\n    bad key: x\n", [(7, "spec.labels[bad key]", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  labels:\n    a: bad value\n", [(7, "spec.labels.a", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  labels:\n    topology.kubernetes.io/zone: z\n", [(7, "spec.labels[topology.kubernetes.io/zone]", "Forbidden")]),
        ("NodeLabelPolicy", "spec:\n  allowProtected: true\n  labels:\n    topology.kubernetes.io/zone: z\n", []),
        ("NodeLabelPolicy", "spec:\n  priority: high\n", [(6, "spec.priority", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  priority: 1.5\n", [(6, "spec.priority", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  priority: true\n", [(6, "spec.priority", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  prune: everything\n  onConflict: overwrite\n", [(6, "spec.prune", "NotSupported"), (7, "spec.onConflict", "NotSupported")]),
        ("NodeLabelPolicy", "spec:\n  clusters: c1\n", [(6, "spec.clusters", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  clusters: []\n", [(6, "spec.clusters", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  clusters: [a, 1]\n", [(6, "spec.clusters[1]", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  clusters: {}\n", [(6, "spec.clusters", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  clusters:\n    names: a\n    matchLabel: {a: b}\n", [(7, "spec.clusters.names", "Invalid"), (8, "spec.clusters.matchLabel", "Unknown")]),
        ("NodeLabelPolicy", "spec:\n  clusters:\n    names: []\n    matchLabels: {a: 1}\n", [(7, "spec.clusters.names", "Invalid"), (8, "spec.clusters.matchLabels.a", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  clusters:\n    matchLabels:\n      a b: c\n", [(8, "spec.clusters.matchLabels[a b]", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  nodes:\n    names: [a, 1]\n", [(7, "spec.nodes.names[1]", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  nodes:\n    names: []\n", [(7, "spec.nodes.names", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  nodes:\n    match_labels: {}\n", [(7, "spec.nodes.match_labels", "Unknown")]),
        ("NodeLabelPolicy", "spec:\n  nodes:\n    matchLabels:\n      a b: c\n", [(8, "spec.nodes.matchLabels[a b]", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  nodes:\n    matchExpressions:\n    - {key: a, operator: in, values: [b]}\n    - key: b\n      operator: In\n", [(8, "spec.nodes.matchExpressions[0].operator", "NotSupported"), (9, "spec.nodes.matchExpressions[1]", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  nodes:\n    matchExpressions:\n    - {key: a, operator: Exists, values: [b]}\n", [(8, "spec.nodes.matchExpressions[0]", "Invalid")]),
        ("NodeLabelPolicy", "spec:\n  exclude: {}\n", [(5, "spec", "Invalid")]),
        ("LabelRules", "spec:\n  allowProtected: kubernetes.io/hostname\n", [(6, "spec.allowProtected", "Invalid")]),
        ("Limits", "spec:\n  removals: 5\n", [(6, "spec.removals", "Invalid")]),
        ("Limits", "spec:\n  removals: {}\n", [(6, "spec.removals.nodes", "Required")]),
        *(("Limits", f"spec:\n  removals: {{nodes: {odd}}}\n", [(6, "spec.removals.nodes", "Invalid")])
          for odd in ("-1", "1.5", "true", "null", '"5"', "101%", '"%"', "10 %", "[1]")),
        ("Limits", "spec:\n  removal: {nodes: 5}\n", [(6, "spec.removal", "Unknown")]),
        ("Cluster", "spec:\n  access: {}\n", [(6, "spec.access", "Invalid")]),
        ("Cluster", "spec:\n  access:\n    inCluster: {}\n    gke: {project: p, location: europe-west4, name: n}\n", [(6, "spec.access", "Invalid")]),
        ("Cluster", "spec:\n  access:\n    kubeconfig: {path: p, context: c}\n", [(7, "spec.access.kubeconfig.path", "Forbidden")]),
        ("Cluster", "spec:\n  access:\n    kubeconfig: {name: ../../proc/self/fd/9}\n", [(7, "spec.access.kubeconfig.name", "Invalid")]),
        ("Cluster", "spec:\n  access:\n    kubeconfig: {name: '..'}\n", [(7, "spec.access.kubeconfig.name", "Invalid")]),
        ("Cluster", "spec:\n  access:\n    simulated: {nodes: f.json, name: a}\n", [(7, "spec.access.simulated.nodes", "Forbidden")]),
        ("Cluster", "spec:\n  access:\n    simulated: {name: nodes.json}\n", [(7, "spec.access.simulated.name", "Invalid")]),
        ("Cluster", "spec:\n  access:\n    gke: {project: a/../b, location: x.evil.example/, name: ../n}\n",
         [(7, f"spec.access.gke.{field}", "Invalid") for field in ("project", "location", "name")]),
        ("Cluster", "spec:\n  access:\n    eks: {region: evil.example/#, name: a/b}\n",
         [(7, "spec.access.eks.region", "Invalid"), (7, "spec.access.eks.name", "Invalid")]),
        ("Cluster", "spec:\n  access: {gke: {project: fleet, location: europe-west4, name: a, endpoint: proxy}}\n", [(6, "spec.access.gke.endpoint", "NotSupported")]),
        ("Cluster", "spec:\n  access: {eks: {region: eu-central-1, name: a, roleArn: admin}}\n", [(6, "spec.access.eks.roleArn", "Invalid")]),
        ("Cluster", "spec:\n  access: {simulated: {name: a}}\n  provider: aks\n", [(7, "spec.provider", "NotSupported")]),
        ("Cluster", "spec:\n  access: {kubeconfig: {}}\n  provider: eks\n", [(7, "spec.provider", "Invalid")]),
        ("Cluster", "spec:\n  access: {eks: {region: eu-central-1, name: a}}\n  provider: gke\n", [(7, "spec.provider", "Invalid")]),
        ("Cluster", "spec:\n  access: {simulated: {name: a}}\n  provider: gardener\n", [(7, "spec.provider", "Invalid")]),
        ("Cluster", "spec:\n  provider: gke\n", [(5, "spec.access", "Required")]),
        ("Cluster", "  labels: {a: b, bad key: x, c: bad value}\n", [(5, "metadata.labels[bad key]", "Invalid"), (5, "metadata.labels.c", "Invalid")]),
        ("Cluster", "spec:\n  maintenance:\n    timeWindow: {begin: 220000+0000}\n", [(7, "spec.maintenance.timeWindow.end", "Required")]),
        ("GeneratedLabels", "spec:\n  from: rack\n", [(5, "spec.key", "Required")]),
        ("LabelAliases", "spec:\n  pairs:\n  - {primary: a}\n", [(7, "spec.pairs[0].secondary", "Required")]),
        ("LabelAliases", "spec:\n  pairs:\n  - {primary: a, secondary: b}\n  - {primary: b, secondary: a}\n", [(8, "spec.pairs[1].secondary", "Invalid")]),
        ("PodLabelPolicy", "spec:\n  topology: zone\n  namespaces: {includes: [a]}\n", [(6, "spec.topology", "Invalid"), (7, "spec.namespaces.includes", "Unknown")]),
        ("PodLabelPolicy", "spec:\n  extra:\n  - example.com/x\n  - a b\n", [(8, "spec.extra[1]", "Invalid")]),
        ("NodeLabelPolicy", "  labels: {a: b}\nspec: {}\n", [(5, "metadata.labels", "Unknown")]),
    ],
)  # fmt: skip
def test_hullmarks_kinds_are_strict_to_the_line(kind: str, rest: str, expected: list[tuple[int, str, str]]) -> None:
    assert told(kind, rest) == expected


@pytest.mark.parametrize(
    "document",
    [
        hullmark("NodeLabelPolicy", "p", {}),
        policy("p", {"a": "", "example.com/b": "c"}, clusters=["c"], nodes={"names": ["n"], "matchLabels": {"l": "b"}, "tags": ["t"], "racks": ["r"],
               "matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, exclude={"racks": ["r"]}, priority=-3, prune="all", onConflict="skip"),
        hullmark("LabelRules", "r", {"allowProtected": ["kubernetes.io/hostname"], "keepDomains": []}),
        hullmark("Cluster", "c", {"access": {"kubeconfig": {"name": "p", "context": "c"}}, "provider": "gardener", "cloudProfile": "p", "maintenance":
                 {"timeWindow": {"begin": "220000+0100", "end": "230000+0100"}, "timeZone": "Europe/Berlin", "autoUpdate": {"kubernetesVersion": True, "machineImageVersion": False}}}),
        hullmark("Cluster", "c", {"access": {"eks": {"region": "eu-central-1", "name": "n"}}, "provider": "eks"}),
        hullmark("Cluster", "c", {"access": {"eks": {"region": "eu-central-1", "name": "n", "roleArn": "arn:aws:iam::123456789012:role/hullmark"}}}),
        hullmark("Cluster", "c", {"access": {"gke": {"project": "fleet", "location": "europe-west4", "name": "n", "endpoint": "dns"}}}),
        hullmark("Cluster", "c", {"access": {"inCluster": {}}}),
        hullmark("Cluster", "c", {"access": {"simulated": {"name": "halden"}}}),
        hullmark("Cluster", "c", {"access": {"kubeconfig": {}}}) | {"metadata": {"name": "eu.c", "labels": {"tier": "canary"}}},
        hullmark("GeneratedLabels", "g", {"from": "hostname", "key": "example.com/host"}),
        hullmark("LabelAliases", "a", {"pairs": [{"primary": "a", "secondary": "b", "ensureSecondaryExists": True, "from": "1.20", "before": "1.30"}]}),
        hullmark("PodLabelPolicy", "p", {"enabled": True, "topology": [], "extra": ["example.com/x"], "namespaces": {"include": ["a"], "exclude": ["b"]}, "asAnnotations": True}),
        hullmark("Limits", "l", {"removals": {"nodes": 5}, "takeovers": {"nodes": "12.5%"}, "changes": {"nodes": "100%"}}),
        hullmark("Limits", "l", {}),
        {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": {"name": "s", "namespace": "n"}, "spec": {"region": "r"}},
    ],
)  # fmt: skip
def test_every_field_of_the_contract_is_accepted(document: dict[str, Any]) -> None:
    assert check(sources(document)) == ([], [])


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (policy("p", {"a": 1}), "must be text, not a number: put it in quotes"),  # type: ignore[dict-item]
        (policy("p", {}, clusters="c"), "must be a list, not text: write it as [value]"),
        (policy("p", {}, lables={}), "unknown field `lables`: did you mean labels?"),
        (policy("p", {}, nodes={"rack": ["a"]}), "unknown field `rack`: did you mean racks?"),
        (policy("p", {}, prune="al"), "`al` is not one of owned, all: did you mean all?"),
        (hullmark("NodeLabelPolicies", "p"), "unknown kind NodeLabelPolicies: did you mean NodeLabelPolicy?"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "unknown kind ConfigMap: known are NodeLabelPolicy, LabelRules, Cluster"),
        ({"apiVersion": "v1", "kind": "Node"}, "give node lists with --nodes"),
        ({"apiVersion": "hullmark.dev/v2", "kind": "LabelRules"}, "LabelRules is of apiVersion hullmark.dev/v1, not hullmark.dev/v2"),
        ({"kind": "LabelRules"}, "`apiVersion: hullmark.dev/v1` is required"),
    ],
)
def test_a_problem_says_what_to_do(document: dict[str, Any], said: str) -> None:
    assert said in messages(document)[0]


def test_a_site_has_one_limits() -> None:
    [problem] = check(sources(hullmark("Limits", "a"), hullmark("Limits", "b")))[0]
    assert (problem.document, problem.type) == ("Limits/b", "Duplicate")
    assert problem.message == "a site has one Limits: the other is at site.yaml:1"


def test_limits_are_kept_with_the_policies_and_a_revision_from_before_has_none() -> None:
    site = load(sources(hullmark("Limits", "l", {"removals": {"nodes": "5%"}, "changes": {"nodes": 3}})))
    kept = json.loads(json.dumps(site.policies.to_json()))
    assert Policies.from_json(kept).limits == site.policies.limits is not None
    del kept["limits"]
    assert Policies.from_json(kept).limits is None
    assert load(sources()).policies.limits is None


def test_a_name_is_taken_once_and_label_rules_stand_alone() -> None:
    found = check(
        sources(policy("p", {}), policy("p", {}), hullmark("LabelRules", "a"), hullmark("LabelRules", "b"), hullmark("Cluster", "p"))
    )[0]
    assert [(p.line, p.document, p.path, p.type) for p in found] == [
        (11, "NodeLabelPolicy/p", "metadata.name", "Duplicate"),
        (24, "LabelRules/b", "metadata.name", "Duplicate"),
    ]
    assert found[0].message == "NodeLabelPolicy/p is there twice: the other is at site.yaml:1"


def test_load_refuses_with_every_problem_of_every_file() -> None:
    files = [
        Source("a.yaml", b"kind: [\n"),
        Source("b.yaml", b"kind: Nope\n---\nkind: Shoot\n"),
        Source("c.json", b'{"kind": "LabelRules"}'),
    ]
    with pytest.raises(DocumentsRefused) as refused:
        load(files)
    assert [(p.file, p.line) for p in refused.value.problems] == [("a.yaml", 2), ("b.yaml", 1), ("b.yaml", 3), ("c.json", 1)]
    assert "b.yaml:1: Nope: kind: unknown kind" in str(refused.value)


# --- the whole


def test_a_site_is_the_sum_of_its_documents() -> None:
    site = load(
        sources(
            HARDWARE,
            node("n1", "10.0.0.1", owner_data={"a": "1"}),
            policy("p", {"rack": "r1"}, nodes={"names": ["n1", "n2"]}),
            hullmark("Cluster", "c", {"access": {"inCluster": {}}}),
            hullmark("PodLabelPolicy", "pods", {"extra": ["example.com/x"]}),
            {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "cp"}, "spec": {}},
        )
    )
    assert sorted(site.nodes) == ["n1", "n2"]
    assert dict(site.nodes["n2"].labels) == {}
    assert site.effective() == {
        "n1": {"labels": {"a": "1", "rack": "r1"}, "sources": {"a": "BaremetalNode/n1", "rack": "NodeLabelPolicy/p"}},
        "n2": {"labels": {"rack": "r1"}, "sources": {"rack": "NodeLabelPolicy/p"}},
    }
    assert [(name, access) for name, access in site.policies.reached().items()] == [("c", Access.model_validate({"inCluster": {}}))]
    assert site.policies.pod_policies == [PodLabelPolicySpec(extra=["example.com/x"])]
    assert (site.policies.alias_pairs, site.policies.keep_domains) == (KEP_793, KEEP_DOMAINS)
    assert [document.title for document in site.gardener["CloudProfile"]] == ["CloudProfile/cp"]
    assert site.document_count == 6


def test_label_rules_allow_protected_keys_for_every_document_and_name_the_domains_to_keep() -> None:
    declared = [
        HARDWARE,
        node("n1", "10.0.0.1", rack="r1", owner_data={"topology.kubernetes.io/zone": "z"}),
        policy("p", {"topology.kubernetes.io/zone": "y"}),
        hullmark("GeneratedLabels", "g", {"from": "rack", "key": "topology.kubernetes.io/region"}),
    ]
    assert len(messages(*declared)) == 3
    rules = hullmark(
        "LabelRules",
        "r",
        {"allowProtected": ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"], "keepDomains": ["example.com"]},
    )
    site = load(sources(*declared, rules))
    assert site.effective()["n1"]["labels"] == {"topology.kubernetes.io/zone": "y", "topology.kubernetes.io/region": "r1"}
    assert site.policies.keep_domains == ("example.com",)


PAIRS = hullmark("LabelAliases", "a", {"pairs": [{"primary": "example.com/new", "secondary": "example.com/old"}]})
BOUNDED = hullmark("LabelAliases", "a", {"pairs": [{"primary": "example.com/new", "secondary": "example.com/old", "from": "1.20"}]})
PAST = hullmark("LabelAliases", "a", {"pairs": [{"primary": "example.com/new", "secondary": "example.com/old", "before": "1.20"}]})


@pytest.mark.parametrize(
    ("documents", "refused"),
    [
        ([PAIRS, policy("p", {"example.com/old": "x"})], True),
        ([PAIRS, policy("p", {"example.com/new": "x"})], False),
        ([PAIRS, policy("p", {"example.com/old": "x"}, clusters=["c"])], True),
        ([BOUNDED, policy("p", {"example.com/old": "x"})], True),
        ([BOUNDED, policy("p", {"example.com/old": "x"}, clusters=["c"])], False),  # that cluster may be older
        ([PAST, policy("p", {"example.com/old": "x"})], False),
        ([policy("p", {"beta.kubernetes.io/os": "x"}, allowProtected=True)], True),  # KEP-793's, where none are declared
        ([PAIRS, policy("p", {"beta.kubernetes.io/os": "x"}, allowProtected=True)], False),
    ],
)
def test_a_policy_may_not_declare_the_secondary_key_of_a_pair_in_force(documents: list[dict[str, Any]], refused: bool) -> None:
    found = check(sources(*documents))[0]
    assert [(p.document, p.type) for p in found] == ([("NodeLabelPolicy/p", "Forbidden")] if refused else [])


# --- policies that contradict each other


ONE = {"names": ["n1"]}
SITE = [HARDWARE, node("n1", "10.0.0.1", rack="r1", tags=["t"], owner_data={"role": "x"}), node("n2", "10.0.0.2", rack="r2")]


def a_cluster(name: str, **labels: str) -> dict[str, Any]:
    return hullmark("Cluster", name) | {"metadata": {"name": name, "labels": labels}}


CLUSTERS = [a_cluster("a", env="dev", region="eu"), a_cluster("b", env="prod", region="us")]


@pytest.mark.parametrize(
    ("one", "other", "on"),
    [
        ({}, {}, "any node"),
        ({"nodes": ONE}, {}, "n1"),
        ({"nodes": ONE}, {"nodes": {"racks": ["r1"]}}, "n1"),
        ({"nodes": {"tags": ["t"]}}, {"nodes": {"racks": ["r1"]}}, "n1"),
        ({"nodes": {"matchLabels": {"role": "x"}}}, {"nodes": ONE}, "n1"),
        ({"nodes": {"names": ["later"]}}, {"nodes": {"names": ["later"]}}, "later"),
        ({"nodes": ONE}, {"nodes": {"racks": ["r2"]}}, None),
        ({"nodes": ONE}, {"exclude": ONE}, None),
        ({"nodes": {"matchLabels": {"live": "x"}}}, {}, None),  # only the cluster can tell
        ({}, {"exclude": {"matchLabels": {"live": "x"}}}, None),
        ({}, {"priority": 1}, None),
        ({"clusters": ["a"]}, {"clusters": ["b"]}, None),
        ({"clusters": ["a"]}, {"clusters": ["b", "a"]}, "any node"),
        ({"clusters": ["a"]}, {}, "any node of cluster a"),
        ({"clusters": {"matchLabels": {"env": "dev"}}}, {"clusters": {"matchLabels": {"env": "prod"}}}, None),
        ({"clusters": {"matchLabels": {"env": "dev"}}}, {"clusters": {"matchLabels": {"region": "us"}}}, None),
        ({"clusters": {"matchLabels": {"env": "dev"}}}, {"clusters": {"matchLabels": {"region": "eu"}}}, "any node of cluster a"),
        ({"clusters": {"matchLabels": {"env": "prod"}}}, {"nodes": ONE}, "n1 of cluster b"),
        ({"clusters": {"names": ["a"], "matchLabels": {"env": "dev"}}}, {"clusters": ["a"]}, "any node of cluster a"),
        ({"clusters": {"names": ["b"], "matchLabels": {"env": "dev"}}}, {"clusters": ["b"]}, None),
    ],
)
def test_a_contradiction_is_found_wherever_the_documents_alone_decide_it(
    one: dict[str, Any], other: dict[str, Any], on: str | None
) -> None:
    found = check(
        sources(*SITE, *CLUSTERS, policy("one", {"k": "1", "same": "x"}, **one), policy("other", {"k": "2", "same": "x"}, **other))
    )[0]
    assert [(p.document, p.path, p.type) for p in found] == ([("NodeLabelPolicy/other", "spec.labels.k", "Invalid")] if on else [])
    for problem in found:
        assert problem.message.startswith(f"on {on}")
        assert "NodeLabelPolicy/one says '1'" in problem.message


def test_a_thousand_policies_for_a_node_each_contradict_nothing() -> None:
    policies = [policy(f"p{number}", {"slot": str(number)}, nodes={"names": [f"n{number}"]}) for number in range(1000)]
    site = load(sources(*policies))
    assert site.effective()["n7"]["labels"] == {"slot": "7"}


def test_a_permission_for_a_key_that_nothing_protects_is_a_warning() -> None:
    problems, warnings = check(sources(hullmark("LabelRules", "r", {"allowProtected": ["kubernetes.io/os", "kubernetes.io/hostnam"]})))
    assert problems == []
    assert [(w.line, w.path, w.message) for w in warnings] == [
        (8, "spec.allowProtected[1]", "kubernetes.io/hostnam is not a protected key: did you mean kubernetes.io/hostname?")
    ]


def test_a_policy_for_a_cluster_that_no_document_describes_is_a_warning() -> None:
    problems, warnings = check(sources(hullmark("Cluster", "east"), policy("p", {}, clusters=["east", "eastt"])))
    assert problems == []
    assert [(w.path, w.message) for w in warnings] == [("spec.clusters[1]", "no Cluster document is named eastt: did you mean east?")]


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ({"names": ["a"], "matchLabels": {"env": "dev", "region": "eu"}}, []),
        ({"names": ["aa", "a"]}, [("spec.clusters.names[0]", "no Cluster document is named aa: did you mean a?")]),
        (
            {"matchLabels": {"env": "devv"}},
            [("spec.clusters.matchLabels.env", "no Cluster document has the label env=devv: did you mean dev?")],
        ),
        ({"matchLabels": {"envv": "dev"}}, [("spec.clusters.matchLabels.envv", "no Cluster document has a label envv: did you mean env?")]),
        ({"matchLabels": {"env": "prod", "region": "eu"}}, [("spec.clusters", "no Cluster document has env=prod and region=eu")]),
        ({"names": ["b"], "matchLabels": {"env": "dev"}}, [("spec.clusters", "no Cluster document has env=dev and the name b")]),
    ],
)
def test_labels_that_no_cluster_carries_are_a_warning(clusters: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    problems, warnings = check(sources(*CLUSTERS, policy("p", {}, clusters=clusters)))
    assert problems == []
    assert [(w.path, w.message) for w in warnings] == expected


def test_a_policy_for_labels_of_clusters_in_a_site_without_clusters_is_a_warning() -> None:
    _, warnings = check(sources(policy("p", {}, clusters={"matchLabels": {"env": "dev"}}), policy("named", {}, clusters=["c"])))
    assert [(w.document, w.message) for w in warnings] == [("NodeLabelPolicy/p", "no Cluster document has a label env")]


def test_the_labels_of_a_cluster_decide_which_policies_it_has() -> None:
    site = load(sources(*SITE, *CLUSTERS, policy("dev", {"tier": "dev"}, clusters={"matchLabels": {"env": "dev"}}, nodes=ONE)))
    assert [site.effective(cluster)["n1"]["labels"].get("tier") for cluster in ("a", "b", "default")] == ["dev", None, None]
    assert check(sources(policy("p", {}, clusters=["anything"])))[1] == []


# --- policies that select on what policies write

GPU = {"matchLabels": {"pool": "gpu"}}
NO_GPU = {"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}
FOLLOWS = hullmark("LabelAliases", "a", {"pairs": [{"primary": "ex.io/pool", "secondary": "pool"}]})


def test_a_policy_may_not_declare_the_key_that_it_selects_on() -> None:
    (problem,) = check(sources(policy("gpus", {"pool": "gpu-a100", "rack": "r1"}, nodes=GPU)))[0]
    assert (problem.file, problem.line, problem.document) == ("site.yaml", 7, "NodeLabelPolicy/gpus")
    assert (problem.path, problem.type) == ("spec.labels.pool", "SelectsWhatItWrites")
    assert "NodeLabelPolicy/gpus declares pool, and this policy itself selects nodes by pool" in problem.message


@pytest.mark.parametrize(
    "looks", [{"nodes": GPU}, {"nodes": NO_GPU}, {"exclude": GPU}, {"exclude": NO_GPU}, {"nodes": GPU, "clusters": ["c"]}]
)
def test_a_policy_may_not_declare_the_key_that_another_one_selects_on(looks: dict[str, Any]) -> None:
    (problem,) = check(sources(policy("writes", {"pool": "gpu"}), policy("looks", {"driver": "on"}, **looks)))[0]
    assert (problem.document, problem.path, problem.type) == ("NodeLabelPolicy/writes", "spec.labels.pool", "SelectsWhatItWrites")
    assert "NodeLabelPolicy/looks (site.yaml:9) selects nodes by pool" in problem.message


def test_a_policy_may_not_declare_a_key_whose_alias_another_one_selects_on() -> None:
    (problem,) = check(sources(policy("writes", {"ex.io/pool": "gpu"}), policy("looks", {"driver": "on"}, nodes=GPU), FOLLOWS))[0]
    assert (problem.path, problem.type) == ("spec.labels[ex.io/pool]", "SelectsWhatItWrites")
    assert "pool follows ex.io/pool" in problem.message


@pytest.mark.parametrize("documents", [
    [policy("a", {"pool": "gpu"}, nodes={"tags": ["gpu"], "racks": ["r"], "names": ["n"]})],
    [policy("a", {"driver": "on"}, nodes=GPU), HARDWARE, node("n1", "10.0.0.1", owner_data={"pool": "gpu"})],
    [policy("a", {"driver": "on"}, nodes=GPU), hullmark("GeneratedLabels", "g", {"from": "rack", "key": "pool"})],
])  # fmt: skip
def test_what_the_design_says_of_a_node_may_be_selected_on(documents: list[dict[str, Any]]) -> None:
    assert messages(*documents) == []


# --- keys that somebody else puts back


@pytest.mark.parametrize(("key", "who"), [
    ("eks.amazonaws.com/nodegroup", "EKS"),
    ("cloud.google.com/gke-nodepool", "GKE"),
    ("karpenter.sh/capacity-type", "Karpenter"),
    ("kubernetes.azure.com/agentpool", "AKS"),
])  # fmt: skip
def test_a_key_that_a_cloud_or_an_autoscaler_manages_is_a_warning_that_says_who_puts_it_back(key: str, who: str) -> None:
    documents = [
        policy("p", {key: "x"}),
        hullmark("GeneratedLabels", "g", {"from": "rack", "key": key}),
        HARDWARE,
        node("n1", "10.0.0.1", owner_data={key: "x"}),
    ]
    problems, warnings = check(sources(*documents))
    assert problems == []
    assert [(warning.path, warning.type) for warning in warnings] == [
        (f"spec.labels[{key}]", "Reconciled"), ("spec.key", "Reconciled"), (f"data.metadata.owner_data[{key}]", "Reconciled"),
    ]  # fmt: skip
    assert all(key in warning.message and who in warning.message for warning in warnings)


@pytest.mark.parametrize("key", ["node-restriction.kubernetes.io/pool", "cloud.google.com/team", "amazonaws.com/x", "notkarpenter.sh/x"])
def test_a_key_that_nobody_puts_back_is_no_warning(key: str) -> None:
    assert check(sources(policy("p", {key: "x"}))) == ([], [])


# --- whatever is written


WHOLE = [
    *SITE,
    {"schema": "drydock/BaremetalNode/v1", "metadata": {"name": "n3"}, "data": {"addressing": [{"network": "m", "address": "10.0.0.3"}], "host_profile": "p2",
     "hardware_profile": "hw", "metadata": {"owner_data": {"!a": "x"}, "tags": ["!t", "u"]}}},
    {"schema": "drydock/HostProfile/v1", "metadata": {"name": "base"}, "data": {"metadata": {"owner_data": {"a": "0"}, "rack": "r1"}}},
    {"schema": "drydock/HostProfile/v1", "metadata": {"name": "p", "labels": {"a": "b"}, "layeringDefinition": {"layer": "global"}},
     "data": {"metadata": {"owner_data": {"a": "1"}, "tags": ["t"]}, "host_profile": "base"}},
    {"schema": "drydock/HostProfile/v1", "metadata": {"name": "p2", "layeringDefinition": {"layer": "site", "parentSelector": {"a": "b"},
     "actions": [{"method": "merge", "path": ".metadata.owner_data"}]}}, "data": {"metadata": {"owner_data": {"c": "1"}}}},
    {"schema": "drydock/Rack/v1", "metadata": {"name": "r1"}, "data": {"labels": {"row": "1"}}},
    {"schema": "drydock/Region/v1", "metadata": {"name": "r"}, "data": {"generated_labels": [{"from": "rack", "key": "rack"}]}},
    {"schema": "deckhand/LayeringPolicy/v1", "metadata": {"name": "l"}, "data": {"layerOrder": ["global", "site"]}},
    policy("one", {"k": "1"}, clusters=["c"], nodes={"matchExpressions": [{"key": "j", "operator": "In", "values": ["v"]}]}, exclude=ONE),
    hullmark("LabelRules", "r", {"keepDomains": ["a.b"]}),
    hullmark("Cluster", "c", {"access": {"gke": {"project": "p", "location": "europe-west4", "name": "n"}}, "maintenance": {"timeWindow": {"begin": "220000+0000", "end": "230000+0000"}}}),
    hullmark("GeneratedLabels", "g", {"from": "hostname", "key": "host"}),
    PAIRS,
    hullmark("Limits", "l", {"removals": {"nodes": "5%"}, "changes": {"nodes": 3}}),
    hullmark("PodLabelPolicy", "p", {"extra": ["example.com/*"], "namespaces": {"include": ["a"]}}),
]  # fmt: skip
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", "!", [], {}, [None], [1], ["a"], [[]], [{}], {"a": None}, {"a": {}}, {"!": 1}, "p", "p2"]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, item in inside for place in places(item, (*path, step)))]


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], odd)
    return copy


@given(st.lists(st.tuples(st.sampled_from(places(WHOLE)[1:]), ODD), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_nothing_that_is_written_raises_anything_but_problems(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    documents: Any = WHOLE
    for path, odd in changes:
        if path in places(documents):
            documents = replaced(documents, path, odd)
    lines = sources(*documents)[0].data.count(b"\n")
    for problem in (found := check(sources(*documents), now=datetime(2026, 11, 21, tzinfo=UTC)))[0] + found[1]:
        assert 1 <= problem.line <= lines
        assert problem.type
        assert problem.message


def test_the_site_that_is_bent_above_is_sound() -> None:
    assert check(sources(*WHOLE)) == ([], [])
    assert dict(load(sources(*WHOLE)).nodes["n3"].labels) == {"c": "1", "rack": "r1", "host": "n3"}
