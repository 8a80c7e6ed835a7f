"""Alias pairs: two label keys that say the same thing, kept equal on every node (KEP-793; docs/labels.md, "Aliases").

The rules are those of reconcileNodeLabels in Kubernetes' node lifecycle controller: exact keys, never a prefix; the labels are read
once and every pair looks at them as they were; a missing primary means the pair is left alone; an empty string is a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from shared.domain.cluster_versions import NEWEST as NEWEST
from shared.domain.cluster_versions import ClusterVersion
from shared.domain.cluster_versions import cluster_version as cluster_version
from shared.domain.documents.kinds import AliasPair as AliasPair
from shared.domain.keys import PROTECTED, key_error
from shared.domain.nodes import ALIAS_OWNER

KEP_793: tuple[AliasPair, ...] = (
    AliasPair("beta.kubernetes.io/os", "kubernetes.io/os", ensure_secondary_exists=True, before="1.18"),
    AliasPair("beta.kubernetes.io/arch", "kubernetes.io/arch", ensure_secondary_exists=True, before="1.18"),
    AliasPair("kubernetes.io/os", "beta.kubernetes.io/os", from_="1.18"),
    AliasPair("kubernetes.io/arch", "beta.kubernetes.io/arch", from_="1.18"),
)
"""The pairs that hold where no LabelAliases document declares others. Until 1.17 the beta keys were the primaries and the GA keys followed;
from 1.18 the GA keys are the primaries, and a beta key that somebody removed stays removed."""


def oldest(versions: Iterable[str]) -> str:
    """The oldest of these versions; empty, which counts as the newest, where none is told. Stands for a server that tells none."""
    return min(filter(None, versions), key=cluster_version, default="")


def in_force(pairs: Iterable[AliasPair], version: str) -> tuple[AliasPair, ...]:
    """Return the pairs that hold on a cluster of this version, in their order."""
    return _at(pairs, cluster_version(version))


def _at(pairs: Iterable[AliasPair], version: ClusterVersion) -> tuple[AliasPair, ...]:
    return tuple(
        pair
        for pair in pairs
        if (not pair.from_ or cluster_version(pair.from_) <= version) and (not pair.before or version < cluster_version(pair.before))
    )


def reconcile(labels: Mapping[str, str], pairs: Iterable[AliasPair]) -> dict[str, str]:
    """Return what to set so that the secondaries follow: `{secondary: value}`, empty when all is well.

    One pass: in a chain (`a` to `b`, `b` to `c`) `c` gets the value that `b` has now.
    """
    wanted: dict[str, str] = {}
    for pair in pairs:
        value = labels.get(pair.primary)
        if value is None:
            continue
        there = labels.get(pair.secondary)
        if there != value if there is not None else pair.ensure_secondary_exists:
            wanted[pair.secondary] = value
    return wanted


@dataclass(frozen=True, slots=True)
class AliasPlan:
    """What the aliases mean for one node, beside its declared labels.

    `hold`: the whole set for one forced Apply under the manager of aliases (an Apply that leaves a key out gives it up).
    `set` and `remove`: what a reader of the node's labels sees of it. `write`: whether the Apply is needed at all.
    The declared plan's own `remove` must leave out the keys of `hold`: with the aliases applied they stay.
    """

    hold: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    write: bool = False


def aliases_for(
    observed: Mapping[str, str],
    declared: Mapping[str, str],
    pairs: Iterable[AliasPair],
    *,
    dropped: Iterable[str] = (),
    held: Iterable[str] = (),
    owners: Mapping[str, Sequence[str]] | None = None,
    manager: str = ALIAS_OWNER,
) -> AliasPlan:
    """Decide the aliases of one node together with its declared labels, in one plan.

    `observed`: the node's labels now. `declared`: the labels about to be applied. `dropped`: keys that this apply takes away.
    `pairs`: those in force. `held`: keys that the manager holds by Apply now (`Node.applied`); `owners`: every holder of a key
    (`Node.owners`). For aliases alone `declared` is empty.

    The manager holds the secondary of every pair in force whose primary is there, except an absent one that need not exist. It gives
    up the others, so that a secondary that only we made goes with its pair or its primary, and one that others hold too stays. Two
    kinds of keys it keeps with the value they have, because to give up a key that nobody else holds is to delete it: the primary of
    a pair in force (1.17 to 1.18 turns `kubernetes.io/os` from secondary to primary), and the protected keys.
    """
    pairs, held, owners = tuple(pairs), frozenset(held), owners or {}
    after = _after(observed, declared, frozenset(dropped), held.union(_keys_of(pairs)))
    changes = reconcile(after, pairs)
    hold = {
        pair.secondary: after[pair.primary]
        for pair in pairs
        if pair.primary in after and (pair.secondary in after or pair.secondary in changes)
    }
    if held:
        kept = PROTECTED.union(pair.primary for pair in pairs)
        hold |= {key: after[key] for key in held - hold.keys() if key in kept and key in after}
    given_up = held - hold.keys()
    return AliasPlan(
        hold=hold,
        set={key: value for key, value in hold.items() if observed.get(key) != value},
        remove=tuple(sorted(key for key in given_up if key in observed and key not in declared and set(owners.get(key, ())) <= {manager})),
        write=bool(given_up) or any(after.get(key) != value for key, value in hold.items()),
    )


@lru_cache(maxsize=64)
def _keys_of(pairs: tuple[AliasPair, ...]) -> frozenset[str]:
    return frozenset(key for pair in pairs for key in (pair.primary, pair.secondary))


def _after(observed: Mapping[str, str], declared: Mapping[str, str], dropped: frozenset[str], keys: Iterable[str]) -> dict[str, str]:
    """What these keys will be once the declared labels are applied; only they matter here, and a node has many others."""
    after = {}
    for key in keys:
        value = declared.get(key)
        if value is None and key not in dropped:
            value = observed.get(key)
        if value is not None:
            after[key] = value
    return after


@dataclass(frozen=True, slots=True)
class PairProblem:
    """One thing wrong with declared pairs: which pair (from 0), which field of it, a field error word, and what to do."""

    index: int
    field: str
    type: str
    message: str


def check_pairs(pairs: Sequence[AliasPair]) -> list[PairProblem]:
    """Return every reason to refuse these pairs: keys and versions that are none, empty ranges, a key that follows itself, and at any
    one version two primaries for one secondary or a cycle.
    """
    problems = [problem for index, pair in enumerate(pairs) for problem in _pair_alone(index, pair)]
    bounds = {cluster_version(bound) for pair in pairs for bound in (pair.from_, pair.before) if bound} | {(0, 0, 0)}
    clashes: dict[tuple[int, str], PairProblem] = {}
    for version in sorted(bounds):  # between two bounds nothing changes, so one look at each bound sees every version
        for problem in _together(pairs, version):
            clashes.setdefault((problem.index, problem.type), problem)
    return problems + [clashes[key] for key in sorted(clashes)]


def _pair_alone(index: int, pair: AliasPair) -> Iterable[PairProblem]:
    for name, key in (("primary", pair.primary), ("secondary", pair.secondary)):
        if reason := key_error(key):
            yield PairProblem(index, name, "Invalid", f"{key!r} is not a label key: {reason}")
    for name, bound in (("from", pair.from_), ("before", pair.before)):
        if bound and cluster_version(bound) == NEWEST:
            yield PairProblem(index, name, "Invalid", f"{bound!r} is not a cluster version: write it as '1.18' or '1.18.2'")
    if pair.primary == pair.secondary:
        yield PairProblem(index, "secondary", "Invalid", f"{pair.primary} would follow itself: name two different keys")
    if pair.from_ and pair.before and cluster_version(pair.from_) >= cluster_version(pair.before):
        yield PairProblem(index, "before", "Invalid", f"no version is from {pair.from_} and before {pair.before}: it would never hold")


def _together(pairs: Sequence[AliasPair], version: ClusterVersion) -> Iterable[PairProblem]:
    """Look at the pairs in force at one version: every secondary once, and no way round from a key to itself."""
    upward: dict[str, str] = {}
    at = f"{version[0]}.{version[1]}" if version > (0, 0, 0) else "the oldest versions"
    holding = set(_at(pairs, version))
    for index, pair in enumerate(pairs):
        if pair not in holding or pair.primary == pair.secondary:
            continue
        if pair.secondary in upward:
            other = upward[pair.secondary]
            yield PairProblem(
                index,
                "secondary",
                "Duplicate",
                f"{pair.secondary} would follow both {other} and {pair.primary} at {at}: keep one, or bound their versions",
            )
            continue
        upward[pair.secondary] = pair.primary
        way = [pair.secondary]
        while way[-1] in upward and upward[way[-1]] not in way:
            way.append(upward[way[-1]])
        if upward.get(way[-1]) == pair.secondary:
            round_trip = " follows ".join([*way, pair.secondary])
            yield PairProblem(index, "secondary", "Invalid", f"a cycle at {at}: {round_trip}; take one pair out, or bound their versions")
            del upward[pair.secondary]
