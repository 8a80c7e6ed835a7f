"""The state of a cluster's releases: what each act does to each node, in any order, and what taking back leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.labels.releases import (
    UNRELEASED,
    Act,
    Mark,
    State,
    overridden,
    taken_back,
    to_all,
    to_names,
    without_override,
)

NODES = ("n1", "n2", "n3")


def never(_: str) -> bool:
    return False


def always(_: str) -> bool:
    return True


def revisions(state: State) -> tuple[int, ...]:
    return tuple(state.mark(node).revision for node in NODES)


def released(revision: int, k: int = 1, action: str = "a") -> State:
    return to_all(State(), Act(k, revision, action), always, under="")


def test_a_node_of_a_new_cluster_is_unreleased() -> None:
    assert State().mark("n1") == UNRELEASED
    assert not State().mark("n1").released


def test_a_site_action_releases_to_every_node_also_to_one_that_nobody_has_seen_yet() -> None:
    assert revisions(released(3)) == (3, 3, 3)


def test_a_targeted_action_releases_to_its_nodes_alone() -> None:
    assert revisions(to_names(released(3), Act(2, 4, "b"), ["n2"], always)) == (3, 4, 3)


@pytest.mark.parametrize("whole", [True, False])
def test_an_act_never_lowers_a_nodes_revision(whole: bool) -> None:
    state = to_names(released(3), Act(2, 5, "b"), ["n2"], always)
    late = Act(3, 4, "c")
    after = to_all(state, late, always, under="2") if whole else to_names(state, late, NODES, always)
    assert revisions(after) == (4, 5, 4)


def test_an_act_that_changes_nothing_leaves_the_state_as_it_is() -> None:
    state = to_names(released(3), Act(2, 5, "b"), ["n2"], always)
    assert to_all(state, Act(3, 3, "c"), always, under="2") is state
    assert to_all(state, Act(3, 2, "c"), always, under="2") is state
    assert to_names(state, Act(3, 3, "c"), NODES, always) is state


def test_an_override_holds_until_the_next_release_of_its_node_and_of_no_other() -> None:
    state = overridden(released(3), 2, "n1", "o", always)
    assert state.mark("n1").same(Mark(3, "o"))
    assert to_names(state, Act(3, 3, "b"), ["n2"], always).mark("n1").override == "o"
    assert to_names(state, Act(3, 3, "b"), ["n1"], always).mark("n1").same(Mark(3))
    assert to_all(state, Act(3, 3, "b"), always, under="2").mark("n1").same(Mark(3))


def test_an_older_revision_does_not_end_an_override() -> None:
    state = overridden(released(3), 2, "n1", "o", always)
    assert to_names(state, Act(3, 2, "late"), ["n1"], always) is state


def test_an_override_that_is_taken_back_leaves_what_was_there_before() -> None:
    state = to_names(released(3), Act(2, 4, "b"), ["n1"], always)
    assert without_override(overridden(state, 3, "n1", "o", always), "n1", "o").mark("n1") == Mark(4, "", 2)
    again = overridden(overridden(state, 3, "n1", "o", always), 4, "n1", "newer", always)
    assert without_override(again, "n1", "o").mark("n1").override == "newer"


def test_a_stopped_site_action_leaves_its_revision_to_the_nodes_that_it_reached() -> None:
    before = to_names(released(3), Act(2, 4, "b"), ["n3"], always)
    act = Act(3, 5, "site")
    stopped = taken_back(to_all(before, act, always, under="2"), act, {"n1"}, before)
    assert revisions(stopped) == (5, 3, 4)
    assert stopped.mark("a node that joins later").revision == 3


def test_a_stopped_targeted_action_leaves_its_revision_to_the_nodes_that_it_reached() -> None:
    act = Act(2, 5, "b")
    stopped = taken_back(to_names(released(3), act, ["n1", "n2"], never), act, {"n1"}, None)
    assert revisions(stopped) == (5, 3, 3)


def test_the_second_of_two_actions_is_stopped_first_and_the_first_one_after_it() -> None:
    first, second = Act(2, 4, "first"), Act(3, 5, "second")
    state = to_names(to_names(released(3), first, NODES, never), second, NODES, never)
    state = taken_back(state, second, {"n2"}, None)
    assert revisions(state) == (4, 5, 4)
    assert revisions(taken_back(state, first, {"n3"}, None)) == (3, 5, 4)


def test_the_first_of_two_actions_is_stopped_first_and_the_second_one_after_it() -> None:
    first, second = Act(2, 4, "first"), Act(3, 5, "second")
    state = to_names(to_names(released(3), first, NODES, never), second, NODES, never)
    state = taken_back(state, first, {"n2"}, None)
    assert revisions(state) == (5, 5, 5)
    assert revisions(taken_back(state, second, set(), None)) == (3, 4, 3)


def test_what_gets_its_outcome_after_the_stop_has_its_release_again() -> None:
    before, act = released(3), Act(2, 5, "site")
    stopped = taken_back(to_all(before, act, always, under="1"), act, {"n1"}, before)
    assert revisions(taken_back(stopped, act, {"n1", "n2"}, None)) == (5, 5, 3)


def test_taking_back_twice_changes_nothing_more() -> None:
    before, act = released(3), Act(2, 5, "site")
    stopped = taken_back(to_all(before, act, always, under="1"), act, {"n1"}, before)
    assert taken_back(stopped, act, {"n1"}, None) == stopped


def test_a_targeted_action_on_top_of_a_site_action_that_is_stopped_keeps_its_nodes() -> None:
    before, site = released(3), Act(2, 4, "site")
    state = to_names(to_all(before, site, always, under="1"), Act(3, 5, "one"), ["n1"], never)
    stopped = taken_back(state, site, {"n2"}, before)
    assert revisions(stopped) == (5, 4, 3)
    assert revisions(taken_back(stopped, Act(3, 5, "one"), set(), None)) == (3, 4, 3)


def test_a_nodes_past_does_not_grow_with_actions_that_have_ended() -> None:
    state = released(1)
    for k in range(2, 200):
        state = to_names(state, Act(k, k, f"a{k}"), ["n1"], always)
    entry = state.names["n1"]
    assert entry.was is not None
    assert entry.was.was is None


ACTS = st.lists(
    st.tuples(st.sampled_from(["all", "names", "stop"]), st.integers(1, 9), st.sets(st.sampled_from(NODES))), min_size=1, max_size=12
)
Model = dict[str, list[int]]


@settings(max_examples=500)
@given(ACTS)
def test_a_node_has_the_highest_revision_of_the_acts_that_reached_it_or_may_still_do_so(acts: list[tuple[str, int, set[str]]]) -> None:
    newest = 0
    for number, (kind, revision, names) in enumerate(acts):
        newest = max(newest, revision)
        acts[number] = (kind, newest, names)
    for state, model in _played(acts):
        assert revisions(state) == tuple(max(model[node], default=0) for node in NODES)


@settings(max_examples=500)
@given(ACTS)
def test_a_node_never_has_a_revision_that_nobody_released_to_it_or_that_was_taken_back(acts: list[tuple[str, int, set[str]]]) -> None:
    for state, model in _played(acts):
        assert all(state.mark(node).revision in (0, *model[node]) for node in NODES)


def _played(acts: list[tuple[str, int, set[str]]]) -> Iterator[tuple[State, Model]]:
    """The state after each act, beside a model that keeps for each node the revisions of every act that means it and was not taken back.
    The newest action that runs is stopped first; the nodes that it had reached by then are those of the stop.
    """
    states = [State()]
    running: list[tuple[Act, frozenset[str]]] = []
    model: Model = {node: [] for node in NODES}
    for kind, revision, names in acts:
        before, act = states[-1], Act(len(states), revision, f"a{len(states)}")
        if kind == "stop" and running:
            stopped, meant = running.pop()
            beneath = (states[int(before.under)] if before.under else State()) if before.base_action == stopped.action else None
            states.append(taken_back(before, stopped, names & meant, beneath))
            for node in meant - names:
                model[node].remove(stopped.revision)
        elif kind != "stop":
            meant = frozenset(NODES if kind == "all" else names)
            states.append(to_all(before, act, never, under=str(len(states) - 1)) if kind == "all" else to_names(before, act, meant, never))
            running.append((act, meant))
            for node in meant:
                model[node].append(revision)
        yield states[-1], model
