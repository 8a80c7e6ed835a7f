"""What our field manager holds and this store never declared may be another Hullmark's: it stays until a person adopts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from shared import telemetry, wiring
from shared.domain.labels.plans import PlanRequest
from shared.domain.nodes import HULLMARK
from shared.ledger.declared import LOOKED_BACK
from shared.messages import NodeChanged
from shared.work.plans import plan_committed
from tests.stories.fleet import Fleet, a_policy
from tests.stories.test_owners import Team

STRANGE = "hullmark holds team=theirs, which no release of this store declared: left alone"
WAY_ON = "`hullmark relabel n1 --adopt`"


@pytest.fixture
def strange(fleet: Fleet) -> Fleet:
    """n1 has a label under our manager that nobody declared here; revision 1 is released."""
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    applied(fleet, "n1", rack="r1", team="theirs")
    return fleet


def applied(fleet: Fleet, name: str, **labels: str) -> None:
    """Another Hullmark of our name applies these."""
    fleet.cluster.apply_labels(name, fleet.node(name).uid, labels)


def a_design(**labels: str) -> list[dict[str, Any]]:
    """n1 with these labels, and the profiles that it needs."""
    bare: dict[str, Any] = {"metadata": {"schema": "metadata/Document/v1"}}
    return [
        {"schema": "drydock/HardwareProfile/v1", "metadata": bare["metadata"] | {"name": "hw"}, "data": {"vendor": "x", "generation": "1"}},
        {
            "schema": "drydock/HostProfile/v1",
            "metadata": bare["metadata"] | {"name": "hp"},
            "data": {"hardware_profile": "hw"},
        },
        {
            "schema": "drydock/BaremetalNode/v1",
            "metadata": bare["metadata"] | {"name": "n1"},
            "data": {
                "host_profile": "hp",
                "addressing": [{"network": "mgmt", "address": "10.0.0.1"}],
                "metadata": {"owner_data": labels},
            },
        },
    ]


def told(fleet: Fleet, action: str, name: str = "n1") -> tuple[str, str]:
    (outcome,) = (each for each in fleet.ended(action).outcomes if each.subject == name)
    return outcome.outcome, outcome.reason


def test_what_was_never_declared_here_stays_and_the_outcome_says_how_to_remove_it(strange: Fleet) -> None:
    action = strange.relabels()
    assert strange.ended(action).result == "success"
    assert told(strange, action) == ("skipped", "NotAdopted")
    (outcome,) = strange.ended(action).outcomes
    assert outcome.message.startswith(STRANGE)
    assert WAY_ON in outcome.message
    assert strange.labels("n1") == {"rack": "r1", "team": "theirs"}


def test_a_write_carries_what_is_kept_so_that_nobody_loses_it(strange: Fleet) -> None:
    strange.declares({"n1": {"rack": "r2"}})
    action = strange.relabels("n1")
    assert told(strange, action) == ("changed", "NotAdopted")
    assert strange.labels("n1") == {"rack": "r2", "team": "theirs"}
    assert "hullmark" in strange.node("n1").owners["team"]


def test_a_person_adopts_it(strange: Fleet) -> None:
    dry = strange.relabels(adopt=True, dry_run=True)
    (outcome,) = strange.ended(dry).outcomes
    assert outcome.changes is not None
    assert outcome.changes.remove == ["team"]
    assert strange.outcome(strange.relabels("n1", adopt=True)) == {"n1": "changed"}
    assert strange.labels("n1") == {"rack": "r1"}


def test_neither_a_sweep_nor_an_event_removes_it(strange: Fleet) -> None:
    applied(strange, "n1", rack="drifted", team="theirs")
    node = strange.node("n1")
    event = NodeChanged(kind="changed", cluster="default", name="n1", uid=node.uid, labels=dict(node.labels))
    strange.cloud.publish(NodeChanged.TOPIC, [event.outgoing()])
    strange.cloud.drain()
    assert strange.labels("n1") == {"rack": "r1", "team": "theirs"}
    applied(strange, "n1", rack="drifted", team="theirs")
    sweep = strange.relabels(name="drift_sweep")
    assert told(strange, sweep) == ("changed", "NotAdopted")
    assert strange.labels("n1") == {"rack": "r1", "team": "theirs"}


def test_a_plan_says_what_stays(strange: Fleet) -> None:
    plan = plan_committed(PlanRequest(all=True), strange.world)
    assert plan.nodes == {}
    assert (plan.blocked["n1"].outcome, plan.blocked["n1"].reason) == ("skipped", "NotAdopted")
    assert WAY_ON in plan.blocked["n1"].message
    assert not plan.failing


def test_prune_all_takes_it_only_after_adoption_too(strange: Fleet) -> None:
    strange.commits(a_policy("p", {"names": ["n1"]}, {"rack": "r1"}, prune="all"))
    strange.relabels()
    assert strange.labels("n1") == {"rack": "r1", "team": "theirs"}
    strange.relabels(adopt=True, accept_removals=1)
    assert strange.labels("n1") == {"rack": "r1"}


def test_what_an_earlier_revision_declared_goes_without_a_word(fleet: Fleet) -> None:
    fleet.commits(a_policy("a", {}, {"by-policy": "1"}), *a_design(**{"by-design": "1"}))
    fleet.has_nodes(n1={})
    fleet.relabels()
    assert fleet.labels("n1") == {"by-policy": "1", "by-design": "1"}
    for number in range(3):
        fleet.commits(a_policy("b", {}, {"rack": str(number)}), *a_design())
    assert told(fleet, fleet.relabels(accept_removals=1)) == ("changed", "")
    assert fleet.labels("n1") == {"rack": "2"}


def test_a_policy_for_another_cluster_declares_nothing_here(strange: Fleet) -> None:
    strange.commits(a_policy("p", {}, {"team": "ours"}, clusters=["elsewhere"]), a_policy("q", {}, {"rack": "r1"}))
    strange.relabels()
    strange.declares({"n1": {"rack": "r1"}})
    assert told(strange, strange.relabels()) == ("skipped", "NotAdopted")


def test_what_was_declared_too_long_ago_is_not_looked_for(fleet: Fleet) -> None:
    fleet.declares({"n1": {"old": "1", "rack": "0"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    for number in range(LOOKED_BACK + 1):
        fleet.declares({"n1": {"rack": str(number)}})
    assert told(fleet, fleet.relabels()) == ("changed", "NotAdopted")
    assert fleet.labels("n1") == {"rack": str(LOOKED_BACK), "old": "1"}


def test_a_revision_that_was_only_committed_declared_nothing_yet(strange: Fleet) -> None:
    strange.commits(a_policy("p", {}, {"rack": "r1"}), a_policy("q", {"names": ["n2"]}, {"team": "ours"}), adopted=False)
    assert plan_committed(PlanRequest(all=True), strange.world).blocked["n1"].reason == "NotAdopted"


def test_a_revision_that_cannot_be_read_explains_nothing(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1", "old": "1"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    fleet.declares({"n1": {"rack": "r2"}})
    (torn,) = (key for key in fleet.world.store.keys("revisions/000001/") if key.endswith("policies.json"))
    fleet.world.store.delete(torn)
    fleet.world.revisions._known.clear()
    assert told(fleet, fleet.relabels()) == ("changed", "NotAdopted")
    assert fleet.labels("n1") == {"rack": "r2", "old": "1"}


def test_the_labels_of_an_override_are_ours_even_where_the_next_release_did_not_reach_the_node(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={})
    fleet.relabels()
    fleet.world.releases.override("default", "n1", {"by-hand": "1"}, "ada", fleet.now)
    fleet.relabels(name="drift_sweep")
    assert fleet.labels("n1") == {"by-hand": "1"}
    fleet.declares({"n1": {"rack": "r2"}})
    fleet.world.releases.to_all("default", "an action that failed", 2, since=0, by="ada", at=fleet.now)
    assert told(fleet, fleet.relabels()) == ("changed", "")
    assert fleet.labels("n1") == {"rack": "r2"}


def test_an_override_that_a_later_one_did_not_replace_on_the_node_is_ours_however_much_happened_since(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    fleet.has_nodes(n1={}, n2={})
    fleet.relabels()
    fleet.world.releases.override("default", "n1", {"first": "1"}, "ada", fleet.now)
    fleet.relabels(name="drift_sweep")
    fleet.world.releases.override("default", "n1", {"second": "1"}, "ada", fleet.now)
    for number in range(LOOKED_BACK):
        fleet.world.releases.override("default", "n2", {"third": str(number)}, "ada", fleet.now)
    fleet.relabels(name="drift_sweep")
    assert fleet.labels("n1") == {"second": "1"}


def test_nodes_without_such_labels_cost_no_look_at_older_revisions(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for rack in ("r1", "r2", "r3"):
        fleet.declares({f"n{number}": {"rack": rack} for number in range(50)})
    fleet.has_nodes(**{f"n{number}": {} for number in range(50)})
    fleet.relabels()
    reads = Counter[str]()
    get = fleet.world.store.get

    def counted(key: str) -> bytes | None:
        reads[key.split("/")[1] if key.startswith("revisions/") else ""] += 1
        return get(key)

    fleet.world.revisions._known.clear()
    monkeypatch.setattr(fleet.world.store, "get", counted)
    fleet.relabels()
    assert not {"000001", "000002"} & set(reads)
    for number in range(50):
        applied(fleet, f"n{number}", rack="r3", team="theirs")
    reads.clear()
    fleet.relabels()
    assert max(reads["000001"], reads["000002"]) <= 3, "each is read once, whatever the number of nodes"


def test_an_event_of_a_node_whose_labels_are_explained_by_nothing_costs_no_more_each_time(
    strange: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rack in ("r2", "r3"):
        strange.declares({"n1": {"rack": rack}})
    strange.relabels()
    strange.world.releases.override("default", "n2", {"by-hand": "1"}, "ada", strange.now)
    node = strange.node("n1")
    event = NodeChanged(kind="changed", cluster="default", name="n1", uid=node.uid, labels=dict(node.labels))
    reads = Counter[str]()
    get = strange.world.store.get

    def counted(key: str) -> bytes | None:
        reads[key] += 1
        return get(key)

    monkeypatch.setattr(strange.world.store, "get", counted)
    for _ in range(3):
        reads.clear()
        strange.cloud.publish(NodeChanged.TOPIC, [event.outgoing()])
        strange.cloud.drain()
    assert not [key for key in reads if key.startswith(("revisions/00000", "overrides/")) and not key.endswith("000004/revision.json")]
    assert sum(reads.values()) <= 4


@pytest.fixture
def namesakes() -> Iterator[tuple[Team, Team]]:
    """Two Hullmarks, two stores, one cluster, one name."""
    telemetry.write_to(None)
    first = Team(HULLMARK)
    yield first, Team(HULLMARK, first)
    wiring.install(None)


def test_two_stores_of_one_name_leave_each_others_labels_alone(namesakes: tuple[Any, Any]) -> None:
    a, b = namesakes
    a.has_nodes(n1={}, n2={})
    a.commits(a_policy("p", {}, {"rack": "r1"}))
    b.commits(a_policy("q", {"names": ["n1"]}, {"pool": "gpu"}))
    for _ in range(2):
        for team in namesakes:
            team.relabels()
            team.relabels(name="drift_sweep")
    assert (a.labels("n1"), a.labels("n2")) == ({"rack": "r1", "pool": "gpu"}, {"rack": "r1"})
    b.commits(a_policy("q", {"names": ["n1"]}, {"pool": "cpu"}), a_policy("r", {"names": ["n2"]}, {"size": "big"}))
    b.relabels()
    b.commits(a_policy("q", {"names": ["n1"]}, {"pool": "cpu"}))
    b.relabels()
    assert (a.labels("n1"), a.labels("n2")) == ({"rack": "r1", "pool": "cpu"}, {"rack": "r1"})
