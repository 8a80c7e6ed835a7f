"""Two Hullmarks on one cluster: each has its own store, documents and field managers, and leaves the other's labels alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared import telemetry, wiring
from shared.adapters.simulated import Simulated
from shared.domain.labels.events import change_of
from shared.domain.nodes import HULLMARK, LONGEST_OWNER, Node, Owner
from shared.messages import NodeChanged
from shared.world import Settings, SettingsError
from tests.stories.fleet import Fleet, a_policy

TEAM_B = Owner("team b/ops")
LINUX = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}


class Team(Fleet):
    """A fleet whose functions act on a cluster that is another one's too."""

    def __init__(self, owner: Owner, shared_with: Fleet | None = None) -> None:
        super().__init__(owner=owner.name)
        if shared_with:
            self.cluster = Simulated(shared_with.world.store, "default", owner=owner)

    def relabels(self, *names: str, **request: object) -> str:
        wiring.install(self.world)
        return super().relabels(*names, **request)

    def hears_of(self, name: str) -> None:
        """An event tells it of a node as it is now."""
        wiring.install(self.world)
        change = change_of("changed", "default", self.node(name))
        self.cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(change.model_dump()).outgoing()])
        self.cloud.drain()


@pytest.fixture
def teams() -> Iterator[tuple[Team, Team]]:
    telemetry.write_to(None)
    first = Team(HULLMARK)
    yield first, Team(TEAM_B, first)
    wiring.install(None)


def held(node: Node) -> dict[str, tuple[str, ...]]:
    return {key: managers for key, managers in node.owners.items() if managers != ("kubelet",)}


def test_each_leaves_the_others_labels_alone(teams: tuple[Team, Team]) -> None:
    a, b = teams
    a.has_nodes(n1={"zone": "z"})
    a.commits(a_policy("p", {}, {"rack": "r1"}))
    b.commits(a_policy("p", {}, {"pool": "gpu"}))
    for _ in range(2):
        for team in teams:
            team.relabels()
            team.hears_of("n1")
    assert a.labels("n1") == {"zone": "z", "rack": "r1", "pool": "gpu"}
    assert held(a.node("n1")) == {"rack": (HULLMARK.name,), "pool": (TEAM_B.name,)}


def test_each_takes_away_what_it_no_longer_declares_and_nothing_else(teams: tuple[Team, Team]) -> None:
    a, b = teams
    a.has_nodes(n1={})
    a.commits(a_policy("p", {}, {"rack": "r1", "row": "1"}))
    b.commits(a_policy("p", {}, {"pool": "gpu", "row": "1"}))
    for team in teams:
        team.relabels()
    for left, team in (({"row": "1", "pool": "gpu"}, a), ({}, b)):
        team.commits(a_policy("p", {}, {}))
        team.relabels(accept_removals=1)
        assert a.labels("n1") == left


def test_a_second_relabel_writes_nothing(teams: tuple[Team, Team]) -> None:
    a, b = teams
    a.has_nodes(n1=LINUX)
    for team, key in ((a, "rack"), (b, "pool")):
        team.commits(a_policy("p", {}, {key: "x"}))
        team.relabels()
    assert b.outcome(b.relabels()) == {"n1": "unchanged"}
    assert a.outcome(a.relabels()) == {"n1": "unchanged"}


def test_aliases_are_held_under_a_manager_of_each(teams: tuple[Team, Team]) -> None:
    a, b = teams
    a.has_nodes(n1=LINUX)
    b.commits(a_policy("p", {}, {"pool": "x"}))
    b.relabels()
    assert b.labels("n1")["beta.kubernetes.io/os"] == "linux"
    assert b.node("n1").applied == {TEAM_B.name: frozenset({"pool"}), TEAM_B.aliases: frozenset({"beta.kubernetes.io/os"})}


@pytest.mark.parametrize(("on_conflict", "outcome"), [("skip", "skipped"), ("fail", "failed")])
def test_what_the_other_holds_is_a_conflict_that_names_it(teams: tuple[Team, Team], on_conflict: str, outcome: str) -> None:
    a, b = teams
    a.has_nodes(n1={})
    a.commits(a_policy("p", {}, {"rack": "a"}))
    a.relabels()
    b.commits(a_policy("p", {}, {"rack": "b"}, onConflict=on_conflict))
    (told,) = b.ended(b.relabels()).outcomes
    assert (told.outcome, told.reason) == (outcome, "Conflict")
    assert told.message == f"rack is 'a' by hullmark; NodeLabelPolicy/p declares 'b' and says onConflict: {on_conflict}"
    assert a.labels("n1") == {"rack": "a"}


def test_ones_own_two_managers_are_no_conflict(teams: tuple[Team, Team]) -> None:
    _, b = teams
    b.has_nodes(n1=LINUX)
    b.commits(a_policy("p", {}, {"pool": "x"}))
    b.relabels()
    b.commits(a_policy("p", {}, {"pool": "y"}, onConflict="fail"))
    assert b.outcome(b.relabels()) == {"n1": "changed"}


def test_a_policy_does_not_feed_on_what_its_own_hullmark_wrote_but_sees_the_others(teams: tuple[Team, Team]) -> None:
    a, b = teams
    a.has_nodes(n1={})
    a.commits(a_policy("writes", {}, {"pool": "gpu"}))
    a.relabels()
    b.commits(a_policy("looks", {"matchLabels": {"pool": "gpu"}}, {"driver": "on"}))
    b.relabels()
    assert a.labels("n1") == {"pool": "gpu", "driver": "on"}
    a.commits(a_policy("looks", {"matchLabels": {"pool": "gpu"}}, {"mine": "yes"}))
    a.relabels(accept_removals=1)
    assert a.labels("n1") == {"driver": "on"}


def test_prune_all_goes_by_the_documents_and_under_its_own_manager(teams: tuple[Team, Team]) -> None:
    _, b = teams
    b.has_nodes(n1={"hand": "x"})
    b.commits(a_policy("p", {}, {"pool": "x"}, prune="all"))
    b.relabels()
    assert (b.labels("n1"), held(b.node("n1"))) == ({"pool": "x"}, {"pool": (TEAM_B.name,)})


# --- the name


@pytest.mark.parametrize("name", ["hullmark", "team b/ops", "h", "ü", "x" * LONGEST_OWNER])
def test_a_name_that_the_api_server_takes_is_taken(name: str) -> None:
    assert Settings.from_environment({"HULLMARK_OWNER": name}).field_managers == Owner(name)


TOO_LONG = ("x" * (LONGEST_OWNER + 1), "ü" * (LONGEST_OWNER // 2 + 1))


@pytest.mark.parametrize("name", [*TOO_LONG, "a\tb", "a\nb", "a\x7f", "a\u200b", " a", "a ", "a, b", "a-aliases", "\udcff"])
def test_a_name_that_it_does_not_take_or_that_could_be_mistaken_is_refused_by_the_settings_name(name: str) -> None:
    with pytest.raises(SettingsError, match=r"HULLMARK_OWNER: .*(field manager|aliases)"):
        Settings.from_environment({"HULLMARK_OWNER": name})


def test_no_name_is_the_default() -> None:
    assert Settings.from_environment({"HULLMARK_OWNER": ""}).field_managers == HULLMARK
