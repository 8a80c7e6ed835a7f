"""In which stage of a rollout each node of a cluster stands. Pure; resolved once, when the rollout begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shared.domain.documents.design import DesignNode
from shared.domain.documents.kinds import StageSpec
from shared.domain.labels.places import LAST, place_of
from shared.domain.labels.policies import looked_at, matches, own_labels
from shared.domain.nodes import HULLMARK, Node, Owner


class Candidate(NamedTuple):
    """A node as stages look at it: in the design, in the cluster, or in both."""

    name: str
    design: DesignNode | None = None
    live: Node | None = None


class Standing(NamedTuple):
    """Each node's stage, and the stages of nodes that come later: those whose place lies below a bound."""

    stages: Mapping[str, int]
    later: Sequence[tuple[int, int]]
    meant: Sequence[int]
    """How many nodes each stage's criteria mean."""


def resolve(
    stages: Sequence[StageSpec | None],
    nodes: Iterable[Candidate],
    owner: Owner = HULLMARK,
    reached_before: frozenset[str] = frozenset(),
) -> Standing:
    """Put every node into the first stage that means it; who is in none is in the last, which has no criteria.

    `stages`: of this cluster; None for one that is not for it. `reached_before`: nodes that a rollout whose place this one takes has
    reached: they are in the first stage, so that what is known to be shaky is looked at first.
    """
    candidates = {each.name: each for each in nodes}
    for stage in stages:
        for name in (stage.nodes.names or ()) if stage else ():
            candidates.setdefault(name, Candidate(name))
    meant = [_meant(stage, candidates.values(), owner) if stage else {} for stage in stages]
    last = len(stages) - 1
    found = {
        name: 0 if name in reached_before else next((number for number, names in enumerate(meant) if name in names), last)
        for name in candidates
    }
    later = [
        (number, (max(names.values(), default=-1) + 1) if stage.percent else LAST)
        for number, (stage, names) in enumerate(zip(stages, meant, strict=True))
        if stage and not stage.nodes.restricts
    ]
    return Standing(found, later, [len(names) for names in meant])


def _meant(stage: StageSpec, candidates: Iterable[Candidate], owner: Owner) -> dict[str, int]:
    """The nodes that a stage means, with their places."""
    keys = frozenset(looked_at(stage.nodes))
    places = {
        each.name: place_of(each.name)
        for each in candidates
        if matches(stage.nodes, each.name, each.design, own_labels(each.design, each.live, keys, owner))
    }
    if stage.percent is None or not places:
        return places
    some = max(1, int(len(places) * stage.percent / 100))
    return dict(sorted(places.items(), key=lambda item: item[1])[:some])
