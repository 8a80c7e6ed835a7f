"""Nodes of a real kube-apiserver stay true: our forwarder watches them, and what it tells becomes repairs by node_event and node_apply."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from shared.adapters.kubernetes_watch import Expired, NodeWatch
from shared.domain.nodes import ALIAS_OWNER, OWNER
from tests.conftest import require_real
from tests.kube_apiserver import HOW, KubeApiserver, assets
from tests.real.watched import Watched, until, watched
from tests.stories.fleet import a_policy

pytestmark = pytest.mark.real
OS, BETA_OS, ARCH, BETA_ARCH = "kubernetes.io/os", "beta.kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/arch"
RACK = a_policy("rack", {"names": ["n1"]}, {"rack": "r7"})
FOREIGN = {"kubernetes.io/hostname": "n1", OS: "linux", BETA_OS: "linux", "hand.made/note": "keep"}


@pytest.fixture
def cluster(kube: KubeApiserver) -> Iterator[Watched]:
    with watched(kube) as found:
        yield found


def test_a_new_node_is_true_after_one_event_with_one_write_and_no_read(cluster: Watched) -> None:
    cluster.declares(RACK)
    cluster.fleet.create("n2")
    cluster.settles()  # the cluster's version is known from now on
    cluster.calls.clear()

    cluster.fleet.create("n1", FOREIGN)
    until("n1 is true", lambda: cluster.labels("n1") == {**FOREIGN, "rack": "r7"})
    cluster.settles()

    assert cluster.calls == ["PATCH /api/v1/nodes/n1"]


def test_the_event_of_our_own_write_ends_there(cluster: Watched) -> None:
    cluster.declares(RACK)
    cluster.fleet.create("n1")
    until("n1 is true", lambda: cluster.labels("n1") == {"rack": "r7"})
    version, published = cluster.node("n1").resource_version, cluster.forwarder.published

    cluster.settles()

    assert cluster.forwarder.published >= published
    assert cluster.forwarder.published == 2  # the node, and our own write to it
    assert cluster.node("n1").resource_version == version
    assert cluster.writes("n1") == 1


def test_a_node_that_is_deleted_and_created_again_gets_its_labels_again(cluster: Watched) -> None:
    cluster.declares(RACK)
    before = cluster.fleet.create("n1")
    cluster.settles()
    cluster.fleet.delete("n1")

    after = cluster.fleet.create("n1", {"zone": "b"})

    assert after != before
    until("the new n1 is true", lambda: cluster.labels("n1") == {"zone": "b", "rack": "r7"})
    cluster.settles()
    assert cluster.writes("n1") == 2


@pytest.mark.parametrize("edit", [{"rack": "by-hand"}, {"rack": None}, {"rack": ""}])
def test_a_label_that_is_edited_by_hand_comes_back_in_one_event_and_nothing_else_is_touched(
    cluster: Watched, edit: dict[str, str | None]
) -> None:
    cluster.declares(RACK)
    cluster.fleet.create("n1", FOREIGN)
    cluster.settles()
    cluster.calls.clear()

    cluster.fleet.set_labels("n1", {**edit, "theirs": "stays"}, "kubectl-edit")
    until("n1 is true", lambda: cluster.labels("n1") == {**FOREIGN, "rack": "r7", "theirs": "stays"})
    cluster.settles()

    assert cluster.calls == ["PATCH /api/v1/nodes/n1"]
    assert cluster.node("n1").applied == {OWNER: frozenset({"rack"})}
    assert cluster.fights() == []


def test_a_label_that_makes_a_policy_select_the_node_brings_the_policys_labels(cluster: Watched) -> None:
    cluster.declares(a_policy("gpu", {"matchLabels": {"nvidia.com/gpu.present": "true"}}, {"pool": "gpu"}))
    cluster.fleet.create("n1")
    cluster.settles()
    assert cluster.labels("n1") == {}

    cluster.fleet.set_labels("n1", {"nvidia.com/gpu.present": "true"}, "gpu-operator")
    until("n1 is in the pool", lambda: cluster.labels("n1").get("pool") == "gpu")
    cluster.fleet.set_labels("n1", {"nvidia.com/gpu.present": None}, "gpu-operator")
    until("n1 left the pool", lambda: cluster.labels("n1") == {})


def test_what_kubelets_report_is_no_event(cluster: Watched) -> None:
    cluster.declares(RACK)
    cluster.fleet.create("n1")
    cluster.settles()
    published = cluster.forwarder.published

    for number in range(20):
        cluster.fleet.patch("n1", {"metadata": {"annotations": {"heartbeat": str(number)}}}, "kubelet")
    cluster.settles()

    assert cluster.forwarder.published == published


def test_when_every_event_is_lost_the_sweep_repairs_the_nodes_and_names_who_changed_them(cluster: Watched) -> None:
    cluster.declares(RACK, a_policy("ring", {"names": ["n2", "n3"]}, {"ring": "1"}))
    for name in ("n1", "n2", "n4"):
        cluster.fleet.create(name)
    cluster.settles()
    cluster.stops_watching()
    cluster.fleet.set_labels("n1", {"rack": "by-hand"}, "kubectl-edit")
    cluster.fleet.set_labels("n2", {"ring": None}, "other-operator")
    cluster.fleet.create("n3")
    cluster.cloud.drain()
    assert (cluster.labels("n1"), cluster.labels("n2"), cluster.labels("n3")) == ({"rack": "by-hand"}, {}, {})

    swept = cluster.sweeps()

    assert (cluster.labels("n1"), cluster.labels("n2"), cluster.labels("n3")) == ({"rack": "r7"}, {"ring": "1"}, {"ring": "1"})
    told = {outcome.subject: outcome for outcome in swept.outcomes}
    assert sorted(told) == ["n1", "n2", "n3"]
    assert (told["n1"].reason, told["n1"].message) == ("Drift", "rack was 'by-hand' by kubectl-edit")
    assert swept.unchanged == ["n4"]
    versions = [cluster.node(name).resource_version for name in told]
    assert cluster.sweeps().counts == {"unchanged": 4}
    assert [cluster.node(name).resource_version for name in told] == versions


@pytest.mark.parametrize(
    ("version", "before", "after", "held"),
    [
        ("v1.17.17-gke.9", {BETA_OS: "linux"}, {BETA_OS: "linux", OS: "linux"}, {OS}),
        ("v1.17.17-gke.9", {BETA_OS: "linux", OS: "windows"}, {BETA_OS: "linux", OS: "linux"}, {OS}),
        ("v1.17.17-gke.9", {BETA_OS: "linux", OS: "linux"}, {BETA_OS: "linux", OS: "linux"}, set()),
        ("v1.17.17-gke.9", {OS: "linux"}, {OS: "linux"}, set()),
        (
            "v1.17.17-gke.9",
            {BETA_OS: "linux", BETA_ARCH: "arm64"},
            {BETA_OS: "linux", OS: "linux", BETA_ARCH: "arm64", ARCH: "arm64"},
            {OS, ARCH},
        ),
        ("", {OS: "linux"}, {OS: "linux"}, set()),
        ("", {OS: "linux", BETA_OS: "windows"}, {OS: "linux", BETA_OS: "linux"}, {BETA_OS}),
        ("", {OS: "linux", BETA_OS: "linux"}, {OS: "linux", BETA_OS: "linux"}, set()),
        ("", {BETA_OS: "linux"}, {BETA_OS: "linux"}, set()),
        ("", {OS: "linux", BETA_OS: "windows", ARCH: "arm64", BETA_ARCH: "amd64"}, None, {BETA_OS, BETA_ARCH}),
        ("", {OS: "linux", "beta.kubernetes.io/os-image": "x"}, {OS: "linux", "beta.kubernetes.io/os-image": "x"}, set()),
    ],
)
def test_kep_793_row_by_row_on_the_real_server(
    cluster: Watched,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    before: dict[str, str],
    after: dict[str, str] | None,
    held: set[str],
) -> None:
    """An empty version: the server's own, asked from it. `after` None: every beta key follows its GA key."""
    if version:
        monkeypatch.setattr(cluster.cluster, "server_version", lambda: version)
    after = after or {**before, BETA_OS: before[OS], BETA_ARCH: before[ARCH]}

    cluster.fleet.create("n1", before)
    cluster.settles()

    assert cluster.labels("n1") == after
    assert cluster.node("n1").applied.get(ALIAS_OWNER, frozenset()) == held
    assert OWNER not in cluster.node("n1").applied
    assert cluster.writes("n1") == (1 if held else 0)  # the aliases alone: nothing is declared

    version_then = cluster.node("n1").resource_version
    cluster.declares()
    assert cluster.sweeps().counts == {"unchanged": 1}
    cluster.fleet.patch("n1", {"metadata": {"labels": {"theirs": "x"}}})
    cluster.settles()
    assert cluster.node("n1").resource_version != version_then
    assert cluster.writes("n1") == (1 if held else 0)


