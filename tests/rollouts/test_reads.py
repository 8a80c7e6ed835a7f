"""What a rollout reads of the store: counted, with documents that are kept in several objects."""

from __future__ import annotations

import pytest

from local.cloud.embedded import Waiting
from shared.ledger import revisions
from shared.messages import RelabelRequest
from tests.counting import Counting
from tests.rollouts.rolling import Rolling, a_rollout
from tests.stories.fleet import a_policy
from tests.stories.sites import design

STAGES = [{"name": f"s{percent}", "percent": percent} for percent in (1, 5, 20)] + [{"name": "half", "percent": 50, "approval": "before"}]
LEDGERS = ("actions", "pauses", "releases", "revisions", "rollouts")


class Read(Rolling):
    """Two hundred nodes of a design, in ten objects a revision; each is at revision 1. The store counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(revisions, "NODES_PER_SHARD", 20)
        self.store = Counting(self.world.store)
        self.world.store = self.store
        self.design = [document for documents in design(200).values() for document in documents]
        self.has_nodes(**{f"n{number:04}": {} for number in range(200)})
        self.declares_tier("old")
        self.relabels()

    def declares_tier(self, tier: str) -> None:
        self.commits(*self.design, a_policy("tiers", {}, {"tier": tier}), a_rollout(*STAGES), adopted=False)

    def is_cold(self) -> None:
        """From here on each message is handled by a process that knows nothing."""
        deliver = self.cloud._deliver

        def anew(waiting: object) -> None:
            for ledger in LEDGERS:
                vars(self.world).pop(ledger, None)
            deliver(waiting)  # type: ignore[arg-type]

        self.cloud._deliver = anew  # type: ignore[method-assign]

    def contents(self) -> int:
        """How many objects of documents were read since the last time that somebody asked; what tells which revision is newest is none."""
        read = [key for name, key in self.store.asked if name == "get" and key.startswith("revisions/") and key.count("/") > 2]
        self.store.clear()
        return len(read)

    def a_site_action(self) -> int:
        self.declares_tier("new")
        self.store.clear()
        self.relabels()
        return self.contents()

    def a_sweep(self) -> int:
        self.store.clear()
        self.sends(name="drift_sweep")
        self.cloud.drain()
        return self.contents()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, fleet: Rolling) -> Read:
    return Read(monkeypatch)


def test_a_whole_rollout_reads_its_revision_at_most_twice_as_often_as_a_site_action(site: Read) -> None:
    plain = site.a_site_action()
    assert plain == 12  # ten objects of nodes, its policies, its clusters
    site.declares_tier("newer")
    site.store.clear()
    site.starts()
    site.says("approve", "half")
    assert site.status.phase == "done"
    assert site.contents() <= 2 * plain


def test_processes_that_know_nothing_read_at_most_twice_what_a_site_action_reads_for_each_batch_and_each_sweep(site: Read) -> None:
    site.is_cold()
    plain, sweep = site.a_site_action(), site.a_sweep()
    site.declares_tier("newer")
    site.store.clear()
    site.starts()
    read = site.contents()
    assert site.a_sweep() <= 2 * sweep
    site.says("approve", "half")
    read += site.contents()
    batches = site.world.rollouts.get(site.rollout).batches
    assert len(batches) == 5
    assert read <= 2 * plain * len(batches)


def test_a_step_that_finds_nothing_to_do_reads_one_object_of_its_rollout_and_lists_nothing_of_it(site: Read) -> None:
    site.declares_tier("new")
    site.starts()
    assert site.status.reason == "AwaitingApproval"
    site.later(minutes=1)
    site.store.clear()
    site.later(minutes=1)
    chain = [(name, key) for name, key in site.store.asked if key.startswith((f"rollouts/{site.rollout}/0", "rollout-heads/"))]
    assert {name for name, _ in chain} == {"get"}
    assert len({key for _, key in chain}) == 1


def test_the_request_of_a_batch_reads_one_object_of_its_rollout_however_many_ask_for_it(site: Read) -> None:
    site.declares_tier("new")
    deliver, read = site.cloud._deliver, list[int]()

    def counted(waiting: Waiting) -> None:
        site.store.clear()
        deliver(waiting)
        if waiting.topic == RelabelRequest.TOPIC:
            read.append(site.store.reads(f"rollouts/{site.rollout}/0"))

    site.cloud._deliver = counted  # type: ignore[method-assign]
    site.starts()
    assert read == [1, 1, 1]
