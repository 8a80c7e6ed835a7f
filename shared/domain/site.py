"""A site: all its documents, resolved as one whole or refused with every problem in one answer."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from shared.domain.documents import airship
from shared.domain.documents.access import Access, Outdated
from shared.domain.documents.design import DesignNode as DesignNode
from shared.domain.documents.kinds import (
    API_VERSION,
    KINDS,
    ONCE,
    Cluster,
    ClusterMatch,
    Freeze,
    GeneratedLabels,
    HullmarkDocument,
    LabelAliases,
    LabelRules,
    Limits,
    NodeLabelPolicy,
    NodeMatch,
    PodLabelPolicy,
    Rollout,
    did_you_mean,
    parsed,
    parsed_in_part,
)
from shared.domain.documents.reading import Document, DocumentsRefused, Path, Problem, Source, read
from shared.domain.keys import PROTECTED, is_subdomain, key_error, reconciled, value_error
from shared.domain.labels.aliases import AliasPair, check_pairs, in_force
from shared.domain.labels.policies import Clash, DeclaredLabels, Policies, clashes_of, declare, keys_looked_at, looked_at, selects
from shared.domain.labels.taints import taint_error
from shared.domain.pods.copying import check_pod_policy

T = TypeVar("T", bound=HullmarkDocument)

GARDENER = "core.gardener.cloud/v1beta1"
GARDENER_KINDS = ("CloudProfile", "NamespacedCloudProfile", "Shoot")
API_VERSIONS: Mapping[str, str] = dict.fromkeys(KINDS, API_VERSION) | dict.fromkeys(GARDENER_KINDS, GARDENER)
"""Every kind that a site may hold beside documents with a `schema`."""


class Context:
    """What a check may look at beside the documents: the documents before the change, and the time."""

    def __init__(self, previous: Iterable[Source], now: datetime | None) -> None:
        self._sources = previous
        self.now = now

    @functools.cached_property
    def previous(self) -> Sequence[Document]:
        """The documents before the change, read when a check asks for them: few do."""
        return read(self._sources)[0]


def check_aliases(written: Iterable[tuple[Document, LabelAliases]]) -> Iterator[Problem]:
    """All declared pairs together: a cycle may run through two documents."""
    pairs = [(document, number, pair) for document, model in written for number, pair in enumerate(model.spec.pairs)]
    for flaw in check_pairs([pair for _, _, pair in pairs]):
        document, number, _ = pairs[flaw.index]
        path: Path = ("spec", "pairs", number, *([flaw.field] if flaw.field else []))
        yield document.problem(path, flaw.type, flaw.message)


def check_pod_policies(written: Iterable[tuple[Document, PodLabelPolicy]]) -> Iterator[Problem]:
    """Keys that pods must keep, and names that are none."""
    for document, model in written:
        for flaw in check_pod_policy(model.spec):
            yield document.problem(("spec", *flaw.path), flaw.type, flaw.message)


@dataclass(slots=True)
class Site:
    """The resolved whole."""

    nodes: dict[str, DesignNode] = field(default_factory=dict)
    """Every node that the site names: the design's, and those that policies list by name."""
    policies: Policies = field(default_factory=Policies)
    gardener: dict[str, list[Document]] = field(default_factory=dict)
    """CloudProfile, NamespacedCloudProfile and Shoot documents, by kind."""
    warnings: list[Problem] = field(default_factory=list)
    document_count: int = 0

    def effective(self, cluster: str = "default") -> dict[str, dict[str, Mapping[str, str]]]:
        """What the documents alone say of each node: its labels and their sources.

        Policies see no live labels here; where they contradict each other for want of them, the node has the design's labels only.
        """
        labels = {}
        for name in sorted(self.nodes):
            declared = declare(name, self.nodes[name], None, self.policies, cluster)
            if not isinstance(declared, DeclaredLabels):
                declared = DeclaredLabels(self.nodes[name].labels, self.nodes[name].sources)
            labels[name] = {"labels": declared.labels, "sources": declared.sources}
        return labels


@dataclass(frozen=True)
class DeclaredSite:
    """What documents declare that were resolved here; a committed revision says the same of itself."""

    number: int | None
    site: Site

    @property
    def policies(self) -> Policies:
        """Everything but the nodes."""
        return self.site.policies

    @property
    def clusters(self) -> Mapping[str, Access | Outdated]:
        """How each cluster is reached, by name."""
        return self.policies.reached()

    def node(self, name: str) -> DesignNode | None:
        """One node of the design."""
        return self.site.nodes.get(name)

    def nodes(self) -> Iterator[DesignNode]:
        """Every node of the design, in order of names."""
        return (self.site.nodes[name] for name in sorted(self.site.nodes))


