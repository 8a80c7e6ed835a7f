"""Where revisions are released, and where the newest waits."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.domain.labels.reach import ClusterReach, ReleasedIn, cluster_reach, whereabouts
from shared.domain.labels.releases import Mark

AT = datetime(2026, 11, 21, tzinfo=UTC)


def test_a_cluster_is_at_its_base_but_for_nodes_that_have_another_release() -> None:
    own = [Mark(3, "", 9), Mark(3, "", 8), Mark(1, "", 7), Mark(2, "", 5), Mark(2, "01OVERRIDE", 10)]
    assert cluster_reach("east", 2, own, 3, AT) == ClusterReach(
        cluster="east", base=2, elsewhere={1: 1, 3: 2}, overrides=1, waits=3, since=AT
    )


def test_nothing_waits_where_the_newest_is_the_base_or_was_rejected() -> None:
    assert cluster_reach("east", 3, [], 3, AT) == ClusterReach(cluster="east", base=3)
    assert cluster_reach("east", 3, [], 0, AT).waits is None


def test_before_the_first_release_everything_waits() -> None:
    reach = cluster_reach("east", 0, [], 1, AT)
    assert (reach.base, reach.waits, reach.newest) == (None, 1, 0)


def test_a_revision_is_told_where_it_is_and_where_it_waits() -> None:
    there = [
        ClusterReach(cluster="east", base=3),
        ClusterReach(cluster="north", trouble="torn"),
        ClusterReach(cluster="west", base=2, elsewhere={3: 1}, waits=3, since=AT),
    ]
    newest = whereabouts(3, there)
    assert (newest.released, newest.waits) == ({"east": ReleasedIn(base=True, nodes=0), "west": ReleasedIn(base=False, nodes=1)}, ["west"])
    assert [str(where) for where in newest.released.values()] == ["", "1 node"]
    assert whereabouts(2, there).released == {"west": ReleasedIn(base=True, nodes=0)}
    assert whereabouts(1, there) == whereabouts(1, [])
