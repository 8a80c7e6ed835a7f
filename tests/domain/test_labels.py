from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.documents.design import DesignNode, flat, over
from shared.domain.documents.kinds import ClusterMatch, ClusterSpec, NodeLabelPolicy, PodLabelPolicySpec
from shared.domain.keys import PROTECTED, key_error, value_error
from shared.domain.labels.aliases import KEP_793, in_force
from shared.domain.labels.policies import (
    KEEP_DOMAINS,
    UNKNOWN_MANAGER,
    DeclaredLabels,
    Difference,
    Policies,
    PolicyConflict,
    declare,
    diff,
    in_domains,
    prunable,
)
from shared.domain.nodes import ALIAS_OWNER, OWNER, Node

# --- validity


@pytest.mark.parametrize(
    "key",
    ["a", "A", "0", "a-b_c.D", "a" * 63, "example.com/a", "a/b", "0/b", f"{'a' * 253}/b", f"{'a' * 200}.b/{'c' * 63}", "x--y.z/a"],
)
def test_kubernetes_accepts_these_keys(key: str) -> None:
    assert key_error(key) is None


@pytest.mark.parametrize(
    "key",
    ["", "-a", "a-", "_a", "a.", "a b", "a\n", "é", "a" * 64, "/a", "a/", "a/b/c", "Example.com/a", "ex_ample.com/a", ".com/a", "com./a",
     "a..b/c",     "-a.com/b", "a-.com/b", f"{'a' * 254}/b", "example.com/a\n", "example.com\n/a", "!a", "a!b", "٣"],
)  # fmt: skip
def test_kubernetes_refuses_these_keys(key: str) -> None:
    assert key_error(key)


@pytest.mark.parametrize("value", ["", "a", "0", "A.b-c_d", "v" * 63, "true", "1.2.3"])
def test_kubernetes_accepts_these_values(value: str) -> None:
    assert value_error(value) is None


@pytest.mark.parametrize("value", [" ", "a ", "-a", "a-", ".", "a/b", "a:b", "v" * 64, "a\n", "\n", "é", "é" * 32])
def test_kubernetes_refuses_these_values(value: str) -> None:
    assert value_error(value)


def test_protected_keys_are_exactly_these() -> None:
    expected = """
        kubernetes.io/hostname kubernetes.io/os kubernetes.io/arch
        beta.kubernetes.io/os beta.kubernetes.io/arch beta.kubernetes.io/instance-type
        node.kubernetes.io/instance-type node.kubernetes.io/windows-build
        topology.kubernetes.io/zone topology.kubernetes.io/region
        failure-domain.beta.kubernetes.io/zone failure-domain.beta.kubernetes.io/region"""
    assert set(expected.split()) == PROTECTED


@pytest.mark.parametrize(
    ("key", "spared"),
    [
        ("kubernetes.io/x", True),
        ("node-role.kubernetes.io/worker", True),
        ("a.k8s.io/x", True),
        ("k8s.io/x", True),
        ("my-kubernetes.io/x", False),
        ("notk8s.io/x", False),
        ("kubernetes.io.example.com/x", False),
        ("kubernetes.io", False),  # a name, not a domain
        ("nvidia.com/gpu.count", True),
        ("gpu.nvidia.com/class", True),
        ("notnvidia.com/x", False),
        ("cloud.google.com/gke-nodepool", True),
        ("eks.amazonaws.com/nodegroup", True),
        ("karpenter.sh/nodepool", True),
        ("projectcalico.org/x", True),
        ("worker.gardener.cloud/pool", True),
        ("topology.ebs.csi.aws.com/zone", True),
        ("aws.com/x", True),
        ("notaws.com/x", False),
        ("aws.com.example.com/x", False),
        ("karpenter.k8s.aws/instance-cpu", True),
        ("vpc.amazonaws.com/has-trunk-attached", True),
        ("bottlerocket.aws/updater-interface-version", True),
        ("topology.gke.io/zone", True),
        ("iam.gke.io/gke-metadata-server-enabled", True),
        ("topology.disk.csi.azure.com/zone", True),
        ("kubernetes.azure.com/agentpool", True),
        ("topology.cinder.csi.openstack.org/zone", True),
        ("topology.diskplugin.csi.alibabacloud.com/zone", True),
        ("csi.hetzner.cloud/location", True),
        ("yandex.cloud/node-group-id", True),
        ("feature.node.kubernetes.io/cpu-hardware_multithreading", True),
        ("intel.feature.node.kubernetes.io/gpu", True),
        ("gpu.intel.com/device-id.0300-56c0.present", True),
        ("amd.com/gpu.vram", True),
        ("habana.ai/gaudi", True),
        ("node.cilium.io/x", True),
        ("k8s.ovn.org/zone-name", True),
        ("node.openshift.io/os_id", True),
        ("plan.upgrade.cattle.io/k3s", True),
        ("rke.cattle.io/machine", True),
        ("p2p.k3s.cattle.io/enabled", True),
        ("k3s.io/hostname", True),
        ("node.cluster.x-k8s.io/pool", True),
        ("extensions.talos.dev/modules", True),
        ("topology.rook.io/rack", True),
        ("topology.topolvm.io/node", True),
        ("cpu-feature.node.kubevirt.io/avx", True),
        ("topology.csi.vmware.com/k8s-zone", True),
        ("rack", False),
        ("example.com/rack", False),
    ],
)
def test_prune_all_spares_kubernetes_and_the_vendors_by_domain_not_by_substring(key: str, spared: bool) -> None:
    assert in_domains(key, ("kubernetes.io", "k8s.io", *KEEP_DOMAINS)) is spared
    assert (prunable({key: "v"}, {}, KEEP_DOMAINS) == []) is spared


