"""What is refused, with kind and path (rules §6 and §8)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.documents.reading import Document, Source, read
from shared.domain.versions.plans import Planner
from shared.domain.versions.profiles import check_gardener, gardener
from tests.versions.shorthand import NOW

PAST, FUTURE = "2026-11-20T00:00:00Z", "2027-11-20T00:00:00Z"
GOOD_IMAGES = [{"name": "linux", "versions": [{"version": "1.0.0"}]}]
GOOD_VERSIONS = [{"version": "1.27.3"}]


def documents(*objects: dict[str, Any]) -> list[Document]:
    found, problems = read([Source("f.yaml", "\n---\n".join(json.dumps(each) for each in objects).encode())])
    assert not problems
    return found


def cloud_profile(kubernetes: Iterable[Any] = GOOD_VERSIONS, images: Iterable[Any] = GOOD_IMAGES, **more: Any) -> dict[str, Any]:
    spec = {"kubernetes": {"versions": list(kubernetes)}, "machineImages": list(images), "machineTypes": [{"name": "m"}], **more}
    return {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "p"}, "spec": spec}


def linux(*versions: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"name": "linux", "versions": list(versions), **more}]


def shoot(kubernetes: str = "1.27.3", workers: Iterable[Any] = (), **metadata: Any) -> dict[str, Any]:
    spec = {
        "cloudProfile": {"kind": "CloudProfile", "name": "p"},
        "kubernetes": {"version": kubernetes},
        "provider": {"workers": list(workers)},
    }
    named = {"name": "s", "namespace": "garden", **metadata}
    return {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": named, "spec": spec}


def problems(new: dict[str, Any] | list[dict[str, Any]], old: list[dict[str, Any]] | None = None) -> list[str]:
    given = new if isinstance(new, list) else [new]
    return sorted(f"{each.type} @ {each.path}" for each in check_gardener(documents(*given), documents(*(old or [])), NOW))


def updated(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return problems(new, [old or new])


K = "spec.kubernetes.versions"
I = "spec.machineImages"  # noqa: E741 - as short as K
V = f"{I}[0].versions"


def lifecycle(*stages: tuple[str, str | None]) -> dict[str, Any]:
    return {
        "version": "1.27.3",
        "lifecycle": [{"classification": name} | ({"startTime": start} if start else {}) for name, start in stages],
    }


KUBERNETES = [
    ("no version", [], [f"Invalid @ {K}", f"Required @ {K}"]),
    ("one that is no version", [{"version": "1.27.3"}, {"version": "1.27"}], [f"Invalid @ {K}[1]"]),
    ("one that does not parse", [{"version": "1.27.3"}, {"version": "x"}], [f"Invalid @ {K}", f"Invalid @ {K}[1]"]),
    ("leading zeros", [{"version": "1.027.3"}], []),
    ("a leading v", [{"version": "v1.27.3"}], [f"Invalid @ {K}[0]"]),
    ("repeats", [{"version": "1.27.3"}] * 3, [f"Duplicate @ {K}[1].version", f"Duplicate @ {K}[2].version"]),
    ("the latest expires", [{"version": "1.27.3"}, {"version": "1.28.0", "expirationDate": FUTURE}], [f"Invalid @ {K}[].expirationDate"]),
    ("the latest expires by lifecycle", [lifecycle(("supported", None), ("expired", FUTURE))], [f"Invalid @ {K}[].lifecycle"]),
    (
        "two supported in a minor",
        [{"version": f"1.27.{n}", "classification": "supported"} for n in (3, 4)],
        [f"Forbidden @ {K}[0]", f"Forbidden @ {K}[1]"],
    ),
    (
        "three supported in a minor",
        [{"version": f"1.27.{n}", "classification": "supported"} for n in (3, 4, 5)],
        [f"Forbidden @ {K}[{n}]" for n in (0, 0, 1, 1, 2, 2)],
    ),
    ("supported in two minors", [{"version": f"1.{n}.0", "classification": "supported"} for n in (27, 28)], []),
    ("unclassified does not count", [{"version": "1.27.3"}, {"version": "1.27.4", "classification": "supported"}], []),
    (
        "supported lifecycles only do not count",
        [lifecycle(("supported", None)), {**lifecycle(("supported", None)), "version": "1.27.4"}],
        [],
    ),
    (
        "a supported lifecycle beside a classification",
        [lifecycle(("preview", None), ("supported", FUTURE)), {"version": "1.27.4", "classification": "supported"}],
        [f"Forbidden @ {K}[1]"],
    ),
    ("an unknown classification", [{"version": "1.27.3", "classification": "best"}], [f"NotSupported @ {K}[0].classification"]),
    ("an empty classification", [{"version": "1.27.3", "classification": ""}], [f"NotSupported @ {K}[0].classification"]),
    ("unavailable", [{"version": "1.27.3", "classification": "unavailable"}], [f"NotSupported @ {K}[0].classification"]),
    ("expired", [{"version": "1.27.3", "classification": "expired"}], [f"Forbidden @ {K}[0].classification"]),
    ("a lifecycle beside the old fields", [{**lifecycle(("supported", None)), "classification": "preview"}], [f"Forbidden @ {K}[0]"]),
    (
        "an unknown stage",
        [lifecycle(("supported", None), ("best", FUTURE))],
        [f"Invalid @ {K}[0].lifecycle[1].classification", f"NotSupported @ {K}[0].lifecycle[1].classification"],
    ),
    ("a stage twice", [lifecycle(("supported", None), ("supported", FUTURE))], [f"Duplicate @ {K}[0].lifecycle[1].classification"]),
    ("stages out of order", [lifecycle(("deprecated", None), ("supported", FUTURE))], [f"Invalid @ {K}[0].lifecycle[1].classification"]),
    ("a later stage without start", [lifecycle(("preview", None), ("supported", None))], [f"Required @ {K}[0].lifecycle[1]"]),
    ("starts that go back", [lifecycle(("preview", FUTURE), ("supported", PAST))], [f"Invalid @ {K}[0].lifecycle[1]"]),
]


@pytest.mark.parametrize(("versions", "refused"), [case[1:] for case in KUBERNETES], ids=[case[0] for case in KUBERNETES])
def test_kubernetes_versions_are_judged(versions: list[dict[str, Any]], refused: list[str]) -> None:
    assert updated(cloud_profile(versions)) == refused


IMAGES = [
    ("none", [], [f"Required @ {I}"]),
    ("no version", linux(), [f"Required @ {V}"]),
    ("no name", [{"versions": [{"version": "1.0.0"}]}], [f"Required @ {I}[0].name"]),
    ("a name with a prefix", [{"name": "a/b", "versions": [{"version": "1.0.0"}]}], [f"Invalid @ {I}[0].name"]),
    ("a name twice", [*GOOD_IMAGES, {"name": "linux", "versions": [{"version": "2.0.0"}]}], [f"Duplicate @ {I}[1]"]),
    ("a version twice", linux({"version": "1.0.0"}, {"version": "1.0.0"}), [f"Duplicate @ {V}[1]"]),
    ("one version in two spellings", linux({"version": "1.2"}, {"version": "1.2.0"}), []),
    ("no such version", linux({"version": "x"}), [f"Invalid @ {I}", f"Invalid @ {V}[0].version"]),
    ("an empty version", linux({"version": ""}), [f"Invalid @ {I}", f"Invalid @ {V}[0].version", f"Required @ {V}[0].version"]),
    ("an unknown strategy", linux({"version": "1.0.0"}, updateStrategy="fast"), [f"NotSupported @ {I}[0].updateStrategy"]),
    (
        "an unknown architecture",
        linux({"version": "1.0.0", "architectures": ["amd64", "vax"]}),
        [f"NotSupported @ {V}[0].architectures[1]"],
    ),
    (
        "unknown runtimes",
        linux({"version": "1.0.0", "cri": [{"name": "docker"}, {"name": "docker"}]}),
        [f"Duplicate @ {V}[0].cri[1]", f"NotSupported @ {V}[0].cri[0].name", f"NotSupported @ {V}[0].cri[1].name"],
    ),
    (
        "odd runtime types",
        linux(
            {
                "version": "1.0.0",
                "cri": [{"name": "containerd", "containerRuntimes": [{"type": "a/b"}, {"type": "kata"}, {"type": "kata"}]}],
            }
        ),
        [f"Duplicate @ {V}[0].cri[0].containerRuntimes[2].type", f"Invalid @ {V}[0].cri[0].containerRuntimes[0].type"],
    ),
    ("a constraint", linux({"version": "1.0.0", "kubeletVersionConstraint": "!!"}), [f"Invalid @ {V}[0].kubeletVersionConstraint"]),
    (
        "an in-place minimum",
        linux({"version": "1.0.0", "inPlaceUpdates": {"supported": True, "minVersionForUpdate": "x"}}),
        [f"Invalid @ {V}[0].minVersionForInPlaceUpdate"],
    ),
    (
        "two supported in a minor",
        linux(
            {"version": "1.0.0", "classification": "supported"}, {"version": "1.0.1", "classification": "supported", "expirationDate": PAST}
        ),
        [f"Forbidden @ {V}[0]"],
    ),
]


@pytest.mark.parametrize(("images", "refused"), [case[1:] for case in IMAGES], ids=[case[0] for case in IMAGES])
def test_machine_images_are_judged(images: list[dict[str, Any]], refused: list[str]) -> None:
    assert updated(cloud_profile(images=images)) == refused


OLD = {"version": "1.26.0", "classification": "supported", "expirationDate": PAST}


def test_a_new_version_whose_expiration_has_passed_is_refused_and_one_that_was_there_is_not() -> None:
    new = cloud_profile([OLD, *GOOD_VERSIONS], linux({"version": "1.0.0"}, {"version": "0.9.0", "expirationDate": PAST}))
    assert problems(new) == [f"Forbidden @ {K}[0]", f"Forbidden @ {V}[1]"]
    assert updated(new, cloud_profile()) == [f"Forbidden @ {K}[0]", f"Forbidden @ {V}[1]"]
    assert updated(new) == []


def test_creation_looks_only_at_what_is_active_and_update_at_everything() -> None:
    clashing = cloud_profile([OLD, {"version": "1.26.1", "classification": "supported"}, *GOOD_VERSIONS])
    assert problems(clashing) == [f"Forbidden @ {K}[0]"]
    assert updated(clashing) == [f"Forbidden @ {K}[1]"]
    assert problems(cloud_profile([OLD])) == [f"Forbidden @ {K}[0]", f"Invalid @ {K}", f"Required @ {K}"]


INACTIVE = [
    ("expired by classification", [{"version": "1.26.0", "classification": "expired"}, *GOOD_VERSIONS]),
    ("unavailable by classification", [{"version": "1.26.0", "classification": "unavailable"}, *GOOD_VERSIONS]),
    ("a broken lifecycle that has not begun", [lifecycle(("best", FUTURE)) | {"version": "1.28.0"}, *GOOD_VERSIONS]),
    ("a broken lifecycle that has begun since", [lifecycle(("best", PAST)) | {"version": "1.26.0"}, *GOOD_VERSIONS]),
    (
        "a broken lifecycle that has ended",
        [lifecycle(("best", None), ("expired", PAST)) | {"version": "1.26.0"}, *GOOD_VERSIONS],
    ),
]


@pytest.mark.parametrize("versions", [case[1] for case in INACTIVE], ids=[case[0] for case in INACTIVE])
def test_a_profile_that_creation_accepted_is_accepted_again_as_it_is_and_judged_whole_once_it_changes(versions: list[Any]) -> None:
    same = cloud_profile(versions)
    assert updated(same) == []
    assert updated(cloud_profile(versions, region="other"), cloud_profile([*versions, {"version": "1.25.0"}])) != []


def test_what_creation_never_accepted_is_not_made_acceptable_by_being_there() -> None:
    assert updated(cloud_profile([lifecycle(("best", None)) | {"version": "1.26.0"}, *GOOD_VERSIONS])) != []
    assert updated(cloud_profile([{"version": "1.27.3", "classification": "expired"}])) == [f"Forbidden @ {K}[0].classification"]


def test_a_version_is_not_taken_back() -> None:
    later = lifecycle(("supported", FUTURE))
    assert updated(cloud_profile([later]), cloud_profile()) == [f"Forbidden @ {K}[0]"]
    assert updated(cloud_profile(images=linux({**later, "version": "1.0.0"})), cloud_profile()) == [f"Forbidden @ {V}[0]"]


WORKER = {"name": "w", "machine": {"type": "m", "image": {"name": "linux", "version": "1.0.0"}}}


def test_a_version_in_use_is_not_removed() -> None:
    bigger = cloud_profile([{"version": "1.27.3"}, {"version": "1.28.0"}], linux({"version": "1.0.0"}, {"version": "2.0.0"}))
    smaller = cloud_profile([{"version": "1.28.0"}], linux({"version": "2.0.0"}))
    found = check_gardener(documents(smaller, shoot(workers=[WORKER])), documents(bigger), NOW)
    assert [(each.type, each.path, each.document) for each in found] == [("Forbidden", "", "CloudProfile/p")] * 2
    assert [each.message for each in found] == [
        'unable to delete Kubernetes version "1.27.3" from CloudProfile "p" - version is still in use by shoot \'garden/s\'',
        "unable to delete Machine image version 'linux/1.0.0' from CloudProfile \"p\" - "
        "version is still in use by shoot 'garden/s' by worker \"w\"",
    ]


@pytest.mark.parametrize(
    "live",
    [
        shoot(deletionTimestamp=PAST, workers=[WORKER]),
        {**shoot(), "spec": {**shoot()["spec"], "cloudProfile": {"kind": "CloudProfile", "name": "other"}}},
        shoot("1.28.0", [{"name": "w", "kubernetes": {"version": "1.27.3"}}]),
    ],
    ids=["being deleted", "of another profile", "only a pool's own Kubernetes version"],
)
def test_what_does_not_count_as_use(live: dict[str, Any]) -> None:
    bigger = cloud_profile([{"version": "1.27.3"}, {"version": "1.28.0"}], linux({"version": "1.0.0"}, {"version": "2.0.0"}))
    smaller = cloud_profile([{"version": "1.28.0"}], linux({"version": "2.0.0"}))
    assert problems([smaller, live], [bigger]) == []


def own(versions: Iterable[Any] = (), images: Iterable[Any] = (), parent: Any = None) -> dict[str, Any]:
    spec = {
        "parent": parent or {"kind": "CloudProfile", "name": "p"},
        "kubernetes": {"versions": list(versions)},
        "machineImages": list(images),
    }
    return {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "NamespacedCloudProfile",
        "metadata": {"name": "o", "namespace": "garden"},
        "spec": spec,
    }


OVERRIDES = [
    ("a date", own([{"version": "1.27.3", "expirationDate": FUTURE}], linux({"version": "1.0.0", "expirationDate": FUTURE})), []),
    ("a past date at first", own([{"version": "1.27.3", "expirationDate": PAST}]), []),
    (
        "no date",
        own([{"version": "1.27.3"}], linux({"version": "1.0.0"})),
        [f"Invalid @ {V}[0].expirationDate", f"Required @ {K}[0].expirationDate"],
    ),
    ("no version of the parent", own([{"version": "1.26.0", "expirationDate": FUTURE}]), [f"Invalid @ {K}[0].version"]),
    (
        "a classification",
        own([{"version": "1.27.3", "classification": "preview", "expirationDate": FUTURE}]),
        [f"Forbidden @ {K}[0].classification"],
    ),
    (
        "more than the date of an image",
        own(images=linux({"version": "1.0.0", "expirationDate": FUTURE, "classification": "supported", "architectures": ["amd64"]})),
        [f"Forbidden @ {V}[0].architectures", f"Forbidden @ {V}[0].classification"],
    ),
    ("a version of its own", own(images=linux({"version": "2.0.0", "architectures": ["amd64"]})), []),
    ("no parent", own(parent={"kind": "CloudProfile"}), ["Required @ spec.parent.name"]),
    ("an unknown parent", own(parent={"kind": "CloudProfile", "name": "q"}), ["NotFound @ spec.parent.name"]),
    ("a parent of another kind", own(parent={"kind": "Shoot", "name": "p"}), ["NotSupported @ spec.parent.kind"]),
]


@pytest.mark.parametrize(("override", "refused"), [case[1:] for case in OVERRIDES], ids=[case[0] for case in OVERRIDES])
def test_a_namespaced_profile_may_only_move_dates(override: dict[str, Any], refused: list[str]) -> None:
    assert problems([cloud_profile(), override]) == refused


def test_a_date_of_a_namespaced_profile_is_not_moved_into_the_past() -> None:
    before, after = own([{"version": "1.27.3", "expirationDate": FUTURE}]), own([{"version": "1.27.3", "expirationDate": PAST}])
    assert problems([cloud_profile(), after], [cloud_profile(), before]) == [f"Invalid @ {K}[0].expirationDate"]
    assert problems([cloud_profile(), after], [cloud_profile(), after]) == []


def with_window(begin: Any, end: Any, **annotations: str) -> dict[str, Any]:
    written = shoot(annotations={f"hullmark.dev/{name.replace('_', '-')}": value for name, value in annotations.items()})
    written["spec"]["maintenance"] = {"timeWindow": {"begin": begin, "end": end}}
    return written


SHOOTS = [
    ("good", with_window("220000+0100", "230000+0100"), []),
    ("no time", with_window("22:00", "23:00"), ["Invalid @ spec.maintenance.timeWindow.begin/end"]),
    ("too long", with_window("220000+0000", "050000+0000"), ["Invalid @ spec.maintenance.timeWindow"]),
    ("a number", with_window(220000, "230000+0000"), ["Invalid @ spec.maintenance.timeWindow.begin"]),
    ("a zone", with_window("220000", "230000", time_zone="Europe/Berlin"), []),
    ("no zone", with_window("220000", "230000", time_zone="Mars"), ["Invalid @ metadata.annotations[hullmark.dev/time-zone]"]),
    ("no freeze", with_window("220000+0000", "230000+0000", freeze="soon"), ["Invalid @ metadata.annotations[hullmark.dev/freeze]"]),
    ("no version", shoot("latest"), ["Invalid @ spec.kubernetes.version"]),
    (
        "a pool above",
        shoot("1.27.3", [{"name": "w", "kubernetes": {"version": "1.28.0"}}]),
        ["Forbidden @ spec.provider.workers[0].kubernetes.version"],
    ),
    (
        "a pool far behind",
        shoot("1.27.3", [{"name": "w", "kubernetes": {"version": "1.23.9"}}]),
        ["Forbidden @ spec.provider.workers[0].kubernetes.version"],
    ),
    ("a pool three behind", shoot("1.27.3", [{"name": "w", "kubernetes": {"version": "1.24.0"}}]), []),
    ("a pool twice", shoot(workers=[{"name": "w"}, {"name": "w"}]), ["Duplicate @ spec.provider.workers[1].name"]),
]


@pytest.mark.parametrize(("written", "refused"), [case[1:] for case in SHOOTS], ids=[case[0] for case in SHOOTS])
def test_shoots_are_judged(written: dict[str, Any], refused: list[str]) -> None:
    assert problems(written) == refused


def test_a_shoot_goes_neither_down_nor_over_a_minor() -> None:
    assert problems(shoot("1.26.9"), [shoot("1.27.3")]) == ["Forbidden @ spec.kubernetes.version"]
    assert problems(shoot("1.29.0"), [shoot("1.27.3")]) == ["Forbidden @ spec.kubernetes.version"]
    assert problems(shoot("1.28.0"), [shoot("1.27.3")]) == []


def test_the_same_document_twice_is_told() -> None:
    assert problems([shoot(), shoot()]) == ["Duplicate @ metadata.name"]


def test_fields_of_a_wrong_type_are_all_told_with_their_lines() -> None:
    text = (
        "apiVersion: core.gardener.cloud/v1beta1\nkind: CloudProfile\nmetadata: {name: p}\nspec:\n  kubernetes:\n    versions:\n"
        "    - version: 1.27\n    - version: '1.27.3'\n      expirationDate: soon\n    - 7\n  machineImages: {}\n"
    )
    found = check_gardener(read([Source("f.yaml", text.encode())])[0], [], NOW)
    assert [(each.line, each.path, each.message) for each in found] == [
        (7, f"{K}[0].version", "must be text, is a number: put it in quotes"),
        (9, f"{K}[1].expirationDate", "'soon' is not a time such as 2026-11-21T10:00:00Z"),
        (10, f"{K}[2]", "must be a mapping, is a number"),
        (11, I, "must be a list, is a mapping"),
    ]


scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1.27.3", "x", "supported", "linux", PAST, FUTURE, "1.0", "m"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "version",
                    "classification",
                    "expirationDate",
                    "lifecycle",
                    "startTime",
                    "name",
                    "versions",
                    "image",
                    "machine",
                    "type",
                    "kubernetes",
                    "cri",
                    "workers",
                    "provider",
                    "architectures",
                    "capabilityFlavors",
                    "timeWindow",
                    "begin",
                    "end",
                    "autoUpdate",
                    "annotations",
                    "namespace",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["CloudProfile", "NamespacedCloudProfile", "Shoot"]),
    st.dictionaries(
        st.sampled_from(
            ["kubernetes", "machineImages", "machineTypes", "machineCapabilities", "provider", "maintenance", "cloudProfile", "parent"]
        ),
        values,
    ),
    values,
)
def test_no_document_breaks_the_judgement_or_the_decisions(kind: str, spec: dict[str, Any], metadata: Any) -> None:
    body = {"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}
    name = metadata.get("name") if isinstance(metadata, dict) else None
    document = Document("-", 0, 1, kind, name if isinstance(name, str) else "", body)
    whole = [document, *documents(cloud_profile(), shoot(workers=[WORKER]))]
    check_gardener(whole, [], NOW)
    check_gardener(whole, whole, NOW)
    fleet = gardener(whole)
    if not fleet.problems:
        assert len(list(Planner(fleet).plan(NOW))) == len(fleet.clusters)
