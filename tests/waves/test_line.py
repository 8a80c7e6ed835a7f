"""A version goes through a fleet in waves: from the clock to the answer of `rollout status`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared import telemetry, wiring
from shared.domain.documents.reading import DocumentsRefused
from shared.domain.rollouts.progress import Progress, WrongPhase
from shared.ledger.fleets import DocumentFleet
from shared.messages import RolloutStep
from shared.ports import Refused
from shared.work.intake import Rejected
from shared.work.rollouts import RolloutStatus, control, shown, start
from shared.work.versions import committed_versions
from tests.versions.test_functions import Site, cloud_profile, shoot

EVENING = datetime.fromisoformat("2026-11-21T22:10:00Z")
VERSIONS = [{"version": "1.30.4"}, {"version": "1.30.1"}]
STAGES = [{"name": "dev", "clusters": {"matchLabels": {"env": "dev"}}, "soak": "20h"}]


def rollout(stages: Any = None, **spec: Any) -> dict[str, Any]:
    body = {"change": "versions", "stages": STAGES if stages is None else stages, **spec}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Rollout", "metadata": {"name": "safe"}, "spec": body}


def a_shoot(name: str, env: str, version: str = "1.30.1") -> dict[str, Any]:
    return shoot(name, version, (), auto=True, labels={"env": env})


class Waved(Site):
    """A site whose versions go in waves."""

    def night(self, number: int, minutes: int = 0, **fields: Any) -> None:
        self.checks(EVENING + timedelta(days=number, minutes=minutes), **fields)

    def begun(self) -> Progress:
        progress = start("safe", "ada", self.world, self.now)
        self.cloud.drain()
        return progress

    def status(self) -> RolloutStatus:
        (rollout,) = self.world.rollouts.open()
        return shown(self.world.rollouts.get(rollout), self.world, self.now)

    def says(self, verb: Any, **more: Any) -> Progress:
        (rollout,) = self.world.rollouts.open()
        changed = control(rollout, verb, "ada", self.world, self.now, **more)
        self.cloud.drain()
        return changed

    def runs(self, *names: str) -> list[str | None]:
        return [self.live(f"garden/{name}").kubernetes for name in names]


@pytest.fixture
def site() -> Iterator[Waved]:
    telemetry.write_to(None)
    fleet = Waved()
    fleet.now = EVENING - timedelta(hours=4)
    yield fleet
    wiring.install(None)


def fleet_of(site: Waved, *more: dict[str, Any], document: dict[str, Any] | None = None) -> None:
    site.commits(cloud_profile(VERSIONS), a_shoot("d", "dev"), a_shoot("p", "prod"), *more, document or rollout())


def test_dev_goes_first_and_production_after_its_soak(site: Waved) -> None:
    fleet_of(site)
    site.begun()
    site.night(0)
    assert site.runs("d", "p") == ["1.30.4", "1.30.1"]
    site.night(0, 20)
    assert site.runs("p") == ["1.30.1"]
    site.night(1)
    assert site.runs("d", "p") == ["1.30.4", "1.30.4"]


def test_nothing_goes_before_somebody_starts_it_and_then_its_status_says_what_every_stage_runs_and_waits_for(site: Waved) -> None:
    fleet_of(site)
    site.night(0)
    assert site.runs("d", "p") == ["1.30.1", "1.30.1"]
    site.begun()
    site.night(0, 10)
    site.night(0, 20)
    status = site.status()
    assert status.change == "versions"
    assert [(stage.name, stage.state, stage.nodes, stage.reason) for stage in status.stages] == [
        ("dev", "through", 1, ""),
        ("rest", "waiting", 1, "Soaking"),
    ]
    assert status.stages[0].runs == ["p controlPlane: 1 on 1.30.4"]
    assert status.reason == "Soaking"
    assert status.until == site.now + timedelta(hours=20)


def test_a_paused_rollout_lets_nothing_go_until_it_is_resumed(site: Waved) -> None:
    fleet_of(site)
    site.begun()
    site.says("pause", message="broken images")
    site.night(0)
    assert site.runs("d") == ["1.30.1"]
    held = {each.held.reason for each in committed_versions(site.world, live=False).decisions(site.now).decisions if each.held}
    assert held == {"RolloutPaused"}
    site.says("resume")
    site.night(0, 10)
    assert site.runs("d") == ["1.30.4"]


def test_an_aborted_rollout_lets_nothing_go_until_it_is_started_again(site: Waved) -> None:
    fleet_of(site)
    first = site.begun()
    site.says("abort")
    site.night(0)
    assert site.runs("d") == ["1.30.1"]
    assert site.begun().id != first.id
    site.night(0, 10)
    assert site.runs("d") == ["1.30.4"]


def test_a_rollout_that_stands_is_not_started_twice(site: Waved) -> None:
    fleet_of(site)
    assert site.begun().id == site.begun().id


def test_what_people_are_asked_is_told_and_their_word_lets_it_go(site: Waved) -> None:
    fleet_of(site, document=rollout([{**STAGES[0], "approval": "after"}]))
    site.begun()
    site.night(0)
    site.night(0, 10)
    site.night(1)
    assert site.runs("p") == ["1.30.1"]
    assert (site.status().reason, site.status().stage) == ("AwaitingApproval", "dev")
    with pytest.raises(WrongPhase, match="on dev"):
        site.says("approve", stage="rest")
    asked = site.status().impact
    assert asked
    assert asked.versions == ["p controlPlane 1.30.4"]
    with pytest.raises(Rejected, match="nothing was approved"):
        site.says("approve", stage="dev", impact="of another version")
    site.says("approve", stage="dev", impact=asked.digest)
    site.night(1, 10)
    assert site.runs("p") == ["1.30.4"]


def test_a_question_is_told_again_after_a_day_and_a_week_and_lapses_after_thirty_days_until_it_is_asked_again(site: Waved) -> None:
    fleet_of(site, document=rollout([{**STAGES[0], "approval": "after"}]))
    site.begun()
    site.night(0)
    site.night(0, 10)
    site.night(1)
    asked = site.now

    def told(days: int) -> list[str]:
        """What was told about it by that day, once the rollout was looked at."""
        site.now = asked + timedelta(days=days)
        site.world.bus.publish(RolloutStep.TOPIC, [RolloutStep(rollout=site.world.rollouts.open()[0]).outgoing()])
        site.cloud.drain()
        return [str(each["reason"]) for each in site.notices("rollout.waits")]

    assert [len(told(days)) for days in (0, 0, 1, 3, 8, 29)] == [1, 1, 2, 2, 3, 3]
    assert told(31) == [*["AwaitingApproval"] * 3, "ApprovalExpired"]
    assert told(39)[3:] == ["ApprovalExpired"]
    assert site.status().reason == "ApprovalExpired"
    impact = site.status().impact
    assert impact
    with pytest.raises(WrongPhase, match="asks again"):
        site.says("approve", stage="dev", impact=impact.digest)
    site.says("retry")
    assert site.status().reason == "AwaitingApproval"
    site.says("approve", stage="dev", impact=impact.digest)
    site.night(45)
    assert site.runs("p") == ["1.30.4"]


def test_a_version_is_never_taken_back(site: Waved) -> None:
    fleet_of(site)
    site.begun()
    with pytest.raises(Rejected, match="cannot be taken back"):
        site.says("revert")


def test_a_commit_starts_a_rollout_that_says_so_and_the_next_one_finds_it_standing(site: Waved) -> None:
    fleet_of(site, document=rollout(start="onCommit"))
    site.cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
    site.cloud.drain()
    (first,) = site.world.rollouts.open()
    fleet_of(site, a_shoot("e", "dev"), document=rollout(start="onCommit"))
    site.cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
    site.cloud.drain()
    assert site.world.rollouts.open() == [first]
    assert site.world.rollouts.get(first).change == "versions"


def test_a_rollout_ends_with_its_document(site: Waved) -> None:
    fleet_of(site)
    progress = site.begun()
    site.commits(cloud_profile(VERSIONS), a_shoot("d", "dev"), a_shoot("p", "prod"))
    site.cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
    site.cloud.drain()
    assert site.world.rollouts.get(progress.id).phase == "aborted"
    site.night(0)
    assert site.runs("d", "p") == ["1.30.4", "1.30.4"]


def test_a_cluster_of_no_provider_keeps_nobody_waiting(site: Waved) -> None:
    nodes_only = {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "bare"}, "spec": {"access": {"inCluster": {}}}}
    fleet_of(site, nodes_only, document=rollout([{**STAGES[0], "soak": "5m"}]))
    site.begun()
    site.night(0)
    site.night(0, 10)
    site.night(0, 20)
    assert site.runs("d", "p") == ["1.30.4", "1.30.4"]


def test_a_plan_says_what_holds_each_version_and_which_one_is_taken_instead(site: Waved) -> None:
    fleet_of(site)
    site.begun()
    site.night(0)
    site.night(0, 10)
    entries = {each.cluster: each for each in committed_versions(site.world, live=False).decisions(site.now).decisions}
    held = entries["garden/p"].held
    assert held
    assert (held.reason, held.until) == ("Soaking", "2026-11-22T18:20:00Z")
    newer = [{"version": "1.30.6"}, *VERSIONS]
    site.commits(cloud_profile(newer), a_shoot("d", "dev"), a_shoot("p", "prod"), rollout())
    site.now += timedelta(hours=21)
    entries = {each.cluster: each for each in committed_versions(site.world, live=False).decisions(site.now).decisions}
    assert {name: each.to for name, each in entries.items()} == {"garden/d": "1.30.6", "garden/p": "1.30.4"}


def test_a_version_whose_update_was_refused_stops_there_until_somebody_has_it_tried_again(
    site: Waved, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet_of(site)
    site.begun()

    def refuses(*_: Any, **__: Any) -> bool:
        raise Refused("Forbidden", "quota")

    monkeypatch.setattr(DocumentFleet, "apply", refuses)
    site.night(0)
    monkeypatch.undo()
    site.night(1)
    assert site.runs("d", "p") == ["1.30.1", "1.30.1"]
    assert site.status().stages[0].failed == 1
    site.says("retry")
    site.night(1, 10)
    assert site.runs("d") == ["1.30.4"]


def test_what_is_known_can_be_lost_and_is_learned_anew(site: Waved) -> None:
    fleet_of(site)
    site.begun()
    site.night(0)
    site.night(0, 10)
    for key in list(site.world.store.keys("sightings/")):
        site.world.store.delete(key)
        site.world.store.create(key, b"{torn")
    site.night(1)
    assert site.runs("d", "p") == ["1.30.4", "1.30.1"], "nobody knows since when dev has been on it"
    site.night(2)
    assert site.runs("p") == ["1.30.4"]


def test_only_so_many_clusters_go_at_a_time(site: Waved) -> None:
    fleet_of(site, a_shoot("e", "dev"), document=rollout([{**STAGES[0], "maxInFlight": 1}]))
    site.begun()
    site.night(0)
    assert sorted(map(str, site.runs("d", "e"))) == ["1.30.1", "1.30.4"]
    site.night(0, 10)
    assert site.runs("d", "e") == ["1.30.4", "1.30.4"]


def test_a_version_that_expires_before_its_stage_goes_in_its_last_window_and_says_so(site: Waved) -> None:
    dated = [{"version": "1.30.4"}, {"version": "1.30.1", "expirationDate": "2026-11-23T12:00:00Z"}]
    site.commits(cloud_profile(dated), a_shoot("d", "dev"), a_shoot("p", "prod"), rollout())
    site.night(0)
    assert site.runs("d", "p") == ["1.30.1", "1.30.1"]
    site.night(1)
    assert site.runs("d", "p") == ["1.30.4", "1.30.4"]
    assert any("ExpiryBeforeStage" in each["message"] or "expires on" in each["message"] for each in site.notices("version.updated"))


def test_rollouts_of_versions_are_written_cluster_by_cluster(site: Waved) -> None:
    with pytest.raises(DocumentsRefused, match="cluster by cluster"):
        fleet_of(site, document=rollout([{"name": "dev", "nodes": {"names": ["n1"]}}]))
    with pytest.raises(DocumentsRefused, match="cannot be taken back"):
        fleet_of(site, document=rollout(onStop="revert"))
