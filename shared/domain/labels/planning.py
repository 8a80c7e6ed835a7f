"""Plan one node: its declared labels and its aliases together, against the node in the cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.domain.documents.design import DesignNode
from shared.domain.labels.aliases import AliasPair, AliasPlan, aliases_for, reconcile
from shared.domain.labels.policies import DeclaredLabels, Difference, Policies, PolicyConflict, declare, diff
from shared.domain.nodes import HULLMARK, Node, Owner, Taint
from shared.domain.outcomes import NOTHING_WRITTEN, STARTUP_TAINT, Before, Changes, NodeTask, Outcome, OutcomeKind, in_conflict

NOT_ADOPTED = "NotAdopted"
"""The reason of an outcome where a label under our field manager stays that this store never declared."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to write: the outcome is known already."""

    outcome: Outcome
    labelled: bool = False
    """Whether it is a node of the cluster that keeps labels which documents declare."""


@dataclass(frozen=True, slots=True)
class Write:
    """What to write, what a reader of the labels will see of it, and why: `reasons` has one for each key that changes."""

    task: NodeTask
    changes: Changes
    reasons: Mapping[str, str] = field(default_factory=dict)
    contested: Mapping[str, str] = field(default_factory=dict)
    """Keys that hold another manager's value now, with that manager: drift, or a first taking over."""
    before: Mapping[str, Before] = field(default_factory=dict)
    """What stands now under the keys that change; a key that the node does not have is not among them."""
    conflict: str = ""
    """Which declared keys stay as they are, because another manager holds them and a policy says `onConflict: skip`; in words."""
    kept: str = ""
    """Which keys stay although nothing declares them, because this store never did; in words."""
    tainted: str = ""
    """Which startup taints stay although the labels are there; in words."""

    @property
    def stays(self) -> tuple[str, str]:
        """Why something stays as it is: a reason and the words; both empty where nothing does."""
        return _stays(self.conflict, self.kept, self.tainted)

    def preview(self) -> Outcome:
        """What a dry run says of it: the outcome that the write would have, conflicts among them."""
        visible = bool(self.changes.set or self.changes.remove or self.changes.untaint)
        kind: OutcomeKind = "skipped" if self.conflict and not visible else "changed"
        words = "; ".join(filter(None, (NOTHING_WRITTEN, self.conflict, self.task.note)))
        reason = self.stays[0] or "DryRun"
        return Outcome(subject=self.task.name, outcome=kind, reason=reason, message=words, changes=self.changes)


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides beside the nodes themselves: a site's policies, for one cluster, with the alias pairs in force on it."""

    policies: Policies
    cluster: str
    pairs: tuple[AliasPair, ...]
    owner: Owner = HULLMARK
    """Under which field managers we write on that cluster."""
    revision: int = 0
    """Where the policies are from; 0 where no revision has them."""
    override: str = ""
    """The id of what a person set on the node in place of the documents' labels."""
    instead: DeclaredLabels | None = None
    """What the override says."""
    startup_taints: frozenset[Taint] = frozenset()
    """Every taint that counts as a startup taint, whether the node's release names it or not."""
    unreleased: bool = False
    """Whether documents have no say about the node yet: what we hold on it stays as it is."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One node of a plan: its design, the node itself (None where the cluster has none), what it should carry. Filters can look at it."""

    name: str
    design: DesignNode | None
    live: Node | None
    declared: DeclaredLabels | PolicyConflict
    kept: Mapping[str, str] = field(default_factory=dict)
    """What we hold on it that is not declared and never was, as far as this store knows: another Hullmark's, perhaps. It stays as it is."""

    @property
    def whole(self) -> DeclaredLabels | PolicyConflict:
        """What an Apply has to carry: the declared set, and what is kept."""
        if not self.kept or isinstance(self.declared, PolicyConflict):
            return self.declared
        return replace(self.declared, labels={**self.kept, **self.declared.labels})

    @property
    def labels(self) -> Mapping[str, str]:
        """The declared labels; none where policies contradict each other."""
        return self.declared.labels if isinstance(self.declared, DeclaredLabels) else {}

    @property
    def tags(self) -> Sequence[str]:
        """Of the design."""
        return self.design.tags if self.design else ()

    @property
    def rack(self) -> str:
        """Of the design."""
        return self.design.rack if self.design else ""

    @property
    def rack_labels(self) -> Mapping[str, str]:
        """Of the design."""
        return self.design.rack_labels if self.design else {}


def subject(name: str, design: DesignNode | None, live: Node | None, rules: Rules) -> Subject:
    """Gather what these rules declare for a node. The only place where a plan asks for it."""
    if rules.unreleased:
        return Subject(name, design, live, _as_held(live, rules.owner))
    return Subject(name, design, live, rules.instead or declare(name, design, live, rules.policies, rules.cluster, rules.owner))


