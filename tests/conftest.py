"""The real parts that tests may ask for, and what happens where they are not to be had."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from shared import telemetry
from shared.adapters.kubernetes import Kubernetes
from tests.kube_apiserver import HOW, Fleet, KubeApiserver, assets
from tests.pubsub import the_emulator


def require_real(part: str, found: object, how: str) -> None:
    """Go on with a real part that was found; else skip with a reason, or fail where HULLMARK_REQUIRE_REAL=1 wants them all."""
    if found:
        return
    message = f"no {part} here: {how}"
    if os.environ.get("HULLMARK_REQUIRE_REAL") == "1":
        pytest.fail(message)
    pytest.skip(message)


@pytest.hookimpl(tryfirst=True)  # xdist looks at groups in its own hook of this name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the real API server share one: under xdist they run in one worker."""
    for item in items:
        if "kube" in getattr(item, "fixturenames", ()) or item.get_closest_marker("real"):
            item.add_marker(pytest.mark.xdist_group("real"))


def pytest_sessionfinish() -> None:
    """End what tests of the whole run shared."""
    if the_emulator.cache_info().currsize:
        the_emulator().stop()


@pytest.fixture(autouse=True)
def _what_a_test_sets_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where log lines go, and the environment (the command's own options set some of it)."""
    monkeypatch.setattr(telemetry._Output, "stream", None)
    monkeypatch.setattr(telemetry._Output, "redirected", False)
    before = {name: value for name, value in os.environ.items() if name.startswith("HULLMARK_")}
    yield
    for name in [name for name in os.environ if name.startswith("HULLMARK_")]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def kube() -> Iterator[KubeApiserver]:
    """A real kube-apiserver, one for the whole run. Its nodes are whoever cleared them last left."""
    require_real("kube-apiserver", assets(), HOW)
    with KubeApiserver() as server:
        yield server


@pytest.fixture
def real_fleet(kube: KubeApiserver) -> Fleet:
    """The real cluster as others change it, without nodes at first."""
    fleet = Fleet(kube)
    fleet.clear()
    return fleet


@pytest.fixture
def real_cluster(kube: KubeApiserver, real_fleet: Fleet) -> Kubernetes:
    """The real cluster as Hullmark sees it, without nodes at first."""
    return Kubernetes(kube.access)