def load(sources: Iterable[Source], *, previous: Iterable[Source] = (), now: datetime | None = None) -> Site:
    """Read and resolve a site. Raises DocumentsRefused with every problem."""
    site, problems = examine(sources, previous, now)
    if problems:
        raise DocumentsRefused(problems)
    return site


def check(
    sources: Iterable[Source], *, previous: Iterable[Source] = (), now: datetime | None = None
) -> tuple[list[Problem], list[Problem]]:
    """Every problem and every warning of a site's documents, in the order of files and lines."""
    site, problems = examine(sources, previous, now)
    return problems, site.warnings


def examine(sources: Iterable[Source], previous: Iterable[Source] = (), now: datetime | None = None) -> tuple[Site, list[Problem]]:
    """A site as far as it can be resolved, with its warnings, and every problem; both in the order of files and lines."""
    sources = list(sources)
    documents, problems = read(sources, packing=(airship.NODE,))
    site = Site(document_count=len(documents))
    by_kind: dict[str, list[Document]] = {}
    schemas: list[Document] = []
    for document in documents:
        if document.is_packed or "kind" not in document.data:
            schemas.append(document)
            site.warnings += _misspelt_schema(document)
        elif (refused := _foreign(document)) is not None:
            problems.append(refused)
        else:
            by_kind.setdefault(document.kind, []).append(document)
    shaped = _Shaped(problems)
    for kind in KINDS:
        shaped.add(by_kind.get(kind, ()))
    site.gardener = {kind: by_kind[kind] for kind in GARDENER_KINDS if kind in by_kind}
    context = Context(previous, now)
    problems += [*check_aliases(shaped.written(LabelAliases)), *check_pod_policies(shaped.each(PodLabelPolicy))]
    problems += _versions(site, shaped.written(Cluster), context)
    problems += shaped.check_clusters()

    allowed = frozenset(key for rules in shaped.models(LabelRules) for key in rules.spec.allow_protected)
    problems += shaped.check_labels(allowed)
    generated = [airship.Generated(each.spec.from_, each.spec.key, each.title) for each in shaped.models(GeneratedLabels)]
    design = airship.resolve(schemas, generated, allowed, lambda: context.previous)
    problems += design.problems
    site.warnings += design.warnings
    site.policies = shaped.policies()
    site.nodes = design.nodes | {name: DesignNode(name) for name in site.policies.named_nodes() if name not in design.nodes}
    problems += shaped.check_conflicts(site)
    problems += shaped.check_secondaries(site.policies.alias_pairs)
    problems += shaped.check_selected(site.policies.alias_pairs)
    problems += [*shaped.check_rollouts(), *shaped.check_starts(site.policies), *shaped.check_freezes()]
    site.warnings += _misspelt_fields(site)
    site.warnings += [*shaped.unknown_clusters(), *shaped.needless_permissions(), *shaped.reconciled_keys()]
    order = {source.file: number for number, source in enumerate(sources)}
    for problem_list in (problems, site.warnings):
        problem_list.sort(key=lambda problem: (order.get(problem.file, -1), problem.line))
    return site, problems


def _versions(site: Site, clusters: Iterable[tuple[Document, Cluster]], context: Context) -> Iterator[Problem]:
    """Gardener's rules, which need a time to say what has expired, and the windows of clusters that no Shoot describes."""
    if site.gardener and context.now is not None:
        from shared.domain.versions.profiles import check_gardener

        yield from check_gardener(
            [gardener_document for documents in site.gardener.values() for gardener_document in documents], context.previous, context.now
        )
    for document, cluster in clusters:
        if cluster.spec.maintenance:
            from shared.domain.versions.clusters import check_maintenance

            yield from check_maintenance(document, cluster.spec.maintenance)


