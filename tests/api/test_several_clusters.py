"""One action over several clusters, over HTTP and on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import functions_framework
import pytest

from local import steps
from shared import telemetry, wiring
from shared.work.rollouts import nudge, shown, start
from tests.rollouts.rolling import a_rollout
from tests.stories.clusters import LABELS, Clusters, a_cluster
from tests.stories.fleet import a_policy


class Door(Clusters):
    """The clusters of the stories, asked over HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self.client = functions_framework.create_app("api", str(steps.load().steps["api"].source)).test_client()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self.client.open(path, method=method, json=body)

    def starts(self, clusters: Any, name: str = "update_site", **parameters: Any) -> Any:
        return self.ask("POST", "/v1.0/actions", {"name": name, "parameters": {"clusters": clusters, **parameters}})

    def over_all(self) -> str:
        """The id of an action over all clusters, of which north does not answer; it has ended."""
        self.does_not_answer("north")
        action = str(self.starts("*").json["id"])
        self.cloud.drain()
        return action


@pytest.fixture
def door() -> Iterator[Door]:
    telemetry.write_to(None)
    yield Door()
    wiring.install(None)


@pytest.mark.parametrize(
    ("clusters", "meant"),
    [
        (["west", "east"], ["east", "west"]),
        ("west, east", ["east", "west"]),
        ("*", ["east", "north", "west"]),
        ({"matchLabels": {"env": "prod"}}, ["north", "west"]),
    ],
)
def test_clusters_are_chosen_in_the_parameters(door: Door, clusters: Any, meant: list[str]) -> None:
    answer = door.starts(clusters)
    assert (answer.status_code, answer.json["clusters"], answer.json["cluster"]) == (201, meant, "")
    assert answer.json["parameters"] == {"clusters": clusters}


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"clusters": ["wets"]}, "no cluster 'wets': did you mean west?"),
        ({"clusters": {"matchLabels": {"env": "test"}}}, "no cluster has env=test; there: east (env=dev)"),
        ({"clusters": {"matchLabel": {"env": "dev"}}}, "matchLabel"),
        ({"clusters": ["east"], "cluster": "west"}, "in place of `cluster`"),
        ({}, 'ask for all of them: `--all-clusters`, in requests `"clusters": "*"`'),
    ],
)
def test_clusters_that_cannot_be_meant_are_a_400_that_says_which_can(door: Door, parameters: dict[str, Any], says: str) -> None:
    answer = door.ask("POST", "/v1.0/actions", {"name": "update_site", "parameters": parameters})
    assert answer.status_code == 400
    assert says in answer.text.encode().decode("unicode_escape")
    assert door.ask("GET", "/v1.0/actions").json == []


def test_an_action_over_several_clusters_leads_to_theirs_and_back(door: Door) -> None:
    action = door.over_all()
    shown = door.ask("GET", f"/v1.0/actions/{action}").json
    assert (shown["result"], shown["counts"], shown["progress"]) == (
        "partial_success",
        {"changed": 2, "failed": 1},
        {"done": 3, "total": 3},
    )
    assert [child["cluster"] for child in shown["children"]] == ["east", "north", "west"]
    east = door.ask("GET", f"/v1.0{shown['children'][0]['url']}").json
    assert (east["parent"], east["cluster"], east["counts"], east["children"]) == (action, "east", {"changed": 2}, [])
    (note,) = [note for step in shown["steps"] for note in step["notes"] if note["subject"] == "north"]
    assert note["note_val"].startswith("cluster:north: failed Unavailable: north does not answer; action ")
    assert [listed["id"] for listed in door.ask("GET", "/v1.0/actions").json] == [action]


def test_outcomes_steps_and_tasks_name_the_clusters(door: Door) -> None:
    action = door.over_all()
    outcome = door.ask("GET", f"/v1.0/actions/{action}/outcome").json
    assert {told["subject"]: told["outcome"] for told in outcome["outcomes"]} == {"east": "changed", "north": "failed", "west": "changed"}
    step = door.ask("GET", f"/v1.0/actions/{action}/steps/relabel_nodes").json
    assert [note["subject"] for note in step["notes"]] == ["east", "north", "west"]
    task = door.ask("GET", f"/v1.0/tasks/{door.child(action, 'east')}").json
    assert task["parent_task_id"] == action


