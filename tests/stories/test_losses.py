"""Labels that nodes would lose although no release took them: few nodes are repaired, many wait, and all others go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from shared.domain.names import DRIFT_SWEEP
from shared.ports import Refused
from tests.stories.sites import Site, policies

HOUR = timedelta(hours=1)


def vanishes(site: Site, *numbers: int) -> list[str]:
    """Somebody takes the label away that a policy selects by."""
    names = [f"n{number:04}" for number in numbers]
    for name in names:
        site.cluster.set_labels(name, {"accelerator": None}, "kubectl-label")
    return names


def sweeps(site: Site) -> dict[str, str]:
    action = site.sends(name=DRIFT_SWEEP)
    site.cloud.drain()
    assert site.ended(action).result == "success"
    return {name: outcome for name, outcome in site.outcome(action).items() if outcome != "unchanged"}


def driven(site: Site) -> set[str]:
    return {name for name, labels in site.carried().items() if "driver" in labels}


def test_a_label_that_vanishes_from_few_nodes_is_followed_at_once(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    for name in vanishes(site, 1, 2):
        site.hears_of(name)
        assert "driver" not in site.labels(name)
    assert site.notices("loss.held") == []


def test_a_label_that_vanishes_from_many_nodes_leaves_them_as_they_are_and_all_others_go_on(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    names = vanishes(site, *range(6))
    site.cluster.set_labels("n0008", {"site": None}, "kubectl-label")
    assert sweeps(site) == {"n0008": "changed"} | dict.fromkeys(names, "waiting")
    assert len(driven(site)) == 9
    for _ in range(3):
        site.now += HOUR
        assert sweeps(site) == dict.fromkeys(names, "waiting")
    [told] = site.notices("loss.held")
    assert (told["count"], told["of"], told["nodes"]) == (6, 9, names)

    assert site.ended(site.relabels()).reason == "TooManyRemovals"
    assert site.ended(site.relabels(accept_removals=6)).result == "success"
    assert driven(site) == {"n0006", "n0007", "n0008"}
    site.now += HOUR
    assert sweeps(site) == {}


def test_a_sweep_that_a_person_asks_for_may_accept_them(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    names = vanishes(site, *range(6))
    for accepted, outcome in ((5, "waiting"), (6, "changed")):
        action = site.create(DRIFT_SWEEP, accept_removals=accepted).json["id"]
        site.cloud.drain()
        assert {site.outcome(action)[name] for name in names} == {outcome}


def test_a_cluster_is_never_swept_bare(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    listed = policies(site=False)["policies.yaml"][:1]
    site.stages("policies", {"policies.yaml": listed})
    site.world.revisions.remove("design", "ada", site.now)
    site.commits_it()
    assert site.ended(site.relabels(accept_removals=9)).result == "success"
    every = vanishes(site, *range(9))
    limits = {"apiVersion": "hullmark.dev/v1", "kind": "Limits", "metadata": {"name": "l"}, "spec": {"removals": {"nodes": "100%"}}}
    site.stages("limits", {"l.yaml": [limits]})
    site.commits_it()
    assert sweeps(site) == dict.fromkeys(every, "waiting")


def test_event_by_event_no_more_nodes_lose_labels_than_a_sweep_would_let_pass(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    names = vanishes(site, *range(9))
    for name in (*names, *names):
        site.hears_of(name)
    assert driven(site) == {f"n{number:04}" for number in range(2, 9)}
    site.now += HOUR
    for name in names:
        site.hears_of(name)
    assert sweeps(site) == dict.fromkeys(names[2:], "waiting")
    site.now += HOUR
    for name in names:
        site.hears_of(name)
    assert len(driven(site)) == 7
    [told] = site.notices("loss.held")
    assert (told["nodes"], told["of"]) == (["n0002"], 9)


def test_a_sweep_and_events_share_one_count(a_site: Callable[[int], Site]) -> None:
    site = a_site(200)
    names = vanishes(site, *range(30))
    for name in names[:15]:
        site.hears_of(name)
    assert set(sweeps(site).values()) == {"waiting"}
    assert len(driven(site)) == 185


def test_what_a_release_took_and_could_not_reach_is_finished_by_the_sweep_however_many_nodes(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    site.stages("policies", policies(gpu=False))
    site.commits_it()
    late = {f"n{number:04}" for number in range(7)}

    def refuses(call: str, node: str) -> None:
        if call == "apply_labels" and node in late:
            raise Refused("Forbidden", "a webhook refuses it")

    site.cluster.before = refuses
    assert site.ended(site.relabels(accept_removals=9)).result == "partial_success"
    assert driven(site) == late
    site.cluster.before = lambda _call, _node: None
    site.hears_of("n0000")
    assert driven(site) == late - {"n0000"}
    assert sweeps(site) == dict.fromkeys(sorted(late - {"n0000"}), "changed")
    assert site.world.store.keys("budget/") == []


def test_a_node_that_joins_later_is_brought_to_its_release_whatever_it_loses(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    listed = policies(gpu=False)["policies.yaml"]
    listed[0]["spec"]["prune"] = "all"
    site.stages("policies", {"policies.yaml": listed})
    site.commits_it()
    assert site.ended(site.relabels(accept_removals=9)).result == "success"
    site.has_nodes(**{f"new{number}": {"accelerator": "h100", "left-over": "yes"} for number in range(5)})
    assert sweeps(site) == {f"new{number}": "changed" for number in range(5)}
    assert all("left-over" not in labels for labels in site.carried().values())


def test_a_dry_run_of_a_sweep_shows_who_would_wait_and_takes_nothing_of_the_count(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    names = vanishes(site, 1, 2, 3)
    action = site.sends(name=DRIFT_SWEEP, dry_run=True)
    site.cloud.drain()
    assert {name: kind for name, kind in site.outcome(action).items() if kind != "unchanged"} == dict.fromkeys(names, "waiting")
    assert site.world.store.keys("budget/") == []
    assert site.notices("loss.held") == []


@pytest.mark.parametrize("labels", [{"site": "mine"}, {"site": None}, {"theirs": "x"}])
def test_an_event_that_takes_nothing_away_reads_nothing_more(a_site: Callable[[int], Site], labels: dict[str, str | None]) -> None:
    site = a_site(9)
    site.hears_of("n0000")
    read = list[str]()
    get = site.world.store.get

    def noted(key: str) -> bytes | None:
        read.append(key)
        return get(key)

    site.world.store.get = noted  # type: ignore[method-assign]
    site.cluster.set_labels("n0001", labels, "kubectl-label")
    site.hears_of("n0001")
    assert [key for key in read if key.startswith(("budget/", "acceptances/", "actions/"))] == []


def test_nodes_that_a_person_names_lose_what_they_would(a_site: Callable[[int], Site]) -> None:
    site = a_site(9)
    names = vanishes(site, *range(6))
    assert set(site.outcome(site.relabels(*names)).values()) == {"changed"}