def _as_held(live: Node | None, owner: Owner) -> DeclaredLabels:
    """What we hold on a node, as it is: declaring that changes nothing."""
    held = live.applied.get(owner.name, frozenset()) if live else frozenset()
    return DeclaredLabels({key: live.labels[key] for key in held if key in live.labels} if live else {}, {})


def plan_node(subject: Subject, rules: Rules) -> Settled | Write:
    """Decide one node: its declared labels and its aliases together."""
    name, live, declared = subject.name, subject.live, subject.whole
    if isinstance(declared, PolicyConflict):
        return _settled(name, "failed", "PolicyConflict", declared.message + waits(live, rules), labelled=live is not None)
    if live is None:
        where = f"cluster {rules.cluster} has no node {name}"
        if subject.design:
            where = f"the documents name {name}, but cluster {rules.cluster} has no such node"
        return _settled(name, "missing", "NodeNotFound", where)
    labelled = bool(subject.labels)
    untaint = _due(declared, live)
    if not untaint and in_sync(declared, live, rules.pairs, rules.owner):
        return _unchanged(subject, rules)
    if followers := _declared_secondaries(subject.labels, declared, rules.pairs):
        words = f"{'; '.join(followers)}: declare the primary key instead{waits(live, rules)}"
        return _settled(name, "failed", "SecondaryDeclared", words, labelled=True)
    change = diff(declared, live, rules.policies.keep_domains, rules.owner)
    if change.refused:
        return _settled(name, "failed", "Conflict", _conflict(change.refused, live, declared) + waits(live, rules), labelled=True)
    aliases = aliases_for(
        live.labels,
        {key: value for key, value in subject.labels.items() if key not in change.skipped},
        rules.pairs,
        dropped=change.remove,
        held=live.applied.get(rules.owner.aliases, frozenset()),
        owners=live.owners,
        manager=rules.owner.aliases,
    )
    conflict = _conflict(change.skipped, live, declared)
    if change.write or aliases.write or untaint:
        stays = not_adopted(subject, rules), tainted(subject, rules)
        return _write(task_of(subject, rules), live, change, aliases, rules.owner, conflict, *stays, untaint)
    if change.skipped:
        reason, words = _stays(conflict, not_adopted(subject, rules), tainted(subject, rules))
        return _settled(name, "skipped", reason, words, labelled=labelled)
    return _unchanged(subject, rules)


def _stays(conflict: str, kept: str, tainted: str) -> tuple[str, str]:
    """Why something stays as it is: the reason that comes first, and all the words."""
    reasons = {STARTUP_TAINT: tainted, "Conflict": conflict, NOT_ADOPTED: kept}
    told = {reason: words for reason, words in reasons.items() if words}
    return next(iter(told), ""), "; ".join(told.values())


def _due(declared: DeclaredLabels, live: Node) -> tuple[Taint, ...]:
    """The startup taints that go."""
    if not declared.until:
        return ()
    from shared.domain.labels.taints import due  # only where a document names one

    return due(declared.until, live)


def waits(live: Node | None, rules: Rules) -> str:
    """What to add to the words of a node that can't be brought in sync: it gets no pods meanwhile."""
    held = [str(taint) for taint in (live.taints if live else None) or () if taint in rules.startup_taints]
    return f"; until then its startup taint {', '.join(held)} stays" if held else ""


def tainted(subject: Subject, rules: Rules) -> str:
    """Which startup taints stay on a node although its labels are there, and why, in words."""
    if subject.live is None or not rules.startup_taints:
        return ""
    from shared.domain.labels.taints import stays  # only where a document names one

    wanted = subject.declared.until if isinstance(subject.declared, DeclaredLabels) else ()
    return stays(wanted, rules.startup_taints, subject.live)


def _unchanged(subject: Subject, rules: Rules) -> Settled:
    """Nothing to write; where something is kept that documents do not declare, it says so."""
    reason, words = _stays("", not_adopted(subject, rules), tainted(subject, rules))
    if words:
        return _settled(subject.name, "skipped", reason, words, labelled=bool(subject.labels))
    return _settled(subject.name, "unchanged", labelled=bool(subject.labels))


def not_adopted(subject: Subject, rules: Rules) -> str:
    """What is kept on a node, why, and how to take it away, in words."""
    if not subject.kept:
        return ""
    keys = ", ".join(f"{key}={value}" for key, value in sorted(subject.kept.items()))
    held = f"{rules.owner.name} holds {keys}, which no release of this store declared: left alone"
    return f"{held}; to remove it: `hullmark relabel {subject.name} --adopt` (`adopt` over HTTP and in messages)"


def _conflict(holders: Mapping[str, str], live: Node, declared: DeclaredLabels) -> str:
    return in_conflict(holders, live.labels, declared.says(holders))