# --- declare


def policy(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> NodeLabelPolicy:
    return NodeLabelPolicy.model_validate(
        {
            "apiVersion": "hullmark.dev/v1",
            "kind": "NodeLabelPolicy",
            "metadata": {"name": name},
            "spec": {"labels": dict(labels or {}), **spec},
        }
    )


def declared(
    *policies: NodeLabelPolicy, design: DesignNode | None = None, live: Node | None = None, name: str = "n1", cluster: str = "c"
) -> DeclaredLabels:
    found = declare(name, design, live, Policies(policies, cluster_labels=CLUSTER_LABELS), cluster)
    assert isinstance(found, DeclaredLabels), found
    return found


CLUSTER_LABELS = {"c": {"env": "dev", "region": "eu"}, "d": {"env": "prod"}}
N1 = DesignNode("n1", {"role": "master"}, {"role": "HostProfile/cp"}, ("masters", "gpu"), "r1")


def live(labels: Mapping[str, str], owners: Mapping[str, tuple[str, ...]] | None = None) -> Node:
    owners = owners or {}
    applied = {
        manager: frozenset(key for key, who in owners.items() if manager in who)
        for manager in (OWNER, ALIAS_OWNER)
        if any(manager in who for who in owners.values())
    }
    return Node("n1", "uid", labels, owners=owners, applied=applied)


def test_a_node_that_nothing_names_or_selects_has_an_empty_declared_set() -> None:
    assert declared() == DeclaredLabels({}, {})
    assert declared(policy("other", {"a": "1"}, nodes={"names": ["n2"]})) == DeclaredLabels({}, {})


def test_policies_lie_over_the_design_and_each_key_knows_its_document() -> None:
    found = declared(policy("p", {"role": "worker", "rack": "r1"}), design=N1)
    assert found.labels == {"role": "worker", "rack": "r1"}
    assert found.sources == {"role": "NodeLabelPolicy/p", "rack": "NodeLabelPolicy/p"}
    assert declared(design=N1).sources == {"role": "HostProfile/cp"}


SELECTIONS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"nodes": {}}, True),
    ({"nodes": {"names": ["n1", "n2"]}}, True),
    ({"nodes": {"names": ["n2"]}}, False),
    ({"nodes": {"tags": ["gpu", "x"]}}, True),
    ({"nodes": {"tags": ["x"]}}, False),
    ({"nodes": {"racks": ["r1"]}}, True),
    ({"nodes": {"racks": ["r2"]}}, False),
    ({"nodes": {"names": ["n1"], "racks": ["r2"]}}, False),
    ({"nodes": {"racks": ["r1"], "tags": ["masters"]}}, True),
    ({"nodes": {"matchLabels": {"role": "master"}}}, True),
    ({"nodes": {"matchLabels": {"role": "master", "zone": "a"}}}, True),
    ({"nodes": {"matchLabels": {"role": "master", "zone": "b"}}}, False),
    ({"nodes": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}}, True),
    ({"nodes": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}}, False),
    ({"nodes": {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}}, False),
    ({"nodes": {"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["a"]}]}}, True),
    ({"nodes": {"matchExpressions": [{"key": "none", "operator": "In", "values": ["a"]}]}}, False),
    ({"nodes": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}, True),
    ({"nodes": {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}}, False),
    ({"nodes": {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}}, True),
    ({"exclude": {"names": ["n1"]}}, False),
    ({"exclude": {"names": ["n1"], "racks": ["r2"]}}, True),
    ({"nodes": {"racks": ["r1"]}, "exclude": {"tags": ["gpu"]}}, False),
    ({"exclude": {"matchLabels": {"zone": "a"}}}, False),
    ({"exclude": {"matchLabels": {"zone": "b"}}}, True),
    ({"clusters": ["c", "d"]}, True),
    ({"clusters": ["d"]}, False),
    ({"clusters": {"names": ["c"]}}, True),
    ({"clusters": {"names": ["d"]}}, False),
    ({"clusters": {"matchLabels": {"env": "dev"}}}, True),
    ({"clusters": {"matchLabels": {"env": "dev", "region": "eu"}}}, True),
    ({"clusters": {"matchLabels": {"env": "dev", "region": "us"}}}, False),
    ({"clusters": {"matchLabels": {"env": ""}}}, False),
    ({"clusters": {"names": ["c", "d"], "matchLabels": {"env": "dev"}}}, True),
    ({"clusters": {"names": ["d"], "matchLabels": {"env": "dev"}}}, False),
    ({"clusters": {"names": ["c"], "matchLabels": {"env": "prod"}}}, False),
]


@pytest.mark.parametrize(("spec", "selected"), SELECTIONS)
def test_a_policy_selects_by_all_of_its_criteria(spec: dict[str, Any], selected: bool) -> None:
    found = declared(policy("p", {"new": "1"}, **spec), design=N1, live=live({"zone": "a", "role": "old"}))
    assert ("new" in found.labels) is selected


def test_the_cluster_of_the_settings_has_no_labels_and_is_found_by_name_alone() -> None:
    by_label, by_name = policy("l", {"l": "1"}, clusters={"matchLabels": {"env": "dev"}}), policy("n", {"n": "1"}, clusters=["default"])
    assert declared(by_label, by_name, policy("all", {"a": "1"}), cluster="default").labels == {"n": "1", "a": "1"}


@pytest.mark.parametrize("clusters", [["c"], {"names": ["c"]}, {"matchLabels": {"env": "dev"}}])
def test_a_node_that_only_policies_for_other_clusters_name_does_not_belong_there(clusters: Any) -> None:
    policies = Policies([policy("p", clusters=clusters, nodes={"names": ["n1"]})], cluster_labels=CLUSTER_LABELS)
    assert policies.named_nodes() == {"n1"}
    assert (policies.concern(DesignNode("n1"), "c"), policies.concern(DesignNode("n1"), "d")) == (True, False)
    assert policies.concern(DesignNode("n1", rack="r1"), "d")  # the design names it too


def test_which_policies_mean_a_cluster_is_decided_once_for_all_of_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ClusterMatch, "means", lambda _, name, labels: bool(asked.append(name) or labels))  # type: ignore[func-returns-value]
    policies = Policies([policy(f"p{n}", {f"k{n}": "1"}, clusters={"matchLabels": {"env": "dev"}}) for n in range(3)])
    for number in range(100):
        declare(f"n{number}", None, None, policies, "c")
    assert asked == ["c"] * 3


def test_a_policy_never_feeds_on_what_policies_wrote() -> None:
    feeds = policy("p", {"more": "1"}, nodes={"matchLabels": {"pool": "x"}})
    assert "more" in declared(feeds, live=live({"pool": "x"})).labels
    assert "more" in declared(feeds, live=live({"pool": "x"}, {"pool": ("kubectl",)})).labels
    assert "more" in declared(feeds, live=live({"pool": "x"}, {"pool": (OWNER, "kubectl")})).labels
    assert "more" not in declared(feeds, live=live({"pool": "x"}, {"pool": (OWNER,)})).labels
    assert "more" not in declared(feeds, live=live({"pool": "x"}, {"pool": (ALIAS_OWNER,)})).labels
    assert (
        "more"
        in declared(feeds, design=DesignNode("n1", {"pool": "x"}, {"pool": "d"}), live=live({"pool": "x"}, {"pool": (OWNER,)})).labels
    )


def test_the_higher_priority_wins_key_by_key() -> None:
    low = policy("low", {"a": "low", "b": "low"}, priority=-1, onConflict="fail")
    high = policy("high", {"a": "high"}, priority=5, onConflict="skip")
    for order in ((low, high), (high, low)):
        found = declared(*order)
        assert found.labels == {"a": "high", "b": "low"}
        assert found.sources == {"a": "NodeLabelPolicy/high", "b": "NodeLabelPolicy/low"}
        assert found.on_conflict == {"a": "skip", "b": "fail"}


def test_prune_all_wins_where_policies_of_a_node_differ() -> None:
    assert declared(policy("a"), policy("b", prune="all")).prune == "all"
    assert declared(policy("a"), policy("b", prune="all", nodes={"names": ["n2"]})).prune == "owned"


def test_two_values_at_one_priority_are_a_conflict_that_names_both_policies() -> None:
    one, other = policy("one", {"a": "1", "b": "x"}), policy("other", {"a": "2", "b": "x"})
    found = declare("n1", None, None, Policies([one, other]), "c")
    assert isinstance(found, PolicyConflict)
    assert "NodeLabelPolicy/one" in found.message
    assert "NodeLabelPolicy/other" in found.message
    assert [clash.key for clash in found.clashes] == ["a"]
    assert declared(one, policy("other", {"a": "1"})).labels == {"a": "1", "b": "x"}


def test_rules_come_back_from_json() -> None:
    policies = [
        policy(
            "p", {"a": "1"}, nodes={"names": ["n1"]}, exclude={"matchLabels": {"x": "y"}}, prune="all", onConflict="skip", clusters=["c"]
        ),
        policy("dev", {"c": "1"}, clusters={"names": ["c"], "matchLabels": {"env": "dev"}}),
        policy("q", {"b": "1"}, nodes={"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}, priority=3),
    ]
    rules = Policies(
        policies,
        clusters={"c": ClusterSpec(provider="gke")},
        cluster_labels=CLUSTER_LABELS,
        pod_policies=[PodLabelPolicySpec(extra=["a"])],
        keep_domains=["example.com"],
    )
    again = Policies.from_json(json.loads(json.dumps(rules.to_json())))
    assert again.to_json() == rules.to_json()
    assert again.all == rules.all
    assert (again.clusters, again.keep_domains, again.alias_pairs) == ({"c": ClusterSpec(provider="gke")}, ("example.com",), KEP_793)
    assert again.pod_policies == [PodLabelPolicySpec(extra=["a"])]
    assert again.named_nodes() == {"n1"}
    assert again.cluster_labels == CLUSTER_LABELS


def test_rules_that_an_earlier_version_kept_are_read() -> None:
    pair = {"primary": "new", "secondary": "old", "ensure_secondary_exists": True, "from_": "", "before": "1.30"}
    named = {"kind": "NodeLabelPolicy", "apiVersion": "hullmark.dev/v1", "metadata": {"name": "p"}, "spec": {"clusters": ["c"]}}
    kept = {"policies": [named], "clusters": {}, "aliasPairs": [pair], "podPolicies": [{"asAnnotations": True}], "keepDomains": []}
    read = Policies.from_json(kept)
    assert read.pod_policies == [PodLabelPolicySpec.model_validate({"asAnnotations": True})]
    assert [in_force(read.alias_pairs, version) for version in ("1.29", "1.30")] == [read.alias_pairs, ()]


def test_a_design_node_comes_back_from_json() -> None:
    node = DesignNode("n1", {"a": "1", "b": "2"}, {"a": "X/x", "b": "Y/y"}, ("t",), "r1", {"row": "a"}, "hp", "hw")
    assert DesignNode.from_json("n1", json.loads(json.dumps(node.to_json()))) == node
    assert DesignNode("bare").to_json() == {}
    assert DesignNode.from_json("bare", {}) == DesignNode("bare")


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.text(max_size=1)), max_size=4))
def test_mappings_seen_through_one_another_are_as_if_merged(layers: list[dict[str, str]]) -> None:
    merged: dict[str, str] = {}
    shared: Mapping[str, str] = {}
    for layer in layers:
        merged = merged | layer
        shared = over(layer, shared)
    assert dict(shared) == dict(flat(shared)) == merged


