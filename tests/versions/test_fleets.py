"""Fleets stand apart: two gardens with the same names, and what people call a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from functions.version_apply.main import handle as apply
from functions.version_check.main import handle as check
from shared.domain.documents.reading import Document
from shared.domain.versions.answers import UnknownFleetCluster
from shared.domain.versions.catalogue import CloudProfile, NamespacedCloudProfile
from shared.domain.versions.clusters import FleetCluster, VersionStep
from shared.domain.versions.ics import calendar_bytes
from shared.domain.versions.profiles import Gardener, gardener
from shared.messages import VersionCheck, VersionUpdate
from shared.ports import Refused
from shared.work.versions import FleetVersions
from tests.versions.test_functions import EVENING, Site, cloud_profile, shoot, site, the_update  # noqa: F401 - the fixture

OLD = {"version": "1.27.3", "expirationDate": "2026-11-01T00:00:00Z"}


class LiveGarden:
    """A garden that keeps what it is asked for. Its Shoots are the same documents that a site would commit."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        read = [Document("garden", 0, 0, each["kind"], each["metadata"]["name"], each) for each in documents]
        self.there: Gardener = gardener(read)
        self.asked: list[tuple[str, str, str]] = []

    def clusters(self) -> Iterator[FleetCluster]:
        yield from self.there.clusters.values()

    def cluster(self, name: str) -> FleetCluster | None:
        return self.there.clusters.get(name)

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        return [*self.there.profiles.values()], [*self.there.namespaced.values()]

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        if not dry_run:
            self.asked.append((name, step.key, step.to))
            moved = self.there.clusters[name].with_versions({(step.component, step.subject): step.to})
            self.there.clusters[name] = moved
        return True


def garden_document(name: str) -> dict[str, Any]:
    spec = {"provider": "gardener", "access": {"kubeconfig": {"name": name}}}
    return {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}


def opens(site: Site, gardens: Mapping[str, Any]) -> None:  # noqa: F811 - the fixture's name
    """The site's Cluster documents lead to these gardens."""
    site.world.open_fleet = lambda name, spec: gardens[name]


def two_gardens(site: Site, *documents: dict[str, Any]) -> dict[str, LiveGarden]:  # noqa: F811
    """Two gardens with a Shoot and a CloudProfile of one name; they offer different versions."""
    gardens = {
        "east": LiveGarden(cloud_profile([{"version": "1.28.1"}, OLD]), shoot(pools=())),
        "west": LiveGarden(cloud_profile([{"version": "1.28.9"}, OLD]), shoot(pools=())),
    }
    opens(site, gardens)
    site.commits(garden_document("east"), garden_document("west"), *documents)
    return gardens


def test_a_cluster_is_given_only_what_its_own_garden_offers(site: Site) -> None:  # noqa: F811
    gardens = two_gardens(site)
    site.checks(EVENING)
    assert {name: garden.asked for name, garden in gardens.items()} == {
        "east": [("garden/s", "controlPlane/kubernetes", "1.28.1")],
        "west": [("garden/s", "controlPlane/kubernetes", "1.28.9")],
    }


def test_clusters_of_one_name_have_an_action_and_notices_of_their_own(site: Site) -> None:  # noqa: F811
    two_gardens(site, cloud_profile(), shoot(pools=()))
    site.checks(EVENING)
    requests = [site.world.actions.shown(action) for action in site.world.actions.ids()]
    assert sorted(request.cluster for request in requests if request) == ["east:garden/s", "garden/s", "west:garden/s"]
    updated = [notice for notice in site.cloud.notices if notice.type == "dev.hullmark.version.updated.v1"]
    assert sorted((notice.subject, notice.data["fleet"], notice.data["cluster"]) for notice in updated) == [
        ("east:garden/s", "east", "garden/s"),
        ("garden/s", "", "garden/s"),
        ("west:garden/s", "west", "garden/s"),
    ]
    assert len(site.notices("version.expired")) == 3


def test_a_shoot_document_keeps_its_plain_name_and_its_keys(site: Site) -> None:  # noqa: F811
    gardens = two_gardens(site, cloud_profile(), shoot(pools=()))
    gardens["east"].there.clusters.clear()
    gardens["west"].there.clusters.clear()
    site.checks(EVENING)
    assert site.world.store.keys("fleet/") == ["fleet/garden/s/000001.json"]
    assert [each["cluster"] for each in site.notices("action.finished")] == ["garden/s"]


def test_the_documents_profile_serves_a_fleet_that_has_none_of_that_name(site: Site) -> None:  # noqa: F811
    gardens = two_gardens(site, cloud_profile())
    gardens["west"].there.profiles.clear()
    site.checks(EVENING)
    assert [garden.asked[0][2] for garden in gardens.values()] == ["1.28.1", "1.28.1"]


