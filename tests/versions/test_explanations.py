"""`versions why`: what becomes of a version, sentence by sentence, with dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.explanations import explained, sentences
from shared.domain.versions.held import Held, Waived
from shared.domain.versions.plans import ClusterPlan, Planner
from shared.domain.versions.profiles import Gardener
from shared.domain.versions.windows import parse_window
from tests.versions.shorthand import NOW, cluster, day, image, pool, profile

NIGHT = parse_window("220000+0000", "230000+0000")
SHUT = "In the window that opens on 2026-11-21 22:00 UTC and shuts on 2026-11-21 22:45 UTC"


def plan(running: FleetCluster, versions: Sequence[str], images: Sequence[str] = ("1.0.0",), hours: float = 0) -> ClusterPlan:
    fleet = Gardener(profiles={"p": profile(versions, image(list(images)))}, clusters={running.id: running})
    (planned,) = Planner(fleet).plan(NOW + timedelta(hours=hours))
    return planned


def control_plane(planned: ClusterPlan, hours: float = 0) -> list[str]:
    decision = next(each for each in planned.decisions if each.component == "controlPlane")
    return list(sentences(planned, decision, NOW + timedelta(hours=hours)))


def nightly(running: FleetCluster) -> FleetCluster:
    return replace(running, window=NIGHT)


def test_an_update_says_what_runs_when_that_expires_which_window_and_what_it_would_be_forced_to() -> None:
    assert control_plane(plan(nightly(cluster("1.32.5")), ["1.33.0", "1.32.9", "1.32.5 deprecated+30"])) == [
        "The control plane runs Kubernetes 1.32.5, which expires on 2026-12-21 12:00 UTC (in 30 days).",
        f"{SHUT}: updated to 1.32.9, because automatic updates are on.",
        "If it still runs 1.32.5 when that expires, it is forced to 1.32.9 in the window of 2026-12-21 22:00 UTC.",
    ]


def test_a_forced_update_says_so_and_why() -> None:
    assert control_plane(plan(nightly(cluster("1.32.5", auto=False)), ["1.33.0", "1.32.5 expired"])) == [
        "The control plane runs Kubernetes 1.32.5, which expired on 2026-11-20 12:00 UTC (1 day ago).",
        f"{SHUT}: forced to 1.33.0, because 1.32.5 has expired.",
    ]


def test_a_version_that_the_profile_lacks_has_no_end_but_a_cause() -> None:
    assert control_plane(plan(nightly(cluster("1.32.4")), ["1.32.9"])) == [
        "The control plane runs Kubernetes 1.32.4, which the profile does not offer.",
        f"{SHUT}: updated to 1.32.9, because the profile does not offer 1.32.4.",
    ]


def test_what_stays_says_why_and_what_its_end_will_bring() -> None:
    assert control_plane(plan(nightly(cluster("1.32.9", auto=False)), ["1.33.0", "1.32.9 supported+0.5"])) == [
        "The control plane runs Kubernetes 1.32.9, which expires on 2026-11-22 00:00 UTC (within a day).",
        "No window changes it: the version has not expired and automatic updates are off; it is updated when it expires.",
        "If it still runs 1.32.9 when that expires, it is forced to 1.33.0 in the window of 2026-11-22 22:00 UTC.",
    ]


def test_a_dead_end_is_foretold_and_told() -> None:
    ahead = control_plane(plan(nightly(cluster("1.32.9")), ["1.34.0", "1.32.9 supported+30"]))
    assert ahead[-1] == "If it still runs 1.32.9 when that expires, there is nothing to be forced to: it will be stuck."
    now = control_plane(plan(nightly(cluster("1.32.9")), ["1.34.0", "1.32.9 expired"]))
    assert now[-1].startswith("It should be updated and cannot be: the profile has no version in the next minor")


@pytest.mark.parametrize(
    ("running", "hours", "when"),
    [
        (nightly(cluster("1.32.5")), 10.5, "In the window that is open now and shuts on 2026-11-21 22:45 UTC"),
        (cluster("1.32.5"), 0, "At any time, because the cluster has no window"),
        (replace(nightly(cluster("1.32.5")), maintain=True), 0, "At once, as a person asked"),
    ],
)
def test_the_window_is_the_one_in_which_it_happens(running: FleetCluster, hours: float, when: str) -> None:
    assert control_plane(plan(running, ["1.32.9", "1.32.5"], hours=hours), hours)[1].startswith(f"{when}: updated to 1.32.9")


def test_what_holds_it_back_is_said_with_its_end() -> None:
    planned = plan(nightly(cluster("1.32.5")), ["1.32.9", "1.32.5"])
    (decision,) = planned.decisions
    held = replace(decision, held=Held("Frozen", "the freeze year-end holds updates back", day(40)))
    assert list(sentences(planned, held, NOW))[-1] == (
        "That is held back until 2026-12-31 12:00 UTC (Frozen): the freeze year-end holds updates back."
    )
    waived = replace(decision, waived=Waived("ExpiryBeforeStage", "1.32.5 expires first"))
    assert list(sentences(planned, waived, NOW))[-1] == (
        "It goes although something would hold it back (ExpiryBeforeStage): 1.32.5 expires first."
    )


def test_a_pool_and_its_image_are_named() -> None:
    planned = plan(nightly(cluster("1.33.0", pool("1.0.0", "1.32.9"))), ["1.33.0", "1.32.9"], ["1.1.0", "1.0.0"])
    first = [next(sentences(planned, decision, NOW)) for decision in planned.decisions]
    assert first == [
        "Pool w runs machine image linux 1.0.0, which does not expire.",
        "The control plane runs Kubernetes 1.33.0, which does not expire.",
        "Pool w runs Kubernetes 1.32.9, which does not expire.",
    ]


def test_a_cluster_without_a_version_is_explained_too() -> None:
    planned = plan(replace(cluster(""), kubernetes=None), ["1.33.0"])
    assert control_plane(planned) == [
        "The control plane names no version: the document names no version; the server chooses one when the cluster is created."
    ]


def test_a_profile_that_is_not_there_is_a_sentence_and_no_crash() -> None:
    (planned,) = Planner(Gardener(clusters={"garden/c": cluster("1.32.5")})).plan(NOW)
    answer = explained(planned, None, NOW)
    assert answer.decisions[0].sentences[0].endswith("1.32.5, and nobody knows when that expires.")
    assert answer.decisions[0].sentences[1].startswith("It should be updated and cannot be: the documents hold no such CloudProfile")