# --- diff


KUBELET = ("kubelet",)


def test_a_node_with_the_right_values_and_nothing_else_of_ours_needs_no_write() -> None:
    node = live({"a": "1", "b": "2", "foreign": "x"}, {"a": (OWNER,), "b": KUBELET, "foreign": KUBELET})
    assert diff(DeclaredLabels({"a": "1", "b": "2"}, {}), node) == Difference()
    assert not diff(DeclaredLabels({"a": "1", "b": "2"}, {}), node).write


def test_set_and_remove_say_why() -> None:
    node = live({"a": "old", "gone": "x"}, {"a": (OWNER,), "gone": (OWNER,)})
    found = diff(DeclaredLabels({"a": "1", "b": "2"}, {"a": "NodeLabelPolicy/p", "b": "HostProfile/h"}), node)
    assert found.set == {"a": "1", "b": "2"}
    assert found.remove == ("gone",)
    assert found.reasons == {"a": "declared by NodeLabelPolicy/p", "b": "declared by HostProfile/h", "gone": "no longer declared"}


@pytest.mark.parametrize("other", ["kubelet", ALIAS_OWNER])
def test_a_key_that_we_drop_and_another_holds_too_stays_and_is_given_up_unseen(other: str) -> None:
    found = diff(DeclaredLabels({}, {}), live({"a": "1"}, {"a": tuple(sorted((OWNER, other)))}))
    assert (found.set, found.remove, found.released, found.write) == ({}, (), ("a",), True)