def test_an_alias_follows_when_its_primary_is_changed(cluster: Watched) -> None:
    cluster.fleet.create("n1", {OS: "linux", BETA_OS: "linux"})
    cluster.settles()
    cluster.fleet.set_labels("n1", {OS: "windows"}, "kubectl-label")
    until("the beta key follows", lambda: cluster.labels("n1") == {OS: "windows", BETA_OS: "windows"})


@pytest.mark.parametrize("theirs", ["theirs", None])
def test_a_fight_of_two_writers_is_bounded_and_told_once(cluster: Watched, theirs: str | None) -> None:
    """The other writer sets the label again and again, or takes it away."""
    cluster.declares(RACK)
    cluster.fleet.create("n1")
    cluster.settles()
    cluster.calls.clear()
    repaired = 0

    for _ in range(10):
        cluster.fleet.set_labels("n1", {"rack": theirs}, "other-operator")
        cluster.settles()
        repaired += cluster.labels("n1").get("rack") == "r7"

    assert (repaired, cluster.writes("n1")) == (3, 3)
    (told,) = cluster.fights()
    assert "n1" in told
    assert "rack" in told
    assert theirs is None or "other-operator" in told  # who takes a label away leaves no trace on the node

    cluster.now += timedelta(minutes=10)
    cluster.fleet.set_labels("n1", {"rack": theirs, "more": "news"}, "other-operator")
    until("the next window lets one more through", lambda: cluster.labels("n1").get("rack") == "r7")


