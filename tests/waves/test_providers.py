"""Versions of EKS and GKE go in waves: from the clock, through the clients and the services' documented shapes, to the next stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from shared import telemetry, wiring
from shared.work.versions import committed_versions
from tests.versions.providers import FakeEks, FakeGke, Service
from tests.versions.test_providers import eks_fleet, gke_fleet
from tests.waves.test_line import EVENING, Waved, rollout

ACCESS = {
    "eks": {"eks": {"region": "eu-central-1", "name": "prod"}},
    "gke": {"gke": {"project": "p", "location": "europe-west4", "name": "c"}},
}
NEW = {"eks": "1.31.9-20250801", "gke": "1.31.7-gke.100"}
"""What both clusters are due: of EKS a release of the node groups' image, of GKE a patch."""


class Provided(Waved):
    """Two clusters of one provider, `dev` and `prod`, each under its Cluster document; a stage for the first."""

    provider: str
    fakes: dict[str, Any]

    def updates(self, name: str) -> int:
        """How many updates a cluster was asked for."""
        return len(self.fakes[name].service.asked)

    def evening(self, number: int, ends: Callable[[Any], None] = lambda fake: fake.finish()) -> None:
        """The checks of one window; what was begun ends ten minutes later."""
        for minute in (0, 10, 20, 30):
            self.night(number, minute)
            for fake in self.fakes.values():
                ends(fake)

    def held(self, name: str) -> set[str]:
        """What holds a cluster's updates back."""
        entries = committed_versions(self.world, live=True).decisions(self.now).decisions
        return {each.held.reason for each in entries if each.fleet == name and each.held}

    def runs_new(self, name: str) -> bool:
        """Whether every place of a cluster runs what it is due."""
        fake, new = self.fakes[name], NEW[self.provider]
        if isinstance(fake, FakeGke):
            return {fake.cluster["currentMasterVersion"], *(pool["version"] for pool in fake.cluster["nodePools"])} == {new}
        return {group["releaseVersion"] for group in fake.groups.values()} == {new}


@pytest.fixture(params=["eks", "gke"])
def site(request: pytest.FixtureRequest) -> Iterator[Provided]:
    telemetry.write_to(None)
    services = {name: Service() for name in ("dev", "prod")}
    fleet = Provided()
    fleet.provider = request.param
    fleet.fakes = {name: made(request.param, service) for name, service in services.items()}
    fleet.now = EVENING - timedelta(hours=4)
    fleet.world.open_fleet = lambda name, spec: (eks_fleet if request.param == "eks" else gke_fleet)(fleet.fakes[name], **spec.to_json())
    fleet.commits(*(document(request.param, name) for name in services), rollout())
    fleet.begun()
    yield fleet
    wiring.install(None)
    for service in services.values():
        service.close()


def made(provider: str, service: Service) -> Any:
    """A cluster that has something newer to go to, and nothing that expires."""
    if provider == "gke":
        gke = FakeGke(service)
        gke.valid[:] = [NEW["gke"], "1.31.5-gke.1000"]
        return gke
    eks = FakeEks(service)
    eks.cluster["upgradePolicy"] = {"supportType": "EXTENDED"}
    eks.versions[-1]["endOfExtendedSupportDate"] = 1900000000
    eks.publishes(NEW["eks"])
    return eks


def document(provider: str, name: str) -> dict[str, Any]:
    """The Cluster document of a stage's cluster."""
    maintenance = {"timeWindow": {"begin": "220000+0000", "end": "230000+0000"}}
    spec = {"provider": provider, "access": ACCESS[provider], "maintenance": maintenance}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name, "labels": {"env": name}}, "spec": spec}


def test_dev_goes_first_soaks_while_its_provider_says_it_is_well_and_then_production_goes(site: Provided) -> None:
    site.evening(0)
    assert (site.runs_new("dev"), site.updates("prod")) == (True, 0)
    assert "Soaking" in site.held("prod")
    site.evening(1)
    assert site.runs_new("prod")
    results = {outcome.result for action in site.world.actions.ids() if (outcome := site.world.actions.outcome(action))}
    assert results == {"success"}
    assert site.world.actions.open() == []


def test_production_waits_while_the_provider_works_on_dev(site: Provided) -> None:
    site.evening(0, lambda fake: None)
    site.evening(1, lambda fake: None)
    assert (site.runs_new("dev"), site.updates("prod")) == (False, 0)
    assert site.held("prod") <= {"WaitingForStage", "ControlPlaneBehind"}


def test_an_update_that_the_provider_gives_up_in_dev_stops_production(site: Provided) -> None:
    gave_up = lambda fake: fake.fail("InsufficientFreeAddresses", "no capacity") if isinstance(fake, FakeEks) else fake.fail("no capacity")  # noqa: E731
    for night in (0, 1, 2):
        site.evening(night, gave_up)
    assert site.updates("prod") == 0
    assert "StageFailed" in site.held("prod")
    assert any("no capacity" in each["message"] for each in site.notices("version.failed"))


def test_a_dev_cluster_that_is_not_well_after_its_update_stops_production(site: Provided) -> None:
    site.evening(0)
    for group in getattr(site.fakes["dev"], "groups", {}).values():
        group |= {"status": "DEGRADED", "health": {"issues": [{"code": "NodeCreationFailure", "message": "no nodes", "resourceIds": []}]}}
    site.fakes["dev"].cluster["status"] = "DEGRADED" if site.provider == "gke" else "ACTIVE"
    for night in (1, 2):
        site.evening(night, lambda fake: None)
    assert site.updates("prod") == 0
    assert "StageFailed" in site.held("prod")
