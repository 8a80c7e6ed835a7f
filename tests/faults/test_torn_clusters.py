"""An action over several clusters is cut off in its middle, and one of its records damaged: all else ends as if nothing had happened."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import timedelta

import pytest

from functions.result_rollup.main import sweep
from shared import telemetry, wiring
from shared.messages import DeadlineCheck, RelabelRequest
from tests.faults.test_torn import DAMAGES, PATTERNS, kind_of
from tests.stories.clusters import Clusters

KINDS = PATTERNS | {"count": r"actions/ID/counts/\d{4}-\d+-\d+-\d+"}
WHOLE = "01KAJ000000000000000000001"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    telemetry.write_to(None)
    yield
    wiring.install(None)


@functools.cache
def written() -> tuple[dict[str, bytes], tuple[str, ...], dict[str, str]]:
    """The store when east has ended and north and west have a plan; the keys of the whole and its parts; the ids of these."""
    telemetry.write_to(None)
    site = Clusters()
    site.sends(action=WHOLE, name="update_site", clusters=["*"])
    queue = site.cloud._queue
    for _ in range(4):  # the whole, then each cluster's request
        queue.sort()
        site.cloud._deliver(queue.pop(0))
    children = site.world.actions.request(WHOLE).children
    for _ in range(2):  # the nodes of east, then their result
        mine = sorted(waiting for waiting in queue if children["east"].encode() in waiting.message.data)
        queue.remove(mine[0])
        site.cloud._deliver(mine[0])
    assert site.children_ended(WHOLE) == ["east"]
    store = site.world.store
    found = {key: store.get(key) or b"" for key in store.keys("")}
    ids = (WHOLE, *children.values())
    return found, tuple(key for key in found if any(action in key for action in ids) and not key.startswith("releases/")), children


def copied(damaged: str, damage: str) -> Clusters:
    """The site on a store of its own, one object of it damaged, an hour before the deadlines."""
    objects, _, _ = written()
    site = Clusters(new=False)
    store = site.world.store
    for key, body in objects.items():
        kept = DAMAGES[damage](body) if key == damaged else body
        if kept is not None:
            store.create(key, kept)
    return site


def keys() -> list[str]:
    return list(written()[1])


def test_the_records_are_of_kinds_that_the_table_of_torn_objects_knows() -> None:
    assert {kind_of(key, KINDS) for key in keys()} == {"request", "plan", "part", "count", "outcome", "announced", "day", "open"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("damaged", keys(), ids=lambda key: key.replace(WHOLE, "WHOLE"))
def test_one_damaged_record_of_several_clusters_stops_nothing_but_itself(damaged: str, damage: str) -> None:
    site = copied(damaged, damage)
    children = written()[2]
    for action in (WHOLE, *children.values()):  # as a process that takes up what another one left
        if site.cloud.resume(action):
            site.cloud.drain()
    for _ in range(2):
        site.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
        site.cloud.drain()
        site.now += timedelta(hours=2)
    sweep(site.world, site.now + timedelta(days=2))
    site.cloud.drain()

    assert site.world.actions.open() == []
    assert not site.cloud.dead
    whole = site.world.actions.ended(WHOLE)
    if damage != "missing" or kind_of(damaged, KINDS) != "request":
        assert whole is not None
    racks = site.racks()
    spoilt = {cluster for cluster, child in children.items() if child in damaged}
    assert {cluster: rack for cluster, rack in racks.items() if rack != "r1 r1"}.keys() <= spoilt
    if whole and whole.result == "success":
        assert set(racks.values()) == {"r1 r1"}
    again = site.sends(name="update_site", clusters=["*"])
    site.cloud.drain()
    assert site.ended(again).result == "success"
    assert RelabelRequest.TOPIC not in {waiting.topic for waiting in site.cloud._queue}
