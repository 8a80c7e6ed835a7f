"""Which version is chosen, and why (rules §2 to §6 and §9)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain.versions.catalogue import CloudProfile, ImageVersion, MachineType, NamespacedCloudProfile, Runtime
from shared.domain.versions.decisions import Keep, Stuck, Timeline, Update
from shared.domain.versions.plans import Planner, decision_entry
from shared.domain.versions.profiles import Gardener
from tests.versions.shorthand import (
    NOW,
    by_place,
    cluster,
    day,
    image,
    image_outcome,
    image_version,
    kubernetes_outcome,
    offered,
    pool,
    profile,
    short,
)

KUBERNETES = [
    # current, offered, automatic updates, outcome, trigger
    ("1.27.3", ["1.27.3", "1.27.5"], True, "auto 1.27.5", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.5"], False, "keep AutoUpdateDisabled", None),
    ("1.27.5", ["1.27.3", "1.27.5", "1.28.0"], True, "keep AlreadyLatest", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.5 preview"], True, "keep OnlyPreviewAvailable", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.5 expired"], True, "keep AllTargetsExpired", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.5 unavailable"], True, "keep NotYetAvailable", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.4", "1.27.5 deprecated"], True, "auto 1.27.4", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.5 deprecated"], True, "auto 1.27.5", "autoUpdate"),
    ("1.27.3", ["1.27.3 expired", "1.27.5"], False, "auto 1.27.5", "expired"),
    ("1.27.3", ["1.27.5"], False, "auto 1.27.5", "missing"),
    ("1.27.3", ["1.27.3 expired", "1.28.1", "1.28.4 expired", "1.29.0"], False, "force 1.28.1", "expired"),
    ("1.27.3", ["1.27.3 expired", "1.28.1 expired", "1.28.4 expired"], False, "force 1.28.4", "expired"),
    ("1.27.3", ["1.27.3 expired", "1.28.1", "1.28.4 deprecated"], False, "force 1.28.4", "expired"),
    ("1.27.3", ["1.27.3 expired", "1.28.4 preview"], False, "stuck OnlyPreviewAvailable", "expired"),
    ("1.27.3", ["1.27.3 expired", "1.28.4 unavailable"], False, "stuck NotYetAvailable", "expired"),
    ("1.27.3", ["1.27.3 expired", "1.29.0", "2.28.0"], False, "stuck NoConsecutiveMinor", "expired"),
    ("1.27.3", ["1.28.0"], False, "force 1.28.0", "missing"),
    ("1.27.3", [], False, "stuck NoConsecutiveMinor", "missing"),
    # the hit is found by the compare helper, the target by order
    ("1.27", ["1.27.3", "1.27.5 preview"], False, "keep AutoUpdateDisabled", None),
    ("1.27.3-rc1", ["1.27.3"], False, "keep AutoUpdateDisabled", None),
    ("1.27.3-rc1", ["1.27.3"], True, "auto 1.27.3", "autoUpdate"),
    ("v1.27.3", ["1.27.3", "v1.27.4+r1"], True, "auto v1.27.4+r1", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.4-rc1"], True, "auto 1.27.4-rc1", "autoUpdate"),
    ("1.27.3", ["1.27.3", "1.27.4+b", "1.27.4+a"], True, "auto 1.27.4+b", "autoUpdate"),
    ("0.0.0", ["0.0.0 expired", "5.4.3"], True, "auto 5.4.3", "expired"),
    ("0.0.0-a", ["0.0.0-b", "0.0.0"], True, "keep AlreadyLatest", "autoUpdate"),
    # what cannot be read
    ("latest", ["1.27.3"], True, "stuck InvalidVersion", None),
    ("1.27.3", ["x.y", "1.27.3"], True, "stuck InvalidVersion", None),
    ("1.27.3", ["1.27.3", "x.y"], True, "stuck InvalidVersion", "autoUpdate"),
    ("1.27.3", ["1.27.3", "x.y preview", "1.27.4"], True, "auto 1.27.4", "autoUpdate"),
    ("latest", [], True, "stuck InvalidVersion", "missing"),
]


@pytest.mark.parametrize(("current", "versions", "auto", "outcome", "trigger"), KUBERNETES)
def test_kubernetes_moves_by_patches_and_is_forced_to_the_next_minor_only(
    current: str, versions: list[str], auto: bool, outcome: str, trigger: str | None
) -> None:
    decided = kubernetes_outcome(current, versions, auto)
    assert (short(decided), decided.trigger) == (outcome, trigger)


def test_a_version_expires_after_its_moment_and_not_at_it() -> None:
    timeline = Timeline(profile(["1.27.3 deprecated+5", "1.28.0"]))
    assert short(timeline.at(day(5)).kubernetes("1.27.3", False)) == "keep AutoUpdateDisabled"
    assert short(timeline.at(day(5.0001)).kubernetes("1.27.3", False)) == "force 1.28.0"


IMAGES = [
    # strategy, current, offered, outcome
    ("patch", "1.1.0", ["1.1.0", "1.1.3", "1.2.0", "2.0.0"], "auto 1.1.3"),
    ("patch", "1.1.3", ["1.1.3", "1.2.0", "2.0.0"], "keep AlreadyLatest"),
    ("patch", "1.1.0", ["1.1.0 expired", "1.2.0", "1.2.5", "1.3.0"], "force 1.2.5"),
    ("patch", "1.1.0", ["1.1.0 expired", "1.3.0", "2.0.0"], "force 1.3.0"),
    ("patch", "1.1.0", ["1.1.0 expired", "2.2.0"], "stuck NoHigherMinor"),
    ("patch", "1.1.0", ["1.1.0 expired", "1.2.0 preview", "1.3.0"], "force 1.3.0"),
    ("patch", "1.1.0", ["1.1.0 expired", "1.2.0 expired", "1.3.0"], "force 1.2.0"),
    ("patch", "1.1.0", ["1.1.0 expired", "1.2.0", "1.2.5 expired"], "force 1.2.0"),
    ("minor", "1.1.0", ["1.1.0", "1.1.3 deprecated", "1.2.0"], "auto 1.1.3"),
    ("minor", "1.1.3", ["1.1.3", "1.2.0", "1.4.0", "2.0.0"], "auto 1.4.0"),
    ("minor", "1.4.0", ["1.4.0 expired", "2.0.0", "2.1.0", "3.0.0"], "force 2.1.0"),
    ("minor", "1.4.0", ["1.4.0 expired", "2.0.0 preview", "3.0.0"], "force 3.0.0"),
    ("minor", "1.4.0", ["1.4.0 expired", "2.0.0 expired", "3.0.0"], "force 2.0.0"),
    ("minor", "1.4.0", ["1.4.0 expired"], "stuck NoHigherMajor"),
    ("minor", "1.4.0", ["1.4.0 expired", "2.0.0 preview"], "stuck OnlyPreviewAvailable"),
    ("major", "1.1.0", ["1.1.0", "1.1.3 deprecated", "3.0.0"], "auto 1.1.3"),
    (None, "1.1.3", ["1.1.3", "1.2.0", "3.0.0"], "auto 3.0.0"),
    ("major", "3.0.0", ["3.0.0 expired"], "stuck EndOfLife"),
    ("major", "3.0.0", ["3.0.0 expired", "4.0.0 preview"], "stuck OnlyPreviewAvailable"),
    ("major", "1.1.3", ["1.1.3 expired", "2.0.0"], "auto 2.0.0"),
    ("whatever", "1.1.3", ["1.1.3 expired", "2.0.0"], "auto 2.0.0"),
    ("minor", "1.1.0", ["1.1.0", "1.1.3 unavailable", "1.2.0"], "auto 1.2.0"),
    ("patch", "1.1.0", ["1.1.0 expired", "1.2.0 unavailable", "1.3.0"], "force 1.3.0"),
    # the version is compared as it is written
    ("patch", "1.1", ["1.1.0"], "stuck NoHigherMinor"),
    ("patch", "v1.1.0", ["1.1.0", "1.1.4"], "auto 1.1.4"),
    # what cannot be read
    ("patch", "1.1.0", ["1.1.0", "x.y"], "stuck InvalidVersion"),
    ("minor", "1.1.0", ["1.1.0 expired", "x.y preview"], "stuck InvalidVersion"),
]


@pytest.mark.parametrize(("strategy", "current", "versions", "outcome"), IMAGES)
def test_an_image_moves_as_far_as_its_strategy_reaches(strategy: str | None, current: str, versions: list[str], outcome: str) -> None:
    assert short(image_outcome(current, versions, strategy)) == outcome


def test_a_forced_image_update_prefers_a_version_that_is_not_expired_in_the_group_it_moves_to() -> None:
    """Unlike the original, which takes 1.4.5 as soon as a preview lies in between (rules §9.11)."""
    assert short(image_outcome("1.1.0", ["1.1.0 expired", "1.2.0 preview", "1.4.1", "1.4.5 expired"], "patch")) == "force 1.4.1"
    assert short(image_outcome("1.1.0", ["1.1.0 expired", "2.0.9", "1.2.0", "1.2.5 expired"], "patch")) == "force 1.2.0"


FILTERS = [
    # what the newer version demands, the pool, the version that is chosen
    ({"architectures": ("arm64",)}, {}, "keep AlreadyLatest"),
    ({"architectures": ("arm64", "amd64")}, {}, "auto 1.0.9"),
    ({"cri": (Runtime("docker"),)}, {}, "keep AlreadyLatest"),
    ({"cri": (Runtime("containerd", ("gvisor", "kata")),)}, {"runtimes": ("gvisor",)}, "auto 1.0.9"),
    ({"kubelet": "< 1.30"}, {}, "keep AlreadyLatest"),
    ({"kubelet": "< 1.30"}, {"kubernetes": "1.29.4"}, "auto 1.0.9"),
    ({"kubelet": "no constraint"}, {}, "keep AlreadyLatest"),
    ({"kubelet": ""}, {}, "keep AlreadyLatest"),
]


@pytest.mark.parametrize(("demands", "wishes", "outcome"), FILTERS)
def test_an_image_version_that_a_pool_cannot_run_is_not_there_for_it(demands: dict[str, Any], wishes: dict[str, Any], outcome: str) -> None:
    fits = image_version("1.0.1", cri=(Runtime("containerd", ("gvisor",)),))
    assert short(image_outcome("1.0.1", [fits, image_version("1.0.9", **demands)], "patch", **wishes)) == outcome


def test_a_current_version_that_a_filter_removes_is_missing_and_updated_although_updates_are_off() -> None:
    decided = image_outcome("1.0.1", [image_version("1.0.1", architectures=("arm64",)), "1.0.4"], "patch", auto=False)
    assert isinstance(decided, Update)
    assert (decided.to, decided.trigger, decided.reason) == ("1.0.4", "missing", "Version does not exist in CloudProfile")


def test_an_image_name_in_another_case_is_found_and_always_missing() -> None:
    decided = image_outcome("1.0.1", ["1.0.1", "1.0.4"], "patch", auto=False, image="Linux")
    assert (short(decided), decided.trigger) == ("auto 1.0.4", "missing")


def in_place(version: str, since: str | None = None, supported: bool = True) -> ImageVersion:
    return image_version(version, in_place=supported, in_place_from=since)


@pytest.mark.parametrize(
    ("current", "versions", "outcome"),
    [
        ("1.0.1", [in_place("1.0.1"), in_place("1.0.3", "1.0.0"), in_place("1.0.9", "1.0.2")], "auto 1.0.3"),
        ("1.0.1", [in_place("1.0.1"), in_place("1.0.3")], "keep AlreadyLatest"),
        ("1.0.1", [in_place("1.0.1"), in_place("1.0.3", "1.0.0", supported=False)], "keep AlreadyLatest"),
        ("1.0.1", [in_place("1.0.1", supported=False), in_place("1.0.3", "1.0.0")], "auto 1.0.3"),
        ("1.0", [in_place("1.0"), in_place("1.0.9", "1.0.4")], "auto 1.0.9"),
        ("1.0.1", [in_place("1.0.1"), in_place("1.0.3", "what")], "keep AlreadyLatest"),
    ],
)
def test_a_pool_updated_in_place_only_goes_where_the_image_can_be_reached_from(
    current: str, versions: list[str | ImageVersion], outcome: str
) -> None:
    assert short(image_outcome(current, versions, "patch", in_place=True)) == outcome


CAPABILITIES = {"architecture": ("amd64", "arm64"), "gpu": ("no", "yes")}


@pytest.mark.parametrize(
    ("machine", "flavors", "fits"),
    [
        ({}, (), True),
        ({"gpu": ("yes",)}, ({"gpu": ("no",)},), False),
        ({"gpu": ("yes",)}, ({"gpu": ("no",)}, {"gpu": ("yes", "no")}), True),
        ({"gpu": ("yes",)}, ({"architecture": ("amd64",)},), True),
        ({}, ({"gpu": ("no",), "architecture": ("amd64",)},), True),
        ({"architecture": ("arm64",)}, ({"architecture": ("amd64",)},), False),
    ],
)
def test_one_flavor_must_share_a_value_with_the_machine_for_every_capability(
    machine: dict[str, tuple[str, ...]], flavors: tuple[dict[str, tuple[str, ...]], ...], fits: bool
) -> None:
    capable = CloudProfile(
        "p",
        images=(image(["1.0.1", image_version("1.0.9", flavors=flavors, architectures=("amd64",))], "patch"),),
        machine_types=(MachineType("m", "amd64", machine),),
        capabilities=CAPABILITIES,
    )
    decided = Timeline(capable).at(NOW).image(pool("1.0.1", architecture="amd64"), cluster("1.30.0"))
    assert short(decided) == ("auto 1.0.9" if fits else "keep AlreadyLatest")


def test_a_pools_own_version_follows_the_same_rules_and_never_passes_the_control_plane() -> None:
    rules = Timeline(profile(["1.27.3 expired", "1.28.2", "1.28.9 expired", "1.29.1"])).at(NOW)
    lagging = cluster("1.28.2", pool(kubernetes="1.27.3"), auto=False)
    assert by_place(rules.decide(lagging))["worker/w kubernetes"] == "force 1.28.2"

    held_back = (
        Timeline(profile(["1.27.3 expired", "1.28.0", "1.28.9"])).at(NOW).decide(cluster("1.28.0", pool(kubernetes="1.27.3"), auto=False))
    )
    assert by_place(held_back)["worker/w kubernetes"] == "force 1.28.0"
    assert held_back[-1].description == 'Updated Kubernetes version from "1.27.3" to "1.28.0"'


def test_a_pool_goes_along_with_the_control_planes_new_version_in_the_same_run() -> None:
    decided = Timeline(profile(["1.27.3 expired", "1.28.2"])).at(NOW).decide(cluster("1.27.3", pool(kubernetes="1.27.3")))
    assert by_place(decided) == {
        "worker/w machineImage": "keep VersionNotDeclared",
        "controlPlane kubernetes": "force 1.28.2",
        "worker/w kubernetes": "force 1.28.2",
    }


def test_a_pools_version_is_printed_normalised_and_the_control_planes_as_the_profile_spells_it() -> None:
    decided = Timeline(profile(["v1.27"])).at(NOW).decide(cluster("1.26.0", pool(kubernetes="1.26.0"), auto=False))
    assert by_place(decided)["controlPlane kubernetes"] == "force v1.27"
    assert by_place(decided)["worker/w kubernetes"] == "force 1.27.0"


def test_images_are_decided_with_the_kubernetes_versions_before_the_run() -> None:
    linux = image(["1.0.1", image_version("1.0.5", kubelet="< 1.28"), image_version("1.0.9", kubelet=">= 1.28")], "patch")
    decided = Timeline(profile(["1.27.3 expired", "1.28.0"], linux)).at(NOW).decide(cluster("1.27.3", pool("1.0.1")))
    assert by_place(decided) == {"worker/w machineImage": "auto 1.0.5", "controlPlane kubernetes": "force 1.28.0"}


def test_a_stuck_control_plane_does_not_stop_its_pools() -> None:
    decided = Timeline(profile(["1.27.3 expired", "1.26.1 expired", "1.29.0"])).at(NOW).decide(cluster("1.27.3", pool(kubernetes="1.26.1")))
    assert by_place(decided)["controlPlane kubernetes"] == "stuck NoConsecutiveMinor"
    assert by_place(decided)["worker/w kubernetes"] == "force 1.27.3"


def test_one_pools_unknown_image_or_machine_type_is_its_own_error() -> None:
    rules = Timeline(profile(["1.27.3"], image(["1.0.1", "1.0.2"], "patch"))).at(NOW)
    pools = [pool("1.0.1", name="a", machine_type="none"), pool("1.0.1", name="b", image="suse"), pool("1.0.1", name="c")]
    decided = rules.decide(cluster("1.27.3", *pools))
    assert [short(each.outcome) for each in decided] == [
        "stuck UnknownMachineType",
        "stuck UnknownMachineImage",
        "auto 1.0.2",
        "keep AlreadyLatest",
    ]
    assert 'machine type "none" of worker "a" does not exist' in decided[0].description
    assert 'no machineImage with name "suse"' in decided[1].description


TEXTS = [
    (kubernetes_outcome("1.27.3", ["1.27.4"]), "Version does not exist in CloudProfile"),
    (kubernetes_outcome("1.27.3", ["1.27.3 expired", "1.27.4"]), "Kubernetes version expired - force update required"),
    (kubernetes_outcome("1.27.3", ["1.27.3", "1.27.4"]), "Automatic update of Kubernetes version configured"),
    (image_outcome("1.0.1", ["1.0.2"], "patch"), "Version does not exist in CloudProfile"),
    (
        image_outcome("1.0.1", ["1.0.1 expired", "1.0.2"]),
        "Machine image version expired - force update required (image update strategy: major)",
    ),
    (
        image_outcome("1.0.1", ["1.0.1", "1.0.2"], "minor"),
        "Automatic update of the machine image version is configured (image update strategy: minor)",
    ),
]


@pytest.mark.parametrize(("outcome", "reason"), TEXTS)
def test_the_reasons_are_the_originals_sentences(outcome: Update | Stuck | Keep, reason: str) -> None:
    assert isinstance(outcome, Update)
    assert outcome.reason == reason


def test_the_errors_are_the_originals_texts() -> None:
    stuck = kubernetes_outcome("1.27.3", ["1.27.3 expired"])
    assert isinstance(stuck, Stuck)
    assert stuck.reason == "Kubernetes version expired - force update required"
    assert stuck.error == (
        'could not determine higher suitable version than "1.27.3": cannot perform forceful update of expired version "1.27.3". '
        "No suitable version found in CloudProfile - this is most likely a misconfiguration of the CloudProfile"
    )
    end = image_outcome("1.0.1", ["1.0.1 expired"])
    assert isinstance(end, Stuck)
    assert end.error.startswith(
        'failed to update machine image "linux": failed to determine the target version for maintenance of machine image "linux" with '
        'strategy "major": failed to determine version for forceful update: either the machine image "linux" is reaching end of life'
    )


def test_a_decision_is_printed_with_its_window_whether_open_or_not() -> None:
    fleet = Gardener(profiles={"p": profile(["1.27.3", "1.27.4"])}, clusters={"garden/c": cluster("1.27.3")})
    (plan,) = Planner(fleet).plan(NOW)
    assert decision_entry(plan, plan.decisions[0]).model_dump() == {
        "cluster": "garden/c",
        "fleet": "",
        "profile": "p",
        "image": "",
        "component": "controlPlane",
        "subject": "kubernetes",
        "from": "1.27.3",
        "to": "1.27.4",
        "kind": "auto",
        "trigger": "autoUpdate",
        "error": False,
        "reason": "Automatic update of Kubernetes version configured",
        "code": "AutoUpdateConfigured",
        "description": 'Updated Kubernetes version from "1.27.3" to "1.27.4"',
        "window": {"open": True, "next": None},
        "expires": None,
        "forcedTo": None,
        "held": None,
        "waived": None,
    }


def test_a_cluster_without_its_profile_is_an_error_of_that_cluster_alone() -> None:
    lost = Gardener(clusters={"garden/c": cluster("1.27.3", pool("1.0.1"))})
    (plan,) = Planner(lost).plan(NOW)
    assert by_place(plan.decisions) == {
        "worker/w machineImage": "stuck CloudProfileNotFound",
        "controlPlane kubernetes": "stuck CloudProfileNotFound",
    }


def test_a_namespaced_profile_moves_expiration_dates_and_adds_versions() -> None:
    parent = profile(["1.27.3 deprecated+5", "1.28.0"], image(["1.0.1"], "patch"))
    own = NamespacedCloudProfile(
        "own", "garden", "p", "CloudProfile", (offered("1.27.3 +90"),), (image(["1.0.1 +7", "1.0.2"]), image(["7.0.0"], name="suse"))
    )
    merged = own.over(parent)
    assert [(each.version, each.classification, each.expiration) for each in merged.kubernetes] == [
        ("1.27.3", "deprecated", day(90)),
        ("1.28.0", None, None),
    ]
    assert [(each.name, each.strategy, [version.version for version in each.versions]) for each in merged.images] == [
        ("linux", "patch", ["1.0.1", "1.0.2"]),
        ("suse", None, ["7.0.0"]),
    ]
    assert merged.images[0].versions[0].expiration == day(7)
