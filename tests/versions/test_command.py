"""`hullmark versions` and `hullmark validate` as people and pipelines call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local.cli import main

FLEET = """
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: aws}
spec:
  kubernetes:
    versions:
    - {version: 1.33.2, classification: supported}
    - {version: 1.32.9, classification: supported, expirationDate: 2026-12-24T00:00:00Z}
    - {version: 1.32.5, classification: deprecated, expirationDate: 2026-11-01T00:00:00Z}
  machineTypes: [{name: m5.large}]
  machineImages:
  - {name: gardenlinux, updateStrategy: minor, versions: [{version: 1443.10.0}]}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: shop, namespace: garden-shop}
spec:
  cloudProfile: {kind: CloudProfile, name: aws}
  kubernetes: {version: 1.32.5}
  maintenance: {timeWindow: {begin: 220000+0000, end: 230000+0000}}
  provider:
    workers:
    - {name: a, machine: {type: m5.large, image: {name: gardenlinux, version: 1443.10.0}}}
"""


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, documents: str = FLEET) -> tuple[int, str, str]:
        Path("fleet.yaml").write_text(documents)
        with pytest.raises(SystemExit) as ending:
            main([*arguments, "-f", "fleet.yaml", "--now", "2026-11-21T12:00:00Z"])
        captured = capsys.readouterr()
        return int(ending.value.code or 0), captured.out, captured.err

    return command


def test_plan_prints_every_decision_and_ends_with_2_when_updates_are_due(run: Any) -> None:
    code, out, _ = run("versions", "plan", "-o", "json")
    assert code == 2
    assert [(each["component"], each["subject"], each["to"], each["window"]) for each in json.loads(out)["decisions"]] == [
        ("worker/a", "machineImage", None, {"open": False, "next": "2026-11-21T22:00:00Z"}),
        ("controlPlane", "kubernetes", "1.32.9", {"open": False, "next": "2026-11-21T22:00:00Z"}),
    ]


def test_plan_shows_what_changes_and_with_all_the_rest(run: Any) -> None:
    code, out, _ = run("versions", "plan")
    assert (code, "1443.10.0" in out, out.splitlines()[-1]) == (2, False, "1 to update, 0 of them held, 0 stuck, 1 stay as they are")
    assert "1443.10.0" in run("versions", "plan", "--all")[1]


def test_plan_is_narrowed_and_ends_with_what_is_left(run: Any) -> None:
    assert run("versions", "plan", "--reason", "VersionExpired", "--profile", "aws")[0] == 2
    code, out, _ = run("versions", "plan", "--kind", "stays", "-o", "json")
    assert (code, [each["subject"] for each in json.loads(out)["decisions"]]) == (0, ["machineImage"])


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [("--kind", "late", "known are"), ("--reason", "VersionExpire", "VersionExpired"), ("--held", "Frosen", "Frozen")],
)
def test_a_filter_that_would_never_find_anything_is_refused(run: Any, option: str, value: str, hint: str) -> None:
    code, _, err = run("versions", "plan", option, value)
    assert code == 1
    assert option in err
    assert hint in err


@pytest.mark.parametrize("command", ["plan", "calendar"])
@pytest.mark.parametrize("option", ["--cluster", "--fleet", "--profile"])
@pytest.mark.parametrize("name", ["shpo", "", "shop,"])
def test_a_name_that_nobody_has_is_a_mistake_and_no_good_news(run: Any, command: str, option: str, name: str) -> None:
    if (option, name) == ("--cluster", "shop,"):
        name = ",shop"
    code, out, err = run("versions", command, option, name)
    assert (code, out) == (1, "")
    assert option in err


def test_an_edited_profile_that_nobody_uses_is_a_warning(run: Any) -> None:
    Path("edited.yaml").write_text(FLEET.split("---", maxsplit=1)[0].replace("name: aws", "name: asw"))
    code, _, err = run("versions", "impact", "--profile", "edited.yaml")
    assert (code, err) == (0, "warning: no cluster is on asw\n")


def test_plan_ends_with_0_when_nothing_is_due(run: Any) -> None:
    code, out, _ = run(
        "versions", "plan", "-o", "json", documents=FLEET.replace("{version: 1.32.5}\n  maint", "{version: 1.33.2}\n  maint")
    )
    assert (code, [each["code"] for each in json.loads(out)["decisions"]]) == (0, ["AlreadyLatest", "AlreadyLatest"])


def test_a_pool_that_is_capped_to_the_version_it_has_leaves_nothing_pending(run: Any) -> None:
    capped = FLEET.replace("{version: 1.32.5}\n  maint", '{version: "1.32"}\n  maint').replace(
        "- {name: a,", "- {name: a, kubernetes: {version: 1.32.0},"
    )
    off = capped.replace("maintenance: {", "maintenance: {autoUpdate: {kubernetesVersion: false}, ")
    code, out, _ = run("versions", "plan", "-o", "json", documents=off)
    (decision,) = [each for each in json.loads(out)["decisions"] if each["to"]]
    assert (code, decision["component"], decision["from"], decision["to"]) == (0, "worker/a", "1.32.0", "1.32.0")
    assert "0 to update" in run("versions", "plan", documents=off)[1]


def test_plan_decides_on_a_profile_that_validate_refuses(run: Any) -> None:
    odd = FLEET.replace("{version: 1.33.2, classification: supported}", "{version: 1.32.8, classification: supported}")
    assert run("validate", documents=odd)[0] == 1
    assert run("versions", "plan", documents=odd)[0] == 2


def test_documents_that_cannot_be_read_stop_everything_with_validates_answer(run: Any) -> None:
    code, out, _ = run("versions", "plan", "-o", "json", documents=FLEET.replace("{version: 1.33.2,", "{version: 1.33,"))
    answer = json.loads(out)
    assert (code, answer["valid"]) == (1, False)
    assert [(each["line"], each["document"], each["path"], each["type"]) for each in answer["errors"]] == [
        (8, "CloudProfile/aws", "spec.kubernetes.versions[0].version", "Invalid")
    ]


def test_list_says_what_each_version_counts_as_and_who_runs_it(run: Any) -> None:
    code, out, _ = run("versions", "list", "-o", "json")
    assert code == 0
    found = [(each["version"], each["classification"], each["daysLeft"], each["inUse"]) for each in json.loads(out)["versions"]]
    assert found == [
        ("1.33.2", "supported", None, 0),
        ("1.32.9", "supported", 32, 0),
        ("1.32.5", "expired", -21, 1),
        ("1443.10.0", "supported", None, 1),
    ]


def test_calendar_tells_the_whole_way(run: Any) -> None:
    code, out, _ = run("versions", "calendar", "-o", "json")
    assert code == 2
    assert [(each["at"], each["from"], each["to"]) for each in json.loads(out)["events"]] == [
        ("2026-11-21T22:00:00Z", "1.32.5", "1.32.9"),
        ("2026-12-24T22:00:00Z", "1.32.9", "1.33.2"),
    ]
    assert run("versions", "calendar", "-o", "ics")[1].count("BEGIN:VEVENT") == 2


def test_why_explains_every_version_that_was_looked_at(run: Any) -> None:
    code, out, _ = run("versions", "why", "shop", "-o", "json")
    image, control_plane = json.loads(out)["decisions"]
    assert code == 2
    assert image["code"] == "AlreadyLatest"
    assert {each["version"]: each["verdict"] for each in control_plane["candidates"]} == {
        "1.33.2": "out of reach, or another one is better",
        "1.32.9": "chosen",
        "1.32.5": "the current version",
    }
    assert run("versions", "why", "nobody")[0] == 1


def test_why_calls_one_spelling_of_equal_versions_the_chosen_one(run: Any) -> None:
    twins = FLEET.replace("- {version: 1.32.9,", "- {version: v1.32.9, classification: supported}\n    - {version: 1.32.9,")
    _, out, _ = run("versions", "why", "shop", "-o", "json", documents=twins)
    _, control_plane = json.loads(out)["decisions"]
    assert control_plane["to"] == "v1.32.9"
    assert [each["version"] for each in control_plane["candidates"] if each["verdict"] == "chosen"] == ["v1.32.9"]


def test_why_finds_the_target_of_a_pool_although_it_is_printed_normalised(run: Any) -> None:
    pool = FLEET.replace("- {name: a,", "- {name: a, kubernetes: {version: 1.32.5},").replace("version: 1.32.9,", "version: v1.32.9,")
    _, out, _ = run("versions", "why", "shop", "-o", "json", documents=pool)
    decision = json.loads(out)["decisions"][-1]
    assert (decision["component"], decision["to"]) == ("worker/a", "1.32.9")
    assert [each["version"] for each in decision["candidates"] if each["verdict"] == "chosen"] == ["v1.32.9"]


@pytest.mark.parametrize("far", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00"])
@pytest.mark.parametrize("command", ["list", "plan", "calendar"])
def test_an_expiration_date_at_the_end_of_the_calendar_means_never(run: Any, command: str, far: str) -> None:
    code, out, _ = run("versions", command, "-o", "json", documents=FLEET.replace("2026-12-24T00:00:00Z", far))
    assert code == (0 if command == "list" else 2)
    if command == "calendar":
        assert [each["to"] for each in json.loads(out)["events"]] == ["1.32.9"]


def test_an_expiration_date_at_the_beginning_of_the_calendar_has_passed(run: Any) -> None:
    _, out, _ = run("versions", "list", "-o", "json", documents=FLEET.replace("2026-11-01T00:00:00Z", "0001-01-01T00:00:00+01:00"))
    assert [each["classification"] for each in json.loads(out)["versions"] if each["version"] == "1.32.5"] == ["expired"]


def test_a_look_ahead_beyond_the_calendar_is_refused_by_name(run: Any) -> None:
    code, _, err = run("versions", "calendar", "--days", "100000000")
    assert code == 1
    assert "--days" in err


@pytest.mark.parametrize("command", [("list",), ("plan",), ("calendar",), ("why", "garden-shop/shop")])
def test_tables_and_yaml_are_printed_too(run: Any, command: tuple[str, ...]) -> None:
    for form in ("table", "yaml"):
        _, out, err = run("versions", *command, "-o", form)
        assert "1.32.5" in out
        assert not err


def test_validate_judges_a_profile_as_a_change_from_the_previous_one(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("validate", "-o", "json")
    assert (code, [(each["type"], each["path"]) for each in json.loads(out)["errors"]]) == (
        1,
        [("Forbidden", "spec.kubernetes.versions[2]")],
    )
    (tmp_path / "old.yaml").write_text(FLEET)
    assert run("validate", "--previous", "old.yaml")[0] == 0


def test_a_commit_is_judged_against_the_revision_before_it(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for now, expected in (("2026-10-01T00:00:00Z", 0), ("2026-11-21T00:00:00Z", 0)):
        with pytest.raises(SystemExit) as staged:
            main(["documents", "stage", "-f", str(write(FLEET)), "--now", now])
        assert not staged.value.code
        with pytest.raises(SystemExit) as committed:
            main(["documents", "commit", "--now", now])
        assert int(committed.value.code or 0) == expected, capsys.readouterr().err
    with pytest.raises(SystemExit) as planned:
        main(["versions", "plan", "--now", "2026-11-21T12:00:00Z"])
    assert planned.value.code == 2


def write(text: str) -> Path:
    path = Path("staged.yaml")
    path.write_text(text)
    return path
