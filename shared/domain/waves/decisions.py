"""Whether a cluster may take a version now: one decision, from the stages, what is known of every cluster, and the time. Pure.

A version qualifies for a stage when every cluster of the earlier stages that has the same profile and is of the same minor has run it or a
higher one, healthy, through its stage's soak. Clusters that failed count as far as the failure budget goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from shared.domain.clusters import ClusterMatch
from shared.domain.labels.places import place_of
from shared.domain.rollouts.progress import When
from shared.domain.versions.held import BEFORE_STAGE, Held
from shared.domain.versions.semver import Version, parse
from shared.domain.waves.sightings import CONTROL_PLANE, IMAGE, WORKERS, Judged, Known, judge

NAMED = 3
"""Clusters that a message names."""


@dataclass(frozen=True, slots=True)
class WaveStage:
    """One stage, as its document has it."""

    name: str
    clusters: ClusterMatch | None = None
    percent: float | None = None
    soak: timedelta = timedelta(0)
    before: bool = False
    after: bool = False
    in_flight: int | str | None = None


class Ask(NamedTuple):
    """What a person's word is about: that a version, of a profile and line, may enter a stage, or was good there."""

    stage: str
    when: When
    profile: str
    line: str
    version: str

    def __str__(self) -> str:
        return f"{self.profile} {self.line} {self.version}"


class Move(NamedTuple):
    """A line of a cluster that would go from one version to another."""

    line: str
    current: str
    to: str


@dataclass(frozen=True)
class Words:
    """What people have said, and what is under way because of it. Not started: nothing has been said yet."""

    started: bool = True
    paused: str = ""
    """Who paused it and why."""
    approved: frozenset[Ask] = frozenset()
    under_way: frozenset[str] = frozenset()
    """Clusters that were let go and are not through with it."""
    unseen: bool = False
    """Whether clusters are left that were never looked at."""


class _Case(NamedTuple):
    """What many clusters have in common that would take the same version."""

    stage: int
    profile: str
    line: str
    minors: frozenset[tuple[int, int]]
    to: str


Said = tuple[Held | None, Ask | None]
"""Why a version may not be taken, and the word for which it waits, where it waits for one."""


@dataclass
class Wave:
    """One rollout for versions at one moment. Made anew for every look, because it remembers what it has decided."""

    name: str
    stages: Sequence[WaveStage]
    known: Mapping[str, Known]
    """Every cluster that the rollout means, by its full name."""
    now: datetime
    failed: int | str = 0
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        self.stage_of = placed(self.stages, self.known)
        self.members: list[list[str]] = [[] for _ in self.stages]
        self._lines: dict[tuple[int, str, str], list[str]] = {}
        for cluster, stage in self.stage_of.items():
            self.members[stage].append(cluster)
            for line in self.known[cluster].lines:
                self._lines.setdefault((stage, self.known[cluster].profile, line), []).append(cluster)
        self._said: dict[_Case, Said] = {}
        self._rooms: dict[int, int | None] = {}

    def holds(self, cluster: str, move: Move) -> Held | None:
        """Why a cluster may not take a version now; None where it may, and for clusters that are none of the rollout's."""
        return self.judged(cluster, move)[0]

    def judged(self, cluster: str, move: Move) -> Said:
        """Why a cluster may not take a version now, and what a person has to say where that is what it waits for."""
        if cluster not in self.stage_of:
            return None, None
        if self.words.paused:
            return Held("RolloutPaused", f"rollout {self.name} is paused by {self.words.paused}"), None
        if not self.words.started:
            said = f"rollout {self.name} has not begun: `hullmark rollout start {self.name}`"
            return Held("WaitingForStage", said, gives_way=BEFORE_STAGE), None
        stage = self.stage_of[cluster]
        if stage and self.words.unseen:
            said = "the clusters of the earlier stages are being looked at for the first time"
            return Held("WaitingForStage", said, gives_way=BEFORE_STAGE), None
        case = _Case(stage, self.known[cluster].profile, move.line, _minors(move), move.to)
        if case not in self._said:
            self._said[case] = self._judged(case)
        held, ask = self._said[case]
        return (held, ask) if held else (self._no_room(cluster, stage), None)

    def room(self, stage: int) -> int | None:
        """How many more clusters of a stage may be let go now; None: all of them."""
        if stage not in self._rooms:
            self._rooms[stage] = self._room(stage)
        return self._rooms[stage]

    def lead(self, stage: int) -> timedelta:
        """How long before a version's expiry a stage begins to leave it, so that the later stages have time to look on."""
        return sum((about.soak + BETWEEN_STAGES for about in self.stages[stage:-1]), timedelta(0))

    def budget(self, stage: int) -> int:
        """How many clusters of a stage may fail with a version."""
        return _share(self.failed, len(self.members[stage]))

    def peers(self, stage: int, case: _Case) -> list[str]:
        """The clusters of a stage that show something about a version: the same profile and line, and the same minor."""
        there = self._lines.get((stage, case.profile, case.line), [])
        return there if not case.minors else [each for each in there if _ran(self.known[each], case.line, case.minors)]

    def _room(self, stage: int) -> int | None:
        most, members = self.stages[stage].in_flight, self.members[stage]
        if most is None:
            return None
        return max(0, max(1, _share(most, len(members))) - sum(cluster in self.words.under_way for cluster in members))

    def _judged(self, case: _Case) -> Said:
        """What the earlier stages and its own say about a version."""
        shown = False
        for number in range(case.stage):
            if not (peers := self.peers(number, case)):
                continue  # it shows nothing; those before it may
            shown = True
            if held := self._of_stage(number, peers, case):
                return held, None
            if self.stages[number].after and (ask := self._unsaid(number, "after", case)):
                return _awaiting(ask, f"a word that {case.to} was good in stage {ask.stage}"), ask
        ask = self._unsaid(case.stage, "before", case)
        if ask and case.stage and not shown:
            return _nothing_to_qualify(ask), ask
        if ask and self.stages[case.stage].before:
            return _awaiting(ask, f"a word that {case.to} may enter stage {ask.stage}"), ask
        return self._spent(case), None

    def _of_stage(self, stage: int, peers: Iterable[str], case: _Case) -> Held | None:
        """Why a version does not qualify in one earlier stage."""
        name, may, found = self.stages[stage].name, self.budget(stage), self._found(stage, peers, case)
        failures = _standing(found, "failed")
        if len(failures) > may or len(failures) == len(found):
            return Held("StageFailed", f"stage {name} failed with {case.to} ({may} of its clusters may): {_named(failures)}")
        if waiting := _standing(found, "waiting"):
            said = f"{len(waiting)} of {len(found)} clusters of stage {name} have not run {case.to} in good health: {_named(waiting)}"
            return Held("WaitingForStage", said, gives_way=BEFORE_STAGE)
        if soaking := _standing(found, "soaking"):
            until = max(each.until for each in soaking.values() if each.until)
            return Held("Soaking", f"{case.to} soaks in stage {name}: {_named(soaking)}", until, BEFORE_STAGE)
        return None

    def _found(self, stage: int, peers: Iterable[str], case: _Case) -> dict[str, Judged]:
        version, soak = parse(case.to), self.stages[stage].soak
        return {each: judge(self.known[each], case.line, version, soak, self.now) for each in peers}

    def _unsaid(self, stage: int, when: When, case: _Case) -> Ask | None:
        """The word that is missing, if it is."""
        ask = Ask(self.stages[stage].name, when, case.profile, case.line, case.to)
        return None if ask in self.words.approved else ask

    def _spent(self, case: _Case) -> Held | None:
        """Whether the stage itself has failed with a version more often than it may."""
        failures = _standing(self._found(case.stage, self.peers(case.stage, case), case), "failed")
        name, may = self.stages[case.stage].name, self.budget(case.stage)
        if len(failures) <= may:
            return None
        return Held("BudgetSpent", f"{len(failures)} clusters of stage {name} failed with {case.to}, and {may} may: {_named(failures)}")

    def _no_room(self, cluster: str, stage: int) -> Held | None:
        if cluster in self.words.under_way or self.room(stage) != 0:
            return None
        said = f"as many clusters of stage {self.stages[stage].name} are being updated as may be at a time ({self.stages[stage].in_flight})"
        return Held("WaitingForStage", said, gives_way=BEFORE_STAGE)