def test_a_namespaced_profile_is_its_own_gardens(site: Site) -> None:  # noqa: F811
    override = {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "NamespacedCloudProfile",
        "metadata": {"name": "own", "namespace": "garden"},
        "spec": {
            "parent": {"kind": "CloudProfile", "name": "p"},
            "kubernetes": {"versions": [{"version": "1.27.3", "expirationDate": "2027-11-01T00:00:00Z"}]},
        },
    }
    referring = shoot(pools=())
    referring["spec"]["cloudProfile"] = {"kind": "NamespacedCloudProfile", "name": "own"}
    profile = cloud_profile([{"version": "1.28.1"}, OLD])
    gardens = {
        "east": LiveGarden(profile, override, referring),
        "west": LiveGarden(profile, override | {"spec": {"parent": {"kind": "CloudProfile", "name": "p"}}}, referring),
    }
    opens(site, gardens)
    site.commits(garden_document("east"), garden_document("west"))
    site.checks(EVENING)
    assert [garden.asked for garden in gardens.values()] == [[], [("garden/s", "controlPlane/kubernetes", "1.28.1")]]


def seen(site: Site) -> FleetVersions:  # noqa: F811
    world = site.world
    return FleetVersions.of(world.fleets(world.releases.look().committed))


def test_every_answer_says_of_which_fleet_a_cluster_and_a_profile_is(site: Site) -> None:  # noqa: F811
    two_gardens(site, cloud_profile(), shoot(pools=()))
    versions = seen(site)
    assert [(entry.fleet, entry.cluster, entry.to) for entry in versions.decisions(EVENING).decisions] == [
        ("", "garden/s", "1.28.1"),
        ("east", "garden/s", "1.28.1"),
        ("west", "garden/s", "1.28.9"),
    ]
    assert {(offer.profile, offer.inUse) for offer in versions.offers(EVENING).versions if offer.version == "1.27.3"} == {
        ("p", 1),
        ("east:p", 1),
        ("west:p", 1),
    }
    events = versions.calendar(EVENING, None).events
    assert {event.full_name for event in events} == {"garden/s", "east:garden/s", "west:garden/s"}
    uids = [line for line in calendar_bytes(events, EVENING).decode().splitlines() if line.startswith("UID")]
    assert len(uids) == len(set(uids)) == len(events)


@pytest.mark.parametrize(
    ("called", "meant"), [("east:garden/s", "east:garden/s"), ("west:s", "west:garden/s"), (":garden/s", "garden/s"), (":s", "garden/s")]
)
def test_a_cluster_is_called_by_its_fleet_and_name(site: Site, called: str, meant: str) -> None:  # noqa: F811
    two_gardens(site, cloud_profile(), shoot(pools=()))
    assert seen(site).why(called, EVENING).full_name == meant


def test_a_name_that_several_fleets_have_is_asked_back(site: Site) -> None:  # noqa: F811
    two_gardens(site, cloud_profile(), shoot(pools=()))
    for called in ("garden/s", "s"):
        with pytest.raises(UnknownFleetCluster, match="there are several: :garden/s, east:garden/s, west:garden/s"):
            seen(site).why(called, EVENING)
    with pytest.raises(UnknownFleetCluster, match="known are"):
        seen(site).why("north:garden/s", EVENING)


def test_a_check_of_an_ambiguous_name_touches_none_of_them_and_says_so(site: Site) -> None:  # noqa: F811
    gardens = two_gardens(site)
    said = check(VersionCheck(clusters=["garden/s"], force_window=True), site.world, EVENING)
    assert "there are several: east:garden/s, west:garden/s" in said
    site.checks(EVENING, clusters=["west:garden/s"])
    assert [len(garden.asked) for garden in gardens.values()] == [0, 1]


def test_an_update_of_an_earlier_release_names_no_fleet_and_finds_its_cluster_where_it_is_the_only_one(site: Site) -> None:  # noqa: F811
    gardens = two_gardens(site)
    del gardens["east"].there.clusters["garden/s"]
    sent = the_update(site)
    old = json.loads(sent.outgoing().data)
    assert old.pop("fleet") == "west"
    assert apply(VersionUpdate.parse(json.dumps(old).encode()), site.world, EVENING) == "controlPlane/kubernetes changed"


def test_of_several_clusters_such_an_update_moves_none(site: Site) -> None:  # noqa: F811
    gardens = two_gardens(site)
    fleets = site.world.fleets(site.world.revisions.get(1))
    with pytest.raises(Refused, match="garden/s is in several fleets: east, west"):
        fleets.find("garden/s")
    found = fleets.find("garden/s", "west")
    assert found is not None
    assert found[1] == replace(gardens["west"].there.clusters["garden/s"], fleet="west")
    assert fleets.find("garden/s", "north") is None