def _write(
    whole: NodeTask,
    live: Node,
    change: Difference,
    aliases: AliasPlan,
    owner: Owner,
    conflict: str,
    kept: str,
    tainted: str,
    untaint: tuple[Taint, ...],
) -> Write:
    """What is to be written: the node's whole declared set, and of the aliases and labels those that differ."""
    set_ = dict(sorted({**change.set, **aliases.set}.items()))
    removed = sorted({*(key for key in change.remove if key not in aliases.hold), *aliases.remove})
    before = as_it_is((*set_, *removed), live)
    taken = {key: was for key, was in before.items() if any(manager not in owner for manager in was.holders)}
    changes = Changes(set=set_, remove=removed, from_=taken, untaint=list(map(str, untaint)))
    contested = {key: manager for key in set_ if (manager := _other_holder(key, live, owner))}
    replaced = "; ".join(f"{key} was {live.labels[key]!r} by {manager}" for key, manager in sorted(contested.items()))
    task = whole.model_copy(
        update={
            "changes": changes,
            "aliases": dict(aliases.hold) if aliases.write else None,
            "aliases_only": not change.write,
            "reason": _stays("", kept, tainted)[0],
            "note": "; ".join(filter(None, (tainted, kept, replaced))),
        }
    )
    follows = dict.fromkeys(aliases.set, "follows its primary key") | dict.fromkeys(aliases.remove, "its primary key is gone")
    why = follows | dict(change.reasons)
    return Write(task, changes, {key: why[key] for key in (*changes.set, *changes.remove)}, contested, before, conflict, kept, tainted)


def as_it_is(keys: Iterable[str], live: Node) -> dict[str, Before]:
    """Those of the keys that the node has, with their values and holders."""
    return {key: Before(value=live.labels[key], holders=list(live.owners.get(key, ()))) for key in keys if key in live.labels}


def plan_again(subject: Subject, rules: Rules) -> NodeTask:
    """A task for a node that was sent out before, in sync by now or not: another writer may be undoing it at this moment.

    One that can't be planned has its outcome in the task; one that is not there is reported as missing by whoever applies it.
    """
    decided = plan_node(subject, rules)
    if isinstance(decided, Write):
        return decided.task
    task = task_of(subject, rules)
    return task.model_copy(update={"settled": decided.outcome}) if decided.outcome.outcome == "failed" else task


def _declared_secondaries(labels: Mapping[str, str], declared: DeclaredLabels, pairs: tuple[AliasPair, ...]) -> list[str]:
    """Declared keys that are to follow others, in words."""
    return [
        f"{pair.secondary} follows {pair.primary} on this cluster (an alias pair), {declared.sources.get(pair.secondary)} declares it too"
        for pair in pairs
        if pair.secondary in labels
    ]


def in_sync(declared: DeclaredLabels, live: Node, pairs: tuple[AliasPair, ...], owner: Owner = HULLMARK) -> bool:
    """Whether a node is certainly in sync: a quick check that settles most of a fleet. False decides nothing."""
    labels = live.labels
    return (
        declared.prune == "owned"
        and owner.aliases not in live.applied
        and all(labels.get(key) == value for key, value in declared.labels.items())
        and declared.labels.keys() >= live.applied.get(owner.name, frozenset())
        and not any(pair.secondary in declared.labels for pair in pairs)
        and not reconcile(labels, pairs)
    )


def _other_holder(key: str, live: Node, owner: Owner) -> str:
    """Who set this key to the value that it has now, if not we."""
    if key not in live.labels:
        return ""
    return ", ".join(manager for manager in live.owners.get(key, ()) if manager not in owner)


def task_of(subject: Subject, rules: Rules) -> NodeTask:
    """The whole declared set of a node, as it travels; nothing but its name where policies contradict each other."""
    uid, declared = subject.live.uid if subject.live else "", subject.whole
    if isinstance(declared, PolicyConflict):
        return NodeTask(name=subject.name, revision=rules.revision, override=rules.override)
    return NodeTask(
        name=subject.name,
        revision=rules.revision,
        override=rules.override,
        uid=uid,
        labels=dict(declared.labels),
        prune=declared.prune,
        on_conflict=dict(declared.on_conflict),
        says=declared.says(declared.on_conflict),
        untaint=list(declared.until if subject.live is None or subject.live.taints is None else _due(declared, subject.live)),
        created=_created(subject, rules),
        keep=list(rules.policies.keep_domains) if declared.prune == "all" else [],
    )


def _created(subject: Subject, rules: Rules) -> str:
    """When the node was created, where it gets its first labels or loses a startup taint; else empty."""
    live, declared = subject.live, subject.declared
    if live is None or not isinstance(declared, DeclaredLabels):
        return ""
    first = bool(declared.labels) and rules.owner.name not in live.applied
    return live.created if first or _due(declared, live) else ""


def _settled(name: str, outcome: OutcomeKind, reason: str = "", message: str = "", *, labelled: bool = False) -> Settled:
    return Settled(Outcome(subject=name, outcome=outcome, reason=reason, message=message), labelled)
