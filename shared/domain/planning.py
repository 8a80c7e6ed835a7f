"""What one node needs: its declared labels and its aliases in one plan, against what the cluster shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.domain.aliases import AliasPair, aliases_for
from shared.domain.labels import Declared, Policies, PolicyConflict, declare, diff
from shared.domain.nodes import Node
from shared.domain.outcomes import Changes, NodeTask, Outcome
from shared.domain.site import DesignNode

ALIAS_MANAGER = "hullmark-aliases"


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


def plan_node(
    name: str, design: DesignNode | None, live: Node | None, policies: Policies, cluster: str, pairs: Iterable[AliasPair]
) -> Settled | Write:
    """Decide one node. `live` is None for a node that the cluster does not have."""
    declared = declare(name, design, live, policies, cluster)
    if isinstance(declared, PolicyConflict):
        return Settled(Outcome(subject=name, outcome="failed", reason="PolicyConflict", message=declared.message))
    if live is None:
        where = f"the documents name {name}, cluster {cluster} has no such node" if design else f"cluster {cluster} has no node {name}"
        return Settled(Outcome(subject=name, outcome="missing", reason="NodeNotFound", message=where))
    change = diff(declared, live, policies.keep_domains)
    aliases = aliases_for(
        live.labels,
        {key: value for key, value in declared.labels.items() if key not in change.skipped},
        pairs,
        dropped=change.remove,
        held=live.applied.get(ALIAS_MANAGER, frozenset()),
        owners=live.owners,
    )
    removed = [key for key in change.remove if key not in aliases.hold]
    changes = Changes(set=dict(sorted({**change.set, **aliases.set}.items())), remove=sorted({*removed, *aliases.remove}))
    if change.refused:
        return Settled(
            Outcome(subject=name, outcome="failed", reason="Conflict", message=held(change.refused) + "; its policy says onConflict: fail")
        )
    if not change.write and not aliases.write:
        if change.skipped:
            return Settled(
                Outcome(
                    subject=name, outcome="skipped", reason="Conflict", message=held(change.skipped) + "; left alone (onConflict: skip)"
                )
            )
        return Settled(Outcome(subject=name, outcome="unchanged"))
    task = task_of(name, live.uid, declared, policies).model_copy(
        update={"changes": changes, "aliases": dict(aliases.hold) if aliases.write else None}
    )
    return Write(task, changes, reasons(declared, changes, aliases.hold))


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


def reasons(declared: Declared, changes: Changes, aliases: Mapping[str, str]) -> dict[str, str]:
    """Why each key changes: which document declares it, which pair it follows, or that nothing declares it any more."""
    why = {key: f"declared by {declared.sources[key]}" if key in declared.sources else "follows its primary key" for key in changes.set}
    gone = "not declared, and a policy says prune: all" if declared.prune == "all" else "no longer declared"
    return why | {key: "no longer follows a primary key" if key in aliases else gone for key in changes.remove}


def held(managers: Mapping[str, str]) -> str:
    """Who holds what, in words."""
    return "; ".join(f"{key} is held by {manager} with another value" for key, manager in sorted(managers.items()))
