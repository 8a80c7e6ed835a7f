"""Releases and limits on the nodes of a real kube-apiserver: what waits, what is stopped, what is caught, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shared import telemetry, wiring
from shared.adapters.kubernetes import Kubernetes
from shared.domain.labels.node_states import NodesRequest
from shared.domain.names import DRIFT_SWEEP
from shared.work.control import control
from shared.work.nodes import node_states
from tests.kube_apiserver import Fleet as RealNodes
from tests.stories.sites import Site, design, policies
from tests.stories.test_limits import MISTAKES

pytestmark = pytest.mark.real
NODES = 9
BROUGHT = {"accelerator": "h100", "driver": "on", "site": "halden", "tier": "gold"}


@pytest.fixture
def site(real_cluster: Kubernetes, real_fleet: RealNodes) -> Iterator[Site]:
    """A site whose first revision is at every node of the cluster."""
    telemetry.write_to(None)
    site = Site()
    site.world.open_cluster = lambda _access, _name: real_cluster
    site.cluster = real_cluster  # type: ignore[assignment]
    for number in range(NODES):
        real_fleet.create(f"n{number:04}", {"accelerator": "h100"}, manager="kubelet")
    site.stages("design", design(NODES))
    site.stages("policies", policies())
    site.commits_it()
    assert site.ended(site.relabels()).result == "success"
    assert site.labels("n0000") == BROUGHT
    yield site
    wiring.install(None)


def holders(site: Site) -> dict[str, dict[str, tuple[str, ...]]]:
    return {node.name: dict(node.owners) for node in site.cluster.nodes()}


def versions(site: Site) -> dict[str, str]:
    return {node.name: node.resource_version for node in site.cluster.nodes()}


def sweeps(site: Site) -> None:
    site.sends(name=DRIFT_SWEEP)
    site.cloud.drain()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_touches_no_node_until_it_is_accepted_and_restoring_brings_everything_back(
    site: Site, mistake: Callable[[Site, int], None]
) -> None:
    before, seen, held = site.carried(), versions(site), holders(site)
    mistake(site, NODES)
    losing = site.commits_it().removals
    assert site.ended(site.relabels()).result == "blocked"
    sweeps(site)
    site.hears_of("n0000")
    assert versions(site) == seen

    assert site.ended(site.relabels(accept_removals=losing)).result in ("success", "partial_success")
    assert site.carried() != before
    assert site.post("/v1.0/revisions/1/restore").status_code == 201
    assert site.ended(site.relabels()).result == "success"
    assert (site.carried(), holders(site)) == (before, held)


def test_a_revision_that_waits_reaches_no_node_and_drift_goes_back_to_the_released_one(site: Site, real_fleet: RealNodes) -> None:
    site.stages("policies", {"policies.yaml": [*policies()["policies.yaml"][:1]]})
    site.commits_it()
    real_fleet.set_labels("n0001", {"site": "mine"})
    site.hears_of("n0001")
    assert site.labels("n0001") == BROUGHT
    real_fleet.set_labels("n0002", {"site": "mine"})
    sweeps(site)
    assert site.labels("n0002") == BROUGHT


def test_a_stopped_action_leaves_every_label_and_holder_as_it_was(site: Site) -> None:
    before, held = site.carried(), holders(site)
    site.stages("policies", {"policies.yaml": [*policies()["policies.yaml"], *policies("zone", site=False)["policies.yaml"][1:]]})
    site.stages("design", design(NODES, owner_data={"tier": "silver"}))
    site.commits_it()
    action = site.sends(name="update_site")
    apply = site.cluster.apply_labels

    def stops(*args: object, **more: object) -> object:
        node = apply(*args, **more)  # type: ignore[arg-type]
        if not site.world.actions.stopped(action):
            control(action, "stop", "an operator", site.world, site.now)
        return node

    site.cluster.apply_labels = stops  # type: ignore[assignment, method-assign]
    site.cloud.drain()
    sweeps(site)
    assert site.ended(action).result == "stopped"
    assert (site.carried(), holders(site)) == (before, held)


def test_labels_put_on_a_node_stay_through_sweeps_and_the_event_of_the_write_until_the_next_relabel(site: Site) -> None:
    answer = site.ask("PUT", "/v1.0/node-labels/n0000", json={"tier": "bronze"})
    assert answer.status_code == 200
    put = {"accelerator": "h100", "tier": "bronze"}
    site.hears_of("n0000")
    sweeps(site)
    assert site.labels("n0000") == put
    site.relabels("n0000")
    assert site.labels("n0000") == BROUGHT


def test_labels_that_the_api_server_refuses_leave_no_override(site: Site) -> None:
    refused = site.ask("PUT", "/v1.0/node-labels/n0000?force=false", json={"accelerator": "a100"})
    assert refused.status_code == 409
    sweeps(site)
    assert site.labels("n0000") == BROUGHT


def test_nodes_are_shown_with_the_holders_that_the_api_server_names_and_with_who_changed_what(site: Site, real_fleet: RealNodes) -> None:
    real_fleet.set_labels("n0000", {"tier": "tin"}, manager="a-colleague")
    states = node_states(NodesRequest(names=["n0000", "n0001"]), site.world).nodes
    assert states["n0000"].message == "tier is 'tin' by a-colleague, it should be 'gold'"
    assert (states["n0000"].in_sync, states["n0000"].reason, states["n0000"].holders["tier"]) == (False, "Drift", ["a-colleague"])
    assert (states["n0001"].in_sync, states["n0001"].reason, str(states["n0001"].release)) == (True, "", "revision 1")
    assert states["n0001"].labels.items() >= BROUGHT.items()
    real_fleet.delete("n0001")
    assert node_states(NodesRequest(names=["n0001"]), site.world).nodes["n0001"].reason == "NodeNotFound"