def _foreign(document: Document) -> Problem | None:
    """Why a document with a `kind` is none of ours, or None."""
    version = document.data.get("apiVersion")
    wanted = API_VERSIONS.get(document.kind)
    if wanted is None:
        message = f"unknown kind {document.kind}{did_you_mean(document.kind, API_VERSIONS) or ': known are ' + ', '.join(API_VERSIONS)}"
        if document.kind == "Node":
            message = "a Node does not belong in a site: give node lists with --nodes"
        return document.problem(("kind",), "NotSupported", message)
    if version != wanted:
        message = f"{document.kind} is of apiVersion {wanted}, not {version}" if version else f"`apiVersion: {wanted}` is required"
        return document.problem(("apiVersion",), "NotSupported" if version else "Required", message)
    if document.kind in GARDENER_KINDS and not document.name:
        return document.problem(("metadata", "name"), "Required", "a document needs `metadata.name`, as text")
    return None


def _misspelt_schema(document: Document) -> Iterator[Problem]:
    if document.kind.startswith("drydock/") and document.kind not in (*airship.RESOLVED, *airship.OTHERS):
        hint = did_you_mean(document.kind, (*airship.RESOLVED, *airship.OTHERS))
        yield document.problem(("schema",), "Unknown", f"unknown schema {document.kind} is left alone{hint}")


def _misspelt_fields(site: Site) -> Iterator[Problem]:
    """Fields that Gardener's kinds do not have. Its API server drops them in silence."""
    if site.gardener:
        from shared.domain.versions.known_fields import unknown_fields

        for documents in site.gardener.values():
            for document in documents:
                yield from unknown_fields(document)


REACHED_BY: Mapping[str, tuple[str, ...]] = {"gardener": ("kubeconfig", "inCluster"), "eks": ("eks",), "gke": ("gke",)}
"""By which access a provider's versions can be read and changed; a kubeconfig of `gardener` leads to the garden."""


