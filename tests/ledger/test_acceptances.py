"""Acceptances are kept as they were given, and hold while the cluster's base is the one they were given on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from shared.adapters.store import open_store
from shared.domain.labels.impact import Acceptance
from shared.ledger.acceptances import Acceptances, Accepted

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def accepted(**more: Any) -> Accepted:
    return Accepted(
        **{"revision": 7, "cluster": "halden", "base": 5, "removals": 30, "by": "ada", "at": NOW, "reason": "as agreed", **more}
    )


def test_an_acceptance_is_for_one_revision_on_one_cluster_and_one_base() -> None:
    kept = Acceptances(open_store("memory:"))
    kept.add(accepted())
    kept.add(accepted(removals=None, takeovers=4))
    assert kept.holding(7, "halden", 5) == [Acceptance(removals=30), Acceptance(takeovers=4)]
    assert kept.holding(7, "halden", 6) == []
    assert kept.holding(8, "halden", 5) == []
    assert kept.holding(7, "eu", 5) == []
    assert [each.reason for each in kept.of(7, "halden")] == ["as agreed"] * 2


def test_an_acceptance_that_a_request_used_is_recorded_once_however_often_it_is_delivered() -> None:
    kept = Acceptances(open_store("memory:"))
    kept.add(accepted(), "01KAJ000000000000000000001")
    kept.add(accepted(removals=99), "01KAJ000000000000000000001")
    assert kept.holding(7, "halden", 5) == [Acceptance(removals=30)]


def test_a_torn_acceptance_accepts_nothing_and_hides_no_other() -> None:
    store = open_store("memory:")
    kept = Acceptances(store)
    store.create("acceptances/000007/halden/01KAJ000000000000000000001.json", b'{"revision": 7')
    kept.add(accepted())
    assert kept.holding(7, "halden", 5) == [Acceptance(removals=30)]
