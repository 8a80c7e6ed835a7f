"""`/versions`: what the command line says, for the server's documents and the fleets that they name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from icalendar import Calendar

from functions.api.expiries import coming, document_versions
from shared.domain.documents.kinds import ClusterSpec
from shared.domain.versions.clusters import VersionStep
from shared.domain.versions.profiles import gardener
from shared.ledger.fleets import DocumentFleet
from shared.ports import Fleet, Unavailable
from tests.api.conftest import FrontDoor, reasons
from tests.cli.test_embedded_and_server import FLEET

GARDEN = """---
apiVersion: hullmark.dev/v1
kind: Cluster
metadata: {name: far}
spec: {provider: gardener, access: {inCluster: {}}}
"""
AT = "now=2026-11-21T12:00:00Z"


@pytest.fixture
def gardens(door: FrontDoor) -> FrontDoor:
    """A fleet of documents, and a garden that nobody reaches."""
    assert door.stage(FLEET + GARDEN).status_code == 201
    assert door.post("/v1.0/commitconfigdocs").status_code == 200
    return door


def unreachable(_name: str, _spec: ClusterSpec) -> Fleet:
    class Silent:
        def profiles(self) -> Any:
            raise Unavailable("the garden far does not answer")

    return Silent()  # type: ignore[return-value]  # nothing else of it is asked


def test_every_answer_is_about_the_committed_fleet_at_the_time_that_was_asked_for(gardens: FrontDoor) -> None:
    offered, planned, coming, why = (
        gardens.get(f"/v1.0/versions{path}{AT}&live=false").json for path in ("?", "/plan?", "/calendar?days=40&", "/why/garden-shop/shop?")
    )
    found = {each["version"]: (each["daysLeft"], each["inUse"]) for each in offered["versions"]}
    assert found == {"1.33.2": (None, 0), "1.32.9": (32, 1), "1443.10.0": (None, 1)}
    assert [(each["from"], each["to"]) for each in planned["decisions"]] == [("1443.10.0", None), ("1.32.9", None)]
    assert [(each["at"], each["from"], each["to"]) for each in coming["events"]] == [("2026-12-24T22:00:00Z", "1.32.9", "1.33.2")]
    assert [each["version"] for each in why["decisions"][1]["candidates"]] == ["1.33.2", "1.32.9"]


def test_a_plan_is_grouped_by_cause_and_narrowed(gardens: FrontDoor) -> None:
    later = "now=2026-12-25T12:00:00Z"
    whole, due, other = (
        gardens.get(f"/v1.0/versions/plan?{later}&live=false{query}").json for query in ("", "&stays=false&kind=force", "&cluster=nobody")
    )
    assert [(each["from"], each["to"], each["code"], each["clusters"]) for each in whole["groups"]] == [
        ("1.32.9", "1.33.2", "VersionExpired", 1)
    ]
    assert (len(whole["decisions"]), whole["unchanged"]) == (2, 1)
    assert [each["to"] for each in due["decisions"]] == ["1.33.2"]
    assert (other["decisions"], other["groups"]) == ([], [])
    assert gardens.get("/v1.0/versions/plan?live=false&kind=late").status_code == 400


@pytest.mark.parametrize("criterion", ["cluster=", "fleet=,", "profile=a,,b", "reason=", "held="])
def test_a_filter_of_nothing_is_refused_instead_of_finding_nothing(gardens: FrontDoor, criterion: str) -> None:
    assert gardens.get(f"/v1.0/versions/plan?live=false&{criterion}").status_code == 400


def test_the_calendar_is_subscribed_to_and_narrowed(gardens: FrontDoor) -> None:
    answer = gardens.get(f"/v1.0/versions/calendar.ics?{AT}&live=false&days=40")
    assert (answer.status_code, answer.mimetype) == (200, "text/calendar")
    (entry,) = Calendar.from_ical(answer.data).walk("VEVENT")
    assert (str(entry["SUMMARY"]), entry.to_ical().count(b"SEQUENCE:1\r\n")) == ("garden-shop/shop: Kubernetes 1.32.9 → 1.33.2", 1)
    (again,) = Calendar.from_ical(gardens.get("/v1.0/versions/calendar.ics?now=2026-11-30T12:00:00Z&live=false").data).walk("VEVENT")
    assert again["UID"] == entry["UID"]
    assert b"VEVENT" not in gardens.get(f"/v1.0/versions/calendar.ics?{AT}&live=false&cluster=nobody").data


EDITED = FLEET.split("---", maxsplit=1)[0].replace("2026-12-24", "2027-02-24")


def test_an_edited_profile_is_compared_with_what_is_committed_and_nothing_is_kept(gardens: FrontDoor) -> None:
    before = set(gardens.world.store.keys(""))
    answer = gardens.post(f"/v1.0/versions/impact?{AT}&live=false", json={"files": [{"file": "aws.yaml", "text": EDITED}]})
    assert answer.status_code == 200, answer.json
    (move,) = answer.json["moves"]
    assert (move["cluster"], move["from"], move["before"]["at"][:10], move["after"]["at"][:10]) == (
        "garden-shop/shop",
        "1.32.9",
        "2026-12-24",
        "2027-02-24",
    )
    assert set(gardens.world.store.keys("")) == before


@pytest.mark.parametrize(
    "body", [{}, {"files": []}, {"files": [{"text": "a: ["}]}, {"files": [{"text": "kind: Shoot"}]}, {"files": [{"t": ""}]}]
)
def test_a_file_that_is_no_profile_is_refused(gardens: FrontDoor, body: dict[str, Any]) -> None:
    assert gardens.post("/v1.0/versions/impact?live=false", json=body).status_code == 400


def test_an_edited_profile_of_a_fleet_that_is_not_there_is_a_404(gardens: FrontDoor) -> None:
    answer = gardens.post("/v1.0/versions/impact?live=false&fleet=far", json={"files": [{"text": EDITED}]})
    assert answer.status_code == 404
    assert "known are :" in answer.json["message"] + answer.json["reason"]


def test_the_calendar_is_grouped_by_day_and_cause(gardens: FrontDoor) -> None:
    (group,) = gardens.get(f"/v1.0/versions/calendar?{AT}&live=false").json["groups"]
    assert (group["day"], group["from"], group["to"], group["clusters"], group["examples"]) == (
        "2026-12-24",
        "1.32.9",
        "1.33.2",
        1,
        ["garden-shop/shop"],
    )


def test_a_fleet_that_does_not_answer_is_named_and_the_others_are_decided(gardens: FrontDoor) -> None:
    gardens.world.open_fleet = unreachable
    answer = gardens.get(f"/v1.0/versions/plan?{AT}").json
    assert answer["unreachable"] == ["far: the garden far does not answer"]
    assert len(answer["decisions"]) == 2
    assert gardens.get(f"/v1.0/versions/plan?{AT}&live=false").json["unreachable"] == []


def test_a_cluster_that_is_not_there_is_a_404_that_names_those_that_are(gardens: FrontDoor) -> None:
    answer = gardens.get("/v1.0/versions/why/no/body?live=false")
    assert (answer.status_code, reasons(answer)) == (404, ["ClusterUnknown"])
    assert "known are garden-shop/shop" in answer.json["reason"]


@pytest.mark.parametrize("now", ["yesterday", "1.36e-175", "0", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-13-01T00:00:00Z"])
def test_a_time_beyond_reach_is_refused(gardens: FrontDoor, now: str) -> None:
    assert gardens.get(f"/v1.0/versions/calendar?now={now}&live=false").status_code == 400


@pytest.mark.parametrize("days", ["0", "-1", "1000000", "soon"])
def test_a_horizon_beyond_reach_is_refused(gardens: FrontDoor, days: str) -> None:
    assert gardens.get(f"/v1.0/versions/calendar?days={days}&live=false").status_code == 400


@pytest.mark.parametrize("path", ["", "/plan", "/calendar", "/calendar.ics", "/why/shop"])
def test_before_the_first_commit_there_is_no_fleet(door: FrontDoor, path: str) -> None:
    assert reasons(door.get(f"/v1.0/versions{path}")) == ["NoCommittedRevision"]


# --- on the page -----------------------------------------------------------------------------------------------------------------------

DUE = datetime(2026, 12, 24, 12, tzinfo=UTC)
"""The version has expired by then, and tonight's window is still to come."""


