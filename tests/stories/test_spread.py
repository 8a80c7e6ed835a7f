"""Sweeps of many clusters are spread over the hour: each has its turn once, and never all of them at once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.relabel_request.main import NOT_YET, fan_out
from shared.domain.actions import action_id
from shared.domain.labels.sweeps import due
from shared.messages import Malformed, RelabelRequest
from tests.stories.fleet import Fleet, a_policy

HOUR = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def test_every_cluster_has_its_turn_once_an_hour_and_the_same_one_every_hour() -> None:
    clusters = [f"fleet-{number}" for number in range(10_000)]
    turns = [due(clusters, HOUR + timedelta(minutes=minute), 5) for minute in range(0, 60, 5)]
    assert Counter(name for turn in turns for name in turn) == dict.fromkeys(clusters, 1)
    assert max(map(len, turns)) < 1.15 * 10_000 / 12, "a twelfth at a time"
    assert due(clusters, HOUR + timedelta(hours=7, minutes=12), 5) == turns[2]


def test_a_clock_that_is_late_within_its_minutes_means_the_same_clusters() -> None:
    clusters = [f"fleet-{number}" for number in range(100)]
    assert due(clusters, HOUR + timedelta(minutes=14, seconds=59), 5) == due(clusters, HOUR + timedelta(minutes=10), 5)


def a_cluster(name: str) -> dict[str, Any]:
    access = {"simulated": {"name": "seed"}}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"access": access}}


def a_fleet_of(*clusters: str) -> Fleet:
    fleet = Fleet()
    fleet.world.settings = fleet.world.settings.model_copy(update={"cluster": ""})
    fleet.commits(a_policy("all", {}, {"rack": "r1"}), *map(a_cluster, clusters))
    return fleet


def swept(fleet: Fleet, at: datetime) -> list[str]:
    """The clusters that one message of the clock brings a sweep to."""
    fleet.now = at
    sent: list[RelabelRequest] = []
    fleet.cloud.publish = lambda _topic, messages: sent.extend(RelabelRequest.parse(message.data) for message in messages)  # type: ignore[method-assign,assignment]
    said = fan_out(RelabelRequest(name="drift_sweep", spread=5), action_id("1", at), fleet.world)
    assert (said == NOT_YET) == (not sent)
    assert all(request.spread is None for request in sent), "their turn has come: nobody asks again"
    return [request.cluster or "" for request in sent]


def test_the_clock_sweeps_those_whose_turn_it_is_and_all_of_them_within_the_hour() -> None:
    clusters = [f"fleet-{number}" for number in range(30)]
    fleet = a_fleet_of(*clusters)
    turns = [swept(fleet, HOUR + timedelta(minutes=minute)) for minute in range(0, 60, 5)]
    assert sorted(name for turn in turns for name in turn) == sorted(clusters)
    assert all(len(turn) < len(clusters) for turn in turns)


@pytest.mark.parametrize("clusters", [[], ["only"]])
def test_a_single_cluster_is_swept_in_one_of_the_hours_slots(clusters: list[str]) -> None:
    fleet = a_fleet_of(*clusters)
    request = RelabelRequest(name="drift_sweep", spread=5)
    said = [fan_out(request, action_id("1", HOUR + timedelta(minutes=minute)), fleet.world) for minute in range(0, 60, 5)]
    assert sorted(said) == [""] + [NOT_YET] * 11, "once it goes on as any sweep of one cluster does"


def test_a_person_who_asks_for_a_sweep_gets_it_now() -> None:
    fleet = a_fleet_of("east", "west")
    sent: list[RelabelRequest] = []
    fleet.cloud.publish = lambda _topic, messages: sent.extend(RelabelRequest.parse(message.data) for message in messages)  # type: ignore[method-assign,assignment]
    assert fan_out(RelabelRequest(name="drift_sweep"), action_id("1", HOUR), fleet.world) == "2 clusters"
    assert [request.cluster for request in sent] == ["east", "west"]


def test_a_share_of_an_hour_that_does_not_divide_it_is_refused() -> None:
    with pytest.raises(Malformed, match="spread"):
        RelabelRequest.parse(b'{"name": "drift_sweep", "spread": 7}')