def test_the_forwarder_goes_on_where_its_watch_was_cut(cluster: Watched) -> None:
    cluster.declares(RACK)
    cluster.fleet.create("n1")
    cluster.settles()
    cluster.wire.cut()
    cluster.fleet.set_labels("n1", {"rack": "by-hand"})
    cluster.wire.cut(mend=True)

    until("n1 is true", lambda: cluster.labels("n1") == {"rack": "r7"})
    assert cluster.source.listings == 1
    assert len(cluster.source.asked) > 1


def test_a_version_that_is_compacted_away_makes_the_forwarder_list_again() -> None:
    """Without a watch cache and with a compaction each second, what happened before is soon gone."""
    require_real("kube-apiserver", assets(), HOW)
    with KubeApiserver("--watch-cache=false", "--etcd-compaction-interval=1s") as kube, watched(kube) as cluster:
        cluster.declares(RACK, a_policy("ring", {"names": ["n2", "n3"]}, {"ring": "1"}))
        for name in ("n1", "n2"):
            cluster.fleet.create(name)
        cluster.settles()
        cluster.wire.cut()
        cluster.fleet.set_labels("n1", {"rack": "by-hand"})
        cluster.fleet.delete("n2")
        cluster.fleet.create("n2", {"zone": "b"})
        cluster.fleet.create("n3")
        at = str(cluster.source.done)
        until("the version is compacted away", lambda: expired(NodeWatch(cluster.observer.server), at))
        assert cluster.labels("n1") == {"rack": "by-hand"}

        cluster.wire.cut(mend=True)

        until("n1 is true", lambda: cluster.labels("n1") == {"rack": "r7"})
        until("the new n2 is true", lambda: cluster.labels("n2") == {"zone": "b", "ring": "1"})
        until("n3 is true", lambda: cluster.labels("n3") == {"ring": "1"})
        assert cluster.source.listings == 2


def expired(watch: NodeWatch, version: str) -> bool:
    """Whether a watch from this version is answered with 410 Gone."""
    try:
        next(watch.since(version))
    except Expired:
        return True
    return False
