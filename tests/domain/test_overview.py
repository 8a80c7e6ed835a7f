"""Which nodes are out of sync, according to the newest actions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.outcomes import Outcome
from shared.domain.overview import counted, in_short, out_of_sync

NOW = datetime(2026, 11, 21, tzinfo=UTC)
Ended = tuple[ActionRequest, ActionOutcome]


def ended(
    name: str, told: dict[str, str], *, cluster: str = "c", unchanged: tuple[str, ...] = (), result: str = "success", **asked: Any
) -> Ended:
    """An action that ended with these outcomes: node to word."""
    request = ActionRequest(id=name, name=name, cluster=cluster, revision=1, requested_by="ada", requested_at=NOW, deadline=NOW, **asked)
    outcomes = [Outcome.model_validate({"subject": node, "outcome": word}) for node, word in told.items()]
    counts = {"any": len(outcomes) + len(unchanged)} if outcomes or unchanged else {}
    known: Any = result
    return request, ActionOutcome(result=known, finished_at=NOW, revision=1, counts=counts, outcomes=outcomes, unchanged=list(unchanged))


def names(*newest_first: Ended) -> list[str]:
    return [bad.outcome.subject for bad in out_of_sync(newest_first)]


def test_the_newest_outcome_of_a_node_counts() -> None:
    assert names(ended("update_labels", {"n1": "changed"}), ended("update_labels", {"n1": "failed", "n2": "missing"})) == ["n2"]
    assert names(ended("update_labels", {"n1": "failed"}), ended("update_labels", {"n1": "changed"})) == ["n1"]
    assert names(ended("update_labels", {}, unchanged=("n1",)), ended("update_labels", {"n1": "stopped"})) == []


def test_an_action_on_the_whole_site_ends_what_older_ones_said_of_its_cluster() -> None:
    older = ended("update_labels", {"left-the-fleet": "missing"})
    elsewhere = ended("update_labels", {"n9": "skipped"}, cluster="other")
    assert names(ended("drift_sweep", {"n1": "failed"}), older, elsewhere) == ["n1", "n9"]


def test_a_sweep_that_never_came_to_a_plan_ends_nothing() -> None:
    assert names(ended("update_site", {}, result="failure"), ended("update_labels", {"n1": "failed"})) == ["n1"]


def test_dry_runs_and_versions_say_nothing_of_nodes() -> None:
    assert names(ended("update_labels", {"n1": "failed"}, dry_run=True), ended("update_versions", {"controlPlane": "failed"})) == []


def test_actions_are_counted_by_name_and_result() -> None:
    found = counted([ended("update_labels", {}), ended("update_labels", {}), ended("update_site", {}, result="expired")])
    assert found == {("update_labels", "success"): 2, ("update_site", "expired"): 1}


WORDS = st.sampled_from(["changed", "unchanged", "missing", "skipped", "failed", "stopped"])
ACTIONS = st.lists(
    st.builds(
        ended,
        st.sampled_from(["update_labels", "relabel_nodes", "update_site", "drift_sweep"]),
        st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), WORDS),
        cluster=st.sampled_from(["c", "d"]),
        unchanged=st.sampled_from([(), ("n4",), ("n4", "n5")]),
        dry_run=st.booleans(),
    ),
    max_size=6,
)


@given(ACTIONS)
def test_an_outcome_in_short_says_the_same_of_the_fleet(actions: list[Ended]) -> None:
    assert out_of_sync([(request, in_short(request, outcome)) for request, outcome in actions]) == out_of_sync(actions)
