"""Two waves over the Shoots of a garden cluster, on a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from shared import telemetry, wiring
from shared.adapters.gardener import GROUP, Garden
from shared.domain.labels.impact import Accepting
from shared.work.rollouts import start
from tests.kube_apiserver import KubeApiserver
from tests.versions.test_functions import EVENING, cloud_profile
from tests.versions.test_garden import Real
from tests.waves.test_line import VERSIONS, Waved, a_shoot, rollout

pytestmark = pytest.mark.real
GARDEN = {
    "apiVersion": "hullmark.dev/v1",
    "kind": "Cluster",
    "metadata": {"name": "garden"},
    "spec": {"provider": "gardener", "access": {"inCluster": {}}},
}
TEN_MINUTES = [{"name": "dev", "clusters": {"matchLabels": {"env": "dev"}}, "soak": "10m"}]


@pytest.fixture(scope="module")
def real(kube: KubeApiserver) -> Real:
    return Real(kube)


@pytest.fixture
def site(real: Real) -> Iterator[Waved]:
    telemetry.write_to(None)
    fleet = Waved()
    fleet.now = EVENING - timedelta(hours=4)
    fleet.world.open_fleet = lambda _name, _spec: Garden(real.access)
    real.has(cloud_profile(VERSIONS))
    for name, env in (("d", "dev"), ("p", "prod")):
        real.has(a_shoot(name, env))
        real.reconciles(name)
    fleet.commits(GARDEN, rollout(TEN_MINUTES))
    start("safe", "ada", fleet.world, fleet.now, Accepting())
    yield fleet
    for name in ("d", "p"):
        real.server.request("DELETE", f"{GROUP}/namespaces/garden/shoots/{name}")
    wiring.install(None)


def runs(real: Real) -> list[str]:
    return [real.shoot(name)["spec"]["kubernetes"]["version"] for name in ("d", "p")]


def test_a_shoot_goes_when_the_stage_before_it_runs_the_version_in_good_health(real: Real, site: Waved) -> None:
    site.night(0)
    assert runs(real) == ["1.30.4", "1.30.1"]
    site.night(0, 12)
    assert runs(real) == ["1.30.4", "1.30.1"], "its spec says so, but nobody has acted on that yet"
    real.reconciles("d")
    site.night(0, 14)
    site.night(0, 20)
    assert (runs(real), site.status().reason) == (["1.30.4", "1.30.1"], "Soaking")
    site.night(0, 25)
    assert runs(real) == ["1.30.4", "1.30.4"]


def test_a_shoot_that_is_not_healthy_after_its_update_keeps_the_next_stage_back(real: Real, site: Waved) -> None:
    site.night(0)
    real.reconciles("d", healthy=False)
    site.night(0, 1)
    site.night(0, 32)
    assert (runs(real), site.status().reason) == (["1.30.4", "1.30.1"], "StageFailed")
    assert "APIServerAvailable" in site.status().message
