"""What a node should carry, and what it takes to get there."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from shared.domain.documents.access import Access, Outdated, kept
from shared.domain.documents.design import DesignNode, flat
from shared.domain.documents.kinds import (
    ClusterSpec,
    Expression,
    FreezeSpec,
    LimitsSpec,
    NodeLabelPolicy,
    NodeMatch,
    OnConflict,
    PodLabelPolicySpec,
    Prune,
    RolloutSpec,
)
from shared.domain.keys import PROTECTED
from shared.domain.labels.aliases import KEP_793, AliasPair
from shared.domain.nodes import HULLMARK, Node, Owner, Taint

KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
KEEP_DOMAINS = (
    # clouds
    "cloud.google.com", "googleapis.com", "gke.io", "aws.com", "amazonaws.com", "k8s.aws", "bottlerocket.aws", "eksctl.io", "azure.com",
    "microsoft.com", "oraclecloud.com", "ibm.com", "ibm-cloud.kubernetes.io", "alibabacloud.com", "aliyun.com", "aliyun.accelerator",
    "tencentyun.com", "tencent.com", "huawei.com", "huaweicloud.com", "yandex.cloud", "digitalocean.com", "hetzner.cloud", "linode.com",
    "scaleway.com", "ovh.com", "exoscale.net", "exoscale.com", "vultr.com", "upcloud.com", "civo.com", "ionos.com", "equinix.com",
    "openstack.org", "vmware.com", "nutanix.com",
    # autoscalers, distributions, cluster managers
    "karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "spotinst.io", "cast.ai", "x-k8s.io", "metal3.io", "gardener.cloud",
    "sapcloud.io", "openshift.io", "cattle.io", "rancher.io", "harvesterhci.io", "k3s.io", "rke2.io", "k0sproject.io", "microk8s.io",
    "talos.dev", "flatcar-linux.org", "coreos.com", "kubesphere.io", "kops.k8s.io", "mirantis.com", "tanzu.vmware.com", "medik8s.io",
    # hardware
    "nvidia.com", "amd.com", "intel.com", "habana.ai", "mellanox.com", "xilinx.com", "qualcomm.com",
    # networks
    "projectcalico.org", "tigera.io", "cilium.io", "antrea.io", "ovn.org", "istio.io", "linkerd.io", "metallb.universe.tf", "metallb.io",
    "kube-vip.io", "submariner.io", "liqo.io",
    # storage, virtualisation
    "rook.io", "ceph.com", "longhorn.io", "portworx.com", "linbit.com", "piraeus.io", "openebs.io", "openebs.com", "topolvm.io",
    "netapp.io", "dellemc.com", "purestorage.com", "hpe.com", "min.io", "kubevirt.io", "katacontainers.io",
)  # fmt: skip
"""Whose labels `prune: all` leaves alone unless LabelRules says otherwise: the usual vendors' and clouds', and every domain below them."""


def in_domains(key: str, domains: Iterable[str]) -> bool:
    """Whether the key's domain is one of these or below one. A key without a domain is in none."""
    domain, slash, _ = key.rpartition("/")
    return bool(slash) and any(domain == parent or domain.endswith(f".{parent}") for parent in domains)


# --- what the design and the policies declare ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclaredLabels:
    """What a node should carry: its whole declared set. `on_conflict` names only the keys that are not forced; `by_default` those of them
    whose policy says nothing of conflicts, so that LabelRules does.
    """

    labels: Mapping[str, str]
    sources: Mapping[str, str]
    prune: Prune = "owned"
    on_conflict: Mapping[str, OnConflict] = field(default_factory=dict)
    by_default: frozenset[str] = frozenset()
    until: tuple[Taint, ...] = ()
    """The startup taints that go when these labels are there."""

    def says(self, keys: Iterable[str]) -> dict[str, str]:
        """What is declared for these keys of `on_conflict`, by which document, and what to do about other managers, in words."""
        return {
            key: f"{self.sources.get(key, 'its document')} declares {self.labels[key]!r}"
            + (f", LabelRules says onConflict: {how}" if key in self.by_default else f" and says onConflict: {how}")
            for key in keys
            if (how := self.on_conflict.get(key))
        }


@dataclass(frozen=True, slots=True)
class Clash:
    """Two policies of one priority that want different values for one key of one node."""

    key: str
    priority: int
    first: str
    first_value: str
    second: str
    second_value: str

    def __str__(self) -> str:
        return (
            f"{self.key}: {self.first} says {self.first_value!r}, {self.second} says {self.second_value!r}, "
            f"both with priority {self.priority}: give one of them a higher priority"
        )


