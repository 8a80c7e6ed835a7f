"""One bad fleet stops nothing: it has a notice and a line of its own, and the others go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from functions.version_apply.main import handle as apply
from shared.adapters.apiserver import Access
from shared.adapters.gardener import Garden
from shared.domain.documents.reading import DocumentsRefused, Source
from shared.domain.site import load
from shared.domain.versions.clusters import FleetCluster
from shared.messages import TryAgain
from shared.ports import Refused, Unavailable
from tests.versions.providers import FakeEks
from tests.versions.test_fleets import OLD, LiveGarden, garden_document, opens
from tests.versions.test_functions import EVENING, Site, cloud_profile, shoot, site, the_update  # noqa: F401 - the fixture
from tests.versions.test_providers import eks, eks_fleet, service  # noqa: F401 - the fixtures

Failing = Callable[[Site], Any]


class Bad(LiveGarden):
    """A garden whose listing ends in an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def clusters(self) -> Iterator[FleetCluster]:
        raise self.error

    def cluster(self, name: str) -> FleetCluster | None:
        raise self.error


def good() -> LiveGarden:
    return LiveGarden(cloud_profile([{"version": "1.28.1"}, OLD]), shoot(pools=()))


def beside(site: Site, bad: Any) -> LiveGarden:  # noqa: F811 - the fixture's name
    """A sound garden between two of the bad kind."""
    sound = good()
    gardens = {"a-bad": bad, "sound": sound, "z-bad": bad}

    def opened(name: str, _spec: Any) -> Any:
        if isinstance(gardens[name], Exception):
            raise gardens[name]
        return gardens[name]

    site.world.open_fleet = opened
    site.commits(*(garden_document(name) for name in gardens))
    return sound


@pytest.mark.parametrize(
    ("bad", "reason", "said"),
    [
        (Bad(Unavailable("no route to host")), "Unavailable", "no route to host"),
        (Bad(Refused("Forbidden", "not you")), "Forbidden", "not you"),
        (Bad(KeyError("version")), "UnexpectedAnswer", "KeyError: 'version'"),
        (Refused("ClusterUnknown", "no such entry"), "ClusterUnknown", "no such entry"),
        (OSError("no such file"), "UnexpectedAnswer", "OSError: no such file"),
    ],
)
def test_a_fleet_that_fails_is_told_of_by_name_and_cause_and_the_others_go_on(site: Site, bad: Any, reason: str, said: str) -> None:  # noqa: F811
    sound = beside(site, bad)
    site.checks(EVENING)
    assert sound.asked == [("garden/s", "controlPlane/kubernetes", "1.28.1")]
    told = [notice for notice in site.cloud.notices if notice.type == "dev.hullmark.fleet.unreadable.v1"]
    assert [(notice.subject, notice.data["reason"]) for notice in told] == [("a-bad", reason), ("z-bad", reason)]
    assert all(said in notice.data["message"] for notice in told)


def test_a_fleet_that_stays_away_is_told_of_once_a_day(site: Site) -> None:  # noqa: F811
    beside(site, Bad(Unavailable("no route")))
    days = [EVENING + timedelta(days=day, minutes=minute) for day in range(3) for minute in (0, 10, 20)]
    counts = []
    for now in days:
        site.checks(now)
        counts.append(len(site.notices("fleet.unreadable")))
    assert counts == [2, 2, 2, 4, 4, 4, 6, 6, 6]


def test_the_time_that_is_left_is_shared_so_that_a_slow_fleet_takes_no_more_than_its_part(site: Site) -> None:  # noqa: F811
    spent = [0.0]

    class Slow(Bad):
        def within(self, left: Callable[[], float], tries: int = 1) -> Slow:
            self.left = left
            return self

        def clusters(self) -> Iterator[FleetCluster]:
            while self.left() > 0:
                spent[0] += 10
            raise self.error

    site.world.monotonic = lambda: spent[0]
    site.world.settings = site.world.settings.model_copy(update={"timeout_seconds": 300.0})
    sound = beside(site, Slow(Unavailable("no time was left")))
    site.checks(EVENING)
    assert spent == [60.0]
    assert len(sound.asked) == 1


