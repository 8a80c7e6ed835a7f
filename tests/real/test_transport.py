"""All of it for real: Pub/Sub emulator, one process per function, a real kube-apiserver, a thousand nodes, and a process killed midway."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.cloud.emulated import RealCloud
from local.cloud.pump import Faults
from local.steps import load
from shared.adapters.kubernetes import Kubernetes
from shared.adapters.pubsub import Administration, Subscription
from shared.domain.documents.reading import Source
from shared.messages import Outgoing
from shared.ports import OWNER
from shared.wiring import build
from shared.world import Settings, World
from tests.kube_apiserver import Fleet, KubeApiserver
from tests.pubsub import new_project, pulled, real_emulator

pytestmark = pytest.mark.real
NODES = 1000
CHAIN = ("relabel_request", "node_apply", "result_rollup")
POLICY = """
apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {name: site}
spec: {labels: {site.example.com/name: halden, site.example.com/ring: "7"}}
"""


@pytest.fixture
def emulator() -> Iterator[None]:
    with real_emulator():
        yield


def until(true: Callable[[], Any], seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
    return found


def test_a_thousand_real_nodes_end_right_although_a_process_is_killed_midway(
    kube: KubeApiserver, real_fleet: Fleet, real_cluster: Kubernetes, emulator: None, tmp_path: Path
) -> None:
    real_fleet.fill([f"node-{number:04}" for number in range(NODES)])
    before = {node.name: dict(node.labels) for node in real_cluster.nodes()}
    reached = f"kubeconfig:{kube.kubeconfig()}"
    slowly = {"writes_per_second": 40}  # so that it is still at work when it is killed, however busy the machine
    settings = Settings(store=f"file:{tmp_path}", cluster=reached, project=new_project(), topic_prefix="e2e-", **slowly)
    world: World = build(settings, NoBus())
    world.revisions.stage("site", [Source("site.yaml", POLICY.encode())], "an operator", world.clock())
    world.revisions.commit("an operator", world.clock())
    said: list[str] = []

    with RealCloud(settings, only=CHAIN, faults=Faults(duplicate=0.2, delay=0.05, seed=4), say=said.append) as cloud:
        notices = Administration(settings.project, "e2e-").create_subscription(Subscription("reader", "notices", 10))
        cloud.bus.publish("relabel-requests", [Outgoing(b'{"name": "update_site"}')])  # as a person publishes it: no id, no attributes
        until(lambda: sum("site.example.com/ring" in node.labels for node in real_cluster.nodes()) > 20, 60)
        cloud.functions["node_apply"].kill()
        (action,) = world.actions.ids()
        assert world.actions.outcome(action) is None, "it was over before the process was killed"
        until(lambda: world.actions.announced(action), 300)
        until(cloud.pump.idle, 60)  # type: ignore[union-attr]
        notice, *repeats = pulled(notices, 1)
        assert cloud.functions["node_apply"].restarts == 1

    outcome = world.actions.outcome(action)
    assert outcome is not None
    assert (outcome.result, outcome.counts) == ("success", {"changed": NODES})
    declared = {"site.example.com/name": "halden", "site.example.com/ring": "7"}
    after = real_cluster.nodes()
    assert {node.name: dict(node.labels) for node in after} == {name: labels | declared for name, labels in before.items()}
    assert all(node.applied[OWNER] == frozenset(declared) for node in after)
    told = json.loads(notice.data)
    assert all(json.loads(repeat.data)["id"] == told["id"] for repeat in repeats)  # readers drop repeats by id
    assert (told["id"], told["data"]["result"]) == (f"action.finished/{action}", "success")
    assert world.actions.open() == []
    lines = [json.loads(text) for line in said if (text := line.partition(": ")[2]).startswith("{")]
    assert {line["step"] for line in lines} == set(CHAIN)
    assert len({line["trace"] for line in lines}) == 1, "one relabel is one trace"


def test_every_function_of_the_house_comes_up_as_its_own_process(emulator: None, tmp_path: Path) -> None:
    settings = Settings(store=f"file:{tmp_path}", cluster="simulated:nowhere", project=new_project())
    with RealCloud(settings, say=lambda _: None) as cloud:
        assert set(cloud.functions) == set(load().steps)
        with urllib.request.urlopen(f"{cloud.functions['api'].url}/api/v1.0/health", timeout=30) as answer:
            assert answer.status in (200, 204)
        assert not any(process.restarts for process in cloud.functions.values())


class NoBus:
    """For ports that only look."""

    def publish(self, topic: str, messages: object) -> None:
        raise AssertionError(f"published to {topic}")
