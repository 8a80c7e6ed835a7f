"""A fleet that moves several versions of a cluster with one write: all of them go or none, and what moved meanwhile is left out."""

from __future__ import annotations

from collections.abc import Sequence

from functions.version_apply.main import carry_out
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.ledger.fleets import guarded
from shared.ports import ClusterError, FleetAtOnce, Refused, Unavailable
from tests.versions.shorthand import cluster, pool
from tests.versions.test_fleets import LiveGarden

IMAGE = VersionStep("worker/w", "machineImage", "1.0.0", "1.2.0")
CONTROL_PLANE = VersionStep("controlPlane", "kubernetes", "1.27.3", "1.28.1")
POOL = VersionStep("worker/w", "kubernetes", "1.27.3", "1.28.1")
RUNNING = cluster("1.27.3", pool("1.0.0", "1.27.3"))


class AtOnce(LiveGarden):
    """A garden that keeps every write that it is asked for."""

    def __init__(self, running: FleetCluster = RUNNING, refusal: ClusterError | None = None) -> None:
        super().__init__()
        self.there.clusters[running.id] = running
        self.refusal = refusal
        self.writes: list[list[str]] = []

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        if step.version_in(self.there.clusters[name]) != step.to:
            raise AssertionError(f"{step.key} by itself")
        return False

    def apply_at_once(self, name: str, steps: Sequence[VersionStep], *, dry_run: bool = False) -> Sequence[str]:
        self.writes.append([f"{'dry run ' * dry_run}{step.key}" for step in steps])
        if self.refusal:
            raise self.refusal
        return ["an old field was removed"]


def outcomes(fleet: AtOnce, steps: list[VersionStep], left: float = 60) -> dict[str, tuple[str, str]]:
    running = fleet.there.clusters["garden/c"]
    return {each.subject: (each.outcome, each.reason) for each in carry_out(steps, fleet, running, lambda: left)}


def test_all_steps_go_with_one_write_that_is_asked_for_as_a_dry_run_first() -> None:
    fleet = AtOnce()
    told = list(carry_out([IMAGE, CONTROL_PLANE, POOL], guarded(fleet), RUNNING, lambda: 60))
    keys = [IMAGE.key, CONTROL_PLANE.key, POOL.key]
    assert fleet.writes == [[f"dry run {key}" for key in keys], keys]
    assert [(each.outcome, each.message) for each in told] == [
        ("changed", "1.0.0 → 1.2.0"),
        ("changed", "1.27.3 → 1.28.1; an old field was removed"),
        ("changed", "1.27.3 → 1.28.1"),
    ]


def test_a_refusal_is_everybodys_and_nothing_is_written() -> None:
    fleet = AtOnce(refusal=Refused("Invalid", "no"))
    assert outcomes(fleet, [IMAGE, CONTROL_PLANE]) == {IMAGE.key: ("failed", "Invalid"), CONTROL_PLANE.key: ("failed", "Invalid")}
    assert len(fleet.writes) == 1


def test_a_fleet_that_is_busy_is_asked_again_by_the_next_check() -> None:
    busy = Unavailable("busy")
    busy.reason = "UpdateRunning"
    assert outcomes(AtOnce(refusal=busy), [IMAGE]) == {IMAGE.key: ("skipped", "UpdateRunning")}


def test_what_an_earlier_delivery_moved_is_told_and_left_out() -> None:
    fleet = AtOnce(RUNNING.with_versions({("worker/w", "machineImage"): "1.2.0"}))
    assert outcomes(fleet, [IMAGE, CONTROL_PLANE])[IMAGE.key] == ("changed", "AlreadyDone")
    assert fleet.writes[-1] == [CONTROL_PLANE.key]


def test_a_pool_whose_control_plane_moved_elsewhere_does_not_go_above_it() -> None:
    class Moved(AtOnce):
        def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
            raise Refused("Stale", "moved")

    fleet = Moved(RUNNING.with_versions({("controlPlane", "kubernetes"): "1.27.9"}))
    told = outcomes(fleet, [IMAGE, CONTROL_PLANE, POOL])
    assert told[POOL.key] == ("skipped", "ControlPlaneBehind")
    assert fleet.writes[-1] == [IMAGE.key]


def test_without_time_nothing_is_written() -> None:
    fleet = AtOnce()
    assert outcomes(fleet, [IMAGE], left=0) == {IMAGE.key: ("failed", "TimeBudgetSpent")}
    assert fleet.writes == []


def test_only_a_fleet_that_can_is_asked_to_write_at_once() -> None:
    assert isinstance(guarded(AtOnce()), FleetAtOnce)
    assert not isinstance(guarded(LiveGarden()), FleetAtOnce)
