"""Rollouts, whatever is said, breaks or dies at whichever outside call: stages open in order, and nothing opens once that was answered."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.faults.harness import Finding
from tests.faults.rollout_muddles import RolloutMuddle
from tests.faults.rollouts import PATHS, STEADY, WORDS, ended_in_order, goes_on, openings, spoken, starts, word
from tests.faults.schedules import KINDS, Schedule, ran
from tests.faults.tally import TALLY, thinned

SEEDS = 1200
ONE_IN = {"single faults": 139, "clocks apart": 139}
ONE_WORD_IN, ONE_SEED_IN = 129, 150


def none_broken(found: Iterable[tuple[str, Finding]]) -> None:
    """Fails with what should not have happened, and where."""
    broken = [f"{name}: " + "; ".join(finding.broken) for name, finding in found if finding.broken]
    assert not broken, f"{len(broken)} schedules:\n" + "\n".join(broken[:20])


def judged(name: str) -> Iterable[tuple[str, Finding]]:
    """The steady rollout with this word before each of its calls."""
    for schedule in thinned(list(spoken(name)), ONE_WORD_IN):
        found, site = Finding(), STEADY.site(**schedule.how)
        STEADY.run(site)
        goes_on(site)
        ended_in_order(site, found)
        TALLY.count("words to rollouts", schedule.name, schedule.steps)
        yield schedule.name, found


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", WORDS)
def test_nothing_opens_out_of_order_or_after_it_was_held_whatever_somebody_says_before_any_call(name: str) -> None:
    none_broken(judged(name))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ONE_IN)
@pytest.mark.parametrize("path", PATHS)
def test_a_rollout_that_people_steer_ends_as_it_must_whatever_goes_wrong(path: str, kind: str) -> None:
    schedules = thinned(list(KINDS[kind](PATHS[path])), ONE_IN[kind])
    for schedule in schedules:
        TALLY.count(f"rollouts: {kind}", f"{path}/{schedule.name}", schedule.steps)
    none_broken((schedule.name, ran(PATHS[path], schedule)) for schedule in schedules)


@pytest.mark.timeout(7200)
def test_a_rollout_opens_in_order_and_never_after_it_was_held_in_any_muddle() -> None:
    def muddles() -> Iterable[tuple[str, Finding]]:
        for seed in thinned(range(SEEDS), ONE_SEED_IN):
            found, muddle = Finding(), RolloutMuddle(seed)
            done = muddle.run(found)
            TALLY.count("rollouts: muddles", str(seed), sorted({call.step for call in muddle.site.calls if call.step}))
            yield f"seed {seed}: {done}", found

    none_broken(muddles())


@pytest.mark.parametrize("path", PATHS)
def test_without_faults_a_steered_rollout_ends_as_it_must(path: str) -> None:
    none_broken((str(cold), ran(PATHS[path], Schedule("undisturbed", {"cold": cold}, ()))) for cold in (False, True))


def test_who_judges_openings_sees_one_that_came_after_a_pause_was_answered() -> None:
    site = STEADY.site()
    rollout = starts(site)
    openings(site).answered(rollout)
    assert not list(openings(site).broken())
    word(site, "approve", "canary")
    goes_on(site)
    word(site, "approve", "canary")
    goes_on(site)
    (told, *_) = openings(site).broken()
    assert "was opened after somebody was answered that nothing more opens" in told