def test_a_task_may_say_which_clusters_it_means(door: Door) -> None:
    door.world.revisions.tag(door.revision, "site-action-success", "an operator", door.now)
    task = {"action": "relabel_nodes", "design_ref": "committed"}
    assert door.ask("POST", "/v1.0/tasks", task).status_code == 400
    assert door.ask("POST", "/v1.0/tasks", task | {"cluster": "west"}).status_code == 201
    several = door.ask("POST", "/v1.0/tasks", task | {"clusters": "east, north"})
    assert several.status_code == 201
    door.cloud.drain()
    assert set(door.racks().values()) == {"r1 r1"}
    shown = door.ask("GET", f"/v1.0/tasks/{several.json['task_id']}").json
    assert (shown["result"]["status"], [leaf["node"] for leaf in shown["subtasks"]]) == ("success", ["east", "north"])


def test_verbs_of_the_whole_reach_every_cluster(door: Door) -> None:
    action = door.starts("*").json["id"]
    door.cloud._deliver(door.cloud._queue.pop())
    assert door.ask("POST", f"/v1.0/actions/{action}/control/pause").status_code == 202
    door.cloud.drain()
    states = [door.ask("GET", f"/v1.0/actions/{door.child(action, name)}").json["action_lifecycle"] for name in door.clusters]
    assert states == ["Paused"] * 3
    assert door.ask("POST", f"/v1.0/actions/{action}/control/pause").status_code == 409
    assert door.ask("POST", f"/v1.0/actions/{action}/control/stop").status_code == 202
    door.cloud.drain()
    assert set(door.racks().values()) == {"- -"}
    assert door.ask("GET", f"/v1.0/actions/{action}").json["result"] == "stopped"


def test_a_retry_of_the_whole_asks_the_clusters_that_failed(door: Door) -> None:
    action = door.over_all()
    door.answers("north")
    again = door.ask("POST", f"/v1.0/actions/{action}/control/retry")
    assert (again.status_code, again.json["cluster"], again.json["retry_of"]) == (202, "north", action)
    door.cloud.drain()
    assert set(door.racks().values()) == {"r1 r1"}


def test_the_page_of_the_whole_shows_its_clusters_and_theirs_leads_back(door: Door) -> None:
    action = door.over_all()
    page = door.ask("GET", f"/actions/{action}").text
    assert "every node of east, north, west" in page
    assert "<dt>Clusters</dt><dd>2 changed, 1 failed</dd>" in page
    for cluster in door.clusters:
        assert f'href="/actions/{door.child(action, cluster)}"' in page
    assert f'Part of</dt><dd><a href="/actions/{action}"' in door.ask("GET", f"/actions/{door.child(action, 'east')}").text


def test_the_overview_lists_the_whole_and_knows_the_nodes_of_its_clusters(door: Door) -> None:
    door.clusters["west"].delete("n2")
    action = door.over_all()
    page = door.ask("GET", "/").text
    assert page.count(f'href="/actions/{action}"') == 1
    assert f'href="/actions/{door.child(action, "east")}"' not in page
    assert '<strong>n2</strong></a> <span class="dim">west</span>' in page
    out_of_sync = page.split('id="out-of-sync"')[1].split("</section>")[0]
    assert "<strong>north</strong>" not in out_of_sync  # a cluster is no node
    metrics = door.ask("GET", "/metrics").text
    assert 'hullmark_nodes_not_true{cluster="west"} 1' in metrics


def test_a_rollouts_stage_says_in_which_clusters_it_is_out_and_which_are_behind(door: Door) -> None:
    clusters = [a_cluster(name, labels) for name, labels in LABELS.items()]
    rack = a_policy("rack", {"names": ["n1", "n2"]}, {"rack": "r2"})
    first = {"name": "first", "nodes": {"names": ["n1"]}, "soak": "2d"}
    door.commits(rack, *clusters, a_rollout(first, health={"nodesReady": False}), adopted=False)
    rollout = start("careful", "ada", door.world, door.now).id
    door.does_not_answer("north")
    door.cloud.drain()
    for _ in range(3):
        door.now += timedelta(minutes=20)
        nudge(rollout, door.world)
        door.cloud.drain()
    (stage, _rest) = shown(door.world.rollouts.get(rollout), door.world, door.now).stages
    assert (stage.nodes, stage.opened, stage.done, stage.behind, stage.failed) == (3, 3, 2, 1, 0)
    page = " ".join(re.sub(r"<[^>]+>", " ", door.ask("GET", "/").text).split())
    for told in (
        "2 of 3 done",
        "1 behind",
        "0 (0 may)",
        "released: east 1 of 1, north 1 of 1, west 1 of 1",
        "first: 1 node Unavailable (n1): north does not answer",
    ):
        assert told in page
