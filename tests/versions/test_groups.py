"""Ten thousand decisions on one page: by cause and target, filtered, within 80 columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from local.cli.version_plans import GROUPS, WIDTH, plan_lines
from shared.domain.versions.answers import DecisionEntry, DecisionList, HeldEntry
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.groups import DecisionFilter, grouped, kind_of
from shared.domain.versions.profiles import Gardener
from shared.work.versions import FleetVersions
from tests.versions.shorthand import NOW, cluster, day, image, pool, profile

STAGES = ["1.33.2 supported", "1.32.9 supported+30", "1.32.5 expired", "1.30.1 expired"]
FROM = ("1.33.2", "1.32.9", "1.32.5", "1.30.1")


def seen(count: int, name: str = "p", profiles: Sequence[CloudProfile] = ()) -> FleetVersions:
    """So many clusters: a quarter each of the latest, one that expires, an expired one, and one that nothing can be done about."""
    running = (replace(cluster(FROM[n % 4], pool("1.0.0")), id=f"garden-{n % 20}/c{n}", profile=name) for n in range(count))
    known = profiles or [profile(STAGES, image(["1.0.0"]))]
    fleet = Gardener(profiles={each.name: each for each in known}, clusters={each.id: each for each in running})
    return FleetVersions(FleetView({"": fleet}))


def of(versions: FleetVersions, *, stays: bool = False, **criteria: Any) -> DecisionList:
    return versions.decisions(NOW, DecisionFilter(**criteria), stays=stays)


def test_decisions_with_one_cause_and_target_are_one_group_and_the_most_pressing_comes_first() -> None:
    stuck, due = of(seen(40)).groups
    assert (stuck.kind, stuck.code, stuck.from_, stuck.to, stuck.clusters, stuck.places) == (
        "stuck",
        "NoConsecutiveMinor",
        "1.30.1",
        None,
        10,
        10,
    )
    assert (due.kind, due.code, due.from_, due.to, due.forcedTo, due.clusters) == (
        "auto",
        "VersionExpired",
        "1.32.5",
        "1.32.9",
        "1.32.9",
        10,
    )
    assert due.expires is not None
    assert due.examples == sorted(due.examples)


def test_what_stays_is_left_out_unless_it_is_asked_for() -> None:
    due, everything = of(seen(4)), of(seen(4), stays=True)
    assert (len(due.decisions), due.unchanged, len(everything.decisions)) == (2, 6, 8)
    assert due.groups == everything.groups


def test_ten_thousand_clusters_are_a_summary_and_not_pages() -> None:
    text = list(plan_lines(of(seen(10_000)), NOW))
    assert len(text) < 20
    assert text[-1] == "2500 to update, 0 of them held, 2500 stuck, 15000 stay as they are"
    assert any("and 2495 more" in line for line in text)


def test_so_many_causes_that_they_would_be_pages_are_counted() -> None:
    profiles = [replace(profile(STAGES, image(["1.0.0"])), name=f"p{n}") for n in range(60)]
    fleet = Gardener(
        profiles={each.name: each for each in profiles},
        clusters={f"garden/c{n}": replace(cluster("1.32.5"), id=f"garden/c{n}", profile=f"p{n}") for n in range(60)},
    )
    text = list(plan_lines(of(FleetVersions(FleetView({"": fleet}))), NOW))
    assert f"and {60 - GROUPS} more causes in {60 - GROUPS} places" in text[-2]


@pytest.mark.parametrize("count", [4, 400])
@pytest.mark.parametrize("stays", [False, True])
def test_no_line_is_wider_than_a_terminal(count: int, stays: bool) -> None:
    answer = of(seen(count), stays=stays)
    held = HeldEntry(
        reason="Frozen", message="the freeze year-end holds updates of versions back until the sales are over", until="2027-01-02T00:00:00Z"
    )
    answer = answer.model_copy(
        update={"decisions": [each.model_copy(update={"held": held}) if each.changes else each for each in answer.decisions]}
    )
    lines = "\n".join(plan_lines(answer, NOW)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert any("held: Frozen until 2027-01-02T00:00:00Z" in line for line in lines)


def test_each_group_says_when_the_version_expires_and_what_it_is_forced_to() -> None:
    text = "\n".join(plan_lines(of(seen(4), stays=True), NOW))
    assert f"1.32.9 expires {day(30):%Y-%m-%dT%H:%M:%SZ}, forced to 1.33.2" in text
    assert f"1.32.5 expired {day(-1):%Y-%m-%dT%H:%M:%SZ}, forced to 1.32.9" in text
    assert "1.33.2 does not expire" in text
    assert "there is nothing to be forced to" in text


def test_a_version_that_the_profile_lacks_is_not_said_to_live_for_ever() -> None:
    fleet = Gardener(profiles={"p": profile(["1.33.2"])}, clusters={"garden/c": cluster("1.32.1")})
    assert "1.32.1 is not in the profile, forced to 1.33.2" in "\n".join(plan_lines(of(FleetVersions(FleetView({"": fleet}))), NOW))


def test_without_its_profile_a_version_is_not_said_to_live_for_ever() -> None:
    fleet = Gardener(clusters={"garden/c": cluster("1.32.1")})
    text = "\n".join(plan_lines(of(FleetVersions(FleetView({"": fleet}))), NOW))
    assert "nobody knows when it expires" in text
    assert "does not expire" not in text


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ({"cluster": "c2"}, {"garden-2/c2"}),
        ({"cluster": "garden-2/*"}, {"garden-2/c2"}),
        ({"cluster": "c2,garden-3/c3"}, {"garden-2/c2", "garden-3/c3"}),
        ({"fleet": ":"}, {f"garden-{n}/c{n}" for n in (2, 3, 6, 7)}),
        ({"fleet": "far"}, set()),
        ({"profile": "q"}, set()),
        ({"kind": "stuck"}, {"garden-3/c3", "garden-7/c7"}),
        ({"kind": "auto,force"}, {"garden-2/c2", "garden-6/c6"}),
        ({"reason": "VersionExpired"}, {"garden-2/c2", "garden-6/c6"}),
        ({"held": "any"}, set()),
        ({"held": "none"}, {"garden-2/c2", "garden-6/c6"}),
        ({"kind": "stuck", "cluster": "c2"}, set()),
    ],
)
def test_a_filter_keeps(criteria: dict[str, Any], expected: set[str]) -> None:
    assert {each.cluster for each in of(seen(8), **criteria).decisions} == expected


def test_what_is_held_is_found_by_what_holds_it() -> None:
    (decision,) = of(seen(4), kind="auto").decisions
    held = decision.model_copy(update={"held": HeldEntry(reason="Frozen", message="", until=None)})
    assert [DecisionFilter(held=wanted).keeps(held) for wanted in ("Frozen", "any", "none", "Paused")] == [True, True, False, False]


def test_a_pool_that_is_capped_to_what_it_has_stays() -> None:
    (decision,) = of(seen(4), kind="auto").decisions
    capped = decision.model_copy(update={"to": decision.from_})
    assert kind_of(capped) == "stays"
    assert grouped([capped])[0][0].to is None


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("late: known are stuck, force, auto, stays")):
        DecisionFilter(kind="auto,late")


def test_each_hold_of_a_group_is_counted() -> None:
    decisions: list[DecisionEntry] = of(seen(12), kind="auto").decisions
    held = HeldEntry(reason="Frozen", message="", until=None)
    ((group, _),) = grouped([decisions[0], *(each.model_copy(update={"held": held}) for each in decisions[1:])])
    assert [(each.reason, each.places) for each in group.held] == [("Frozen", 2)]
