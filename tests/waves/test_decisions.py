"""When a cluster may take a version: stages, soak, health, failures, words. The decision alone, without store or clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from shared.domain.clusters import ClusterMatch
from shared.domain.versions.held import BEFORE_STAGE
from shared.domain.waves.decisions import Ask, Move, Wave, WaveStage, Words, placed
from shared.domain.waves.sightings import CONTROL_PLANE, PATIENCE, Failure, Known, Look, seen, unanswered
from tests.versions.shorthand import NOW

HOUR = timedelta(hours=1)
DEV = WaveStage("dev", ClusterMatch(matchLabels={"env": "dev"}), soak=24 * HOUR)
REST = WaveStage("rest")
MOVE = Move(CONTROL_PLANE, "1.30.1", "1.30.4")


def look(version: str = "1.30.1", env: str = "dev", healthy: bool | None = True, profile: str = "p") -> Look:
    return Look(profile, {"env": env}, {CONTROL_PLANE: version}, healthy, "" if healthy else "APIServerAvailable is False")


def ran(*versions: tuple[str, float], env: str = "dev", profile: str = "p") -> Known:
    """A cluster that has run these versions, each for so many hours until now, healthy."""
    known = None
    ago = sum(hours for _, hours in versions)
    for version, hours in versions:
        known = seen(known, look(version, env, profile=profile), NOW - ago * HOUR)
        ago -= hours
    assert known
    return known


def wave(known: Mapping[str, Known], *stages: WaveStage, failed: int | str = 0, words: Words | None = None) -> Wave:
    return Wave("safe", stages or (DEV, REST), known, NOW, failed, words or Words())


def reason(found: Wave, cluster: str = "prod", move: Move = MOVE) -> str | None:
    held = found.holds(cluster, move)
    return held.reason if held else None


PROD = ran(("1.30.1", 100), env="prod")
BROKEN = structs.replace(ran(("1.30.1", 100)), failures={CONTROL_PLANE: Failure("1.30.4", NOW, "quota")})


def test_the_first_stage_goes_and_a_later_one_waits_until_it_has_run_the_version() -> None:
    found = wave({"dev": ran(("1.30.1", 100)), "prod": PROD})
    assert reason(found, "dev") is None
    held = found.holds("prod", MOVE)
    assert held
    assert (held.reason, held.until) == ("WaitingForStage", None)
    assert "dev (it runs 1.30.1)" in held.message


def test_it_soaks_and_says_until_when() -> None:
    held = wave({"dev": ran(("1.30.1", 100), ("1.30.4", 5)), "prod": PROD}).holds("prod", MOVE)
    assert held
    assert (held.reason, held.until) == ("Soaking", NOW + 19 * HOUR)


@pytest.mark.parametrize("versions", [[("1.30.4", 24.0)], [("1.30.4", 1.0), ("1.30.5", 24.0)], [("1.30.4", 24.0), ("1.30.5", 1.0)]])
def test_a_version_qualifies_when_it_or_a_higher_one_was_run_through_the_soak(versions: list[tuple[str, float]]) -> None:
    assert reason(wave({"dev": ran(("1.30.1", 100), *versions), "prod": PROD})) is None


def test_a_stretch_on_a_lower_version_shows_nothing() -> None:
    assert reason(wave({"dev": ran(("1.30.3", 100)), "prod": PROD})) == "WaitingForStage"


def test_every_earlier_cluster_has_to_have_run_it() -> None:
    slow, quick = ran(("1.30.1", 100)), ran(("1.30.1", 9), ("1.30.4", 100))
    assert reason(wave({"a": quick, "b": slow, "prod": PROD})) == "WaitingForStage"
    assert reason(wave({"a": quick, "b": quick, "prod": PROD})) is None


def test_clusters_of_another_profile_or_minor_neither_hold_nor_qualify() -> None:
    good = ran(("1.30.4", 100))
    assert reason(wave({"dev": good, "old": ran(("1.28.1", 100)), "other": replace_profile(ran(("1.30.1", 9))), "prod": PROD})) is None
    assert reason(wave({"high": ran(("1.33.1", 100)), "prod": PROD})) == "NothingToQualify"
    assert reason(wave({"other": replace_profile(good), "prod": PROD})) == "NothingToQualify"


def replace_profile(known: Known) -> Known:
    return ran(*((run.version, 100.0) for run in known.lines[CONTROL_PLANE]), profile="q")


def test_one_that_has_left_the_minor_since_still_shows_what_it_has_run() -> None:
    assert reason(wave({"dev": ran(("1.30.4", 30), ("1.31.0", 1)), "prod": PROD})) is None


def test_where_nothing_can_qualify_a_person_is_asked_and_the_word_is_for_that_version_alone() -> None:
    asked = Ask("rest", "before", "p", CONTROL_PLANE, "1.30.4")
    found = wave({"prod": PROD})
    assert found.judged("prod", MOVE)[1] == asked
    told = wave({"prod": PROD}, words=Words(approved=frozenset([asked])))
    assert reason(told) is None
    assert reason(told, move=MOVE._replace(to="1.30.5")) == "NothingToQualify"


def test_an_empty_stage_between_two_shows_nothing_and_the_one_before_it_counts() -> None:
    middle = WaveStage("staging", ClusterMatch(matchLabels={"env": "staging"}), soak=HOUR)
    assert reason(wave({"dev": ran(("1.30.4", 30)), "prod": PROD}, DEV, middle, REST)) is None
    assert reason(wave({"dev": ran(("1.30.1", 30)), "prod": PROD}, DEV, middle, REST)) == "WaitingForStage"


@pytest.mark.parametrize(("when", "stage"), [("before", "rest"), ("after", "dev")])
def test_approvals_are_asked_for_when_everything_else_is_done(when: str, stage: str) -> None:
    stages = (replace(DEV, after=when == "after"), replace(REST, before=when == "before"))
    known = {"dev": ran(("1.30.4", 30)), "prod": PROD}
    held, ask = wave(known, *stages).judged("prod", MOVE)
    assert held
    assert held.reason == "AwaitingApproval"
    assert ask
    assert (ask.stage, ask.when) == (stage, when)
    assert reason(wave(known, *stages, words=Words(approved=frozenset([ask])))) is None
    assert reason(wave({"dev": ran(("1.30.4", 3)), "prod": PROD}, *stages)) == "Soaking"


# --- health


def test_what_is_not_known_is_never_healthy_and_its_time_does_not_count() -> None:
    known = seen(None, look("1.30.4", healthy=None), NOW - 100 * HOUR)
    assert reason(wave({"dev": known, "prod": PROD})) == "WaitingForStage"
    known = seen(ran(("1.30.4", 40)), look("1.30.4"), NOW - 20 * HOUR)
    silent = unanswered(known, "the garden does not answer", NOW - 20 * HOUR)
    assert reason(wave({"dev": silent, "prod": PROD})) == "WaitingForStage"
    back = seen(silent, look("1.30.4"), NOW)
    held = wave({"dev": back, "prod": PROD}).holds("prod", MOVE)
    assert held
    assert (held.reason, held.until) == ("Soaking", NOW + 4 * HOUR)


def test_a_soak_begins_anew_when_the_cluster_was_not_healthy() -> None:
    bad = seen(ran(("1.30.4", 20)), look("1.30.4", healthy=False), NOW - 10 * HOUR)
    assert reason(wave({"dev": bad, "prod": PROD})) == "StageFailed"
    again = seen(bad, look("1.30.4"), NOW - 9 * HOUR)
    held = wave({"dev": again, "prod": PROD}).holds("prod", MOVE)
    assert held
    assert (held.reason, held.until) == ("Soaking", NOW + 15 * HOUR)


def test_a_cluster_that_stays_unhealthy_has_failed_and_one_that_was_before_only_holds_up() -> None:
    on_it = seen(None, look("1.30.4"), NOW - 50 * HOUR)
    just = seen(on_it, look("1.30.4", healthy=False), NOW - PATIENCE + timedelta(seconds=1))
    assert reason(wave({"dev": just, "prod": PROD})) == "WaitingForStage"
    long = seen(on_it, look("1.30.4", healthy=False), NOW - PATIENCE)
    assert reason(wave({"dev": long, "prod": PROD})) == "StageFailed"
    before = seen(seen(None, look("1.30.1", healthy=False), NOW - 9 * HOUR), look("1.30.4", healthy=False), NOW - 5 * HOUR)
    assert reason(wave({"dev": before, "prod": PROD})) == "WaitingForStage"


def test_failures_count_up_to_the_budget_and_never_for_all() -> None:
    good = ran(("1.30.4", 30))
    assert reason(wave({"a": good, "b": BROKEN, "prod": PROD})) == "StageFailed"
    assert reason(wave({"a": good, "b": BROKEN, "prod": PROD}, failed=1)) is None
    assert reason(wave({"a": good, "b": BROKEN, "prod": PROD}, failed="50%")) is None
    assert reason(wave({"b": BROKEN, "prod": PROD}, failed=1)) == "StageFailed"


def test_a_stage_that_fails_lets_no_more_of_its_own_go_and_another_version_is_not_touched() -> None:
    found = wave({"a": BROKEN, "b": ran(("1.30.1", 100)), "prod": PROD})
    assert reason(found, "b") == "BudgetSpent"
    assert reason(found, "b", MOVE._replace(to="1.30.5")) is None


def test_a_failure_is_over_when_the_line_has_reached_the_version() -> None:
    assert not seen(BROKEN, look("1.30.4"), NOW).failures
    assert seen(BROKEN, look("1.30.2"), NOW).failures


def test_only_so_many_go_at_a_time() -> None:
    known = {name: ran(("1.30.1", 100)) for name in "abcd"}
    some = replace(DEV, in_flight=2)
    busy = wave(known, some, REST, words=Words(under_way=frozenset("ab")))
    assert reason(busy, "c") == "WaitingForStage"
    assert reason(busy, "a") is None
    assert reason(wave(known, some, REST, words=Words(under_way=frozenset("a"))), "c") is None
    assert wave(known, replace(DEV, in_flight="10%"), REST).room(0) == 1


def test_paused_and_not_begun() -> None:
    known = {"dev": ran(("1.30.1", 100))}
    paused = wave(known, words=Words(paused="ada: BROKEN images")).holds("dev", MOVE)
    assert paused
    assert (paused.reason, paused.gives_way) == ("RolloutPaused", None)
    assert reason(wave(known, words=Words(started=False)), "dev") == "WaitingForStage"
    assert reason(wave(known), "somebody else's") is None


def test_a_cluster_is_in_the_first_stage_that_means_it_and_a_larger_share_contains_a_smaller() -> None:
    known = {f"garden:ns/c{number}": ran(("1.30.1", 1), env="prod") for number in range(40)}
    some, more = (WaveStage("some", ClusterMatch(matchLabels={"env": "prod"}), percent=percent) for percent in (5, 20))
    first = {name for name, stage in placed((some, REST), known).items() if stage == 0}
    second = {name for name, stage in placed((more, REST), known).items() if stage == 0}
    assert (len(first), len(second)) == (2, 8)
    assert first < second
    named = WaveStage("named", ClusterMatch(names=["ns/c1", "garden"]))
    assert set(placed((named, REST), known).values()) == {0}


def test_what_was_seen_before_is_the_same_object() -> None:
    known = ran(("1.30.4", 5))
    assert seen(known, look("1.30.4"), NOW) is known


def test_an_early_stage_leaves_an_expiring_version_so_early_that_the_last_one_can_look_on() -> None:
    found = wave({}, DEV, replace(REST, name="prod"))
    assert (found.lead(0), found.lead(1)) == (timedelta(days=8), timedelta(0))


def test_neither_a_failed_stage_nor_a_pause_gives_way_to_expiry() -> None:
    failed = wave({"dev": BROKEN, "prod": PROD}).holds("prod", MOVE)
    waiting = wave({"dev": ran(("1.30.1", 9)), "prod": PROD}).holds("prod", MOVE)
    assert failed
    assert waiting
    assert (failed.reason, failed.gives_way) == ("StageFailed", None)
    assert waiting.gives_way == BEFORE_STAGE
