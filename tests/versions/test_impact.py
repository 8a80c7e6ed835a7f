"""What an edited profile would do: which clusters move, when and to what, which get stuck, and where the profile leads nowhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from local.cli.version_plans import WIDTH, impact_lines
from shared.domain.documents.reading import DocumentsRefused, Source
from shared.domain.versions.answers import ImpactList, UnknownFleetCluster
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.fleets import FleetView
from shared.domain.versions.gaps import gaps_of
from shared.domain.versions.impact import with_profiles
from shared.domain.versions.profiles import Gardener, gardener
from shared.domain.versions.windows import parse_window
from shared.work.versions import FleetVersions
from tests.versions.shorthand import NOW, cluster, day, image, pool, profile
from tests.versions.test_profiles import cloud_profile, documents, shoot

NIGHT = parse_window("220000+0000", "230000+0000")
IN_A_MONTH = f"{day(30):%Y-%m-%dT%H:%M:%SZ}"


def running(version: str, name: str = "c", fleet: str = "", *, auto: bool = True) -> FleetCluster:
    return replace(cluster(version, auto=auto), id=f"garden/{name}", fleet=fleet, window=NIGHT)


def fleet_of(*clusters: FleetCluster, kubernetes: Sequence[dict[str, Any]]) -> FleetVersions:
    read = gardener(documents(cloud_profile(kubernetes)))
    return FleetVersions(FleetView({"": replace(read, clusters={each.id: each for each in clusters})}))


def edited(*kubernetes: dict[str, Any], **more: Any) -> list[Source]:
    return [Source("edited.yaml", json.dumps(cloud_profile(kubernetes, **more)).encode())]


V32, V33 = {"version": "1.32.5"}, {"version": "1.33.0"}
ENDING = {**V32, "expirationDate": IN_A_MONTH}


def test_a_version_that_gets_an_end_moves_its_clusters_in_the_first_window_after_it() -> None:
    answer = fleet_of(running("1.32.5"), kubernetes=[V32, V33]).impact(edited(ENDING, V33), NOW)
    (move,) = answer.moves
    assert (move.cluster, move.component, move.from_, move.before) == ("garden/c", "controlPlane", "1.32.5", None)
    assert move.after is not None
    assert (move.after.at, move.after.to, move.after.kind, move.after.code) == ("2026-12-21T22:00:00Z", "1.33.0", "force", "VersionExpired")
    assert (answer.clusters, answer.stuck, answer.gaps, answer.problems) == (1, 0, [], [])


def test_a_profile_that_is_the_same_changes_nothing() -> None:
    answer = fleet_of(running("1.32.5"), kubernetes=[ENDING, V33]).impact(edited(ENDING, V33), NOW)
    assert (answer.clusters, answer.moves, answer.groups) == (0, [], [])


def test_a_later_end_moves_the_date_and_a_higher_patch_the_target() -> None:
    later = {**V32, "expirationDate": f"{day(60):%Y-%m-%dT%H:%M:%SZ}"}
    patched = {"version": "1.33.4"}
    answer = fleet_of(running("1.32.5"), kubernetes=[ENDING, V33]).impact(edited(later, V33, patched), NOW)
    first = answer.moves[0]
    assert first.before
    assert first.after
    assert (first.before.at[:10], first.before.to, first.after.at[:10], first.after.to) == ("2026-12-21", "1.33.0", "2027-01-20", "1.33.4")


def test_a_cluster_that_gets_stuck_is_counted_and_the_dead_end_named() -> None:
    answer = fleet_of(running("1.32.5"), kubernetes=[ENDING, V33]).impact(edited(ENDING, {"version": "1.34.0"}), NOW)
    assert answer.stuck == 1
    assert answer.groups[0].newly_stuck
    assert [(gap.version, gap.code, gap.inUse) for gap in answer.gaps] == [("1.32.5", "NoConsecutiveMinor", 1)]


def test_what_validate_refuses_of_the_edited_profile_is_said_beside_the_impact() -> None:
    fleet = gardener(documents(cloud_profile([V32, V33]), shoot("1.32.5")))
    answer = FleetVersions(FleetView({"": fleet})).impact(edited(V33), NOW)
    assert [(each.file, each.type) for each in answer.problems] == [("edited.yaml", "Forbidden")]
    assert "still in use by shoot" in answer.problems[0].message
    assert [move.after and move.after.code for move in answer.moves] == ["VersionNotInProfile"]


def test_clusters_of_other_profiles_and_automatic_updates_that_are_off_stay_out_of_it() -> None:
    other = replace(running("1.32.5", "other"), profile="q")
    still = running("1.32.5", "still", auto=False)
    patched = {"version": "1.32.9"}
    answer = fleet_of(running("1.32.5"), other, still, kubernetes=[V32, V33]).impact(edited(V32, patched, V33), NOW)
    assert ([move.cluster for move in answer.moves], answer.clusters) == (["garden/c"], 2)


def test_a_look_ahead_ends_where_it_is_told_to() -> None:
    fleet = fleet_of(running("1.32.5"), kubernetes=[V32, V33])
    assert fleet.impact(edited(ENDING, V33), NOW, 10).moves == []
    assert len(fleet.impact(edited(ENDING, V33), NOW, 40).moves) == 1


def test_the_same_change_of_many_clusters_is_one_group() -> None:
    clusters = [running("1.32.5", f"c{n}") for n in range(50)]
    (group,) = fleet_of(*clusters, kubernetes=[V32, V33]).impact(edited(ENDING, V33), NOW).groups
    assert (group.clusters, group.places, len(group.examples)) == (50, 50, 5)
    assert group.after
    assert group.after.at == "2026-12-21"


# --- whose profile it is ---------------------------------------------------------------------------------------------------------------


def gardens() -> FleetVersions:
    """Two gardens with a profile of one name, and the documents without one."""
    fleets = {name: gardener(documents(cloud_profile([V32, V33]))) for name in ("north", "south")}
    views = {name: replace(seen, clusters={"garden/c": running("1.32.5", fleet=name)}) for name, seen in fleets.items()}
    return FleetVersions(FleetView({"": Gardener(), **views}))


def test_a_profile_takes_the_place_of_those_of_its_name_in_each_garden_or_in_one() -> None:
    assert {move.fleet for move in gardens().impact(edited(ENDING, V33), NOW).moves} == {"north", "south"}
    assert {move.fleet for move in gardens().impact(edited(ENDING, V33), NOW, None, "south").moves} == {"south"}


def test_a_garden_that_is_not_there_is_named() -> None:
    with pytest.raises(UnknownFleetCluster, match="no fleet 'west'; known are :, north, south"):
        gardens().impact(edited(ENDING, V33), NOW, None, "west")


def test_a_profile_that_nobody_has_yet_is_among_the_documents() -> None:
    found = with_profiles(FleetView({"": Gardener(), "north": Gardener()}), gardener(documents(cloud_profile())))
    assert [name for name, seen in found.fleets.items() if seen.profiles] == [""]


@pytest.mark.parametrize("text", ["", "kind: Shoot", "{apiVersion: core.gardener.cloud/v1beta1, kind: Secret}", "a: [", "spec: 1"])
def test_a_file_without_a_profile_is_refused(text: str) -> None:
    with pytest.raises(DocumentsRefused):
        fleet_of(kubernetes=[V32]).impact([Source("edited.yaml", text.encode())], NOW)


# --- gaps ------------------------------------------------------------------------------------------------------------------------------


def found(offered: CloudProfile) -> list[str]:
    return [f"{gap.subject} {gap.version} {gap.code}" for gap in gaps_of("p", offered, {}, NOW)]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["1.31.1", "1.32.1"], []),
        (["1.31.1 supported+30", "1.32.1"], []),
        (["1.31.1 supported+30"], ["kubernetes 1.31.1 NoConsecutiveMinor"]),
        (["1.31.1 supported+30", "1.33.0"], ["kubernetes 1.31.1 NoConsecutiveMinor"]),
        (["1.31.1", "1.33.0"], ["kubernetes 1.31 NoConsecutiveMinor"]),
        (["1.31.1 supported+30", "1.32.1 preview"], ["kubernetes 1.31 NoSupportedSuccessor", "kubernetes 1.31.1 OnlyPreviewAvailable"]),
        (["1.31.1 supported+30", "1.32.1 deprecated"], ["kubernetes 1.31 NoSupportedSuccessor"]),
        (
            ["1.31.1 supported+30", "1.32.1 supported+10", "1.33.0"],
            ["kubernetes 1.31 NoSupportedSuccessor", "kubernetes 1.31.1 ForcedToExpired"],
        ),
        (["1.31.1 supported+30", "1.32.1 unavailable"], []),
        (["1.31.1 supported+5", "1.32.1 unavailable"], ["kubernetes 1.31 NoSupportedSuccessor", "kubernetes 1.31.1 NotYetAvailable"]),
        (["1.30.0 expired", "1.31.1", "1.32.0"], []),
    ],
)
def test_a_profile_leads_nowhere_where(versions: list[str], expected: list[str]) -> None:
    assert sorted(found(profile(versions))) == sorted(expected)


def test_an_image_version_that_ends_before_its_successor_is_a_gap() -> None:
    ends = profile(["1.31.1"], image(["1.0.0 supported+30"], "major"), image(["1.0.0 supported+30", "1.1.0"], "patch", "fine"))
    assert found(ends) == ["linux 1.0.0 EndOfLife"]


def test_a_gap_says_how_many_run_into_it() -> None:
    (gap,) = gaps_of("p", profile(["1.31.1 supported+30"]), {("kubernetes", "1.31.1"): 7}, NOW)
    assert (gap.inUse, gap.at) == (7, IN_A_MONTH)


# --- on the terminal -------------------------------------------------------------------------------------------------------------------


def test_the_impact_reads_within_80_columns_and_is_no_pages() -> None:
    clusters = [running("1.32.5", f"a-cluster-with-a-rather-long-name-{n}") for n in range(200)]
    answer = fleet_of(*clusters, kubernetes=[V32, V33]).impact(edited(V33, {"version": "1.35.0"}), NOW)
    lines = "\n".join(impact_lines(answer)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) < 40
    assert "200 of 200 clusters on p change course" in lines[-2] + lines[-1]


def test_pools_and_images_are_compared_too() -> None:
    fleet = Gardener(
        profiles={"p": profile(["1.32.5"], image(["1.0.0"]))},
        clusters={"garden/c": replace(cluster("1.32.5", pool("1.0.0")), id="garden/c", window=NIGHT)},
    )
    new = edited({"version": "1.32.5"}, images=[{"name": "linux", "versions": [{"version": "1.0.0"}, {"version": "1.1.0"}]}])
    answer: ImpactList = FleetVersions(FleetView({"": fleet})).impact(new, NOW)
    assert [(move.component, move.image, move.from_, move.after and move.after.to) for move in answer.moves] == [
        ("worker/w", "linux", "1.0.0", "1.1.0")
    ]
