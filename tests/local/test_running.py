"""What a forwarder says of itself: to people who watch it, to a kubelet, to Prometheus."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from local.cli.events import say
from local.cloud.election import Alone, Election
from local.cloud.forwarder import Forwarder
from local.cloud.probes import Probes
from local.cloud.repairs import lines
from local.cloud.running import DEAD_SECONDS, STUCK_SECONDS, Running
from shared.domain.exposition import exposition
from shared.domain.leases import Terms
from shared.domain.nodes import Node
from shared.domain.notices import CONFLICT_DETECTED
from shared.domain.outcomes import Changes, Outcome
from shared.messages import Notice, PartResult
from tests.local.test_election import Clock, Shared
from tests.local.test_forwarder import Bus, Source

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def watching(clock: Clock) -> Forwarder:
    return Forwarder("blue", Source([[Node("n1", "u", {}), Node("n2", "v", {})]]), Bus(), monotonic=clock)


def test_repairs_and_conflicts_are_told_and_nothing_else() -> None:
    outcomes = [
        Outcome(subject="n1", outcome="changed", changes=Changes(set={"rack": "r7"}, remove=["old"])),
        Outcome(subject="n2", outcome="unchanged"),
        Outcome(subject="n3", outcome="failed", reason="Refused", message="no right"),
    ]
    fight = Notice(id="1", type=CONFLICT_DETECTED.type, subject="blue/n4", time=NOW, data={"message": "n4: two write rack"})
    other = Notice(id="2", type="action.finished", subject="x", time=NOW, data={})

    assert lines(PartResult.TOPIC, PartResult(outcomes=outcomes).outgoing()) == ["n1 changed: rack=r7, old removed", "n3 failed: no right"]
    assert lines(Notice.TOPIC, fight.outgoing()) == ["conflict: n4: two write rack"]
    assert lines(Notice.TOPIC, other.outgoing()) == []


def test_a_field_managers_name_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("conflict: rack ([/bold] \x1b[2J[red]" + "x" * 200 + ")")

    assert capsys.readouterr().err == "conflict: rack ([/bold] \ufffd[2J[red]" + "x" * 200 + ")\n"


def test_one_that_stands_by_is_ready_once_it_has_read_the_lease() -> None:
    shared, clock = Shared(), Clock()
    Election(shared, "another", Terms(), monotonic=clock).step()
    election = Election(shared, "me", Terms(), monotonic=clock)
    running = Running(election, clock)

    assert not running.ready()
    election.step()
    assert running.ready()


def test_the_active_one_is_ready_once_it_has_listed() -> None:
    running = Running(Alone(), Clock())
    assert not running.ready()
    running.forwarder = watching(Clock())
    assert not running.ready()
    running.forwarder.round("")
    assert running.ready()


def test_one_that_hangs_is_not_alive() -> None:
    clock, watch_clock = Clock(), Clock()
    running = Running(Alone(), clock, watching(watch_clock))
    clock.at = STUCK_SECONDS - 1
    assert running.alive()
    clock.at += 1
    assert not running.alive()

    running.stepped(True)
    assert running.alive()
    watch_clock.at = DEAD_SECONDS
    assert not running.alive()


def test_its_metrics_say_whether_it_is_active_and_what_it_did() -> None:
    clock = Clock()
    running = Running(Alone(), clock, watching(clock))
    assert running.forwarder
    running.forwarder.round("")
    clock.at = 7.0

    text = exposition(running.metrics())

    assert [line for line in text.splitlines() if line.startswith("hullmark_forwarder_")] == [
        "hullmark_forwarder_active 1",
        "hullmark_forwarder_nodes 2",
        "hullmark_forwarder_silent_seconds 7",
        "hullmark_forwarder_published_total 2",
        "hullmark_forwarder_listings_total 1",
        "hullmark_forwarder_pauses_total 0",
    ]


@pytest.fixture
def probes() -> Iterator[Probes]:
    served = Probes("127.0.0.1", 0, lambda: True, lambda: False, Running(Alone(), Clock()).metrics)
    yield served
    served.close()


@pytest.mark.parametrize(("path", "status"), [("/livez", 200), ("/readyz", 503), ("/metrics", 200), ("/", 404), ("/livez?verbose", 200)])
def test_a_kubelet_is_answered(probes: Probes, path: str, status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", probes.port, timeout=60)
    with closing(connection):
        connection.request("GET", path)
        assert connection.getresponse().status == status
