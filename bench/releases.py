"""What a long chain of releases and many nodes with one of their own cost: 10,000 acts, 100,000 nodes of which 50,000 have an entry.

    python -m bench.releases [--acts N] [--nodes N] [--own N] [--runs N]

Writes the chain directly, as its acts would have. For each store and each piece of work: the requests that it made of the store, its
milliseconds, and the ratio to a bare repetition of the same requests with the same bytes (both medians of the runs, taken in turns).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from shared.adapters.store import open_store
from shared.domain.labels.releases import Cause, Entry, State
from shared.ledger import releases
from shared.ledger.releases import Releases
from shared.ledger.revisions import Revisions
from shared.ports import ObjectStore

CLUSTER = "c"
AT = datetime(2026, 11, 21, tzinfo=UTC)
PART = 391
"""Nodes of one part where 100,000 change."""


class Recorded:
    """A store that keeps what it was asked, to ask it once more."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def recorded(*args: Any) -> Any:
            self.asked.append((name, args))
            return method(*args)

        return recorded

    def again(self) -> float:
        """Seconds that the same requests take alone; what was written is written beside it."""
        asked = [(name, (f"bare/{time.monotonic_ns()}/{args[0]}", *args[1:]) if name == "create" else args) for name, args in self.asked]
        began = time.perf_counter()
        for name, args in asked:
            getattr(self._inner, name)(*args)
        return time.perf_counter() - began


def node(number: int) -> str:
    """A node's name."""
    return f"node-{number:06}.site.example"


def grow(store: ObjectStore, acts: int, own: int) -> None:
    """A chain of so many acts; by the newest, so many nodes have an entry of their own."""
    for k in range(1, acts):
        body = msgspec.json.encode(State(base=1, base_k=1, cause=Cause("action", f"a{k}", 1), by="bench", at=AT))
        store.create(f"releases/{CLUSTER}/{k:06}.json", body)
    names = {node(number): Entry(1 + number % (acts - 1), 2, action=f"a{number}") for number in range(own)}
    newest = State(base=1, base_k=1, names=names, cause=Cause("action", f"a{acts}", 2), by="bench", at=AT)
    kept = Releases(store, Revisions(store))._kept(CLUSTER, newest, None)
    store.create(f"releases/{CLUSTER}/{acts:06}.json", msgspec.json.encode(kept))
    for k in range(acts - releases.HINTS + 1, acts + 1):
        store.create(f"release-heads/{CLUSTER}/{k:06}", b"")


class Bench:
    """One store with its chain."""

    def __init__(self, url: str, acts: int, nodes: int, own: int) -> None:
        self._store, self._nodes = open_store(url), nodes
        self._turn = 0
        grow(self._store, acts, own)

    def _chain(self, recorded: Recorded, *, knows: bool = False) -> Releases:
        """The chain in a process that knows nothing, or its newest state with all names; the bench's own actions run."""
        chain = Releases(recorded, Revisions(recorded), lambda action: not action.startswith("bench"))  # type: ignore[arg-type]
        if knows:
            chain.head(CLUSTER).names()
        return chain

    def _acted(self) -> tuple[str, int]:
        self._turn += 1
        return f"bench{self._turn}", self._chain(Recorded(self._store)).head(CLUSTER).k

    def work(self) -> dict[str, Callable[[Recorded], Callable[[], object]]]:
        """Each piece of work: what is prepared is not measured."""
        return {
            "cold look at one node": self._cold,
            "warm look at one node": self._warm,
            f"warm look at the {PART} nodes of a part": self._part,
            "release to one node": self._release,
            "release to every node": self._release_all,
            "stop of a site action, half of it done": self._stop,
        }

    def _cold(self, recorded: Recorded) -> Callable[[], object]:
        chain = self._chain(recorded)
        return lambda: chain.head(CLUSTER).mark(node(7))

    def _warm(self, recorded: Recorded) -> Callable[[], object]:
        chain = self._chain(recorded, knows=True)
        return lambda: chain.head(CLUSTER).mark(node(7))

    def _part(self, recorded: Recorded) -> Callable[[], object]:
        chain = self._chain(recorded, knows=True)
        return lambda: [chain.head(CLUSTER, 3600).mark(node(number)) for number in range(PART)]

    def _release(self, recorded: Recorded) -> Callable[[], object]:
        action, k = self._acted()
        chain = self._chain(recorded, knows=True)
        return lambda: chain.to_names(CLUSTER, action, 3, [node(self._turn)], since=k, by="bench", at=AT)

    def _release_all(self, recorded: Recorded) -> Callable[[], object]:
        action, k = self._acted()
        chain = self._chain(recorded, knows=True)
        began = self._turn

        def act() -> None:
            chain.to_all(CLUSTER, action, 3 + began, since=k, by="bench", at=AT)

        return act

    def _stop(self, recorded: Recorded) -> Callable[[], object]:
        action, k = self._acted()
        self._chain(Recorded(self._store)).to_all(CLUSTER, action, 3 + self._turn, since=k, by="bench", at=AT)
        chain = self._chain(recorded, knows=True)
        done = [node(number) for number in range(self._nodes // 2)]
        return lambda: chain.take_back(CLUSTER, action, done, since=k, by="bench", at=AT)

    def measured(self, prepare: Callable[[Recorded], Callable[[], object]], runs: int) -> tuple[Counter[str], float, float]:
        """Requests of one run, and the median seconds of the work and of its bare requests."""
        taken, bare = list[float](), list[float]()
        for _ in range(runs):
            recorded = Recorded(self._store)
            act = prepare(recorded)
            recorded.asked.clear()
            began = time.perf_counter()
            act()
            taken.append(time.perf_counter() - began)
            bare.append(recorded.again())
        return Counter(name for name, _ in recorded.asked), statistics.median(taken), statistics.median(bare)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acts", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--own", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    for kind in ("memory", "folder"):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench("memory:" if kind == "memory" else f"file:{folder}", asked.acts, asked.nodes, asked.own)
            print(f"{kind}: {asked.acts} acts, {asked.nodes} nodes, {asked.own} with an entry of their own")
            for name, prepare in bench.work().items():
                requests, seconds, bare = bench.measured(prepare, asked.runs)
                counted = ", ".join(f"{count} {what}" for what, count in sorted(requests.items())) or "nothing"
                ratio = f"{seconds / bare:.1f} times its bare requests" if requests else "from memory"
                print(f"  {name:42} {1000 * seconds:9.2f} ms, {ratio} ({counted})")


if __name__ == "__main__":
    main()
