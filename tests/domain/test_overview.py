"""Which nodes are out of sync, according to the newest actions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.labels.impact import Impact
from shared.domain.outcomes import Outcome
from shared.domain.overview import causes, counted, in_short, out_of_sync, sync_of

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


WORDS = st.sampled_from(["changed", "unchanged", "missing", "skipped", "failed", "stopped", "waiting"])
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
    assert sync_of([(request, in_short(request, outcome)) for request, outcome in actions]) == sync_of(actions)


def bad(subject: str, word: str, reason: str = "", message: str = "") -> Outcome:
    return Outcome.model_validate({"subject": subject, "outcome": word, "reason": reason, "message": message})


def with_outcomes(action: Ended, *outcomes: Outcome, **told: Any) -> Ended:
    request, outcome = action
    counts = {"any": len(outcomes)} if outcomes else {}
    return request, outcome.model_copy(update={"outcomes": list(outcomes), "counts": counts, **told})


def blocked(name: str, nodes: int, **asked: Any) -> Ended:
    impact = Impact(cluster="c", nodes=200, changes=nodes, removals=nodes, removed={"rack": nodes})
    return with_outcomes(ended(name, {}, result="blocked", **asked), reason="TooManyRemovals", message="so many", impact=impact)


def test_a_node_that_changed_beside_a_conflict_is_out_of_sync_as_skipped() -> None:
    sweep = ended("update_site", {})
    found = sync_of([with_outcomes(sweep, bad("n1", "changed", "Conflict", "rack is 'r1' by kubectl"), bad("n2", "changed"))])
    assert [(node.outcome.subject, node.kind) for node in found.nodes] == [("n1", "skipped")]
    assert (found.count("skipped"), found.in_sync) == (1, 1)


def test_nodes_that_wait_for_the_limits_count() -> None:
    waiting = [bad(f"n{number}", "waiting", "LossLimit", f"n{number} would lose zone") for number in range(199)]
    found = sync_of([with_outcomes(ended("drift_sweep", {}), *waiting, bad("n199", "changed"))])
    assert (found.count(), found.count("waiting"), found.in_sync) == (199, 199, 1)


def test_nodes_of_a_blocked_action_count_until_an_action_goes_through() -> None:
    swept = ended("drift_sweep", {}, unchanged=tuple(f"n{number}" for number in range(200)))
    found = sync_of([swept, blocked("update_site", 199)])
    assert (found.count("waiting"), found.count(), found.in_sync) == (199, 199, 1)
    assert found.held[0].impact is not None
    assert found.held[0].impact.removed == {"rack": 199}

    accepted = ended("update_site", {}, unchanged=("n1", "n2"))
    assert sync_of([accepted, blocked("update_site", 199)]).count() == 0
    assert sync_of([ended("update_labels", {"n1": "changed"}), blocked("update_site", 199)]).count() == 199, "one node is no answer"
    assert sync_of([blocked("update_site", 199, dry_run=True)]).count() == 0


def test_a_cluster_that_could_not_be_read_is_told_without_a_number() -> None:
    down = with_outcomes(ended("drift_sweep", {}, result="failure"), reason="Unavailable", message="no route")
    found = sync_of([down, ended("update_site", {}, unchanged=("n1",))])
    assert [(held.kind, held.reason, held.nodes) for held in found.held] == [("failed", "Unavailable", 0)]
    assert sync_of([ended("update_site", {}, unchanged=("n1",)), down]).held == []


def test_causes_come_in_the_order_in_which_to_look_at_them() -> None:
    told = (bad("n1", "skipped", "Conflict"), bad("n2", "missing", "NodeNotFound"), bad("n3", "failed", "Forbidden"), bad("n4", "stopped"))
    found = causes(sync_of([with_outcomes(ended("update_site", {}), *told)]).nodes)
    assert [cause.kind for cause in found] == ["failed", "missing", "skipped", "waiting"]


def test_texts_that_differ_in_names_and_numbers_are_one_cause() -> None:
    refused = [bad(f"n{number}", "failed", "Forbidden", f"nodes n{number} is forbidden: {number} of 70") for number in range(70)]
    other = bad("m1", "failed", "Forbidden", "the webhook says no")
    found = causes(sync_of([with_outcomes(ended("update_site", {}), *refused, other)]).nodes)
    assert [len(cause.nodes) for cause in found] == [70, 1]
    assert len({cause.key for cause in found}) == 2


def test_a_reason_whose_nodes_all_have_texts_of_their_own_is_one_cause() -> None:
    told = [bad(f"n{number}", "failed", "Invalid", "x" * number) for number in range(50)]
    found = causes(sync_of([with_outcomes(ended("update_site", {}), *told)]).nodes)
    assert [len(cause.nodes) for cause in found] == [50]
