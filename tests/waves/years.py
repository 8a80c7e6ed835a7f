"""A fleet through years of simulated time: versions come and expire, freezes, pauses, bad clusters; and what must hold of every move.

What must hold is judged by what really happened to each cluster, which this file keeps for itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from msgspec import structs

from shared.domain.documents.kinds import FreezeSpec, RolloutSpec
from shared.domain.labels.places import place_of
from shared.domain.rollouts.progress import Progress, Said
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.classification import Offered, Stage
from shared.domain.versions.clusters import FleetCluster, Health, Pool
from shared.domain.versions.decisions import CONTROL_PLANE, Decision, Stuck, Update, VersionRules
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.freezes import Freezes, under
from shared.domain.versions.holding import is_forced
from shared.domain.versions.plans import ClusterPlan, Planner, going
from shared.domain.versions.profiles import Gardener
from shared.domain.versions.semver import parse
from shared.domain.versions.windows import parse_window
from shared.domain.waves.decisions import Wave
from shared.domain.waves.sightings import Known, look_at, seen
from shared.domain.waves.staging import Waves
from shared.domain.waves.standing import Wanted, asked, let_go, wave

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SLOTS = (2, 22)
"""Hours at which windows open."""
SOAK = {"dev": timedelta(days=2), "staging": timedelta(days=3)}
GIVES_WAY = {"WaitingForStage", "Soaking", "AwaitingApproval", "NothingToQualify"}
"""Holds that must not keep an expired version."""
STAGES = [
    {"name": "dev", "clusters": {"matchLabels": {"env": "dev"}}, "soak": "2d"},
    {"name": "staging", "clusters": {"matchLabels": {"env": "staging"}}, "soak": "3d", "approval": "after", "maxInFlight": "50%"},
]
SPEC = RolloutSpec.model_validate({"change": "versions", "stages": STAGES, "stopWhen": {"failed": "20%"}})


def profile(name: str, born: Mapping[str, datetime]) -> CloudProfile:
    """Every version from its birth on, for 14 months."""
    return CloudProfile(name, tuple(Offered(version, lifecycle=_life(at)) for version, at in born.items()))


def _life(born: datetime) -> tuple[Stage, ...]:
    return Stage("supported", born), Stage("expired", born + 420 * DAY)


def births(chance: random.Random, years: int) -> dict[str, datetime]:
    """A new minor every four months, a patch of it every four to nine weeks."""
    born: dict[str, datetime] = {}
    for minor in range(28, 28 + 4 + years * 3):
        at = BEGIN - 480 * DAY + (minor - 28) * 120 * DAY
        for patch in range(7):
            born[f"1.{minor}.{patch}"] = at
            at += chance.randint(28, 63) * DAY
    return born


@dataclass
class Truth:
    """What really happened to one cluster."""

    env: str
    ran: list[tuple[str, datetime]] = field(default_factory=list)
    bad: list[tuple[datetime, datetime]] = field(default_factory=list)

    def version(self) -> str:
        return self.ran[-1][0]

    def is_bad(self, now: datetime) -> bool:
        return any(begin <= now < end for begin, end in self.bad)

    def proved(self, version: str, soak: timedelta, now: datetime) -> bool:
        """Whether it has run this version or a higher one, without a bad day, through the soak."""
        ends = [at for _, at in self.ran[1:]] + [now]
        return any(
            self._longest(begin, end) >= soak
            for (ran, begin), end in zip(self.ran, ends, strict=True)
            if parse(ran).key >= parse(version).key
        )

    def _longest(self, begin: datetime, end: datetime) -> timedelta:
        best, at = timedelta(0), begin
        for bad, good in sorted(self.bad):
            if good <= at or bad >= end:
                continue
            best, at = max(best, bad - at), max(at, good)
        return max(best, end - at)

    def minors(self) -> set[tuple[int, int]]:
        return {parse(version).core[:2] for version, _ in self.ran[-4:]}


class Years:
    """The simulation. `moved` counts what went, by why."""

    def __init__(self, seed: int, clusters: int, years: int = 3, every: int = 1) -> None:
        self.every = every
        self.chance = random.Random(seed)
        self.years = years
        self.born = births(self.chance, years)
        self.now = BEGIN
        self.truth: dict[str, Truth] = {}
        self.clusters: dict[str, FleetCluster] = {}
        self.known: dict[str, Known] = {}
        self.progress: Progress | None = None
        self.moved: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        self.pauses = [(BEGIN + 200 * DAY, BEGIN + 230 * DAY), (BEGIN + 700 * DAY, BEGIN + 720 * DAY)]
        self.freezes = {f"freeze-{number}": self._freeze(number) for number in range(years * 3)}
        for number in range(clusters):
            self._cluster(number)
        self._waves, frozen = Waves(), Freezes(self.freezes)
        profiles = {name: profile(name, self.born) for name in ("p0", "p1")}
        self._planner = Planner(
            FleetView({"": Gardener(profiles, {}, self.clusters)}),
            lambda cluster, decision, now: [*frozen.holds(cluster, now), *self._waves.holding(cluster, decision, now)],
            self._staged,
        )

    def _freeze(self, number: int) -> FreezeSpec:
        begin = BEGIN + timedelta(days=self.chance.randrange(self.years * 365))
        document = {
            "from": begin.isoformat(),
            "until": (begin + self.chance.randint(3, 20) * DAY).isoformat(),
            "reason": "closing",
            "allowForced": number % 3 == 0,
        }
        only = {"clusters": {"matchLabels": {"env": "prod"}}} if number % 2 else {}
        return FreezeSpec.model_validate(document | only)

    def _cluster(self, number: int) -> None:
        env = self.chance.choices(["dev", "staging", "prod"], [2, 3, 10])[0]
        name = f"ns/c{number}"
        there = [version for version, at in self.born.items() if BEGIN - 250 * DAY <= at <= BEGIN - 60 * DAY]
        version = self.chance.choice(there)
        pools = (Pool("a", "m", kubernetes=version),) if number % 3 == 0 else ()
        hour = self.chance.choice(SLOTS)
        window = parse_window(f"{hour:02}0000+0000", f"{hour + 1:02}3000+0000")
        auto = env != "prod" or self.chance.random() < 0.8
        cluster = FleetCluster(name, version, f"p{number % 2}", pools=pools, auto_kubernetes=auto, window=window, labels={"env": env})
        guards = [Freezes(self.freezes)]
        self.clusters[name] = under(cluster, guards)
        self.truth[name] = Truth(env, [(version, BEGIN)])

    def _staged(self, cluster: FleetCluster, decisions: Sequence[Decision], rules: VersionRules, now: datetime) -> Sequence[Decision]:
        return self._waves.staged(cluster, decisions, rules, now)

    # --- time

    def run(self) -> None:
        """All of it: two looks on every day that is looked at."""
        for day in range(0, self.years * 365, self.every):
            for hour in SLOTS:
                self.now = BEGIN + day * DAY + timedelta(hours=hour, minutes=10)
                self._look()
                self._people()
                self._slot(hour)

    def _look(self) -> None:
        for name, cluster in self.clusters.items():
            healthy = not self.truth[name].is_bad(self.now)
            observed = replace(cluster, health=Health(healthy, "" if healthy else "APIServerAvailable is False"))
            self.known[name] = seen(self.known.get(name), look_at(observed, cluster.labels), self.now)

    def _people(self) -> None:
        """Somebody starts the rollout, pauses it at times, and answers most questions after some days."""
        by = Said("start", "ada", self.now)
        if self.progress is None:
            self.progress = Progress("r", "safe", 1, by, by, [], change="versions")
        paused = any(begin <= self.now < end for begin, end in self.pauses)
        self.progress = structs.replace(self.progress, phase="paused" if paused else "running")
        answered = [word for word in self.progress.questions if self.now - word.at > 3 * DAY and place_of(word.version) % 7]
        rest = [word for word in self.progress.questions if word not in answered]
        self.progress = structs.replace(self.progress, questions=rest, words=[*self.progress.words, *answered])

    def _slot(self, hour: int) -> None:
        assert self.progress
        about = wave("safe", SPEC, self.progress, self.known, self.now)
        self._waves = Waves([about])
        mine = [each for each in self.clusters.values() if each.window.begin == hour * 3600]
        plans = list(self._planner.plan(self.now, mine))
        openable = [plan for plan in plans if plan.open]
        for plan in openable:
            self._judge_what_stays(plan)
        wanted = [Wanted(plan.cluster.full_name, _moves(plan), _pressing(plan)) for plan in openable if going(plan.decisions)]
        after = let_go(self.progress, about, wanted, Said("open", "ada", self.now))
        for plan in openable:
            if going(plan.decisions) and after.phase == "running" and plan.cluster.full_name in after.openings:
                self._move(plan, about)
        self.progress = asked(after, self._waves.asks, self.now)

    def _move(self, plan: ClusterPlan, about: Wave) -> None:
        updates = going(plan.decisions)
        for decision in updates:
            self._judge(plan.cluster, decision, about)
        name = plan.cluster.full_name
        moves: dict[tuple[str, str], str] = {
            (each.component, each.subject): each.outcome.to for each in updates if isinstance(each.outcome, Update)
        }
        cluster = self.clusters[name] = self.clusters[name].with_versions(moves)
        for pool in cluster.pools:
            assert parse(pool.kubernetes or "").key <= parse(cluster.kubernetes or "").key, f"{name}: a pool above its control plane"
        truth = self.truth[name]
        if cluster.kubernetes != truth.version():
            truth.ran.append((cluster.kubernetes or "", self.now))
            if self.chance.random() < 0.04:  # the update does it no good, for some days
                truth.bad.append((self.now + timedelta(minutes=1), self.now + self.chance.randint(1, 12) * DAY))

    # --- what must hold

    def _judge_what_stays(self, plan: ClusterPlan) -> None:
        """Nobody runs an expired version without being forced off it, or a reason that says why not."""
        for decision in plan.decisions:
            if decision.held:
                self.held[decision.held.reason] += 1
            expired = decision.expires is not None and decision.expires < self.now
            if not expired or (decision.changes and decision.held is None):
                continue
            assert decision.held or isinstance(decision.outcome, Stuck), (
                f"{plan.cluster.id} {decision}: expired, and nobody says why it stays"
            )
            assert not decision.held or decision.held.reason not in GIVES_WAY, f"{plan.cluster.id} {decision}"

    def _judge(self, cluster: FleetCluster, decision: Decision, about: Wave) -> None:
        assert isinstance(decision.outcome, Update)
        old, new = parse(decision.current or ""), parse(decision.outcome.to)
        assert new.key > old.key, decision
        assert new.major == old.major, decision
        assert new.minor - old.minor <= 1, f"a minor is skipped: {decision}"
        assert not any(begin <= self.now < end for begin, end in self.pauses), f"it was paused: {decision}"
        for freeze in self.freezes.values():
            held = freeze.span[0] <= self.now < freeze.span[1] and (
                freeze.clusters is None or freeze.clusters.means(cluster.id, cluster.labels)
            )
            assert not held or (freeze.allow_forced and is_forced(decision)), f"moved in a freeze: {cluster.id} {decision}"
        code = decision.waived.reason if decision.waived else "in its stage"
        self.moved[code] += 1
        if code != "ExpiryBeforeStage" and decision.component == CONTROL_PLANE:
            self._judge_stage(cluster, decision, about)

    def _judge_stage(self, cluster: FleetCluster, decision: Decision, about: Wave) -> None:
        """Every earlier cluster of the profile and minor has run it, or a higher one, healthy through the soak, up to the budget."""
        assert isinstance(decision.outcome, Update)
        env, to = self.truth[cluster.id].env, decision.outcome.to
        minors = {parse(decision.current or "").core[:2], parse(to).core[:2]}
        earlier = ["dev", "staging"][: ["dev", "staging", "prod"].index(env)]
        shown = 0
        for stage in earlier:
            size = sum(truth.env == stage for truth in self.truth.values())
            peers = [name for name in self._of(stage, cluster.profile) if self.truth[name].minors() & minors]
            lacking = [name for name in peers if not self.truth[name].proved(to, SOAK[stage], self.now)]
            assert len(lacking) <= size * 20 // 100, f"{cluster.id} goes to {to} before {lacking} of {stage} have shown it"
            assert not peers or len(lacking) < len(peers), f"{cluster.id} goes to {to}, which nobody of {stage} runs"
            shown += len(peers)
            if peers and stage == "staging":
                assert self._said("staging", "after", cluster.profile, to), f"{cluster.id} goes to {to} without a word"
        stage_name = "staging" if env == "staging" else "rest"
        assert not earlier or shown or self._said(stage_name, "before", cluster.profile, to), f"{cluster.id}: nothing qualified {to}"

    def _of(self, env: str, profile: str) -> Iterator[str]:
        return (name for name, each in self.clusters.items() if self.truth[name].env == env and each.profile == profile)

    def _said(self, stage: str, when: str, profile: str, version: str) -> bool:
        assert self.progress
        return (stage, when, profile, "controlPlane", version) in {word.about for word in self.progress.words}


def _moves(plan: ClusterPlan) -> dict[str, str]:
    found = {"controlPlane" if each.component == CONTROL_PLANE else "workers": each.outcome for each in going(plan.decisions)}
    return {line: outcome.to for line, outcome in found.items() if isinstance(outcome, Update)}


def _pressing(plan: ClusterPlan) -> bool:
    return any(each.waived and each.waived.reason == "ExpiryBeforeStage" for each in going(plan.decisions))