def test_what_hullmark_holds_by_update_only_is_not_taken_away() -> None:
    node = Node("n1", "u", {"a": "1"}, owners={"a": (OWNER,)}, applied={})
    assert not diff(DeclaredLabels({}, {}), node).write


@pytest.mark.parametrize(
    ("on_conflict", "owners", "expected"),
    [
        ("skip", {"a": KUBELET}, Difference(skipped={"a": "kubelet"})),
        ("fail", {"a": KUBELET}, Difference(refused={"a": "kubelet"}, set={"a": "new"}, reasons={"a": "declared"})),
        ("skip", {"a": (OWNER,)}, Difference(set={"a": "new"}, reasons={"a": "declared"})),
        ("fail", {"a": (ALIAS_OWNER,)}, Difference(set={"a": "new"}, reasons={"a": "declared"})),
        ("skip", {"b": KUBELET}, Difference(set={"a": "new"}, reasons={"a": "declared"})),  # nobody holds it
        ("skip", {}, Difference(skipped={"a": UNKNOWN_MANAGER})),  # nothing is known of owners
    ],
)
def test_on_conflict_looks_at_who_holds_the_key(on_conflict: Any, owners: dict[str, tuple[str, ...]], expected: Difference) -> None:
    node = Node("n1", "u", {"a": "old"}, owners=owners)
    assert diff(DeclaredLabels({"a": "new"}, {}, on_conflict={"a": on_conflict}), node) == expected
    assert diff(DeclaredLabels({"a": "new"}, {}, on_conflict={"a": on_conflict}), node).write is bool(expected.set and not expected.refused)


