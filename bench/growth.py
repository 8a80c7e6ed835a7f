"""What a long past costs: 100,000 past actions and 10,000 revisions beside 100 and 20, in memory and in a folder.

    python -m bench.growth [--actions N] [--revisions N] [--runs N]

Writes the past directly, as the ledger would have. Prints one JSON document: for each store and each piece of work the milliseconds
with all and with a little of the past (median of the runs, each in a ledger that knows nothing yet), and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta

import yaml
from ulid import ULID

from functions.api import standing
from functions.api.fleet import look
from functions.result_rollup.main import sweep
from local.cloud.embedded import Cloud
from shared import telemetry
from shared.domain.actions import ActionOutcome, ActionRequest
from shared.domain.documents.reading import Source
from shared.ledger.actions import Actions
from shared.ledger.history import DONE
from shared.ledger.revisions import HEADS, HEADS_KEPT, Revisions, revision_key
from shared.messages import RelabelRequest
from shared.work.intake import accept
from shared.world import Settings, World

NODES = ("n1", "n2", "n3")
LITTLE_ACTIONS, LITTLE_REVISIONS = 100, 20
"""The past of the site that it is held against: a list of 20 has as much to show."""


def documents(label: str) -> list[Source]:
    """A policy for three nodes."""
    spec = {"nodes": {"names": list(NODES)}, "labels": {"rack": label}}
    policy = {"apiVersion": "hullmark.dev/v1", "kind": "NodeLabelPolicy", "metadata": {"name": "p"}, "spec": spec}
    return [Source("site.yaml", yaml.safe_dump(policy).encode())]


def site(url: str) -> Cloud:
    """A site with one revision, deployed."""
    cloud = Cloud(Settings(store=url, cluster="simulated:unused"), workers=1)
    world = cloud.world
    commit(world, "r0")
    world.revisions.tag(1, "site-action-success", "bench", world.clock())
    world.store.create(DONE, b"")
    return cloud


def commit(world: World, label: str) -> None:
    """Stage and commit."""
    world.revisions.stage("site", documents(label), "bench", world.clock())
    world.revisions.commit("bench", world.clock())


def grow(world: World, actions: int, revisions: int) -> None:
    """Past actions of the last 80 days, all ended, and revisions like the first one."""
    store, now, ledger = world.store, world.clock(), Actions(world.store)
    for number in range(actions):
        at = now - timedelta(days=80) * (1 + number) / (actions + 1)
        action = str(ULID.from_datetime(at))
        asked = {"id": action, "name": "update_site", "cluster": "default", "revision": 1, "requested_by": "bench"}
        ledger.accept(ActionRequest.model_validate({**asked, "requested_at": at, "deadline": at}))
        ledger.end(action, ActionOutcome(result="success", finished_at=at, revision=1, counts={"changed": 3}))
        ledger.mark_announced(action)
    first = world.revisions.get(1).about
    objects = {key: store.get(key) or b"" for key in store.keys(f"revisions/000001/{first.objects}/")}
    staged = store.get(first.collections["site"].staged) or b""
    for number in range(2, revisions + 1):
        taken = f"staged/site/{number:06}.json"
        kept = {"site": first.collections["site"].model_copy(update={"staged": taken})}
        store.create(taken, staged)
        for key, body in objects.items():
            store.create(key.replace("/000001/", f"/{number:06}/"), body)
        about = first.model_copy(update={"number": number, "collections": kept, "seen": {"site": taken}})
        store.create(revision_key(number), about.to_bytes())
        store.create(f"tags/site-action-success/{number:06}.json", b"{}")
        if number > revisions - HEADS_KEPT:
            store.create(f"{HEADS}{number:06}", b"")


def lists_documents(world: World) -> None:
    """What `hullmark documents list` does."""
    listed = world.revisions.listed(20)
    world.revisions.tags_of([about.number for about, _ in listed])
    world.revisions.buffers()


WORK: dict[str, Callable[[World, int], object]] = {
    "list": lambda world, run: world.actions.ids(limit=20),
    "documents": lambda world, run: lists_documents(world),
    "newest": lambda world, run: Revisions(world.store).newest(),
    "page": lambda world, run: look(world),
    "sweep": lambda world, run: sweep(world, world.clock()),
    "accept": lambda world, run: accept(RelabelRequest(target_nodes=["n1"]), str(ULID()), world, world.clock()),
    "commit": lambda world, run: commit(world, f"r{run}"),
}


def measured(cloud: Cloud, runs: int) -> dict[str, float]:
    """Milliseconds of each piece of work, the median of the runs."""
    given, found = cloud.world, {}
    sweep(given, given.clock())
    for name, work in WORK.items():
        taken = []
        for run in range(1, runs + 1):
            standing._KEPT.clear()
            world = World(given.store, given.bus, given.open_cluster, given.settings, given.clock, given.open_fleet)
            began = time.perf_counter()
            work(world, run)
            taken.append(1000 * (time.perf_counter() - began))
        found[name] = statistics.median(taken)
    return found


def main() -> None:
    """Measure both stores and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, default=100_000)
    parser.add_argument("--revisions", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    asked = parser.parse_args()
    telemetry.write_to(None)
    answer: dict[str, object] = {"actions": asked.actions, "revisions": asked.revisions, "runs": asked.runs}
    for kind in ("memory", "folder"):
        with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
            none, grown = (site("memory:" if kind == "memory" else f"file:{folder}") for folder in (few, many))
            grow(none.world, LITTLE_ACTIONS, LITTLE_REVISIONS)
            print(f"{kind}: writing {asked.actions} actions and {asked.revisions} revisions", file=sys.stderr)
            grow(grown.world, asked.actions, asked.revisions)
            before, after = measured(none, asked.runs), measured(grown, asked.runs)
            answer[kind] = {
                name: {"ms": round(after[name], 2), "ms_without": round(before[name], 2), "ratio": round(after[name] / before[name], 2)}
                for name in WORK
            }
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
