"""The one decision, in a careless world: whatever happens, stages open in order and within their budget, and every wait has a reason."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from msgspec import structs

from shared.domain.documents.kinds import REST, NodeMatch, StageSpec
from shared.domain.holds import Hold
from shared.domain.labels.places import place_of
from shared.domain.rollouts.decisions import Done, Facts, Open, Stop, Wait, after, budget, decide
from shared.domain.rollouts.places import Candidate, resolve
from shared.domain.rollouts.progress import Approval, Batch, Fact, Phase, Progress, Said, Stage, Verb, WrongPhase, approved, given
from tests.faults.tally import EVERYTHING

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ROLLOUTS = 10_000 if EVERYTHING else 500
"""`make faults` lets all of them happen."""


def a_progress(*stages: Stage, nodes: dict[str, list[int]], failed: int | str = 0) -> Progress:
    said = Said("start", "ada", NOW)
    return Progress(
        id="r",
        name="careful",
        revision=2,
        said=said,
        started=said,
        stages=list(stages),
        failed=failed,
        clusters=dict.fromkeys(nodes, 0),
        placed=nodes,
        meant=nodes,
    )


def opened(rollout: Progress, *batches: tuple[int, str, int, int]) -> Progress:
    made = [Batch(*batch, action=f"a{number}", at=NOW) for number, batch in enumerate(batches)]
    return structs.replace(rollout, batches=made)


def ended(failed: int = 0, **fact: object) -> Fact:
    return Fact(ended=NOW, failed=failed, **fact)  # type: ignore[arg-type]


# --- one sentence each


def test_a_share_of_failures_is_of_the_stage_and_rounds_down() -> None:
    rollout = a_progress(Stage("canary"), Stage(REST), nodes={"c": [19, 81]}, failed="10%")
    assert (budget(rollout, 0), budget(rollout, 1)) == (1, 8)


@pytest.mark.parametrize(("failed", "stops"), [(1, False), (2, True)])
def test_one_failure_more_than_the_budget_stops_it(failed: int, stops: bool) -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"c": [5, 5]}, failed=1), (0, "c", 0, 5))
    decision = decide(rollout, Facts({"a0": ended(failed)}), NOW)
    assert isinstance(decision, Stop) is stops


@pytest.mark.parametrize(("reason", "what"), [("Frozen", Stop), ("Paused", Wait)])
def test_what_is_out_stops_it_under_a_freeze_and_waits_under_a_pause_of_every_write(
    reason: Literal["Frozen", "Paused"], what: type[Stop | Wait]
) -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"c": [5, 5]}), (0, "c", 0, 5))
    held = Hold(reason, "not now", NOW)
    assert isinstance(decide(rollout, Facts({"a0": ended(failed=1)}, held), NOW), what)
    assert decide(rollout, Facts({"a0": ended()}, held), NOW) == Wait(reason, "not now", NOW)


def test_a_stage_opens_only_when_every_batch_of_the_one_before_it_has_ended() -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"a": [1, 5], "b": [1, 5]}), (0, "a", 0, 1), (0, "b", 0, 1))
    waits = decide(rollout, Facts({"a0": ended()}), NOW + timedelta(days=1))
    assert isinstance(waits, Wait)
    assert waits.reason == "BatchRunning"
    assert decide(rollout, Facts({"a0": ended(), "a1": ended()}), NOW) == Open(1, "a", 0, 5)


def test_missing_nodes_are_no_failures() -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"c": [5, 5]}), (0, "c", 0, 5))
    assert decide(rollout, Facts({"a0": ended(missing=4)}), NOW) == Open(1, "c", 0, 5)


def test_a_cluster_that_does_not_answer_holds_nobody_else_up() -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"a": [1, 5], "b": [1, 5]}), (0, "a", 0, 1), (0, "b", 0, 1))
    facts = Facts({"a0": ended(1, behind=True, reason="Unavailable"), "a1": ended()})
    assert decide(rollout, facts, NOW) == Open(1, "a", 0, 5)


def test_a_stage_of_which_no_cluster_answered_shows_nothing() -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"a": [1, 5]}), (0, "a", 0, 1))
    decision = decide(rollout, Facts({"a0": ended(1, behind=True, reason="Unavailable")}), NOW)
    assert isinstance(decision, Wait)
    assert (decision.reason, bool(decision.who)) == ("ClusterBehind", True)


def test_a_batch_that_was_blocked_stops_it_with_the_reason_of_that() -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"c": [5, 5]}, failed=5), (0, "c", 0, 5))
    decision = decide(rollout, Facts({"a0": ended(reason="TooManyRemovals", message="too many")}), NOW)
    assert decision == Stop("TooManyRemovals", "stage canary: too many")


def test_an_approval_that_nobody_gives_for_30_days_stops_it() -> None:
    rollout = a_progress(Stage("canary", before=True), Stage(REST), nodes={"c": [1, 1]})
    waits = decide(rollout, Facts(), NOW + timedelta(days=29))
    assert isinstance(waits, Wait)
    assert waits.until == NOW + timedelta(days=30)
    assert isinstance(decide(rollout, Facts(), NOW + timedelta(days=30)), Stop)


def test_a_clock_that_goes_back_opens_nothing_early() -> None:
    rollout = opened(a_progress(Stage("canary", soak=600), Stage(REST), nodes={"c": [1, 1]}), (0, "c", 0, 1))
    assert isinstance(decide(rollout, Facts({"a0": ended()}), NOW - timedelta(hours=5)), Wait)


def test_a_larger_percentage_contains_a_smaller_one() -> None:
    names = [f"n{number}" for number in range(1000)]

    def chosen(percent: float) -> set[str]:
        found = resolve([StageSpec(name="s", percent=percent), StageSpec(name=REST)], map(Candidate, names))
        return {name for name, stage in found.stages.items() if stage == 0}

    smaller, larger = chosen(5.0), chosen(20.0)
    assert (len(smaller), len(larger)) == (50, 200)
    assert smaller < larger


def test_a_percentage_is_at_least_one_node_and_its_bound_is_kept_for_nodes_that_come_later() -> None:
    standing = resolve([StageSpec(name="s", percent=1.0), StageSpec(name=REST)], [Candidate("n1"), Candidate("n2")])
    first = min(("n1", "n2"), key=place_of)
    assert standing.stages == {"n1": int(first != "n1"), "n2": int(first != "n2")}
    assert list(standing.later) == [(0, place_of(first) + 1), (1, place_of(first) * 0 + (1 << 48))]


def test_a_node_is_in_the_first_stage_that_means_it() -> None:
    stages = [
        StageSpec(name="a", nodes=NodeMatch(names=["n1"])),
        StageSpec(name="b", nodes=NodeMatch(names=["n1", "n2"])),
        StageSpec(name=REST),
    ]
    assert resolve(stages, map(Candidate, ("n1", "n2", "n3"))).stages == {"n1": 0, "n2": 1, "n3": 2}


def test_a_batch_names_no_more_than_five_thousand_nodes_and_the_next_one_waits_for_its_end() -> None:
    rollout = a_progress(Stage(REST), nodes={"c": [12_000]})
    assert decide(rollout, Facts(), NOW) == Open(0, "c", 0, 5000)
    rollout = opened(rollout, (0, "c", 0, 5000))
    waits = decide(rollout, Facts(), NOW)
    assert isinstance(waits, Wait)
    assert waits.reason == "BatchRunning"
    assert decide(rollout, Facts({"a0": ended()}), NOW) == Open(0, "c", 5000, 5000)


def test_a_retry_tries_what_failed_and_nothing_that_succeeded() -> None:
    rollout = opened(a_progress(Stage(REST), nodes={"a": [4], "b": [4]}), (0, "a", 0, 4), (0, "b", 0, 4))
    facts = Facts({"a0": ended(), "a1": ended(2)})
    stopped = given(rollout, Said("stop", "ada", NOW, "TooManyFailures", "2 of 8"))
    again = given(stopped, Said("retry", "ada", NOW))
    assert decide(again, facts, NOW) == Open(0, "b", 0, 4)
    tried = after(again, Open(0, "b", 0, 4), facts, NOW, "a2")
    assert isinstance(decide(tried, Facts({"a2": ended()}), NOW), Done)


def test_a_retry_of_an_earlier_stage_waits_in_a_cluster_for_the_batch_that_is_being_written_there() -> None:
    rollout = a_progress(Stage("canary"), Stage(REST), nodes={"a": [1, 4], "b": [1, 4]})
    rollout = opened(rollout, (0, "a", 0, 1), (0, "b", 0, 1), (1, "a", 0, 4), (1, "b", 0, 4))
    facts = Facts({"a0": ended(), "a1": ended(1, behind=True, reason="Unavailable"), "a2": ended()})
    again = given(rollout, Said("retry", "ada", NOW))
    waits = decide(again, facts, NOW)
    assert isinstance(waits, Wait)
    assert waits.reason == "BatchRunning"
    assert decide(again, Facts({**facts.batches, "a3": ended()}), NOW) == Open(0, "b", 0, 1)


def test_a_stage_soaks_from_the_end_of_its_last_batch_and_one_without_nodes_is_passed_by_the_soak_before_it() -> None:
    rollout = a_progress(Stage("canary", soak=600), Stage("left with none"), Stage(REST), nodes={"a": [1, 0, 1], "b": [1, 0, 1]})
    rollout = structs.replace(rollout, meant={"a": [1, 1, 1], "b": [1, 1, 1]})
    later = NOW + timedelta(minutes=5)
    facts = Facts({"a0": ended(), "a1": Fact(later)})
    rollout = opened(rollout, (0, "a", 0, 1), (0, "b", 0, 1))
    waits = decide(rollout, facts, NOW + timedelta(minutes=12))
    assert isinstance(waits, Wait)
    assert (waits.reason, waits.until) == ("Soaking", NOW + timedelta(minutes=15))
    assert decide(rollout, facts, NOW + timedelta(minutes=15)) == Open(2, "a", 0, 1)


def test_nothing_opens_before_the_nodes_of_every_cluster_have_their_stages() -> None:
    rollout = structs.replace(a_progress(Stage(REST), nodes={"a": [4]}), clusters={"a": 0, "b": 0})
    waits = decide(rollout, Facts(), NOW)
    assert isinstance(waits, Wait)
    assert waits.reason == "PlacesUnresolved"


def test_a_retry_gives_an_approval_its_thirty_days_anew() -> None:
    late = NOW + timedelta(days=31)
    rollout = a_progress(Stage("canary", before=True), Stage(REST), nodes={"c": [1, 1]})
    expired = after(rollout, decide(rollout, Facts(), late), Facts(), late, "")
    assert expired.phase == "stopped"
    waits = decide(given(expired, Said("retry", "ada", late)), Facts(), late)
    assert isinstance(waits, Wait)
    assert waits.until == late + timedelta(days=30)


@pytest.mark.parametrize(("verb", "phase"), [("resume", "stopped"), ("abort", "done"), ("revert", "superseded"), ("retry", "paused")])
def test_a_word_that_does_not_fit_changes_nothing_and_says_so(verb: Verb, phase: Phase) -> None:
    rollout = structs.replace(a_progress(Stage(REST), nodes={"c": [1]}), phase=phase)
    with pytest.raises(WrongPhase, match=f"is {phase}; {verb} takes"):
        given(rollout, Said(verb, "ada", NOW))


# --- a careless world


@dataclass
class CarelessWorld:
    """Clusters whose nodes fail, vanish and do not answer, and people who say things at any time; a rollout is driven through it."""

    chance: random.Random
    rollout: Progress
    now: datetime = NOW
    facts: dict[str, Fact] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    made: int = 0
    paused_at: int | None = None

    @property
    def known(self) -> Facts:
        return Facts(dict(self.facts))

    def step(self) -> None:
        """The function looks, perhaps twice at once with the same or an older look."""
        decision = decide(self.rollout, self.known, self.now)
        self.holds(decision)
        self.made += 1
        further = after(self.rollout, decision, self.known, self.now, f"a{self.made}")
        self.rollout = further
        if isinstance(decision, Wait | Stop):
            self.seen[decision.reason] += 1

    def holds(self, decision: object) -> None:
        """What must be true of any decision."""
        rollout, facts = self.rollout, self.known
        if isinstance(decision, Wait):
            assert decision.reason
            assert decision.message
            assert decision.until is None or decision.until > self.now
            busy = any(facts.of(batch).ended is None for batch in rollout.batches)
            assert decision.until or decision.who or busy, f"{decision} ends never"
        if isinstance(decision, Open):
            assert rollout.phase == "running"
            self.opens(decision)

    def opens(self, decision: Open) -> None:
        rollout, facts = self.rollout, self.known
        about = rollout.stages[decision.stage]
        for stage in range(decision.stage):
            if rollout.size(stage) == 0:
                continue
            batches = rollout.newest_batches(stage)
            answered = {batch.cluster for batch in batches} - {batch.cluster for batch in batches if facts.of(batch).behind}
            assert answered, "a stage that showed nothing was passed"
            for cluster in answered:
                done = sum(batch.count for batch in batches if batch.cluster == cluster)
                assert done == rollout.placed[cluster][stage], "a stage opened before the one before it had ended"
            assert all(facts.of(batch).ended for batch in batches)
            failed = sum(facts.of(batch).failed for batch in batches if not facts.of(batch).behind)
            assert failed <= budget(rollout, stage), "a stage opened beyond the budget"
            last = max(facts.of(batch).ended or NOW for batch in batches)
            assert self.now >= last + timedelta(seconds=rollout.stages[stage].soak), "a stage opened before the soak was over"
            assert not rollout.stages[stage].after or rollout.approved(stage, "after")
        assert not about.before or rollout.approved(decision.stage, "before")
        under_way = sum(batch.count for batch in rollout.newest_batches(decision.stage) if facts.of(batch).ended is None)
        if isinstance(about.in_flight, int):
            assert under_way + decision.count <= about.in_flight
        assert 0 <= decision.start < decision.start + decision.count <= rollout.placed[decision.cluster][decision.stage]

    def lets_something_happen(self) -> None:
        """Time passes, batches end in some way, people speak."""
        self.now += timedelta(seconds=self.chance.choice([1, 60, 600, 86_400, 40 * 86_400]))
        running = [batch for batch in self.rollout.batches if not batch.fact and batch.action not in self.facts]
        for batch in running:
            if self.chance.random() < 0.7:
                self.facts[batch.action] = self.some_end(batch)
        if self.chance.random() < 0.4:
            self.somebody_speaks()

    def some_end(self, batch: Batch) -> Fact:
        kind = self.chance.choices(["good", "failed", "missing", "behind", "blocked"], [70, 10, 10, 7, 3])[0]
        some = self.chance.randint(1, batch.count)
        match kind:
            case "failed":
                return Fact(self.now, failed=some)
            case "missing":
                return Fact(self.now, missing=some)
            case "behind":
                return Fact(self.now, failed=batch.count, behind=True, reason="Unavailable", message="gone")
            case "blocked":
                return Fact(self.now, reason="TooManyRemovals", message="too many")
        return Fact(self.now)

    def somebody_speaks(self) -> None:
        decision = decide(self.rollout, self.known, self.now)
        word = self.chance.choices(["approve", "pause", "resume", "retry", "abort", "revert"], [50, 10, 20, 15, 1, 1])[0]
        said = Said(word, "ada", self.now, message="because")  # type: ignore[arg-type]
        try:
            if word != "approve":
                self.rollout = given(self.rollout, said)
            elif isinstance(decision, Wait) and decision.approval:
                self.rollout = approved(self.rollout, said, *decision.approval)
        except WrongPhase:
            return


def some_budget(chance: random.Random) -> int | str:
    number, share = chance.choice([0, 1]), chance.choice(["10%", "50%"])
    return number if chance.random() < 0.5 else share


def some_rollout(chance: random.Random) -> Progress:
    stages = [
        Stage(
            f"s{number}",
            soak=chance.choice([0, 60, 3600]),
            before=chance.random() < 0.2,
            after=chance.random() < 0.2,
            in_flight=chance.choice([None, 1, 3, "20%"]),
        )
        for number in range(chance.randint(0, 3))
    ]
    clusters = [f"c{number}" for number in range(chance.randint(1, 3))]
    sizes = {cluster: [chance.choice([0, 1, 2, 7]) for _ in (*stages, REST)] for cluster in clusters}
    rollout = a_progress(*stages, Stage(REST), nodes=sizes, failed=some_budget(chance))
    return structs.replace(
        rollout,
        meant={cluster: [max(1, count) for count in counts] for cluster, counts in sizes.items()},
        revert_on_stop=chance.random() < 0.3,
    )


@pytest.mark.timeout(7200)
def test_rollouts_in_a_careless_world_open_in_order_within_their_budget_and_end_or_say_what_they_wait_for() -> None:
    phases, reasons = Counter[str](), Counter[str]()
    for seed in range(ROLLOUTS):
        chance = random.Random(seed)
        world = CarelessWorld(chance, some_rollout(chance))
        for _ in range(40):
            before = None
            while before is not world.rollout:
                before = world.rollout
                world.step()
            if world.rollout.phase in ("done", "aborted", "reverted"):
                break
            world.lets_something_happen()
        phases[world.rollout.phase] += 1
        reasons += world.seen
    assert phases["done"] > ROLLOUTS / 10
    assert phases["reverted"] > ROLLOUTS / 50
    waits = ("AwaitingApproval", "Soaking", "ClusterBehind", "RolloutPaused")
    assert {*waits, "TooManyFailures", "ApprovalExpired", "NobodyThere"} <= set(reasons)


def test_the_same_facts_in_any_order_of_looking_lead_to_one_decision() -> None:
    chance = random.Random(7)
    world = CarelessWorld(chance, some_rollout(chance))
    for _ in range(10):
        world.step()
        world.lets_something_happen()
    assert len({str(decide(world.rollout, world.known, world.now)) for _ in range(5)}) == 1


def test_a_pause_that_is_written_lets_nothing_open_and_what_is_open_ends() -> None:
    rollout = opened(a_progress(Stage("canary"), Stage(REST), nodes={"c": [1, 5]}), (0, "c", 0, 1))
    paused = given(rollout, Said("pause", "ada", NOW, message="lunch"))
    for facts in (Facts(), Facts({"a0": ended()})):
        decision = decide(paused, facts, NOW)
        assert isinstance(decision, Wait)
        assert after(paused, decision, facts, NOW, "a9") is paused
    assert given(paused, Said("pause", "bob", NOW, message="again")) is paused
    assert isinstance(decide(given(paused, Said("revert", "ada", NOW)), Facts(), NOW), Done)


def test_an_approval_is_for_one_stage_and_one_moment() -> None:
    rollout = a_progress(Stage("a", before=True, after=True), Stage(REST), nodes={"c": [1, 1]})
    said = Said("approve", "ada", NOW)
    once = approved(rollout, said, 0, "before")
    assert once.approvals == [Approval(0, "before", "ada", NOW)]
    assert (once.approved(0, "before"), once.approved(0, "after"), once.approved(1, "before")) == (True, False, False)