def test_on_conflict_matters_only_where_the_value_differs_or_the_key_is_there() -> None:
    same = Node("n1", "u", {"a": "new"}, owners={"a": KUBELET})
    absent = Node("n1", "u", {}, owners={"x": KUBELET})
    for policy_ in ("skip", "fail"):
        wanted = DeclaredLabels({"a": "new"}, {}, on_conflict={"a": policy_})
        assert not diff(wanted, same).write
        assert diff(wanted, absent).set == {"a": "new"}


def test_prune_all_takes_what_is_not_declared_and_spares_the_rest() -> None:
    labels = {
        "a": "1",
        "hand": "x",
        "nvidia.com/gpu": "1",
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/w": "",
        "example.com/b": "2",
    }
    node = live(labels, {"hand": ("kubectl",), "example.com/b": (ALIAS_OWNER,)})
    found = diff(DeclaredLabels({"a": "1"}, {}, prune="all"), node)
    assert found.remove == ("hand",)
    assert found.reasons == {"hand": "not declared, and a policy says prune: all"}
    assert diff(DeclaredLabels({"a": "1"}, {}, prune="all"), node, keep_domains=["example.com"]).remove == ("hand", "nvidia.com/gpu")


def test_prune_all_does_not_take_a_skipped_key() -> None:
    node = live({"a": "theirs"}, {"a": KUBELET})
    assert diff(DeclaredLabels({"a": "ours"}, {}, "all", {"a": "skip"}), node) == Difference(skipped={"a": "kubelet"})


