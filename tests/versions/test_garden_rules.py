"""What a garden refuses about profiles and Shoots besides versions, fields that it does not know, and profiles that it had before us."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.domain.documents.reading import Source
from shared.domain.site import check
from shared.domain.versions.profiles import check_gardener
from tests.versions.shorthand import NOW
from tests.versions.test_profiles import FUTURE, GOOD_VERSIONS, PAST, K, V, cloud_profile, documents, linux, problems, shoot

BOTH = {"name": "architecture", "values": ["amd64", "arm64"]}
ONE = {"name": "architecture", "values": ["amd64"]}
SPEC = "spec"


def types(*machines: dict[str, Any]) -> dict[str, Any]:
    return {"machineTypes": list(machines)}


RULES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("a full profile", {"type": "aws", **types({"name": "m", "cpu": "2", "gpu": 0, "memory": "8Gi", "architecture": "arm64"})}, []),
    ("an empty type", {"type": ""}, ["Required @ spec.type"]),
    ("no machine type", types(), ["Required @ spec.machineTypes"]),
    ("no region", {"regions": []}, ["Required @ spec.regions"]),
    ("a machine type without a name", types({"cpu": "2"}), ["Required @ spec.machineTypes[0].name"]),
    ("a machine type twice", types({"name": "m"}, {"name": "m"}), ["Duplicate @ spec.machineTypes[1].name"]),
    (
        "sizes that are no quantities",
        types({"name": "m", "cpu": "two", "gpu": -1, "memory": "8 GiB"}),
        [f"Invalid @ spec.machineTypes[0].{name}" for name in ("cpu", "gpu", "memory")],
    ),
    ("an unknown architecture", types({"name": "m", "architecture": "vax"}), ["NotSupported @ spec.machineTypes[0].architecture"]),
    ("storage of no size", types({"name": "m", "storage": {"class": "standard"}}), ["Invalid @ spec.machineTypes[0].storage"]),
    (
        "storage of two sizes",
        types({"name": "m", "storage": {"size": "20Gi", "minSize": "10Gi"}}),
        ["Invalid @ spec.machineTypes[0].storage"],
    ),
    ("storage of one size", types({"name": "m", "storage": {"minSize": "10Gi"}}), []),
    ("a capability twice", {"machineCapabilities": [ONE, ONE]}, ["Duplicate @ spec.machineCapabilities[1].name"]),
    (
        "a capability without values",
        {"machineCapabilities": [ONE, {"name": "gpu", "values": []}]},
        ["Required @ spec.machineCapabilities[1].values"],
    ),
    (
        "capabilities without an architecture",
        {"machineCapabilities": [{"name": "gpu", "values": ["a"]}]},
        ["Required @ spec.machineCapabilities"],
    ),
    (
        "an architecture that nobody has",
        {"machineCapabilities": [{"name": "architecture", "values": ["vax"]}]},
        ["NotSupported @ spec.machineCapabilities[0].values[0]"],
    ),
    (
        "which of several architectures is left open",
        {"machineCapabilities": [BOTH], **types({"name": "m"})},
        ["Required @ spec.machineTypes[0].capabilities.architecture"],
    ),
    (
        "a machine type with what is not defined",
        {"machineCapabilities": [BOTH], **types({"name": "m", "capabilities": {"architecture": ["arm64"], "gpu": ["a"]}})},
        ["Invalid @ spec.machineTypes[0].capabilities.gpu"],
    ),
    (
        "capabilities of a profile that defines none",
        types({"name": "m", "capabilities": {"gpu": ["a"]}}),
        ["Forbidden @ spec.machineTypes[0].capabilities"],
    ),
    ("a region twice", {"regions": [{"name": "eu"}, {"name": "eu"}]}, ["Duplicate @ spec.regions[1].name"]),
    ("a region without a name", {"regions": [{"zones": []}]}, ["Required @ spec.regions[0].name"]),
    ("a zone twice", {"regions": [{"name": "eu", "zones": [{"name": "a"}, {"name": "a"}]}]}, ["Duplicate @ spec.regions[0].zones[1].name"]),
    ("a region's bad label", {"regions": [{"name": "eu", "labels": {"tier": "so so"}}]}, ["Invalid @ spec.regions[0].labels.tier"]),
    ("a bastion of nothing", {"bastion": {}}, ["Invalid @ spec.bastion"]),
    ("a bastion's unknown machine type", {"bastion": {"machineType": {"name": "x"}}}, ["Invalid @ spec.bastion.machineType.name"]),
    ("a bastion's unknown image", {"bastion": {"machineImage": {"name": "x"}}}, ["Invalid @ spec.bastion.machineImage.name"]),
    (
        "a bastion's unknown version",
        {"bastion": {"machineImage": {"name": "linux", "version": "9.0.0"}}},
        ["Invalid @ spec.bastion.machineImage.version"],
    ),
    (
        "a bastion whose image does not run on its machine",
        {"bastion": {"machineImage": {"name": "linux"}, "machineType": {"name": "m"}}, **types({"name": "m", "architecture": "arm64"})},
        ["Invalid @ spec.bastion.machineImage.name"],
    ),
    ("a bastion that fits", {"bastion": {"machineImage": {"name": "linux", "version": "1.0.0"}, "machineType": {"name": "m"}}}, []),
    ("no node at all", {"limits": {"maxNodesTotal": 0}}, ["Invalid @ spec.limits.maxNodesTotal"]),
    ("nodes as text", {"limits": {"maxNodesTotal": "9"}}, ["Invalid @ spec.limits.maxNodesTotal"]),
    ("a limit", {"limits": {"maxNodesTotal": 9}}, []),
]


@pytest.mark.parametrize(("profile", "expected"), [each[1:] for each in RULES], ids=[each[0] for each in RULES])
def test_a_garden_refuses(profile: dict[str, Any], expected: list[str]) -> None:
    assert problems(cloud_profile(**profile)) == sorted(expected)


@pytest.mark.parametrize(
    ("flavors", "capabilities", "expected"),
    [
        ([{"gpu": ["a"]}], {}, [f"Forbidden @ {V}[0].capabilityFlavors"]),
        ([{"gpu": ["a"]}], {"machineCapabilities": [ONE]}, [f"Invalid @ {V}[0].capabilityFlavors[0].gpu"]),
        ([{"architecture": ["amd64"]}], {"machineCapabilities": [ONE]}, []),
    ],
)
def test_what_an_image_can_is_what_the_profile_defines(flavors: Any, capabilities: dict[str, Any], expected: list[str]) -> None:
    images = linux({"version": "1.0.0", "capabilityFlavors": flavors})
    assert problems(cloud_profile(images=images, **capabilities)) == expected


def test_the_most_nodes_are_never_lowered() -> None:
    ten, nine = (cloud_profile(limits={"maxNodesTotal": nodes}) for nodes in (10, 9))
    assert problems(nine, [ten]) == ["Invalid @ spec.limits.maxNodesTotal"]
    assert problems(ten, [nine]) == []


def test_a_profile_that_did_not_change_stays_although_its_bastions_image_is_deprecated_by_now() -> None:
    images = linux({"version": "1.0.0", "classification": "deprecated"})
    profile = cloud_profile(images=images, bastion={"machineImage": {"name": "linux"}})
    assert problems(profile) == ["Invalid @ spec.bastion.machineImage.name"]
    assert problems(profile, [profile]) == []


@pytest.mark.parametrize("name", ["Capital", "two--dashes", "-a", "a" * 64, "a.b"])
def test_a_garden_refuses_a_shoot_of_this_name(name: str) -> None:
    assert problems([cloud_profile(), shoot(name=name)]) == ["Invalid @ metadata.name"]


def test_a_garden_refuses_pools_without_a_name_or_with_a_long_one() -> None:
    workers = [{"machine": {}}, {"name": "a" * 16}, {"name": "a" * 15}]
    expected = [f"Invalid @ {SPEC}.provider.workers[1].name", f"Required @ {SPEC}.provider.workers[0].name"]
    assert problems([cloud_profile(), shoot(workers=workers)]) == expected


def test_a_profiles_name_is_a_dns_name() -> None:
    assert problems(cloud_profile() | {"metadata": {"name": "An AWS"}}) == ["Invalid @ metadata.name"]


# --- profiles that a garden had before us --------------------------------------------------------------------------------------------

EXPIRED = [*GOOD_VERSIONS, {"version": "1.26.9", "expirationDate": PAST}]


def adopted(day: str, **more: Any) -> dict[str, Any]:
    profile = cloud_profile(EXPIRED, linux({"version": "1.0.0"}, {"version": "0.9.0", "expirationDate": PAST}), **more)
    profile["metadata"] = {"name": "p", "annotations": {"hullmark.dev/adopted": day}}
    return profile


def test_an_adopted_profile_brings_the_versions_that_had_expired_by_then() -> None:
    assert problems(cloud_profile(EXPIRED)) == [f"Forbidden @ {K}[1]"]
    assert problems(adopted("2026-11-21")) == []
    assert problems(adopted("2026-11-20")) == []


def test_what_expired_after_the_adoption_is_new() -> None:
    assert problems(adopted("2026-11-19")) == [f"Forbidden @ {K}[1]", f"Forbidden @ {V}[1]"]


def test_the_day_of_adoption_does_not_count_for_a_profile_that_is_there() -> None:
    before = cloud_profile(GOOD_VERSIONS, linux({"version": "1.0.0"}))
    assert problems(adopted("2026-11-21"), [before]) == [f"Forbidden @ {K}[1]", f"Forbidden @ {V}[1]"]
    assert problems(adopted("2026-11-21"), [adopted("2026-11-21")]) == []


@pytest.mark.parametrize("day", ["yes", "2026-11-22", "9999-12-31"])
def test_the_day_of_adoption_is_a_date_that_has_come(day: str) -> None:
    assert "Invalid @ metadata.annotations[hullmark.dev/adopted]" in problems(adopted(day))


def test_a_refused_profile_says_how_it_is_adopted() -> None:
    (refused,) = check_gardener(documents(cloud_profile(EXPIRED)), [], NOW)
    assert 'annotate it with hullmark.dev/adopted: "2026-11-21"' in refused.message


# --- fields that no garden knows -------------------------------------------------------------------------------------------------------

MISSPELT = """apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: p}
spec:
  kubernetes:
    versions:
    - {version: 1.28.0}
    - {version: 1.27.3, expirationdate: "2027-01-01T00:00:00Z"}
  machineImages: [{name: linux, updatestrategy: minor, versions: [{version: 1.0.0, cri: [{name: containerd, containerRuntime: []}]}]}]
  providerConfig: {whatever: {is: here}}
