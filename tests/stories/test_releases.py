"""Which revision holds for a node is asked in one place: relabels, events and late parts all go by its answer, not by the newest commit."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from functions.node_event.main import handle
from shared.domain.actions import ActionRequest
from shared.domain.labels.events import NodeChange
from shared.domain.labels.selection import FilterEntry, NodeFilter
from shared.messages import NodeApply, NodeChanged, NodeTask, Outgoing, RelabelRequest
from tests.stories.fleet import START, Fleet


class Ear:
    """A bus that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Outgoing] = []

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        self.heard += messages


@pytest.fixture
def held(fleet: Fleet) -> Fleet:
    """Revision 1 says r1 and is released, revision 2 says r2 and is only committed."""
    fleet.declares({"n1": {"rack": "r1"}, "n2": {"rack": "r1"}})
    fleet.declares({"n1": {"rack": "r2"}, "n2": {"rack": "r2"}}, adopted=False)
    fleet.has_nodes(n1={}, n2={})
    return fleet


def tells(fleet: Fleet, name: str) -> None:
    fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged(kind="added", cluster="default", name=name).outgoing()])
    fleet.cloud.drain()


def test_a_relabel_releases_the_newest_revision_to_the_nodes_that_it_names_and_to_no_other(held: Fleet) -> None:
    action = held.relabels("n1")
    tells(held, "n2")
    assert (held.labels("n1"), held.labels("n2")) == ({"rack": "r2"}, {"rack": "r1"})
    assert held.ended(action).revision == 2


def test_an_event_repairs_a_node_to_its_own_release(held: Fleet) -> None:
    tells(held, "n1")
    assert held.labels("n1") == {"rack": "r1"}


def test_an_event_goes_by_the_nodes_own_release(held: Fleet) -> None:
    held.releases(2, "n2")
    bus = held.world.bus = Ear()
    for name in ("n1", "n2"):
        handle(NodeChange(kind="added", cluster="default", name=name), held.world, START)
    sent = [NodeApply.parse(message.data) for message in bus.heard]
    assert [(task.revision, task.nodes[0].labels) for task in sent] == [(1, {"rack": "r1"}), (2, {"rack": "r2"})]


@pytest.mark.parametrize("revision", [1, 2])
def test_a_part_is_applied_as_its_cluster_is_released_whichever_revision_it_was_made_from(held: Fleet, revision: int) -> None:
    node = held.node("n1")
    task = NodeTask(name="n1", uid=node.uid, labels={"rack": f"r{revision}"})
    held.cloud.publish(NodeApply.TOPIC, [NodeApply(revision=revision, nodes=[task]).outgoing()])
    held.cloud.drain()
    assert held.labels("n1") == {"rack": "r1"}


def test_a_request_travels_flat_and_keeps_its_filter_as_it_is_from_the_message_to_the_record_and_back(fleet: Fleet) -> None:
    fleet.declares({"n1": {"rack": "r1"}})
    wanted = NodeFilter(filter_set_type="union", filter_set=[FilterEntry(filter_type="union", node_names=["n1"])])
    action = fleet.sends(node_filter=wanted, dry_run=True)
    fleet.cloud.drain()

    kept = fleet.world.actions.request(action)
    sent = json.loads(RelabelRequest.again(kept).outgoing().data)

    assert kept.node_filter == wanted
    assert RelabelRequest.again(kept).node_filter is kept.node_filter
    assert sent == {
        "version": 1,
        "action": action,
        "name": "update_labels",
        "cluster": "default",
        "node_filter": {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["n1"]}]},
        "requested_by": kept.requested_by,
        "dry_run": True,
    }


def test_a_record_that_an_earlier_version_kept_is_read() -> None:
    kept = {
        "id": "01K9QJ5Y4M0000000000000001",
        "name": "relabel_nodes",
        "cluster": "default",
        "revision": 3,
        "requested_by": "ada",
        "requested_at": START.isoformat(),
        "deadline": START.isoformat(),
        "node_filter": {"filter_set_type": "union", "filter_set": [{"filter_type": "intersection", "node_tags": ["gpu"]}]},
        "dry_run": False,
        "parameters": {"node_filter": None},
        "context_marker": "",
        "of_a_later_version": 1,
    }
    read = ActionRequest.model_validate_json(json.dumps(kept))
    assert read.node_filter
    assert read.node_filter.filter_set == [FilterEntry(filter_type="intersection", node_tags=["gpu"])]
    assert json.loads(read.to_bytes()).items() >= {"name": "relabel_nodes", "cluster": "default", "revision": 3}.items()