# --- over random ownership, against the API server's rules for Server-Side Apply


@dataclass
class Server:
    """Who holds which label by which operation, as the API server keeps it."""

    labels: dict[str, str] = field(default_factory=dict)
    holds: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def apply(self, manager: str, labels: Mapping[str, str]) -> None:
        for key, value in labels.items():
            if self.labels.get(key) != value:
                for (who, _), keys in self.holds.items():
                    if who != manager:
                        keys.discard(key)
            self.labels[key] = value
        dropped = self.holds.get((manager, "Apply"), set()) - set(labels)
        self.holds[manager, "Apply"] = set(labels)
        for key in dropped:
            if not any(key in keys for keys in self.holds.values()):
                self.labels.pop(key, None)

    def update(self, manager: str, key: str, value: str | None) -> None:
        if value is None or self.labels.get(key) != value:
            for keys in self.holds.values():
                keys.discard(key)
        if value is None:
            self.labels.pop(key, None)
        elif self.labels.get(key) != value:
            self.labels[key] = value
            self.holds.setdefault((manager, "Update"), set()).add(key)

    def node(self) -> Node:
        owners = {key: tuple(sorted({who for (who, _), keys in self.holds.items() if key in keys})) for key in self.labels}
        applied = {who: frozenset(keys) for (who, how), keys in self.holds.items() if how == "Apply" and keys}
        return Node("n1", "uid", dict(self.labels), owners={k: v for k, v in owners.items() if v}, applied=applied)


KEYS = st.sampled_from(["a", "b", "example.com/c", "nvidia.com/gpu", "kubernetes.io/os", "x.k8s.io/d"])
LABELS = st.dictionaries(KEYS, st.sampled_from(["1", "2"]), max_size=4)
OTHERS = st.sampled_from(["kubelet", "kubectl"])
STEP = st.one_of(
    st.tuples(st.just("apply"), st.sampled_from(["kubectl", OWNER]), LABELS),
    st.tuples(st.just("update"), OTHERS, st.tuples(KEYS, st.sampled_from(["1", "2", None]))),
)


@given(
    st.lists(STEP, max_size=8),
    LABELS,
    st.sampled_from(["owned", "all"]),
    st.dictionaries(KEYS, st.sampled_from(["skip", "fail"]), max_size=2),
)
def test_over_random_ownership_foreign_labels_survive_and_a_second_look_finds_nothing(
    history: list[Any], labels: dict[str, str], prune: Any, on_conflict: dict[str, Any]
) -> None:
    server = Server()
    for how, who, what in history:
        if how == "apply":
            server.apply(who, what)
        else:
            server.update(who, *what)
    before = server.node()
    wanted = DeclaredLabels(labels, {}, prune, {key: how for key, how in on_conflict.items() if key in labels})
    found = diff(wanted, before)

    foreign = {key: value for key, value in before.labels.items() if OWNER not in before.owners.get(key, ())}
    if prune == "owned":
        assert foreign.keys().isdisjoint(found.remove)
    assert all(before.owners[key] == (OWNER,) or prune == "all" for key in found.remove)
    assert found.skipped.keys().isdisjoint(found.set)
    if found.refused:
        assert not found.write
        return
    if not found.write:
        assert {key: before.labels.get(key) for key in labels if key not in found.skipped} == {
            key: value for key, value in labels.items() if key not in found.skipped
        }
        return

    server.apply(OWNER, {key: value for key, value in labels.items() if key not in found.skipped})
    if prune == "all":
        for key in prunable(server.labels, labels, KEEP_DOMAINS):
            server.update(OWNER, key, None)
    expected = {key: value for key, value in before.labels.items() if key not in found.remove} | dict(found.set)
    assert server.labels == expected, "set and remove are exactly what a reader of the labels sees"
    again = diff(wanted, server.node())
    assert not again.write
    assert again.skipped == found.skipped
