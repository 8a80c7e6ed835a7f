"""Every function × every kind of trouble × every point at which it can come: what people were promised still holds."""

from __future__ import annotations

import pytest

from local import steps
from tests.faults.schedules import KINDS, Schedule, calls_of, ran
from tests.faults.stories import STORIES, Story
from tests.faults.tally import TALLY, thinned

ONE_IN = {"single faults": 11, "twins": 193, "double faults": 83}
"""How many schedules stand for one that runs by default; `make faults` runs them all."""
OTHERS = 37


def every(story: Story, kind: str) -> list[Schedule]:
    """A story's schedules of one kind."""
    found = list(KINDS[kind](story))
    names = {schedule.name for schedule in found}
    assert len(names) == len(found), "two schedules of one name: one of them counts for nothing"
    return found


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("story", STORIES)
def test_the_story_ends_as_it_must_whatever_goes_wrong(story: str, kind: str) -> None:
    broken = []
    schedules = thinned(every(STORIES[story], kind), ONE_IN.get(kind, OTHERS))
    for schedule in schedules:
        found = ran(STORIES[story], schedule)
        TALLY.count(kind, f"{story}/{schedule.name}", schedule.steps)
        if found.broken:
            broken.append(f"{schedule.name}: " + "; ".join(found.broken))
    assert not broken, f"{len(broken)} of {len(schedules)} schedules:\n" + "\n".join(broken[:20])


@pytest.mark.parametrize("story", STORIES)
def test_without_faults_a_story_ends_as_it_must(story: str) -> None:
    for cold in (False, True):
        found = ran(STORIES[story], Schedule("undisturbed", {"cold": cold}, ()))
        assert not found.broken


def test_every_function_is_in_the_matrix_with_every_kind_of_call_that_it_makes() -> None:
    """The list is steps.yaml's: a function that no story calls, or whose outside calls no fault meets, fails here."""
    met = {call.step for story in STORIES.values() for call in calls_of(story)}
    assert met == set(steps.load().steps)
    faulted = {step for story in STORIES.values() for schedule in every(story, "single faults") for step in schedule.steps}
    assert faulted == set(steps.load().steps)


def test_a_function_publishes_only_to_the_topics_that_it_has_rights_to() -> None:
    """What steps.yaml lists is what Terraform grants: a topic that is missing there works everywhere but in the cloud."""
    granted = {name: set(step.publishes) for name, step in steps.load().steps.items()}
    sent = {(call.step, call.argument) for story in STORIES.values() for call in calls_of(story) if call.port == "bus"}
    assert [(step, topic) for step, topic in sorted(sent) if topic not in granted[step]] == []


def test_every_port_is_watched() -> None:
    assert {call.port for story in STORIES.values() for call in calls_of(story)} == {"store", "bus", "cluster", "fleet"}
