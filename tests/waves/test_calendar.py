"""The calendar goes on with rollouts for versions: a cluster moves when its stage may open."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.versions.groups import ClusterFilter
from shared.domain.versions.ics import calendar_bytes
from shared.work.versions import committed_versions
from tests.waves.test_line import STAGES, Waved, a_shoot, fleet_of, rollout, site  # noqa: F401 - the fixture

EVERYBODY = ClusterFilter()


def foretold(site: Waved, wanted: ClusterFilter = EVERYBODY) -> list[str]:  # noqa: F811
    events = committed_versions(site.world, live=False).calendar(site.now, None, wanted).events
    return [
        f"{event.at[5:16]} {event.cluster.partition('/')[2]} {event.held.reason if event.held else event.to}"
        for event in events
        if event.component == "controlPlane"
    ]


def test_a_cluster_moves_when_its_stage_may_open_and_then_it_does(site: Waved) -> None:  # noqa: F811
    fleet_of(site)
    site.begun()
    told = foretold(site)
    assert told == ["11-21T22:00 d 1.30.4", "11-22T22:00 p 1.30.4"]
    site.night(0)
    assert site.runs("d", "p") == ["1.30.4", "1.30.1"]
    site.night(0, 20)
    site.night(1)
    assert site.runs("d", "p") == ["1.30.4", "1.30.4"]


def test_one_cluster_alone_is_told_what_it_is_told_among_all(site: Waved) -> None:  # noqa: F811
    fleet_of(site)
    site.begun()
    assert foretold(site, ClusterFilter(cluster="p")) == ["11-22T22:00 p 1.30.4"]
    explained = committed_versions(site.world, live=False).why("p", site.now)
    assert [event.at for event in explained.events if event.component == "controlPlane"] == ["2026-11-22T22:00:00Z"]


def test_only_so_many_are_foretold_for_one_window_as_may_go_at_a_time(site: Waved) -> None:  # noqa: F811
    fleet_of(site, a_shoot("e", "dev"), a_shoot("f", "dev"), document=rollout([{**STAGES[0], "maxInFlight": 1}]))
    site.begun()
    told = foretold(site)
    assert [line[:5] for line in told] == ["11-21", "11-22", "11-23", "11-24"]
    assert told[-1] == "11-24T22:00 p 1.30.4"


def test_what_waits_for_a_person_is_told_as_that(site: Waved) -> None:  # noqa: F811
    fleet_of(site, document=rollout([STAGES[0], {"name": "prod", "clusters": {"matchLabels": {"env": "prod"}}, "approval": "before"}]))
    site.begun()
    assert foretold(site) == ["11-21T22:00 d 1.30.4", "11-21T22:00 p WaitingForStage", "11-22T22:00 p AwaitingApproval"]


def test_what_was_never_started_and_what_is_paused_lets_nothing_go(site: Waved) -> None:  # noqa: F811
    fleet_of(site)
    assert foretold(site) == ["11-21T22:00 d WaitingForStage", "11-21T22:00 p WaitingForStage"]
    site.begun()
    site.says("pause", message="broken images")
    assert foretold(site) == ["11-21T22:00 d RolloutPaused", "11-21T22:00 p RolloutPaused"]


def test_an_entry_to_subscribe_to_is_the_same_one_when_its_stage_moves_it(site: Waved) -> None:  # noqa: F811
    fleet_of(site)

    def entries() -> dict[str, str]:
        coming = committed_versions(site.world, live=False).calendar(site.now, None)
        lines = calendar_bytes(coming.events, site.now).decode().split("\r\n")
        return dict(zip((each for each in lines if each.startswith("UID")), (each for each in lines if "DTSTART" in each), strict=True))

    site.begun()
    before = entries()
    site.now += timedelta(days=1)
    after = entries()
    assert before.keys() == after.keys()
    assert before != after