status: {machineTypes: 3}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: s, namespace: garden, annotations: {any.thing/goes: here}}
spec:
  cloudProfile: {name: p}
  kubernetes: {version: 1.27.3, kubelet: {any: thing}}
  maintenance: {timewindow: {begin: 220000+0000, end: 230000+0000}, autoUpdate: {kubernetesVersions: false}}
"""


def warned(text: str, now: datetime | None = NOW) -> dict[str, str]:
    refused, warnings = check([Source("f.yaml", text.encode())], now=now)
    assert not refused
    return {f"{each.line} {each.path}": each.message for each in warnings if each.type == "Unknown"}


def test_a_field_that_gardener_does_not_have_is_a_warning_with_what_was_meant() -> None:
    found = warned(MISSPELT)
    assert list(found) == [
        "8 spec.kubernetes.versions[1].expirationdate",
        "9 spec.machineImages[0].updatestrategy",
        "9 spec.machineImages[0].versions[0].cri[0].containerRuntime",
        "19 spec.maintenance.timewindow",
        "19 spec.maintenance.autoUpdate.kubernetesVersions",
    ]
    assert found["8 spec.kubernetes.versions[1].expirationdate"].endswith("did you mean expirationDate?")
    assert found["19 spec.maintenance.timewindow"].endswith("did you mean timeWindow?")


def test_the_warnings_do_not_wait_for_a_time() -> None:
    assert len(warned(MISSPELT, None)) == 5


def test_the_profile_of_the_examples_has_no_field_that_gardener_does_not_have() -> None:
    folder = Path(__file__).parents[2] / "examples" / "site"
    files = [Source(str(path), path.read_bytes()) for path in sorted(folder.rglob("*.yaml"))]
    refused, warnings = check(files, now=NOW + timedelta(days=0))
    assert [each for each in [*refused, *warnings] if each.type == "Unknown"] == []


def test_expired_versions_of_the_future_are_nobodys_business() -> None:
    assert problems(cloud_profile([{"version": "1.28.0"}, {"version": "1.27.3", "expirationDate": FUTURE}])) == []