class _Shaped:
    """Hullmark's own documents whose shape is right, with their models."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.read: list[tuple[Document, HullmarkDocument]] = []
        self.in_part: list[tuple[Document, HullmarkDocument]] = []
        """Of wrong shape; what is right of each is checked by the rules that look at one document alone."""

    def add(self, documents: Iterable[Document]) -> None:
        """Take the documents of one kind; duplicates of a name, a second one of those in ONCE and wrong shapes are told."""
        names: dict[str, Document] = {}
        for document in documents:
            model = parsed(document)
            if isinstance(model, list):
                self.problems += model
                if (rest := parsed_in_part(document)) is not None:
                    self.in_part.append((document, rest))
            else:
                self.read.append((document, model))
            only = document.kind in ONCE
            first = names.setdefault("" if only else document.name, document)
            if first is not document and (document.name or only):
                rule = f"a site has one {document.kind}" if only else f"{document.title} is there twice"
                message = f"{rule}: the other is at {first.file}:{first.line}"
                self.problems.append(document.problem(("metadata", "name"), "Duplicate", message))

    def models(self, kind: type[T]) -> list[T]:
        """The models of a kind, in the order of the documents."""
        return [model for _, model in self.written(kind)]

    def written(self, kind: type[T]) -> list[tuple[Document, T]]:
        """The models of a kind with the documents that they were read from."""
        return [(document, model) for document, model in self.read if isinstance(model, kind)]

    def each(self, kind: type[T]) -> list[tuple[Document, T]]:
        """The same with what is right of documents of wrong shape."""
        return [(document, model) for document, model in (*self.read, *self.in_part) if isinstance(model, kind)]

    def policies(self) -> Policies:
        """Everything but the nodes."""
        rules, aliases, limits = self.models(LabelRules), self.models(LabelAliases), self.models(Limits)
        return Policies(
            self.models(NodeLabelPolicy),
            clusters={model.name: model.spec for model in self.models(Cluster)},
            cluster_labels={model.name: model.metadata.labels for model in self.models(Cluster)},
            alias_pairs=[pair for model in aliases for pair in model.spec.pairs] if aliases else None,
            pod_policies=[model.spec for model in self.models(PodLabelPolicy)],
            keep_domains=rules[0].spec.keep_domains if rules else None,
            allow_protected=rules[0].spec.allow_protected if rules else (),
            limits=limits[0].spec if limits else None,
            on_conflict=rules[0].spec.on_conflict if rules else "force",
            rollouts={model.name: model.spec for model in self.models(Rollout)},
            freezes={model.name: model.spec for model in self.models(Freeze)},
        )

    def check_labels(self, allowed: frozenset[str]) -> Iterator[Problem]:
        """Kubernetes' rules for keys and values, and protected keys (docs/labels.md, "Valid keys and values")."""
        asked: dict[str, Document] = {}
        for document, model in (*self.read, *self.in_part):
            if isinstance(model, NodeLabelPolicy):
                for key, value in model.spec.labels.items():
                    yield from _label_problems(document, key, value, model.spec.allow_protected or key in allowed)
                if (taint := model.spec.startup_taint) and (wrong := taint_error(taint)):
                    type_ = "NotSupported" if wrong[0] == "effect" else "Invalid"
                    yield document.problem(("spec", "until", "taint", wrong[0]), type_, wrong[1])
                for name in ("nodes", "exclude"):
                    yield from _selector_problems(document, ("spec", name), getattr(model.spec, name))
                if isinstance(model.spec.clusters, ClusterMatch):
                    yield from _match_labels_problems(document, ("spec", "clusters"), model.spec.clusters.match_labels)
            elif isinstance(model, GeneratedLabels):
                yield from airship.check_generated_key(document, ("spec", "key"), model.spec.key, allowed)
                first = asked.setdefault(model.spec.key, document)
                if first is not document:
                    yield document.problem(("spec", "key"), "Duplicate", f"{first.title} generates {model.spec.key} already")

    def check_clusters(self) -> Iterator[Problem]:
        """Names and labels of clusters, and providers that their access cannot reach."""
        for document, model in self.each(Cluster):
            if not is_subdomain(model.name):
                message = "a cluster's name is a DNS name: lower-case letters, digits, - and ., at most 253 bytes"
                yield document.problem(("metadata", "name"), "Invalid", message)
            for key, value in model.metadata.labels.items():
                if reason := key_error(key) or value_error(value):
                    yield document.problem(("metadata", "labels", key), "Invalid", reason)
            provider, access = model.spec.provider, model.spec.access
            wanted = REACHED_BY.get(provider, ())
            if wanted and access is None:
                yield document.problem(("spec", "access"), "Required", f"provider {provider} is reached by {' or '.join(wanted)}: say how")
            elif wanted and access and access.given not in wanted:
                message = f"provider {provider} is reached by {' or '.join(wanted)}, not by {access.given}"
                yield document.problem(("spec", "provider"), "Invalid", message)

    def check_secondaries(self, pairs: Iterable[AliasPair]) -> Iterator[Problem]:
        """Policies that declare a secondary key. Which pairs hold on a cluster depends on its version, which documents don't tell:
        here it is the newest, and a policy for certain clusters only has to mind the pairs that hold for every version.
        """
        now = in_force(pairs, "")
        always = [pair for pair in now if not pair.from_ and not pair.before]
        for document, model in self.read:
            if isinstance(model, NodeLabelPolicy):
                yield from secondaries(document, model, now if model.spec.where is None else always)

    def check_selected(self, pairs: Iterable[AliasPair]) -> Iterator[Problem]:
        """Policies that declare what a policy selects on, itself or as an alias. Once we hold such a label it counts as ours and no longer
        as the node's own: the first relabel would take it over, and the second would find the node unselected and remove all it had.
        """
        looking: dict[str, tuple[Document, HullmarkDocument]] = {}
        declaring = [(document, model) for document, model in self.read if isinstance(model, NodeLabelPolicy)]
        for document, model in declaring:
            for key in keys_looked_at(model):
                looking.setdefault(key, (document, model))
        for document, rollout in self.written(Rollout):
            for stage in rollout.spec.stages:
                for key in looked_at(stage.nodes):
                    looking.setdefault(key, (document, rollout))
        written = {pair.primary: pair.secondary for pair in pairs if pair.secondary in looking}
        for document, model in declaring:
            for key in model.spec.labels:
                if (seen := key if key in looking else written.get(key)) is not None:
                    yield document.problem(("spec", "labels", key), "SelectsWhatItWrites", _selected(model, key, seen, *looking[seen]))

    def check_rollouts(self) -> Iterator[Problem]:
        """Names and selectors of rollouts and their stages."""
        for document, model in self.written(Rollout):
            if not is_subdomain(model.name):
                message = "a rollout's name is a DNS name: lower-case letters, digits, - and ., at most 253 bytes"
                yield document.problem(("metadata", "name"), "Invalid", message)
            if model.spec.clusters:
                yield from _match_labels_problems(document, ("spec", "clusters"), model.spec.clusters.match_labels)
            for number, stage in enumerate(model.spec.stages):
                path: Path = ("spec", "stages", number)
                yield from _selector_problems(document, (*path, "nodes"), stage.nodes)
                if stage.clusters:
                    yield from _match_labels_problems(document, (*path, "clusters"), stage.clusters.match_labels)

    def check_starts(self, policies: Policies) -> Iterator[Problem]:
        """Of the rollouts that start with a commit, one at most for each cluster."""
        clusters = {name: policies.cluster_labels.get(name, {}) for name in policies.clusters} or {"default": {}}
        first: dict[tuple[str, str], str] = {}
        for document, model in self.written(Rollout):
            spec = model.spec
            meant = [name for name, labels in clusters.items() if spec.clusters is None or spec.clusters.means(name, labels)]
            for cluster in meant if spec.start == "onCommit" else ():
                other = first.setdefault((cluster, spec.change), model.title)
                if other != model.title:
                    message = f"{other} starts with each commit in cluster {cluster} already: one of them has to be `start: manual`"
                    yield document.problem(("spec", "start"), "Invalid", message)
                    break

    def check_freezes(self) -> Iterator[Problem]:
        """Selectors of freezes."""
        for document, model in self.written(Freeze):
            if model.spec.clusters:
                yield from _match_labels_problems(document, ("spec", "clusters"), model.spec.clusters.match_labels)

    def check_conflicts(self, site: Site) -> Iterator[Problem]:
        """Policies that want different values at one priority, wherever the documents alone decide that both select a node."""
        clashing: dict[Clash, tuple[list[str], str]] = {}
        for where, among in _quarrels(site.policies):
            for clash, names in _clashing(among, site.nodes).items():
                clashing.setdefault(clash, (names, where))
        documents = {model.title: document for document, model in self.read}
        for clash, (names, where) in clashing.items():
            shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
            yield documents[clash.second].problem(("spec", "labels", clash.key), "Invalid", f"on {shown}{where}: {clash}")

    def needless_permissions(self) -> Iterator[Problem]:
        """Keys that LabelRules allows though nothing protects them: probably a slip."""
        for document, model in self.read:
            for number, key in enumerate(model.spec.allow_protected) if isinstance(model, LabelRules) else ():
                if key not in PROTECTED:
                    hint = did_you_mean(key, PROTECTED)
                    yield document.problem(("spec", "allowProtected", number), "NotSupported", f"{key} is not a protected key{hint}")

    def reconciled_keys(self) -> Iterator[Problem]:
        """Keys that a cloud or an autoscaler sets again: whoever declares them fights it."""
        for document, model in self.read:
            keys: list[tuple[Path, str]] = []
            if isinstance(model, NodeLabelPolicy):
                keys = [(("spec", "labels", key), key) for key in model.spec.labels]
            elif isinstance(model, GeneratedLabels):
                keys = [(("spec", "key"), model.spec.key)]
            for path, key in keys:
                if why := reconciled(key):
                    yield document.problem(path, "Reconciled", why)

    def unknown_clusters(self) -> Iterator[Problem]:
        """Policies that are for clusters, or for labels of clusters, that no document knows: probably a slip. A site that describes no
        cluster may name one nevertheless.
        """
        known = {model.name: model.metadata.labels for model in self.models(Cluster)}
        for document, model in self.written(NodeLabelPolicy):
            if (where := model.spec.where) is None:
                continue
            path: Path = ("spec", "clusters", "names") if where is model.spec.clusters else ("spec", "clusters")
            slips = [(number, name) for number, name in enumerate(where.names or ()) if known and name not in known]
            for number, name in slips:
                yield document.problem((*path, number), "NotFound", f"no Cluster document is named {name}{did_you_mean(name, known)}")
            if where.match_labels:
                flaws = list(_unknown_labels(document, where.match_labels, known.values()))
                yield from flaws
                if not (slips or flaws or any(where.means(name, labels) for name, labels in known.items())):
                    yield document.problem(("spec", "clusters"), "NotFound", f"no Cluster document has {where}")