def foreseen(door: FrontDoor, now: datetime) -> list[tuple[str, str | None, str | None]]:
    seen = document_versions(door.world.releases.look().committed, door.world)
    return [(group.at, group.from_, group.to) for group in coming(seen, now)]


def test_the_pages_forecast_follows_an_update_within_the_hour(gardens: FrontDoor) -> None:
    assert foreseen(gardens, DUE) == [("2026-12-24T22:00:00Z", "1.32.9", "1.33.2")]
    documents = gardens.world.releases.look().committed
    assert documents is not None
    fleet = DocumentFleet(gardens.world.store, gardener(documents.gardener).clusters)
    assert fleet.apply("garden-shop/shop", VersionStep("controlPlane", "kubernetes", "1.32.9", "1.33.2"))
    assert foreseen(gardens, DUE) == []


@pytest.mark.parametrize("now", [DUE, DUE - timedelta(days=60)])
def test_the_pages_forecast_is_kept_for_the_hour_where_nothing_changed(
    gardens: FrontDoor, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    monkeypatch.setattr("functions.api.expiries._FORESEEN", {})
    first = foreseen(gardens, now)
    monkeypatch.setattr("shared.domain.versions.forecast.forecast", lambda *_: pytest.fail("forecast again"))
    assert foreseen(gardens, now + timedelta(minutes=20)) == first


def test_a_freeze_shuts_the_windows_of_the_pages_forecast(gardens: FrontDoor) -> None:
    freeze = """---
apiVersion: hullmark.dev/v1
kind: Freeze
metadata: {name: year-end}
spec: {from: "2026-12-20T00:00:00Z", until: "2027-01-02T00:00:00Z", change: versions, reason: sales}
"""
    assert gardens.stage(FLEET + freeze).status_code == 201
    assert gardens.post("/v1.0/commitconfigdocs").status_code == 200
    assert foreseen(gardens, DUE) == [("2027-01-02T22:00:00Z", "1.32.9", "1.33.2")]


def test_the_page_of_versions_names_live_fleets_that_do_not_answer_and_what_is_due_in_the_others(gardens: FrontDoor) -> None:
    gardens.world.open_fleet = unreachable
    gardens.now = DUE
    page = gardens.get("/versions").text
    for shown in ("the garden far does not answer", "1.32.9 → 1.33.2", "garden-shop/shop", "VersionExpired", "calendar.ics"):
        assert shown in page


def test_a_cluster_has_a_page_that_says_what_becomes_of_it(gardens: FrontDoor) -> None:
    gardens.world.open_fleet = unreachable
    gardens.now = DUE
    page = gardens.get("/versions/garden-shop/shop").text
    assert "In the window that opens on 2026-12-24 22:00 UTC and shuts on 2026-12-24 22:45 UTC: forced to 1.33.2" in page
    assert gardens.get("/versions/nobody").status_code == 404


def test_a_page_of_versions_without_documents_says_so(door: FrontDoor) -> None:
    answer = door.get("/versions")
    assert answer.status_code == 400
    assert "commit" in answer.text