def test_an_update_whose_fleet_is_away_is_tried_again_and_fails_with_the_cause(site: Site) -> None:  # noqa: F811
    gardens: dict[str, Any] = {"east": good()}
    opens(site, gardens)
    site.commits(garden_document("east"))
    update = the_update(site)
    gardens["east"] = Bad(Unavailable("no route to host"))
    with pytest.raises(TryAgain, match="no route to host"):
        apply(update, site.world, EVENING)
    gardens["east"] = Bad(KeyError("status"))
    with pytest.raises(TryAgain, match="KeyError: 'status'"):
        apply(update, site.world, EVENING)
    assert apply(update, site.world, EVENING, last=True) == "controlPlane/kubernetes failed"


def test_an_update_whose_fleet_cannot_be_opened_says_why(site: Site) -> None:  # noqa: F811
    opens(site, {"east": good()})
    site.commits(garden_document("east"))
    update = the_update(site)

    def closed(_name: str, _spec: Any) -> Any:
        raise Refused("ClusterUnknown", "HULLMARK_KUBECONFIGS has no entry 'east'")

    site.world.open_fleet = closed
    del site.world.bus.publish
    apply(update, site.world, EVENING)
    site.cloud.drain()
    (failed,) = site.notices("version.failed")
    assert failed["code"] == "ClusterUnknown"
    assert "has no entry 'east'" in failed["message"]


@pytest.mark.parametrize(
    ("provider", "access"),
    [
        ("eks", {"kubeconfig": {"name": "k"}}),
        ("gke", {"inCluster": {}}),
        ("gardener", {"eks": {"region": "eu-central-1", "name": "prod"}}),
    ],
)
def test_a_provider_that_its_access_cannot_reach_is_refused_at_validation(provider: str, access: dict[str, Any]) -> None:
    spec = {"provider": provider, "access": access}
    document = {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "c"}, "spec": spec}
    with pytest.raises(DocumentsRefused, match=f"provider {provider} is reached by"):
        load([Source("c.yaml", json.dumps(document).encode())], now=EVENING)


def test_a_node_group_without_a_version_is_named_and_its_cluster_left_alone(site: Site, eks: FakeEks) -> None:  # noqa: F811
    del eks.groups["b"]["version"]
    sound = good()
    opens(site, {"prod": eks_fleet(eks), "sound": sound})
    site.commits(garden_document("prod"), garden_document("sound"))
    site.checks(EVENING)
    (told,) = site.notices("fleet.unreadable")
    assert (told["fleet"], told["reason"]) == ("prod", "UnexpectedAnswer")
    assert "node group b of cluster prod: version" in told["message"]
    assert eks.service.asked == []
    assert len(sound.asked) == 1


class Answering(Garden):
    """A garden whose answers are these objects."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__(lambda: Access("http://127.0.0.1:1"))
        self.objects = objects

    def _list(self, resource: str) -> Iterator[dict[str, Any]]:
        yield from (each for each in self.objects if f"{each['kind'].lower()}s" == resource)

    def _shoot(self, _name: str) -> dict[str, Any] | None:
        return next(self._list("shoots"), None)


@pytest.mark.parametrize("field", ["freeze", "timeWindow"])
def test_a_live_shoot_with_a_mistyped_field_is_left_alone(field: str) -> None:
    mistyped = shoot(annotations={"hullmark.dev/freeze": "2026-12-32"} if field == "freeze" else {})
    if field == "timeWindow":
        mistyped["spec"]["maintenance"]["timeWindow"]["begin"] = "22:00"
    garden = Answering(mistyped)
    assert list(garden.clusters()) == []
    assert field in garden.unreadable["garden/s"]
    with pytest.raises(Refused, match=field):
        garden.cluster("garden/s")


def test_no_profile_of_the_documents_stands_in_for_a_live_one_that_cannot_be_read(site: Site) -> None:  # noqa: F811
    opens(site, {"east": Answering(cloud_profile([{"version": "1.28.1"}, {"version": "1.27.3", "expirationDate": "2026-13-01"}]), shoot())})
    site.commits(garden_document("east"), cloud_profile())
    view = site.world.fleets(site.world.revisions.get(1)).view()
    assert view.profile_of(view.clusters["east:garden/s"]) is None