def _unknown_labels(document: Document, wanted: Mapping[str, str], known: Collection[Mapping[str, str]]) -> Iterator[Problem]:
    """Labels that no cluster carries, one by one."""
    for key, value in wanted.items():
        values = {labels[key] for labels in known if key in labels}
        if value not in values:
            hint = did_you_mean(value, values) if values else did_you_mean(key, {other for labels in known for other in labels})
            message = f"no Cluster document has the label {key}={value}{hint}" if values else f"no Cluster document has a label {key}{hint}"
            yield document.problem(("spec", "clusters", "matchLabels", key), "NotFound", message)


def secondaries(document: Document, policy: NodeLabelPolicy, pairs: Iterable[AliasPair]) -> Iterator[Problem]:
    """Labels of a policy that are the secondary key of one of these pairs, in force: it follows its primary (docs/documents.md)."""
    primary = {pair.secondary: pair.primary for pair in pairs}
    for key in policy.spec.labels:
        if key in primary:
            message = f"{key} follows {primary[key]} (an alias pair): declare {primary[key]} instead"
            yield document.problem(("spec", "labels", key), "Forbidden", message)


def _selected(model: NodeLabelPolicy, key: str, seen: str, looking: Document, other: HullmarkDocument) -> str:
    who = "this policy itself" if other.title == model.title else f"{other.title} ({looking.file}:{looking.line})"
    alias = "" if key == seen else f", and {seen} follows {key} (an alias pair)"
    return f"{model.title} declares {key}, and {who} selects nodes by {seen}{alias}: declare another key, or select by names, tags or racks"


