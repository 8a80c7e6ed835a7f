"""Every object of a rollout × every way to be damaged: nothing opens by what can't be read, and what is restored goes on."""

from __future__ import annotations

import contextlib
import functools
import re

import pytest

from shared import telemetry
from shared.domain.rollouts.progress import WrongPhase
from shared.ledger.records import RecordUnreadable
from shared.ledger.rollouts import UnknownRollout
from shared.work.intake import Rejected
from shared.work.rollouts import listed
from tests.api.conftest import FrontDoor
from tests.faults.test_torn import DAMAGES
from tests.rollouts.rolling import CANARY, HALF, Rolling

KINDS = {
    "state": r"rollouts/ID/\d{6}\.json",
    "index": r"rollouts/ID/places/[^/]+/index\.json",
    "share": r"rollouts/ID/places/[^/]+/\d{5}\.json",
    "asked": r"rollouts/ID/asked/.+",
    "told": r"rollouts/ID/told/.+",
    "head": r"rollout-heads/ID/\d{6}",
    "open": r"open-rollouts/ID",
}


class Shown(Rolling, FrontDoor):
    """A fleet with a rollout, looked at over HTTP."""


HARMLESS = ("asked", "told", "head", "open")
"""Marks and hints: a body says nothing, and one that is lost is made up for. An impact is counted again when somebody approves."""
EVERY = [f"n{number}" for number in range(10)]


@functools.cache
def written() -> tuple[str, dict[str, bytes]]:
    """A rollout whose canary is through, and which waits for an approval; its id, and all that is kept."""
    fleet = Rolling()
    fleet.ten_nodes(CANARY, HALF)
    fleet.starts()
    fleet.later(minutes=10)
    store = fleet.world.store
    return fleet.rollout, {key: store.get(key) or b"" for key in store.keys("")}


def kind_of(key: str) -> str:
    plain = key.replace(written()[0], "ID")
    return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, plain)), "")


def newest(kind: str) -> str:
    return max(key for key in written()[1] if kind_of(key) == kind)


def test_every_object_of_a_rollout_is_of_a_kind_that_is_damaged_here() -> None:
    rollout, found = written()
    assert {kind_of(key) for key in found if rollout in key} == set(KINDS)


def goes_on(fleet: Rolling) -> None:
    """Time passes, somebody approves, somebody sweeps."""
    for _ in range(2):
        fleet.later(minutes=10)
        with contextlib.suppress(WrongPhase, RecordUnreadable, UnknownRollout, Rejected):
            fleet.says("approve", "half")
    fleet.sends(name="drift_sweep")
    fleet.cloud.drain()
    fleet.later(hours=2)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_opens_by_what_can_not_be_read_and_what_is_restored_goes_on(kind: str, damage: str) -> None:
    telemetry.write_to(None)
    rollout, found = written()  # first, because the newest fleet is the one that functions work for
    fleet = Shown()
    torn = newest(kind)
    store = fleet.world.store
    for key in [*store.keys("")]:
        store.delete(key)
    for key, body in found.items():
        kept = DAMAGES[damage](body) if key == torn else body
        if kept is not None:
            store.create(key, kept)
    fleet.rollout = rollout
    goes_on(fleet)
    assert all(fleet.get(path).status_code == 200 for path in ("/", "/metrics", "/v1.0/rollouts", "/v1.0/actions"))
    assert not fleet.cloud.dead
    unread = kind not in HARMLESS and (kind == "share" or damage != "from the future")  # a share has no place for fields of others
    if unread:
        assert set(fleet.new()) <= {"n0"}, "something opened by what can't be read"
    store.delete(torn)
    store.create(torn, found[torn])
    if fleet.status.phase == "stopped":  # the batch that could not be read failed, and somebody decides
        assert unread
        assert fleet.status.reason == "BatchRefused"
        fleet.says("retry")
    for _ in range(4):
        goes_on(fleet)
    (status,) = listed(fleet.world, fleet.now)
    assert (status.phase, fleet.new()) == ("done", EVERY), status
