"""'Not this week' for one cluster: put off with a reason, limited by what expires, taken back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.domain.versions.answers import UnknownFleetCluster
from shared.ledger.actions import WrongState
from shared.ledger.deferrals import KEPT, MONTH, Deferral
from shared.work.deferrals import LONGEST, cancel, defer, deferrals
from shared.work.intake import Rejected
from shared.work.versions import committed_versions
from tests.versions.test_functions import EVENING, Site, cloud_profile, shoot, site  # noqa: F401 - the fixture
from tests.versions.test_version_holds import planned

WEEK = EVENING + timedelta(days=7)
ON_ITS_PATCH = [{"version": "1.28.1"}, {"version": "1.28.4"}, {"version": "1.29.0"}]
EXPIRING = [{"version": "1.28.1", "expirationDate": "2026-11-24T12:00:00Z"}, {"version": "1.29.0"}]
"""The last window before begins on 2026-11-23 at 22:00."""


def put_off(site: Site, until: datetime = WEEK, name: str = "garden/s") -> None:  # noqa: F811
    defer(name, until, "quarter-end", "ada", site.world, EVENING)


def at(day: int) -> datetime:
    return EVENING.replace(day=day)


def test_a_cluster_that_is_put_off_stays_until_then_and_the_others_go(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(ON_ITS_PATCH), shoot("s", "1.28.1", (), auto=True), shoot("t", "1.28.1", (), auto=True))
    put_off(site)
    site.checks(EVENING)
    assert (site.versions("garden/s"), site.versions("garden/t")) == (["1.28.1"], ["1.28.4"])
    held = planned(site).held
    assert held
    assert (held.reason, held.message, held.until) == ("Deferred", "ada put it off: quarter-end", "2026-11-28T22:10:00Z")
    site.checks(WEEK + timedelta(minutes=1))
    assert site.versions("garden/s") == ["1.28.4"]


def test_what_expires_before_goes_in_its_last_window_before_and_says_so(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(EXPIRING), shoot("s", "1.28.1", ()))
    said = defer("s", WEEK, "quarter-end", "ada", site.world, EVENING)
    (limit,) = said.limits
    assert (said.cluster, limit.version, limit.goes, limit.forcedTo) == ("garden/s", "1.28.1", "2026-11-23T22:00:00Z", "1.29.0")
    for day in (21, 22):
        site.checks(at(day))
        assert site.versions() == ["1.28.1"]
    site.checks(at(23))
    assert site.versions() == ["1.29.0"]
    (told,) = site.notices("version.updated")
    assert "ExpiryBeforeDeferralEnds" in told["message"]


def test_what_has_expired_is_put_off_by_nobody(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    put_off(site)
    site.checks(EVENING)
    assert site.versions()[0] == "1.28.1"


def test_neither_does_a_forced_window_pass_a_deferral(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(ON_ITS_PATCH), shoot("s", "1.28.1", (), auto=True))
    put_off(site)
    site.checks(EVENING, force_window=True, clusters=["garden/s"])
    assert site.versions() == ["1.28.1"]


def test_a_deferral_is_taken_back_once(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(ON_ITS_PATCH), shoot("s", "1.28.1", (), auto=True))
    put_off(site)
    assert [each.cluster for each in deferrals(site.world, EVENING).deferrals] == ["garden/s"]
    cancel("s", "bo", site.world, EVENING)
    assert deferrals(site.world, EVENING).deferrals == []
    with pytest.raises(WrongState, match="not put off"):
        cancel("garden/s", "bo", site.world, EVENING)
    site.checks(EVENING)
    assert site.versions() == ["1.28.4"]


def test_a_deferral_of_a_cluster_that_is_gone_can_be_taken_back(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    put_off(site)
    site.commits(cloud_profile(), shoot("other"))
    assert cancel("garden/s", "bo", site.world, EVENING).until == EVENING


@pytest.mark.parametrize(
    ("until", "reason"), [(EVENING, "x"), (EVENING - timedelta(days=1), "x"), (EVENING + LONGEST + timedelta(1), "x"), (WEEK, " ")]
)
def test_a_deferral_has_a_reason_and_ends_in_the_future_and_not_years_ahead(site: Site, until: datetime, reason: str) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    with pytest.raises(Rejected):
        defer("s", until, reason, "ada", site.world, EVENING)
    assert site.world.store.keys("deferrals/") == []


def test_a_cluster_that_nobody_knows_is_refused(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    with pytest.raises(UnknownFleetCluster):
        put_off(site, name="garden/other")


def test_a_torn_word_holds_its_cluster_alone_until_a_new_one_heals_it(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(ON_ITS_PATCH), shoot("s", "1.28.1", (), auto=True), shoot("t", "1.28.1", (), auto=True))
    site.world.store.create("deferrals/garden%2Fs/000001.json", b"{tor")
    site.checks(EVENING)
    assert (site.versions("garden/s"), site.versions("garden/t")) == (["1.28.1"], ["1.28.4"])
    held = planned(site).held
    assert held
    assert (held.until, "000001.json" in held.message) == (None, True)
    cancel("garden/s", "bo", site.world, EVENING)
    site.checks(EVENING + timedelta(minutes=10))
    assert site.versions("garden/s") == ["1.28.4"]


def test_words_are_kept_only_so_many_and_not_for_ever(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(), shoot())
    for minute in range(KEPT + 4):
        site.world.deferrals.say("garden/s", Deferral(until=WEEK, by="ada", at=EVENING + timedelta(minutes=minute)))
    assert len(site.world.store.keys("deferrals/")) == KEPT
    site.checks(WEEK + MONTH - timedelta(hours=1))
    assert len(site.world.store.keys("deferrals/")) == KEPT
    site.checks(WEEK + MONTH + timedelta(hours=1))
    assert site.world.store.keys("deferrals/") == []


def test_of_two_who_speak_at_one_moment_one_is_told(site: Site) -> None:  # noqa: F811
    ledger, store = site.world.deferrals, site.world.store
    keys = store.keys

    def somebody_is_faster(prefix: str, *more: Any) -> list[str]:
        found = keys(prefix, *more)
        store.create("deferrals/c/000001.json", Deferral(until=WEEK, by="bo", at=EVENING).to_bytes())
        return list(found)

    store.keys = somebody_is_faster  # type: ignore[method-assign, assignment]
    with pytest.raises(WrongState, match="somebody else"):
        ledger.say("c", Deferral(until=WEEK, by="ada", at=EVENING))


def test_the_calendar_knows_what_is_put_off_and_what_expires_before(site: Site) -> None:  # noqa: F811
    site.commits(cloud_profile(ON_ITS_PATCH), shoot("s", "1.28.1", (), auto=True))
    put_off(site)
    (event,) = committed_versions(site.world, live=False).calendar(EVENING, 30).events
    assert (event.at, event.to, event.held) == ("2026-11-28T22:10:00Z", "1.28.4", None)
    site.commits(cloud_profile(EXPIRING), shoot("s", "1.28.1", ()))
    (event,) = committed_versions(site.world, live=False).calendar(EVENING, 30).events
    assert (event.at, event.to) == ("2026-11-23T22:00:00Z", "1.29.0")
