"""What is decided and what may go now are two things: an update that is held, and a forced one that goes all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from shared.domain.versions.decisions import Decision, Timeline
from shared.domain.versions.held import BEFORE_DEFERRAL_ENDS, BEFORE_STAGE, DESPITE_FREEZE, GivesWay, Held
from shared.domain.versions.holding import any_of, nothing_holds, with_holds
from shared.domain.versions.plans import going
from shared.domain.versions.windows import parse_window
from tests.versions.shorthand import NOW, cluster, day, profile, short

NIGHTS = parse_window("220000+0000", "230000+0000")
EXPIRING = ["1.30.1 supported+3", "1.31.2"]
"""1.30.1 expires in three days at noon: the last window before begins in two days at 22:00."""


def decided(versions: Sequence[str], holds: Sequence[Held], now: datetime = NOW) -> Decision:
    """The one decision about a cluster on 1.30.1 that these hold back."""
    running = replace(cluster("1.30.1"), window=NIGHTS)
    (decision,) = with_holds(Timeline(profile(versions)).decide(running, now), running, lambda *_: holds, now)
    return decision


def waiting(gives_way: GivesWay | None = None, until: datetime | None = None, reason: str = "WaitingForStage") -> Held:
    return Held(reason, "its stage has not begun", until, gives_way)


def test_a_decision_says_when_its_version_expires_and_what_it_would_be_forced_to() -> None:
    decision = decided(EXPIRING, [])
    assert (short(decision.outcome), decision.expires, decision.forced and decision.forced.to) == ("keep AlreadyLatest", day(3), "1.31.2")


def test_a_version_that_never_expires_is_forced_to_nothing() -> None:
    decision = decided(["1.30.1", "1.31.2"], [])
    assert (decision.expires, decision.forced) == (None, None)


def test_what_it_would_be_forced_to_is_what_is_offered_by_then() -> None:
    decision = decided(["1.30.1 supported+30", "1.31.2 supported+20", "1.31.1 supported+40"], [])
    assert decision.forced
    assert decision.forced.to == "1.31.1"


def test_a_date_that_means_never_foretells_nothing() -> None:
    never = day((datetime(9999, 12, 31, tzinfo=NOW.tzinfo) - NOW).days)
    decision = decided([f"1.30.1 supported+{(never - NOW).days}", "1.31.2"], [waiting(BEFORE_STAGE)])
    assert decision.forced is None
    assert decision.waived is None


def test_what_is_held_keeps_its_target_and_does_not_go() -> None:
    decision = decided(["1.30.1", "1.30.5"], [waiting()])
    assert (short(decision.outcome), decision.held) == ("auto 1.30.5", waiting())
    assert going([decision]) == []


def test_what_changes_nothing_is_not_held() -> None:
    assert decided(["1.30.1"], [waiting()]).held is None


def test_of_several_holds_the_one_that_nobody_knows_the_end_of_is_shown_else_the_one_that_ends_last() -> None:
    short_one, long_one, endless = waiting(until=day(1), reason="Soaking"), waiting(until=day(2)), waiting(reason="Paused")
    held = decided(["1.30.1", "1.30.5"], [short_one, long_one]).held
    assert held == long_one
    assert decided(["1.30.1", "1.30.5"], [short_one, endless, long_one]).held == endless


@pytest.mark.parametrize("gives_way", [BEFORE_STAGE, BEFORE_DEFERRAL_ENDS])
def test_a_wait_gives_way_in_the_last_window_before_expiry_and_says_so(gives_way: GivesWay) -> None:
    holds = [waiting(gives_way)]
    the_last = day(2).replace(hour=22)
    assert short(decided(EXPIRING, holds, day(1).replace(hour=22)).outcome) == "keep AlreadyLatest"
    decision = decided(EXPIRING, holds, the_last)
    assert going([decision]) == [decision]
    assert (short(decision.outcome), decision.waived and decision.waived.reason) == ("force 1.31.2", gives_way.code)
    assert decision.waived
    assert "2026-11-24 12:00 UTC" in decision.waived.message


def test_an_update_that_is_held_goes_from_the_last_window_on_and_after_the_expiry_too() -> None:
    versions = ["1.30.1 supported+3", "1.30.5"]
    assert decided(versions, [waiting(BEFORE_STAGE)], day(2)).held
    for now in (day(2).replace(hour=22), day(3), day(9)):
        assert going([decided(versions, [waiting(BEFORE_STAGE)], now)])


@pytest.mark.parametrize("held", [waiting(reason="StageFailed"), waiting(reason="Paused")])
def test_what_gives_way_to_nothing_holds_past_the_expiry(held: Held) -> None:
    decision = decided(EXPIRING, [waiting(BEFORE_STAGE), held], day(9))
    assert (short(decision.outcome), decision.held) == ("force 1.31.2", held)


def test_a_freeze_that_allows_forced_updates_lets_them_go_and_holds_the_others() -> None:
    freeze = waiting(DESPITE_FREEZE, day(20), "Frozen")
    assert decided(["1.30.1", "1.30.5"], [freeze]).held == freeze
    forced = decided(["1.30.1 expired", "1.30.5"], [freeze])
    assert forced.held is None
    assert forced.waived
    assert forced.waived.reason == "ForcedDespiteFreeze"


def test_holdings_add_up() -> None:
    one, other = waiting(), waiting(reason="Paused")
    running = cluster("1.30.1")
    (decision,) = Timeline(profile(["1.30.1"])).decide(running, NOW)
    assert list(any_of(nothing_holds, lambda *_: [one], lambda *_: [other])(running, decision, NOW)) == [one, other]