def _share(some: int | str, of: int) -> int:
    """A number, or a share of a stage, rounded down."""
    return some if isinstance(some, int) else int(of * Decimal(some.removesuffix("%")) / 100)


BETWEEN_STAGES = timedelta(days=7)
"""Besides the soak, what a stage is given to find a window in which all its clusters are updated."""


def placed(stages: Sequence[WaveStage], known: Mapping[str, Known]) -> dict[str, int]:
    """In which stage each cluster is: the first that means it, else the last. A share is at least one cluster."""
    found: dict[str, int] = {}
    for number, stage in enumerate(stages):
        meant = [name for name, each in known.items() if stage.clusters is None or means(stage.clusters, name, each.labels)]
        if stage.percent is not None and meant:
            meant = sorted(meant, key=place_of)[: max(1, int(len(meant) * stage.percent / 100))]
        for name in meant:
            found.setdefault(name, number)
    return {name: found.get(name, len(stages) - 1) for name in known}


def means(match: ClusterMatch, cluster: str, labels: Mapping[str, str]) -> bool:
    """Whether a cluster is meant: by its full name, by its name in its fleet, or by that of the Cluster document that leads to it."""
    fleet, _, name = cluster.rpartition(":")
    return any(match.means(each, labels) for each in (cluster, name, fleet) if each)


def _minors(move: Move) -> frozenset[tuple[int, int]]:
    if move.line.startswith(IMAGE):
        return frozenset()
    return frozenset((version.major, version.minor) for version in (parse(move.current), parse(move.to)))


def _ran(known: Known, line: str, minors: frozenset[tuple[int, int]]) -> bool:
    """Whether a line is, or was as far as that is known, of one of these minors."""
    versions = (parse(run.version) for run in known.lines[line])
    return any((version.major, version.minor) in minors for version in versions)


def _standing(found: Mapping[str, Judged], standing: str) -> dict[str, Judged]:
    return {cluster: judged for cluster, judged in found.items() if judged.standing == standing}


def _named(found: Mapping[str, Judged]) -> str:
    first = sorted(found)[:NAMED]
    more = f" and {len(found) - len(first)} more" if len(found) > len(first) else ""
    return "; ".join(f"{each} ({found[each].why})" if found[each].why else each for each in first) + more


def _awaiting(ask: Ask, what: str) -> Held:
    return Held("AwaitingApproval", f"waits for {what}: `hullmark rollout approve ID {ask.stage}`", gives_way=BEFORE_STAGE)


def _nothing_to_qualify(ask: Ask) -> Held:
    what = f"no cluster of an earlier stage has profile {ask.profile} and could show how {ask.version} is"
    return Held("NothingToQualify", f"{what}: `hullmark rollout approve ID {ask.stage}`", gives_way=BEFORE_STAGE)


def line_of(component: str, subject: str, image: str) -> str:
    """The line of a cluster that a decision is about."""
    if subject == "machineImage":
        return IMAGE + image
    return WORKERS if component.startswith("worker/") else CONTROL_PLANE


def version_or_none(text: str) -> Version | None:
    """A version that can be compared."""
    try:
        return parse(text)
    except ValueError:
        return None