def _label_problems(document: Document, key: str, value: str, allowed: bool) -> Iterator[Problem]:
    path: Path = ("spec", "labels", key)
    for reason in (key_error(key), value_error(value)):
        if reason is not None:
            yield document.problem(path, "Invalid", reason)
    if key in PROTECTED and not allowed:
        message = f"{key} is protected: the kubelet and the cloud set it (`allowProtected: true` here, or LabelRules, can allow it)"
        yield document.problem(path, "Forbidden", message)


def _selector_problems(document: Document, path: Path, match: NodeMatch | None) -> Iterator[Problem]:
    if match is None:
        return
    for number, node in enumerate(match.names or ()):
        if not is_subdomain(node):
            message = f"{node[:80]!r} is not a valid node name: a DNS name of lower-case letters, digits, - and ., at most 253 bytes"
            yield document.problem((*path, "names", number), "Invalid", message)
    yield from _match_labels_problems(document, path, match.match_labels)
    for number, expression in enumerate(match.match_expressions or ()):
        if reason := key_error(expression.key):
            yield document.problem((*path, "matchExpressions", number, "key"), "Invalid", reason)


def _match_labels_problems(document: Document, path: Path, match_labels: Mapping[str, str] | None) -> Iterator[Problem]:
    for key, value in (match_labels or {}).items():
        if reason := key_error(key) or value_error(value):
            yield document.problem((*path, "matchLabels", key), "Invalid", reason)


_SHOWN = 3


def _quarrels(policies: Policies) -> Iterator[tuple[str, Policies]]:
    """For any cluster, and for each that policies tell apart: the policies that want different values for one key at one priority.
    With them where that is, for a person to read: nothing for any cluster.
    """
    contenders = list(_contenders(policies.all))
    named = {cluster for policy in contenders if policy.spec.where for cluster in policy.spec.where.names or ()}
    seen: set[tuple[str, ...]] = set()
    for cluster in (None, *sorted(named | policies.cluster_labels.keys())):
        among = list(_contenders([policy for policy in contenders if policies.is_for(policy, cluster)]))
        names = tuple(policy.name for policy in among)
        if among and names not in seen:
            seen.add(names)
            yield (f" of cluster {cluster}" if cluster else ""), Policies(among)


def _clashing(among: Policies, nodes: Mapping[str, DesignNode]) -> dict[Clash, list[str]]:
    """Each clash with the names of its nodes, or "any node"."""
    everywhere = [policy for policy in among.all if not policy.spec.nodes.restricts and policy.spec.exclude is None]
    anywhere = {clash: ["any node"] for clash in clashes_of(everywhere)}
    found: dict[Clash, list[str]] = {}
    for name, node in nodes.items():
        selecting = (policy for policy in among.candidates(name, node) if selects(policy, name, node, node.labels, open_=True))
        for clash in clashes_of(selecting):
            names = found.setdefault(clash, [])
            if names[-1:] != [name] and name not in names[-_SHOWN:]:
                names.append(name)
    return found | anywhere


def _contenders(policies: Iterable[NodeLabelPolicy]) -> Iterable[NodeLabelPolicy]:
    wanted: dict[tuple[str, int], dict[str, list[NodeLabelPolicy]]] = {}
    for policy in policies:
        for key, value in policy.spec.labels.items():
            wanted.setdefault((key, policy.spec.priority), {}).setdefault(value, []).append(policy)
    return {policy.name: policy for values in wanted.values() if len(values) > 1 for each in values.values() for policy in each}.values()
