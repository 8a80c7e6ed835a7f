"""What one node needs: its declared labels and its aliases in one plan, against what the cluster shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.domain.documents.design import DesignNode
from shared.domain.labels.aliases import AliasPair, aliases_for, reconcile
from shared.domain.labels.policies import Declared, Policies, PolicyConflict, declare, diff
from shared.domain.nodes import ALIAS_OWNER, OWNER, Node
from shared.domain.outcomes import Changes, NodeTask, Outcome, OutcomeKind, held


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to write: the outcome is known already."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Write:
    """What to write, what a reader of the labels will see of it, and why: `reasons` has one for each key that changes."""

    task: NodeTask
    changes: Changes
    reasons: Mapping[str, str] = field(default_factory=dict)
    contested: Mapping[str, str] = field(default_factory=dict)
    """Keys that hold another manager's value now, with that manager: drift, or a first taking over."""


def plan_node(
    name: str, design: DesignNode | None, live: Node | None, policies: Policies, cluster: str, pairs: Iterable[AliasPair]
) -> Settled | Write:
    """Decide one node. `live` is None for a node that the cluster does not have."""
    declared = declare(name, design, live, policies, cluster)
    if isinstance(declared, PolicyConflict):
        return _settled(name, "failed", "PolicyConflict", declared.message)
    if live is None:
        where = f"the documents name {name}, cluster {cluster} has no such node" if design else f"cluster {cluster} has no node {name}"
        return _settled(name, "missing", "NodeNotFound", where)
    pairs = tuple(pairs)
    if true_already(declared, live, pairs):
        return _settled(name, "unchanged")
    if followers := [
        f"{pair.secondary} follows {pair.primary} on this cluster (an alias pair), {declared.sources.get(pair.secondary)} declares it too"
        for pair in pairs
        if pair.secondary in declared.labels
    ]:
        return _settled(name, "failed", "SecondaryDeclared", f"{'; '.join(followers)}: declare the primary key instead")
    change = diff(declared, live, policies.keep_domains)
    if change.refused:
        return _settled(name, "failed", "Conflict", f"{held(change.refused)}; its policy says onConflict: fail")
    aliases = aliases_for(
        live.labels,
        {key: value for key, value in declared.labels.items() if key not in change.skipped},
        pairs,
        dropped=change.remove,
        held=live.applied.get(ALIAS_OWNER, frozenset()),
        owners=live.owners,
    )
    if not change.write and not aliases.write:
        if not change.skipped:
            return _settled(name, "unchanged")
        return _settled(name, "skipped", "Conflict", f"{held(change.skipped)}; left alone (onConflict: skip)")
    removed = [key for key in change.remove if key not in aliases.hold]
    changes = Changes(set=dict(sorted({**change.set, **aliases.set}.items())), remove=sorted({*removed, *aliases.remove}))
    contested = {key: manager for key in changes.set if (manager := _other_holder(key, live))}
    note = "; ".join(f"{key} was {live.labels[key]!r} by {manager}" for key, manager in sorted(contested.items()))
    task = task_of(name, live.uid, declared, policies).model_copy(
        update={
            "changes": changes,
            "aliases": dict(aliases.hold) if aliases.write else None,
            "aliases_only": not change.write,
            "note": note,
        }
    )
    follows = dict.fromkeys(aliases.set, "follows its primary key") | dict.fromkeys(aliases.remove, "its primary key is gone")
    why = follows | dict(change.reasons)
    return Write(task, changes, {key: why[key] for key in (*changes.set, *changes.remove)}, contested)


def true_already(declared: Declared, live: Node, pairs: tuple[AliasPair, ...]) -> bool:
    """Whether a node is plainly as declared: most of a fleet is, and this is the short way to see it. False decides nothing."""
    labels = live.labels
    return (
        declared.prune == "owned"
        and ALIAS_OWNER not in live.applied
        and all(labels.get(key) == value for key, value in declared.labels.items())
        and declared.labels.keys() >= live.applied.get(OWNER, frozenset())
        and not any(pair.secondary in declared.labels for pair in pairs)
        and not reconcile(labels, pairs)
    )


def _other_holder(key: str, live: Node) -> str:
    """Who set this key to the value that it has now, if not we."""
    if key not in live.labels:
        return ""
    return ", ".join(manager for manager in live.owners.get(key, ()) if manager not in (OWNER, ALIAS_OWNER))


def task_of(name: str, uid: str, declared: Declared, policies: Policies) -> NodeTask:
    """The whole declared set of a node, as it travels."""
    return NodeTask(
        name=name,
        uid=uid,
        labels=dict(declared.labels),
        prune=declared.prune,
        on_conflict=dict(declared.on_conflict),
        keep=list(policies.keep_domains) if declared.prune == "all" else [],
    )


def _settled(name: str, outcome: OutcomeKind, reason: str = "", message: str = "") -> Settled:
    return Settled(Outcome(subject=name, outcome=outcome, reason=reason, message=message))