@dataclass(frozen=True, slots=True)
class PolicyConflict:
    """Nothing can be declared for this node until the policies agree."""

    node: str
    clashes: tuple[Clash, ...]

    @property
    def message(self) -> str:
        """Every clash, with what to do."""
        return "; ".join(str(clash) for clash in self.clashes)


class Policies:
    """A site's rules beside its nodes: policies (highest priority first), clusters, pairs, pods. JSON in a revision.

    Policies are found by the node that they may select, because a plan asks once per node.
    """

    def __init__(
        self,
        policies: Iterable[NodeLabelPolicy] = (),
        *,
        clusters: Mapping[str, ClusterSpec | Outdated] | None = None,
        cluster_labels: Mapping[str, Mapping[str, str]] | None = None,
        alias_pairs: Iterable[AliasPair] | None = None,
        pod_policies: Iterable[PodLabelPolicySpec] = (),
        keep_domains: Iterable[str] | None = None,
        allow_protected: Iterable[str] = (),
        limits: LimitsSpec | None = None,
        on_conflict: OnConflict = "force",
        rollouts: Mapping[str, RolloutSpec] | None = None,
        freezes: Mapping[str, FreezeSpec] | None = None,
    ) -> None:
        self.all = sorted(policies, key=lambda policy: (-policy.spec.priority, policy.name))
        self.clusters = dict(clusters or {})
        """The Cluster documents' specs, by name."""
        self.cluster_labels = {name: dict(labels) for name, labels in (cluster_labels or {}).items() if labels}
        """The labels of the Cluster documents that have any, by name: policies select clusters by them."""
        self.alias_pairs = KEP_793 if alias_pairs is None else tuple(alias_pairs)
        """The declared pairs, for whatever cluster version; KEP-793's where no document declares any."""
        self.pod_policies = list(pod_policies)
        """The PodLabelPolicy documents' specs."""
        self.keep_domains = KEEP_DOMAINS if keep_domains is None else tuple(keep_domains)
        """What `prune: all` spares besides Kubernetes' own domains."""
        self.keys_looked_at = frozenset(key for policy in self.all for key in keys_looked_at(policy))
        """The labels that decide whether a policy selects a node."""
        self.allow_protected = frozenset(allow_protected)
        """Protected keys that LabelRules admits for every document."""
        self.limits = limits
        """The Limits document's spec; None where the site has none."""
        self.startup_taints = frozenset(taint for policy in self.all if (taint := policy.spec.startup_taint))
        """Every startup taint that a policy names."""
        self.on_conflict = on_conflict
        """What holds for policies that say nothing of conflicts."""
        self.rollouts = dict(rollouts or {})
        """The Rollout documents' specs, by name."""
        self.freezes = dict(freezes or {})
        """The Freeze documents' specs, by name."""
        self._merged: dict[tuple[int, ...], DeclaredLabels | tuple[Clash, ...]] = {}
        self._everywhere = _Index(self.all)
        self._index: dict[str, _Index] = {}
        self._keys: dict[str, frozenset[str]] = {}

    def to_json(self) -> dict[str, Any]:
        """Everything, for `from_json`."""
        return {
            "policies": [policy.to_json() for policy in self.all],
            "clusters": {name: spec.to_json() for name, spec in self.clusters.items() if isinstance(spec, ClusterSpec)},
            "clusterLabels": self.cluster_labels,
            "aliasPairs": [asdict(pair) for pair in self.alias_pairs],
            "podPolicies": [spec.model_dump(mode="json", by_alias=True, exclude_unset=True) for spec in self.pod_policies],
            "keepDomains": list(self.keep_domains),
            "allowProtected": sorted(self.allow_protected),
            "limits": self.limits.to_json() if self.limits else None,
            "onConflict": self.on_conflict,
            "rollouts": {name: spec.to_json() for name, spec in self.rollouts.items()},
            "freezes": {name: spec.to_json() for name, spec in self.freezes.items()},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        return cls(
            [NodeLabelPolicy.model_validate(policy) for policy in body["policies"]],
            clusters={name: kept(name, ClusterSpec, spec) for name, spec in body["clusters"].items()},
            cluster_labels=body.get("clusterLabels"),
            alias_pairs=[AliasPair(**pair) for pair in body["aliasPairs"]],
            pod_policies=map(PodLabelPolicySpec.model_validate, body["podPolicies"]),
            keep_domains=body["keepDomains"],
            allow_protected=body.get("allowProtected", ()),
            limits=LimitsSpec.model_validate(limits) if (limits := body.get("limits")) is not None else None,
            on_conflict=body.get("onConflict", "force"),
            rollouts={name: RolloutSpec.model_validate(spec) for name, spec in body.get("rollouts", {}).items()},
            freezes={name: FreezeSpec.model_validate(spec) for name, spec in body.get("freezes", {}).items()},
        )

    def reached(self) -> dict[str, Access | Outdated]:
        """How each cluster of the documents is reached, by name; those that say nothing of it are left out."""
        accesses = {name: spec if isinstance(spec, Outdated) else spec.access for name, spec in self.clusters.items()}
        return {name: access for name, access in accesses.items() if access}

    def merged(self, chosen: tuple[NodeLabelPolicy, ...]) -> DeclaredLabels | tuple[Clash, ...]:
        """What these of its policies declare together; asked for again and again, because most nodes are selected alike."""
        which = tuple(map(id, chosen))
        if which not in self._merged:
            self._merged[which] = merge(chosen, self.on_conflict)
        return self._merged[which]

    def named_nodes(self) -> set[str]:
        """The nodes that policies list by name: they count as nodes that the site names."""
        return set(self._everywhere.named())

    def named_clusters(self) -> set[str]:
        """The clusters that policies list by name."""
        return {name for policy in self.all if policy.spec.where for name in policy.spec.where.names or ()}

    def concern(self, design: DesignNode, cluster: str) -> bool:
        """Whether a node of the site, not found in this cluster, belongs there: not if only policies for other clusters name it."""
        if design != DesignNode(design.name) or design.name not in self._everywhere.named():
            return True
        return design.name in self._for(cluster).named()

    def selecting(self, name: str, design: DesignNode | None, own: Mapping[str, str], cluster: str) -> list[NodeLabelPolicy]:
        """The policies that select this node, highest priority first. `own`: the node's own labels (see `own_labels`)."""
        return [policy for policy in self._for(cluster).candidates(name, design) if selects(policy, name, design, own)]

    def candidates(self, name: str, design: DesignNode | None) -> Iterator[NodeLabelPolicy]:
        """Every policy, for whatever cluster, that names, racks and tags don't rule out."""
        return self._everywhere.candidates(name, design)

    def is_for(self, policy: NodeLabelPolicy, cluster: str | None) -> bool:
        """Whether one of the policies is for this cluster. None stands for a cluster that no policy names and that has no labels."""
        where = policy.spec.where
        return where is None or (cluster is not None and where.means(cluster, self.cluster_labels.get(cluster, {})))

    def keys_for(self, cluster: str) -> frozenset[str]:
        """Every key that a policy for this cluster declares."""
        if cluster not in self._keys:
            self._keys[cluster] = frozenset(key for policy in self.all if self.is_for(policy, cluster) for key in policy.spec.labels)
        return self._keys[cluster]

    def _for(self, cluster: str) -> _Index:
        """The policies for one cluster: which they are is decided once, not for each of its nodes."""
        if cluster not in self._index:
            self._index[cluster] = _Index([policy for policy in self.all if self.is_for(policy, cluster)])
        return self._index[cluster]


class _Index:
    """Policies in their order, found by the names, racks and tags of the nodes that they may select."""

    def __init__(self, policies: Sequence[NodeLabelPolicy]) -> None:
        self._all = policies
        self._by: dict[str, dict[str, list[int]]] = {"name": {}, "rack": {}, "tag": {}}
        self._others: list[int] = []
        for number, policy in enumerate(policies):
            narrow = next(((kind, values) for kind, values in _indexed(policy.spec.nodes) if values), None)
            if narrow is None:
                self._others.append(number)
            else:
                for value in dict.fromkeys(narrow[1]):
                    self._by[narrow[0]].setdefault(value, []).append(number)

    def named(self) -> Collection[str]:
        """The nodes that policies list by name."""
        return self._by["name"].keys()

    def candidates(self, name: str, design: DesignNode | None) -> Iterator[NodeLabelPolicy]:
        """Every policy that names, racks and tags don't rule out."""
        numbers = [*self._others, *self._by["name"].get(name, ())]
        if design is not None:
            numbers += self._by["rack"].get(design.rack, ()) if design.rack else ()
            for tag in design.tags:
                numbers += self._by["tag"].get(tag, ())
        return (self._all[number] for number in sorted(set(numbers)))


def keys_looked_at(policy: NodeLabelPolicy) -> Iterator[str]:
    """The labels that decide whether a policy selects a node."""
    for match in (policy.spec.nodes, policy.spec.exclude):
        if match is not None:
            yield from looked_at(match)


def looked_at(match: NodeMatch) -> Iterator[str]:
    """The labels that criteria look at."""
    yield from match.match_labels or ()
    yield from (expression.key for expression in match.match_expressions or ())


def _indexed(nodes: NodeMatch) -> tuple[tuple[str, list[str] | None], ...]:
    return ("name", nodes.names), ("rack", nodes.racks), ("tag", nodes.tags)


def own_labels(design: DesignNode | None, live: Node | None, keys: Iterable[str], owner: Owner = HULLMARK) -> Mapping[str, str]:
    """Those of `keys` that a node has of its own, for policies to look at: the design's labels over the live ones, without those that
    only Hullmark holds. What policies wrote must not select for policies; else a policy could feed on itself.
    """
    own: dict[str, str] = {}
    for key in keys:
        if design is not None and key in design.labels:
            own[key] = design.labels[key]
        elif live is not None and key in live.labels and not _ours_alone(live.owners.get(key, ()), owner):
            own[key] = live.labels[key]
    return own


def _ours_alone(managers: Sequence[str], owner: Owner) -> bool:
    return bool(managers) and all(manager in owner for manager in managers)


def selects(
    policy: NodeLabelPolicy,
    name: str,
    design: DesignNode | None,
    own: Mapping[str, str],
    *,
    open_: bool = False,
) -> bool | None:
    """Whether a policy selects a node of a cluster that it is for. With `open_`, labels that `own` lacks may still be on the live node:
    then None is "it depends".
    """
    spec = policy.spec
    chosen = matches(spec.nodes, name, design, own, open_=open_)
    if chosen is False or spec.exclude is None:
        return chosen
    excluded = matches(spec.exclude, name, design, own, open_=open_)
    if excluded is True:
        return False
    return chosen if excluded is False else None


def matches(match: NodeMatch, name: str, design: DesignNode | None, own: Mapping[str, str], *, open_: bool = False) -> bool | None:
    """Whether criteria mean a node. Every one must hold: one False decides, else one "it depends" does."""
    if match.names is not None and name not in match.names:
        return False
    if match.racks is not None and (design is None or design.rack not in match.racks):
        return False
    if match.tags is not None and (design is None or not any(tag in match.tags for tag in design.tags)):
        return False
    answer: bool | None = True
    for key, wanted in (match.match_labels or {}).items():
        if key in own or not open_:
            if own.get(key) != wanted:
                return False
        else:
            answer = None
    for expression in match.match_expressions or ():
        if expression.key in own or not open_:
            if not _holds(expression, own.get(expression.key)):
                return False
        else:
            answer = None
    return answer


def _holds(expression: Expression, value: str | None) -> bool:
    """Kubernetes' label selector: NotIn holds where the key is absent."""
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None


def declare(
    name: str, design: DesignNode | None, live: Node | None, policies: Policies, cluster: str, owner: Owner = HULLMARK
) -> DeclaredLabels | PolicyConflict:
    """What a node should carry: the design's labels, and over them the policies', key by key by priority (docs/documents.md).

    A node that nothing names or selects has an empty declared set.
    """
    chosen = policies.selecting(name, design, own_labels(design, live, policies.keys_looked_at, owner), cluster) if policies.all else []
    if not chosen:
        return DeclaredLabels(flat(design.labels), flat(design.sources)) if design is not None else DeclaredLabels({}, {})
    merged = policies.merged(tuple(chosen))
    if not isinstance(merged, DeclaredLabels):
        return PolicyConflict(name, merged)
    if design is None or not design.labels:
        return merged
    return replace(merged, labels={**flat(design.labels), **merged.labels}, sources={**flat(design.sources), **merged.sources})


def merge(chosen: Sequence[NodeLabelPolicy], default: OnConflict = "force") -> DeclaredLabels | tuple[Clash, ...]:
    """What these policies, highest priority first, declare together, or where they contradict each other. `default`: what to do about
    other managers where a policy does not say.
    """
    if clashes := clashes_of(chosen):
        return clashes
    labels: dict[str, str] = {}
    sources: dict[str, str] = {}
    on_conflict: dict[str, OnConflict] = {}
    by_default: set[str] = set()
    for policy in chosen:
        for key, value in policy.spec.labels.items():
            if key not in labels:
                labels[key], sources[key] = value, policy.title
                if (how := policy.spec.on_conflict or default) != "force":
                    on_conflict[key] = how
                    if policy.spec.on_conflict is None:
                        by_default.add(key)
    prune: Prune = "all" if any(policy.spec.prune == "all" for policy in chosen) else "owned"
    until = tuple(sorted({taint for policy in chosen if (taint := policy.spec.startup_taint)}))
    return DeclaredLabels(labels, sources, prune, on_conflict, frozenset(by_default), until)


def clashes_of(policies: Iterable[NodeLabelPolicy]) -> tuple[Clash, ...]:
    """Where these policies, all selecting one node, want different values at one priority."""
    wanted: dict[tuple[str, int], tuple[str, str]] = {}
    clashes = []
    for policy in policies:
        for key, value in policy.spec.labels.items():
            title, known = wanted.setdefault((key, policy.spec.priority), (policy.title, value))
            if known != value:
                clashes.append(Clash(key, policy.spec.priority, title, known, policy.title, value))
    return tuple(clashes)


# --- what it takes to get there --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """What lies between a node and what is declared for it.

    `set` and `remove` are what a person sees change; `reasons` says why for each of their keys. `skipped` and `refused` map keys that
    another manager holds with another value to that manager: a policy says to leave them (`skip`), or that the node fails (`fail`).
    `released` are undeclared keys of ours that others hold too: the next Apply gives them up, and nothing is seen of it.
    """

    set: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    released: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def write(self) -> bool:
        """Whether the node needs a write: something changes, or ownership is to be given up."""
        return bool(self.set or self.remove or self.released) and not self.refused


UNKNOWN_MANAGER = "another manager"
"""Who holds a key of a listing without managedFields: somebody, as far as one can know."""


def diff(declared: DeclaredLabels, live: Node, keep_domains: Iterable[str] = KEEP_DOMAINS, owner: Owner = HULLMARK) -> Difference:
    """Compare a node with what is declared for it (docs/labels.md). `keep_domains`: what `prune: all` spares besides Kubernetes' own."""
    wrong = {key: value for key, value in declared.labels.items() if live.labels.get(key) != value}
    holders = {key: holder for key in declared.on_conflict if key in wrong and (holder := _holder(key, live, owner))}
    skipped = {key: holder for key, holder in holders.items() if declared.on_conflict[key] == "skip"}
    refused = {key: holder for key, holder in holders.items() if declared.on_conflict[key] == "fail"}

    ours = [key for key in live.applied.get(owner.name, ()) if key not in declared.labels or key in skipped]
    reasons = {key: "no longer declared" for key in ours if key in live.labels and set(live.owners.get(key, ())) <= {owner.name}}
    released = sorted(key for key in ours if key not in reasons)
    if declared.prune == "all":
        undeclared = prunable(live.labels, declared.labels, keep_domains, live.owners, owner)
        reasons |= {key: "not declared, and a policy says prune: all" for key in undeclared if key not in reasons}
    removed = tuple(sorted(reasons))
    changed = {key: value for key, value in wrong.items() if key not in skipped}
    reasons |= {key: f"declared by {declared.sources[key]}" if key in declared.sources else "declared" for key in changed}
    return Difference(changed, removed, skipped, refused, tuple(key for key in released if key not in removed), reasons)


def prunable(
    labels: Mapping[str, str],
    declared: Container[str],
    keep_domains: Iterable[str],
    owners: Mapping[str, Sequence[str]] | None = None,
    owner: Owner = HULLMARK,
) -> list[str]:
    """The keys that `prune: all` takes from a node, sorted: what is not declared, except protected keys, keys of Kubernetes' and the
    kept domains, and (where `owners` tells) secondary keys that we keep equal to their primaries.
    """
    domains = (*KUBERNETES_DOMAINS, *keep_domains)
    return sorted(
        key
        for key in labels
        if key not in declared
        and key not in PROTECTED
        and owner.aliases not in (owners or {}).get(key, ())
        and not in_domains(key, domains)
    )


def _holder(key: str, live: Node, owner: Owner) -> str:
    """Which other manager holds a key of this node; empty where none does."""
    if key not in live.labels:
        return ""
    if not live.owners:
        return UNKNOWN_MANAGER
    return next((manager for manager in live.owners.get(key, ()) if manager not in owner), "")
